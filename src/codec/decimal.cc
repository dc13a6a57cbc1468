#include "codec/decimal.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace slm {
namespace {

constexpr uint32_t kPower5 = 1220703125;  // 5^13, the largest power that fits 32 bits
constexpr int kPower5Exponent = 13;
constexpr uint32_t kNineDigits = 1000000000;
constexpr int kSubnormal = -1074;   // binary exponent of the smallest
constexpr size_t kSureDigits = 15;  // so many decimal digits come back from a normal number

void Multiply(std::vector<uint32_t>* limbs, uint32_t factor) {
  uint64_t carry = 0;
  for (uint32_t& limb : *limbs) {
    carry += static_cast<uint64_t>(limb) * factor;
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) limbs->push_back(static_cast<uint32_t>(carry));
}

std::string DigitsOf(std::vector<uint32_t> limbs) {
  std::string reversed;
  while (!limbs.empty()) {
    uint64_t rest = 0;
    for (size_t i = limbs.size(); i-- > 0;) {
      rest = (rest << 32) | limbs[i];
      limbs[i] = static_cast<uint32_t>(rest / kNineDigits);
      rest %= kNineDigits;
    }
    while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
    for (int i = 0; i < 9; ++i, rest /= 10) reversed.push_back(static_cast<char>('0' + rest % 10));
  }
  reversed.resize(reversed.find_last_not_of('0') + 1);
  return {reversed.rbegin(), reversed.rend()};
}

// |value| = digits x 10^-scale, exactly; no digits for zero.
struct Exact {
  std::string digits;
  size_t scale = 0;
};

struct Binary {
  uint64_t mantissa;
  int exponent;  // |value| = mantissa x 2^exponent
};

Binary BinaryOf(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const auto biased = static_cast<int>((bits >> 52) & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (biased == 0) return {fraction, kSubnormal};
  return {fraction | (uint64_t{1} << 52), biased - 1075};
}

Exact ExactOf(double value) {
  auto [mantissa, exponent] = BinaryOf(value);
  if (mantissa == 0) return {};
  const int n_even = std::countr_zero(mantissa);
  mantissa >>= n_even;
  exponent += n_even;
  std::vector<uint32_t> limbs = {static_cast<uint32_t>(mantissa), static_cast<uint32_t>(mantissa >> 32)};
  for (int left = exponent; left > 0; left -= 31) Multiply(&limbs, uint32_t{1} << std::min(left, 31));
  for (int left = -exponent; left > 0; left -= kPower5Exponent) {
    uint32_t factor = kPower5;
    for (int i = left; i < kPower5Exponent; ++i) factor /= 5;
    Multiply(&limbs, factor);
  }
  return {DigitsOf(std::move(limbs)), static_cast<size_t>(std::max(-exponent, 0))};
}

// The digits plus one in the last place. A carry out of the first makes one more.
void Increment(std::string* digits) {
  size_t i = digits->size();
  while (i > 0 && (*digits)[i - 1] == '9') (*digits)[--i] = '0';
  if (i > 0) {
    ++(*digits)[i - 1];
  } else {
    digits->insert(digits->begin(), '1');
  }
}

// Whether what follows the first `kept` digits rounds them up.
bool RoundsUp(std::string_view digits, size_t kept) {
  if (kept >= digits.size() || digits[kept] != '5') return kept < digits.size() && digits[kept] > '5';
  if (digits.find_first_not_of('0', kept + 1) != std::string_view::npos) return true;
  return kept > 0 && ((digits[kept - 1] - '0') & 1) != 0;
}

// The first `kept` digits of `exact`, perhaps one larger in the last place.
Decimal CutTo(const Exact& exact, size_t kept, bool up) {
  Decimal out{exact.digits.substr(0, kept),
              static_cast<int>(exact.digits.size()) - 1 - static_cast<int>(exact.scale)};
  out.digits.resize(kept, '0');
  if (up) Increment(&out.digits);
  if (out.digits.size() > kept) {
    out.digits.pop_back();
    ++out.exponent;
  }
  return out;
}

std::string WithExponent(const Decimal& decimal) {
  std::string text = decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) text += "." + decimal.digits.substr(1);
  const int magnitude = std::abs(decimal.exponent);
  text += decimal.exponent < 0 ? "e-" : "e+";
  if (magnitude < 10) text += '0';
  return text + std::to_string(magnitude);
}

bool ReadsBack(const Decimal& decimal, double magnitude) {
  const std::string text = WithExponent(decimal);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && value == magnitude;
}

std::string Sign(double value) {
  return std::signbit(value) ? "-" : "";
}

void StripZeros(std::string* digits) {
  digits->resize(std::max<size_t>(digits->find_last_not_of('0') + 1, 1));
}

}  // namespace

