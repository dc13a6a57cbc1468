// Tokens of Jinja2 3.1.6 (jinja2/lexer.py) as Transformers sets it up: trim_blocks and
// lstrip_blocks on, keep_trailing_newline off. All white-space control is settled here.
#ifndef SLM_CHAT_LEXER_H_
#define SLM_CHAT_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace slm::chat {

enum class TokenKind : uint8_t {
  kText,           // literal output
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,    // text holds the value
  kInteger,   // text holds the decimal digits
  kFloat,     // text holds the number without underscores
  kOperator,  // text holds the sign
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  uint32_t line;         // from 1
  uint32_t column;       // from 1, in scalars
  uint64_t byte_offset;  // in the source as given
};

// REQUIRES: well-formed UTF-8. Errors: TPL-SYNTAX, TPL-FORBIDDEN, with line and column in the message
// and the byte offset.
[[nodiscard]] Result<std::vector<Token>> Tokenize(std::string_view source);

// The characters for which Python's str.isspace() is true.
[[nodiscard]] bool IsPythonSpace(char32_t scalar);

}  // namespace slm::chat

#endif  // SLM_CHAT_LEXER_H_
