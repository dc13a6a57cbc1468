// Runs a template program over a context, inside its budgets.
#ifndef SLM_CHAT_INTERPRETER_H_
#define SLM_CHAT_INTERPRETER_H_

#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/builtins.h"
#include "chat/program.h"
#include "chat/value.h"

namespace slm::chat {

// Variables of the context by name; a name that is not here is undefined.
using Variables = std::vector<std::pair<std::string, Value>>;

// Errors: TPL-RAISED, TPL-RUNTIME, TPL-BUDGET, UNSUPPORTED; messages end with the template's line.
[[nodiscard]] Result<OwnedText> Execute(const Program& program, const Variables& variables,
                                        const CallEnvironment& environment);

}  // namespace slm::chat

#endif  // SLM_CHAT_INTERPRETER_H_
