// From tokens to the syntax tree: the grammar of Jinja2 3.1.6 (jinja2/parser.py) with the extensions
// that Transformers turns on: loop controls and `generation`.
#ifndef SLM_CHAT_PARSER_H_
#define SLM_CHAT_PARSER_H_

#include <string_view>

#include "base/error.h"
#include "chat/ast.h"

namespace slm::chat {

// REQUIRES: well-formed UTF-8. Errors: TPL-SYNTAX (what Jinja2 does not parse), TPL-FORBIDDEN
// (statements that reach other templates), TPL-BOUND; message with line and column, byte offset.
[[nodiscard]] Result<Ast> ParseTemplate(std::string_view source);

}  // namespace slm::chat

#endif  // SLM_CHAT_PARSER_H_
