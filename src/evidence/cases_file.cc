#include "evidence/cases_file.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/utf8.h"

namespace slm::evidence {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxLineBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxCases = 65536;
constexpr uint64_t kMaxIds = uint64_t{1} << 20;
constexpr uint64_t kMaxMessages = 4096;

std::unexpected<Error> Bad(const json::Value& at, std::string message, std::string_view field) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(message)).At(at.byte_offset()).Field(field));
}

Result<bool> BoolOr(const json::Value& record, std::string_view key, bool otherwise) {
  const auto value = record.Find(key);
  if (!value) return otherwise;
  if (!value->is_bool()) return Bad(*value, "expected true or false", key);
  return value->boolean();
}

bool HasControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && static_cast<uint8_t>(text[i + 1]) < 0xA0))
      return true;
  }
  return false;
}

// The id as a text: people number their cases, too.
Result<std::string> CaseIdOf(const json::Value& record) {
  const auto id = record.Find("id");
  if (id && id->is_string() && !id->string().empty() && id->string().size() <= 128 &&
      !HasControl(id->string()))
    return std::string(id->string());
  const auto number = id && id->is_number() && id->is_integer_text() ? id->AsInt() : std::nullopt;
  if (number) return std::to_string(*number);
  if (id && id->source_text() == "-0") return std::string("0");
  return Bad(id ? *id : record,
             "id is a text of 1 to 128 bytes without control characters, or an integer of 64 bits", "id");
}

Status ReadIds(const json::Value& value, CaseSpec* spec) {
  if (!value.is_array() || value.size() == 0 || value.size() > kMaxIds) {
    return Bad(value, "ids is an array of 1 to 2^20 integers", "ids");
  }
  for (json::Value item : value.children()) {
    const auto id = item.is_number() ? item.AsUint() : std::nullopt;
    if (!id || *id > UINT32_MAX) return Bad(item, "an id is an integer of 32 bits", "ids");
    spec->ids.push_back(static_cast<uint32_t>(*id));
    AppendLe(&spec->data, static_cast<uint32_t>(*id));
  }
  spec->kind = golden::InputKind::kTokenIds;
  return {};
}

Status ReadMessages(const json::Value& value, CaseSpec* spec) {
  if (!value.is_array() || value.size() == 0 || value.size() > kMaxMessages) {
    return Bad(value, "messages is an array of 1 to 4096 objects", "messages");
  }
  for (json::Value message : value.children()) {
    if (!message.is_object()) return Bad(message, "a message is an object", "messages");
  }
  const std::string text = CompactJson(value);
  spec->data.assign(text.begin(), text.end());
  spec->kind = golden::InputKind::kMessages;
  return {};
}

Status ReadInput(const json::Value& record, CaseSpec* spec) {
  const auto text = record.Find("text");
  const auto ids = record.Find("ids");
  const auto messages = record.Find("messages");
  if ((text ? 1 : 0) + (ids ? 1 : 0) + (messages ? 1 : 0) != 1) {
    return Bad(record, "exactly one of text, ids, messages", "text");
  }
  if (ids) return ReadIds(*ids, spec);
  if (messages) return ReadMessages(*messages, spec);
  if (!text->is_string()) return Bad(*text, "text is a string", "text");
  spec->data.assign(text->string().begin(), text->string().end());
  spec->kind = golden::InputKind::kUtf8;
  return {};
}

Status OnlyKnownKeys(const json::Value& record, const CaseSpec& spec,
                     const std::vector<std::string_view>& known_more) {
  for (json::Value member : record.children()) {
    const std::string_view key = member.key();
    bool known = key == "id" || key == "text" || key == "ids" || key == "messages" ||
                 key == "max_new_tokens" || key == "stop_at_eos";
    known = known || (key == "add_special_tokens" && spec.kind == golden::InputKind::kUtf8);
    known = known || (key == "add_generation_prompt" && spec.kind == golden::InputKind::kMessages);
    known = known || std::find(known_more.begin(), known_more.end(), key) != known_more.end();
    if (!known) return Bad(member, "a key that does not stand in a case of this kind", key);
  }
  return {};
}

// Fields of a batch record that change what a case computes. A case is greedy, and golden vectors record
// neither stops of its own nor tools, so here they stand only where they change nothing.
constexpr std::array<std::string_view, 7> kOnlyByDefault = {
    "stop", "stop_ids", "sampling", "tools", "documents", "special_tokens_as_text", "logits"};

bool IsDefault(std::string_view key, const json::Value& value) {
  if (key == "logits") return value.is_string();
  if (key == "special_tokens_as_text") return value.is_bool() && !value.boolean();
  if (value.is_null()) return true;
  return (value.is_array() || value.is_object()) && value.size() == 0 &&
         value.is_object() == (key == "sampling");
}

Status CheckOnlyDefaults(const json::Value& record) {
  for (const std::string_view key : kOnlyByDefault) {
    const auto value = record.Find(key);
    if (!value || IsDefault(key, *value)) continue;
    return Fail(MakeError(ErrorCode::kUnsupported, "a case runs without " + std::string(key) +
                                                       "; leave it out, or use slm run --batch")
                    .At(value->byte_offset())
                    .Field(key));
  }
  return {};
}

