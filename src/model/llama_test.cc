// config.json and generation_config.json of family llama: every consumed key changes the effective
// configuration, everything else is refused or recorded (CFG-01, CFG-02, CFG-03, LVL-02, LVL-03, ACQ-12).
#include "model/llama.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace slm {
namespace {

using Members = std::map<std::string, std::string>;

const Members& Base() {
  static const Members base = {{"model_type", R"("llama")"},
                               {"architectures", R"(["LlamaForCausalLM"])"},
                               {"vocab_size", "300"},
                               {"hidden_size", "64"},
                               {"intermediate_size", "96"},
                               {"num_hidden_layers", "2"},
                               {"num_attention_heads", "4"},
                               {"num_key_value_heads", "2"},
                               {"max_position_embeddings", "256"}};
  return base;
}

std::string Text(const Members& members) {
  std::string text = "{";
  for (const auto& [key, value] : members) text += (text.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
  return text + "}";
}

Members With(std::initializer_list<std::pair<const std::string, std::string>> changes) {
  Members members = Base();
  for (const auto& [key, value] : changes) members[key] = value;
  return members;
}

Result<ConfigResult> Build(const Members& config, const Members* generation = nullptr,
                           const ConfigPolicy& policy = {}) {
  const auto document = json::Parse(Text(config));
  EXPECT_TRUE(document.has_value()) << Text(config);
  if (generation == nullptr)
    return BuildLlamaConfig(document->root(), nullptr, FamilyProfile::Llama(), policy);
  const auto other = json::Parse(Text(*generation));
  EXPECT_TRUE(other.has_value());
  const json::Value root = other->root();
  return BuildLlamaConfig(document->root(), &root, FamilyProfile::Llama(), policy);
}

// Refusal whose offset points at `at` in the text.
void ExpectRefused(const Members& config, ErrorCode code, const std::string& field, const std::string& at) {
  const auto built = Build(config);
  ASSERT_FALSE(built.has_value()) << Text(config);
  EXPECT_EQ(Info(built.error().code).name, Info(code).name) << built.error().ToString();
  EXPECT_EQ(built.error().field, field);
  EXPECT_EQ(built.error().file, "config.json");
  ASSERT_TRUE(built.error().byte_offset.has_value());
  EXPECT_EQ(Text(config).substr(*built.error().byte_offset, at.size()), at);
}

TEST(LlamaConfig, Cfg03DefaultsOfThePinnedSource) {
  const auto built = Build({{"model_type", R"("llama")"}, {"architectures", R"(["LlamaForCausalLM"])"}});
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  // LlamaConfig() of transformers 5.24.0, printed by to_dict().
  const EffectiveConfig& config = built->config;
  EXPECT_EQ(config.vocab_size, 32000u);
  EXPECT_EQ(config.hidden_size, 4096u);
  EXPECT_EQ(config.intermediate_size, 11008u);
  EXPECT_EQ(config.n_layers, 32u);
  EXPECT_EQ(config.n_heads, 32u);
  EXPECT_EQ(config.n_kv_heads, 32u);
  EXPECT_EQ(config.head_dim, 128u);
  EXPECT_EQ(config.max_positions, 2048u);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.type, RopeType::kDefault);
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.q_bias);
  EXPECT_EQ(config.bos_token_id, 1u);
  EXPECT_FALSE(config.pad_token_id.has_value());
  // generate() of a checkpoint without any declared EOS stops nowhere, whatever the class default.
  EXPECT_TRUE(config.eos_token_ids.empty());
}

