// Rotary parameters of config.json: modeling_rope_utils.py:775-866 (standardization) and the readers
// of each type, in transformers 5.24.0.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "model/llama_reader.h"
#include "model/rope.h"

namespace slm::llama {
namespace {

constexpr double kDefaultTheta = 10000.0;  // modeling_rope_utils.py:760
constexpr std::string_view kRopeFile = "modeling_rope_utils.py";

// The parameters that each type reads. Whatever else stands in the dictionary would be parsed and
// never read by the source: refused.
constexpr std::array<std::string_view, 4> kCommon = {"rope_type", "type", "rope_theta",
                                                     "partial_rotary_factor"};
constexpr std::array<std::string_view, 1> kFactor = {"factor"};
constexpr std::array<std::string_view, 4> kLlama3 = {"factor", "low_freq_factor", "high_freq_factor",
                                                     "original_max_position_embeddings"};
constexpr std::array<std::string_view, 8> kYarn = {"factor",           "original_max_position_embeddings",
                                                   "attention_factor", "beta_fast",
                                                   "beta_slow",        "mscale",
                                                   "mscale_all_dim",   "truncate"};

std::span<const std::string_view> ParametersOf(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return {};
    case RopeType::kLinear:
    case RopeType::kDynamic:
      return kFactor;
    case RopeType::kYarn:
      return kYarn;
    case RopeType::kLlama3:
      return kLlama3;
  }
  return {};
}

bool Holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What one dictionary, with the keys beside it, comes to.
struct Standardized {
  RopeConfig rope;
  std::optional<double> attention_factor;  // as given
  friend bool operator==(const Standardized&, const Standardized&) = default;
};

class RopeReader {
 public:
  explicit RopeReader(ConfigReader* reader) : reader_(*reader) {}

  Status Read() {
    SLM_ASSIGN(const std::optional<json::Value> scaling, Dictionary("rope_scaling"));
    SLM_ASSIGN(const std::optional<json::Value> parameters, Dictionary("rope_parameters"));
    // rope_scaling wins in the source, silently; here both must say the same.
    const std::optional<json::Value> chosen = scaling ? scaling : parameters;
    SLM_ASSIGN(Standardized result, Standardize(chosen));
    if (scaling && parameters) {
      SLM_ASSIGN(const Standardized other, Standardize(parameters));
      if (!(other == result)) {
        return Fail(ErrorAt(ErrorCode::kCfgRope, kConfigFile, *parameters,
                            "rope_parameters and rope_scaling differ: " + Declared(kConfigFile, *parameters) +
                                " against " + Declared(kConfigFile, *scaling)));
      }
    }
    EffectiveConfig& config = reader_.result().config;
    SLM_TRY(Locate(ComputeRope(&result.rope, config.max_positions, result.attention_factor), chosen));
    config.rope = std::move(result.rope);
    Record(chosen, result.attention_factor.has_value());
    return {};
  }

 private:
  // The dictionary of this name if it is there and not empty (an empty one is false in Python).
  Result<std::optional<json::Value>> Dictionary(std::string_view key) {
    const std::optional<json::Value> value = reader_.Find(key);
    if (!value || value->is_null()) return std::optional<json::Value>();
    if (!value->is_object()) {
      return Fail(ErrorAt(ErrorCode::kCfgType, kConfigFile, *value, "must be an object or null"));
    }
    if (value->size() == 0) return std::optional<json::Value>();
    return value;
  }

