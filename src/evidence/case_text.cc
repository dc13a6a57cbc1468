#include "evidence/case_text.h"

#include <string>
#include <utility>

namespace slm::evidence {
namespace {

using Offsets = std::vector<std::pair<uint32_t, uint32_t>>;

std::unexpected<Error> NoCaseText(const json::Value& at, std::string what) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(what)).At(at.byte_offset()).Field(at.Path()));
}

Result<uint32_t> ReadUint(const json::Value& value) {
  const auto number = value.is_number() ? value.AsUint() : std::nullopt;
  if (!number || *number > UINT32_MAX) return NoCaseText(value, "an integer of 32 bits is expected");
  return static_cast<uint32_t>(*number);
}

Result<json::Value> ReadArray(const json::Value& object, std::string_view key) {
  const auto value = object.Find(key);
  if (!value || !value->is_array())
    return NoCaseText(value.value_or(object), std::string(key) + " is an array");
  return *value;
}

Result<Bytes> ReadBytes(const json::Value& value) {
  Bytes bytes;
  if (!value.is_string() || !FromBase64(value.string(), &bytes))
    return NoCaseText(value, "base64 is expected");
  return bytes;
}

void WriteOffsets(std::string_view key, const Offsets& offsets, json::Writer& out) {
  out.Key(key).BeginArray();
  for (const auto& [begin, end] : offsets) out.BeginArray().Uint(begin).Uint(end).EndArray();
  out.EndArray();
}

Result<Offsets> ReadOffsets(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(const json::Value rows, ReadArray(object, key));
  Offsets offsets;
  for (const json::Value row : rows.children()) {
    std::vector<uint32_t> ends;
    if (row.is_array()) {
      for (const json::Value end : row.children()) {
        SLM_ASSIGN(ends.emplace_back(), ReadUint(end));
      }
    }
    if (ends.size() != 2) return NoCaseText(row, "an interval is [begin, end]");
    offsets.emplace_back(ends[0], ends[1]);
  }
  return offsets;
}

Result<golden::OwnedInterval> ReadOwner(const json::Value& row) {
  std::vector<json::Value> parts;
  if (row.is_array()) {
    for (const json::Value part : row.children()) parts.push_back(part);
  }
  if (parts.size() != 3 || !parts[2].is_string()) return NoCaseText(row, "an owner is [begin, end, name]");
  golden::OwnedInterval interval;
  SLM_ASSIGN(interval.begin, ReadUint(parts[0]));
  SLM_ASSIGN(interval.end, ReadUint(parts[1]));
  interval.owner = parts[2].string();
  return interval;
}

Result<golden::Tokenization> ReadTokenization(const json::Value& value, const std::vector<uint32_t>& ids) {
  if (!value.is_object()) return NoCaseText(value, "tokenization is an object");
  golden::Tokenization tokenization;
  tokenization.reference = "published";
  tokenization.ids = ids;
  const auto of = value.Find("of");
  if (!of || !of->is_string()) return NoCaseText(of.value_or(value), "of is a text");
  tokenization.of = of->string();
  const auto special = value.Find("add_special_tokens");
  if (!special || !special->is_bool())
    return NoCaseText(special.value_or(value), "add_special_tokens is true or false");
  tokenization.add_special_tokens = special->boolean();
  SLM_ASSIGN(tokenization.byte_offsets, ReadOffsets(value, "byte_offsets"));
  SLM_ASSIGN(tokenization.scalar_offsets, ReadOffsets(value, "scalar_offsets"));
  const auto decoded = value.Find("decoded");
  if (!decoded) return NoCaseText(value, "decoded is missing");
  SLM_ASSIGN(tokenization.decoded, ReadBytes(*decoded));
  return tokenization;
}

}  // namespace

void WriteCaseText(const CaseText& text, json::Writer& out) {
  out.BeginObject().Key("ids").Uints(text.ids);
  if (text.rendered) out.Key("rendered").String(ToBase64(*text.rendered));
  if (text.ownership) {
    out.Key("ownership").BeginArray();
    for (const golden::OwnedInterval& one : *text.ownership)
      out.BeginArray().Uint(one.begin).Uint(one.end).String(one.owner).EndArray();
    out.EndArray();
  }
  if (text.tokenization) {
    out.Key("tokenization").BeginObject().Key("of").String(text.tokenization->of);
    out.Key("add_special_tokens").Bool(text.tokenization->add_special_tokens);
    WriteOffsets("byte_offsets", text.tokenization->byte_offsets, out);
    WriteOffsets("scalar_offsets", text.tokenization->scalar_offsets, out);
    out.Key("decoded").String(ToBase64(*text.tokenization->decoded)).EndObject();
  }
  out.EndObject();
}

Result<CaseText> ReadCaseText(const json::Value& value) {
  if (!value.is_object()) return NoCaseText(value, "the text of a case is an object");
  CaseText text;
  SLM_ASSIGN(const json::Value ids, ReadArray(value, "ids"));
  for (const json::Value id : ids.children()) {
    SLM_ASSIGN(text.ids.emplace_back(), ReadUint(id));
  }
  if (const auto rendered = value.Find("rendered")) {
    SLM_ASSIGN(text.rendered, ReadBytes(*rendered));
  }
  if (value.Find("ownership")) {
    SLM_ASSIGN(const json::Value rows, ReadArray(value, "ownership"));
    text.ownership.emplace();
    for (const json::Value row : rows.children()) {
      SLM_ASSIGN(text.ownership->emplace_back(), ReadOwner(row));
    }
  }
  if (const auto tokenization = value.Find("tokenization")) {
    SLM_ASSIGN(text.tokenization, ReadTokenization(*tokenization, text.ids));
  }
  return text;
}

}  // namespace slm::evidence
