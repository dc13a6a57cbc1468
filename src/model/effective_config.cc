#include "model/effective_config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "codec/json.h"

namespace slm {
namespace {

constexpr std::string_view kSchema = "slm.effective-config.v1";

constexpr std::array<std::string_view, 4> kActivationNames = {"silu", "gelu", "gelu_pytorch_tanh", "relu"};
constexpr std::array<std::string_view, 4> kActivationForms = {
    "x*sigmoid(x)", "0.5*x*(1+erf(x/sqrt(2)))", "0.5*x*(1+tanh(sqrt(2/pi)*(x+0.044715*x^3)))", "max(x,0)"};
constexpr std::array<std::string_view, 5> kRopeNames = {"default", "linear", "dynamic", "yarn", "llama3"};

// Fields that this family has in one way only. They stand in the map, so that a reader need not know
// the family, and any other value is refused.
struct FixedText {
  std::string_view name, value;
};
constexpr FixedText kFixedTexts[] = {
    {"schema", kSchema},          {"norm_type", "rmsnorm"},
    {"norm_place", "pre"},        {"norm_gain", "weight"},
    {"rope_pairing", "half"},     {"rope_permutation", "none"},
    {"attention_mask", "causal"}, {"attention_pattern", "full"},
    {"sliding_window", "none"},   {"attention_softcap", "none"},
    {"logit_scale", "none"},      {"logit_softcap", "none"},
    {"embedding_scale", "none"},  {"cache_type", "full"},
    {"cache_eviction", "none"},   {"position_policy", "from-zero"},
    {"inference_dtype", "f32"},   {"numeric_profile", "exact-v1"},
    {"unk_token", "none"},
};

// Plain members: one table for both directions.
struct UintField {
  std::string_view name;
  uint64_t EffectiveConfig::* member;
};
constexpr UintField kUintFields[] = {
    {"vocab_size", &EffectiveConfig::vocab_size},
    {"padded_vocab_size", &EffectiveConfig::padded_vocab_size},
    {"hidden_size", &EffectiveConfig::hidden_size},
    {"intermediate_size", &EffectiveConfig::intermediate_size},
    {"n_layers", &EffectiveConfig::n_layers},
    {"n_heads", &EffectiveConfig::n_heads},
    {"n_kv_heads", &EffectiveConfig::n_kv_heads},
    {"head_dim", &EffectiveConfig::head_dim},
    {"trained_context", &EffectiveConfig::trained_context},
    {"max_positions", &EffectiveConfig::max_positions},
};
struct BoolField {
  std::string_view name;
  bool EffectiveConfig::* member;
};
constexpr BoolField kBoolFields[] = {
    {"tie_word_embeddings", &EffectiveConfig::tie_word_embeddings},
    {"q_bias", &EffectiveConfig::q_bias},
    {"k_bias", &EffectiveConfig::k_bias},
    {"v_bias", &EffectiveConfig::v_bias},
    {"o_bias", &EffectiveConfig::o_bias},
    {"gate_bias", &EffectiveConfig::gate_bias},
    {"up_bias", &EffectiveConfig::up_bias},
    {"down_bias", &EffectiveConfig::down_bias},
};
struct RopeDoubleField {
  std::string_view name;
  std::optional<double> RopeConfig::* member;
};
constexpr RopeDoubleField kRopeDoubleFields[] = {
    {"rope_factor", &RopeConfig::factor},
    {"rope_low_freq_factor", &RopeConfig::low_freq_factor},
    {"rope_high_freq_factor", &RopeConfig::high_freq_factor},
    {"rope_beta_fast", &RopeConfig::beta_fast},
    {"rope_beta_slow", &RopeConfig::beta_slow},
    {"rope_mscale", &RopeConfig::mscale},
    {"rope_mscale_all_dim", &RopeConfig::mscale_all_dim},
};

Bytes DoubleBytes(double value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}
Bytes FloatBytes(float value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint32_t>(value));
  return bytes;
}

Error ValueError(std::string_view field, std::string message) {
  return MakeError(ErrorCode::kSchemaValue, "config." + std::string(field) + ": " + std::move(message))
      .Field("config." + std::string(field));
}

bool Finite(double value) {
  return value - value == 0;
}

Result<double> DoubleOf(std::string_view name, const Bytes& bytes) {
  if (bytes.size() != 8) return Fail(ValueError(name, "a float64 has 8 bytes"));
  const double value = std::bit_cast<double>(LoadLe<uint64_t>(bytes.data()));
  if (!Finite(value)) return Fail(ValueError(name, "not finite"));
  return value;
}
Result<float> FloatOf(std::string_view name, const Bytes& bytes) {
  if (bytes.size() != 4) return Fail(ValueError(name, "a float32 has 4 bytes"));
  const float value = std::bit_cast<float>(LoadLe<uint32_t>(bytes.data()));
  if (!Finite(static_cast<double>(value))) return Fail(ValueError(name, "not finite"));
  return value;
}

Result<double> ReadDouble(cbor::Reader* reader, std::string_view name) {
  SLM_ASSIGN(const Bytes bytes, reader->ByteString(name));
  return DoubleOf(name, bytes);
}
Result<float> ReadFloat(cbor::Reader* reader, std::string_view name) {
  SLM_ASSIGN(const Bytes bytes, reader->ByteString(name));
  return FloatOf(name, bytes);
}

template <size_t kCount>
Result<size_t> IndexOf(const std::array<std::string_view, kCount>& names, std::string_view field,
                       std::string_view value) {
  const std::string_view* const end = names.data() + kCount;
  const auto* found = std::find(names.data(), end, value);
  if (found == end) return Fail(ValueError(field, "unknown value " + std::string(value)));
  return static_cast<size_t>(found - names.data());
}

void WriteRope(const RopeConfig& rope, cbor::Map* map) {
  map->Set("rope_type", RopeTypeName(rope.type));
  map->Set("rope_theta", DoubleBytes(rope.theta));
  map->Set("rope_dim", rope.dim);
  for (const RopeDoubleField& field : kRopeDoubleFields) {
    if (rope.*field.member) map->Set(field.name, DoubleBytes(*(rope.*field.member)));
  }
  if (rope.original_max_position_embeddings) {
    map->Set("rope_original_max_position_embeddings", *rope.original_max_position_embeddings);
  }
  if (rope.truncate) map->Set("rope_truncate", *rope.truncate);
  map->Set("rope_attention_factor", DoubleBytes(rope.attention_factor));
  map->Set("rope_attention_factor_f32", FloatBytes(rope.attention_factor_f32));
  Bytes frequencies;
  for (const float value : rope.inv_freq) AppendLe(&frequencies, std::bit_cast<uint32_t>(value));
  map->Set("rope_inv_freq", std::move(frequencies));
}

// Which parameters each type has: the others must be absent.
Status CheckRopeFields(const RopeConfig& rope) {
  const bool yarn = rope.type == RopeType::kYarn;
  const bool llama3 = rope.type == RopeType::kLlama3;
  const auto require = [](bool present, bool wanted, std::string_view name) -> Status {
    if (present == wanted) return {};
    return Fail(ValueError(name, wanted ? "absent" : "this rope type does not have it"));
  };
  SLM_TRY(require(rope.factor.has_value(), rope.type != RopeType::kDefault, "rope_factor"));
  SLM_TRY(require(rope.original_max_position_embeddings.has_value(), yarn || llama3,
                  "rope_original_max_position_embeddings"));
  SLM_TRY(require(rope.low_freq_factor.has_value(), llama3, "rope_low_freq_factor"));
  SLM_TRY(require(rope.high_freq_factor.has_value(), llama3, "rope_high_freq_factor"));
  SLM_TRY(require(rope.beta_fast.has_value(), yarn, "rope_beta_fast"));
  SLM_TRY(require(rope.beta_slow.has_value(), yarn, "rope_beta_slow"));
  SLM_TRY(require(rope.truncate.has_value(), yarn, "rope_truncate"));
  if (!yarn) {
    SLM_TRY(require(rope.mscale.has_value(), false, "rope_mscale"));
    SLM_TRY(require(rope.mscale_all_dim.has_value(), false, "rope_mscale_all_dim"));
  }
  return {};
}

Status ReadRope(cbor::Reader* reader, RopeConfig* rope) {
  SLM_ASSIGN(const std::string type, reader->Text("rope_type"));
  SLM_ASSIGN(const size_t type_index, IndexOf(kRopeNames, "rope_type", type));
  rope->type = static_cast<RopeType>(type_index);
  SLM_ASSIGN(rope->theta, ReadDouble(reader, "rope_theta"));
  SLM_ASSIGN(rope->dim, reader->Uint("rope_dim"));
  for (const RopeDoubleField& field : kRopeDoubleFields) {
    if (reader->Optional(field.name) == nullptr) continue;
    SLM_ASSIGN(rope->*field.member, ReadDouble(reader, field.name));
  }
  if (reader->Optional("rope_original_max_position_embeddings") != nullptr) {
    SLM_ASSIGN(rope->original_max_position_embeddings, reader->Uint("rope_original_max_position_embeddings"));
  }
  if (reader->Optional("rope_truncate") != nullptr) {
    SLM_ASSIGN(rope->truncate, reader->Bool("rope_truncate"));
  }
  SLM_ASSIGN(rope->attention_factor, ReadDouble(reader, "rope_attention_factor"));
  SLM_ASSIGN(rope->attention_factor_f32, ReadFloat(reader, "rope_attention_factor_f32"));
  if (static_cast<float>(rope->attention_factor) != rope->attention_factor_f32) {
    return Fail(ValueError("rope_attention_factor_f32", "is not rope_attention_factor rounded"));
  }
  SLM_ASSIGN(const Bytes frequencies, reader->ByteString("rope_inv_freq"));
  if (frequencies.size() != rope->dim / 2 * 4) {
    return Fail(ValueError("rope_inv_freq", "its length differs from 2 * rope_dim bytes"));
  }
  for (size_t at = 0; at < frequencies.size(); at += 4) {
    const float value = std::bit_cast<float>(LoadLe<uint32_t>(frequencies.data() + at));
    if (!(value > 0) || !Finite(static_cast<double>(value))) {
      return Fail(
          ValueError("rope_inv_freq", "value " + std::to_string(at / 4) + " is not finite and positive"));
    }
    rope->inv_freq.push_back(value);
  }
  return CheckRopeFields(*rope);
}

Status ReadTokens(cbor::Reader* reader, EffectiveConfig* config) {
  for (auto [name, member] :
       {std::pair{"bos_token_id", &config->bos_token_id}, std::pair{"pad_token_id", &config->pad_token_id}}) {
    if (reader->Optional(name) == nullptr) continue;
    SLM_ASSIGN(*member, reader->Uint(name));
    if (**member >= config->vocab_size) return Fail(ValueError(name, "outside the vocabulary"));
  }
  SLM_ASSIGN(const cbor::Array* ids, reader->ArrayOf("eos_token_ids"));
  for (const cbor::Value& id : *ids) {
    const uint64_t* number = id.AsUint();
    if (number == nullptr || *number >= config->vocab_size ||
        (!config->eos_token_ids.empty() && *number <= config->eos_token_ids.back())) {
      return Fail(ValueError("eos_token_ids", "ids must be increasing and inside the vocabulary"));
    }
    config->eos_token_ids.push_back(*number);
  }
  return {};
}

Status CheckSizes(const EffectiveConfig& config) {
  // Products of two stay below 2^63, so that sizes of tensors and caches cannot overflow.
  constexpr uint64_t kMax = uint64_t{1} << 28;
  for (const UintField& field : kUintFields) {
    const uint64_t value = config.*field.member;
    if (value == 0 || value > kMax) return Fail(ValueError(field.name, "must be 1 to 2^28"));
  }
  if (config.n_layers > 4096 || config.n_heads > 65536 || config.head_dim > 65536) {
    return Fail(ValueError("n_layers", "at most 4096 layers, 65536 heads, 65536 dimensions a head"));
  }
  if (config.max_positions > (uint64_t{1} << 24)) return Fail(ValueError("max_positions", "more than 2^24"));
  if (config.padded_vocab_size != config.vocab_size) {
    return Fail(ValueError("padded_vocab_size", "this family has no padded vocabulary"));
  }
  if (config.n_kv_heads > config.n_heads || config.n_heads % config.n_kv_heads != 0) {
    return Fail(ValueError("n_kv_heads", "does not divide n_heads"));
  }
  if (config.rope.dim != config.head_dim || config.head_dim % 2 != 0) {
    return Fail(ValueError("rope_dim", "must be head_dim, which must be even"));
  }
  if (static_cast<float>(config.norm_eps) != config.norm_eps_f32 || !(config.norm_eps_f32 > 0)) {
    return Fail(ValueError("norm_eps_f32", "is not norm_eps rounded, or is not positive"));
  }
  if (static_cast<float>(config.attention_scale) != config.attention_scale_f32 ||
      !(config.attention_scale > 0)) {
    return Fail(ValueError("attention_scale_f32", "is not attention_scale rounded, or is not positive"));
  }
  return {};
}

Status CheckFixed(cbor::Reader* reader) {
  for (const FixedText& field : kFixedTexts) {
    SLM_ASSIGN(const std::string value, reader->Text(field.name));
    if (value != field.value) return Fail(ValueError(field.name, "must be " + std::string(field.value)));
  }
  SLM_ASSIGN(const uint64_t parallel, reader->Uint("tensor_parallel"));
  if (parallel != 1) return Fail(ValueError("tensor_parallel", "must be 1"));
  SLM_ASSIGN(const bool head_bias, reader->Bool("head_bias"));
  if (head_bias) return Fail(ValueError("head_bias", "must be false"));
  return {};
}

}  // namespace

