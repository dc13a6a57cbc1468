// Inner loops of profile exact-v1 (docs/spec/exact-v1.md): dot products in two levels,
// attention scores and weighted sums.
//
// kernels.cc is compiled twice: as `scalar` with the vectorizer off (the reference), and as
// `vector` with the vectorizer on and AVX2. Both make the same additions in the same order,
// so they give the same bits; only time differs. Functions keep no state and may run on any
// thread. This header is free of inline functions on purpose: code compiled for AVX2 must
// never be what the linker picks for the rest of the program.
#ifndef SLM_OPS_KERNELS_H_
#define SLM_OPS_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace slm::ops {

// Storage of a weight; widened to float32 exactly before use.
enum class WeightType : uint8_t { kF32, kBf16, kF16 };

inline constexpr size_t kRowsPerGroup = 16;  // rows that stand interleaved
inline constexpr size_t kSumBlock = 32;      // k of one inner sum

// y[token][row] = dot(w[row], x[token]) + bias[row].
struct LinearArgs {
  const void* weights;  // rows16: element (row, k) at ((row / 16) * n_k + k) * 16 + row % 16
  WeightType type;
  size_t n_rows;  // logical; the last group may hold padding rows, which are never stored
  size_t n_k;
  const float* bias;  // null: none
  const float* x;     // [n_tokens][n_k]
  float* y;           // [n_tokens][n_rows]
  size_t n_tokens;
};

// scores[j] = dot(query, keys[j]) * scale for j < n_positions.
struct ScoresArgs {
  const float* query;  // [head_dim]
  const float* keys;   // [n_positions][head_dim]
  size_t n_positions;
  size_t head_dim;
  float scale;
  float* scores;
};

// out[d] = sum over j, in order, of probs[j] * values[j][d].
struct WeightedSumArgs {
  const float* probs;
  const float* values;  // [n_positions][head_dim]
  size_t n_positions;
  size_t head_dim;
  float* out;
};

struct KernelTable {
  const char* name;  // "native-scalar", "native-vector", "wasm-scalar"
  void (*linear)(const LinearArgs&);
  void (*scores)(const ScoresArgs&);
  void (*weighted_sum)(const WeightedSumArgs&);
};

namespace scalar {
extern const KernelTable kTable;
}
namespace vector {
extern const KernelTable kTable;
}

}  // namespace slm::ops

#endif  // SLM_OPS_KERNELS_H_
