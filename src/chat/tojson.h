// The filter `tojson` as Transformers defines it: Python's json.dumps with ensure_ascii off by
// default, not Jinja2's own.
#ifndef SLM_CHAT_TOJSON_H_
#define SLM_CHAT_TOJSON_H_

#include "base/error.h"
#include "chat/value.h"

namespace slm::chat {

struct CallArguments;
// Positional order: ensure_ascii, indent, separators, sort_keys.
[[nodiscard]] Result<Value> ToJsonFilter(const Value& value, const CallArguments& arguments);

}  // namespace slm::chat

#endif  // SLM_CHAT_TOJSON_H_
