// Python's two ways of formatting text: `%` and str.format, with bounded widths and the sandbox's access
// to attributes.
#ifndef SLM_CHAT_FORMAT_H_
#define SLM_CHAT_FORMAT_H_

#include "chat/runtime.h"

namespace slm::chat {

// format % values. REQUIRES: `format` is a string.
[[nodiscard]] Value FormatPercent(Runtime& runtime, const Value& format, const Value& values);
// format.format(...). REQUIRES: `format` is a string.
[[nodiscard]] Value FormatBraces(Runtime& runtime, const Value& format, const CallArguments& arguments);

}  // namespace slm::chat

#endif  // SLM_CHAT_FORMAT_H_
