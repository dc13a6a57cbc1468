#include "chat/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "codec/decimal.h"

namespace slm::chat {
namespace {

constexpr size_t kMaxLimbs = 6'804;       // 65,536 digits and a little
constexpr size_t kMaxTextDigits = 4'300;  // sys.int_info.default_max_str_digits

// Sign and magnitude.
struct Big {
  bool negative = false;
  std::vector<uint32_t> limbs;  // least first, no leading zeros
  [[nodiscard]] bool is_zero() const { return limbs.empty(); }
};

void Trim(std::vector<uint32_t>* limbs) {
  while (!limbs->empty() && limbs->back() == 0) limbs->pop_back();
}

Big FromInt64(int64_t value) {
  Big big;
  big.negative = value < 0;
  uint64_t magnitude = big.negative ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) big.limbs.push_back(static_cast<uint32_t>(magnitude));
  return big;
}

Big ToBig(const Value& value) {
  if (value.kind() != ValueKind::kBigInteger) return FromInt64(value.integer());
  const BigInteger& source = value.big();
  return {source.negative, std::vector<uint32_t>(source.limbs, source.limbs + source.n_limbs)};
}

Value FromBig(Heap& heap, const Big& big) {
  if (big.limbs.size() <= 2) {
    uint64_t magnitude = 0;
    for (size_t i = big.limbs.size(); i-- > 0;) magnitude = (magnitude << 32) | big.limbs[i];
    if (!big.negative && magnitude <= static_cast<uint64_t>(INT64_MAX))
      return Value::Integer(static_cast<int64_t>(magnitude));
    if (big.negative && magnitude <= static_cast<uint64_t>(INT64_MAX) + 1)
      return Value::Integer(static_cast<int64_t>(~magnitude + 1));
  }
  auto* limbs = static_cast<uint32_t*>(heap.Allocate(big.limbs.size() * sizeof(uint32_t)));
  std::copy(big.limbs.begin(), big.limbs.end(), limbs);
  return Value::Of(ValueKind::kBigInteger,
                   heap.New<BigInteger>(big.negative, static_cast<uint32_t>(big.limbs.size()), limbs));
}

int CompareMagnitudes(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

int CompareBig(const Big& a, const Big& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = CompareMagnitudes(a.limbs, b.limbs);
  return a.negative ? -order : order;
}

std::vector<uint32_t> AddMagnitudes(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> sum;
  uint64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? a[i] : 0) + static_cast<uint64_t>(i < b.size() ? b[i] : 0);
    sum.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  Trim(&sum);
  return sum;
}

// REQUIRES: a >= b.
std::vector<uint32_t> SubtractMagnitudes(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> difference;
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t digit = static_cast<int64_t>(a[i]) - (i < b.size() ? b[i] : 0) - borrow;
    borrow = digit < 0 ? 1 : 0;
    if (borrow != 0) digit += int64_t{1} << 32;
    difference.push_back(static_cast<uint32_t>(digit));
  }
  Trim(&difference);
  return difference;
}

Big AddBig(const Big& a, const Big& b) {
  if (a.negative == b.negative) return {a.negative, AddMagnitudes(a.limbs, b.limbs)};
  const int order = CompareMagnitudes(a.limbs, b.limbs);
  if (order == 0) return {};
  return order > 0 ? Big{a.negative, SubtractMagnitudes(a.limbs, b.limbs)}
                   : Big{b.negative, SubtractMagnitudes(b.limbs, a.limbs)};
}

Big Negated(Big big) {
  if (!big.is_zero()) big.negative = !big.negative;
  return big;
}

