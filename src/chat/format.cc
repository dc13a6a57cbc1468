#include "chat/format.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "chat/python_escape.h"
#include "codec/decimal.h"
#include "unicode/python_v14_0.h"

namespace slm::chat {
namespace {

// Of a text of ScientificText.
int ExponentOf(const std::string& scientific) {
  return static_cast<int>(std::strtol(scientific.c_str() + scientific.find('e') + 1, nullptr, 10));
}

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxPrecision = 4'300;

// 'e', 'f' or 'g' form of the magnitude of a finite number, in lower case.
std::string FloatDigits(double magnitude, char form, int precision, bool alternate) {
  if (form == 'f') {
    std::string text = FixedText(magnitude, precision);
    if (precision == 0 && alternate) text += '.';
    return text;
  }
  if (form == 'e') {
    std::string text = ScientificText(magnitude, precision);
    if (precision == 0 && alternate) text.insert(text.find('e'), ".");
    return text;
  }
  if (precision == 0) precision = 1;
  const std::string scientific = ScientificText(magnitude, precision - 1);
  const size_t e = scientific.find('e');
  const int exponent = ExponentOf(scientific);
  std::string text;
  std::string tail;
  if (exponent < -4 || exponent >= precision) {
    text = scientific.substr(0, e);
    tail = scientific.substr(e);
  } else {
    text = FixedText(magnitude, precision - 1 - exponent);
  }
  if (!alternate && text.find('.') != std::string::npos) {
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text + tail;
}

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
  return text;
}

// ascii(): repr with what is outside ASCII as escapes.
std::string AsciiRepr(std::string_view repr) {
  std::string out;
  for (size_t at = 0; at < repr.size();) {
    const char32_t c = DecodeUtf8(repr, &at);
    if (c < 0x80) {
      out.push_back(static_cast<char>(c));
      continue;
    }
    out += PythonEscape(c);
  }
  return out;
}

// Cuts a text to its first `n` scalars.
Value FirstScalars(Runtime& runtime, const Value& text, int64_t n) {
  const std::string_view bytes = runtime.View(text);
  size_t at = 0;
  for (int64_t i = 0; i < n && at < bytes.size(); ++i) (void)DecodeUtf8(bytes, &at);
  return runtime.heap().Slice(text, 0, at);
}

// ---- the operator % ----

struct PercentField {
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  int64_t width = -1;
  int64_t precision = -1;
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    is_tuple_ = values.kind() == ValueKind::kTuple;
    is_mapping_ = !is_tuple_ && (values.kind() == ValueKind::kDict || values.kind() == ValueKind::kList ||
                                 values.kind() == ValueKind::kRange || values.is_undefined());
    end_ = is_tuple_ ? static_cast<int64_t>(values.list().size) : -1;
    next_ = is_tuple_ ? 0 : -2;
    current_ = values;
  }

  Value Run() {
    const Text& text = runtime_.Flat(format_);
    const std::string_view bytes = text.view();
    while (at_ < bytes.size()) {
      const size_t percent = std::min(bytes.find('%', at_), bytes.size());
      AppendSlice(&out_, text, at_, percent);
      at_ = percent;
      if (at_ >= bytes.size()) break;
      owner_ = text.OwnerAt(at_);
      ++at_;
      if (!Field(bytes)) return Value::Error();
      if (!runtime_.Work(1) || !runtime_.MayAllocate(out_.size())) return Value::Error();
    }
    if (next_ < end_ && !is_mapping_) {
      return runtime_.RaiseType("not all arguments converted during string formatting");
    }
    const Value made = runtime_.Make(out_);
    return made.failed() ? made : made.WithFlag(format_.is_markup());
  }

 private:
  bool Fail(std::string_view exception, const std::string& message) {
    runtime_.Raise(exception, message);
    return false;
  }

  bool NextArgument(Value* value) {
    if (next_ >= end_) return Fail("TypeError", "not enough arguments for format string");
    *value = end_ < 0 ? current_ : current_.list().items[next_];
    ++next_;
    return true;
  }

