// Correctly rounded functions: limits, exact cases, symmetry, the places where rounding is
// hardest, and a digest over 2^20 inputs of each. tools/check_math.cc compares all 2^32 results
// (docs/spec/exact-v1-math.json says for which functions that was done); about 18,000 inputs are
// compared with exact arithmetic in Python by independent/exact_functions_test.py.
#include "numeric/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "codec/sha256.h"
#include "numeric/double_pair.h"
#include "numeric/float_formats.h"

namespace slm::numeric {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ExactMath, NanAndInfinities) {  // OPS-03
  for (float (*function)(float) : {Exp, Tanh, Erf, Sin, Cos, Sigmoid, Silu, GeluErf, GeluTanh, Sqrt}) {
    EXPECT_EQ(BitsOf(function(FromBits(0x7fc00000))), 0x7fc00000u);
    EXPECT_EQ(BitsOf(function(FromBits(0xff800001))), 0x7fc00000u);
  }
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(BitsOf(Exp(-kInf)), 0u);
  EXPECT_EQ(Tanh(kInf), 1.0f);
  EXPECT_EQ(Tanh(-kInf), -1.0f);
  EXPECT_EQ(Erf(-kInf), -1.0f);
  EXPECT_EQ(BitsOf(Sin(kInf)), 0x7fc00000u);
  EXPECT_EQ(BitsOf(Cos(-kInf)), 0x7fc00000u);
  EXPECT_EQ(Sigmoid(kInf), 1.0f);
  EXPECT_EQ(BitsOf(Sigmoid(-kInf)), 0u);
  for (float (*function)(float) : {Silu, GeluErf, GeluTanh}) {
    EXPECT_EQ(function(kInf), kInf);
    EXPECT_EQ(BitsOf(function(-kInf)), 0x80000000u);
  }
}

TEST(ExactMath, ZerosAndExactCases) {
  for (float (*function)(float) : {Tanh, Erf, Sin, Silu, GeluErf, GeluTanh, Sqrt}) {
    EXPECT_EQ(BitsOf(function(0.0f)), 0u);
    EXPECT_EQ(BitsOf(function(-0.0f)), 0x80000000u);
  }
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Cos(-0.0f), 1.0f);
  EXPECT_EQ(Sigmoid(0.0f), 0.5f);
  EXPECT_EQ(Sqrt(6.25f), 2.5f);
  EXPECT_EQ(BitsOf(Sqrt(-1.0f)), 0x7fc00000u);
}

TEST(ExactMath, OverflowAndUnderflowOfExp) {
  EXPECT_EQ(BitsOf(Exp(FromBits(0x42b17217))), 0x7f7fff84u);  // largest argument with a finite result
  EXPECT_EQ(Exp(FromBits(0x42b17218)), kInf);
  EXPECT_EQ(BitsOf(Exp(-103.97f)), 1u);  // 2^-149 / 1.99
  EXPECT_EQ(BitsOf(Exp(-103.98f)), 0u);
}

// silu(x) and gelu(x) are x/2 and a little more: for odd subnormal x the first part is a tie
// and only the little more, about 2^-300, decides.
TEST(ExactMath, SubnormalTies) {
  for (float (*function)(float) : {Silu, GeluErf, GeluTanh}) {
    EXPECT_EQ(BitsOf(function(FromBits(1))), 1u);
    EXPECT_EQ(BitsOf(function(FromBits(0x80000001))), 0x80000000u);
    EXPECT_EQ(BitsOf(function(FromBits(5))), 3u);
    EXPECT_EQ(BitsOf(function(FromBits(0x80000005))), 0x80000002u);
    EXPECT_EQ(BitsOf(function(FromBits(7))), 4u);
    EXPECT_EQ(BitsOf(function(FromBits(0x80000007))), 0x80000003u);
  }
}

// cos(2^-12) lies 2^-52.6 above the middle between 1 - 2^-24 and 1; sigmoid(2^-23) lies 2^-74.6
// below the middle above 1/2; sigmoid(-2^-24) lies 2^-77.6 above the one below 1/2.
TEST(ExactMath, HardestSmallArguments) {
  EXPECT_EQ(BitsOf(Cos(0x1p-12f)), 0x3f800000u);
  EXPECT_EQ(BitsOf(Sigmoid(0x1p-23f)), 0x3f000000u);
  EXPECT_EQ(BitsOf(Sigmoid(-0x1p-24f)), 0x3f000000u);
  EXPECT_EQ(BitsOf(Exp(0x1p-24f)), 0x3f800001u);
}

TEST(ExactMath, SymmetryAndLargeAngles) {
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 100003) {
    const float x = FromBits(bits);
    ASSERT_EQ(BitsOf(Sin(-x)), BitsOf(-Sin(x)));
    ASSERT_EQ(BitsOf(Cos(-x)), BitsOf(Cos(x)));
    ASSERT_EQ(BitsOf(Tanh(-x)), BitsOf(-Tanh(x)));
    ASSERT_EQ(BitsOf(Erf(-x)), BitsOf(-Erf(x)));
  }
  // sin(2^127) = 0.6207..., from 300 bits of 2/pi.
  EXPECT_NEAR(Sin(0x1p127f), std::sin(0x1p127), 1e-7);
  EXPECT_NEAR(Cos(FromBits(0x7f7fffff)), std::cos(static_cast<double>(FromBits(0x7f7fffff))), 1e-7);
}