std::string_view ActivationName(Activation activation) {
  return kActivationNames[static_cast<size_t>(activation)];
}
std::string_view RopeTypeName(RopeType type) {
  return kRopeNames[static_cast<size_t>(type)];
}

cbor::Map ConfigToCbor(const EffectiveConfig& config) {
  cbor::Map map;
  for (const FixedText& field : kFixedTexts) map.Set(field.name, field.value);
  map.Set("tensor_parallel", 1);
  map.Set("head_bias", false);
  map.Set("family", config.family);
  map.Set("architecture", config.architecture);
  for (const UintField& field : kUintFields) map.Set(field.name, config.*field.member);
  for (const BoolField& field : kBoolFields) map.Set(field.name, config.*field.member);
  map.Set("activation", ActivationName(config.activation));
  map.Set("activation_form", kActivationForms[static_cast<size_t>(config.activation)]);
  map.Set("norm_eps", DoubleBytes(config.norm_eps));
  map.Set("norm_eps_f32", FloatBytes(config.norm_eps_f32));
  WriteRope(config.rope, &map);
  map.Set("attention_scale", DoubleBytes(config.attention_scale));
  map.Set("attention_scale_f32", FloatBytes(config.attention_scale_f32));
  map.Set("source_dtype", DTypeName(config.source_dtype));
  if (config.bos_token_id) map.Set("bos_token_id", *config.bos_token_id);
  if (config.pad_token_id) map.Set("pad_token_id", *config.pad_token_id);
  cbor::Array eos;
  for (const uint64_t id : config.eos_token_ids) eos.emplace_back(id);
  map.Set("eos_token_ids", std::move(eos));
  return map;
}

