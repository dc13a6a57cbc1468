#include "ops/ops.h"

#include <algorithm>

#include "numeric/exact_math.h"
#include "numeric/float_formats.h"

namespace slm::ops {
namespace {

float WidenAt(const MatrixView& matrix, uint64_t index) {
  switch (matrix.type) {
    case WeightType::kF32:
      return static_cast<const float*>(matrix.data)[index];
    case WeightType::kBf16:
      return numeric::Bf16ToF32(static_cast<const uint16_t*>(matrix.data)[index]);
    case WeightType::kF16:
      return numeric::F16ToF32(static_cast<const uint16_t*>(matrix.data)[index]);
  }
  return 0.0f;
}

}  // namespace

const KernelTable* KernelsFor(Kernel kernel) {
  if (kernel == Kernel::kScalar) return &scalar::kTable;
#ifdef SLM_HAVE_VECTOR_KERNELS
  if (__builtin_cpu_supports("avx2")) return &vector::kTable;
#endif
  return nullptr;
}

std::optional<Kernel> KernelFromName(std::string_view name) {
  if (name == "scalar") return Kernel::kScalar;
  if (name == "vector") return Kernel::kVector;
  return std::nullopt;
}

void CopyRow(const MatrixView& matrix, uint64_t row, std::span<float> out) {
  const uint64_t step = matrix.rows16 ? kRowsPerGroup : 1;
  const uint64_t first = matrix.rows16
                             ? (row / kRowsPerGroup) * kRowsPerGroup * matrix.n_cols + row % kRowsPerGroup
                             : row * matrix.n_cols;
  for (size_t k = 0; k < out.size(); ++k) out[k] = WidenAt(matrix, first + k * step);
}

float SumOfSquares(std::span<const float> x) {
  float total = 0.0f;
  for (size_t begin = 0; begin < x.size(); begin += kSumBlock) {
    float sum = 0.0f;
    for (const float value : x.subspan(begin, std::min(kSumBlock, x.size() - begin))) {
      const float square = value * value;
      sum = sum + square;
    }
    total = total + sum;
  }
  return total;
}

float RmsNorm(std::span<const float> x, std::span<const float> weight, float epsilon, std::span<float> out) {
  const float mean = SumOfSquares(x) / static_cast<float>(x.size());
  const float inverse = 1.0f / numeric::Sqrt(mean + epsilon);
  for (size_t i = 0; i < x.size(); ++i) {
    const float normal = x[i] * inverse;
    out[i] = weight[i] * normal;
  }
  return mean;
}

void RotaryTable(uint64_t position, std::span<const float> inv_freq, float factor, std::span<float> cosines,
                 std::span<float> sines) {
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    cosines[i] = numeric::Cos(angle) * factor;
    sines[i] = numeric::Sin(angle) * factor;
  }
}

void Rotate(std::span<float> head, std::span<const float> cosines, std::span<const float> sines) {
  const size_t half = cosines.size();
  for (size_t i = 0; i < half; ++i) {
    const float low = head[i];
    const float high = head[i + half];
    const float low_cos = low * cosines[i];
    const float high_sin = high * sines[i];
    const float high_cos = high * cosines[i];
    const float low_sin = low * sines[i];
    head[i] = low_cos - high_sin;
    head[i + half] = high_cos + low_sin;
  }
}

void Softmax(std::span<const float> scores, std::span<float> probs) {
  float largest = scores[0];
  for (const float score : scores) largest = score > largest ? score : largest;
  float sum = 0.0f;
  for (size_t j = 0; j < scores.size(); ++j) {
    probs[j] = numeric::Exp(scores[j] - largest);
    sum = sum + probs[j];
  }
  for (float& prob : probs) prob = prob / sum;
}

void Add(std::span<const float> a, std::span<const float> b, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + b[i];
}

float Apply(GateFunction function, float x) {
  switch (function) {
    case GateFunction::kSilu:
      return numeric::Silu(x);
    case GateFunction::kGeluErf:
      return numeric::GeluErf(x);
    case GateFunction::kGeluTanh:
      return numeric::GeluTanh(x);
    case GateFunction::kRelu:
      return x > 0.0f ? x : 0.0f;
  }
  return x;
}

void Gate(GateFunction function, std::span<const float> gate, std::span<const float> up,
          std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = Apply(function, gate[i]) * up[i];
}

std::optional<size_t> FirstNonfinite(std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!numeric::IsFinite(values[i])) return i;
  }
  return std::nullopt;
}

size_t Argmax(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

std::vector<uint32_t> TopK(std::span<const float> values, size_t k) {
  std::vector<uint32_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  k = std::min(k, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
      [values](uint32_t a, uint32_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(k);
  return order;
}

}  // namespace slm::ops
