// Filters, tests, functions and methods that the reference offers. Each is a pure function of its
// arguments, or changes only an object of the template itself; nothing here reaches the host (TPL-02).
#ifndef SLM_CHAT_BUILTINS_H_
#define SLM_CHAT_BUILTINS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/runtime.h"

namespace slm::chat {

enum class Known : uint8_t { kUnknown, kKnown, kForbidden };
[[nodiscard]] Known KnownFilter(std::string_view name);
[[nodiscard]] Known KnownTest(std::string_view name);

inline constexpr uint32_t kNoFunction = UINT32_MAX;
inline constexpr uint32_t kNoBuiltin = UINT32_MAX;
// Under this name the context holds the template's own object, `self`.
inline constexpr std::string_view kSelfName = "self()";
// Of a function that the reference defines for every template: range, namespace, ...
[[nodiscard]] uint32_t FunctionId(std::string_view name);
[[nodiscard]] uint32_t FilterId(std::string_view name);
[[nodiscard]] uint32_t TestId(std::string_view name);

[[nodiscard]] Value CallFilter(Runtime& runtime, uint32_t id, const Value& receiver,
                               const CallArguments& arguments);
// A test that asks for a type or for presence, and what it says: no error, no work.
[[nodiscard]] bool IsTestOfType(uint32_t id);
[[nodiscard]] bool TestOfType(uint32_t id, const Value& receiver);
[[nodiscard]] Value CallTest(Runtime& runtime, uint32_t id, const Value& receiver,
                             const CallArguments& arguments);
// Whether a clock is one that strftime_now reads.
[[nodiscard]] bool IsCivilTime(const std::string& clock);
// `clock`: civil time of strftime_now, empty if none was declared. raise_exception gives TPL-RAISED with the
// template's own message.
[[nodiscard]] Value CallFunction(Runtime& runtime, uint32_t id, const CallArguments& arguments,
                                 const std::string& clock);
// REQUIRES: Runtime::HasSafeMethod(receiver, id).
[[nodiscard]] Value CallMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                               const CallArguments& arguments);
// The reference's message for a filter or test that it does not have.
[[nodiscard]] Value RaiseUnknown(Runtime& runtime, const char* kind, std::string_view name);

}  // namespace slm::chat

#endif  // SLM_CHAT_BUILTINS_H_
