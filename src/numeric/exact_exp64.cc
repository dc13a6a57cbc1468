#include "numeric/exact_exp64.h"

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "numeric/double_pair.h"

namespace slm::numeric {
namespace {

#include "numeric/math_tables.inc"

constexpr double kOverflow = 0x1.62e42fefa39fp+9;     // 1024 ln 2, rounded up: infinity from here on
constexpr double kUnderflow = -0x1.74910d52d3052p+9;  // -1075 ln 2, rounded down: zero from here on
constexpr double kOne = 0x1p-54;                      // |x| up to here: 1
constexpr int kMinNormal = -1022;

double PowerOfTwo(int exponent) {  // REQUIRES: -1022 <= exponent <= 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// value * 2^exponent, one rounding at most. REQUIRES: 1 <= value <= 2 or value = 0, and the product
// representable.
double Scale(double value, int exponent) {
  const int half = exponent / 2;
  return value * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

int Floor(double value) {
  const int truncated = static_cast<int>(value);
  return static_cast<double>(truncated) > value ? truncated - 1 : truncated;
}

double Magnitude(double value) {
  return value < 0.0 ? -value : value;
}

// e^x = (value +- error) * 2^exponent, 0.98 < value < 2.03.
struct Approximation {
  Pair value;
  double error;
  int exponent;
};

struct Reduced {
  Pair rest;  // |rest| <= ln 2 / 64
  Pair table;
  int exponent;
};

// x = steps * ln 2 / 32 + rest. The head of the difference is exact (Sterbenz).
Reduced Reduce(double x) {
  const int k = Floor(x * kStepsPerUnit + 0.5);
  const auto steps = static_cast<double>(k);
  const int exponent = Floor(steps * 0.03125);
  const Pair rest = (Pair(x) - TwoProduct(steps, kStep1)) - Pair(steps) * kStep2;
  return {rest, kExpTable[k - 32 * exponent], exponent};
}

// The terms from r^2 / 2 on are below 2^-14: doubles suffice for them.
Approximation Fast(const Reduced& reduced) {
  const double r = reduced.rest.hi;
  double sum = kInvFactorial[9].hi;
  for (int n = 8; n >= 2; --n) sum = sum * r + kInvFactorial[n].hi;
  const Pair head = FastTwoSum(1.0, r);
  const Pair power = FastTwoSum(head.hi, head.lo + (reduced.rest.lo + sum * r * r));
  return {reduced.table * power, 0x1p-60, reduced.exponent};
}

Approximation Careful(const Reduced& reduced) {
  Pair sum = kInvFactorial[14];
  for (int n = 13; n >= 0; --n) sum = sum * reduced.rest + kInvFactorial[n];
  return {reduced.table * sum, 0x1p-94, reduced.exponent};
}

// The nearest double, if every number within the error has the same one.
std::optional<double> Round(Approximation a) {
  Pair value = FastTwoSum(a.value.hi, a.value.lo);
  int exponent = a.exponent;
  double error = a.error;
  if (value.hi < 1.0) {
    value = {2.0 * value.hi, 2.0 * value.lo};
    error = 2.0 * error;
    --exponent;
  } else if (value.hi >= 2.0) {
    value = {0.5 * value.hi, 0.5 * value.lo};
    ++exponent;
  }
  if (exponent >= kMinNormal) {
    const double below = value.hi + (value.lo - error);
    const double above = value.hi + (value.lo + error);
    if (below != above) return std::nullopt;
    return Scale(below, exponent);
  }
  // A subnormal result is a multiple of 2^-1074, of `unit` in terms of the value.
  const double unit = PowerOfTwo(-1074 - exponent);
  const double anchor =
      PowerOfTwo(52 - 1074 - exponent);  // doubles from here to its double: multiples of unit
  const Pair sum = TwoSum(anchor, value.hi);
  const double multiple = sum.hi - anchor;
  const double rest = sum.lo + value.lo;
  const double margin = error + unit * 0x1p-52;
  const double distance = Magnitude(rest);
  if (distance + margin < 0.5 * unit) return Scale(multiple, exponent);
  if (distance - margin <= 0.5 * unit) return std::nullopt;
  return Scale(rest < 0.0 ? multiple - unit : multiple + unit, exponent);
}

// ---- 256 bits below the point, 32 above; least significant word first ----

using Fixed = std::array<uint32_t, 9>;

Fixed Add(const Fixed& a, const Fixed& b) {
  Fixed sum{};
  uint64_t carry = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    carry += uint64_t{a[i]} + b[i];
    sum[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return sum;
}

Fixed Subtract(const Fixed& a, const Fixed& b) {  // REQUIRES: a >= b
  Fixed difference{};
  uint64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t step = uint64_t{a[i]} - b[i] - borrow;
    difference[i] = static_cast<uint32_t>(step);
    borrow = (step >> 32) & 1;
  }
  return difference;
}

Fixed Multiply(const Fixed& a, const Fixed& b) {  // the product, cut off below 2^-256
  std::array<uint32_t, 18> product{};
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      carry += uint64_t{a[i]} * b[j] + product[i + j];
      product[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    product[i + b.size()] = static_cast<uint32_t>(carry);
  }
  Fixed result{};
  for (size_t i = 0; i < result.size(); ++i) result[i] = product[i + 8];
  return result;
}

Fixed MultiplyBy(const Fixed& a, uint32_t factor) {
  Fixed product{};
  uint64_t carry = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    carry += uint64_t{a[i]} * factor;
    product[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return product;
}

Fixed DivideBy(const Fixed& a, uint32_t divisor) {
  Fixed quotient{};
  uint64_t rest = 0;
  for (size_t i = a.size(); i-- > 0;) {
    rest = (rest << 32) | a[i];
    quotient[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  return quotient;
}

bool Bit(const Fixed& a, int position) {
  return ((a[static_cast<size_t>(position) / 32] >> (position % 32)) & 1) != 0;
}

// |x| exactly. REQUIRES: 2^-54 < |x| < 2^31.
Fixed Exactly(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  uint64_t significand = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const int shift = static_cast<int>((bits >> 52) & 0x7ff) - 1075 + 256;  // of the significand's last bit
  Fixed value{};
  auto position = static_cast<size_t>(shift);
  for (int i = 0; i < 53; ++i, ++position, significand >>= 1) {
    value[position / 32] |= static_cast<uint32_t>(significand & 1) << (position % 32);
  }
  return value;
}

// e^rest by halving twelve times, 20 terms, squaring twelve times. REQUIRES: 0 <= rest < 1.
Fixed ExpOf(const Fixed& rest) {
  const Fixed small = DivideBy(rest, 4096);
  const Fixed one = {0, 0, 0, 0, 0, 0, 0, 0, 1};
  Fixed sum = one;
  for (uint32_t n = 20; n >= 1; --n) sum = Add(one, DivideBy(Multiply(sum, small), n));
  for (int i = 0; i < 12; ++i) sum = Multiply(sum, sum);
  return sum;
}

// value * 2^exponent, rounded to nearest. REQUIRES: 1 <= value < 4, never a tie.
double RoundFixed(Fixed value, int exponent) {
  if (value[8] >= 2) {
    value = DivideBy(value, 2);  // the bit lost is below the error
    ++exponent;
  }
  const int n_fraction = exponent >= kMinNormal ? 52 : 52 - (kMinNormal - exponent);
  if (n_fraction < -1) return 0.0;
  uint64_t kept = 0;
  for (int i = 256; i >= 256 - n_fraction; --i) kept = (kept << 1) | (Bit(value, i) ? 1 : 0);
  // The bits below the kept ones start with 1: above the middle.
  if (Bit(value, 255 - n_fraction)) ++kept;
  const auto multiple = static_cast<double>(kept);
  const int scale = exponent - n_fraction;
  const int half = scale / 2;
  return multiple * PowerOfTwo(half) * PowerOfTwo(scale - half);
}

}  // namespace

double Exp64ByIntegers(double x) {
  constexpr double kPerLn2 = 0x1.71547652b82fep+0;
  // A little low, so that the rest is never negative.
  const int exponent = Floor(x * kPerLn2 - 0x1p-20);
  const Fixed ln2 = {kLn2[0], kLn2[1], kLn2[2], kLn2[3], kLn2[4], kLn2[5], kLn2[6], kLn2[7], 0};
  const Fixed turns = MultiplyBy(ln2, static_cast<uint32_t>(exponent < 0 ? -exponent : exponent));
  const Fixed magnitude = Exactly(x);
  Fixed rest{};
  if (x < 0.0) {
    rest = Subtract(turns, magnitude);
  } else {
    rest = exponent < 0 ? Add(magnitude, turns) : Subtract(magnitude, turns);
  }
  return RoundFixed(ExpOf(rest), exponent);
}

double Exp64(double x) {
  if (x != x) return std::bit_cast<double>(uint64_t{0x7ff8000000000000});
  if (x >= kOverflow) return std::bit_cast<double>(uint64_t{0x7ff0000000000000});
  if (x <= kUnderflow) return 0.0;
  if (Magnitude(x) <= kOne) return 1.0;
  const Reduced reduced = Reduce(x);
  if (const std::optional<double> fast = Round(Fast(reduced))) return *fast;
  if (const std::optional<double> careful = Round(Careful(reduced))) return *careful;
  return Exp64ByIntegers(x);
}

}  // namespace slm::numeric
