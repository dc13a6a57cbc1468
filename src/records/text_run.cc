#include "records/text_run.h"

#include <utility>

#include "base/utf8.h"

namespace slm::records {

Result<std::unique_ptr<TextRun>> TextRun::Create(std::shared_ptr<const evidence::TextHalf> text,
                                                 const Request& request) {
  std::unique_ptr<TextRun> run(new TextRun(std::move(text)));
  const evidence::TextHalf& half = *run->text_;
  SLM_ASSIGN(run->prompt_, half.Prepare(request.spec));
  SLM_ASSIGN(run->output_, TextOutput::Create(half.tokenizer(), request.stop));
  if (request.spec.kind == golden::InputKind::kUtf8 && half.chat_template() != nullptr)
    run->warnings_.emplace_back("the artifact has a chat template, and this prompt did not go through it");
  return run;
}

Result<std::string> TextRun::Push(uint32_t id) {
  ids_.push_back(id);
  return output_->Push(id);
}

Result<TextRun::End> TextRun::Finish() {
  End end;
  SLM_ASSIGN(end.tail, output_->Finish());
  end.visible = output_->text();
  if (text_->tokenizer() != nullptr) {
    SLM_ASSIGN(end.raw, text_->tokenizer()->Decode(ids_, tokenizer::DecodeMode::kRaw));
  }
  if (FindUtf8Fault(end.visible)) end.warnings.emplace_back("the visible bytes are not well-formed UTF-8");
  return end;
}

void WriteVisible(std::string_view visible, json::Writer& out) {
  if (!FindUtf8Fault(visible)) out.Key("text").String(visible);
  out.Key("bytes").String(ToBase64(AsBytes(visible)));
}

}  // namespace slm::records
