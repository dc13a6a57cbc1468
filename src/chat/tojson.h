// The filter `tojson` as Transformers defines it: Python's json.dumps with ensure_ascii off by
// default, not Jinja2's own.
#ifndef SLM_CHAT_TOJSON_H_
#define SLM_CHAT_TOJSON_H_

#include "chat/runtime.h"

namespace slm::chat {

// Positional order: ensure_ascii, indent, separators, sort_keys.
[[nodiscard]] Value ToJsonFilter(Runtime& runtime, const Value& value, const CallArguments& arguments);

}  // namespace slm::chat

#endif  // SLM_CHAT_TOJSON_H_
