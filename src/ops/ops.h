// Operators of profile exact-v1 (docs/spec/exact-v1.md) on plain float32 arrays.
//
// Every product is rounded before it is added; every sum has a fixed order. The three inner
// loops that take the time stand in kernels.h. No function keeps state, allocates, or fails;
// sizes are the caller's duty. Arrays are row-major and must not overlap unless said.
#ifndef SLM_OPS_OPS_H_
#define SLM_OPS_OPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/kernels.h"

namespace slm::ops {

// Which build of kernels.cc runs.
enum class Kernel : uint8_t { kScalar, kVector };

// The kernels, or null where this build or this CPU lacks them. kScalar is always there.
[[nodiscard]] const KernelTable* KernelsFor(Kernel kernel);

// "scalar", "vector"; nothing for another name.
[[nodiscard]] std::optional<Kernel> KernelFromName(std::string_view name);

// A matrix as it stands in the artifact. It is read in place, never copied.
struct MatrixView {
  const void* data = nullptr;
  WeightType type = WeightType::kF32;
  bool rows16 = false;  // else row-major
  uint64_t n_rows = 0;
  uint64_t n_cols = 0;
};

// out[k] = matrix(row, k), widened. REQUIRES: row < n_rows, out.size() == n_cols.
void CopyRow(const MatrixView& matrix, uint64_t row, std::span<float> out);

// Sum of squares in two levels (blocks of 32).
[[nodiscard]] float SumOfSquares(std::span<const float> x);

// out[i] = weight[i] * (x[i] * (1 / sqrt(SumOfSquares(x) / n + epsilon))). May be in place.
// Returns the mean square: where that overflows, the results are zeros and hide it (OPS-03).
[[nodiscard]] float RmsNorm(std::span<const float> x, std::span<const float> weight, float epsilon,
                            std::span<float> out);

// cosines[i], sines[i] of the float32 product position * inv_freq[i], times `factor`.
// REQUIRES: position < 2^24, so that it is exact in float32.
void RotaryTable(uint64_t position, std::span<const float> inv_freq, float factor, std::span<float> cosines,
                 std::span<float> sines);
// Rotates the pairs (i, i + n) of one head in place, n = cosines.size(); what lies beyond 2 n stays.
void Rotate(std::span<float> head, std::span<const float> cosines, std::span<const float> sines);

// Softmax over all of `scores`. May be in place. REQUIRES: not empty, all finite.
void Softmax(std::span<const float> scores, std::span<float> probs);

// out[i] = a[i] + b[i]. May be in place.
void Add(std::span<const float> a, std::span<const float> b, std::span<float> out);

enum class GateFunction : uint8_t { kSilu, kGeluErf, kGeluTanh, kRelu };
[[nodiscard]] float Apply(GateFunction function, float x);
// out[i] = function(gate[i]) * up[i]. May be in place.
void Gate(GateFunction function, std::span<const float> gate, std::span<const float> up,
          std::span<float> out);

// Index of the first NaN or infinity, if there is one.
[[nodiscard]] std::optional<size_t> FirstNonfinite(std::span<const float> values);

// Lowest index of the largest value. REQUIRES: not empty, all finite.
[[nodiscard]] size_t Argmax(std::span<const float> values);
// Indices of the k largest values, largest first, equal values by index.
[[nodiscard]] std::vector<uint32_t> TopK(std::span<const float> values, size_t k);

}  // namespace slm::ops

#endif  // SLM_OPS_OPS_H_