Big MultiplyBig(const Big& a, const Big& b) {
  Big product;
  if (a.is_zero() || b.is_zero()) return product;
  product.negative = a.negative != b.negative;
  product.limbs.assign(a.limbs.size() + b.limbs.size(), 0);
  for (size_t i = 0; i < a.limbs.size(); ++i) {
    uint64_t carry = 0;
    for (size_t k = 0; k < b.limbs.size(); ++k) {
      carry += static_cast<uint64_t>(a.limbs[i]) * b.limbs[k] + product.limbs[i + k];
      product.limbs[i + k] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    product.limbs[i + b.limbs.size()] = static_cast<uint32_t>(carry);
  }
  Trim(&product.limbs);
  return product;
}

uint32_t DivideSmall(std::vector<uint32_t>* limbs, uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = limbs->size(); i-- > 0;) {
    rest = (rest << 32) | (*limbs)[i];
    (*limbs)[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  Trim(limbs);
  return static_cast<uint32_t>(rest);
}

std::vector<uint32_t> ShiftLeft(const std::vector<uint32_t>& limbs, size_t n_bits) {
  if (limbs.empty()) return limbs;
  std::vector<uint32_t> result(n_bits / 32, 0);
  const size_t bits = n_bits % 32;
  uint32_t carry = 0;
  for (const uint32_t limb : limbs) {
    result.push_back(bits == 0 ? limb : (limb << bits) | carry);
    carry = bits == 0 ? 0 : limb >> (32 - bits);
  }
  if (carry != 0) result.push_back(carry);
  return result;
}

// Knuth's algorithm D on magnitudes; the remainder goes to `rest`. REQUIRES: b is not zero.
std::vector<uint32_t> DivideMagnitudes(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                                       std::vector<uint32_t>* rest) {
  if (CompareMagnitudes(a, b) < 0) {
    *rest = a;
    return {};
  }
  if (b.size() == 1) {
    std::vector<uint32_t> quotient = a;
    const uint32_t remainder = DivideSmall(&quotient, b[0]);
    rest->clear();
    if (remainder != 0) rest->push_back(remainder);
    return quotient;
  }
  size_t shift = 0;
  while ((b.back() << shift & 0x80000000u) == 0) ++shift;
  std::vector<uint32_t> u = ShiftLeft(a, shift);
  const std::vector<uint32_t> v = ShiftLeft(b, shift);
  if (u.size() == a.size()) u.push_back(0);
  const size_t n = v.size();
  std::vector<uint32_t> quotient(u.size() - n, 0);
  for (size_t j = u.size() - n; j-- > 0;) {
    const uint64_t head = (static_cast<uint64_t>(u[j + n]) << 32) | u[j + n - 1];
    uint64_t digit = head / v[n - 1];
    uint64_t left = head % v[n - 1];
    while (digit >= (uint64_t{1} << 32) || digit * v[n - 2] > ((left << 32) | u[j + n - 2])) {
      --digit;
      left += v[n - 1];
      if (left >= (uint64_t{1} << 32)) break;
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (size_t i = 0; i < n; ++i) {
      carry += digit * v[i];
      const int64_t t = static_cast<int64_t>(u[i + j]) - borrow - static_cast<int64_t>(carry & 0xffffffffu);
      u[i + j] = static_cast<uint32_t>(t);
      borrow = t < 0 ? 1 : 0;
      carry >>= 32;
    }
    const int64_t t = static_cast<int64_t>(u[j + n]) - borrow - static_cast<int64_t>(carry);
    u[j + n] = static_cast<uint32_t>(t);
    if (t < 0) {
      --digit;
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        sum += static_cast<uint64_t>(u[i + j]) + v[i];
        u[i + j] = static_cast<uint32_t>(sum);
        sum >>= 32;
      }
      u[j + n] += static_cast<uint32_t>(sum);
    }
    quotient[j] = static_cast<uint32_t>(digit);
  }
  Trim(&quotient);
  u.resize(n);
  rest->assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    (*rest)[i] = shift == 0 ? u[i] : (u[i] >> shift) | (i + 1 < n ? u[i + 1] << (32 - shift) : 0);
  }
  Trim(rest);
  return quotient;
}

// Python's floor division and its remainder, which has the divisor's sign.
void FloorDivide(const Big& a, const Big& b, Big* quotient, Big* rest) {
  rest->negative = a.negative;
  quotient->negative = a.negative != b.negative;
  quotient->limbs = DivideMagnitudes(a.limbs, b.limbs, &rest->limbs);
  if (rest->is_zero()) {
    rest->negative = false;
  } else if (a.negative != b.negative) {
    *rest = AddBig(*rest, b);
    quotient->limbs = AddMagnitudes(quotient->limbs, {1});
  }
  if (quotient->is_zero()) quotient->negative = false;
}

size_t BitLength(const std::vector<uint32_t>& limbs) {
  if (limbs.empty()) return 0;
  size_t bits = (limbs.size() - 1) * 32;
  for (uint32_t top = limbs.back(); top != 0; top >>= 1) ++bits;
  return bits;
}

// magnitude * 2^exponent with a sticky bit below, to the nearest double.
double ScaleRounded(const std::vector<uint32_t>& magnitude, bool sticky, int64_t exponent) {
  const size_t bits = BitLength(magnitude);
  const size_t drop = bits > 64 ? bits - 64 : 0;
  uint64_t top = 0;
  for (size_t i = 0; i < 64 && i < bits; ++i) {
    const size_t at = bits - 1 - i;
    top = (top << 1) | (magnitude[at / 32] >> (at % 32) & 1);
  }
  for (size_t i = 0; i < drop && !sticky; ++i) sticky = (magnitude[i / 32] >> (i % 32) & 1) != 0;
  exponent += static_cast<int64_t>(drop);
  // 53 bits and what is below them, fewer where the result is subnormal.
  const int64_t n_bits = static_cast<int64_t>(std::min<size_t>(bits, 64));
  int64_t keep = 53;
  const int64_t top_exponent = exponent + n_bits;  // value < 2^top_exponent
  if (top_exponent < -1021) keep = std::max<int64_t>(0, 53 - (-1021 - top_exponent));
  if (n_bits > keep) {
    const int64_t cut = n_bits - keep;
    const uint64_t below = cut >= 64 ? top : top & ((uint64_t{1} << cut) - 1);
    const uint64_t half = uint64_t{1} << (cut - 1);
    top = cut >= 64 ? 0 : top >> cut;
    if (below > half || (below == half && (sticky || (top & 1) != 0))) ++top;
    exponent += cut;
  }
  return std::ldexp(static_cast<double>(top), static_cast<int>(std::clamp<int64_t>(exponent, -5000, 5000)));
}

double BigToDouble(const Big& big) {
  const double magnitude = ScaleRounded(big.limbs, false, 0);
  return big.negative ? -magnitude : magnitude;
}

Big FromDouble(double number) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(number), &exponent);
  Big big = FromInt64(static_cast<int64_t>(std::ldexp(fraction, 53)));
  big.negative = number < 0;
  exponent -= 53;
  if (exponent >= 0) {
    big.limbs = ShiftLeft(big.limbs, static_cast<size_t>(exponent));
  } else {
    uint64_t magnitude = 0;
    for (size_t i = big.limbs.size(); i-- > 0;) magnitude = (magnitude << 32) | big.limbs[i];
    magnitude = exponent <= -64 ? 0 : magnitude >> -exponent;
    big.limbs = FromInt64(static_cast<int64_t>(magnitude)).limbs;
  }
  if (big.is_zero()) big.negative = false;
  return big;
}

