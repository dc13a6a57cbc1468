#include "runtime/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace slm {
namespace {

std::optional<StopReason> StopAfter(const Session& session, const GenerateOptions& options, uint64_t n_new,
                                    uint32_t id) {
  const std::vector<uint64_t>& eos = session.model().config().eos_token_ids;
  if (options.stop_at_eos && std::find(eos.begin(), eos.end(), uint64_t{id}) != eos.end())
    return StopReason::kEos;
  if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end())
    return StopReason::kStopId;
  if (n_new == options.max_new_tokens) return StopReason::kLength;
  // The chosen token still needs a position of its own before another can follow.
  if (session.n_positions() + 1 >= session.max_positions()) return StopReason::kContext;
  return std::nullopt;
}

}  // namespace

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kStopId:
      return "stop_id";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<Generation> Generate(Session& session, std::span<const uint32_t> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(uint32_t id)>& on_token) {
  Generation result;
  const LogitRows rows = options.prompt_logits == LogitRows::kAll ? LogitRows::kAll : LogitRows::kLast;
  std::vector<float> logits;
  SLM_TRY(session.Prefill(prompt, rows, &logits, options.prompt_taps));
  const size_t vocab_size = session.model().plan().vocab_size;
  if (options.prompt_logits != LogitRows::kNone) result.prompt_logits = logits;
  if (options.max_new_tokens == 0) return result;
  if (session.n_positions() == session.max_positions()) {
    result.stop_reason = StopReason::kContext;
    return result;
  }
  while (true) {
    const std::span<const float> last = std::span<const float>(logits).last(vocab_size);
    const auto id = static_cast<uint32_t>(ops::Argmax(last));
    if (options.on_logits) options.on_logits(result.ids.size(), last, id);
    result.ids.push_back(id);
    const bool go_on = !on_token || on_token(id);
    std::optional<StopReason> stop = StopAfter(session, options, result.ids.size(), id);
    if (!stop && !go_on) stop = StopReason::kCancelled;
    if (stop) {
      result.stop_reason = *stop;
      return result;
    }
    SLM_TRY(session.Prefill(std::span(&id, 1), LogitRows::kLast, &logits, nullptr));
  }
}

}  // namespace slm
