#include "model/pair_power.h"

#include <bit>
#include <cstdint>

namespace slm {
namespace {

using numeric::Pair;

// ln 2 rounded to a pair.
constexpr Pair kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// 2^exponent for -1022 <= exponent <= 1023.
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

}  // namespace

Pair PairLog(double x) {
  // x = m * 2^e with m in [2/3, 4/3); log m = 2 * atanh(s), s = (m - 1) / (m + 1), |s| <= 1/5.
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffULL) | (uint64_t{1023} << 52));
  if (mantissa > 4.0 / 3.0) {
    mantissa *= 0.5;
    ++exponent;
  }
  const Pair s = numeric::TwoSum(mantissa, -1.0) / numeric::TwoSum(mantissa, 1.0);
  const Pair s2 = s * s;
  // The sum of s^(2n) / (2n + 1): with s^2 <= 1/25, 24 terms leave less than 2^-110.
  Pair series(0.0);
  for (int n = 24; n >= 0; --n) series = series * s2 + Pair(1.0) / Pair(2.0 * n + 1.0);
  return kLn2 * Pair(static_cast<double>(exponent)) + s * series * Pair(2.0);
}

Pair PairExp(Pair x) {
  // x = k ln 2 + 2^8 r, |r| <= ln 2 / 2^9; Taylor series for exp(r), squared 8 times, times 2^k.
  const double scaled = x.hi / kLn2.hi;
  const int k = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  Pair r = x - kLn2 * Pair(static_cast<double>(k));
  r = Pair(r.hi * 0x1p-8, r.lo * 0x1p-8);
  Pair sum(1.0);
  for (int n = 14; n >= 1; --n) {  // 1 + r/1 (1 + r/2 (1 + ...)): what is left is below 2^-160
    sum = Pair(1.0) + r * sum / Pair(static_cast<double>(n));
  }
  for (int i = 0; i < 8; ++i) sum = sum * sum;
  const double power = PowerOfTwo(k);
  return {sum.hi * power, sum.lo * power};
}

Pair PairPow(double base, double exponent) {
  return PairExp(PairLog(base) * Pair(exponent));
}

}  // namespace slm
