// Generation: one token after another by the sampler, until a stop rule applies.
//
// Stop rules in this order, after a token was chosen: a token of the artifact's EOS set, a stop id,
// the caller's word that a stop string was completed, the number of new tokens, the end of the context
// (prompt and new tokens together never exceed the session's positions). The token that stops the run
// stands in the result's ids (SMP-04); the last one is never fed back.
#ifndef SLM_RUNTIME_GENERATE_H_
#define SLM_RUNTIME_GENERATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/session.h"
#include "sampler/sampler.h"

namespace slm {

enum class StopReason : uint8_t { kEos, kStopId, kStopString, kLength, kContext, kCancelled, kError };
// "eos", "stop_id", "stop_string", "length", "context", "cancelled", "error".
[[nodiscard]] std::string_view StopReasonName(StopReason reason);

struct GenerateOptions {
  uint64_t max_new_tokens = 0;
  bool stop_at_eos = true;
  std::vector<uint32_t> stop_ids = {};
  SamplingOptions sampling = {};               // as it stands: greedy
  LogitRows prompt_logits = LogitRows::kNone;  // which to keep in the result
  const TapSet* prompt_taps = nullptr;         // observations of the prompt
  uint64_t prefill_chunk = 0;  // ids that Begin feeds at a time; 0: all. No bit depends on it.
  // Called with the logits from which each token is chosen, before on_token.
  std::function<void(uint64_t token_index, std::span<const float> logits, uint32_t id)> on_logits = {};
  std::function<void(const SampleTrace& trace)> on_trace = {};  // of each token, after on_logits
};

// One token at a time, for callers that have something else to do in between.
class Generator {
 public:
  struct Step {
    uint32_t id;
    std::optional<StopReason> stop;  // kEos, kStopId, kLength or kContext: the last step
  };

  // `session` outlives the generator and is not used by others meanwhile. Errors: SMP-VALUE.
  [[nodiscard]] static Result<Generator> Create(Session& session, GenerateOptions options);

  // Feeds the prompt. True if a token can follow: false at max_new_tokens 0 or a full context. Errors:
  // those of Session::Prefill; the session is as it was before then.
  [[nodiscard]] Result<bool> Begin(std::span<const uint32_t> prompt);
  // The same for callers that feed the prompt part by part, in order. True after the last part, under
  // the same conditions. After an error the parts before are still in the session.
  [[nodiscard]] Result<bool> Feed(std::span<const uint32_t> part, bool is_last);
  // Chooses the next token. REQUIRES: the last part gave true, and no step before said stop. Errors: those of
  // Session::Prefill and Sampler::Next.
  [[nodiscard]] Result<Step> Next();

  // Rows of the prompt as options.prompt_logits asks.
  [[nodiscard]] const std::vector<float>& prompt_logits() const { return prompt_logits_; }
  // The logits from which the last step chose.
  [[nodiscard]] std::span<const float> last_logits() const;
  [[nodiscard]] const SampleTrace& last_trace() const { return trace_; }
  // Whether Begin gave false since the context is full.
  [[nodiscard]] bool context_is_full() const { return session_->n_positions() == session_->max_positions(); }

 private:
  Generator(Session& session, GenerateOptions options, Sampler sampler);
  [[nodiscard]] std::optional<StopReason> StopAfter(uint32_t id) const;

  Session* session_;
  GenerateOptions options_;
  Sampler sampler_;
  std::vector<uint32_t> context_;  // prompt and new ids
  uint64_t n_new_ = 0;
  std::vector<float> logits_;
  std::vector<float> prompt_logits_;
  SampleTrace trace_;
};

enum class AfterToken : uint8_t { kGoOn, kStopString, kCancel };

struct Generation {
  std::vector<uint32_t> ids;  // new tokens, the stopping one included
  StopReason stop_reason = StopReason::kLength;
  std::vector<float> prompt_logits;
};

// Feeds `prompt` to the session and generates. `on_token` gets each id as it is chosen and says how to
// go on; it may be empty. Errors: those of Generator.
[[nodiscard]] Result<Generation> Generate(Session& session, std::span<const uint32_t> prompt,
                                          const GenerateOptions& options,
                                          const std::function<AfterToken(uint32_t id)>& on_token);

}  // namespace slm

#endif  // SLM_RUNTIME_GENERATE_H_
