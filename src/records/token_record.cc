#include "records/token_record.h"

#include "base/utf8.h"

namespace slm::records {
namespace {

using tokenizer::DecodeMode;
using tokenizer::EncodeOptions;
using tokenizer::Encoding;
using tokenizer::Tokenizer;

Error BadRecord(json::Value value, std::string message) {
  return MakeError(ErrorCode::kCaseSchema, std::move(message)).At(value.byte_offset()).Field(value.Path());
}

Status ReadBool(const json::Value& record, std::string_view key, bool* out) {
  const auto value = record.Find(key);
  if (!value) return {};
  if (!value->is_bool()) return Fail(BadRecord(*value, std::string(key) + " must be true or false"));
  *out = value->boolean();
  return {};
}

// The input of a record: its text, or its bytes and whether the byte API is asked for.
struct RecordInput {
  std::string bytes;
  bool byte_api = false;
};

Result<RecordInput> ReadInput(const json::Value& record) {
  const auto text = record.Find("text");
  const auto bytes = record.Find("bytes");
  if (text.has_value() == bytes.has_value())
    return Fail(BadRecord(record, "a record has either text or bytes"));
  RecordInput out;
  if (const auto api = record.Find("api")) {
    if (!api->is_string() || (api->string() != "bytes" && api->string() != "text")) {
      return Fail(BadRecord(*api, "api is \"text\" or \"bytes\""));
    }
    out.byte_api = api->string() == "bytes";
  }
  if (text) {
    if (!text->is_string()) return Fail(BadRecord(*text, "text must be a string"));
    out.bytes = text->string();
    return out;
  }
  Bytes decoded;
  if (!bytes->is_string() || !FromBase64(bytes->string(), &decoded)) {
    return Fail(BadRecord(*bytes, "bytes must be base64"));
  }
  out.bytes.assign(decoded.begin(), decoded.end());
  return out;
}

}  // namespace

void WriteOffsets(std::string_view name, const std::vector<std::pair<uint64_t, uint64_t>>& offsets,
                  json::Writer& out) {
  out.Key(name).BeginArray();
  for (const auto& [begin, end] : offsets) out.BeginArray().Uint(begin).Uint(end).EndArray();
  out.EndArray();
}

void WriteEncoding(const Encoding& encoding, json::Writer& out) {
  out.Key("ids").Uints(encoding.ids);
  out.Key("offsets").BeginObject();
  WriteOffsets("byte", encoding.byte_offsets, out);
  WriteOffsets("scalar", encoding.scalar_offsets, out);
  out.EndObject();
}

Result<DecodeMode> ModeOf(std::string_view name) {
  if (name == "raw") return DecodeMode::kRaw;
  if (name == "visible") return DecodeMode::kVisible;
  if (name == "diagnostic") return DecodeMode::kDiagnostic;
  return Fail(MakeError(ErrorCode::kCaseSchema, "mode is raw, visible or diagnostic").Field("mode"));
}

void WriteDecoded(const std::string& bytes, json::Writer& out) {
  out.Key("bytes").String(ToBase64(AsBytes(bytes)));
  if (!FindUtf8Fault(bytes)) out.Key("text").String(bytes);
}

Status TokenizeRecord(const Tokenizer& tokenizer, const json::Value& record, json::Writer& out) {
  SLM_TRY(OnlyMembers(record, {"id", "text", "bytes", "api", "add_special_tokens", "special_tokens_as_text",
                               "truncation", "padding"}));
  EncodeOptions options;
  SLM_TRY(ReadBool(record, "add_special_tokens", &options.add_special_tokens));
  SLM_TRY(ReadBool(record, "special_tokens_as_text", &options.special_tokens_as_text));
  SLM_TRY(ReadBool(record, "truncation", &options.truncation));
  SLM_TRY(ReadBool(record, "padding", &options.padding));
  SLM_ASSIGN(const RecordInput input, ReadInput(record));
  const auto encoding = input.byte_api ? tokenizer.EncodeBytes(AsBytes(input.bytes), options)
                                       : tokenizer.Encode(input.bytes, options);
  if (!encoding) return Fail(encoding.error());
  WriteEncoding(*encoding, out);
  return {};
}

Status DetokenizeRecord(const Tokenizer& tokenizer, const json::Value& record, json::Writer& out) {
  SLM_TRY(OnlyMembers(record, {"id", "ids", "mode"}));
  const auto ids = record.Find("ids");
  if (!ids || !ids->is_array()) return Fail(BadRecord(ids.value_or(record), "a record has ids, an array"));
  std::vector<uint32_t> values;
  for (const json::Value item : ids->children()) {
    const auto id = item.is_number() ? item.AsUint() : std::nullopt;
    if (!id || *id > UINT32_MAX) return Fail(BadRecord(item, "an id is an integer from 0 to 4294967295"));
    values.push_back(static_cast<uint32_t>(*id));
  }
  DecodeMode mode = DecodeMode::kRaw;
  if (const auto name = record.Find("mode")) {
    if (!name->is_string()) return Fail(BadRecord(*name, "mode must be a string"));
    const auto known = ModeOf(name->string());
    if (!known) return Fail(BadRecord(*name, known.error().message));
    mode = *known;
  }
  const auto bytes = tokenizer.Decode(values, mode);
  if (!bytes) return Fail(Error(bytes.error()).At(ids->byte_offset()).Field("ids"));
  WriteDecoded(*bytes, out);
  return {};
}

}  // namespace slm::records
