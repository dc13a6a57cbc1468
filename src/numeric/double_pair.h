// Unevaluated sums of two doubles (about 106 bits), for the steps of exact_math.cc where a
// double cannot decide the rounding. Internal to src/numeric.
//
// T. Dekker, "A floating-point technique for extending the available precision", 1971;
// D. Knuth, TAOCP vol. 2, 4.2.2. Products are split, not fused: the code is the same where
// there is no fused multiply-add. REQUIRES: no overflow in a split (|x| < 2^996) and no
// contraction by the compiler.
#ifndef SLM_NUMERIC_DOUBLE_PAIR_H_
#define SLM_NUMERIC_DOUBLE_PAIR_H_

#include <bit>
#include <cstdint>

namespace slm::numeric {

struct Pair {
  double hi;
  double lo;  // |lo| <= half a unit in the last place of hi

  constexpr Pair(double high, double low) : hi(high), lo(low) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a double is a pair
  constexpr Pair(double value) : hi(value), lo(0.0) {}
};

inline Pair FastTwoSum(double a, double b) {  // REQUIRES: |a| >= |b| or a == 0
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
inline Pair TwoSum(double a, double b) {
  const double sum = a + b;
  const double other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}
inline Pair Split(double a) {
  const double scaled = 134217729.0 * a;  // 2^27 + 1
  const double hi = scaled - (scaled - a);
  return {hi, a - hi};
}
inline Pair TwoProduct(double a, double b) {
  const double product = a * b;
  const Pair x = Split(a);
  const Pair y = Split(b);
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}

inline Pair operator-(Pair a) {
  return {-a.hi, -a.lo};
}
inline Pair operator+(Pair a, Pair b) {
  Pair high = TwoSum(a.hi, b.hi);
  const Pair low = TwoSum(a.lo, b.lo);
  high = FastTwoSum(high.hi, high.lo + low.hi);
  return FastTwoSum(high.hi, high.lo + low.lo);
}
inline Pair operator-(Pair a, Pair b) {
  return a + (-b);
}
inline Pair operator*(Pair a, Pair b) {
  const Pair product = TwoProduct(a.hi, b.hi);
  return FastTwoSum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Pair operator/(Pair a, Pair b) {
  const double q1 = a.hi / b.hi;
  Pair rest = a - b * Pair(q1);
  const double q2 = rest.hi / b.hi;
  rest = rest - b * Pair(q2);
  const double q3 = rest.hi / b.hi;
  const Pair head = FastTwoSum(q1, q2);
  return head + Pair(q3);
}

// The pair rounded to 53 bits to odd: rounding that once more to 24 bits or fewer gives what
// rounding the exact sum gives.
inline double RoundToOdd(Pair a) {
  const Pair sum = TwoSum(a.hi, a.lo);
  const auto bits = std::bit_cast<uint64_t>(sum.hi);
  if (sum.lo == 0.0 || (bits & 1) != 0) return sum.hi;
  const bool same_sign = (sum.hi > 0.0) == (sum.lo > 0.0);
  return std::bit_cast<double>(same_sign ? bits + 1 : bits - 1);
}

}  // namespace slm::numeric

#endif  // SLM_NUMERIC_DOUBLE_PAIR_H_