// Fault kind 2: each consumed key changes the effective configuration.
TEST(LlamaConfig, EveryConsumedKeyIsRead) {
  const std::map<std::string, Members> changes = {
      {"vocab_size", With({{"vocab_size", "301"}})},
      {"hidden_size", With({{"hidden_size", "128"}})},
      {"intermediate_size", With({{"intermediate_size", "97"}})},
      {"num_hidden_layers", With({{"num_hidden_layers", "3"}})},
      {"num_attention_heads", With({{"num_attention_heads", "8"}})},
      {"num_key_value_heads", With({{"num_key_value_heads", "4"}})},
      {"head_dim", With({{"head_dim", "32"}})},
      {"hidden_act", With({{"hidden_act", R"("gelu")"}})},
      {"max_position_embeddings", With({{"max_position_embeddings", "512"}})},
      {"rms_norm_eps", With({{"rms_norm_eps", "1e-5"}})},
      {"pad_token_id", With({{"pad_token_id", "0"}})},
      {"bos_token_id", With({{"bos_token_id", "2"}})},
      {"eos_token_id", With({{"eos_token_id", "[2, 5]"}})},
      {"tie_word_embeddings", With({{"tie_word_embeddings", "true"}})},
      {"rope_parameters", With({{"rope_parameters", R"({"rope_type": "default", "rope_theta": 7e4})"}})},
      {"rope_scaling", With({{"rope_scaling", R"({"type": "linear", "factor": 2.0})"}})},
      {"rope_theta", With({{"rope_theta", "500000.0"}})},
      {"original_max_position_embeddings", With({{"rope_scaling", R"({"type": "yarn", "factor": 2.0})"},
                                                 {"original_max_position_embeddings", "64"}})},
      {"attention_bias", With({{"attention_bias", "true"}})},
      {"mlp_bias", With({{"mlp_bias", "true"}})},
      {"dtype", With({{"dtype", R"("bfloat16")"}})},
      {"torch_dtype", With({{"torch_dtype", R"("float16")"}})},
  };
  const auto base = Build(Base());
  ASSERT_TRUE(base.has_value()) << base.error().ToString();
  const auto yarn = Build(With({{"rope_scaling", R"({"type": "yarn", "factor": 2.0})"}}));
  ASSERT_TRUE(yarn.has_value());
  std::set<std::string> consumed;
  for (const auto& [key, rule] : FamilyProfile::Llama().config_keys()) {
    if (rule.key_class == KeyRule::Class::kConsumed) consumed.insert(key);
  }
  for (const auto& [key, members] : changes) {
    const auto built = Build(members);
    ASSERT_TRUE(built.has_value()) << key << built.error().ToString();
    EXPECT_FALSE(built->config == base->config) << key;
    if (key == "original_max_position_embeddings") EXPECT_FALSE(built->config == yarn->config);
    consumed.erase(key);
  }
  // These have one legal value each, so a change is a refusal.
  EXPECT_EQ(consumed, (std::set<std::string>{"architectures", "layer_types", "model_type"}));
  ExpectRefused(With({{"model_type", R"("mistral")"}}), ErrorCode::kCfgArchitecture, "model_type",
                "\"mistral\"");
  ExpectRefused(With({{"architectures", R"(["LlamaModel"])"}}), ErrorCode::kCfgArchitecture, "architectures",
                "[\"LlamaModel\"]");
  // And every field named by a consumed key is among the recorded ones.
  std::set<std::string> recorded;
  for (const FieldRecord& record : yarn->records) recorded.insert(record.name);
  for (const auto& [key, rule] : FamilyProfile::Llama().config_keys()) {
    if (rule.key_class == KeyRule::Class::kConsumed) EXPECT_TRUE(recorded.contains(rule.field)) << rule.field;
  }
}