  bool Key(std::string_view bytes) {
    if (!is_mapping_) return Fail("TypeError", "format requires a mapping");
    const size_t begin = ++at_;
    int depth = 1;
    while (at_ < bytes.size() && depth > 0) {
      if (bytes[at_] == ')') --depth;
      if (bytes[at_] == '(') ++depth;
      ++at_;
    }
    if (depth > 0) return Fail("ValueError", "incomplete format key");
    const std::string_view name = bytes.substr(begin, at_ - 1 - begin);
    if (values_.is_undefined()) {
      runtime_.RaiseUndefined(values_);
      return false;
    }
    if (values_.kind() != ValueKind::kDict) {
      return Fail("TypeError",
                  std::string(TypeName(values_)) + " indices must be integers or slices, not str");
    }
    const Value* found = Find(values_.dict(), name);
    if (found == nullptr) return Fail("KeyError", QuotedRepr(name));
    current_ = *found;
    end_ = -1;
    next_ = -2;
    return true;
  }

  bool Number(std::string_view bytes, int64_t most, int64_t* number) {
    if (at_ < bytes.size() && bytes[at_] == '*') {
      ++at_;
      Value value;
      if (!NextArgument(&value)) return false;
      const auto index = AsIndex(value);
      if (!index) return Fail("TypeError", "* wants int");
      *number = *index;
    } else {
      *number = 0;
      while (at_ < bytes.size() && bytes[at_] >= '0' && bytes[at_] <= '9') {
        *number = std::min<int64_t>(*number * 10 + (bytes[at_++] - '0'), int64_t{1} << 40);
      }
    }
    if (*number > most || *number < -most) {
      runtime_.OverBudget("a format with too much width or precision");
      return false;
    }
    return true;
  }

  bool Field(std::string_view bytes) {
    PercentField field;
    if (at_ < bytes.size() && bytes[at_] == '(' && !Key(bytes)) return false;
    for (; at_ < bytes.size(); ++at_) {
      const char c = bytes[at_];
      if (c == '-')
        field.left = true;
      else if (c == '+')
        field.plus = true;
      else if (c == ' ')
        field.space = true;
      else if (c == '#')
        field.alternate = true;
      else if (c == '0')
        field.zero = true;
      else
        break;
    }
    if (at_ < bytes.size() && (bytes[at_] == '*' || (bytes[at_] >= '0' && bytes[at_] <= '9'))) {
      if (!Number(bytes, kMaxWidth, &field.width)) return false;
      if (field.width < 0) {
        field.left = true;
        field.width = -field.width;
      }
    }
    if (at_ < bytes.size() && bytes[at_] == '.') {
      ++at_;
      if (!Number(bytes, kMaxPrecision, &field.precision)) return false;
      field.precision = std::max<int64_t>(field.precision, 0);
    }
    if (at_ < bytes.size() && (bytes[at_] == 'h' || bytes[at_] == 'l' || bytes[at_] == 'L')) ++at_;
    if (at_ >= bytes.size()) return Fail("ValueError", "incomplete format");
    const size_t place = at_;
    const char32_t conversion = DecodeUtf8(bytes, &at_);
    if (conversion == '%') {
      out_.Append("%", owner_);
      return true;
    }
    Value value;
    if (!NextArgument(&value)) return false;
    switch (conversion) {
      case 's':
      case 'r':
      case 'a':
        return TextField(field, value, static_cast<char>(conversion));
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return IntegerField(field, value, static_cast<char>(conversion));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return FloatField(field, value, static_cast<char>(conversion));
      case 'c':
        return CharacterField(field, value);
      default:
        return Fail("ValueError", "unsupported format character at index " +
                                      std::to_string(CountScalars(bytes.substr(0, place))));
    }
  }

  void Pad(int64_t n) {
    if (n > 0) out_.Append(std::string(static_cast<size_t>(n), ' '), owner_);
  }

  bool Place(const PercentField& field, const Value& text) {
    const auto length = static_cast<int64_t>(runtime_.Flat(text).CountedScalars());
    if (!field.left) Pad(field.width - length);
    AppendText(&out_, text.text());
    if (field.left) Pad(field.width - length);
    return true;
  }

