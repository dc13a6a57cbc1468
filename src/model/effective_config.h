// Effective configuration: every behaviour-affecting field of a model, materialized (CFG-01, CFG-03).
//
// The converter builds it from config.json and generation_config.json as the pinned source would;
// the artifact stores it; the runtime reads only this. Field names of the CBOR form, with type and
// meaning, stand in docs/spec/family-llama.md; the oracle exports the same names from the
// configuration that the pinned source really built, and the two are compared field by field.
// Values are plain data; any thread may read.
#ifndef SLM_MODEL_EFFECTIVE_CONFIG_H_
#define SLM_MODEL_EFFECTIVE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "slm_file/artifact.h"

namespace slm {

enum class Activation : uint8_t {
  kSilu,      // x * sigmoid(x)
  kGeluErf,   // x/2 * (1 + erf(x / sqrt 2))
  kGeluTanh,  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  kRelu,      // max(x, 0)
};
enum class RopeType : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLlama3 };

// Names as in config.json: "silu", "gelu", "gelu_pytorch_tanh", "relu"; "default", "linear", ...
[[nodiscard]] std::string_view ActivationName(Activation activation);
[[nodiscard]] std::string_view RopeTypeName(RopeType type);

// Rotary embedding. Parameters that the type does not have are absent.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 0;
  uint64_t dim = 0;  // rotated dimensions of each head; pairs are (i, i + dim / 2)
  std::optional<double> factor;
  std::optional<uint64_t> original_max_position_embeddings;
  std::optional<double> low_freq_factor, high_freq_factor;             // llama3
  std::optional<double> beta_fast, beta_slow, mscale, mscale_all_dim;  // yarn
  std::optional<bool> truncate;                                        // yarn
  double attention_factor = 1.0;                                       // as the source computes it, float64
  float attention_factor_f32 = 1.0f;                                   // multiplies cos and sin
  std::vector<float> inv_freq;  // dim / 2 values; the bits are the contract

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct EffectiveConfig {
  std::string family;        // "llama"
  std::string architecture;  // "LlamaForCausalLM"

  uint64_t vocab_size = 0;
  uint64_t padded_vocab_size = 0;  // rows of the embedding; equals vocab_size in this family
  uint64_t hidden_size = 0;
  uint64_t intermediate_size = 0;
  uint64_t n_layers = 0;
  uint64_t n_heads = 0;
  uint64_t n_kv_heads = 0;  // query head h reads key/value head h / (n_heads / n_kv_heads)
  uint64_t head_dim = 0;
  bool tie_word_embeddings = false;

  Activation activation = Activation::kSilu;
  double norm_eps = 0;     // RMSNorm before attention, before the MLP, and at the end
  float norm_eps_f32 = 0;  // what is added to the mean square

  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  bool gate_bias = false, up_bias = false, down_bias = false;

  RopeConfig rope;
  uint64_t trained_context = 0;   // original_max_position_embeddings where scaling extends it
  uint64_t max_positions = 0;     // more positions are refused: CTX-LENGTH
  double attention_scale = 0;     // head_dim ** -0.5, float64
  float attention_scale_f32 = 0;  // multiplies the products of query and key

  DType source_dtype = DType::kF32;  // the publisher's dtype: what "source-faithful" loads
  std::optional<uint64_t> bos_token_id;
  std::vector<uint64_t> eos_token_ids;  // increasing; empty: no stop token
  std::optional<uint64_t> pad_token_id;

  friend bool operator==(const EffectiveConfig&, const EffectiveConfig&) = default;
};

// Deterministic map with every field, the fixed ones (mask, norm place, cache policy, ...) included.
[[nodiscard]] cbor::Map ConfigToCbor(const EffectiveConfig& config);
// Strict inverse: unknown, absent or out-of-range fields are refused (SCHEMA-*, with the field).
[[nodiscard]] Result<EffectiveConfig> ConfigFromCbor(const cbor::Map& map);
// The same map as JSON text, numbers readable; never hashed.
[[nodiscard]] std::string ConfigToJson(const EffectiveConfig& config);

// The four columns of LVL-02 for one field of the CBOR form.
struct FieldRecord {
  std::string name;       // as in docs/spec/family-llama.md
  std::string publisher;  // what the source declares, with file and key; "not declared"
  std::string pinned;     // what the pinned source does with it, with file and line
  std::string undefined;  // what is left open, or implementation-defined; may be empty
  std::string choice;     // what this artifact does
};

// A key that has no effect on this artifact (CFG-02).
struct IgnoredKey {
  std::string file, key, value, reason;
};

// A sampling declaration of generation_config.json: recorded, not applied.
struct SamplingDeclaration {
  std::string key, value;  // value as it stands in the file
};

// Two declarations that disagree, let through by a person's statement (LVL-03).
struct AcceptedConflict {
  ErrorCode code{};
  std::string field;  // key of the configuration, e.g. "eos_token_id"
  std::string first, second;
};

struct ConfigResult {
  EffectiveConfig config;
  std::vector<FieldRecord> records;  // in order of name
  std::vector<IgnoredKey> ignored;
  std::vector<SamplingDeclaration> sampling;
  std::vector<AcceptedConflict> accepted_conflicts;
};

}  // namespace slm

#endif  // SLM_MODEL_EFFECTIVE_CONFIG_H_