Result<EffectiveConfig> ConfigFromCbor(const cbor::Map& map) {
  cbor::Reader reader(map, "config");
  SLM_TRY(CheckFixed(&reader));
  EffectiveConfig config;
  SLM_ASSIGN(config.family, reader.Text("family"));
  if (config.family != "llama") return Fail(ValueError("family", "unknown family " + config.family));
  SLM_ASSIGN(config.architecture, reader.Text("architecture"));
  if (config.architecture != "LlamaForCausalLM")
    return Fail(ValueError("architecture", "unknown architecture"));
  for (const UintField& field : kUintFields) {
    SLM_ASSIGN(config.*field.member, reader.Uint(field.name));
  }
  for (const BoolField& field : kBoolFields) {
    SLM_ASSIGN(config.*field.member, reader.Bool(field.name));
  }
  SLM_ASSIGN(const std::string activation, reader.Text("activation"));
  SLM_ASSIGN(const size_t activation_index, IndexOf(kActivationNames, "activation", activation));
  config.activation = static_cast<Activation>(activation_index);
  SLM_ASSIGN(const std::string form, reader.Text("activation_form"));
  if (form != kActivationForms[activation_index]) {
    return Fail(ValueError("activation_form", "is not the form of " + activation));
  }
  SLM_ASSIGN(config.norm_eps, ReadDouble(&reader, "norm_eps"));
  SLM_ASSIGN(config.norm_eps_f32, ReadFloat(&reader, "norm_eps_f32"));
  SLM_TRY(ReadRope(&reader, &config.rope));
  SLM_ASSIGN(config.attention_scale, ReadDouble(&reader, "attention_scale"));
  SLM_ASSIGN(config.attention_scale_f32, ReadFloat(&reader, "attention_scale_f32"));
  SLM_ASSIGN(const std::string dtype_name, reader.Text("source_dtype"));
  const std::optional<DType> dtype = DTypeFromName(dtype_name);
  if (!dtype) return Fail(ValueError("source_dtype", "unknown dtype " + dtype_name));
  config.source_dtype = *dtype;
  SLM_TRY(ReadTokens(&reader, &config));
  SLM_TRY(reader.Finish());
  SLM_TRY(CheckSizes(config));
  return config;
}

