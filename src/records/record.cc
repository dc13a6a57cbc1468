#include "records/record.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"

namespace slm::records {

void WriteError(const Error& error, json::Writer& out, const ErrorPlace& place) {
  out.Key("error").BeginObject();
  out.Key("code").String(error.CodeText());
  out.Key("number").Uint(static_cast<uint64_t>(error.code));
  if (!place.stage.empty()) out.Key("stage").String(place.stage);
  if (!error.file.empty()) out.Key("file").String(EscapeForDisplay(error.file));
  if (error.byte_offset) out.Key("byte_offset").Uint(*error.byte_offset);
  if (place.line > 0) out.Key("line").Uint(place.line).Key("column").Uint(place.column);
  if (!error.field.empty()) out.Key("field").String(EscapeForDisplay(error.field));
  out.Key("message").String(EscapeForDisplay(error.message));
  out.EndObject();
}

std::string ErrorJson(const Error& error, const ErrorPlace& place) {
  json::Writer out;
  out.BeginObject();
  WriteError(error, out, place);
  out.EndObject();
  return out.Take();
}

Status OnlyMembers(const json::Value& record, std::initializer_list<std::string_view> known) {
  for (const json::Value member : record.children()) {
    if (std::find(known.begin(), known.end(), member.key()) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) names.append(names.empty() ? "" : ", ").append(name);
    return Fail(
        MakeError(ErrorCode::kSchemaUnknownKey,
                  "a record has no member \"" + std::string(member.key()) + "\"; it may have " + names)
            .At(member.key_byte_offset())
            .Field(member.key()));
  }
  return {};
}

namespace {

constexpr size_t kIdWithin = 64 << 10;  // bytes of a damaged line in which its id is looked for

size_t SkipBlanks(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// One past the value that starts at `at`, by brackets and quotes alone.
size_t EndOfValue(std::string_view text, size_t at) {
  size_t depth = 0;
  bool in_string = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
      if (!in_string && depth == 0) return at + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ',') {
      if (depth == 0) return at;
      if (c != ',' && --depth == 0) return at + 1;
    }
  }
  return at;
}

// The value of `id`, as it stands, in a line that is no record as a whole; "null" where it cannot be told.
std::string IdOfDamaged(std::string_view line) {
  std::string id = "null";
  size_t at = SkipBlanks(line, 0);
  if (at == line.size() || line[at] != '{') return id;
  if (SkipBlanks(line, EndOfValue(line, at)) != line.size()) return id;  // more than one record
  bool is_found = false;
  do {
    at = SkipBlanks(line, at + 1);
    const size_t key_end = EndOfValue(line, at);
    const bool is_id = line.substr(at, key_end - at) == "\"id\"";
    at = SkipBlanks(line, key_end);
    if (at == line.size() || line[at] != ':') break;
    at = SkipBlanks(line, at + 1);
    const size_t end = EndOfValue(line, at);
    if (is_id && is_found) return "null";
    if (is_id && end < line.size()) {
      const size_t last = line.find_last_not_of(" \t\r\n", end - 1);
      const std::string value(line.substr(at, last + 1 - at));
      if (json::Parse(value).has_value()) id = value;
      is_found = true;
    }
    at = SkipBlanks(line, end);
  } while (at < line.size() && line[at] == ',');
  return id;
}

}  // namespace

AnsweredLine AnswerLine(std::string line, bool too_long, const Handler& handle) {
  std::string id = "null";
  json::Writer out;
  const auto answer = [&]() -> RecordStatus {
    if (too_long) {
      return Fail(MakeError(ErrorCode::kLimit, "a line of more than 256 MiB").At(kMaxLineBytes));
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      return Fail(
          MakeError(ErrorCode::kJsonSyntax, "a blank line is no record; give one JSON object a line").At(0));
    }
    const std::string head = line.substr(0, kIdWithin);
    auto parsed = json::Parse(std::move(line), {.max_bytes = kMaxLineBytes});
    if (!parsed.has_value()) {
      id = IdOfDamaged(head);
      return Fail(std::move(parsed).error());
    }
    const json::Document document = *std::move(parsed);
    if (!document.root().is_object()) {
      return Fail(MakeError(ErrorCode::kJsonType, "a record is one JSON object a line")
                      .At(document.root().byte_offset()));
    }
    if (const auto value = document.root().Find("id")) id = value->source_text();
    out.BeginObject().Key("id").Raw(id);
    return handle(document.root(), out);
  };
  AnsweredLine result;
  if (const RecordStatus status = answer(); !status) {
    out = json::Writer();
    out.BeginObject().Key("id").Raw(id);
    WriteError(status.error().error, out, status.error().place);
    result.code = status.error().error.code;
  }
  out.EndObject();
  result.text = out.Take();
  return result;
}

}  // namespace slm::records
