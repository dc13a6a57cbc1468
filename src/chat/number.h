// Python's numbers: integers without bound, doubles, their arithmetic, order and text.
#ifndef SLM_CHAT_NUMBER_H_
#define SLM_CHAT_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace slm::chat {

enum class Ordering : uint8_t { kLess, kEqual, kGreater, kUnordered };

// REQUIRES: numbers. Exact, whatever the mixture of integers and doubles.
[[nodiscard]] Ordering CompareNumbers(const Value& left, const Value& right);

enum class Arithmetic : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
// REQUIRES: one of + - * / // % **.
[[nodiscard]] Arithmetic ArithmeticOf(std::string_view sign);

// The outcome of an operation: a value, or the exception that Python raises.
struct NumberResult {
  Value value;
  const char* exception = nullptr;  // "ZeroDivisionError", "OverflowError"
  const char* message = nullptr;
  bool too_big = false;     // beyond the bound of 65,536 digits
  bool is_complex = false;  // a complex number in the reference
};

// REQUIRES: numbers.
[[nodiscard]] NumberResult Compute(Heap& heap, Arithmetic op, const Value& left, const Value& right);
[[nodiscard]] Value Negate(Heap& heap, const Value& number);
[[nodiscard]] Value Absolute(Heap& heap, const Value& number);

// float(integer): nearest, ties to even; nothing if it overflows.
[[nodiscard]] std::optional<double> ToDouble(const Value& number);
// int(number), truncating. REQUIRES: finite.
[[nodiscard]] Value TruncateToInteger(Heap& heap, double number);
// Digits in `base` (2 to 36) without sign and prefix.
[[nodiscard]] std::string Digits(const Value& integer, uint32_t base);
[[nodiscard]] bool IsNegative(const Value& integer);
// str(int); nothing beyond 4,300 digits, where Python raises ValueError.
[[nodiscard]] std::optional<std::string> IntegerText(const Value& integer);
// From decimal digits alone, with or without a sign. Nothing if there are other characters.
[[nodiscard]] std::optional<Value> ParseInteger(Heap& heap, std::string_view digits, uint32_t base = 10);
// float.__repr__: shortest digits that read back.
[[nodiscard]] std::string FloatRepr(double value);
// What a magnitude means that is beyond the range of binary64: infinity, or zero where it is too small.
// `text` is digits with or without a point, and an exponent behind `e` or `E`.
[[nodiscard]] double BeyondRange(std::string_view text);
// A float literal, which may be beyond the range; nothing if the text is none.
[[nodiscard]] std::optional<double> ParseFloatLiteral(std::string_view text);
// round(value, n_digits): a double with that many decimal places, ties to even on the exact value.
[[nodiscard]] double RoundTo(double value, int n_digits);

}  // namespace slm::chat

#endif  // SLM_CHAT_NUMBER_H_
