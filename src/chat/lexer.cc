#include "chat/lexer.h"

#include <array>

#include "base/utf8.h"

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

bool IsIdentifierStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
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
    std::string text = source_.substr(position_, tag - position_);
    const size_t text_at = position_;
    if (tag == source_.size()) {
      if (!text.empty()) Push(TokenKind::kText, std::move(text), text_at);
      position_ = tag;
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') {
      StripRight(&text);
    } else if (sign != '+' && kind != '{') {
      StripLineStart(&text);
    }
    if (!text.empty()) Push(TokenKind::kText, std::move(text), text_at);
    position_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') return Comment(tag);
    Push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "", tag);
    return Inside(kind == '{' ? "}}" : "%}", kind == '{' ? TokenKind::kVariableEnd : TokenKind::kBlockEnd,
                  tag);
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
    if (c == '\'' || c == '"') return StringLiteral();
    if (IsDigit(c)) return Number();
    if (IsIdentifierStart(c)) {
      while (position_ < source_.size() &&
             (IsIdentifierStart(source_[position_]) || IsDigit(source_[position_]))) {
        ++position_;
      }
      Push(TokenKind::kName, source_.substr(at, position_ - at), at);
      return {};
    }
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
    size_t next = at;
    const char32_t scalar = DecodeUtf8(source_, &next);
    if (scalar >= 0x80) return Refuse(ErrorCode::kTplForbidden, "an identifier outside ASCII", at);
    return Refuse(ErrorCode::kTplSyntax,
                  "unexpected character " + EscapeForDisplay(source_.substr(at, next - at)), at);
  }

  Status Number() {
    const size_t at = position_;
    const auto digits = [&] {
      while (position_ < source_.size() &&
             (IsDigit(source_[position_]) || (source_[position_] == '_' && position_ + 1 < source_.size() &&
                                              IsDigit(source_[position_ + 1])))) {
        ++position_;
      }
    };
    digits();
    bool is_float = false;
    if (position_ + 1 < source_.size() && source_[position_] == '.' && IsDigit(source_[position_ + 1])) {
      is_float = true;
      ++position_;
      digits();
    }
    if (position_ < source_.size() && (source_[position_] == 'e' || source_[position_] == 'E')) {
      size_t exponent = position_ + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        is_float = true;
        position_ = exponent;
        digits();
      }
    }
    if (position_ < source_.size() && IsIdentifierStart(source_[position_])) {
      return Refuse(ErrorCode::kTplForbidden, "a number with a suffix or in another base", at);
    }
    std::string text;
    for (const char c : source_.substr(at, position_ - at)) {
      if (c != '_') text.push_back(c);
    }
    Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text), at);
    return {};
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
      const char escape = source_[position_++];
      constexpr std::string_view kFrom = "abfnrtv\\'\"";
      constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t index = kFrom.find(escape); index != std::string_view::npos) {
        value.push_back(kTo[index]);
      } else if (escape == 'x') {
        SLM_TRY(HexEscape(2, &value, at));
      } else if (escape == 'u') {
        SLM_TRY(HexEscape(4, &value, at));
      } else if (escape == 'U') {
        SLM_TRY(HexEscape(8, &value, at));
      } else if (IsDigit(escape) || escape == 'N') {
        return Refuse(ErrorCode::kTplForbidden, "an octal or named escape in a string", at);
      } else if (escape != '\n') {  // a backslash before a newline joins lines; others stay
        value.push_back('\\');
        value.push_back(escape);
      }
    }
    Push(TokenKind::kString, std::move(value), at);
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