// Every key of the profile that is not consumed: neutral values pass and are recorded, others stop.
TEST(LlamaConfig, Cfg02NeutralValuesOnly) {
  const auto base = Build(Base());
  for (const auto& [key, rule] : FamilyProfile::Llama().config_keys()) {
    if (rule.key_class == KeyRule::Class::kConsumed) continue;
    if (!rule.types.empty()) {
      const auto built = Build(With({{key, "[1, {\"x\": null}]"}}));
      ASSERT_FALSE(built.has_value()) << key;
      EXPECT_EQ(built.error().code, ErrorCode::kCfgType) << key;
      continue;
    }
    if (rule.key_class == KeyRule::Class::kSampling || !rule.values) {
      const auto built = Build(With({{key, "[1, {\"x\": null}]"}}));
      ASSERT_TRUE(built.has_value()) << key;
      EXPECT_TRUE(built->config == base->config) << key;
      EXPECT_EQ(built->ignored.size() + built->sampling.size(), 1u) << key;
      continue;
    }
    for (const std::string& value : *rule.values) {
      const auto built = Build(With({{key, value}}));
      ASSERT_TRUE(built.has_value()) << key << " " << value;
      EXPECT_TRUE(built->config == base->config) << key;
      ASSERT_EQ(built->ignored.size(), 1u);
      EXPECT_EQ(built->ignored[0].key, key);
      EXPECT_FALSE(built->ignored[0].reason.empty());
    }
    ExpectRefused(With({{key, "12345"}}), ErrorCode::kCfgValue, key, "12345");
  }
}

TEST(LlamaConfig, G05UnknownKeys) {
  ExpectRefused(With({{"attn_magic", "1"}}), ErrorCode::kCfgUnknownField, "attn_magic", "\"attn_magic\"");
  ExpectRefused(With({{"uploader_comment", "1"}}), ErrorCode::kCfgUnclassified, "uploader_comment",
                "\"uploader_comment\"");
  // A person's decision helps with the second, never with the first.
  ConfigPolicy policy;
  policy.documentary_keys = {{"config.json:uploader_comment", "abc"}, {"config.json:attn_magic", "abc"}};
  const auto decided = Build(With({{"uploader_comment", "1"}}), nullptr, policy);
  ASSERT_TRUE(decided.has_value());
  EXPECT_NE(decided->ignored.at(0).reason.find("abc"), std::string::npos);
  EXPECT_EQ(Build(With({{"attn_magic", "1"}}), nullptr, policy).error().code, ErrorCode::kCfgUnknownField);
}

TEST(LlamaConfig, G03TokenRange) {
  ExpectRefused(With({{"eos_token_id", "300"}}), ErrorCode::kCfgEosRange, "eos_token_id", "300");
  ExpectRefused(With({{"eos_token_id", "[2, -1]"}}), ErrorCode::kCfgEosRange, "eos_token_id[1]", "-1");
  ExpectRefused(With({{"pad_token_id", "-2"}}), ErrorCode::kCfgEosRange, "pad_token_id", "-2");
  ExpectRefused(With({{"bos_token_id", "-1"}}), ErrorCode::kCfgEosRange, "bos_token_id", "-1");
  // The pinned source builds a model from -1, and no step of inference reads it.
  EXPECT_FALSE(Build(With({{"pad_token_id", "-1"}}))->config.pad_token_id.has_value());
  ExpectRefused(With({{"bos_token_id", "1.0"}}), ErrorCode::kCfgType, "bos_token_id", "1.0");
  EXPECT_FALSE(Build(With({{"bos_token_id", "null"}}))->config.bos_token_id.has_value());
}

// CFG-02: what the pinned source does not load has no model to be equal to.
TEST(LlamaConfig, Cfg02WhatThePinnedSourceRefusesIsRefused) {
  std::ifstream file(SLM_SOURCE_DIR "/vectors/config/refused.json", std::ios::binary);
  const auto vectors = json::Parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(vectors.has_value()) << vectors.error().ToString();
  const auto members_of = [&](std::string_view name) {
    Members members;
    for (const json::Value member : vectors->root().Find(name)->children())
      members[std::string(member.key())] = std::string(member.source_text());
    return members;
  };
  const Members config = members_of("base");
  const Members generation = members_of("generation_base");
  ASSERT_TRUE(Build(config, &generation).has_value());
  size_t n_values = 0;
  for (const std::string_view kind : {"config", "generation_config"}) {
    for (const json::Value key : vectors->root().Find(kind)->children()) {
      for (const json::Value value : key.children()) {
        Members one = config;
        Members other = generation;
        (kind == "config" ? one : other)[std::string(key.key())] = std::string(value.string());
        const auto built = kind == "config" ? Build(one) : Build(one, &other);
        EXPECT_FALSE(built.has_value()) << kind << ": " << key.key() << " = " << value.string();
        ++n_values;
      }
    }
  }
  EXPECT_GT(n_values, 700u);
}

