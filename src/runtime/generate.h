// Greedy generation: the largest logit, the lowest id among equals, until a stop rule applies.
//
// Stop rules in this order, after a token was chosen: a token of the artifact's EOS set, a stop
// id, the number of new tokens, the end of the context (prompt and new tokens together never
// exceed the session's positions). The token that stops the run stands in the result's ids
// (SMP-04); the last one is never fed back.
#ifndef SLM_RUNTIME_GENERATE_H_
#define SLM_RUNTIME_GENERATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/session.h"

namespace slm {

enum class StopReason : uint8_t { kEos, kStopId, kLength, kContext, kCancelled };
// "eos", "stop_id", "length", "context", "cancelled".
[[nodiscard]] std::string_view StopReasonName(StopReason reason);

struct GenerateOptions {
  uint64_t max_new_tokens = 0;
  bool stop_at_eos = true;
  std::vector<uint32_t> stop_ids = {};
  LogitRows prompt_logits = LogitRows::kNone;  // which to keep in the result
  const TapSet* prompt_taps = nullptr;         // observations of the prompt
  // Called with the logits from which each token is chosen, before on_token.
  std::function<void(uint64_t token_index, std::span<const float> logits, uint32_t id)> on_logits = {};
};

struct Generation {
  std::vector<uint32_t> ids;  // new tokens, the stopping one included
  StopReason stop_reason = StopReason::kLength;
  std::vector<float> prompt_logits;
};

// Feeds `prompt` to the session and generates. `on_token` gets each id as it is chosen and ends
// the run by returning false; it may be empty. Errors: those of Session::Prefill.
[[nodiscard]] Result<Generation> Generate(Session& session, std::span<const uint32_t> prompt,
                                          const GenerateOptions& options,
                                          const std::function<bool(uint32_t id)>& on_token);

}  // namespace slm

#endif  // SLM_RUNTIME_GENERATE_H_
