#include "chat/lexer.h"

#include <array>

#include "base/utf8.h"
#include "chat/number.h"
#include "chat/python_escape.h"
#include "unicode/python_v14_0.h"

namespace slm::chat {

bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

namespace {

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                         "/",  "~",  "%",  "(",  ")",  "[",  "]", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view original) {
    // Universal newlines, then one final newline dropped.
    for (size_t i = 0; i < original.size(); ++i) {
      const char c = original[i];
      offsets_.push_back(i);
      if (c == '\r') {
        if (i + 1 < original.size() && original[i + 1] == '\n') ++i;
        source_.push_back('\n');
      } else {
        source_.push_back(c);
      }
    }
    offsets_.push_back(original.size());
    if (source_.ends_with('\n')) source_.pop_back();
  }

  Result<std::vector<Token>> Run() {
    while (position_ < source_.size()) SLM_TRY(Section());
    Push(TokenKind::kEnd, "", position_);
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(position_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }

  std::pair<uint32_t, uint32_t> LineColumn(size_t at) const {
    uint32_t line = 1;
    size_t start = 0;
    for (size_t i = 0; i < at; ++i) {
      if (source_[i] == '\n') {
        ++line;
        start = i + 1;
      }
    }
    return {line,
            static_cast<uint32_t>(CountScalars(std::string_view(source_).substr(start, at - start)) + 1)};
  }

  void Push(TokenKind kind, std::string text, size_t at) {
    // Counted on from the last token: tokens come in order.
    for (; line_position_ < at; ++line_position_) {
      const auto byte = static_cast<unsigned char>(source_[line_position_]);
      if (byte == '\n') {
        ++line_;
        column_ = 1;
      } else if ((byte & 0xc0) != 0x80) {
        ++column_;
      }
    }
    tokens_.push_back({kind, std::move(text), line_, column_, offsets_[at]});
  }

  std::unexpected<Error> Refuse(ErrorCode code, const std::string& what, size_t at) const {
    const auto [line, column] = LineColumn(at);
    return Fail(
        MakeError(code, "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what)
            .At(offsets_[at]));
  }

  // Literal text up to the next tag, then the tag with everything inside.
  Status Section() {
    size_t tag = position_;
    while (tag + 1 < source_.size() &&
           !(source_[tag] == '{' &&
             (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#'))) {
      ++tag;
    }
    if (tag + 1 >= source_.size()) tag = source_.size();
    if (tag == source_.size()) {
      if (tag > position_) Push(TokenKind::kText, source_.substr(position_), position_);
      position_ = tag;
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    PushText(tag, sign, kind != '{');
    position_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') return Comment(tag);
    if (kind == '%' && SkipRawTag("raw", /*begins=*/true)) return Raw(tag);
    Push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "", tag);
    return Inside(kind == '{' ? "}}" : "%}", kind == '{' ? TokenKind::kVariableEnd : TokenKind::kBlockEnd,
                  tag);
  }

  // The text before a tag at `tag`, with the white-space control that its sign asks for.
  void PushText(size_t tag, char sign, bool strips_line_start) {
    std::string text = source_.substr(position_, tag - position_);
    if (sign == '-') {
      StripRight(&text);
    } else if (sign != '+' && strips_line_start) {
      StripLineStart(&text);
    }
    if (!text.empty()) Push(TokenKind::kText, std::move(text), position_);
  }

  // `raw -%}` or `endraw %}` after the tag's sign: moves past it, or stays.
  bool SkipRawTag(std::string_view name, bool begins) {
    const size_t start = position_;
    SkipSpace();
    if (!At(name)) {
      position_ = start;
      return false;
    }
    position_ += name.size();
    SkipSpace();
    const bool minus = At("-%}");
    const bool plus = !begins && At("+%}");
    if (!minus && !plus && !At("%}")) {
      position_ = start;
      return false;
    }
    position_ += minus || plus ? 3 : 2;
    AfterTag(minus, plus, !begins);
    return true;
  }

  // Text up to the tag endraw.
  Status Raw(size_t tag) {
    const size_t begin = position_;
    if (begin >= source_.size()) return {};  // as with a comment
    const bool line_starting = line_starting_;
    for (size_t end = source_.find("{%", begin); end != std::string::npos;
         end = source_.find("{%", end + 1)) {
      const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
      position_ = end + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      if (!SkipRawTag("endraw", /*begins=*/false)) continue;
      const size_t after = position_;
      const bool starting = line_starting_;
      position_ = begin;
      line_starting_ = line_starting;
      PushText(end, sign, true);
      position_ = after;
      line_starting_ = starting;
      return {};
    }
    return Refuse(ErrorCode::kTplSyntax, "a raw block that does not end", tag);
  }

  static void StripRight(std::string* text) {
    size_t keep = 0;
    for (size_t at = 0; at < text->size();) {
      if (!IsPythonSpace(DecodeUtf8(*text, &at))) keep = at;
    }
    text->resize(keep);
  }

  // lstrip_blocks: white space between the start of the line and the tag.
  void StripLineStart(std::string* text) const {
    const size_t newline = text->rfind('\n');
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (begin == 0 && !line_starting_) return;
    if (begin == text->size()) return;
    for (size_t at = begin; at < text->size();) {
      if (!IsPythonSpace(DecodeUtf8(*text, &at))) return;
    }
    text->resize(begin);
  }

  // After a tag's end: `-` eats white space, otherwise trim_blocks eats one newline of a block.
  void AfterTag(bool minus, bool plus, bool trims_newline) {
    const size_t end = position_;
    if (minus) {
      while (position_ < source_.size()) {
        size_t next = position_;
        if (!IsPythonSpace(DecodeUtf8(source_, &next))) break;
        position_ = next;
      }
    } else if (!plus && trims_newline && position_ < source_.size() && source_[position_] == '\n') {
      ++position_;
    }
    line_starting_ = position_ > end ? source_[position_ - 1] == '\n' : false;
  }

  Status Comment(size_t tag) {
    if (position_ >= source_.size()) return {};  // the reference looks for no end where nothing is left
    const size_t end = source_.find("#}", position_);
    if (end == std::string::npos) return Refuse(ErrorCode::kTplSyntax, "a comment that does not end", tag);
    const bool has_body = end > position_;
    const char sign = has_body ? source_[end - 1] : '\0';
    position_ = end + 2;
    AfterTag(sign == '-', sign == '+', true);
    return {};
  }

  Status Inside(std::string_view end, TokenKind end_kind, size_t tag) {
    std::vector<char> brackets;
    for (;;) {
      SkipSpace();
      if (position_ >= source_.size()) return Refuse(ErrorCode::kTplSyntax, "a tag that does not end", tag);
      const size_t at = position_;
      if (brackets.empty()) {
        const bool minus = source_[position_] == '-' && Rest().substr(1).starts_with(end);
        const bool plus = end_kind == TokenKind::kBlockEnd && source_[position_] == '+' &&
                          Rest().substr(1).starts_with(end);
        if (minus || plus || At(end)) {
          position_ += end.size() + (minus || plus ? 1 : 0);
          Push(end_kind, "", at);
          AfterTag(minus, plus, end_kind == TokenKind::kBlockEnd);
          return {};
        }
      }
      SLM_TRY(InnerToken(&brackets));
    }
  }

  void SkipSpace() {
    while (position_ < source_.size()) {
      size_t next = position_;
      if (!IsPythonSpace(DecodeUtf8(source_, &next))) return;
      position_ = next;
    }
  }

  Status InnerToken(std::vector<char>* brackets) {
    const size_t at = position_;
    const char c = source_[at];
    if (IsDigit(c)) return Number();
    size_t next = at;
    const char32_t scalar = DecodeUtf8(source_, &next);
    if (IsWordCharacter(scalar)) return Name();
    if (c == '\'' || c == '"') return StringLiteral();
    for (const std::string_view sign : kOperators) {
      if (!At(sign)) continue;
      if (c == '(' || c == '[' || c == '{') brackets->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      if (c == ')' || c == ']' || c == '}') {
        if (brackets->empty() || brackets->back() != c) {
          return Refuse(ErrorCode::kTplSyntax, std::string("unexpected '") + c + "'", at);
        }
        brackets->pop_back();
      }
      position_ += sign.size();
      Push(TokenKind::kOperator, std::string(sign), at);
      return {};
    }
    return Refuse(ErrorCode::kTplSyntax, "unexpected character " + std::string(source_.substr(at, next - at)),
                  at);
  }

  static bool IsWordCharacter(char32_t scalar) {
    constexpr uint16_t kWord = unicode::kPythonAlpha | unicode::kPythonNumeric | unicode::kPythonIdContinue;
    return (unicode::PythonFlagsV14(scalar) & kWord) != 0;
  }

  Status Name() {
    const size_t at = position_;
    bool valid = true;
    while (position_ < source_.size()) {
      size_t next = position_;
      const char32_t scalar = DecodeUtf8(source_, &next);
      if (!IsWordCharacter(scalar)) break;
      const uint16_t wanted = position_ == at ? unicode::kPythonIdStart : unicode::kPythonIdContinue;
      valid = valid && (unicode::PythonFlagsV14(scalar) & wanted) != 0;
      position_ = next;
    }
    if (!valid) return Refuse(ErrorCode::kTplSyntax, "invalid character in identifier", at);
    Push(TokenKind::kName, source_.substr(at, position_ - at), at);
    return {};
  }

  // Length of `digit (_? digit)*` from `at`.
  template <typename Is>
  size_t DigitRun(size_t at, Is is) const {
    size_t end = at;
    while (end < source_.size()) {
      if (is(source_[end])) {
        ++end;
      } else if (end > at && source_[end] == '_' && end + 1 < source_.size() && is(source_[end + 1])) {
        end += 2;
      } else {
        break;
      }
    }
    return end - at;
  }

  static std::string WithoutUnderscores(std::string_view text) {
    std::string result;
    for (const char c : text) {
      if (c != '_') result.push_back(c);
    }
    return result;
  }

  Status Number() {
    const size_t at = position_;
    if (at == 0 || source_[at - 1] != '.') {
      if (const size_t length = FloatLength(at); length > 0) {
        position_ = at + length;
        Push(TokenKind::kFloat, WithoutUnderscores(source_.substr(at, length)), at);
        return {};
      }
    }
    static constexpr std::array<std::pair<char, uint32_t>, 3> kBases = {{{'b', 2}, {'o', 8}, {'x', 16}}};
    for (const auto& [letter, base] : kBases) {
      if (source_[at] != '0' || at + 1 >= source_.size() || (source_[at + 1] | 0x20) != letter) continue;
      const uint32_t bound = base;
      const size_t skip = at + 2 < source_.size() && source_[at + 2] == '_' ? 3 : 2;
      const size_t length = DigitRun(at + skip, [bound](char c) {
        const uint32_t digit = IsDigit(c) ? static_cast<uint32_t>(c - '0')
                               : (c | 0x20) >= 'a' && (c | 0x20) <= 'f'
                                   ? static_cast<uint32_t>((c | 0x20) - 'a' + 10)
                                   : 99;
        return digit < bound;
      });
      if (length == 0) continue;
      Heap heap;
      const auto value = ParseInteger(heap, WithoutUnderscores(source_.substr(at + skip, length)), base);
      position_ = at + skip + length;
      Push(TokenKind::kInteger, Digits(*value, 10), at);
      return {};
    }
    const bool zero = source_[at] == '0';
    const size_t length = DigitRun(at, [zero](char c) { return zero ? c == '0' : IsDigit(c); });
    position_ = at + length;
    std::string digits = WithoutUnderscores(source_.substr(at, length));
    if (digits.size() > 4300) return Refuse(ErrorCode::kTplBound, "an integer of more than 4300 digits", at);
    Push(TokenKind::kInteger, zero ? "0" : std::move(digits), at);
    return {};
  }

  // Digits with a fraction, an exponent, or both; 0 if it is no float.
  size_t FloatLength(size_t at) const {
    size_t end = at + DigitRun(at, IsDigit);
    size_t fraction = 0;
    if (end < source_.size() && source_[end] == '.') fraction = DigitRun(end + 1, IsDigit);
    if (fraction > 0) end += 1 + fraction;
    size_t exponent = 0;
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      const size_t n = DigitRun(digits, IsDigit);
      if (n > 0) exponent = digits + n - end;
    }
    if (fraction == 0 && exponent == 0) return 0;
    return end + exponent - at;
  }

  Status HexEscape(size_t n_digits, std::string* out, size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i) {
      const char c = position_ < source_.size() ? source_[position_] : '\0';
      const int digit = IsDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return Refuse(ErrorCode::kTplSyntax, "a truncated escape in a string", at);
      value = value * 16 + static_cast<uint32_t>(digit);
      ++position_;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
      return Refuse(ErrorCode::kTplForbidden, "an escape that is not a scalar value", at);
    }
    AppendUtf8(out, value);
    return {};
  }

  Status StringLiteral() {
    const size_t at = position_;
    const char quote = source_[position_++];
    std::string value;
    for (;;) {
      if (position_ >= source_.size()) return Refuse(ErrorCode::kTplSyntax, "a string that does not end", at);
      const char c = source_[position_++];
      if (c == quote) break;
      if (c != '\\') {
        value.push_back(c);
        continue;
      }
      if (position_ >= source_.size()) return Refuse(ErrorCode::kTplSyntax, "a string that does not end", at);
      SLM_TRY(Escape(&value, at));
    }
    Push(TokenKind::kString, std::move(value), at);
    return {};
  }

  // What follows a backslash.
  Status Escape(std::string* value, size_t at) {
    const size_t begin = position_;
    const char32_t scalar = DecodeUtf8(source_, &position_);
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    const char escape = scalar < 0x80 ? static_cast<char>(scalar) : '\0';
    if (const size_t index = kFrom.find(escape); escape != '\0' && index != std::string_view::npos) {
      value->push_back(kTo[index]);
    } else if (escape == 'x') {
      SLM_TRY(HexEscape(2, value, at));
    } else if (escape == 'u') {
      SLM_TRY(HexEscape(4, value, at));
    } else if (escape == 'U') {
      SLM_TRY(HexEscape(8, value, at));
    } else if (escape >= '0' && escape <= '7') {
      uint32_t octal = static_cast<uint32_t>(escape - '0');
      for (int i = 0;
           i < 2 && position_ < source_.size() && source_[position_] >= '0' && source_[position_] <= '7';
           ++i) {
        octal = octal * 8 + static_cast<uint32_t>(source_[position_++] - '0');
      }
      AppendUtf8(value, octal);
    } else if (escape == 'N') {
      return Refuse(ErrorCode::kTplForbidden, "a named escape in a string", at);
    } else if (scalar >= 0x80) {
      // The reference writes what is outside ASCII as an escape of its own before it unescapes.
      *value += PythonEscape(scalar);
    } else if (escape != '\n') {  // a backslash before a newline joins lines; others stay
      value->push_back('\\');
      value->append(source_, begin, position_ - begin);
    }
    return {};
  }

  std::string source_;
  std::vector<size_t> offsets_;  // of each byte of source_ in the text as given
  size_t position_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
  uint32_t line_ = 1;
  uint32_t column_ = 1;
  size_t line_position_ = 0;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace slm::chat
