#include "records/run_record.h"

#include <utility>

namespace slm::records {

void WriteAnswer(const Request& request, const Answer& answer, json::Writer& out) {
  WriteTokens(answer.prompt.ids, answer.generation.ids, out);
  WriteVisible(answer.visible, out);
  WriteEnd(request, answer.generation, answer.kv_sha256, answer.trace, answer.n_vocab, out);
}

Result<std::unique_ptr<Run>> Run::Create(const evidence::Candidate& candidate, Session& session,
                                         Request request, const RunOptions& options) {
  SLM_ASSIGN(std::unique_ptr<TextRun> text, TextRun::Create(candidate.text(), request));
  SLM_ASSIGN(
      std::unique_ptr<TokenRun> tokens,
      TokenRun::Create(candidate.artifact(), session, std::move(request), text->prompt().ids, options));
  return std::unique_ptr<Run>(new Run(std::move(text), std::move(tokens)));
}

Result<Run::Step> Run::Next() {
  SLM_ASSIGN(const uint32_t id, tokens_->Next());
  SLM_ASSIGN(std::string text, text_->Push(id));
  if (text_->stopped()) tokens_->StopByString();
  return Step{id, std::move(text)};
}

Result<Run::End> Run::Finish() {
  return FinishWith(nullptr);
}

Result<Run::End> Run::FinishAfter(const Error& error) {
  return FinishWith(&error);
}

Result<Run::End> Run::FinishWith(const Error* error) {
  SLM_ASSIGN(TextRun::End text, text_->Finish());
  TokenAnswer tokens = tokens_->Finish(error != nullptr);
  End end;
  end.text = std::move(text.tail);
  end.answer.prompt = text_->prompt();
  end.answer.generation = std::move(tokens.generation);
  end.answer.step_logits = std::move(tokens.step_logits);
  end.answer.raw = std::move(text.raw);
  end.answer.visible = std::move(text.visible);
  end.answer.trace = std::move(tokens.trace);
  end.answer.kv_sha256 = tokens.kv_sha256;
  end.answer.n_vocab = tokens.n_vocab;
  end.answer.warnings = text_->warnings();
  for (std::vector<std::string>* more : {&tokens.warnings, &text.warnings})
    end.answer.warnings.insert(end.answer.warnings.end(), more->begin(), more->end());
  if (error != nullptr) end.answer.errors.push_back(*error);
  return end;
}

Status Continue(Run& run, const OnStep& on_step) {
  SLM_TRY(run.Prefill(0));
  while (!run.done()) {
    SLM_ASSIGN(const Run::Step step, run.Next());
    if (on_step) SLM_TRY(on_step(step.id, step.text, run.last_trace()));
  }
  return {};
}

Result<Answer> Execute(const evidence::Candidate& candidate, Session& session, const Request& request,
                       const RunOptions& options, const OnStep& on_step) {
  SLM_ASSIGN(const std::unique_ptr<Run> run, Run::Create(candidate, session, request, options));
  SLM_TRY(Continue(*run, on_step));
  SLM_ASSIGN(Run::End end, run->Finish());
  if (on_step && !end.text.empty()) SLM_TRY(on_step(std::nullopt, end.text, {}));
  return std::move(end.answer);
}

}  // namespace slm::records
