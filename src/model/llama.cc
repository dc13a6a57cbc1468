#include "model/llama.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "model/llama_reader.h"
#include "model/rope.h"

namespace slm {
namespace {

using llama::ConfigReader;
using llama::Declared;
using llama::DoubleText;
using llama::ErrorAt;
using llama::kConfigFile;
using llama::kGenerationFile;
using llama::TextOf;

bool Contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A set of token ids: one id, a list, or none. `named` is false for null.
struct TokenSet {
  bool named = false;
  std::vector<uint64_t> ids;  // increasing, without duplicates
};

Result<uint64_t> TokenOf(std::string_view file, const json::Value& value, uint64_t vocab_size) {
  if (!value.is_number() || !value.is_integer_text()) {
    return Fail(ErrorAt(ErrorCode::kCfgType, file, value, "a token id must be an integer"));
  }
  const std::optional<uint64_t> id = value.AsUint();
  if (!id || *id >= vocab_size) {
    return Fail(ErrorAt(ErrorCode::kCfgEosRange, file, value,
                        "token id " + std::string(value.source_text()) + " is outside the vocabulary of " +
                            std::to_string(vocab_size)));
  }
  return *id;
}

Result<TokenSet> TokensOf(std::string_view file, const json::Value& value, uint64_t vocab_size) {
  TokenSet set;
  if (value.is_null()) return set;
  set.named = true;
  if (!value.is_array()) {
    SLM_ASSIGN(const uint64_t id, TokenOf(file, value, vocab_size));
    set.ids.push_back(id);
    return set;
  }
  for (const json::Value item : value.children()) {
    SLM_ASSIGN(const uint64_t id, TokenOf(file, item, vocab_size));
    set.ids.push_back(id);
  }
  std::sort(set.ids.begin(), set.ids.end());
  set.ids.erase(std::unique(set.ids.begin(), set.ids.end()), set.ids.end());
  return set;
}

std::string ListText(const std::vector<uint64_t>& ids) {
  std::string text = "[";
  for (size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return text + "]";
}

class Builder {
 public:
  Builder(const json::Value& config, const json::Value* generation, const FamilyProfile& profile,
          const ConfigPolicy& policy)
      : generation_(generation), profile_(profile), policy_(policy), reader_(config, profile, &result_) {}

  Result<ConfigResult> Build(std::optional<DType> checkpoint_dtype) {
    SLM_TRY(CheckArchitecture());
    SLM_TRY(ClassifyFiles());
    SLM_TRY(ReadSizes());
    SLM_TRY(ReadHeads());
    SLM_TRY(ReadLayerTypes());
    SLM_TRY(ReadActivation());
    SLM_TRY(ReadNorm());
    SLM_TRY(llama::ReadRope(&reader_));
    SLM_TRY(ReadDtype(checkpoint_dtype));
    SLM_TRY(ReadTokens());
    SLM_TRY(ReadEos());
    RecordFixed();
    std::sort(result_.records.begin(), result_.records.end(),
              [](const FieldRecord& a, const FieldRecord& b) { return a.name < b.name; });
    return std::move(result_);
  }

  Status ClassifyFiles() {
    SLM_TRY(Classify(reader_.root(), kConfigFile));
    if (generation_ != nullptr && !generation_->is_object()) {
      return Fail(ErrorAt(ErrorCode::kCfgType, kGenerationFile, *generation_, "must be an object"));
    }
    if (generation_ != nullptr) SLM_TRY(Classify(*generation_, kGenerationFile));
    return CheckDecisionsUsed();
  }

 private:
  EffectiveConfig& config() { return result_.config; }

  Status CheckArchitecture() {
    const json::Value& root = reader_.root();
    if (!root.is_object()) {
      return Fail(ErrorAt(ErrorCode::kCfgType, kConfigFile, root, "must be an object"));
    }
    const std::optional<json::Value> type = root.Find("model_type");
    const std::optional<json::Value> list = root.Find("architectures");
    if (!type || !list) {
      return Fail(ErrorAt(ErrorCode::kCfgArchitecture, kConfigFile, root,
                          std::string(type ? "architectures" : "model_type") + " is absent")
                      .Field(type ? "architectures" : "model_type"));
    }
    if (!type->is_string() || !Contains(profile_.model_types(), type->string())) {
      return Fail(ErrorAt(ErrorCode::kCfgArchitecture, kConfigFile, *type, "is not a type of family llama"));
    }
    if (!list->is_array() || list->size() != 1 || !list->First()->is_string() ||
        !Contains(profile_.architectures(), list->First()->string())) {
      return Fail(ErrorAt(ErrorCode::kCfgArchitecture, kConfigFile, *list,
                          "must be [\"LlamaForCausalLM\"], and agree with " + Declared(kConfigFile, *type)));
    }
    config().family = profile_.family();
    config().architecture = list->First()->string();
    reader_.Record("family", Declared(kConfigFile, *type), reader_.SourceOf("model_type"), "",
                   config().family);
    reader_.Record("architecture", Declared(kConfigFile, *list), reader_.SourceOf("architectures"), "",
                   config().architecture);
    return {};
  }

  // Every key of the file: consumed, recorded, or without effect; anything else is refused (CFG-02).
  Status Classify(const json::Value& root, std::string_view file) {
    const bool is_config = file == kConfigFile;
    for (const json::Value member : root.children()) {
      const std::string key(member.key());
      const KeyRule* rule = is_config ? profile_.ConfigKey(key) : profile_.GenerationKey(key);
      if (rule == nullptr) {
        SLM_TRY(Unlisted(member, file, key));
        continue;
      }
      if (rule->key_class == KeyRule::Class::kConsumed) continue;
      if (!HasTypeOf(member, *rule)) {
        return Fail(ErrorAt(
            ErrorCode::kCfgType, file, member,
            "the pinned source refuses the value " + std::string(member.source_text().substr(0, 80))));
      }
      if (rule->key_class == KeyRule::Class::kSampling) {
        // In config.json the pinned source reads it only where generation_config.json is absent.
        if (!is_config || generation_ == nullptr) {
          result_.sampling.push_back({std::string(file) + ":" + key, std::string(member.source_text())});
        }
        continue;
      }
      if (rule->values && !IsOneOf(member, *rule->values)) {
        SLM_TRY(LeftOut(member, file, *rule));
        continue;
      }
      result_.ignored.push_back({std::string(file), key, std::string(member.source_text()), rule->reason});
    }
    return {};
  }

  // A decision about a key that needs none is not taken silently.
  Status CheckDecisionsUsed() {
    for (const DocumentaryKey& decided : policy_.documentary_keys) {
      if (!decided.key.starts_with(std::string(kConfigFile) + ":") &&
          !decided.key.starts_with(std::string(kGenerationFile) + ":")) {
        continue;  // of a file that the configuration is not built from
      }
      if (used_decisions_.contains(decided.decision)) continue;
      return Fail(MakeError(ErrorCode::kDecisionBad,
                            decided.key + " needs no decision; leave out the statement " + decided.decision)
                      .Field("choice"));
    }
    return {};
  }

  // A value that would change what is computed. What generate() alone reads changes no logit: a run here
  // states its own choices, so a person may decide to leave the publisher's out.
  Status LeftOut(const json::Value& member, std::string_view file, const KeyRule& rule) {
    const bool of_generation = profile_.MayBeLeftOut(rule, member);
    if (of_generation && TakeDecision(member, file, rule.key, "left out by a person's decision: ")) return {};
    return Fail(
        ErrorAt(ErrorCode::kCfgValue, file, member,
                "the value " + std::string(member.source_text().substr(0, 80)) + " is not supported (" +
                    rule.reason + ")" +
                    (of_generation ? "; a run states its own choices, and a person's decision must say that "
                                     "this one is left out (--decision)"
                                   : "")));
  }

  // Whether a statement is about this key; then the key is recorded with it.
  bool TakeDecision(const json::Value& member, std::string_view file, const std::string& key,
                    std::string_view what) {
    for (const DocumentaryKey& decided : policy_.documentary_keys) {
      if (decided.key != std::string(file) + ":" + key) continue;
      result_.ignored.push_back(
          {std::string(file), key, std::string(member.source_text()), std::string(what) + decided.decision});
      used_decisions_.insert(decided.decision);
      return true;
    }
    return false;
  }

  Status Unlisted(const json::Value& member, std::string_view file, const std::string& key) {
    if (profile_.LooksBehavioural(key)) {
      return Fail(
          ErrorAt(ErrorCode::kCfgUnknownField, file, member,
                  "family llama does not know this field, and its name says that it changes the model")
              .At(member.key_byte_offset()));
    }
    if (TakeDecision(member, file, key, "called documentary by a person's decision: ")) return {};
    return Fail(
        ErrorAt(ErrorCode::kCfgUnclassified, file, member,
                "the profile of family llama does not list this key; a person's decision must say that "
                "it has no effect (--decision)")
            .At(member.key_byte_offset()));
  }

  Status ReadSizes() {
    SLM_ASSIGN(config().vocab_size, reader_.Size("vocab_size", "vocab_size", 32000));
    config().padded_vocab_size = config().vocab_size;
    reader_.Record("padded_vocab_size", "not declared", "models/llama/modeling_llama.py:343: vocab_size rows",
                   "", std::to_string(config().vocab_size));
    SLM_ASSIGN(config().hidden_size, reader_.Size("hidden_size", "hidden_size", 4096));
    SLM_ASSIGN(config().intermediate_size, reader_.Size("intermediate_size", "intermediate_size", 11008));
    SLM_ASSIGN(config().n_layers, reader_.Size("num_hidden_layers", "n_layers", 32));
    if (config().n_layers > 4096) return Fail(ValueError("num_hidden_layers", "more than 4096 layers"));
    SLM_ASSIGN(config().max_positions, reader_.Size("max_position_embeddings", "max_positions", 2048));
    if (config().max_positions > (uint64_t{1} << 24)) {
      return Fail(ValueError("max_position_embeddings", "more than 2^24: positions are exact in float32"));
    }
    SLM_ASSIGN(config().tie_word_embeddings,
               reader_.Flag("tie_word_embeddings", "tie_word_embeddings", false));
    if (policy_.tied && *policy_.tied != config().tie_word_embeddings) {
      config().tie_word_embeddings = *policy_.tied;
      result_.records.back().choice = *policy_.tied ? "true" : "false";
      result_.records.back().pinned += "; a person's statement says that the tensors hold";
    }
    SLM_ASSIGN(const bool attention_bias, reader_.Flag("attention_bias", "q_bias", false));
    SLM_ASSIGN(const bool mlp_bias, reader_.Flag("mlp_bias", "gate_bias", false));
    config().q_bias = config().k_bias = config().v_bias = config().o_bias = attention_bias;
    config().gate_bias = config().up_bias = config().down_bias = mlp_bias;
    for (const auto& [first, others, line] :
         {std::tuple{std::string_view("attention_bias"),
                     std::vector<std::string>{"k_bias", "v_bias", "o_bias"}, ":219-230"},
          std::tuple{std::string_view("mlp_bias"), std::vector<std::string>{"up_bias", "down_bias"},
                     ":159-160"}}) {
      const bool value = first == "attention_bias" ? attention_bias : mlp_bias;
      for (const std::string& field : others) {
        reader_.Record(field, reader_.DeclaredOrNot(first),
                       std::string("models/llama/modeling_llama.py") + line, "", value ? "true" : "false");
      }
    }
    return {};
  }

  Error ShapeError(std::string_view key, std::string message) {
    const std::optional<json::Value> value = reader_.Find(key);
    if (value) return ErrorAt(ErrorCode::kCfgShape, kConfigFile, *value, std::move(message));
    return MakeError(ErrorCode::kCfgShape, std::string(key) + ": " + std::move(message))
        .In(kConfigFile)
        .Field(key);
  }

  // One value outside its range: REQUIRES the key to be declared, since every default is inside.
  Error ValueError(std::string_view key, std::string message) {
    return ErrorAt(ErrorCode::kCfgValue, kConfigFile, *reader_.Find(key), std::move(message));
  }

  // Heads whose default comes from other fields: null and absent both give it.
  Result<uint64_t> SizeOr(std::string_view key, std::string_view field, uint64_t derived,
                          std::string_view how) {
    const std::optional<json::Value> value = reader_.Find(key);
    if (value && !value->is_null()) return reader_.Size(key, field, derived);
    reader_.Record(field, reader_.DeclaredOrNot(key), std::string(how), "", std::to_string(derived));
    return derived;
  }

  Status ReadHeads() {
    SLM_ASSIGN(config().n_heads, reader_.Size("num_attention_heads", "n_heads", 32));
    if (config().n_heads > 65536) return Fail(ValueError("num_attention_heads", "more than 65536 heads"));
    if (config().hidden_size % config().n_heads != 0) {
      return Fail(ShapeError("num_attention_heads",
                             "does not divide hidden_size (the pinned source refuses it: "
                             "configuration_llama.py:95)"));
    }
    SLM_ASSIGN(config().head_dim,
               SizeOr("head_dim", "head_dim", config().hidden_size / config().n_heads,
                      "models/llama/configuration_llama.py:87: hidden_size / num_attention_heads"));
    SLM_ASSIGN(config().n_kv_heads, SizeOr("num_key_value_heads", "n_kv_heads", config().n_heads,
                                           "models/llama/configuration_llama.py:89: num_attention_heads"));
    const std::optional<json::Value> head_dim = reader_.Find("head_dim");
    const bool declared = head_dim && !head_dim->is_null();
    const auto head_error = [&](std::string message) {
      return declared ? ValueError("head_dim", std::move(message))
                      : ShapeError("num_attention_heads", "hidden_size / num_attention_heads, " + message);
    };
    if (config().head_dim % 2 != 0) return Fail(head_error("must be even: the source rotates pairs"));
    if (config().head_dim > 65536) return Fail(head_error("more than 65536 dimensions of a head"));
    if (config().n_heads % config().n_kv_heads != 0) {
      return Fail(ShapeError("num_key_value_heads", "does not divide num_attention_heads"));
    }
    config().attention_scale = AttentionScale(config().head_dim);
    config().attention_scale_f32 = static_cast<float>(config().attention_scale);
    reader_.Record("attention_scale", "not declared", "models/llama/modeling_llama.py:215: head_dim ** -0.5",
                   "", DoubleText(config().attention_scale));
    return {};
  }

  // The pinned model reads no pattern: every layer has full attention, so a declaration may say just that.
  Status ReadLayerTypes() {
    const std::optional<json::Value> value = reader_.Find("layer_types");
    reader_.Record("attention_pattern", reader_.DeclaredOrNot("layer_types"),
                   "models/llama/modeling_llama.py:393: the same for every layer", "", "full");
    if (!value || value->is_null()) return {};
    if (!value->is_array())
      return Fail(ErrorAt(ErrorCode::kCfgType, kConfigFile, *value, "must be a list or null"));
    for (const json::Value layer : value->children()) {
      if (layer.is_string() && layer.string() == "full_attention") continue;
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, layer,
                          "this family has full attention in every layer (\"full_attention\")"));
    }
    if (value->size() != config().n_layers) {
      return Fail(ErrorAt(ErrorCode::kCfgShape, kConfigFile, *value,
                          std::to_string(value->size()) + " entries for " +
                              std::to_string(config().n_layers) +
                              " layers (the pinned source refuses it: configuration_utils.py:714)"));
    }
    return {};
  }