Result<CaseSpec> ParseLine(std::string_view line) {
  SLM_ASSIGN(const json::Document document, json::Parse(std::string(line), {.max_bytes = kMaxLineBytes}));
  const json::Value record = document.root();
  if (!record.is_object()) return Bad(record, "a case is an object", "");
  SLM_ASSIGN(const std::string id, CaseIdOf(record));
  SLM_TRY(CheckOnlyDefaults(record));
  std::vector<std::string_view> more(kOnlyByDefault.begin(), kOnlyByDefault.end());
  more.push_back("case_class");
  SLM_ASSIGN(CaseSpec spec, ParseCaseInput(record, id, more));
  if (const auto value = record.Find("case_class")) {
    if (!value->is_string() ||
        (value->string() != "public_mechanical" && value->string() != "private_behavior_commitment")) {
      return Bad(*value, "case_class is public_mechanical or private_behavior_commitment", "case_class");
    }
    if (value->string() == "private_behavior_commitment")
      spec.case_class = golden::CaseClass::kPrivateBehaviorCommitment;
  }
  return spec;
}

}  // namespace

std::string CompactJson(const json::Value& value) {
  std::string out;
  switch (value.kind()) {
    case json::Kind::kString:
      json::AppendQuoted(&out, value.string());
      return out;
    case json::Kind::kArray:
    case json::Kind::kObject: {
      const bool is_object = value.is_object();
      out = is_object ? "{" : "[";
      for (json::Value child : value.children()) {
        if (out.size() > 1) out += ",";
        if (is_object) {
          json::AppendQuoted(&out, child.key());
          out += ":";
        }
        out += CompactJson(child);
      }
      return out + (is_object ? "}" : "]");
    }
    default:
      return std::string(value.source_text());
  }
}

std::string MessageJson(std::string_view role, std::string_view content) {
  std::string message = "{\"role\":";
  json::AppendQuoted(&message, role);
  message += ",\"content\":";
  json::AppendQuoted(&message, content);
  return message + "}";
}

Result<CaseSpec> ParseCaseInput(const json::Value& record, std::string_view default_id,
                                const std::vector<std::string_view>& known_more) {
  CaseSpec spec;
  spec.id = std::string(default_id);
  SLM_TRY(ReadInput(record, &spec));
  SLM_TRY(OnlyKnownKeys(record, spec, known_more));
  SLM_ASSIGN(spec.add_special_tokens, BoolOr(record, "add_special_tokens", true));
  SLM_ASSIGN(spec.add_generation_prompt,
             BoolOr(record, "add_generation_prompt", spec.kind == golden::InputKind::kMessages));
  SLM_ASSIGN(spec.stop_at_eos, BoolOr(record, "stop_at_eos", true));
  if (const auto count = record.Find("max_new_tokens")) {
    const auto number = count->is_number() ? count->AsUint() : std::nullopt;
    if (!number || *number > kMaxNewTokens)
      return Bad(*count, "max_new_tokens is an integer from 0 to 2^20", "max_new_tokens");
    spec.max_new_tokens = *number;
  }
  return spec;
}

Result<std::vector<CaseSpec>> ParseCases(std::string_view file) {
  if (file.size() > kMaxFileBytes) return Fail(ErrorCode::kLimit, "a cases file holds at most 64 MiB");
  if (file.empty()) return Fail(MakeError(ErrorCode::kCaseSchema, "the file holds no case").At(0));
  std::vector<CaseSpec> cases;
  std::set<std::string> seen;
  size_t begin = 0;
  while (begin < file.size()) {
    const size_t end = std::min(file.find('\n', begin), file.size());  // the last line may lack its LF
    if (file.substr(begin, end - begin).find_first_not_of(" \t\r") == std::string_view::npos) {
      return Fail(MakeError(ErrorCode::kJsonSyntax, "a blank line is no case; give one JSON object a line")
                      .At(begin));
    }
    auto spec = ParseLine(file.substr(begin, end - begin));
    if (!spec.has_value()) {
      Error error = std::move(spec).error();
      error.byte_offset = begin + error.byte_offset.value_or(0);
      return Fail(std::move(error));
    }
    if (!seen.insert(spec->id).second) {
      return Fail(MakeError(ErrorCode::kCaseSchema, "the id " + EscapeForDisplay(spec->id) + " stands twice")
                      .At(begin)
                      .Field("id"));
    }
    spec->byte_offset = begin;
    cases.push_back(*std::move(spec));
    if (cases.size() > kMaxCases) return Fail(MakeError(ErrorCode::kLimit, "at most 65536 cases").At(begin));
    begin = end + 1;
  }
  return cases;
}

Error ErrorOfCase(Error error, const CaseSpec& spec, const std::string& name) {
  error.message = "case " + spec.id + ": " + error.message;
  if (error.field.empty()) error.field = spec.id;
  if (error.file.empty()) {  // else it is the output's
    error.file = name;
    error.byte_offset = spec.byte_offset;
  }
  return error;
}

}  // namespace slm::evidence
