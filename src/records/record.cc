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
    SLM_ASSIGN(const json::Document document, json::Parse(std::move(line), {.max_bytes = kMaxLineBytes}));
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
