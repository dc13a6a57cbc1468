// Effective configuration of family `llama` (docs/spec/family-llama.md).
//
// config.json and generation_config.json are read as transformers 5.24.0 reads them, old and new
// spelling of the rotary parameters alike, under a closed schema: a key that the family profile does
// not list is refused, and so is a listed key with a value that would change the model. Pure
// functions; errors carry the byte offset in the file that `file` names, and the key in `field`.
#ifndef SLM_MODEL_LLAMA_H_
#define SLM_MODEL_LLAMA_H_

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/json.h"
#include "model/effective_config.h"
#include "model/family_profile.h"

namespace slm {

// What a person has decided (statement files); the program never fills this by itself.
struct DocumentaryKey {
  std::string key;       // "config.json:some_key"
  std::string decision;  // which statement says so; recorded
};
struct ConfigPolicy {
  // Keys whose conflict is accepted: "eos_token_id", "bos_token_id", "pad_token_id".
  std::vector<std::string> accepted_conflicts;
  // Declarations that hold in an accepted conflict: "config.json#$.eos_token_id". Where none of the
  // two is named, the pinned source's resolution holds.
  std::vector<std::string> holding;
  // Where the declaration that holds stands in a file of the tokenizer: its ids.
  struct HeldToken {
    std::string key;  // "eos_token_id"
    std::string ref;  // "tokenizer_config.json#$.eos_token"
    std::vector<uint64_t> ids;
  };
  std::vector<HeldToken> held_tokens;
  // Whether the output is the embedding, where the flag and the tensors contradict each other.
  std::optional<bool> tied;
  // Keys outside the profile that a decision calls documentary.
  std::vector<DocumentaryKey> documentary_keys;
};

// Errors: CFG-*. `checkpoint_dtype`: dtype of the first tensor, what the pinned source takes where
// config.json declares none.
[[nodiscard]] Result<ConfigResult> BuildLlamaConfig(const json::Value& config,
                                                    const json::Value* generation_config,
                                                    const FamilyProfile& profile,
                                                    const ConfigPolicy& policy = {},
                                                    std::optional<DType> checkpoint_dtype = std::nullopt);

// The part of it that needs no sizes: every key of both files is one that the profile lists, with a value
// that the family supports, or one that `policy` calls documentary. Acquisition stops at the same keys as
// conversion. Errors: CFG-UNKNOWN-FIELD, CFG-UNCLASSIFIED, CFG-VALUE, CFG-TYPE.
[[nodiscard]] Status CheckLlamaKeys(const json::Value& config, const json::Value* generation_config,
                                    const FamilyProfile& profile, const ConfigPolicy& policy);

// One tensor that the family needs.
struct TensorSpec {
  std::string source_name;  // "model.layers.3.self_attn.q_proj.weight"
  std::string name;         // "layers.3.attn.q.weight"
  std::string role;         // "attn.q.weight"
  std::optional<uint32_t> layer;
  std::vector<uint64_t> shape;  // of the source and of the destination
  Layout layout = Layout::kRowMajor;
  // For a tied output: index of the embedding in the list. The source may hold an equal copy.
  std::optional<size_t> alias_of;
};

// Every tensor in execution order: embedding, layers, final norm, head.
[[nodiscard]] std::vector<TensorSpec> LlamaTensors(const EffectiveConfig& config);

// Of "model.layers.N...": N, or 2^64 - 1 where N is larger; nothing if the name is of another form.
[[nodiscard]] std::optional<uint64_t> LlamaLayerOf(std::string_view source_name);

// True for the rotary buffers that old checkpoints carry
// ("model.layers.N.self_attn.rotary_emb.inv_freq"): the source does not load them.
[[nodiscard]] bool IsLlamaRotaryBuffer(std::string_view source_name);

}  // namespace slm

#endif  // SLM_MODEL_LLAMA_H_
