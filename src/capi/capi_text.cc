// The C ABI of a model's texts: records of tokenizer and template, the text of runs and cases. No weights, no
// ids chosen; those are capi_model.cc's.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "capi/handles.h"
#include "codec/sha256.h"
#include "evidence/text_half.h"
#include "records/render_record.h"
#include "records/text_run.h"
#include "records/token_record.h"
#include "slm_file/artifact.h"

namespace {

using slm::ErrorCode;
using slm::Fail;
using slm::MakeError;
using slm::Result;
using slm::Status;
using slm::capi::AnswerRecord;
using slm::capi::AnswerWith;
using slm::capi::Drop;
using slm::capi::Keep;
using slm::capi::Knows;
using slm::capi::kNullContext;
using slm::capi::TextAt;
using slm::capi::UnknownHandle;
using slm::json::Writer;
using slm::records::RecordStatus;

}  // namespace

struct slm_text final : slm::capi::Handle {
  static constexpr std::string_view kKind = "text";
  slm_text() : Handle(kKind) {}
  std::shared_ptr<const slm::evidence::TextHalf> half;
  slm::Hash256 root{};  // of the artifact
  // Of the template, or why there is none.
  Result<slm::records::TemplateModel> template_model = slm::records::TemplateModel();
  std::optional<slm::records::TemplateCache> templates;  // of the template, made when first asked for
};

struct slm_text_run final : slm::capi::Handle {
  static constexpr std::string_view kKind = "text run";
  slm_text_run() : Handle(kKind) {}
  std::unique_ptr<slm::records::TextRun> run;
};

namespace {

// Templates are converted elsewhere: what runs templates holds no converter (TPL-01).
Result<slm::chat::Template> NoProgram(std::string_view) {
  return Fail(MakeError(ErrorCode::kUnsupported,
                        "a template of the record's own needs its program, which slm_template_convert makes")
                  .Field("template"));
}

Status NeedsTokenizer(const slm::evidence::TextHalf& half) {
  if (half.tokenizer() != nullptr) return {};
  return Fail(ErrorCode::kUnsupported, "the artifact has no tokenizer; give token ids");
}

void WritePrompt(const slm::records::Request& request, const slm::evidence::Prompt& prompt, Writer& out) {
  out.Key("prompt_ids").Uints(prompt.ids);
  if (prompt.rendered) {
    out.Key("rendered").BeginObject();
    slm::records::WriteRendered(*prompt.rendered, out);
    out.EndObject();
  }
  if (!prompt.encoding) return;
  out.Key("text").String(prompt.rendered ? std::string_view(prompt.rendered->text)
                                         : slm::AsText(request.spec.data));
  out.Key("offsets").BeginObject();
  slm::records::WriteOffsets("byte", prompt.encoding->byte_offsets, out);
  slm::records::WriteOffsets("scalar", prompt.encoding->scalar_offsets, out);
  out.EndObject();
}

}  // namespace

extern "C" {

SLM_EXPORT(slm_text_open)
int32_t slm_text_open(slm_context* context, const uint8_t* bytes, size_t size, slm_text** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    const slm::ByteSpan given = slm::AsBytes(TextAt(bytes, size));
    SLM_ASSIGN(const auto artifact, slm::Artifact::FromTexts({given.begin(), given.end()}));
    auto text = std::make_unique<slm_text>();
    SLM_ASSIGN(text->half, slm::evidence::TextHalf::Open(*artifact));
    text->root = artifact->root();
    text->template_model = slm::records::TemplateOfArtifact(*artifact, "");
    answer.Key("artifact").String(slm::ToHex(artifact->root()));
    answer.Key("tokenizer").Bool(text->half->tokenizer() != nullptr);
    answer.Key("template").Bool(text->half->chat_template() != nullptr);
    *out = Keep(context, std::move(text));
    return {};
  });
}

SLM_EXPORT(slm_text_free) void slm_text_free(slm_context* context, slm_text* text) {
  if (context != nullptr) Drop(context, text);
}

