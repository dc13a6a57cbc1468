// Against std::to_chars, which prints the same numbers by other means (Ryu and tables).
#include "codec/decimal.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace slm {
namespace {

template <typename... Format>
std::string Reference(double value, Format... format) {
  char buffer[2048];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, format...);
  return {buffer, result.ptr};
}

void Check(double value) {
  ASSERT_EQ(ShortestText(value), Reference(value));
  for (const int precision : {0, 1, 2, 3, 6, 17, 40}) {
    ASSERT_EQ(FixedText(value, precision), Reference(value, std::chars_format::fixed, precision))
        << precision;
    ASSERT_EQ(ScientificText(value, precision), Reference(value, std::chars_format::scientific, precision))
        << value << " " << precision;
    ASSERT_EQ(GeneralText(value, precision), Reference(value, std::chars_format::general, precision))
        << value << " " << precision;
  }
}

TEST(DecimalTest, EdgesAndTies) {
  for (const double value : {0.0,
                             -0.0,
                             1.0,
                             0.5,
                             1.5,
                             2.5,
                             0.125,
                             0.1,
                             -123.456,
                             1e5,
                             123456.0,
                             1234560.0,
                             0.001,
                             0.0001,
                             0.00012,
                             1e22,
                             1e23,
                             9007199254740993.0,
                             123456789012345678.0,
                             5.684341886080802e-14,
                             std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::max()}) {
    Check(value);
  }
}

TEST(DecimalTest, EveryPowerOfTwoAndItsNeighbours) {
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    const double value = std::ldexp(1.0, exponent);
    Check(value);
    Check(-std::nextafter(value, 0.0));
    Check(std::nextafter(value, std::numeric_limits<double>::infinity()));
  }
}

TEST(DecimalTest, RandomNumbers) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 4000; ++i) {
    const uint64_t bits = random();
    if (const double value = std::bit_cast<double>(bits); std::isfinite(value)) Check(value);
    Check(static_cast<double>(static_cast<int64_t>(bits >> (bits % 60))));
    Check(static_cast<double>(static_cast<float>(std::ldexp(static_cast<double>(bits >> 40), -30))));
    Check(static_cast<double>(bits % 1000000) / 1000);
  }
}

}  // namespace
}  // namespace slm
