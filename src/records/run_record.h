// Records of run (docs/spec/cli.md, "Batches"; RUN-01, SMP-04): a prompt, how to go on from it, and what
// came. A Run goes token by token, so that a caller can show text, stop, or do something else in between. It
// is a TextRun and a TokenRun; the browser has them in two modules. One session, one run, one thread at a
// time.
#ifndef SLM_RECORDS_RUN_RECORD_H_
#define SLM_RECORDS_RUN_RECORD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evidence/candidate.h"
#include "records/run_request.h"
#include "records/text_run.h"
#include "records/token_run.h"
#include "runtime/generate.h"

namespace slm::records {

struct Answer {
  evidence::Prompt prompt;
  Generation generation;
  std::vector<float> step_logits;  // [tokens][vocab]; only when kept
  std::string raw;                 // bytes of the new tokens, nothing skipped
  std::string visible;             // special tokens skipped, cut off at a stop string
  std::vector<std::string> trace;  // JSON of each token's choice
  Hash256 kv_sha256{};             // of the cache after the last step, where asked for (RUN-04)
  uint64_t n_vocab = 0;
  std::vector<std::string> warnings;  // what a reader of the output should know
  std::vector<Error> errors;          // what ended the run, at most one
};

// Members of the answer, without "warnings".
void WriteAnswer(const Request& request, const Answer& answer, json::Writer& out);

class Run {
 public:
  struct Step {
    uint32_t id;
    std::string text;  // what this token made visible, perhaps nothing
  };

  // Prepares the prompt; nothing is fed yet. `candidate` and `session` outlive the run. Errors: those of
  // Candidate::Prepare, SMP-VALUE, UNSUPPORTED.
  [[nodiscard]] static Result<std::unique_ptr<Run>> Create(const evidence::Candidate& candidate,
                                                           Session& session, Request request,
                                                           const RunOptions& options);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  [[nodiscard]] const Request& request() const { return tokens_->request(); }
  [[nodiscard]] const evidence::Prompt& prompt() const { return text_->prompt(); }
  [[nodiscard]] uint64_t n_fed() const {
    return tokens_->n_fed();
  }  // ids of the prompt, reused ones included

  // Feeds at most `count` further ids of the prompt; 0: all that are left. Errors: those of
  // Session::Prefill.
  [[nodiscard]] Status Prefill(uint64_t count) { return tokens_->Prefill(count); }
  // Whether there is no further step.
  [[nodiscard]] bool done() const { return tokens_->done(); }
  // REQUIRES: the whole prompt was fed, not done(). Errors: those of Generator::Next, TOK-UNKNOWN-ID.
  [[nodiscard]] Result<Step> Next();
  // The trace of the last step as JSON; empty unless asked for.
  [[nodiscard]] std::string_view last_trace() const { return tokens_->last_trace(); }
  // The logits of the last position fed, [vocab]. REQUIRES: the whole prompt was fed.
  [[nodiscard]] std::span<const float> last_logits() const { return tokens_->last_logits(); }
  // The text that was held back, and everything else; the run is over. A run that is not done counts as
  // cancelled. Call once, last.
  struct End {
    std::string text;
    Answer answer;
  };
  [[nodiscard]] Result<End> Finish();
  // The same after Prefill or Next failed with `error`: what there was until then, stop reason `error`.
  [[nodiscard]] Result<End> FinishAfter(const Error& error);

 private:
  Run(std::unique_ptr<TextRun> text, std::unique_ptr<TokenRun> tokens)
      : text_(std::move(text)), tokens_(std::move(tokens)) {}
  [[nodiscard]] Result<End> FinishWith(const Error* error);

  std::unique_ptr<TextRun> text_;
  std::unique_ptr<TokenRun> tokens_;
};

// Sees each step and its trace; text that was held back comes without an id. An error of it ends the run.
using OnStep =
    std::function<Status(std::optional<uint32_t> id, std::string_view text, std::string_view trace)>;
// Feeds what is left of the prompt and goes on until the run is done. `on_step` may be empty.
[[nodiscard]] Status Continue(Run& run, const OnStep& on_step);
// A whole run.
[[nodiscard]] Result<Answer> Execute(const evidence::Candidate& candidate, Session& session,
                                     const Request& request, const RunOptions& options,
                                     const OnStep& on_step);

}  // namespace slm::records

#endif  // SLM_RECORDS_RUN_RECORD_H_
