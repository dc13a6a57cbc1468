// A plan bound to the tensors of an artifact: what sessions share.
//
// A Model is immutable and keeps its artifact alive; matrices are read in place, never copied
// (only vectors stored in 16 bits are widened once). Any thread may read.
#ifndef SLM_RUNTIME_BOUND_MODEL_H_
#define SLM_RUNTIME_BOUND_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/effective_config.h"
#include "model/plan.h"
#include "ops/ops.h"
#include "slm_file/artifact.h"

namespace slm {

// A tensor as it lies in memory.
struct TensorView {
  ByteSpan bytes;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // logical
  Layout layout = Layout::kRowMajor;
};

// Finds a tensor by its destination name; nothing if there is none.
using TensorLookup = std::function<std::optional<TensorView>(std::string_view name)>;

// What one step of the plan reads besides its slots.
struct BoundStep {
  ops::MatrixView matrix;
  std::span<const float> vector;  // of kRmsNorm
  std::span<const float> bias;    // of kLinear; empty: none
};

class Model {
 public:
  // Errors: those of BuildPlan; MAP-MISSING, MAP-SHAPE, SLM-TENSOR-SIZE, SLM-ALIGN, SLM-LAYOUT with
  // the tensor's name in `field`. `keep_alive` owns what the lookup's views point to.
  [[nodiscard]] static Result<std::shared_ptr<const Model>> Create(EffectiveConfig config,
                                                                   const TensorLookup& lookup,
                                                                   std::shared_ptr<const void> keep_alive);
  [[nodiscard]] static Result<std::shared_ptr<const Model>> Load(std::shared_ptr<const Artifact> artifact);

  [[nodiscard]] const EffectiveConfig& config() const { return config_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  // In the order of plan().steps.
  [[nodiscard]] const std::vector<BoundStep>& bound_steps() const { return steps_; }

 private:
  Model() = default;
  [[nodiscard]] Status Bind(const TensorLookup& lookup);
  [[nodiscard]] Result<std::span<const float>> BindVector(const TensorLookup& lookup, const PlanTensor& need);

  EffectiveConfig config_;
  Plan plan_;
  std::vector<BoundStep> steps_;
  std::vector<std::vector<float>> widened_;  // vectors that the artifact stores in 16 bits
  std::shared_ptr<const void> keep_alive_;
};

}  // namespace slm

#endif  // SLM_RUNTIME_BOUND_MODEL_H_
