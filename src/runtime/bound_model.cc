#include "runtime/bound_model.h"

#include <string>
#include <utility>

#include "base/checked.h"
#include "model/artifact_check.h"

namespace slm {
namespace {

ops::WeightType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ops::WeightType::kF32;
    case DType::kBf16:
      return ops::WeightType::kBf16;
    case DType::kF16:
      return ops::WeightType::kF16;
  }
  return ops::WeightType::kF32;
}

Error TensorError(ErrorCode code, const std::string& name, std::string_view what) {
  return MakeError(code, "tensor '" + name + "' " + std::string(what)).Field(name);
}

// The view, checked against the plan's shape and layout and against its own size.
Result<TensorView> Fetch(const TensorLookup& lookup, const PlanTensor& need) {
  std::optional<TensorView> view = lookup(need.name);
  if (!view) return Fail(TensorError(ErrorCode::kMapMissing, need.name, "is absent"));
  if (view->shape != need.shape)
    return Fail(TensorError(ErrorCode::kMapShape, need.name, "has another shape than the plan"));
  if (view->layout != need.layout) {
    return Fail(TensorError(ErrorCode::kSlmLayout, need.name,
                            "has another layout than " + std::string(LayoutName(need.layout))));
  }
  const std::optional<std::vector<uint64_t>> physical = PhysicalShape(need.shape, need.layout);
  std::optional<uint64_t> bytes = DTypeSize(view->dtype);
  if (!physical) bytes.reset();
  for (size_t i = 0; bytes && i < physical->size(); ++i) bytes = CheckedMul(*bytes, (*physical)[i]);
  if (!bytes || *bytes != view->bytes.size()) {
    return Fail(TensorError(ErrorCode::kSlmTensorSize, need.name, "has another size than its shape"));
  }
  if (reinterpret_cast<uintptr_t>(view->bytes.data()) % DTypeSize(view->dtype) != 0) {
    return Fail(TensorError(ErrorCode::kSlmAlign, need.name, "is not aligned"));
  }
  return *std::move(view);
}

ops::MatrixView AsMatrix(const TensorView& view) {
  return {view.bytes.data(), TypeOf(view.dtype), view.layout == Layout::kRows16, view.shape[0],
          view.shape[1]};
}

}  // namespace

Result<std::span<const float>> Model::BindVector(const TensorLookup& lookup, const PlanTensor& need) {
  SLM_ASSIGN(const TensorView view, Fetch(lookup, need));
  const size_t n = view.shape[0];
  if (view.dtype == DType::kF32)
    return std::span<const float>(reinterpret_cast<const float*>(view.bytes.data()), n);
  if (check_) SLM_TRY(check_(need.name));
  std::vector<float>& wide = widened_.emplace_back(n);
  ops::CopyRow({view.bytes.data(), TypeOf(view.dtype), false, 1, n}, 0, wide);
  return std::span<const float>(wide);
}

Status Model::Bind(const TensorLookup& lookup) {
  const std::vector<PlanTensor> tensors = PlanTensors(plan_);
  size_t next = 0;
  for (const Step& step : plan_.steps) {
    BoundStep& bound = steps_.emplace_back();
    if (step.op == Operator::kRmsNorm) {
      SLM_ASSIGN(bound.vector, BindVector(lookup, tensors[next++]));
    } else if (!step.weight.empty()) {
      SLM_ASSIGN(const TensorView view, Fetch(lookup, tensors[next++]));
      bound.matrix = AsMatrix(view);
      if (!step.bias.empty()) {
        SLM_ASSIGN(bound.bias, BindVector(lookup, tensors[next++]));
      }
    }
  }
  return {};
}

Status Model::CheckStep(size_t index) const {
  if (!check_ || checked_[index].load(std::memory_order_relaxed)) return {};
  const Step& step = plan_.steps[index];
  if (!step.weight.empty()) SLM_TRY(check_(step.weight));
  if (!step.bias.empty()) SLM_TRY(check_(step.bias));
  checked_[index].store(true, std::memory_order_relaxed);
  return {};
}

Result<std::shared_ptr<const Model>> Model::Create(EffectiveConfig config, const TensorLookup& lookup,
                                                   std::shared_ptr<const void> keep_alive,
                                                   TensorCheck check) {
  std::shared_ptr<Model> model(new Model());
  SLM_ASSIGN(model->plan_, BuildPlan(config));
  model->config_ = std::move(config);
  model->keep_alive_ = std::move(keep_alive);
  model->check_ = std::move(check);
  model->checked_ = std::vector<std::atomic<bool>>(model->plan_.steps.size());
  SLM_TRY(model->Bind(lookup));
  return std::shared_ptr<const Model>(std::move(model));
}

Result<std::shared_ptr<const Model>> Model::Load(std::shared_ptr<const Artifact> artifact) {
  SLM_ASSIGN(EffectiveConfig config, CheckModelArtifact(*artifact));
  const Artifact& file = *artifact;
  const TensorLookup lookup = [&file](std::string_view name) -> std::optional<TensorView> {
    const TensorEntry* entry = file.Find(name);
    if (entry == nullptr) return std::nullopt;
    return TensorView{file.TensorBytes(*entry), entry->dtype, entry->shape, entry->layout};
  };
  TensorCheck check = [&file](std::string_view name) { return file.VerifyTensor(*file.Find(name)); };
  return Create(std::move(config), lookup, std::move(artifact), std::move(check));
}

}  // namespace slm