  Result<RopeType> TypeOf(const std::optional<json::Value>& dictionary) {
    if (!dictionary) return RopeType::kDefault;
    const std::optional<json::Value> rope_type = dictionary->Find("rope_type");
    const std::optional<json::Value> old_type = dictionary->Find("type");
    const std::optional<json::Value> stated = rope_type ? rope_type : old_type;
    if (!stated) return RopeType::kDefault;
    SLM_ASSIGN(const std::string name, TextOf(kConfigFile, *stated));
    if (rope_type && old_type) {
      SLM_ASSIGN(const std::string old_name, TextOf(kConfigFile, *old_type));
      if (old_name != name) {
        return Fail(ErrorAt(ErrorCode::kCfgRope, kConfigFile, *old_type,
                            "contradicts rope_type: " + Declared(kConfigFile, *old_type) + " against " +
                                Declared(kConfigFile, *rope_type)));
      }
    }
    for (const RopeType type :
         {RopeType::kDefault, RopeType::kLinear, RopeType::kDynamic, RopeType::kYarn, RopeType::kLlama3}) {
      if (RopeTypeName(type) == name) return type;
    }
    return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *stated,
                        "rope type " + name + " is not supported (default, linear, dynamic, yarn, llama3)"));
  }

  Status CheckKeys(const json::Value& dictionary, RopeType type) {
    for (const json::Value member : dictionary.children()) {
      if (Holds(kCommon, member.key()) || Holds(ParametersOf(type), member.key())) continue;
      return Fail(ErrorAt(ErrorCode::kCfgUnknownField, kConfigFile, member,
                          "rope type " + std::string(RopeTypeName(type)) + " does not read it")
                      .At(member.key_byte_offset()));
    }
    const std::optional<json::Value> partial = dictionary.Find("partial_rotary_factor");
    if (partial && !partial->is_null()) {
      SLM_ASSIGN(const double value, NumberOf(kConfigFile, *partial));
      if (value != 1.0) {
        return Fail(
            ErrorAt(ErrorCode::kCfgValue, kConfigFile, *partial, "only 1.0: the whole head is rotated"));
      }
    }
    return {};
  }

  Result<double> Theta(const std::optional<json::Value>& dictionary) {
    const std::optional<json::Value> outer = reader_.Find("rope_theta");
    const std::optional<json::Value> inner = dictionary ? dictionary->Find("rope_theta") : std::nullopt;
    if (inner && outer && !outer->is_null()) {
      SLM_ASSIGN(const double outer_value, NumberOf(kConfigFile, *outer));
      SLM_ASSIGN(const double inner_value, NumberOf(kConfigFile, *inner));
      if (outer_value != inner_value) {
        return Fail(ErrorAt(
            ErrorCode::kCfgRope, kConfigFile, *outer,
            "two values: " + Declared(kConfigFile, *outer) + " against " + Declared(kConfigFile, *inner)));
      }
    }
    const std::optional<json::Value> stated = inner ? inner : outer;
    if (!stated) return kDefaultTheta;
    SLM_ASSIGN(const double theta, NumberOf(kConfigFile, *stated));
    if (!(theta >= 1 && theta <= 1e30)) {
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *stated, "must be between 1 and 1e30"));
    }
    return theta;
  }

  // For yarn and llama3: the key beside the dictionary wins in the source; here it must not differ.
  Result<uint64_t> OriginalLength(const std::optional<json::Value>& dictionary) {
    const std::optional<json::Value> outer = reader_.Find("original_max_position_embeddings");
    const std::optional<json::Value> inner =
        dictionary ? dictionary->Find("original_max_position_embeddings") : std::nullopt;
    if (!outer && !inner) return reader_.result().config.max_positions;
    SLM_ASSIGN(const uint64_t length, UintOf(kConfigFile, inner ? *inner : *outer));
    if (outer && inner) {
      SLM_ASSIGN(const uint64_t outer_length, UintOf(kConfigFile, *outer));
      if (outer_length != length) {
        return Fail(ErrorAt(
            ErrorCode::kCfgRope, kConfigFile, *outer,
            "two values: " + Declared(kConfigFile, *outer) + " against " + Declared(kConfigFile, *inner)));
      }
    }
    if (length == 0 || length > (uint64_t{1} << 28)) {
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, inner ? *inner : *outer, "must be 1 to 2^28"));
    }
    return length;
  }

  // Types that do not read the original length: only a value that says nothing new may stand.
  Status CheckUnreadLength() {
    const std::optional<json::Value> outer = reader_.Find("original_max_position_embeddings");
    if (!outer || outer->is_null()) return {};
    SLM_ASSIGN(const uint64_t length, UintOf(kConfigFile, *outer));
    if (length == reader_.result().config.max_positions) return {};
    return Fail(ErrorAt(ErrorCode::kCfgRope, kConfigFile, *outer,
                        "this rope type does not read it, and it differs from " +
                            reader_.DeclaredOrNot("max_position_embeddings")));
  }

  // A number of the dictionary. `null_is_absent` where the source reads null as its default.
  Result<std::optional<double>> Parameter(const json::Value& dictionary, std::string_view key,
                                          bool null_is_absent) {
    const std::optional<json::Value> value = dictionary.Find(key);
    if (!value || (null_is_absent && value->is_null())) return std::optional<double>();
    SLM_ASSIGN(const double number, NumberOf(kConfigFile, *value));
    return std::optional<double>(number);
  }

  Result<double> Required(const json::Value& dictionary, std::string_view key) {
    SLM_ASSIGN(const std::optional<double> value, Parameter(dictionary, key, /*null_is_absent=*/false));
    if (value && *value > 0) return *value;
    if (value) {
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *dictionary.Find(key), "must be positive"));
    }
    return Fail(ErrorAt(ErrorCode::kCfgMissing, kConfigFile, dictionary,
                        "the source needs " + std::string(key) + " for this rope type"));
  }

  Status ReadYarn(const json::Value& dictionary, Standardized* result) {
    RopeConfig& rope = result->rope;
    SLM_ASSIGN(rope.original_max_position_embeddings, OriginalLength(dictionary));
    const std::optional<json::Value> factor = dictionary.Find("factor");
    if (factor && factor->is_null()) {  // modeling_rope_utils.py:427
      rope.factor = static_cast<double>(reader_.result().config.max_positions) /
                    static_cast<double>(*rope.original_max_position_embeddings);
    } else {
      SLM_ASSIGN(rope.factor, Required(dictionary, "factor"));
    }
    SLM_ASSIGN(result->attention_factor, Parameter(dictionary, "attention_factor", true));
    SLM_ASSIGN(rope.mscale, Parameter(dictionary, "mscale", true));
    SLM_ASSIGN(rope.mscale_all_dim, Parameter(dictionary, "mscale_all_dim", true));
    SLM_ASSIGN(const std::optional<double> fast, Parameter(dictionary, "beta_fast", true));
    SLM_ASSIGN(const std::optional<double> slow, Parameter(dictionary, "beta_slow", true));
    rope.beta_fast = fast && *fast != 0 ? *fast : 32.0;  // `... or 32`: modeling_rope_utils.py:444
    rope.beta_slow = slow && *slow != 0 ? *slow : 1.0;
    for (const auto& [key, number] : {std::pair<std::string_view, std::optional<double>>{"beta_fast", fast},
                                      {"beta_slow", slow},
                                      {"attention_factor", result->attention_factor}}) {
      const bool is_default = key != "attention_factor" && number == 0.0;
      if (!number || *number > 0 || is_default) continue;
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *dictionary.Find(key), "must be positive"));
    }
    rope.truncate = true;
    const std::optional<json::Value> truncate = dictionary.Find("truncate");
    if (truncate && truncate->is_null()) {
      rope.truncate = false;  // dict.get("truncate", True) gives None, which is false
    } else if (truncate) {
      SLM_ASSIGN(rope.truncate, BoolOf(kConfigFile, *truncate));
    }
    return {};
  }

  Result<Standardized> Standardize(const std::optional<json::Value>& dictionary) {
    Standardized result;
    RopeConfig& rope = result.rope;
    rope.dim = reader_.result().config.head_dim;
    SLM_ASSIGN(rope.type, TypeOf(dictionary));
    SLM_ASSIGN(rope.theta, Theta(dictionary));
    if (dictionary) {
      SLM_TRY(CheckKeys(*dictionary, rope.type));
    }
    if (rope.type == RopeType::kYarn) {
      SLM_TRY(ReadYarn(*dictionary, &result));
      return result;
    }
    if (rope.type != RopeType::kDefault) {
      SLM_ASSIGN(rope.factor, Required(*dictionary, "factor"));
    }
    if (rope.type != RopeType::kLlama3) {
      SLM_TRY(CheckUnreadLength());
      return result;
    }
    SLM_ASSIGN(rope.low_freq_factor, Required(*dictionary, "low_freq_factor"));
    SLM_ASSIGN(rope.high_freq_factor, Required(*dictionary, "high_freq_factor"));
    SLM_ASSIGN(rope.original_max_position_embeddings, OriginalLength(dictionary));
    return result;
  }

  // Gives an error of ComputeRope the place of the dictionary or of rope_theta.
  Status Locate(Status status, const std::optional<json::Value>& dictionary) {
    if (status) return status;
    Error error = std::move(status).error();
    const std::optional<json::Value> theta = reader_.Find("rope_theta");
    error.file = kConfigFile;
    if (dictionary) {
      error.byte_offset = dictionary->byte_offset();
    } else if (theta) {
      error.byte_offset = theta->byte_offset();
    }
    return Fail(std::move(error));
  }

  void Record(const std::optional<json::Value>& dictionary, bool attention_factor_given) {
    const RopeConfig& rope = reader_.result().config.rope;
    const auto stated = [&](std::string_view key) -> std::optional<json::Value> {
      return dictionary ? dictionary->Find(key) : std::nullopt;
    };
    const auto publisher = [&](std::string_view key) {
      const std::optional<json::Value> value = stated(key);
      return value ? Declared(kConfigFile, *value) : reader_.DeclaredOrNot(key);
    };
    const std::string file(kRopeFile);
    const std::optional<json::Value> type = stated("rope_type") ? stated("rope_type") : stated("type");
    reader_.Record("rope_type", type ? Declared(kConfigFile, *type) : "not declared",
                   file + ":825" + (type ? ": as declared" : ": default \"default\""), "",
                   std::string(RopeTypeName(rope.type)));
    reader_.Record("rope_theta", publisher("rope_theta"),
                   file + (stated("rope_theta") || reader_.Find("rope_theta") ? ":785: as declared"
                                                                              : ":760: default 10000.0"),
                   "", DoubleText(rope.theta));
    reader_.Record(
        "rope_dim", "not declared",
        "models/llama/modeling_llama.py:102: head_dim; partial_rotary_factor is 1.0 where not declared", "",
        std::to_string(rope.dim));
    const auto optional = [&](std::string_view field, std::string_view key,
                              const std::optional<double>& value, std::string_view line) {
      if (!value) return;
      reader_.Record(field, publisher(key), file + std::string(line), "", DoubleText(*value));
    };
    optional("rope_factor", "factor", rope.factor, ":175, :326, :418, :645");
    optional("rope_low_freq_factor", "low_freq_factor", rope.low_freq_factor, ":646");
    optional("rope_high_freq_factor", "high_freq_factor", rope.high_freq_factor, ":647");
    optional("rope_beta_fast", "beta_fast", rope.beta_fast, ":444: default 32");
    optional("rope_beta_slow", "beta_slow", rope.beta_slow, ":445: default 1");
    optional("rope_mscale", "mscale", rope.mscale, ":420");
    optional("rope_mscale_all_dim", "mscale_all_dim", rope.mscale_all_dim, ":421");
    if (rope.original_max_position_embeddings) {
      reader_.Record(
          "rope_original_max_position_embeddings", publisher("original_max_position_embeddings"),
          file +
              ":837-843: the key beside the dictionary, else the dictionary's, else max_position_embeddings",
          "", std::to_string(*rope.original_max_position_embeddings));
    }
    if (rope.truncate) {
      reader_.Record("rope_truncate", publisher("truncate"), file + ":475: default True; null is false", "",
                     *rope.truncate ? "true" : "false");
    }
    reader_.Record("rope_attention_factor",
                   attention_factor_given ? publisher("attention_factor") : "not declared",
                   file + (rope.type == RopeType::kYarn ? ":430-440: math.log of the platform" : ": 1.0"),
                   rope.type == RopeType::kYarn && !attention_factor_given
                       ? "the C library's logarithm is implementation-defined in its last bit"
                       : "",
                   DoubleText(rope.attention_factor) + "; the logarithm is correctly rounded");
    reader_.Record(
        "rope_inv_freq", "not declared",
        "models/llama/modeling_llama.py:106 or " + file + ": float32 power by the platform's vector code",
        "the power's last bit differs between processors and instruction sets",
        "exponent in float32, power correctly rounded, then the source's float32 operations in its order");
  }

  ConfigReader& reader_;
};

}  // namespace

Status ReadRope(ConfigReader* reader) {
  return RopeReader(reader).Read();
}

}  // namespace slm::llama
