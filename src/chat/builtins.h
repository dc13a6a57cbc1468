// Filters, tests, methods and functions of the subset. Each is a pure function of its arguments;
// nothing here reaches the host (TPL-02).
#ifndef SLM_CHAT_BUILTINS_H_
#define SLM_CHAT_BUILTINS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/value.h"

namespace slm::chat {

[[nodiscard]] bool IsFilterName(std::string_view name);
[[nodiscard]] bool IsTestName(std::string_view name);
[[nodiscard]] bool IsMethodName(std::string_view name);
[[nodiscard]] bool IsFunctionName(std::string_view name);

// Arguments of a call, receiver excluded.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // Argument by position or keyword; null if not given.
  [[nodiscard]] const Value* Get(size_t position, std::string_view keyword) const;
};

// What a rendering supplies from outside: the declared clock (TPL-02).
struct CallEnvironment {
  std::string clock;  // "2026-11-30T12:00:00"; empty: none was declared
};

// Errors carry the reference's class of exception in the message ("UndefinedError: ...") under
// TPL-RUNTIME; raise_exception gives TPL-RAISED with the template's own message.
[[nodiscard]] Result<Value> CallFilter(std::string_view name, const Value& receiver,
                                       const CallArguments& arguments);
[[nodiscard]] Result<bool> CallTest(std::string_view name, const Value& receiver,
                                    const CallArguments& arguments);
[[nodiscard]] Result<Value> CallMethod(std::string_view name, const Value& receiver,
                                       const CallArguments& arguments);
[[nodiscard]] Result<Value> CallFunction(std::string_view name, const CallArguments& arguments,
                                         const CallEnvironment& environment);

// list(value): what a loop runs over. Undefined is empty; None and numbers raise.
[[nodiscard]] Result<ValueList> Iterate(const Value& value);
// `needle in haystack`.
[[nodiscard]] Result<bool> Contains(const Value& haystack, const Value& needle);

[[nodiscard]] std::unexpected<Error> Raise(std::string_view exception, const std::string& message);
[[nodiscard]] std::unexpected<Error> RaiseUndefined(const Value& value);

}  // namespace slm::chat

#endif  // SLM_CHAT_BUILTINS_H_
