// Kernels against the definition in docs/spec/exact-v1.md, written out here in its plainest form
// (OPS-01, OPS-05), in every storage type, with odd sizes and hostile padding.
#include "ops/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "numeric/float_formats.h"
#include "ops/ops.h"

namespace slm::ops {
namespace {

using numeric::BitsOf;

// The definition: two levels, one addition at a time, through volatile so that no compiler
// setting can fuse or reorder.
float TwoLevelDot(const std::vector<float>& a, const std::vector<float>& b) {
  volatile float total = 0.0f;
  for (size_t begin = 0; begin < a.size(); begin += 32) {
    volatile float sum = 0.0f;
    for (size_t k = begin; k < std::min(begin + 32, a.size()); ++k) {
      volatile float product = a[k] * b[k];
      sum = sum + product;
    }
    total = total + sum;
  }
  return total;
}

struct Case {
  size_t n_rows, n_k, n_tokens;
  bool bias;
};

// A matrix stored as rows16 with `padding` in the rows past the last.
struct Stored {
  std::vector<float> wide;  // logical, row-major, as the kernel must see it
  std::vector<float> f32;
  std::vector<uint16_t> half;
};

Stored Store(size_t n_rows, size_t n_k, WeightType type, float padding, std::mt19937* rng) {
  std::normal_distribution<float> normal(0.0f, 1.0f);
  Stored out;
  out.wide.resize(n_rows * n_k);
  const size_t physical = (n_rows + 15) / 16 * 16 * n_k;
  out.f32.assign(physical, padding);
  out.half.assign(physical,
                  type == WeightType::kBf16 ? numeric::F32ToBf16(padding) : numeric::F32ToF16(padding));
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t k = 0; k < n_k; ++k) {
      const float value = normal(*rng);
      const size_t index = ((r / 16) * n_k + k) * 16 + r % 16;
      out.f32[index] = value;
      if (type == WeightType::kBf16) out.half[index] = numeric::F32ToBf16(value);
      if (type == WeightType::kF16) out.half[index] = numeric::F32ToF16(value);
      out.wide[r * n_k + k] = type == WeightType::kF32    ? value
                              : type == WeightType::kBf16 ? numeric::Bf16ToF32(out.half[index])
                                                          : numeric::F16ToF32(out.half[index]);
    }
  }
  return out;
}

std::vector<float> Random(size_t n, std::mt19937* rng) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> out(n);
  for (float& value : out) value = normal(*rng);
  return out;
}

class KernelsTest : public testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    table_ = KernelsFor(GetParam());
    if (table_ == nullptr) {
      printf("not-run: kernels: no AVX2 on this CPU\n");
      GTEST_SKIP() << "no AVX2 on this CPU";
    }
  }
  const KernelTable* table_ = nullptr;
};

TEST_P(KernelsTest, LinearEqualsTheDefinition) {  // OPS-05, MAP-03
  std::mt19937 rng(7);
  const Case cases[] = {{1, 1, 1, false},    {16, 32, 1, true},  {17, 33, 2, true},
                        {40, 31, 5, false},  {8, 64, 4, true},   {9, 100, 7, true},
                        {33, 576, 3, false}, {15, 65, 21, true}, {64, 172, 16, false}};
  const float paddings[] = {std::nanf(""), 1e30f, 0.0f};
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
    for (const Case& c : cases) {
      std::vector<float> previous;
      const auto seed = rng();
      for (const float padding : paddings) {
        std::mt19937 same(seed);
        const Stored w = Store(c.n_rows, c.n_k, type, padding, &same);
        const std::vector<float> x = Random(c.n_tokens * c.n_k, &same);
        const std::vector<float> bias = Random(c.n_rows, &same);
        // Guard floats behind the output show a store past the end.
        std::vector<float> y(c.n_tokens * c.n_rows + 16, 123.0f);
        const void* data = type == WeightType::kF32 ? static_cast<const void*>(w.f32.data()) : w.half.data();
        table_->linear(
            {data, type, c.n_rows, c.n_k, c.bias ? bias.data() : nullptr, x.data(), y.data(), c.n_tokens});
        for (size_t t = 0; t < c.n_tokens; ++t) {
          for (size_t r = 0; r < c.n_rows; ++r) {
            const std::vector<float> row(w.wide.begin() + static_cast<std::ptrdiff_t>(r * c.n_k),
                                         w.wide.begin() + static_cast<std::ptrdiff_t>((r + 1) * c.n_k));
            const std::vector<float> token(x.begin() + static_cast<std::ptrdiff_t>(t * c.n_k),
                                           x.begin() + static_cast<std::ptrdiff_t>((t + 1) * c.n_k));
            volatile float want = TwoLevelDot(row, token);
            if (c.bias) want = want + bias[r];
            ASSERT_EQ(BitsOf(y[t * c.n_rows + r]), BitsOf(want))
                << "type " << int(type) << " rows " << c.n_rows << " k " << c.n_k << " token " << t << " row "
                << r;
          }
        }
        for (size_t i = 0; i < 16; ++i) ASSERT_EQ(y[c.n_tokens * c.n_rows + i], 123.0f);
        if (!previous.empty()) {
          ASSERT_EQ(previous, y) << "padding reached an output";
        }
        previous = y;
      }
    }
  }
}