TEST(LlamaConfig, LayerTypesSayFullAttention) {
  const auto base = Build(Base());
  const auto built = Build(With({{"layer_types", R"(["full_attention", "full_attention"])"}}));
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  EXPECT_TRUE(built->config == base->config);
  EXPECT_TRUE(std::any_of(built->records.begin(), built->records.end(), [](const FieldRecord& row) {
    return row.name == "attention_pattern" && row.publisher.find("full_attention") != std::string::npos;
  }));
  ExpectRefused(With({{"layer_types", R"(["full_attention"])"}}), ErrorCode::kCfgShape, "layer_types", "[");
  ExpectRefused(With({{"layer_types", R"(["full_attention", "sliding_attention"])"}}), ErrorCode::kCfgValue,
                "layer_types[1]", R"("sliding_attention")");
  ExpectRefused(With({{"layer_types", R"("full_attention")"}}), ErrorCode::kCfgType, "layer_types", "\"full");
}

TEST(LlamaConfig, G06Shapes) {
  ExpectRefused(With({{"num_attention_heads", "5"}, {"num_key_value_heads", "5"}}), ErrorCode::kCfgShape,
                "num_attention_heads", "5");
  ExpectRefused(With({{"num_key_value_heads", "3"}}), ErrorCode::kCfgShape, "num_key_value_heads", "3");
  ExpectRefused(With({{"head_dim", "7"}}), ErrorCode::kCfgValue, "head_dim", "7");
  ExpectRefused(With({{"num_attention_heads", "64"}, {"num_key_value_heads", "64"}}), ErrorCode::kCfgShape,
                "num_attention_heads", "64");           // head_dim 1, derived
  const auto free = Build(With({{"head_dim", "24"}}));  // 4 * 24 != 64
  ASSERT_TRUE(free.has_value());
  EXPECT_EQ(free->config.head_dim, 24u);
  EXPECT_EQ(Build(With({{"head_dim", "null"}, {"num_key_value_heads", "null"}}))->config.n_kv_heads, 4u);
}

TEST(LlamaConfig, TypesAsThePinnedSourceDemands) {
  ExpectRefused(With({{"hidden_size", "64.0"}}), ErrorCode::kCfgType, "hidden_size", "64.0");
  ExpectRefused(With({{"hidden_size", "\"64\""}}), ErrorCode::kCfgType, "hidden_size", "\"64\"");
  ExpectRefused(With({{"hidden_size", "true"}}), ErrorCode::kCfgType, "hidden_size", "true");
  ExpectRefused(With({{"attention_bias", "1"}}), ErrorCode::kCfgType, "attention_bias", "1");
  ExpectRefused(With({{"rms_norm_eps", "1"}}), ErrorCode::kCfgType, "rms_norm_eps", "1");
  ExpectRefused(With({{"hidden_act", "null"}}), ErrorCode::kCfgType, "hidden_act", "null");
  ExpectRefused(With({{"hidden_act", R"("gelu_new")"}}), ErrorCode::kCfgValue, "hidden_act", "\"gelu_new\"");
  ExpectRefused(With({{"num_hidden_layers", "0"}}), ErrorCode::kCfgValue, "num_hidden_layers", "0");
  ExpectRefused(With({{"dtype", R"("float64")"}}), ErrorCode::kCfgDtype, "dtype", "\"float64\"");
  ExpectRefused(With({{"dtype", R"("float32")"}, {"torch_dtype", R"("bfloat16")"}}), ErrorCode::kCfgDtype,
                "torch_dtype", "\"bfloat16\"");
}

