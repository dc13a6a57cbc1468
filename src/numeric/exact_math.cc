#include "numeric/exact_math.h"

#include <bit>
#include <cstdint>
#include <type_traits>

#include "numeric/double_pair.h"
#include "numeric/float_formats.h"

// Each function stands once, as a template over its number type T: double for the fast path,
// Pair for the inputs that a double cannot decide.
namespace slm::numeric {
namespace {

#include "numeric/math_tables.inc"

constexpr double kLargestFloat = 0x1.fffffep127;
constexpr double kFloatOverflow = 0x1.ffffffp127;  // from here on, nearest is infinity

float QuietNan() {
  return FromBits(0x7fc00000u);
}
float Infinity() {
  return FromBits(0x7f800000u);
}

double High(double a) {
  return a;
}
double High(Pair a) {
  return a.hi;
}

template <typename T>
T Constant(Pair value) {
  if constexpr (std::is_same_v<T, double>) {
    return value.hi;
  } else {
    return value;
  }
}

float Narrow(double value) {
  if (value >= kFloatOverflow) return Infinity();
  if (value > kLargestFloat) return FromBits(0x7f7fffffu);
  return static_cast<float>(value);
}

double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Largest integer <= value. REQUIRES: |value| < 2^30.
int Floor(double value) {
  const int truncated = static_cast<int>(value);
  return static_cast<double>(truncated) > value ? truncated - 1 : truncated;
}

// ---- exponential ----

// e^a = 2^exponent * (table + table * minus_one), minus_one = e^r - 1 with |r| <= ln 2 / 64.
template <typename T>
struct ExpParts {
  int exponent;
  T table;
  T minus_one;
};

template <typename T>
ExpParts<T> ReduceExp(T a) {
  constexpr int kTerms = std::is_same_v<T, double> ? 7 : 13;
  const int k = Floor(High(a) * kStepsPerUnit + 0.5);
  const double steps = static_cast<double>(k);
  const T r = (a - T(steps * kStep1)) - T(steps) * Constant<T>(kStep2);
  T sum = Constant<T>(kInvFactorial[kTerms]);
  for (int n = kTerms - 1; n >= 1; --n) sum = sum * r + Constant<T>(kInvFactorial[n]);
  const int exponent = Floor(steps * 0.03125);
  return {exponent, Constant<T>(kExpTable[k - 32 * exponent]), sum * r};
}

// REQUIRES: |a| < 700.
template <typename T>
T ExpOf(T a) {
  const ExpParts<T> parts = ReduceExp(a);
  return (parts.table + parts.table * parts.minus_one) * T(PowerOfTwo(parts.exponent));
}

// e^a - 1, with a small relative error near zero too.
template <typename T>
T ExpMinusOneOf(T a) {
  const ExpParts<T> parts = ReduceExp(a);
  const T scaled = parts.table * T(PowerOfTwo(parts.exponent));
  return (scaled - T(1.0)) + scaled * parts.minus_one;
}

template <typename T>
T SigmoidOf(T a) {
  return T(1.0) / (T(1.0) + ExpOf(-a));
}

template <typename T>
T SiluOf(double x) {
  return T(x) / (T(1.0) + ExpOf(T(-x)));
}

template <typename T>
T TanhOf(double x) {
  const T grown = ExpMinusOneOf(T(2.0 * x));
  return grown / (grown + T(2.0));
}

template <typename T>
T GeluTanhOf(double x) {
  const T cube = T(x) * T(x * x);  // x * x is exact: 48 bits
  const T gate = Constant<T>(kGate1) * T(x) + Constant<T>(kGate3) * cube;
  return T(x) / (T(1.0) + ExpOf(-gate));
}

// ---- error function and normal distribution: Taylor series around the nearest table entry ----

// erf(c + h): its derivative has coefficients b with (n + 1) b[n+1] = -2 (c b[n] + b[n-1]).
// REQUIRES: 0 <= x <= 4.
template <typename T>
T ErfOf(double x) {
  constexpr int kTerms = std::is_same_v<T, double> ? 12 : 22;
  const int index = Floor(x * 16.0 + 0.5);
  const double center = static_cast<double>(index) * 0.0625;
  const double h = x - center;
  T before = T(0.0);
  T b = Constant<T>(kErfSlope[index]);
  T power = T(h);
  T sum = T(0.0);
  for (int n = 0; n < kTerms; ++n) {
    const T next_index = T(static_cast<double>(n + 1));
    sum = sum + b * power / next_index;
    const T next = T(-2.0) * (T(center) * b + before) / next_index;
    before = b;
    b = next;
    power = power * T(h);
  }
  return Constant<T>(kErfTable[index]) + sum;
}

// Mills ratio (1 - Phi(t)) / phi(t): M' = t M - 1, so (n + 1) m[n+1] = c m[n] + m[n-1] - [n = 0].
// REQUIRES: 0 <= t <= 14.5.
template <typename T>
T MillsOf(double t) {
  constexpr int kTerms = std::is_same_v<T, double> ? 15 : 27;
  const int index = Floor(t * 8.0 + 0.5);
  const double center = static_cast<double>(index) * 0.125;
  const double h = t - center;
  T before = T(-1.0);  // stands for the constant of the equation
  T m = Constant<T>(kMillsTable[index]);
  T power = T(h);
  T sum = m;
  for (int n = 0; n < kTerms; ++n) {
    const T next = (T(center) * m + before) / T(static_cast<double>(n + 1));
    sum = sum + next * power;
    before = m;
    m = next;
    power = power * T(h);
  }
  return sum;
}

template <typename T>
T GeluErfOf(double x) {
  const double t = x < 0.0 ? -x : x;
  const T density = Constant<T>(kInvSqrt2Pi) * ExpOf(T(-0.5 * (x * x)));  // x * x is exact
  const T tail = density * MillsOf<T>(t);
  return x < 0.0 ? T(x) * tail : T(x) * (T(1.0) - tail);
}

// ---- sine and cosine ----

struct Angle {
  uint32_t quadrant;  // x = quadrant * pi / 2 + rest, modulo 2 pi
  Pair rest;          // |rest| <= pi / 4
};

// The product of the 24-bit significand with 192 bits of 2/pi, whose first bit weighs 2 in
// the product with the float's power of two; larger bits give whole turns.
Angle ReduceAngle(float magnitude) {
  if (magnitude < 0x1.921fb6p-1f) return {0, Pair(static_cast<double>(magnitude))};
  const uint32_t bits = BitsOf(magnitude);
  const uint64_t significand = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t first_bit = (bits >> 23) - 120u;  // of the table; 6 for numbers from 1/2 on
  uint32_t product[6];                             // most significant first
  uint64_t carry = 0;
  for (uint32_t i = 6; i-- > 0;) {
    const uint32_t word = first_bit / 32 + i;
    const uint32_t shift = first_bit % 32;
    const uint64_t two_words = (static_cast<uint64_t>(kTwoOverPi[word]) << 32) | kTwoOverPi[word + 1];
    carry += significand * ((two_words << shift) >> 32);
    product[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  uint32_t quadrant = product[0] >> 30;
  product[0] &= 0x3fffffffu;
  const bool negative = (product[0] & 0x20000000u) != 0;  // fraction >= 1/2: count from above
  if (negative) {
    quadrant = (quadrant + 1) & 3u;
    uint64_t borrow = 1;  // two's complement
    for (uint32_t i = 6; i-- > 0;) {
      borrow += static_cast<uint64_t>(~product[i]);
      product[i] = static_cast<uint32_t>(borrow);
      borrow = (borrow >> 32) & 1u;
    }
    product[0] &= 0x3fffffffu;
  }
  Pair fraction(0.0);
  for (uint32_t i = 0; i < 6; ++i) {
    const double weight = PowerOfTwo(-30 - 32 * static_cast<int>(i));
    fraction = fraction + Pair(static_cast<double>(product[i]) * weight);
  }
  const Pair rest = fraction * kHalfPi;
  return {quadrant, negative ? -rest : rest};
}

template <typename T>
T SinTaylor(T r) {
  constexpr int kLast = std::is_same_v<T, double> ? 19 : 29;
  const T square = r * r;
  T sum = Constant<T>(kInvFactorial[kLast]);
  for (int n = kLast - 2; n >= 1; n -= 2) sum = Constant<T>(kInvFactorial[n]) - sum * square;
  return sum * r;
}

template <typename T>
T CosTaylor(T r) {
  constexpr int kLast = std::is_same_v<T, double> ? 20 : 28;
  const T square = r * r;
  T sum = Constant<T>(kInvFactorial[kLast]);
  for (int n = kLast - 2; n >= 0; n -= 2) sum = Constant<T>(kInvFactorial[n]) - sum * square;
  return sum;
}

// sin(angle + shift * pi / 2)
template <typename T>
T SinOf(const Angle& angle, uint32_t shift) {
  const uint32_t quadrant = angle.quadrant + shift;
  const T rest = Constant<T>(angle.rest);
  const T value = (quadrant & 1u) != 0 ? CosTaylor(rest) : SinTaylor(rest);
  return (quadrant & 2u) != 0 ? -value : value;
}

// ---- rounding ----

// `fast` is within `bound` (relative) of the exact value: round it if every number that near
// rounds alike, else compute again in pairs.
template <typename Slow>
float Round(double fast, double bound, Slow slow) {
  const double margin = fast * bound;
  const float below = Narrow(fast - margin);
  const float above = Narrow(fast + margin);
  if (BitsOf(below) == BitsOf(above)) return below;
  return Narrow(RoundToOdd(slow()));
}

// x / 2 + coefficient * x^2, which decides where x / 2 lies half way between two subnormals.
float RoundHalf(double x, double coefficient) {
  if (x == 0.0) return static_cast<float>(x);  // keeps the sign
  return Narrow(RoundToOdd(Pair(0.5 * x, coefficient * (x * x))));
}

constexpr double kTiny = 0x1p-40;  // below, x / 2 and one more term decide

}  // namespace

float Exp(float x) {
  if (IsNan(x)) return QuietNan();
  if (x > 89.0f) return Infinity();
  if (x < -105.0f) return 0.0f;
  const auto wide = static_cast<double>(x);
  return Round(ExpOf(wide), 0x1p-48, [&] { return ExpOf(Pair(wide)); });
}

float Sigmoid(float x) {
  if (IsNan(x)) return QuietNan();
  if (x > 40.0f) return 1.0f;
  if (x < -105.0f) return 0.0f;
  const auto wide = static_cast<double>(x);
  return Round(SigmoidOf(wide), 0x1p-48, [&] { return SigmoidOf(Pair(wide)); });
}

float Silu(float x) {
  if (IsNan(x)) return QuietNan();
  if (x > 40.0f) return x;
  if (x < -110.0f) return -0.0f;
  const auto wide = static_cast<double>(x);
  if (wide < kTiny && wide > -kTiny) return RoundHalf(wide, 0.25);
  return Round(SiluOf<double>(wide), 0x1p-48, [&] { return SiluOf<Pair>(wide); });
}

float Tanh(float x) {
  if (IsNan(x)) return QuietNan();
  if (x == 0.0f) return x;
  if (x > 10.0f) return 1.0f;
  if (x < -10.0f) return -1.0f;
  const auto wide = static_cast<double>(x);
  return Round(TanhOf<double>(wide), 0x1p-44, [&] { return TanhOf<Pair>(wide); });
}

float Erf(float x) {
  if (IsNan(x)) return QuietNan();
  if (x == 0.0f) return x;
  const float magnitude = FromBits(BitsOf(x) & 0x7fffffffu);
  float value = 1.0f;
  if (magnitude < 4.0f) {
    const auto wide = static_cast<double>(magnitude);
    value = Round(ErfOf<double>(wide), 0x1p-46, [&] { return ErfOf<Pair>(wide); });
  }
  return x < 0.0f ? -value : value;
}

float GeluErf(float x) {
  if (IsNan(x)) return QuietNan();
  if (x > 7.0f) return x;
  if (x < -14.5f) return -0.0f;
  const auto wide = static_cast<double>(x);
  if (wide < kTiny && wide > -kTiny) return RoundHalf(wide, kInvSqrt2Pi.hi);
  return Round(GeluErfOf<double>(wide), 0x1p-43, [&] { return GeluErfOf<Pair>(wide); });
}

float GeluTanh(float x) {
  if (IsNan(x)) return QuietNan();
  if (x > 7.0f) return x;
  if (x < -11.0f) return -0.0f;
  const auto wide = static_cast<double>(x);
  if (wide < kTiny && wide > -kTiny) return RoundHalf(wide, kInvSqrt2Pi.hi);
  return Round(GeluTanhOf<double>(wide), 0x1p-43, [&] { return GeluTanhOf<Pair>(wide); });
}

float Sin(float x) {
  if (!IsFinite(x)) return QuietNan();
  if (x == 0.0f) return x;
  const Angle angle = ReduceAngle(FromBits(BitsOf(x) & 0x7fffffffu));
  const float value = Round(SinOf<double>(angle, 0), 0x1p-48, [&] { return SinOf<Pair>(angle, 0); });
  return x < 0.0f ? -value : value;
}

float Cos(float x) {
  if (!IsFinite(x)) return QuietNan();
  const Angle angle = ReduceAngle(FromBits(BitsOf(x) & 0x7fffffffu));
  return Round(SinOf<double>(angle, 1), 0x1p-48, [&] { return SinOf<Pair>(angle, 1); });
}

float Sqrt(float x) {
  if (IsNan(x) || x < 0.0f) return QuietNan();
  if (x == 0.0f || !IsFinite(x)) return x;
  uint32_t bits = BitsOf(x);
  int exponent = static_cast<int>(bits >> 23) - 150;
  uint64_t significand = bits & 0x7fffffu;
  if (exponent == -150) {
    exponent = -149;
    while ((significand & 0x800000u) == 0) {
      significand <<= 1;
      --exponent;
    }
  } else {
    significand |= 0x800000u;
  }
  // x = significand * 2^exponent; an even power of two comes out of the root.
  const int shift = (exponent & 1) != 0 ? 25 : 26;
  uint64_t rest = significand << shift;  // 49 or 50 bits: the root has 25, one more than kept
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 24; bit != 0; bit >>= 1) {
    const uint64_t trial = (root << 1 | bit) * bit;  // (root + bit)^2 - root^2
    if (rest >= trial) {
      rest -= trial;
      root |= bit;
    }
  }
  // A tie is impossible: the square of a 25-bit odd number has an odd last bit, and x has 24.
  const uint64_t rounded = (root + 1) >> 1;
  return static_cast<float>(static_cast<double>(rounded) * PowerOfTwo((exponent - shift) / 2 + 1));
}

}  // namespace slm::numeric