NumberResult Raises(const char* exception, const char* message) {
  NumberResult result;
  result.exception = exception;
  result.message = message;
  return result;
}

NumberResult Of(Value value) {
  NumberResult result;
  result.value = value;
  return result;
}

// Integer by integer to the nearest double.
NumberResult TrueDivide(const Big& a, const Big& b) {
  if (b.is_zero()) return Raises("ZeroDivisionError", "division by zero");
  if (a.is_zero()) return Of(Value::Float(b.negative ? -0.0 : 0.0));
  const int64_t shift = std::max<int64_t>(
      0, 66 - (static_cast<int64_t>(BitLength(a.limbs)) - static_cast<int64_t>(BitLength(b.limbs))));
  std::vector<uint32_t> rest;
  const std::vector<uint32_t> quotient =
      DivideMagnitudes(ShiftLeft(a.limbs, static_cast<size_t>(shift)), b.limbs, &rest);
  const double magnitude = ScaleRounded(quotient, !rest.empty(), -shift);
  if (std::isinf(magnitude)) return Raises("OverflowError", "integer division result too large for a float");
  return Of(Value::Float(a.negative != b.negative ? -magnitude : magnitude));
}

NumberResult Bounded(Heap& heap, const Big& big) {
  if (big.limbs.size() > kMaxLimbs) {
    NumberResult result;
    result.too_big = true;
    return result;
  }
  return Of(FromBig(heap, big));
}