TEST(LlamaConfig, AbsurdValuesAreNamed) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const char* value :
         {"0", "-1", "1099511627776", "18446744073709551616", "99999999999999999999999999"}) {
      ExpectRefused(With({{key, value}}), ErrorCode::kCfgValue, key, value);
    }
  }
  ExpectRefused(With({{"num_hidden_layers", "4097"}}), ErrorCode::kCfgValue, "num_hidden_layers", "4097");
  ExpectRefused(With({{"max_position_embeddings", "16777217"}}), ErrorCode::kCfgValue,
                "max_position_embeddings", "16777217");
  ExpectRefused(With({{"head_dim", "65538"}}), ErrorCode::kCfgValue, "head_dim", "65538");
  for (const char* value : {"0.0", "-1e-5", "1e-60", "1.5", "1e999"}) {
    ExpectRefused(With({{"rms_norm_eps", value}}), ErrorCode::kCfgValue, "rms_norm_eps", value);
  }
  for (const char* value : {"0", "-1", "0.5", "1e31", "1e999"}) {
    ExpectRefused(With({{"rope_theta", value}}), ErrorCode::kCfgValue, "rope_theta", value);
  }
}

TEST(LlamaConfig, EosSetOfGenerationConfig) {
  const Members config = With({{"eos_token_id", "2"}});
  const Members inside = {{"eos_token_id", "[7, 2, 2]"}};
  EXPECT_EQ(Build(config, &inside)->config.eos_token_ids, (std::vector<uint64_t>{2, 7}));
  EXPECT_EQ(Build(config)->config.eos_token_ids, (std::vector<uint64_t>{2}));
  const Members only = {{"eos_token_id", "9"}};  // config.json declares none: no conflict
  EXPECT_EQ(Build(Base(), &only)->config.eos_token_ids, (std::vector<uint64_t>{9}));
}

TEST(LlamaConfig, G02EosConflict) {
  const Members config = With({{"eos_token_id", "2"}});
  const Members outside = {{"eos_token_id", "[7]"}};
  const Members silent = {{"bos_token_id", "1"}};
  for (const Members* generation : {&outside, &silent}) {
    const auto built = Build(config, generation);
    ASSERT_FALSE(built.has_value());
    EXPECT_EQ(built.error().code, ErrorCode::kCfgConflictEos);
    EXPECT_EQ(built.error().field, "eos_token_id");
    EXPECT_NE(built.error().message.find("config.json: eos_token_id = 2"), std::string::npos);
    EXPECT_NE(built.error().message.find("generation_config.json"), std::string::npos);
  }
  ConfigPolicy policy;
  policy.accepted_conflicts = {"eos_token_id"};
  auto accepted = Build(config, &outside, policy);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->config.eos_token_ids, (std::vector<uint64_t>{7}));
  EXPECT_EQ(accepted->accepted_conflicts.size(), 1u);
  EXPECT_TRUE(Build(config, &silent, policy)->config.eos_token_ids.empty());
  policy.holding = {"config.json#$.eos_token_id"};
  EXPECT_EQ(Build(config, &silent, policy)->config.eos_token_ids, (std::vector<uint64_t>{2}));
}

TEST(LlamaConfig, BosAndPadConflicts) {
  const Members config = With({{"bos_token_id", "1"}, {"pad_token_id", "3"}});
  const Members bos = {{"bos_token_id", "2"}};
  const Members pad = {{"pad_token_id", "4"}};
  EXPECT_EQ(Build(config, &bos).error().code, ErrorCode::kCfgConflictBos);
  EXPECT_EQ(Build(config, &pad).error().code, ErrorCode::kCfgConflictPad);
  const Members equal = {{"bos_token_id", "1"}, {"pad_token_id", "3"}};
  EXPECT_TRUE(Build(config, &equal).has_value());
}

