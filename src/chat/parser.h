// From tokens to IR: the grammar of Jinja2 3.1.6 (jinja2/parser.py), cut to the subset of
// docs/spec/template-ir.md. What is outside is refused with line and column.
#ifndef SLM_CHAT_PARSER_H_
#define SLM_CHAT_PARSER_H_

#include <string_view>

#include "base/error.h"
#include "chat/program.h"

namespace slm::chat {

// REQUIRES: well-formed UTF-8. Errors: TPL-SYNTAX, TPL-FORBIDDEN, TPL-BOUND.
[[nodiscard]] Result<Program> ParseTemplate(std::string_view source);

}  // namespace slm::chat

#endif  // SLM_CHAT_PARSER_H_