NumberResult PowerFloat(double base, double exponent) {
  if (exponent == 0 || base == 1) return Of(Value::Float(1));
  if (base == 0 && exponent < 0)
    return Raises("ZeroDivisionError", "0.0 cannot be raised to a negative power");
  if (std::isfinite(base) && base < 0 && std::isfinite(exponent) && std::trunc(exponent) != exponent) {
    NumberResult result;
    result.is_complex = true;
    return result;
  }
  const double power = std::pow(base, exponent);
  if (std::isinf(power) && std::isfinite(base) && std::isfinite(exponent)) {
    return Raises("OverflowError", "(34, 'Numerical result out of range')");
  }
  return Of(Value::Float(power));
}

NumberResult PowerInteger(Heap& heap, const Value& left, const Value& right) {
  const Big exponent = ToBig(right);
  if (exponent.negative) {
    const auto base = ToDouble(left);
    const auto power = ToDouble(right);
    if (!base || !power) return Raises("OverflowError", "int too large to convert to float");
    return PowerFloat(*base, *power);
  }
  const Big base = ToBig(left);
  if (exponent.is_zero()) return Of(Value::Integer(1));
  if (base.is_zero()) return Of(Value::Integer(0));
  if (base.limbs.size() == 1 && base.limbs[0] == 1) {
    return Of(Value::Integer(base.negative && (exponent.limbs[0] & 1) != 0 ? -1 : 1));
  }
  NumberResult bound;
  bound.too_big = true;
  if (exponent.limbs.size() > 1 || exponent.limbs[0] > kMaxLimbs * 32) return bound;
  Big result = FromInt64(1);
  Big square = base;
  for (uint32_t bits = exponent.limbs[0]; bits != 0;) {
    if ((bits & 1) != 0) result = MultiplyBig(result, square);
    bits >>= 1;
    if (result.limbs.size() > kMaxLimbs) return bound;
    if (bits == 0) break;
    square = MultiplyBig(square, square);
    if (square.limbs.size() > kMaxLimbs) return bound;
  }
  return Bounded(heap, result);
}

NumberResult ComputeFloat(Arithmetic op, double a, double b) {
  switch (op) {
    case Arithmetic::kAdd:
      return Of(Value::Float(a + b));
    case Arithmetic::kSubtract:
      return Of(Value::Float(a - b));
    case Arithmetic::kMultiply:
      return Of(Value::Float(a * b));
    case Arithmetic::kDivide:
      if (b == 0) return Raises("ZeroDivisionError", "float division by zero");
      return Of(Value::Float(a / b));
    case Arithmetic::kPower:
      return PowerFloat(a, b);
    default:
      break;
  }
  if (b == 0) {
    return Raises("ZeroDivisionError",
                  op == Arithmetic::kModulo ? "float modulo" : "float floor division by zero");
  }
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (op == Arithmetic::kModulo) return Of(Value::Float(rest));
  double floored = 0;
  if (quotient != 0) {
    floored = std::floor(quotient);
    if (quotient - floored > 0.5) floored += 1;
  } else {
    floored = std::copysign(0.0, a / b);
  }
  return Of(Value::Float(floored));
}

NumberResult ComputeSmall(Heap& heap, Arithmetic op, int64_t a, int64_t b, bool* done) {
  int64_t result = 0;
  *done = true;
  switch (op) {
    case Arithmetic::kAdd:
      if (!__builtin_add_overflow(a, b, &result)) return Of(Value::Integer(result));
      break;
    case Arithmetic::kSubtract:
      if (!__builtin_sub_overflow(a, b, &result)) return Of(Value::Integer(result));
      break;
    case Arithmetic::kMultiply:
      if (!__builtin_mul_overflow(a, b, &result)) return Of(Value::Integer(result));
      break;
    case Arithmetic::kFloorDivide:
    case Arithmetic::kModulo: {
      if (b == 0) return Raises("ZeroDivisionError", "integer division or modulo by zero");
      if (b == -1) break;
      int64_t quotient = a / b;
      int64_t rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        --quotient;
      }
      return Of(Value::Integer(op == Arithmetic::kModulo ? rest : quotient));
    }
    default:
      break;
  }
  *done = false;
  (void)heap;
  return {};
}

}  // namespace

std::optional<double> ToDouble(const Value& number) {
  if (number.kind() == ValueKind::kFloat) return number.real();
  if (number.is_small_integer()) return static_cast<double>(number.integer());
  const double result = BigToDouble(ToBig(number));
  if (std::isinf(result)) return std::nullopt;
  return result;
}