TEST(LlamaConfig, GenerationConfigIsClosed) {
  const Members sampling = {
      {"do_sample", "true"}, {"temperature", "0.6"}, {"top_p", "0.9"}, {"max_length", "4096"}};
  const auto built = Build(Base(), &sampling);
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  EXPECT_EQ(built->sampling.size(), 4u);
  for (const auto& [key, value] : Members{{"repetition_penalty", "1.1"},
                                          {"no_repeat_ngram_size", "3"},
                                          {"min_new_tokens", "1"},
                                          {"suppress_tokens", "[3]"},
                                          {"forced_eos_token_id", "2"},
                                          {"num_beams", "4"},
                                          {"guidance_scale", "1.5"}}) {
    const Members generation = {{key, value}};
    const auto refused = Build(Base(), &generation);
    ASSERT_FALSE(refused.has_value()) << key;
    EXPECT_EQ(refused.error().code, ErrorCode::kCfgValue) << key;
    EXPECT_EQ(refused.error().file, "generation_config.json");
    EXPECT_EQ(refused.error().field, key);
    // What generate() alone reads changes no logit: a person may decide to leave it out.
    ConfigPolicy policy;
    policy.documentary_keys = {{"generation_config.json:" + key, "abc"}};
    const auto decided = Build(Base(), &generation, policy);
    ASSERT_TRUE(decided.has_value()) << key << decided.error().ToString();
    EXPECT_TRUE(std::any_of(decided->ignored.begin(), decided->ignored.end(), [&](const IgnoredKey& row) {
      return row.key == key && row.reason.find("abc") != std::string::npos;
    })) << key;
  }
  // What the model itself reads has no such way out.
  ConfigPolicy policy;
  policy.documentary_keys = {{"config.json:add_cross_attention", "abc"}};
  EXPECT_EQ(Build(With({{"add_cross_attention", "true"}}), nullptr, policy).error().code,
            ErrorCode::kCfgValue);
  const Members unknown = {{"uploader_comment", "1"}};
  EXPECT_EQ(Build(Base(), &unknown).error().code, ErrorCode::kCfgUnclassified);
}

// CFG-02, fault kind 2, for generation_config.json: each key changes what is built, or is recorded with a
// reason, or stops.
TEST(LlamaConfig, Cfg02EveryKeyOfGenerationConfigIsAccountedFor) {
  const Members one_eos = {{"eos_token_id", "2"}};
  const auto base = Build(Base(), &one_eos);
  ASSERT_TRUE(base.has_value());
  for (const auto& [key, rule] : FamilyProfile::Llama().generation_keys()) {
    Members generation = one_eos;
    const bool is_token = key.ends_with("_token_id");
    generation[key] = is_token ? "7" : "[1, {\"x\": null}]";
    const auto built = Build(Base(), &generation);
    if (!built) {
      EXPECT_TRUE(rule.key_class == KeyRule::Class::kConsumed || rule.values || !rule.types.empty()) << key;
      EXPECT_EQ(built.error().field, key);
      continue;
    }
    const bool recorded =
        std::any_of(built->ignored.begin(), built->ignored.end(),
                    [&](const IgnoredKey& row) { return row.key == key && !row.reason.empty(); }) ||
        std::any_of(built->sampling.begin(), built->sampling.end(), [&](const SamplingDeclaration& row) {
          return row.key == "generation_config.json:" + key;
        });
    const bool stated =
        std::any_of(built->records.begin(), built->records.end(), [&](const FieldRecord& row) {
          return (row.publisher + row.undefined).find("generation_config.json: " + key) != std::string::npos;
        });
    EXPECT_TRUE(!(built->config == base->config) || recorded || stated) << key;
  }
}