TEST(ExactMath, SqrtEqualsTheInstruction) {  // IEEE 754 requires both to round correctly
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 4099) {
    ASSERT_EQ(BitsOf(Sqrt(FromBits(bits))), BitsOf(std::sqrt(FromBits(bits)))) << bits;
  }
}

// A contracted product breaks the error-free transformations; this test then fails (OPS-05).
TEST(DoublePair, ProductsAndSumsAreErrorFree) {
  const double a = 1.0 + 0x1p-30;
  const double b = 1.0 - 0x1p-30;
  const Pair product = TwoProduct(a, b);
  EXPECT_EQ(product.hi, 1.0);
  EXPECT_EQ(product.lo, -0x1p-60);
  const Pair third = TwoProduct(1.0 / 3.0, 3.0);
  EXPECT_EQ(third.hi, 1.0);
  EXPECT_EQ(third.lo, -0x1p-54);
  const Pair sum = TwoSum(1.0, 0x1p-80);
  EXPECT_EQ(sum.hi, 1.0);
  EXPECT_EQ(sum.lo, 0x1p-80);
  const Pair quotient = Pair(1.0) / Pair(3.0);
  EXPECT_EQ(quotient.hi, 1.0 / 3.0);
  EXPECT_EQ(quotient.lo, 0x1.5555555555555p-56);
  // An expression that contraction would change, through values the compiler cannot fold.
  volatile double x = a;
  volatile double y = b;
  volatile double z = -1.0;
  const double unfused = x * y + z;
  EXPECT_EQ(unfused, 0.0) << "the compiler fused a product into a sum";
}

TEST(DoublePair, RoundToOddKeepsTheSideOfATie) {
  EXPECT_EQ(static_cast<float>(RoundToOdd(Pair(1.0 + 0x1p-24, 0x1p-90))), 1.0f + 0x1p-23f);
  EXPECT_EQ(static_cast<float>(RoundToOdd(Pair(1.0 + 0x1p-24, -0x1p-90))), 1.0f);
  EXPECT_EQ(static_cast<float>(RoundToOdd(Pair(1.0 + 0x1p-24, 0.0))), 1.0f);
  EXPECT_EQ(static_cast<float>(RoundToOdd(Pair(-1.0 - 0x1p-24, -0x1p-90))), -1.0f - 0x1p-23f);
  EXPECT_EQ(RoundToOdd(Pair(1.0, -0x1p-90)), 1.0 - 0x1p-53);
}

struct Digest {
  float (*function)(float);
  const char* name;
  const char* sha256;
};
class DigestTest : public testing::TestWithParam<Digest> {};

// Every 4093rd input (a prime stride: 2^20 inputs); output bits as little-endian words.
TEST_P(DigestTest, StridedSample) {
  Bytes bytes;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {
    AppendLe(&bytes, BitsOf(GetParam().function(FromBits(static_cast<uint32_t>(bits)))));
  }
  const Hash256 digest = Sha256Of(bytes);
  EXPECT_EQ(ToHex(digest), GetParam().sha256);
}

INSTANTIATE_TEST_SUITE_P(
    ExactMath, DigestTest,
    testing::Values(
        Digest{Exp, "Exp", "22123004e9d7037552d4acf10cdf9f9bd2cc23994d463a2bdc525f4a60f87d75"},
        Digest{Tanh, "Tanh", "4347c691c1d32740bcec23ae6c0819828a245ea1576655a8f156fcc035004452"},
        Digest{Erf, "Erf", "3e4867a8e813e299efe00c418880b75bc60df33e61f92339e30bcae152a1b5a1"},
        Digest{Sin, "Sin", "9749b13f160e057ca37c2a42b777e60689b9ffc9a01b10b2607da5a55e340f52"},
        Digest{Cos, "Cos", "b205b106285aa85a27b7b277ed258d6eeb635e18f56f2a0982a9a3590b1f2c07"},
        Digest{Sigmoid, "Sigmoid", "7ad42b5e603cabd3b815cd31dd04f364fb74b62c69ff6481743080c8b2e34f4d"},
        Digest{Silu, "Silu", "30cb8ea7845760b31dc0ddadc3b4acaa3b4cdca85abaaca7d2ffbc2dc081585c"},
        Digest{GeluErf, "GeluErf", "d0542984879340f24f8f79edc02bebad9809ae6bd0f276cfe5f0978ab3e4aade"},
        Digest{GeluTanh, "GeluTanh", "e6aa20900741a96a3626bbde3602a6b06216d4926c1b15d26381dbf1dfc6b6e2"}),
    [](const testing::TestParamInfo<Digest>& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace slm::numeric
