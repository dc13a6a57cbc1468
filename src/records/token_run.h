// The ids of a run: the prompt fed, tokens chosen one by one (RUN-01, RUN-03, SMP-04). No text is known here:
// stop strings are completed elsewhere (text_run.h), and StopByString says so. One session, one run, one
// thread at a time.
#ifndef SLM_RECORDS_TOKEN_RUN_H_
#define SLM_RECORDS_TOKEN_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "records/run_request.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "slm_file/artifact.h"

namespace slm::records {

struct RunOptions {
  bool keep_logits = false;  // of each new token
  // Goes on from the longest prefix of ids that the session holds already (RUN-03: the ids themselves are
  // compared). Otherwise the session is emptied. No bit depends on it.
  bool reuse_prefix = false;
};

// What the ids of a run say.
struct TokenAnswer {
  std::vector<uint32_t> prompt_ids;
  Generation generation;
  std::vector<float> step_logits;  // [tokens][vocab]; only when kept
  std::vector<std::string> trace;  // JSON of each token's choice
  Hash256 kv_sha256{};             // of the cache after the last step, where asked for (RUN-04)
  uint64_t n_vocab = 0;
  std::vector<std::string> warnings;
};

class TokenRun {
 public:
  // Nothing is fed yet. `artifact`: the session's; it and the session outlive the run. Errors: SMP-VALUE.
  [[nodiscard]] static Result<std::unique_ptr<TokenRun>> Create(const Artifact& artifact, Session& session,
                                                                Request request,
                                                                std::vector<uint32_t> prompt_ids,
                                                                const RunOptions& options);
  TokenRun(const TokenRun&) = delete;
  TokenRun& operator=(const TokenRun&) = delete;

  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] const std::vector<uint32_t>& prompt_ids() const { return answer_.prompt_ids; }
  [[nodiscard]] uint64_t n_fed() const { return n_fed_; }  // ids of the prompt, reused ones included

  // Feeds at most `count` further ids of the prompt; 0: all that are left. Errors: those of
  // Session::Prefill.
  [[nodiscard]] Status Prefill(uint64_t count);
  [[nodiscard]] uint64_t n_tokens() const { return answer_.generation.ids.size(); }  // chosen so far
  // Whether there is no further step.
  [[nodiscard]] bool done() const { return stop_.has_value(); }
  // The id of the next token. REQUIRES: the whole prompt was fed, not done(). Errors: those of
  // Generator::Next.
  [[nodiscard]] Result<uint32_t> Next();
  // The last token completed a stop string: the run is done, for this reason unless the token itself ended
  // it.
  void StopByString();
  // The trace of the last step as JSON; empty unless asked for.
  [[nodiscard]] std::string_view last_trace() const;
  // The logits of the last position fed, [vocab]. REQUIRES: the whole prompt was fed.
  [[nodiscard]] std::span<const float> last_logits() const { return generator_->last_logits(); }
  // The run is over; one that is not done counts as cancelled, and one that an error ended as that. Call
  // once, last.
  [[nodiscard]] TokenAnswer Finish(bool by_error = false);

 private:
  TokenRun(const Artifact& artifact, Session& session, Request request)
      : artifact_(&artifact), session_(&session), request_(std::move(request)) {}
  [[nodiscard]] Status Start(const RunOptions& options);

  const Artifact* artifact_;
  Session* session_;
  Request request_;
  TokenAnswer answer_;
  std::optional<Generator> generator_;
  uint64_t n_fed_ = 0;
  std::optional<StopReason> stop_;
};

// Members of the answer before and after those of the text: "prompt_ids", "tokens"; "stop_reason" and what
// the request asks for.
void WriteTokens(const std::vector<uint32_t>& prompt_ids, const std::vector<uint32_t>& tokens,
                 json::Writer& out);
void WriteEnd(const Request& request, const Generation& generation, const Hash256& kv_sha256,
              const std::vector<std::string>& trace, uint64_t n_vocab, json::Writer& out);

}  // namespace slm::records

#endif  // SLM_RECORDS_TOKEN_RUN_H_