  bool TextField(const PercentField& field, const Value& value, char conversion) {
    Value text;
    if (conversion == 's') {
      text = runtime_.ToText(value);
    } else {
      TextBuilder repr;
      if (!runtime_.AppendRepr(value, &repr)) return false;
      text = conversion == 'r' ? runtime_.Make(repr)
                               : runtime_.heap().String(AsciiRepr(repr.text()), value.owner());
    }
    if (text.failed()) return false;
    if (format_.is_markup()) {
      text = runtime_.Escape(value.is_markup() && conversion == 's' ? text.WithFlag() : text);
      if (text.failed()) return false;
    }
    if (field.precision >= 0) text = FirstScalars(runtime_, text, field.precision);
    return Place(field, text);
  }

  // Sign, prefix and digits, with zeros where the field asks for them.
  bool PlaceNumber(const PercentField& field, bool negative, const std::string& prefix, std::string digits,
                   const Value& value) {
    const std::string sign = negative ? "-" : field.plus ? "+" : field.space ? " " : "";
    const auto used = static_cast<int64_t>(sign.size() + prefix.size() + digits.size());
    if (field.zero && !field.left && used < field.width) {
      digits.insert(0, static_cast<size_t>(field.width - used), '0');
    }
    return Place(field, runtime_.heap().String(sign + prefix + digits, value.owner()));
  }

  bool IntegerField(const PercentField& field, const Value& given, char conversion) {
    Value value = given;
    const bool decimal = conversion == 'd' || conversion == 'i' || conversion == 'u';
    if (value.is_undefined() && decimal) {
      runtime_.RaiseUndefined(value);
      return false;
    }
    if (value.kind() == ValueKind::kFloat && decimal) {
      if (std::isnan(value.real())) return Fail("ValueError", "cannot convert float NaN to integer");
      if (std::isinf(value.real())) return Fail("OverflowError", "cannot convert float infinity to integer");
      value = TruncateToInteger(runtime_.heap(), value.real());
    }
    if (!value.is_integer()) {
      return Fail("TypeError", std::string("%") + conversion +
                                   " format: " + (decimal ? "a real number" : "an integer") +
                                   " is required, not " + std::string(TypeName(given)));
    }
    const bool hex = conversion == 'x' || conversion == 'X';
    std::string digits = Digits(value, decimal ? 10 : hex ? 16 : 8);
    if (decimal && digits.size() > 4300) {
      return Fail("ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
    }
    if (field.precision > static_cast<int64_t>(digits.size())) {
      digits.insert(0, static_cast<size_t>(field.precision) - digits.size(), '0');
    }
    std::string prefix = field.alternate && !decimal ? (hex ? "0x" : "0o") : "";
    if (conversion == 'X') {
      digits = Upper(digits);
      prefix = Upper(prefix);
    }
    return PlaceNumber(field, IsNegative(value), prefix, std::move(digits), given);
  }

  bool FloatField(const PercentField& field, const Value& value, char conversion) {
    if (value.is_undefined()) {
      runtime_.RaiseUndefined(value);
      return false;
    }
    if (!value.is_number()) {
      return Fail("TypeError", "must be real number, not " + std::string(TypeName(value)));
    }
    const auto number = ToDouble(value);
    if (!number) return Fail("OverflowError", "int too large to convert to float");
    const char form = static_cast<char>(conversion | 0x20);
    std::string digits =
        std::isnan(*number) ? "nan"
        : std::isinf(*number)
            ? "inf"
            : FloatDigits(std::fabs(*number), form,
                          field.precision < 0 ? 6 : static_cast<int>(field.precision), field.alternate);
    if (conversion < 'a') digits = Upper(digits);
    return PlaceNumber(field, std::signbit(*number) && !std::isnan(*number), "", std::move(digits), value);
  }

  bool CharacterField(const PercentField& field, const Value& value) {
    if (value.is_string()) {
      if (runtime_.Flat(value).CountedScalars() != 1) return Fail("TypeError", "%c requires int or char");
      return Place(field, value);
    }
    if (!value.is_integer()) return Fail("TypeError", "%c requires int or char");
    const auto code = AsIndex(value);
    if (*code < 0 || *code > 0x10ffff) return Fail("OverflowError", "%c arg not in range(0x110000)");
    if (*code >= 0xd800 && *code <= 0xdfff) {
      runtime_.Refuse(ErrorCode::kUnsupported, "a lone surrogate");
      return false;
    }
    std::string text;
    AppendUtf8(&text, static_cast<char32_t>(*code));
    return Place(field, runtime_.heap().String(text, value.owner()));
  }

  Runtime& runtime_;
  const Value& format_;
  const Value& values_;
  Value current_;
  bool is_tuple_ = false;
  bool is_mapping_ = false;
  int64_t end_ = 0;
  int64_t next_ = 0;
  size_t at_ = 0;
  Owner owner_ = kTemplateOwner;
  TextBuilder out_;
};

// ---- str.format ----

struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = 0;
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;
  int64_t precision = -1;
  char type = 0;
  bool zero = false;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const CallArguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  bool Run(const Text& text, std::string_view bytes, uint64_t offset, int depth, TextBuilder* out) {
    if (depth < 0) return Fail("ValueError", "Max string recursion exceeded");
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      AppendSlice(out, text, offset + at, offset + brace);
      if (brace == bytes.size()) return true;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        AppendSlice(out, text, offset + brace, offset + brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') return Fail("ValueError", "Single '}' encountered in format string");
      size_t end = brace + 1;
      int nested = 1;
      bool bracket = false;
      for (; end < bytes.size(); ++end) {
        const char c = bytes[end];
        if (c == '[') bracket = true;
        if (c == ']') bracket = false;
        if (bracket) continue;
        if (c == '{') ++nested;
        if (c == '}' && --nested == 0) break;
      }
      if (nested > 0) {
        return Fail("ValueError", end == brace + 1 ? "Single '{' encountered in format string"
                                                   : "expected '}' before end of string");
      }
      if (!Field(text, bytes.substr(brace + 1, end - brace - 1), offset + brace + 1, depth, out))
        return false;
      if (!runtime_.Work(4) || !runtime_.MayAllocate(out->size())) return false;
      at = end + 1;
    }
    return true;
  }

