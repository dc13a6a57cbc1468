// Methods of Python's str, ownership of each byte kept.
#ifndef SLM_CHAT_STRINGS_H_
#define SLM_CHAT_STRINGS_H_

#include <string_view>

#include "chat/runtime.h"

namespace slm::chat {

// REQUIRES: a string that has the method.
[[nodiscard]] Value CallStringMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                                     const CallArguments& arguments);

// str.strip(chars) and its halves; `characters` missing or none: white space.
[[nodiscard]] Value StripText(Runtime& runtime, const Value& string, const Value& characters, bool left,
                              bool right);
enum class CaseChange : uint8_t { kUpper, kLower, kTitle, kCapitalize, kSwap, kFold };
[[nodiscard]] Value ChangeCase(Runtime& runtime, const Value& string, CaseChange change);
// str.replace; a negative `count`: all.
[[nodiscard]] Value ReplaceText(Runtime& runtime, const Value& string, const Value& from, const Value& to,
                                int64_t count);
// str.splitlines(keepends).
[[nodiscard]] bool SplitLines(Runtime& runtime, const Value& string, bool keep_ends,
                              std::vector<Value>* lines);
[[nodiscard]] Value Center(Runtime& runtime, const Value& string, int64_t width);
// The filter `title`, which is not str.title.
[[nodiscard]] Value TitleWords(Runtime& runtime, const Value& string);

}  // namespace slm::chat

#endif  // SLM_CHAT_STRINGS_H_
