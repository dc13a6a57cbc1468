// Decimal text of binary64 numbers, from the exact digits of the value, rounded half to even. The texts are
// those of std::to_chars, whose tables would be a tenth of the module for browsers. Pure functions; values
// are finite.
#ifndef SLM_CODEC_DECIMAL_H_
#define SLM_CODEC_DECIMAL_H_

#include <string>

namespace slm {

// A magnitude as d.ddd x 10^exponent: the digits without the point, the first of them not 0 but for zero
// itself.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

// The fewest digits that read back as `value`, whose sign is dropped; of two such the nearer.
[[nodiscard]] Decimal ShortestDecimal(double value);

// As std::to_chars(value): ShortestDecimal, with or without an exponent, whichever is not longer.
[[nodiscard]] std::string ShortestText(double value);
// `precision` digits after the point: as std::chars_format::fixed, scientific, and general.
[[nodiscard]] std::string FixedText(double value, int precision);
[[nodiscard]] std::string ScientificText(double value, int precision);
[[nodiscard]] std::string GeneralText(double value, int precision);

}  // namespace slm

#endif  // SLM_CODEC_DECIMAL_H_