 private:
  bool Fail(std::string_view exception, const std::string& message) {
    runtime_.Raise(exception, message);
    return false;
  }

  bool Field(const Text& text, std::string_view field, uint64_t offset, int depth, TextBuilder* out) {
    size_t name_end = 0;
    bool bracket = false;
    for (; name_end < field.size(); ++name_end) {
      const char c = field[name_end];
      if (c == '[') bracket = true;
      if (c == ']') bracket = false;
      if (c == '{') return Fail("ValueError", "unexpected '{' in field name");
      if (!bracket && (c == '!' || c == ':')) break;
    }
    char conversion = 0;
    size_t at = name_end;
    if (at < field.size() && field[at] == '!') {
      if (at + 1 >= field.size())
        return Fail("ValueError", "end of string while looking for conversion specifier");
      conversion = field[at + 1];
      at += 2;
      if (at < field.size() && field[at] != ':')
        return Fail("ValueError", "expected ':' after conversion specifier");
    }
    Value value;
    if (!Lookup(field.substr(0, name_end), &value)) return false;
    if (conversion != 0 && !Convert(conversion, &value)) return false;
    TextBuilder spec;
    if (at < field.size()) {
      const std::string_view source = field.substr(at + 1);
      if (!Run(text, source, offset + at + 1, depth - 1, &spec)) return false;
    }
    return FormatValue(value, std::string(spec.text()), out);
  }

