#include "tokenizer/reference_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace slm::tokenizer {
namespace {

constexpr int64_t kMaxPower = 308;

// Correctly rounded powers of ten.
double PowerOfTen(int64_t exponent) {
  static const auto kPowers = [] {
    std::array<double, kMaxPower + 1> powers{};
    for (size_t i = 0; i < powers.size(); ++i) {
      std::array<char, 8> text = {'1', 'e'};
      const auto end = std::to_chars(text.data() + 2, text.data() + text.size(), i).ptr;
      std::from_chars(text.data(), end, powers[i]);
    }
    return powers;
  }();
  return kPowers[static_cast<size_t>(exponent)];
}

// An exponent beyond 32 bits: the sign decides.
int64_t ReadExponent(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  for (const char c : text)
    value = std::min<int64_t>(value * 10 + (c - '0'), std::numeric_limits<int32_t>::max());
  return negative ? -value : value;
}

}  // namespace

std::optional<double> ReadAsReference(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool is_full = false;  // further digits would not fit: of whole ones the place counts, of others nothing
  bool in_fraction = false;
  size_t at = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      in_fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    // Once whole digits did not fit, the reference tries again with those behind the point.
    is_full = digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (is_full && in_fraction) {
      at = std::min(text.find_first_of("eE", at), text.size());
      break;
    }
    if (is_full) {
      ++exponent;
      while (at + 1 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '9') {
        ++exponent;
        ++at;
      }
      continue;
    }
    digits = digits * 10 + digit;
    if (in_fraction) --exponent;
  }
  if (at < text.size()) exponent += ReadExponent(text.substr(at + 1));
  auto value = static_cast<double>(digits);
  for (; exponent < -kMaxPower && value != 0; exponent += kMaxPower) value /= PowerOfTen(kMaxPower);
  if (exponent > kMaxPower && value != 0) return std::nullopt;
  if (value != 0) value = exponent >= 0 ? value * PowerOfTen(exponent) : value / PowerOfTen(-exponent);
  if (std::isinf(value)) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace slm::tokenizer
