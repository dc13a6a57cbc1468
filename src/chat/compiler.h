// From the syntax tree to IR: which variable a name means is settled here, as jinja2/idtracking.py and
// jinja2/compiler.py settle it; what the reference refuses while compiling or running becomes an
// instruction that raises the same class of exception.
#ifndef SLM_CHAT_COMPILER_H_
#define SLM_CHAT_COMPILER_H_

#include "base/error.h"
#include "chat/ast.h"
#include "chat/program.h"

namespace slm::chat {

// Errors: TPL-FORBIDDEN (what reaches the host or is not deterministic), TPL-SYNTAX (what Python does not
// compile), TPL-BOUND; message with line and column, byte offset.
[[nodiscard]] Result<Program> CompileTemplate(const Ast& ast);

}  // namespace slm::chat

#endif  // SLM_CHAT_COMPILER_H_