  bool Convert(char conversion, Value* value) {
    if (conversion != 's' && conversion != 'r' && conversion != 'a') {
      return Fail("ValueError", std::string("Unknown conversion specifier ") + conversion);
    }
    if (conversion == 's') {
      *value = runtime_.ToText(*value);
      return !value->failed();
    }
    TextBuilder repr;
    if (!runtime_.AppendRepr(*value, &repr)) return false;
    *value = conversion == 'r' ? runtime_.Make(repr)
                               : runtime_.heap().String(AsciiRepr(repr.text()), value->owner());
    return !value->failed();
  }

  static bool IsNumber(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  bool Lookup(std::string_view name, Value* value) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    if (first.empty()) {
      if (manual_)
        return Fail("ValueError",
                    "cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      if (!Positional(next_++, value)) return false;
    } else if (IsNumber(first)) {
      if (automatic_)
        return Fail("ValueError",
                    "cannot switch from manual field specification to automatic field numbering");
      manual_ = true;
      if (first.size() > 9) return Fail("ValueError", "Too many decimal digits in format string");
      if (!Positional(static_cast<size_t>(std::stoul(std::string(first))), value)) return false;
    } else {
      const auto found = std::find_if(arguments_.keywords.begin(), arguments_.keywords.end(),
                                      [first](const auto& keyword) { return keyword.name == first; });
      if (found == arguments_.keywords.end()) return Fail("KeyError", QuotedRepr(first));
      *value = found->value;
    }
    for (size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        const std::string_view attribute = name.substr(at + 1, end - at - 1);
        if (attribute.empty()) return Fail("ValueError", "Empty attribute in format string");
        *value = runtime_.Attribute(*value, runtime_.heap().String(attribute), FindAttribute(attribute));
        at = end;
      } else if (name[at] == '[') {
        const size_t end = name.find(']', at);
        if (end == std::string_view::npos) return Fail("ValueError", "Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) return Fail("ValueError", "Empty attribute in format string");
        const Value item = IsNumber(key) ? *ParseInteger(runtime_.heap(), key) : runtime_.heap().String(key);
        *value = runtime_.Item(*value, item);
        at = end + 1;
      } else {
        return Fail("ValueError", "Only '.' or '[' may follow ']' in format field specifier");
      }
      if (value->failed()) return false;
    }
    return true;
  }

  bool Positional(size_t index, Value* value) {
    if (index >= arguments_.positional.size()) {
      return Fail("IndexError",
                  "Replacement index " + std::to_string(index) + " out of range for positional args tuple");
    }
    *value = arguments_.positional[index];
    return true;
  }

  bool ReadSpec(std::string_view text, Spec* spec) {
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
    if (!text.empty()) {
      size_t next = 0;
      (void)DecodeUtf8(text, &next);
      if (next < text.size() && is_align(text[next])) {
        spec->fill = text.substr(0, next);
        spec->align = text[next];
        at = next + 1;
      } else if (is_align(text[0])) {
        spec->align = text[0];
        at = 1;
      }
    }
    if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec->sign = text[at++];
    if (at < text.size() && text[at] == '#') {
      spec->alternate = true;
      ++at;
    }
    if (at < text.size() && text[at] == '0') {
      spec->zero = true;
      ++at;
    }
    const auto number = [&](int64_t* value) {
      const size_t begin = at;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        *value = std::min<int64_t>(*value * 10 + (text[at] - '0'), int64_t{1} << 40);
      }
      return at > begin;
    };
    (void)number(&spec->width);
    if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec->grouping = text[at++];
    if (at < text.size() && text[at] == '.') {
      ++at;
      spec->precision = 0;
      if (!number(&spec->precision)) return Fail("ValueError", "Format specifier missing precision");
    }
    if (spec->width > kMaxWidth || spec->precision > kMaxPrecision) {
      runtime_.OverBudget("a format with too much width or precision");
      return false;
    }
    if (at < text.size()) spec->type = text[at++];
    if (at < text.size()) return Fail("ValueError", "Invalid format specifier");
    return true;
  }

