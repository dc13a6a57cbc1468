// Conversions over all 2^16 patterns, against the formats' definitions in exact arithmetic.
#include "numeric/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slm::numeric {
namespace {

// The number that a 16-bit pattern stands for, by the definition; double holds all exactly.
double Value(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(FloatFormats, WideningIsExact) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double f16 = Value(bits, 5, 10);
    const double bf16 = Value(bits, 8, 7);
    if (f16 != f16) {
      EXPECT_TRUE(IsNan(F16ToF32(bits)));
    } else {
      ASSERT_EQ(static_cast<double>(F16ToF32(bits)), f16) << i;
      ASSERT_EQ(std::signbit(F16ToF32(bits)), (bits & 0x8000) != 0) << i;
    }
    if (bf16 != bf16) {
      EXPECT_TRUE(IsNan(Bf16ToF32(bits)));
    } else {
      ASSERT_EQ(static_cast<double>(Bf16ToF32(bits)), bf16) << i;
    }
  }
}

// Nearest, ties to even, found from the widened neighbours: every midpoint between two
// neighbours and the floats on both sides of it.
template <typename Widen, typename NarrowTo>
void CheckNarrowing(uint32_t n_finite, Widen widen, NarrowTo narrow) {
  for (uint32_t i = 0; i + 1 < n_finite; ++i) {
    const auto low = static_cast<uint16_t>(i);
    const auto high = static_cast<uint16_t>(i + 1);
    const float middle =
        static_cast<float>((static_cast<double>(widen(low)) + static_cast<double>(widen(high))) / 2);
    ASSERT_EQ(narrow(widen(low)), low);
    ASSERT_EQ(narrow(middle), (i & 1) != 0 ? high : low) << i;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low) << i;
    ASSERT_EQ(narrow(std::nextafter(middle, INFINITY)), high) << i;
    ASSERT_EQ(narrow(-middle), ((i & 1) != 0 ? high : low) | 0x8000) << i;
  }
}

TEST(FloatFormats, NarrowingRoundsToNearestEven) {
  CheckNarrowing(0x7c00, F16ToF32, F32ToF16);
  CheckNarrowing(0x7f80, Bf16ToF32, F32ToBf16);
  // The overflow boundary and beyond, and NaN.
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(F32ToBf16(FromBits(0x7f7f7fff)), 0x7f7f);
  EXPECT_EQ(F32ToBf16(FromBits(0x7f7f8000)), 0x7f80);
  EXPECT_EQ(F32ToF16(FromBits(0x7f800001)) & 0x7e00, 0x7e00);
  EXPECT_EQ(F32ToBf16(FromBits(0x7f800001)), 0x7fc0);
  EXPECT_EQ(F32ToBf16(FromBits(0xffffffff)), 0xffff);
}

TEST(FloatFormats, UlpDistance) {
  EXPECT_EQ(UlpDistance(1.0f, 1.0f), 0u);
  EXPECT_EQ(UlpDistance(1.0f, std::nextafter(1.0f, 2.0f)), 1u);
  EXPECT_EQ(UlpDistance(0.0f, -0.0f), 0u);
  EXPECT_EQ(UlpDistance(FromBits(1), FromBits(0x80000001)), 2u);
  EXPECT_EQ(UlpDistance(-INFINITY, INFINITY), 2u * 0x7f800000u);
  EXPECT_EQ(UlpDistance(std::nanf(""), 1.0f), UINT32_MAX);
  EXPECT_EQ(UlpDistance(std::nanf(""), std::nanf("")), UINT32_MAX);
}

}  // namespace
}  // namespace slm::numeric