  Status ReadActivation() {
    const std::optional<json::Value> value = reader_.Find("hidden_act");
    std::string name = "silu";
    if (value) {
      SLM_ASSIGN(name, TextOf(kConfigFile, *value));
    }
    for (const Activation activation :
         {Activation::kSilu, Activation::kGeluErf, Activation::kGeluTanh, Activation::kRelu}) {
      if (ActivationName(activation) != name) continue;
      config().activation = activation;
      reader_.Record("activation", reader_.DeclaredOrNot("hidden_act"),
                     reader_.SourceOf("hidden_act") + (value ? ": as declared" : ": default \"silu\""), "",
                     name);
      return {};
    }
    return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *value,
                        "activation is not supported (silu, gelu, gelu_pytorch_tanh, relu)"));
  }

  Status ReadNorm() {
    config().norm_eps = 1e-6;
    const std::optional<json::Value> value = reader_.Find("rms_norm_eps");
    if (value) {
      SLM_ASSIGN(config().norm_eps, llama::FloatOf(kConfigFile, *value));
      // Zero, in float32 too, would divide by zero for a zero vector.
      if (!(static_cast<float>(config().norm_eps) > 0) || config().norm_eps > 1) {
        return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *value, "must be above 0, at most 1"));
      }
    }
    config().norm_eps_f32 = static_cast<float>(config().norm_eps);
    reader_.Record("norm_eps", reader_.DeclaredOrNot("rms_norm_eps"),
                   reader_.SourceOf("rms_norm_eps") + (value ? ": as declared" : ": default 1e-06") +
                       "; added in float32 (models/llama/modeling_llama.py:66)",
                   "", DoubleText(config().norm_eps));
    return {};
  }

  Result<std::optional<DType>> DtypeOf(std::string_view key) {
    const std::optional<json::Value> value = reader_.Find(key);
    if (!value || value->is_null()) return std::optional<DType>();
    SLM_ASSIGN(const std::string name, TextOf(kConfigFile, *value));
    if (name == "float32") return std::optional(DType::kF32);
    if (name == "bfloat16") return std::optional(DType::kBf16);
    if (name == "float16") return std::optional(DType::kF16);
    return Fail(ErrorAt(ErrorCode::kCfgDtype, kConfigFile, *value,
                        "dtype is not supported (float32, bfloat16, float16)"));
  }

  Status ReadDtype(std::optional<DType> checkpoint_dtype) {
    SLM_ASSIGN(const std::optional<DType> dtype, DtypeOf("dtype"));
    SLM_ASSIGN(const std::optional<DType> old_dtype, DtypeOf("torch_dtype"));
    if (dtype && old_dtype && *dtype != *old_dtype) {
      return Fail(ErrorAt(ErrorCode::kCfgDtype, kConfigFile, *reader_.Find("torch_dtype"),
                          "two values: " + reader_.DeclaredOrNot("torch_dtype") + " against " +
                              reader_.DeclaredOrNot("dtype")));
    }
    const std::optional<DType> declared = dtype ? dtype : old_dtype;
    config().source_dtype = declared.value_or(checkpoint_dtype.value_or(DType::kF32));
    reader_.Record("source_dtype", reader_.DeclaredOrNot(dtype ? "dtype" : "torch_dtype"),
                   declared ? reader_.SourceOf(dtype ? "dtype" : "torch_dtype") + ": as declared"
                            : "modeling_utils.py:821: dtype of the checkpoint's first floating tensor",
                   "", std::string(DTypeName(config().source_dtype)));
    return {};
  }

  // BOS and PAD: no step of the model reads them, so the two files must only not disagree.
  Status ReadToken(std::string_view key, std::optional<uint64_t> source_default, ErrorCode conflict,
                   std::optional<uint64_t>* id) {
    const std::optional<json::Value> value = reader_.Find(key);
    *id = source_default;
    if (value) {
      *id = std::nullopt;
      // -1 in configurations that were converted from the first Llama: a padding row counted from the end,
      // which no step of inference reads.
      const bool no_pad = key == "pad_token_id" && value->source_text() == "-1";
      if (!value->is_null() && !no_pad) {
        SLM_ASSIGN(*id, TokenOf(kConfigFile, *value, config().vocab_size));
      }
    } else if (*id && **id >= config().vocab_size) {
      return Fail(MakeError(ErrorCode::kCfgEosRange, std::string(key) + ": the pinned source's default " +
                                                         std::to_string(**id) + " is outside the vocabulary")
                      .In(kConfigFile)
                      .Field(key));
    }
    if (const ConfigPolicy::HeldToken* held = Held(key)) {
      SLM_TRY(CheckHeld(*held));
      *id = held->ids.front();
    }
    std::string undefined;
    const std::optional<json::Value> other = generation_ != nullptr ? generation_->Find(key) : std::nullopt;
    if (other && !other->is_null()) {
      SLM_ASSIGN(const uint64_t generation_id, TokenOf(kGenerationFile, *other, config().vocab_size));
      if (value && *id && generation_id != **id) {
        SLM_TRY(Conflict(conflict, key, kGenerationFile, *other, Declared(kConfigFile, *value)));
      }
      if (Holds(kGenerationFile, key)) *id = generation_id;
      if (!*id || generation_id != **id) undefined = "declared apart: " + Declared(kGenerationFile, *other);
    }
    reader_.Record(key, reader_.DeclaredOrNot(key),
                   reader_.SourceOf(key) +
                       (value            ? ": as declared"
                        : source_default ? ": default " + std::to_string(*source_default)
                                         : ": default None") +
                       HeldNote(key),
                   std::move(undefined), *id ? std::to_string(**id) : "none");
    return {};
  }

  Status ReadTokens() {
    SLM_TRY(ReadToken("bos_token_id", 1, ErrorCode::kCfgConflictBos, &config().bos_token_id));
    return ReadToken("pad_token_id", std::nullopt, ErrorCode::kCfgConflictPad, &config().pad_token_id);
  }

  // Whether a person's statement says that this file's declaration holds.
  bool Holds(std::string_view file, std::string_view key) {
    return Contains(policy_.holding, std::string(file) + "#$." + std::string(key));
  }

  [[nodiscard]] const ConfigPolicy::HeldToken* Held(std::string_view key) const {
    for (const ConfigPolicy::HeldToken& held : policy_.held_tokens) {
      if (held.key == key) return &held;
    }
    return nullptr;
  }

  Status CheckHeld(const ConfigPolicy::HeldToken& held) {
    for (const uint64_t id : held.ids) {
      if (id < config().vocab_size) continue;
      return Fail(MakeError(ErrorCode::kCfgEosRange, held.ref + ": token id " + std::to_string(id) +
                                                         " is outside the vocabulary of " +
                                                         std::to_string(config().vocab_size))
                      .In(held.ref.substr(0, held.ref.find('#')))
                      .Field(held.key));
    }
    return {};
  }

  // What the column of the pinned source adds where a statement departs from it.
  [[nodiscard]] std::string HeldNote(std::string_view key) {
    std::string ref;
    if (const ConfigPolicy::HeldToken* held = Held(key)) ref = held->ref;
    if (key != "eos_token_id" && Holds(kGenerationFile, key)) ref = kGenerationFile;
    if (key == "eos_token_id" && Holds(kConfigFile, key)) ref = kConfigFile;
    return ref.empty() ? "" : "; a person's statement says that " + ref + " holds";
  }

  // Stops with both declarations, unless a person has accepted this conflict.
  Status Conflict(ErrorCode code, std::string_view field, std::string_view file, const json::Value& at,
                  std::string other) {
    if (Contains(policy_.accepted_conflicts, field)) {
      result_.accepted_conflicts.push_back({code, std::string(field), Declared(file, at), std::move(other)});
      return {};
    }
    return Fail(
        ErrorAt(code, file, at,
                Declared(file, at) + " against " + other + "; accept with a statement (--accept-conflict)")
            .Field(field));
  }

  // The pinned source stops at the set of generation_config.json. Where that file is there and names
  // none, it stops nowhere, whatever config.json says; where the file is absent it reads config.json,
  // without the class default (measured on transformers 5.24.0; generation/utils.py:562-583).
  Status ReadEos() {
    const std::optional<json::Value> value = reader_.Find("eos_token_id");
    const std::optional<json::Value> other =
        generation_ != nullptr ? generation_->Find("eos_token_id") : std::nullopt;
    TokenSet own;
    if (value) {
      SLM_ASSIGN(own, TokensOf(kConfigFile, *value, config().vocab_size));
    }
    TokenSet set = own;
    std::string pinned = "generation/utils.py:576: generation_config.json is absent, config.json is read";
    if (generation_ != nullptr) {
      set = TokenSet{};
      if (other) {
        SLM_ASSIGN(set, TokensOf(kGenerationFile, *other, config().vocab_size));
      }
      pinned = set.named ? "generation/utils.py:563: the set of generation_config.json"
                         : "generation/utils.py:563: generation_config.json names none, so nothing stops";
      if (own.named && !std::includes(set.ids.begin(), set.ids.end(), own.ids.begin(), own.ids.end())) {
        const std::string declared = other ? Declared(kGenerationFile, *other)
                                           : std::string(kGenerationFile) +
                                                 ": eos_token_id is absent, so the "
                                                 "pinned source stops nowhere";
        SLM_TRY(Conflict(ErrorCode::kCfgConflictEos, "eos_token_id", kConfigFile, *value, declared));
      }
    }
    if (value && Holds(kConfigFile, "eos_token_id")) set = own;
    if (const ConfigPolicy::HeldToken* held = Held("eos_token_id")) {
      SLM_TRY(CheckHeld(*held));
      set.ids = held->ids;
    }
    pinned += HeldNote("eos_token_id");
    config().eos_token_ids = set.ids;
    std::string publisher = reader_.DeclaredOrNot("eos_token_id");
    if (other) publisher += "; " + Declared(kGenerationFile, *other);
    reader_.Record("eos_token_ids", std::move(publisher), std::move(pinned), "",
                   ListText(config().eos_token_ids));
    return {};
  }

  void RecordFixed() {
    config().trained_context =
        config().rope.original_max_position_embeddings.value_or(config().max_positions);
    const std::string code = "models/llama/modeling_llama.py";
    reader_.Record("trained_context", reader_.DeclaredOrNot("max_position_embeddings"),
                   "not a field of the source", "", std::to_string(config().trained_context));
    reader_.Record("head_bias", "not declared", code + ":422: bias=False", "", "false");
    reader_.Record("norm_type", "not declared", code + ":53-67", "",
                   "rmsnorm, before attention and MLP and at the end");
    reader_.Record("rope_pairing", "not declared", code + ":119-123: rotate_half", "", "half");
    reader_.Record("attention_mask", "not declared", code + ":382: create_causal_mask", "",
                   "causal; a masked position has no score");
    reader_.Record("cache_type", reader_.DeclaredOrNot("use_cache"), code + ":375: DynamicCache", "",
                   "full, float32, nothing evicted");
    reader_.Record("position_policy", "not declared", code + ":377-380: from 0 on, one by one", "",
                   "from-zero");
    reader_.Record("tensor_parallel", reader_.DeclaredOrNot("pretraining_tp"),
                   "not read by the pinned source", "", "1");
    reader_.Record("numeric_profile", "not declared", "float32 kernels of the platform's libraries",
                   "order of additions and contraction are implementation-defined",
                   "exact-v1: order and rounding of every operation fixed");
  }

  const json::Value* generation_;
  const FamilyProfile& profile_;
  const ConfigPolicy& policy_;
  std::set<std::string> used_decisions_;
  ConfigResult result_;
  ConfigReader reader_;
};

}  // namespace

Result<ConfigResult> BuildLlamaConfig(const json::Value& config, const json::Value* generation_config,
                                      const FamilyProfile& profile, const ConfigPolicy& policy,
                                      std::optional<DType> checkpoint_dtype) {
  return Builder(config, generation_config, profile, policy).Build(checkpoint_dtype);
}

Status CheckLlamaKeys(const json::Value& config, const json::Value* generation_config,
                      const FamilyProfile& profile, const ConfigPolicy& policy) {
  return Builder(config, generation_config, profile, policy).ClassifyFiles();
}

}  // namespace slm
