#include "runtime/generate.h"

#include <algorithm>
#include <utility>

namespace slm {

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kStopId:
      return "stop_id";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kError:
      return "error";
  }
  return "unknown";
}

Generator::Generator(Session& session, GenerateOptions options, Sampler sampler)
    : session_(&session), options_(std::move(options)), sampler_(std::move(sampler)) {}

Result<Generator> Generator::Create(Session& session, GenerateOptions options) {
  const uint64_t vocab_size = session.model().plan().vocab_size;
  std::vector<uint32_t> eos_ids;
  for (const uint64_t id : session.model().config().eos_token_ids) {
    if (id < vocab_size) eos_ids.push_back(static_cast<uint32_t>(id));
  }
  SLM_ASSIGN(Sampler sampler, Sampler::Create(options.sampling, vocab_size, eos_ids));
  return Generator(session, std::move(options), std::move(sampler));
}

Result<bool> Generator::Begin(std::span<const uint32_t> prompt) {
  const uint64_t before = session_->n_positions();
  const uint64_t chunk = options_.prefill_chunk == 0 ? prompt.size() : options_.prefill_chunk;
  for (uint64_t done = 0;;) {
    const uint64_t count = std::min<uint64_t>(chunk, prompt.size() - done);
    const bool is_last = done + count == prompt.size();
    Result<bool> fed = Feed(prompt.subspan(done, count), is_last);
    if (!fed) SLM_TRY(session_->Truncate(before));
    if (!fed || is_last) return fed;
    done += count;
  }
}

Result<bool> Generator::Feed(std::span<const uint32_t> part, bool is_last) {
  const bool all = options_.prompt_logits == LogitRows::kAll;
  const LogitRows rows = all ? LogitRows::kAll : is_last ? LogitRows::kLast : LogitRows::kNone;
  SLM_TRY(session_->Prefill(part, rows, &logits_, options_.prompt_taps));
  if (all || (is_last && options_.prompt_logits == LogitRows::kLast))
    prompt_logits_.insert(prompt_logits_.end(), logits_.begin(), logits_.end());
  if (!is_last) return false;
  // The penalty looks at the whole conversation that the session holds.
  context_.assign(session_->ids().begin(), session_->ids().end());
  return options_.max_new_tokens > 0 && !context_is_full();
}

std::span<const float> Generator::last_logits() const {
  return std::span<const float>(logits_).last(session_->model().plan().vocab_size);
}

std::optional<StopReason> Generator::StopAfter(uint32_t id) const {
  const std::vector<uint64_t>& eos = session_->model().config().eos_token_ids;
  if (options_.stop_at_eos && std::find(eos.begin(), eos.end(), uint64_t{id}) != eos.end())
    return StopReason::kEos;
  if (std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) != options_.stop_ids.end())
    return StopReason::kStopId;
  if (n_new_ == options_.max_new_tokens) return StopReason::kLength;
  // The chosen token still needs a position of its own before another can follow.
  if (session_->n_positions() + 1 >= session_->max_positions()) return StopReason::kContext;
  return std::nullopt;
}

Result<Generator::Step> Generator::Next() {
  if (n_new_ > 0)
    SLM_TRY(session_->Prefill(std::span(context_).last(1), LogitRows::kLast, &logits_, nullptr));
  SLM_ASSIGN(const uint32_t id, sampler_.Next(last_logits(), context_, {}, &trace_));
  if (options_.on_logits) options_.on_logits(n_new_, last_logits(), id);
  if (options_.on_trace) options_.on_trace(trace_);
  context_.push_back(id);
  ++n_new_;
  return Step{id, StopAfter(id)};
}

Result<Generation> Generate(Session& session, std::span<const uint32_t> prompt,
                            const GenerateOptions& options,
                            const std::function<AfterToken(uint32_t id)>& on_token) {
  Generation result;
  SLM_ASSIGN(Generator generator, Generator::Create(session, options));
  SLM_ASSIGN(const bool can_follow, generator.Begin(prompt));
  result.prompt_logits = generator.prompt_logits();
  if (!can_follow) {
    if (options.max_new_tokens > 0) result.stop_reason = StopReason::kContext;
    return result;
  }
  while (true) {
    SLM_ASSIGN(const Generator::Step step, generator.Next());
    result.ids.push_back(step.id);
    const AfterToken after = on_token ? on_token(step.id) : AfterToken::kGoOn;
    const bool by_token = step.stop == StopReason::kEos || step.stop == StopReason::kStopId;
    if (after == AfterToken::kStopString && !by_token) {
      result.stop_reason = StopReason::kStopString;
    } else if (step.stop) {
      result.stop_reason = *step.stop;
    } else if (after == AfterToken::kCancel) {
      result.stop_reason = StopReason::kCancelled;
    } else {
      continue;
    }
    return result;
  }
}

}  // namespace slm