TEST_P(KernelsTest, HalfWeightsWidenExactly) {  // every f16 and bf16 value through the kernel's own widening
  for (const WeightType type : {WeightType::kBf16, WeightType::kF16}) {
    std::vector<uint16_t> group(16 * 1);
    const float one = 1.0f;
    for (uint32_t start = 0; start < 0x10000; start += 16) {
      for (uint32_t r = 0; r < 16; ++r) group[r] = static_cast<uint16_t>(start + r);
      float y[16];
      table_->linear({group.data(), type, 16, 1, nullptr, &one, y, 1});
      for (uint32_t r = 0; r < 16; ++r) {
        const float want =
            type == WeightType::kBf16 ? numeric::Bf16ToF32(group[r]) : numeric::F16ToF32(group[r]);
        // 0 + (0 + w) turns -0 into +0, as the definition says.
        if (want != want) {
          ASSERT_TRUE(y[r] != y[r]);
        } else {
          ASSERT_EQ(BitsOf(y[r]), BitsOf(want == 0.0f ? 0.0f : want)) << std::hex << group[r];
        }
      }
    }
  }
}

// Below 2^-126 the bits of a float count its units, so that sums of integers say what must come out.
TEST_P(KernelsTest, SubnormalsAreKept) {  // OPS-04
  constexpr size_t kK = 33;
  constexpr uint32_t kSum = kK * (kK + 1) / 2;
  std::vector<float> units(kK);  // 1, 2, ... units of 2^-149
  for (size_t k = 0; k < kK; ++k) units[k] = std::bit_cast<float>(static_cast<uint32_t>(k + 1));
  std::vector<float> weights(16 * kK);
  std::vector<uint16_t> bf16(16 * kK);
  for (size_t k = 0; k < kK; ++k) {
    for (size_t r = 0; r < 16; ++r) {
      weights[k * 16 + r] = units[k];
      bf16[k * 16 + r] = static_cast<uint16_t>(k + 1);  // units of 2^-133
    }
  }
  const std::vector<float> ones(kK, 1.0f);
  float y[16];
  table_->linear({weights.data(), WeightType::kF32, 16, kK, nullptr, ones.data(), y, 1});
  for (const float value : y) EXPECT_EQ(BitsOf(value), kSum);
  table_->linear({bf16.data(), WeightType::kBf16, 16, kK, nullptr, ones.data(), y, 1});
  for (const float value : y) EXPECT_EQ(value, std::ldexp(static_cast<float>(kSum), -133));
  float score = 0;
  table_->scores({ones.data(), units.data(), 1, kK, 1.0f, &score});
  EXPECT_EQ(BitsOf(score), kSum);
  std::vector<float> out(kK);
  table_->weighted_sum({ones.data(), units.data(), 1, kK, out.data()});
  EXPECT_EQ(out, units);
  std::vector<float> sum(kK), gated(kK);
  Add(units, units, sum);
  Gate(GateFunction::kRelu, ones, units, gated);
  for (size_t k = 0; k < kK; ++k) EXPECT_EQ(BitsOf(sum[k]), 2 * (k + 1));
  EXPECT_EQ(gated, units);
}

TEST_P(KernelsTest, ScoresEqualTheDefinition) {  // OPS-02 scores and scale
  std::mt19937 rng(11);
  for (const size_t head_dim : {8u, 24u, 32u, 64u, 65u, 80u}) {
    for (const size_t n : {1u, 7u, 8u, 9u, 40u}) {
      const std::vector<float> query = Random(head_dim, &rng);
      const std::vector<float> keys = Random(n * head_dim, &rng);
      std::vector<float> scores(n);
      const float scale = 0.35355338f;
      table_->scores({query.data(), keys.data(), n, head_dim, scale, scores.data()});
      for (size_t j = 0; j < n; ++j) {
        const std::vector<float> key(keys.begin() + static_cast<std::ptrdiff_t>(j * head_dim),
                                     keys.begin() + static_cast<std::ptrdiff_t>((j + 1) * head_dim));
        volatile float want = TwoLevelDot(query, key);
        want = want * scale;
        ASSERT_EQ(BitsOf(scores[j]), BitsOf(want));
      }
    }
  }
}

TEST_P(KernelsTest, WeightedSumIsPlainInPositionOrder) {  // OPS-02 weighted sum
  std::mt19937 rng(13);
  for (const size_t head_dim : {8u, 20u, 64u}) {
    for (const size_t n : {1u, 31u, 100u}) {
      const std::vector<float> probs = Random(n, &rng);
      const std::vector<float> values = Random(n * head_dim, &rng);
      std::vector<float> out(head_dim);
      table_->weighted_sum({probs.data(), values.data(), n, head_dim, out.data()});
      for (size_t d = 0; d < head_dim; ++d) {
        volatile float want = 0.0f;
        for (size_t j = 0; j < n; ++j) {
          volatile float product = probs[j] * values[j * head_dim + d];
          want = want + product;
        }
        ASSERT_EQ(BitsOf(out[d]), BitsOf(want));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Builds, KernelsTest, testing::Values(Kernel::kScalar, Kernel::kVector),
                         [](const testing::TestParamInfo<Kernel>& param) {
                           return param.param == Kernel::kScalar ? std::string("Scalar")
                                                                 : std::string("Vector");
                         });

// A fused multiply-add or a one-level sum would change these: the test can fail.
TEST(KernelsSpec, ContractionAndOneLevelSumsAreVisible) {  // OPS-05
  std::mt19937 rng(17);
  const std::vector<float> a = Random(576, &rng);
  const std::vector<float> b = Random(576, &rng);
  float fused = 0.0f;
  float plain = 0.0f;
  for (size_t begin = 0; begin < a.size(); begin += 32) {
    float sum = 0.0f;
    for (size_t k = begin; k < begin + 32; ++k) sum = std::fma(a[k], b[k], sum);
    fused += sum;
  }
  for (size_t k = 0; k < a.size(); ++k) {
    volatile float product = a[k] * b[k];
    plain += product;
  }
  const float want = TwoLevelDot(a, b);
  EXPECT_NE(BitsOf(fused), BitsOf(want));
  EXPECT_NE(BitsOf(plain), BitsOf(want));
}

}  // namespace
}  // namespace slm::ops
