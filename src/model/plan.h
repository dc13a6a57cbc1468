// Execution plan: what a family file makes of an effective config, and all that a backend needs.
//
// A linear list of steps. Each step has an operator, the slots it reads and the slot it writes,
// the artifact's tensors it uses, and the observation name of the standard (ORA-03), under which
// a tap sees its output. A backend executes the steps in order for any number of positions; it
// knows no model family. A plan is plain data; any thread may read.
#ifndef SLM_MODEL_PLAN_H_
#define SLM_MODEL_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/effective_config.h"

namespace slm {

enum class Operator : uint8_t {
  kInverseFrequencies,  // -> the artifact's rotary frequencies; nothing is computed
  kEmbedding,           // token ids -> rows of `weight`
  kRmsNorm,             // input[0] -> output
  kLinear,              // input[0] -> output, `weight` and perhaps `bias`
  kRotary,              // rotates the heads of output in place by position
  kAppendCache,         // input[0] keys, input[1] values -> the layer's cache
  kScores,              // input[0] queries and the cache -> scores, scaled
  kMask,                // which positions each position may see (causal)
  kSoftmax,             // input[0] scores -> probabilities over the eligible interval
  kWeightedSum,         // input[0] probabilities and the cache -> output
  kAdd,                 // input[0] + input[1] -> output
  kGate,                // activation(input[0]) * input[1] -> output
};

// Buffers that steps hand on. Each holds `width` floats a position, except scores, which hold
// the eligible interval of each head.
enum class Slot : uint8_t {
  kNone,
  kResidual,
  kNormed,
  kQuery,
  kKey,
  kValue,
  kScores,  // probabilities overwrite the scores
  kAttended,
  kProjected,  // attention output or MLP output, before the addition
  kGate,
  kUp,
  kActivated,
  kLogits,
};
inline constexpr size_t kSlotCount = 13;

struct Step {
  Operator op = Operator::kAdd;
  std::optional<uint32_t> layer;
  std::string observation;  // "layers.3.attn.q_rope"; empty: nothing to see
  std::string weight;       // name of the artifact's tensor; empty: none
  std::string bias;
  Slot inputs[2] = {Slot::kNone, Slot::kNone};
  Slot output = Slot::kNone;
  std::vector<uint64_t> shape;  // of the output for one position, e.g. {n_heads, head_dim}
  uint64_t n_inputs = 0;        // kLinear: columns of the weight
};

// A tensor that the plan reads, in order of first use.
struct PlanTensor {
  std::string name;
  std::vector<uint64_t> shape;
  Layout layout = Layout::kRowMajor;
};

struct Plan {
  std::vector<Step> steps;
  uint64_t slot_width[kSlotCount] = {};  // floats a position; 0 for kNone and kScores

  uint64_t vocab_size = 0;
  uint64_t n_layers = 0;
  uint64_t n_heads = 0;
  uint64_t n_kv_heads = 0;
  uint64_t head_dim = 0;
  float attention_scale = 0;
  float norm_epsilon = 0;
  Activation activation = Activation::kSilu;
  RopeConfig rope;
  uint64_t max_positions = 0;  // more are refused: CTX-LENGTH

  // The step with this observation name; null if there is none.
  [[nodiscard]] const Step* FindObservation(std::string_view name) const;
};

// Name of an operator in specifications and reports: "linear", "rms-norm", ...
[[nodiscard]] std::string_view OperatorName(Operator op);

// Errors: CFG-SHAPE (field) where sizes do not fit each other, CFG-ROPE where the frequencies do
// not fit the head, CFG-ARCHITECTURE for an unknown family. Sizes are re-checked here, since an
// artifact may come from anywhere.
[[nodiscard]] Result<Plan> BuildPlan(const EffectiveConfig& config);

// The tensors that `plan` reads, with the shape and layout each must have.
[[nodiscard]] std::vector<PlanTensor> PlanTensors(const Plan& plan);

}  // namespace slm

#endif  // SLM_MODEL_PLAN_H_