  bool FormatValue(const Value& value, const std::string& text, TextBuilder* out) {
    if (text.empty()) return runtime_.AppendText(value, out);
    if (value.is_undefined() || !(value.is_string() || value.is_number())) {
      return Fail("TypeError",
                  "unsupported format string passed to " + std::string(TypeName(value)) + ".__format__");
    }
    Spec spec;
    if (!ReadSpec(text, &spec)) return false;
    if (value.is_string()) return FormatText(value, spec, out);
    const bool float_type =
        spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (value.kind() == ValueKind::kFloat || float_type) return FormatFloat(value, spec, out);
    return FormatInteger(value, spec, out);
  }

  bool FormatText(const Value& value, const Spec& spec, TextBuilder* out) {
    if (spec.sign != 0) return Fail("ValueError", "Sign not allowed in string format specifier");
    if (spec.alternate)
      return Fail("ValueError", "Alternate form (#) not allowed in string format specifier");
    if (spec.align == '=') return Fail("ValueError", "'=' alignment not allowed in string format specifier");
    if (spec.type != 0 && spec.type != 's') {
      return Fail("ValueError",
                  std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
    }
    if (spec.grouping != 0) return Fail("ValueError", "Cannot specify ',' with 's'.");
    Value text = value;
    if (spec.precision >= 0) text = FirstScalars(runtime_, text, spec.precision);
    Spec placed = spec;
    if (placed.align == 0) placed.align = '<';
    if (spec.zero && spec.align == 0) placed.fill = "0";
    return Place(text, placed, out);
  }

  bool Place(const Value& text, const Spec& spec, TextBuilder* out) {
    const auto missing = spec.width - static_cast<int64_t>(runtime_.Flat(text).CountedScalars());
    const int64_t left = missing <= 0 || spec.align == '<' ? 0 : spec.align == '^' ? missing / 2 : missing;
    const auto pad = [&](int64_t n) {
      for (int64_t i = 0; i < n; ++i) out->Append(spec.fill, kTemplateOwner);
    };
    pad(left);
    AppendText(out, text.text());
    pad(missing - left);
    return true;
  }

  // Digits with separators every `group`, padded with zeros to at least `width` characters.
  static std::string Grouped(const std::string& digits, char separator, size_t group, int64_t width) {
    std::string reversed;
    size_t n = 0;
    for (size_t i = digits.size(); i > 0 || static_cast<int64_t>(reversed.size()) < width; ++n) {
      if (separator != 0 && n > 0 && n % group == 0) reversed.push_back(separator);
      reversed.push_back(i > 0 ? digits[--i] : '0');
    }
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }

  bool PlaceNumber(const Value& value, const Spec& spec, bool negative, const std::string& prefix,
                   const std::string& whole, const std::string& rest, size_t group, TextBuilder* out) {
    Spec placed = spec;
    if (spec.zero && spec.align == 0) {
      placed.fill = "0";
      placed.align = '=';
    }
    if (placed.align == 0) placed.align = '>';
    const std::string sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
    int64_t digits_width = 0;
    if (placed.align == '=' && placed.fill == "0") {
      digits_width = spec.width - static_cast<int64_t>(sign.size() + prefix.size() + rest.size());
    }
    std::string digits = Grouped(whole, spec.grouping, group, std::max<int64_t>(digits_width, 0));
    if (placed.align == '=' && placed.fill != "0") {
      const auto used = static_cast<int64_t>(sign.size() + prefix.size() + digits.size() + rest.size());
      std::string padding;
      for (int64_t i = used; i < spec.width; ++i) padding += placed.fill;
      out->Append(sign + prefix + padding + digits + rest, value.owner());
      return true;
    }
    if (placed.align == '=') placed.align = '>';
    return Place(runtime_.heap().String(sign + prefix + digits + rest, value.owner()), placed, out);
  }

  bool FormatInteger(const Value& value, const Spec& spec, TextBuilder* out) {
    if (spec.precision >= 0) return Fail("ValueError", "Precision not allowed in integer format specifier");
    uint32_t base = 10;
    std::string prefix;
    size_t group = 3;
    switch (spec.type) {
      case 0:
      case 'd':
      case 'n':
        break;
      case 'b':
        base = 2;
        prefix = "0b";
        break;
      case 'o':
        base = 8;
        prefix = "0o";
        break;
      case 'x':
      case 'X':
        base = 16;
        prefix = spec.type == 'x' ? "0x" : "0X";
        break;
      case 'c':
        runtime_.Refuse(ErrorCode::kUnsupported, "the format code 'c'");
        return false;
      default:
        return Fail("ValueError", std::string("Unknown format code '") + spec.type +
                                      "' for object of type '" + std::string(TypeName(value)) + "'");
    }
    if (base != 10) {
      group = 4;
      if (spec.grouping == ',')
        return Fail("ValueError", std::string("Cannot specify ',' with '") + spec.type + "'.");
    }
    std::string digits = Digits(value, base);
    if (base == 10 && digits.size() > 4300) {
      return Fail("ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
    }
    if (spec.type == 'X') digits = Upper(digits);
    return PlaceNumber(value, spec, IsNegative(value), spec.alternate ? prefix : "", digits, "", group, out);
  }

  bool FormatFloat(const Value& value, const Spec& spec, TextBuilder* out) {
    const auto converted = ToDouble(value);
    if (!converted) return Fail("OverflowError", "int too large to convert to float");
    double number = *converted;
    const char type = spec.type;
    if (type != 0 && std::string_view("eEfFgGn%").find(type) == std::string_view::npos) {
      return Fail("ValueError", std::string("Unknown format code '") + type + "' for object of type 'float'");
    }
    if (type == '%') number *= 100;
    const bool negative = std::signbit(number) && !std::isnan(number);
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    std::string digits;
    if (!std::isfinite(number)) {
      digits = std::isnan(number) ? "nan" : "inf";
    } else if (type == 0 && spec.precision < 0) {
      digits = FloatRepr(std::fabs(number));
    } else if (type == 0) {
      digits = GeneralWithPoint(std::fabs(number), std::max(precision, 1));
    } else {
      const char form = type == '%' ? 'f' : type == 'n' ? 'g' : static_cast<char>(type | 0x20);
      digits = FloatDigits(std::fabs(number), form, precision, spec.alternate);
    }
    if (type == 'E' || type == 'F' || type == 'G') digits = Upper(digits);
    const size_t whole_end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    std::string rest = digits.substr(whole_end);
    if (type == '%') rest += '%';
    return PlaceNumber(value, spec, negative, "", digits.substr(0, whole_end), rest, 3, out);
  }

  // The form without a type but with a precision: general, with a digit after the point.
  static std::string GeneralWithPoint(double magnitude, int precision) {
    const std::string scientific = ScientificText(magnitude, precision - 1);
    const int exponent = ExponentOf(scientific);
    std::string text = exponent >= precision - 1 && exponent < precision && magnitude != 0
                           ? FloatDigits(magnitude, 'e', precision - 1, false)
                           : FloatDigits(magnitude, 'g', precision, false);
    if (const size_t e = text.find('e'); e != std::string::npos && text.find('.') != std::string::npos) {
      std::string head = text.substr(0, e);
      head.resize(head.find_last_not_of('0') + 1);
      if (head.back() == '.') head.pop_back();
      return head + text.substr(e);
    }
    if (text.find('e') == std::string::npos && text.find('.') == std::string::npos) text += ".0";
    return text;
  }

  Runtime& runtime_;
  const CallArguments& arguments_;
  size_t next_ = 0;
  bool manual_ = false;
  bool automatic_ = false;
};

}  // namespace

Value FormatPercent(Runtime& runtime, const Value& format, const Value& values) {
  if (values.is_string()) runtime.Flat(values);
  return PercentFormatter(runtime, format, values).Run();
}

Value FormatBraces(Runtime& runtime, const Value& format, const CallArguments& arguments) {
  if (format.is_markup()) return runtime.Refuse(ErrorCode::kUnsupported, "format of Markup");
  TextBuilder out;
  const Text& text = runtime.Flat(format);
  if (!BraceFormatter(runtime, arguments).Run(text, text.view(), 0, 2, &out)) return Value::Error();
  return runtime.Make(out);
}

}  // namespace slm::chat
