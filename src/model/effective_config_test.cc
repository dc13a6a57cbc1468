// CBOR form of the effective configuration: round trip, and every field checked (CFG-01).
#include "model/effective_config.h"

#include <gtest/gtest.h>

#include <set>

#include "codec/json.h"
#include "model/llama.h"

namespace slm {
namespace {

constexpr const char* kYarn = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 256, "pad_token_id": 7, "eos_token_id": [5, 9], "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 128, "mscale": 0.7,
                   "mscale_all_dim": 0.9}})";

EffectiveConfig Build(const char* text) {
  const auto document = json::Parse(text);
  EXPECT_TRUE(document.has_value());
  const auto built = BuildLlamaConfig(document->root(), nullptr, FamilyProfile::Llama());
  EXPECT_TRUE(built.has_value()) << built.error().ToString();
  return built->config;
}

TEST(EffectiveConfigTest, RoundTrip) {
  const EffectiveConfig config = Build(kYarn);
  const cbor::Map map = ConfigToCbor(config);
  const auto decoded = cbor::Decode(cbor::Encode(map));
  ASSERT_TRUE(decoded.has_value());
  const auto read = ConfigFromCbor(*decoded->AsMap());
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  EXPECT_EQ(*read, config);
  EXPECT_EQ(cbor::Encode(ConfigToCbor(*read)), cbor::Encode(ConfigToCbor(config)));
  EXPECT_TRUE(json::Parse(ConfigToJson(config)).has_value());
}

TEST(EffectiveConfigTest, EachFieldIsNeededAndChecked) {
  const cbor::Map map = ConfigToCbor(Build(kYarn));
  const std::set<std::string> optional = {"bos_token_id", "pad_token_id", "rope_mscale",
                                          "rope_mscale_all_dim"};
  for (const auto& [name, value] : map) {
    cbor::Map without;
    for (const auto& [other, kept] : map) {
      if (other != name) without.Set(other, kept);
    }
    EXPECT_EQ(ConfigFromCbor(without).has_value(), optional.contains(name)) << name;
    cbor::Map wrong = map;
    wrong.Set(name, cbor::Array{cbor::Array{}});
    const auto read = ConfigFromCbor(wrong);
    ASSERT_FALSE(read.has_value()) << name;
    EXPECT_EQ(read.error().field, "config." + name);
  }
  cbor::Map more = map;
  more.Set("attn_magic", 1);
  EXPECT_EQ(ConfigFromCbor(more).error().code, ErrorCode::kSchemaUnknownKey);
}

TEST(EffectiveConfigTest, RefusesImpossibleValues) {
  const cbor::Map map = ConfigToCbor(Build(kYarn));
  const std::vector<std::pair<const char*, cbor::Value>> edits = {
      {"n_layers", 0},
      {"n_kv_heads", 3},
      {"head_dim", 15},
      {"padded_vocab_size", 301},
      {"vocab_size", uint64_t{1} << 40},
      {"eos_token_ids", cbor::Array{9, 5}},
      {"eos_token_ids", cbor::Array{300}},
      {"pad_token_id", 300},
      {"norm_eps_f32", Bytes{0, 0, 0, 0}},
      {"attention_scale_f32", Bytes{0, 0, 0x80, 0x3f}},
      {"rope_attention_factor_f32", Bytes{0, 0, 0x80, 0x40}},
      {"rope_inv_freq", Bytes(8)},
      {"rope_inv_freq", Bytes(32)},
      {"rope_theta", Bytes{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
      {"rope_type", "default"},
      {"activation", "relu"},
      {"sliding_window", "64"},
      {"tensor_parallel", 2},
      {"head_bias", true},
      {"source_dtype", "f64"},
      {"family", "qwen2"},
  };
  for (const auto& [name, value] : edits) {
    cbor::Map wrong = map;
    wrong.Set(name, value);
    const auto read = ConfigFromCbor(wrong);
    ASSERT_FALSE(read.has_value()) << name;
    EXPECT_EQ(read.error().code, ErrorCode::kSchemaValue) << name;
  }
}

}  // namespace
}  // namespace slm
