#include "tokenizer/schema.h"

#include <algorithm>
#include <utility>

#include "tokenizer/aligned_text.h"
#include "tokenizer/compiled.h"

namespace slm::tokenizer {
namespace {

std::unexpected<Error> WrongKind(json::Value value, std::string_view wanted) {
  return Fail(ErrorAt(ErrorCode::kTokSchema, value, ShortPath(value) + " must be " + std::string(wanted)));
}

}  // namespace

std::string ShortPath(json::Value value) {
  constexpr size_t kMax = 160;
  const std::string path = value.Path();
  return path.size() <= kMax ? path : std::string(std::string_view(path).substr(0, kMax)) + "...";
}

Error ErrorAt(ErrorCode code, json::Value value, std::string message) {
  return MakeError(code, std::move(message)).At(value.byte_offset()).Field(ShortPath(value));
}

Status RequireObject(json::Value value) {
  if (!value.is_object()) return WrongKind(value, "an object");
  return {};
}

Status RequireKnownKeys(json::Value object, std::initializer_list<std::string_view> known) {
  for (const json::Value member : object.children()) {
    if (std::find(known.begin(), known.end(), member.key()) != known.end()) continue;
    return Fail(MakeError(ErrorCode::kTokUnknownType, "unknown option " + ShortPath(member))
                    .At(member.key_byte_offset())
                    .Field(ShortPath(member)));
  }
  return {};
}

Result<json::Value> Member(json::Value object, std::string_view key) {
  const auto member = OptionalMember(object, key);
  if (member) return *member;
  const std::string path = ShortPath(object) + "." + std::string(key);
  return Fail(MakeError(ErrorCode::kTokSchema, path + " is missing").At(object.byte_offset()).Field(path));
}

std::optional<json::Value> OptionalMember(json::Value object, std::string_view key) {
  const auto member = object.Find(key);
  if (!member || member->is_null()) return std::nullopt;
  return member;
}

Result<bool> BoolMember(json::Value object, std::string_view key) {
  SLM_ASSIGN(const json::Value member, Member(object, key));
  if (!member.is_bool()) return WrongKind(member, "true or false");
  return member.boolean();
}

Result<std::string> StringMember(json::Value object, std::string_view key) {
  SLM_ASSIGN(const json::Value member, Member(object, key));
  if (!member.is_string()) return WrongKind(member, "a string");
  if (member.string().size() > kMaxTokenBytes) {
    return Fail(ErrorAt(ErrorCode::kTokLimit, member, ShortPath(member) + " is longer than 64 KiB"));
  }
  return std::string(member.string());
}

Result<uint64_t> UintMember(json::Value object, std::string_view key) {
  SLM_ASSIGN(const json::Value member, Member(object, key));
  const auto number = member.is_number() ? member.AsUint() : std::nullopt;
  if (!number) return WrongKind(member, "an integer that is not negative");
  return *number;
}

Result<json::Value> ArrayMember(json::Value object, std::string_view key) {
  SLM_ASSIGN(const json::Value member, Member(object, key));
  if (!member.is_array()) return WrongKind(member, "an array");
  return member;
}

Result<char32_t> ScalarMember(json::Value object, std::string_view key) {
  SLM_ASSIGN(const std::string text, StringMember(object, key));
  if (text.empty() || ReadScalar(text.data()).n_bytes != text.size()) {
    return WrongKind(*object.Find(key), "exactly one character");
  }
  return ReadScalar(text.data()).value;
}

Result<bool> OptionalBool(json::Value object, std::string_view key, bool fallback) {
  if (!OptionalMember(object, key)) return fallback;
  return BoolMember(object, key);
}

Result<std::optional<std::string>> OptionalString(json::Value object, std::string_view key) {
  if (!OptionalMember(object, key)) return std::optional<std::string>();
  SLM_ASSIGN(std::string text, StringMember(object, key));
  return std::optional<std::string>(std::move(text));
}

Result<uint32_t> TokenId(json::Value value) {
  const auto id = value.is_number() ? value.AsUint() : std::nullopt;
  if (!id || *id > kMaxTokenId) {
    return Fail(ErrorAt(
        ErrorCode::kTokId, value,
        ShortPath(value) + ": a token id must be an integer from 0 to " + std::to_string(kMaxTokenId)));
  }
  return static_cast<uint32_t>(*id);
}

}  // namespace slm::tokenizer