std::string ConfigToJson(const EffectiveConfig& config) {
  const cbor::Map map = ConfigToCbor(config);
  json::Writer writer(/*indent=*/true);
  writer.BeginObject();
  for (const auto& [name, value] : map) {
    writer.Key(name);
    if (const uint64_t* number = value.AsUint()) {
      writer.Uint(*number);
    } else if (const bool* flag = value.AsBool()) {
      writer.Bool(*flag);
    } else if (const std::string* text = value.AsTextString()) {
      writer.String(*text);
    } else if (const cbor::Array* items = value.AsArray()) {
      writer.BeginArray();
      for (const cbor::Value& item : *items) writer.Uint(*item.AsUint());
      writer.EndArray();
    } else if (name == "rope_inv_freq") {
      writer.BeginArray();
      for (const float frequency : config.rope.inv_freq) writer.Double(static_cast<double>(frequency));
      writer.EndArray();
    } else {
      const Bytes& bytes = *value.AsByteString();
      writer.Double(bytes.size() == 8
                        ? std::bit_cast<double>(LoadLe<uint64_t>(bytes.data()))
                        : static_cast<double>(std::bit_cast<float>(LoadLe<uint32_t>(bytes.data()))));
    }
  }
  writer.EndObject();
  return writer.Take();
}

}  // namespace slm
