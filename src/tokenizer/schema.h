// Reading the members of a component with the place of every fault. Internal to the module.
#ifndef SLM_TOKENIZER_SCHEMA_H_
#define SLM_TOKENIZER_SCHEMA_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "codec/json.h"

namespace slm::tokenizer {

// The JSON path of a value, cut to a bearable length.
[[nodiscard]] std::string ShortPath(json::Value value);

// An error at `value`, with its offset and JSON path.
[[nodiscard]] Error ErrorAt(ErrorCode code, json::Value value, std::string message);

// TOK-SCHEMA unless it is an object.
[[nodiscard]] Status RequireObject(json::Value value);
// TOK-UNKNOWN-TYPE at the first key that is not in `known`. REQUIRES: is_object.
[[nodiscard]] Status RequireKnownKeys(json::Value object, std::initializer_list<std::string_view> known);

// Member `key`: TOK-SCHEMA if it is absent (or null) or of another kind.
[[nodiscard]] Result<json::Value> Member(json::Value object, std::string_view key);
[[nodiscard]] Result<bool> BoolMember(json::Value object, std::string_view key);
[[nodiscard]] Result<std::string> StringMember(json::Value object, std::string_view key);
[[nodiscard]] Result<uint64_t> UintMember(json::Value object, std::string_view key);
[[nodiscard]] Result<json::Value> ArrayMember(json::Value object, std::string_view key);
// One scalar value as a string.
[[nodiscard]] Result<char32_t> ScalarMember(json::Value object, std::string_view key);
// Absent or null gives the default.
[[nodiscard]] Result<bool> OptionalBool(json::Value object, std::string_view key, bool fallback);
[[nodiscard]] Result<std::optional<std::string>> OptionalString(json::Value object, std::string_view key);
// The member, unless it is absent or null.
[[nodiscard]] std::optional<json::Value> OptionalMember(json::Value object, std::string_view key);

// A token id: an integer from 0 to kMaxTokenId. TOK-ID.
[[nodiscard]] Result<uint32_t> TokenId(json::Value value);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_SCHEMA_H_