Decimal ShortestDecimal(double value) {
  const double magnitude = std::fabs(value);
  const Exact exact = ExactOf(magnitude);
  if (exact.digits.empty()) return {"0", 0};
  const bool is_normal = BinaryOf(magnitude).mantissa >> 52 != 0;
  Decimal found;
  for (size_t n = is_normal ? kSureDigits : 1;; ++n) {
    const bool up = RoundsUp(exact.digits, n);
    found = CutTo(exact, n, up);
    if (n >= exact.digits.size() || ReadsBack(found, magnitude)) break;
    // Below a power of two the other neighbour may be the only one that reads back.
    found = CutTo(exact, n, !up);
    if (ReadsBack(found, magnitude)) break;
  }
  StripZeros(&found.digits);
  return found;
}

std::string ShortestText(double value) {
  const Decimal decimal = ShortestDecimal(value);
  const auto n = static_cast<int>(decimal.digits.size());
  const int last = decimal.exponent - n + 1;  // power of ten of the last digit
  const std::string scientific = WithExponent(decimal);
  std::string fixed;
  if (last >= 0) {
    // All digits of a whole number, those beyond the shortest too.
    if (decimal.exponent + 1 > static_cast<int>(scientific.size())) return Sign(value) + scientific;
    return FixedText(value, 0);
  }
  if (decimal.exponent >= 0) {
    fixed = decimal.digits;
    fixed.insert(static_cast<size_t>(decimal.exponent) + 1, ".");
  } else if (-decimal.exponent <= static_cast<int>(scientific.size())) {
    fixed = "0." + std::string(static_cast<size_t>(-decimal.exponent) - 1, '0') + decimal.digits;
  }
  return Sign(value) + (fixed.empty() || fixed.size() > scientific.size() ? scientific : fixed);
}

std::string FixedText(double value, int precision) {
  Exact exact = ExactOf(value);
  const auto n_after = static_cast<size_t>(precision);
  std::string& digits = exact.digits;
  // At least one digit before the point, and before the place where the digits are cut.
  const size_t needed = std::max(exact.scale, n_after) + 1;
  if (exact.scale < n_after) digits.append(n_after - exact.scale, '0');
  if (digits.size() < needed) digits.insert(0, needed - digits.size(), '0');
  if (exact.scale > n_after) {
    const size_t kept = digits.size() - (exact.scale - n_after);
    const bool up = RoundsUp(digits, kept);
    digits.resize(kept);
    if (up) Increment(&digits);
  }
  if (n_after > 0) digits.insert(digits.size() - n_after, ".");
  return Sign(value) + digits;
}

std::string ScientificText(double value, int precision) {
  const Exact exact = ExactOf(value);
  const size_t kept = static_cast<size_t>(precision) + 1;
  if (exact.digits.empty()) return Sign(value) + WithExponent({std::string(kept, '0'), 0});
  return Sign(value) + WithExponent(CutTo(exact, kept, RoundsUp(exact.digits, kept)));
}

std::string GeneralText(double value, int precision) {
  const Exact exact = ExactOf(value);
  const size_t kept = static_cast<size_t>(std::max(precision, 1));
  if (exact.digits.empty()) return Sign(value) + "0";
  Decimal rounded = CutTo(exact, kept, RoundsUp(exact.digits, kept));
  if (rounded.exponent < -4 || rounded.exponent >= static_cast<int>(kept)) {
    StripZeros(&rounded.digits);
    return Sign(value) + WithExponent(rounded);
  }
  std::string text = FixedText(value, static_cast<int>(kept) - 1 - rounded.exponent);
  if (text.find('.') != std::string::npos) {
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace slm