Ordering CompareNumbers(const Value& left, const Value& right) {
  const auto of = [](int order) {
    return order < 0 ? Ordering::kLess : order > 0 ? Ordering::kGreater : Ordering::kEqual;
  };
  if (left.is_small_integer() && right.is_small_integer()) {
    return of(left.integer() < right.integer() ? -1 : left.integer() > right.integer() ? 1 : 0);
  }
  if (left.is_integer() && right.is_integer()) return of(CompareBig(ToBig(left), ToBig(right)));
  if (left.kind() == ValueKind::kFloat && right.kind() == ValueKind::kFloat) {
    const double a = left.real();
    const double b = right.real();
    if (std::isnan(a) || std::isnan(b)) return Ordering::kUnordered;
    return of(a < b ? -1 : a > b ? 1 : 0);
  }
  const bool float_left = left.kind() == ValueKind::kFloat;
  const double number = float_left ? left.real() : right.real();
  if (std::isnan(number)) return Ordering::kUnordered;
  int order = 0;  // of the double against the integer
  if (std::isinf(number)) {
    order = number < 0 ? -1 : 1;
  } else {
    order = CompareBig(FromDouble(std::trunc(number)), ToBig(float_left ? right : left));
    if (order == 0 && std::trunc(number) != number) order = number > 0 ? 1 : -1;
  }
  return of(float_left ? order : -order);
}

NumberResult Compute(Heap& heap, Arithmetic op, const Value& left, const Value& right) {
  if (left.kind() == ValueKind::kFloat || right.kind() == ValueKind::kFloat) {
    const auto a = ToDouble(left);
    const auto b = ToDouble(right);
    if (!a || !b) return Raises("OverflowError", "int too large to convert to float");
    return ComputeFloat(op, *a, *b);
  }
  if (left.is_small_integer() && right.is_small_integer()) {
    bool done = false;
    NumberResult result = ComputeSmall(heap, op, left.integer(), right.integer(), &done);
    if (done) return result;
  }
  if (op == Arithmetic::kPower) return PowerInteger(heap, left, right);
  const Big a = ToBig(left);
  const Big b = ToBig(right);
  switch (op) {
    case Arithmetic::kAdd:
      return Bounded(heap, AddBig(a, b));
    case Arithmetic::kSubtract:
      return Bounded(heap, AddBig(a, Negated(b)));
    case Arithmetic::kMultiply:
      return Bounded(heap, MultiplyBig(a, b));
    case Arithmetic::kDivide:
      return TrueDivide(a, b);
    default:
      break;
  }
  if (b.is_zero()) return Raises("ZeroDivisionError", "integer division or modulo by zero");
  Big quotient;
  Big rest;
  FloorDivide(a, b, &quotient, &rest);
  return Of(FromBig(heap, op == Arithmetic::kModulo ? rest : quotient));
}

Value Negate(Heap& heap, const Value& number) {
  Value result;
  if (number.kind() == ValueKind::kFloat) {
    result = Value::Float(-number.real());
  } else if (number.is_small_integer() && number.integer() != INT64_MIN) {
    result = Value::Integer(-number.integer());
  } else {
    result = FromBig(heap, Negated(ToBig(number)));
  }
  result.set_owner(number.owner());
  return result;
}

Value Absolute(Heap& heap, const Value& number) {
  if (number.kind() == ValueKind::kFloat) return Value::Float(std::fabs(number.real()), number.owner());
  if (IsNegative(number)) return Negate(heap, number);
  return number.kind() == ValueKind::kBool ? Value::Integer(number.integer(), number.owner()) : number;
}

Value TruncateToInteger(Heap& heap, double number) {
  if (std::fabs(number) < 9e18) return Value::Integer(static_cast<int64_t>(number));
  return FromBig(heap, FromDouble(std::trunc(number)));
}

bool IsNegative(const Value& integer) {
  return integer.kind() == ValueKind::kBigInteger ? integer.big().negative : integer.integer() < 0;
}

std::string Digits(const Value& integer, uint32_t base) {
  Big big = ToBig(integer);
  if (big.is_zero()) return "0";
  std::string reversed;
  while (!big.limbs.empty()) {
    uint32_t group = base;
    size_t n_digits = 1;
    while (static_cast<uint64_t>(group) * base < (uint64_t{1} << 32)) {
      group *= base;
      ++n_digits;
    }
    uint32_t rest = DivideSmall(&big.limbs, group);
    for (size_t i = 0; i < n_digits && (rest != 0 || !big.limbs.empty()); ++i) {
      reversed.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[rest % base]);
      rest /= base;
    }
  }
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