// LVL-02: columns differ where the publisher, the source and our choice differ.
TEST(LlamaConfig, Lvl02FourColumns) {
  const Members generation = {{"eos_token_id", "[2, 7]"}};
  const auto built = Build(With({{"eos_token_id", "2"}}), &generation);
  ASSERT_TRUE(built.has_value());
  std::map<std::string, FieldRecord> records;
  for (const FieldRecord& record : built->records) {
    EXPECT_TRUE(records.emplace(record.name, record).second) << "twice: " << record.name;
    EXPECT_FALSE(record.publisher.empty() || record.pinned.empty() || record.choice.empty()) << record.name;
  }
  const FieldRecord& eps = records.at("norm_eps");
  EXPECT_EQ(eps.publisher, "not declared");
  EXPECT_NE(eps.pinned.find("models/llama/configuration_llama.py:72: default 1e-06"), std::string::npos)
      << eps.pinned;
  EXPECT_EQ(eps.choice, "1e-06");
  const FieldRecord& eos = records.at("eos_token_ids");
  EXPECT_EQ(eos.publisher, "config.json: eos_token_id = 2; generation_config.json: eos_token_id = [2, 7]");
  EXPECT_EQ(eos.choice, "[2,7]");
  const FieldRecord& frequencies = records.at("rope_inv_freq");
  EXPECT_NE(frequencies.undefined.find("last bit differs"), std::string::npos);
  EXPECT_NE(frequencies.choice, frequencies.pinned);
}

TEST(LlamaTensorsTest, NamesAndOrder) {
  const auto built = Build(With({{"tie_word_embeddings", "true"}, {"attention_bias", "true"}}));
  const std::vector<TensorSpec> specs = LlamaTensors(built->config);
  ASSERT_EQ(specs.size(), 1 + 2 * 13 + 2u);
  EXPECT_EQ(specs.front().name, "embed.weight");
  EXPECT_EQ(specs[2].name, "layers.0.attn.q.weight");
  EXPECT_EQ(specs[2].source_name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(specs[3].name, "layers.0.attn.q.bias");
  EXPECT_EQ(specs[4].shape, (std::vector<uint64_t>{32, 64}));
  EXPECT_EQ(specs.back().name, "head.weight");
  EXPECT_EQ(specs.back().alias_of, 0u);
  EXPECT_EQ(LlamaLayerOf("model.layers.12.mlp.up_proj.weight"), 12u);
  EXPECT_EQ(LlamaLayerOf("model.layers.4294967296.x"), uint64_t{1} << 32);
  EXPECT_EQ(LlamaLayerOf("model.layers.99999999999999999999.x"), UINT64_MAX);
  EXPECT_FALSE(LlamaLayerOf("model.layers.012.x").has_value());
  EXPECT_FALSE(LlamaLayerOf("model.layers.x.y").has_value());
  EXPECT_TRUE(IsLlamaRotaryBuffer("model.layers.3.self_attn.rotary_emb.inv_freq"));
}

TEST(LlamaConfig, RealConfigurations) {
  for (const char* path : {SLM_SHARED_DIR "/models/stories260k/hf"}) {
    std::ifstream in(std::string(path) + "/config.json");
    std::ifstream generation_in(std::string(path) + "/generation_config.json");
    if (!in || !generation_in) {
      GTEST_SKIP() << "not-run: model: stories260k is not there";
    }
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::string other{std::istreambuf_iterator<char>(generation_in), std::istreambuf_iterator<char>()};
    const auto config = json::Parse(text);
    const auto generation = json::Parse(other);
    const json::Value root = generation->root();
    const auto built = BuildLlamaConfig(config->root(), &root, FamilyProfile::Llama());
    ASSERT_TRUE(built.has_value()) << built.error().ToString();
    EXPECT_EQ(built->config.head_dim, 8u);
    EXPECT_EQ(built->config.eos_token_ids, (std::vector<uint64_t>{2}));
  }
}

}  // namespace
}  // namespace slm
