#include "records/render_record.h"

#include <algorithm>
#include <array>

namespace slm::records {
namespace {

struct RenderInput {
  json::Value context;
  std::string clock;
  std::optional<std::string_view> source;  // in place of the model's template
};

Result<RenderInput> ReadRecord(const json::Value& record) {
  SLM_TRY(OnlyMembers(record, {"id", "context", "template", "clock"}));
  const auto bad = [](const json::Value& value, std::string_view what) -> std::unexpected<Error> {
    return Fail(MakeError(ErrorCode::kTplInput, std::string(value.key()) + " is " + std::string(what))
                    .At(value.byte_offset())
                    .Field(value.key()));
  };
  RenderInput input;
  const auto context = record.Find("context");
  if (!context)
    return Fail(MakeError(ErrorCode::kTplInput, "a record needs \"context\"").At(0).Field("context"));
  input.context = *context;
  if (const auto clock = record.Find("clock")) {
    if (!clock->is_string()) return bad(*clock, "a text such as 2026-11-30T12:00:00");
    input.clock = clock->string();
  }
  if (const auto source = record.Find("template")) {
    if (!source->is_string()) return bad(*source, "the template's text");
    input.source = source->string();
  }
  return input;
}

Result<std::string> ReadBlob(const Artifact& artifact, std::string_view kind, const std::string& name) {
  auto bytes = artifact.Blob(kind);
  if (!bytes) return Fail(std::move(bytes).error().In(name));
  return std::string(AsText(*bytes));
}

}  // namespace

Result<chat::Template> TemplateModel::Compile(const ConvertTemplate& convert) const {
  auto compiled = ir.empty() ? convert(source) : chat::Template::Load(ir);
  if (!compiled) return Fail(std::move(compiled).error().In(name));
  return compiled;
}

Status TemplateModel::CheckContext(const json::Value& context) const {
  const auto tools = context.is_object() ? context.Find("tools") : std::nullopt;
  if (!tools || tools->is_null()) return {};
  if (std::find(left_out.begin(), left_out.end(), "tool_use") == left_out.end()) return {};
  return Fail(
      MakeError(ErrorCode::kTplAmbiguous,
                "with tools the pinned source takes the template named tool_use, and this one carries "
                "another; give that template as a .jinja file, or leave out tools")
          .Field("tools"));
}

const Result<chat::Template>& TemplateCache::Compile(std::optional<std::string_view> source) {
  if (!source) {
    if (!own_) own_ = model_->Compile(convert_);
    return *own_;
  }
  if (!last_ || *source != last_source_) {
    last_source_ = *source;
    last_ = convert_(last_source_);
  }
  return *last_;
}

void CollectSpecialTokens(json::Value config, std::vector<std::pair<std::string, std::string>>* out) {
  constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                      "pad_token", "cls_token", "mask_token"};
  for (const std::string_view name : kNames) {
    auto value = config.Find(name);
    if (value && value->is_object()) value = value->Find("content");
    if (!value || !value->is_string()) continue;
    const bool known =
        std::any_of(out->begin(), out->end(), [name](const auto& pair) { return pair.first == name; });
    if (!known) out->emplace_back(name, value->string());
  }
}

Result<TemplateModel> TemplateOfArtifact(const Artifact& artifact, const std::string& name) {
  TemplateModel out;
  out.name = name;
  const auto has = [&artifact](std::string_view kind) {
    return std::any_of(artifact.blobs().begin(), artifact.blobs().end(),
                       [kind](const BlobEntry& blob) { return blob.kind == kind; });
  };
  if (!has("template-ir")) {
    return Fail(MakeError(ErrorCode::kTplMissing, "the artifact has no chat template").In(name));
  }
  SLM_ASSIGN(const std::string ir, ReadBlob(artifact, "template-ir", name));
  out.ir.assign(ir.begin(), ir.end());
  constexpr std::string_view kLeftOut = "chat_template.";
  for (const cbor::Value& row : *artifact.manifest().Find("accepted_conflicts")->AsArray()) {
    const std::string& field = *row.AsMap()->Find("field")->AsTextString();
    if (field.starts_with(kLeftOut)) out.left_out.push_back(field.substr(kLeftOut.size()));
  }
  for (const std::string_view kind : {"tokenizer-config", "special-tokens-map"}) {
    if (!has(kind)) continue;
    SLM_ASSIGN(std::string text, ReadBlob(artifact, kind, name));
    auto document = json::Parse(std::move(text));
    if (!document) return Fail(std::move(document).error().In(name));
    if (document->root().is_object()) CollectSpecialTokens(document->root(), &out.special_tokens);
  }
  return out;
}

void WriteRendered(const chat::Rendered& rendered, json::Writer& out) {
  out.Key("text").String(rendered.text);
  out.Key("spans").BeginArray();
  for (const chat::Span& span : rendered.Spans()) {
    out.BeginObject().Key("begin").Uint(span.begin).Key("end").Uint(span.end);
    out.Key("owner").String(span.owner).EndObject();
  }
  out.EndArray();
  out.Key("insertion_ownership").BeginObject();
  out.Key("bos").String(rendered.ownership.bos).Key("eos").String(rendered.ownership.eos);
  out.Key("turn_separator").String(rendered.ownership.turn_separator);
  out.Key("generation_prefix").String(rendered.ownership.generation_prefix).EndObject();
  if (!rendered.generation_prefix) return;
  out.Key("generation_prefix").BeginObject().Key("begin").Uint(rendered.generation_prefix->begin);
  out.Key("end").Uint(rendered.generation_prefix->end);
  out.Key("replaces").Uint(rendered.generation_prefix->n_replaced).EndObject();
}

ErrorPlace PlaceIn(std::string_view source, const Error& error, std::string_view stage) {
  ErrorPlace place{.stage = stage};
  if (!error.byte_offset || source.empty()) return place;
  const std::string_view before = source.substr(0, std::min<uint64_t>(*error.byte_offset, source.size()));
  place.line = 1 + static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none: npos + 1
  const std::string_view in_line = before.substr(line_begin);
  // Bytes that do not continue a character; the text may be ill-formed.
  place.column = 1 + static_cast<uint64_t>(std::count_if(in_line.begin(), in_line.end(), [](char byte) {
                   return (static_cast<uint8_t>(byte) & 0xC0U) != 0x80U;
                 }));
  return place;
}

ErrorPlace PlaceOf(const chat::SourcePlace& place, std::string_view stage) {
  return {.stage = stage, .line = place.line, .column = place.column};
}

RecordStatus RenderRecord(TemplateCache& templates, const json::Value& record, json::Writer& out) {
  SLM_ASSIGN(const RenderInput input, ReadRecord(record));
  const std::string_view source = input.source.value_or(templates.model().source);
  const Result<chat::Template>& compiled = templates.Compile(input.source);
  if (!compiled) {
    return std::unexpected(Fault(compiled.error(), PlaceIn(source, compiled.error(), "convert")));
  }
  if (!input.source) SLM_TRY(templates.model().CheckContext(input.context));
  chat::SourcePlace fault;
  const auto rendered = compiled->Render(
      input.context, chat::RenderOptions{templates.model().special_tokens, input.clock, &fault});
  if (!rendered) {
    return std::unexpected(Fault(rendered.error(), PlaceOf(fault, "render")));
  }
  WriteRendered(*rendered, out);
  return {};
}

}  // namespace slm::records