std::optional<std::string> IntegerText(const Value& integer) {
  if (integer.is_small_integer()) return std::to_string(integer.integer());
  std::string digits = Digits(integer, 10);
  if (digits.size() > kMaxTextDigits) return std::nullopt;
  return (IsNegative(integer) ? "-" : "") + digits;
}

std::optional<Value> ParseInteger(Heap& heap, std::string_view digits, uint32_t base) {
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  Big big;
  uint64_t small = 0;
  const bool fits = digits.size() <= 12;
  for (const char c : digits) {
    uint32_t digit = 99;
    if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0');
    if (c >= 'a' && c <= 'z') digit = static_cast<uint32_t>(c - 'a' + 10);
    if (c >= 'A' && c <= 'Z') digit = static_cast<uint32_t>(c - 'A' + 10);
    if (digit >= base) return std::nullopt;
    if (fits) {
      small = small * base + digit;
      continue;
    }
    uint64_t carry = digit;
    for (uint32_t& limb : big.limbs) {
      carry += static_cast<uint64_t>(limb) * base;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) big.limbs.push_back(static_cast<uint32_t>(carry));
  }
  if (fits) big = FromInt64(static_cast<int64_t>(small));
  big.negative = negative && !big.is_zero();
  return FromBig(heap, big);
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The digits that were found, not as many of the exact value: at a power of two those may read back as its
  // neighbour.
  const auto [digits, exponent] = ShortestDecimal(value);
  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") +
           (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent) - 1, '0') + digits;
  const size_t n_before = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_before) return sign + digits + std::string(n_before - digits.size(), '0') + ".0";
  return sign + digits.substr(0, n_before) + "." + digits.substr(n_before);
}

double BeyondRange(std::string_view text) {
  // The exponent and the place of the first digit say which.
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const size_t digit = text.find_first_of("123456789");
  const size_t point = std::min(text.find('.'), e);
  const long exponent =
      e < text.size() ? std::strtol(std::string(text.substr(e + 1)).c_str(), nullptr, 10) : 0;
  const long place = digit < point ? static_cast<long>(point - digit) : -static_cast<long>(digit - point);
  return exponent + place > 0 ? INFINITY : 0;
}

std::optional<double> ParseFloatLiteral(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || text.empty() || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc::result_out_of_range ? BeyondRange(text) : number;
}

Arithmetic ArithmeticOf(std::string_view sign) {
  if (sign == "+") return Arithmetic::kAdd;
  if (sign == "-") return Arithmetic::kSubtract;
  if (sign == "*") return Arithmetic::kMultiply;
  if (sign == "/") return Arithmetic::kDivide;
  if (sign == "//") return Arithmetic::kFloorDivide;
  return sign == "%" ? Arithmetic::kModulo : Arithmetic::kPower;
}

double RoundTo(double value, int n_digits) {
  if (!std::isfinite(value) || n_digits > 323) return value;
  if (n_digits < -308) return std::copysign(0.0, value);
  if (n_digits >= 0) {
    const std::string text = FixedText(value, n_digits);
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  // Left of the point: cut the exact digits, half to even.
  std::string digits = FixedText(std::fabs(value), 1074);
  digits.resize(digits.find_last_not_of('0') + 1);
  const size_t point = digits.find('.');
  const auto places = static_cast<size_t>(-n_digits);
  std::string whole = digits.substr(0, point);
  if (whole.size() < places) whole.insert(0, places - whole.size(), '0');
  const std::string kept = whole.size() == places ? "0" : whole.substr(0, whole.size() - places);
  const std::string cut =
      whole.substr(whole.size() - places) + digits.substr(std::min(point + 1, digits.size()));
  const std::string half = "5" + std::string(cut.size() - 1, '0');
  const bool odd = ((kept.back() - '0') & 1) != 0;
  double number = 0;
  std::from_chars(kept.data(), kept.data() + kept.size(), number);
  if (cut > half || (cut == half && odd)) number += 1;
  const std::string scaled = FixedText(number, 0) + "e" + std::to_string(places);
  double result = 0;
  std::from_chars(scaled.data(), scaled.data() + scaled.size(), result);
  return std::copysign(result, value);
}

}  // namespace slm::chat
