// See kernels.h. One source, two builds: SLM_KERNEL_VECTOR chooses the name and the tile shape.
#include "ops/kernels.h"

#ifdef SLM_KERNEL_VECTOR
#define SLM_KERNEL_NAMESPACE vector
#else
#define SLM_KERNEL_NAMESPACE scalar
#endif

namespace slm::ops::SLM_KERNEL_NAMESPACE {
namespace {

// A tile is kTileRows outputs of up to kMaxTileTokens tokens, summed in registers. Without
// vectors 8 sums, the operand and a product fit the 16 registers of x86-64; with vectors a
// register holds several rows, so whole groups of several tokens fit.
#ifdef SLM_KERNEL_VECTOR
constexpr size_t kTileRows = 16;
constexpr size_t kMaxTileTokens = 4;
#else
constexpr size_t kTileRows = 8;
constexpr size_t kMaxTileTokens = 1;
#endif

// Tokens that share one pass over a group's weights.
constexpr size_t kPassTokens = 16;

struct F32 {
  using Stored = float;
  static float Widen(float value) { return value; }
};
struct Bf16 {
  using Stored = uint16_t;
  static float Widen(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};
struct F16 {
  using Stored = uint16_t;
  // The exponent is moved by an exact multiplication with 2^112, which also makes subnormal
  // numbers right; infinities and NaNs get the largest exponent afterwards.
  static float Widen(uint16_t bits) {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu);
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
    const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, scaled) | special | sign);
  }
};

// Sums of one tile over one block: sums[t][r] = sum of w[k][r] * x[t][k], k in order, from 0.
template <typename W, size_t kTokens>
inline __attribute__((always_inline)) void BlockSums(const typename W::Stored* w, const float* x,
                                                     size_t x_stride, size_t n_k,
                                                     float (&totals)[kTokens][kTileRows]) {
  float sums[kTokens][kTileRows];
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t r = 0; r < kTileRows; ++r) sums[t][r] = 0.0f;
  }
  for (size_t k = 0; k < n_k; ++k) {
    const typename W::Stored* column = w + k * kRowsPerGroup;
    for (size_t t = 0; t < kTokens; ++t) {
      const float operand = x[t * x_stride + k];
#pragma GCC unroll 16
      for (size_t r = 0; r < kTileRows; ++r) {
        const float product = W::Widen(column[r]) * operand;
        sums[t][r] = sums[t][r] + product;
      }
    }
  }
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t r = 0; r < kTileRows; ++r) totals[t][r] = totals[t][r] + sums[t][r];
  }
}

// Outputs of one group of rows for kTokens tokens; `rows` of the group's 16 are real.
template <typename W, size_t kTokens>
void GroupTile(const typename W::Stored* group, const LinearArgs& args, size_t token, size_t first_row,
               size_t rows) {
  const float* x = args.x + token * args.n_k;
  for (size_t tile = 0; tile < rows; tile += kTileRows) {
    float totals[kTokens][kTileRows] = {};
    for (size_t k = 0; k < args.n_k; k += kSumBlock) {
      const size_t n = args.n_k - k < kSumBlock ? args.n_k - k : kSumBlock;
      const typename W::Stored* w = group + k * kRowsPerGroup + tile;
      if (n == kSumBlock) {
        BlockSums<W, kTokens>(w, x + k, args.n_k, kSumBlock, totals);
      } else {
        BlockSums<W, kTokens>(w, x + k, args.n_k, n, totals);
      }
    }
    const size_t n_rows = rows - tile < kTileRows ? rows - tile : kTileRows;
    for (size_t t = 0; t < kTokens; ++t) {
      float* y = args.y + (token + t) * args.n_rows + first_row + tile;
      for (size_t r = 0; r < n_rows; ++r) {
        y[r] = args.bias == nullptr ? totals[t][r] : totals[t][r] + args.bias[first_row + tile + r];
      }
    }
  }
}

template <typename W>
void LinearOf(const LinearArgs& args) {
  const auto* weights = static_cast<const typename W::Stored*>(args.weights);
  for (size_t pass = 0; pass < args.n_tokens; pass += kPassTokens) {
    const size_t pass_end = args.n_tokens - pass < kPassTokens ? args.n_tokens : pass + kPassTokens;
    for (size_t row = 0; row < args.n_rows; row += kRowsPerGroup) {
      const size_t rows = args.n_rows - row < kRowsPerGroup ? args.n_rows - row : kRowsPerGroup;
      const typename W::Stored* group = weights + row * args.n_k;
      size_t token = pass;
      if constexpr (kMaxTileTokens > 1) {
        for (; token + kMaxTileTokens <= pass_end; token += kMaxTileTokens) {
          GroupTile<W, kMaxTileTokens>(group, args, token, row, rows);
        }
      }
      for (; token < pass_end; ++token) GroupTile<W, 1>(group, args, token, row, rows);
    }
  }
}

void Linear(const LinearArgs& args) {
  switch (args.type) {
    case WeightType::kF32:
      return LinearOf<F32>(args);
    case WeightType::kBf16:
      return LinearOf<Bf16>(args);
    case WeightType::kF16:
      return LinearOf<F16>(args);
  }
}

// Scores of kCount neighbouring positions: independent sums, so that additions overlap.
template <size_t kCount>
void ScoreTile(const ScoresArgs& args, size_t position) {
  const float* keys = args.keys + position * args.head_dim;
  float totals[kCount] = {};
  for (size_t d = 0; d < args.head_dim; d += kSumBlock) {
    const size_t end = args.head_dim - d < kSumBlock ? args.head_dim : d + kSumBlock;
    float sums[kCount] = {};
    for (size_t i = d; i < end; ++i) {
      const float operand = args.query[i];
#pragma GCC unroll 8
      for (size_t j = 0; j < kCount; ++j) {
        const float product = operand * keys[j * args.head_dim + i];
        sums[j] = sums[j] + product;
      }
    }
    for (size_t j = 0; j < kCount; ++j) totals[j] = totals[j] + sums[j];
  }
  for (size_t j = 0; j < kCount; ++j) args.scores[position + j] = totals[j] * args.scale;
}

void Scores(const ScoresArgs& args) {
  size_t position = 0;
  for (; position + 8 <= args.n_positions; position += 8) ScoreTile<8>(args, position);
  for (; position < args.n_positions; ++position) ScoreTile<1>(args, position);
}

template <size_t kCount>
void WeightedTile(const WeightedSumArgs& args, size_t d) {
  float sums[kCount] = {};
  for (size_t j = 0; j < args.n_positions; ++j) {
    const float weight = args.probs[j];
    const float* value = args.values + j * args.head_dim + d;
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i) {
      const float product = weight * value[i];
      sums[i] = sums[i] + product;
    }
  }
  for (size_t i = 0; i < kCount; ++i) args.out[d + i] = sums[i];
}

void WeightedSum(const WeightedSumArgs& args) {
  size_t d = 0;
  for (; d + 8 <= args.head_dim; d += 8) WeightedTile<8>(args, d);
  for (; d < args.head_dim; ++d) WeightedTile<1>(args, d);
}

}  // namespace

#ifdef SLM_KERNEL_VECTOR
const KernelTable kTable = {"native-vector", Linear, Scores, WeightedSum};
#elif defined(__wasm__)
const KernelTable kTable = {"wasm-scalar", Linear, Scores, WeightedSum};
#else
const KernelTable kTable = {"native-scalar", Linear, Scores, WeightedSum};
#endif

}  // namespace slm::ops::SLM_KERNEL_NAMESPACE