SLM_EXPORT(slm_tokenize)
int32_t slm_tokenize(slm_context* context, slm_text* text, const uint8_t* record, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(*context, text)) return Fail(UnknownHandle("text"));
    SLM_TRY(NeedsTokenizer(*text->half));
    SLM_TRY(slm::records::TokenizeRecord(*text->half->tokenizer(), value, out));
    return {};
  });
}

SLM_EXPORT(slm_detokenize)
int32_t slm_detokenize(slm_context* context, slm_text* text, const uint8_t* record, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(*context, text)) return Fail(UnknownHandle("text"));
    SLM_TRY(NeedsTokenizer(*text->half));
    SLM_TRY(slm::records::DetokenizeRecord(*text->half->tokenizer(), value, out));
    return {};
  });
}

SLM_EXPORT(slm_render)
int32_t slm_render(slm_context* context, slm_text* text, const uint8_t* record, size_t size,
                   const uint8_t* program, size_t program_size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(*context, text)) return Fail(UnknownHandle("text"));
    if (!text->template_model) return Fail(text->template_model.error());
    if (!text->templates) text->templates.emplace(*text->template_model, NoProgram);
    if (program_size == 0) return slm::records::RenderRecord(*text->templates, value, out);
    slm::records::TemplateCache given(*text->template_model, [&](std::string_view) {
      return slm::chat::Template::Load(slm::AsBytes(TextAt(program, program_size)));
    });
    return slm::records::RenderRecord(given, value, out);
  });
}

SLM_EXPORT(slm_text_run_new)
int32_t slm_text_run_new(slm_context* context, slm_text* text, const uint8_t* record, size_t size,
                         slm_text_run** out) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size,
                      [&](const slm::json::Value& value, Writer& answer) -> RecordStatus {
                        if (!Knows(*context, text)) return Fail(UnknownHandle("text"));
                        SLM_ASSIGN(const slm::records::Request request, slm::records::ParseRequest(value));
                        auto run = std::make_unique<slm_text_run>();
                        SLM_ASSIGN(run->run, slm::records::TextRun::Create(text->half, request));
                        WritePrompt(request, run->run->prompt(), answer);
                        answer.Key("warnings").Strings(run->run->warnings());
                        *out = Keep(context, std::move(run));
                        return {};
                      });
}

SLM_EXPORT(slm_text_run_push)
int32_t slm_text_run_push(slm_context* context, slm_text_run* run, uint32_t id) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, run)) return Fail(UnknownHandle("text run"));
    SLM_ASSIGN(const std::string visible, run->run->Push(id));
    slm::records::WriteVisible(visible, out);
    out.Key("stopped").Bool(run->run->stopped());
    return {};
  });
}

SLM_EXPORT(slm_text_run_finish) int32_t slm_text_run_finish(slm_context* context, slm_text_run* run) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, run)) return Fail(UnknownHandle("text run"));
    SLM_ASSIGN(const slm::records::TextRun::End end, run->run->Finish());
    slm::records::WriteVisible(end.visible, out);
    out.Key("tail").String(slm::ToBase64(slm::AsBytes(end.tail)));
    out.Key("warnings").Strings(end.warnings);
    Drop(context, run);
    return {};
  });
}

SLM_EXPORT(slm_text_run_free) void slm_text_run_free(slm_context* context, slm_text_run* run) {
  if (context != nullptr) Drop(context, run);
}

SLM_EXPORT(slm_text_cases)
int32_t slm_text_cases(slm_context* context, slm_text* text, const uint8_t* cases, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, text)) return Fail(UnknownHandle("text"));
    if (size > slm::capi::kMaxCasesBytes) return Fail(slm::capi::TooManyCases());
    SLM_ASSIGN(const auto specs, slm::evidence::ParseCases(TextAt(cases, size)));
    out.Key("artifact").String(slm::ToHex(text->root));
    out.Key("cases_sha256").String(slm::ToHex(slm::Sha256Of(slm::AsBytes(TextAt(cases, size)))));
    out.Key("cases").BeginArray();
    for (const slm::evidence::CaseSpec& spec : specs) {
      const auto said = text->half->TextOf(spec);
      if (!said) return Fail(slm::evidence::ErrorOfCase(said.error(), spec, ""));
      slm::evidence::WriteCaseText(*said, out);
    }
    out.EndArray();
    return {};
  });
}

}  // extern "C"
