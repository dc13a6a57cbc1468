// A plan bound to the tensors of an artifact: what sessions share.
//
// A Model is immutable and keeps its artifact alive; matrices are read in place, never copied
// (only vectors stored in 16 bits are widened once). Any thread may read.
#ifndef SLM_RUNTIME_BOUND_MODEL_H_
#define SLM_RUNTIME_BOUND_MODEL_H_

#include <atomic>
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

// Called with a tensor's name before its bytes are first read; an error refuses them.
using TensorCheck = std::function<Status(std::string_view name)>;

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
                                                                   std::shared_ptr<const void> keep_alive,
                                                                   TensorCheck check = {});
  // Errors: those of CheckModelArtifact and of Create. No tensor is hashed here: its chunks are, when a
  // step first reads it.
  [[nodiscard]] static Result<std::shared_ptr<const Model>> Load(std::shared_ptr<const Artifact> artifact);

  [[nodiscard]] const EffectiveConfig& config() const { return config_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  // In the order of plan().steps.
  [[nodiscard]] const std::vector<BoundStep>& bound_steps() const { return steps_; }
  // Runs the check on the tensors of a step, once in the life of the model if it passes. Call before the
  // step reads them. Errors: those of the check (SLM-CHUNK). Any thread.
  [[nodiscard]] Status CheckStep(size_t index) const;

 private:
  Model() = default;
  [[nodiscard]] Status Bind(const TensorLookup& lookup);
  [[nodiscard]] Result<std::span<const float>> BindVector(const TensorLookup& lookup, const PlanTensor& need);

  EffectiveConfig config_;
  Plan plan_;
  std::vector<BoundStep> steps_;
  std::vector<std::vector<float>> widened_;  // vectors that the artifact stores in 16 bits
  std::shared_ptr<const void> keep_alive_;
  TensorCheck check_;
  mutable std::vector<std::atomic<bool>> checked_;  // of each step
};

}  // namespace slm

#endif  // SLM_RUNTIME_BOUND_MODEL_H_
