// Operators other than the kernels (OPS-02). Expected values are worked out by hand or follow
// from a second formula; the whole layer is checked bit for bit by independent/exact_v1.py.
#include "ops/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numeric/exact_math.h"
#include "numeric/float_formats.h"

namespace slm::ops {
namespace {

using numeric::BitsOf;

TEST(Ops, CopyRowReadsBothLayouts) {  // embedding, MAP-03
  const uint64_t rows = 18;
  const uint64_t cols = 3;
  std::vector<float> row_major(rows * cols);
  std::vector<float> rows16(32 * cols, std::numeric_limits<float>::quiet_NaN());
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t k = 0; k < cols; ++k) {
      row_major[r * cols + k] = static_cast<float>(r * 10 + k);
      rows16[(r / 16) * 16 * cols + k * 16 + r % 16] = static_cast<float>(r * 10 + k);
    }
  }
  for (uint64_t r = 0; r < rows; ++r) {
    std::vector<float> a(cols);
    std::vector<float> b(cols);
    CopyRow({row_major.data(), WeightType::kF32, false, rows, cols}, r, a);
    CopyRow({rows16.data(), WeightType::kF32, true, rows, cols}, r, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(a[2], static_cast<float>(r * 10 + 2));
  }
  const std::vector<uint16_t> half = {0x3c00, 0xc000, 0x0001};  // 1, -2, 2^-24
  std::vector<float> out(3);
  CopyRow({half.data(), WeightType::kF16, false, 1, 3}, 0, out);
  EXPECT_EQ(out, (std::vector<float>{1.0f, -2.0f, 0x1p-24f}));
  CopyRow({half.data(), WeightType::kBf16, false, 1, 3}, 0, out);
  EXPECT_EQ(out[1], -2.0f);
}

TEST(Ops, SumOfSquaresHasTwoLevels) {
  // 32 squares of 1 fill the first block; then 2^-13 squared is lost against 32 one by one in a
  // plain sum (2^-26 < half of 2^-18), but a block of 32 of them is 2^-21, and 64 blocks are 2^-15.
  std::vector<float> x(32 + 64 * 32, 0x1p-10f);
  for (size_t i = 0; i < 32; ++i) x[i] = 1.0f;
  EXPECT_EQ(SumOfSquares(x), 32.0f + 0x1p-9f);
  float plain = 0.0f;
  for (const float value : x) plain += value * value;
  EXPECT_NE(plain, 32.0f + 0x1p-9f);
  EXPECT_EQ(SumOfSquares(std::vector<float>{3.0f, 4.0f}), 25.0f);
}

TEST(Ops, RmsNormByHand) {
  const std::vector<float> x = {3.0f, 4.0f, 0.0f, 0.0f};
  const std::vector<float> weight = {1.0f, 2.0f, 3.0f, 4.0f};
  std::vector<float> out(4);
  EXPECT_EQ(RmsNorm(x, weight, 0.0f, out), 6.25f);  // mean square 6.25, root 2.5, inverse 0.4
  EXPECT_EQ(BitsOf(out[0]), BitsOf(3.0f * 0.4f));
  EXPECT_EQ(BitsOf(out[1]), BitsOf(2.0f * (4.0f * 0.4f)));
  EXPECT_EQ(out[3], 0.0f);
  // Epsilon is added to the mean, inside the root.
  EXPECT_EQ(RmsNorm(x, weight, 2.75f, out), 6.25f);  // 9, root 3
  EXPECT_EQ(BitsOf(out[0]), BitsOf(3.0f * (1.0f / 3.0f)));
  // Squares that overflow give zeros; only the returned mean shows it.
  EXPECT_TRUE(std::isinf(RmsNorm(std::vector<float>(4, 3e38f), weight, 0.0f, out)));
  EXPECT_EQ(out[1], 0.0f);
}

TEST(Ops, RotateHalfSplitPairs) {  // RoPE pairing (i, i + n)
  std::vector<float> head = {1.0f, 2.0f, 3.0f, 4.0f, 9.0f};
  const std::vector<float> cosines = {0.0f, 1.0f};
  const std::vector<float> sines = {1.0f, 0.0f};
  Rotate(head, cosines, sines);
  EXPECT_EQ(head, (std::vector<float>{-3.0f, 2.0f, 1.0f, 4.0f, 9.0f}));
}

TEST(Ops, RotaryTableUsesTheFloatProduct) {
  const std::vector<float> inv_freq = {1.0f, 0.1f};
  std::vector<float> cosines(2);
  std::vector<float> sines(2);
  RotaryTable(200, inv_freq, 0.5f, cosines, sines);
  const float angle = 200.0f * 0.1f;
  EXPECT_EQ(BitsOf(cosines[1]), BitsOf(numeric::Cos(angle) * 0.5f));
  EXPECT_EQ(BitsOf(sines[0]), BitsOf(numeric::Sin(200.0f) * 0.5f));
  RotaryTable(0, inv_freq, 1.0f, cosines, sines);
  EXPECT_EQ(cosines, (std::vector<float>{1.0f, 1.0f}));
  EXPECT_EQ(sines, (std::vector<float>{0.0f, 0.0f}));
}

TEST(Ops, SoftmaxInPositionOrder) {
  std::vector<float> probs(3);
  Softmax(std::vector<float>{-5.0f, -5.0f, -5.0f}, probs);
  EXPECT_EQ(probs[0], 1.0f / 3.0f);
  // Shifted by its maximum: large scores do not overflow, and far ones may vanish.
  Softmax(std::vector<float>{1000.0f, 999.0f, -1000.0f}, probs);
  const float e = numeric::Exp(-1.0f);
  EXPECT_EQ(BitsOf(probs[0]), BitsOf(1.0f / (1.0f + e)));
  EXPECT_EQ(BitsOf(probs[1]), BitsOf(e / (1.0f + e)));
  EXPECT_EQ(probs[2], 0.0f);
  // Order matters in the last place: 2^24 + 1 + 1 in this order is 2^24, in the other 2^24 + 2.
  std::vector<float> one(1);
  Softmax(std::vector<float>{-3e38f}, one);
  EXPECT_EQ(one[0], 1.0f);
}

TEST(Ops, GateFunctions) {
  EXPECT_EQ(Apply(GateFunction::kRelu, -2.0f), 0.0f);
  EXPECT_FALSE(std::signbit(Apply(GateFunction::kRelu, -0.0f)));
  EXPECT_EQ(Apply(GateFunction::kRelu, 2.5f), 2.5f);
  EXPECT_EQ(BitsOf(Apply(GateFunction::kSilu, 1.0f)), BitsOf(numeric::Silu(1.0f)));
  EXPECT_EQ(BitsOf(Apply(GateFunction::kGeluErf, 1.0f)), BitsOf(numeric::GeluErf(1.0f)));
  EXPECT_EQ(BitsOf(Apply(GateFunction::kGeluTanh, 1.0f)), BitsOf(numeric::GeluTanh(1.0f)));
  EXPECT_NE(BitsOf(Apply(GateFunction::kGeluErf, 1.0f)), BitsOf(numeric::GeluTanh(1.0f)));
  std::vector<float> out(1);
  Gate(GateFunction::kRelu, std::vector<float>{3.0f}, std::vector<float>{-2.0f}, out);
  EXPECT_EQ(out[0], -6.0f);
}

TEST(Ops, ArgmaxIsStable) {  // ties go to the lowest id
  EXPECT_EQ(Argmax(std::vector<float>{1.0f, 5.0f, 5.0f, 2.0f}), 1u);
  EXPECT_EQ(Argmax(std::vector<float>{-0.0f, 0.0f}), 0u);
  EXPECT_EQ(TopK(std::vector<float>{1.0f, 5.0f, 2.0f, 5.0f, -1.0f}, 3), (std::vector<uint32_t>{1, 3, 2}));
  EXPECT_EQ(TopK(std::vector<float>{1.0f}, 10), (std::vector<uint32_t>{0}));
}

TEST(Ops, KernelNames) {
  EXPECT_EQ(KernelFromName("scalar"), Kernel::kScalar);
  EXPECT_EQ(KernelFromName("vector"), Kernel::kVector);
  EXPECT_FALSE(KernelFromName("Scalar").has_value());
  EXPECT_NE(KernelsFor(Kernel::kScalar), nullptr);
}

TEST(Ops, FirstNonfinite) {  // OPS-03
  std::vector<float> values(100, 1.0f);
  EXPECT_FALSE(FirstNonfinite(values).has_value());
  values[77] = std::numeric_limits<float>::infinity();
  values[90] = std::nanf("");
  EXPECT_EQ(FirstNonfinite(values), 77u);
  values[3] = std::nanf("");
  EXPECT_EQ(FirstNonfinite(values), 3u);
}

}  // namespace
}  // namespace slm::ops
