#include "records/token_run.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "evidence/sampling_record.h"
#include "runtime/bound_model.h"

namespace slm::records {
namespace {

// RUN-01: what does not stop a run and still bears on its output.
std::vector<std::string> WarningsOf(const Artifact& artifact, const Request& request, StopReason stop) {
  std::vector<std::string> warnings;
  std::string declared;
  for (const cbor::Value& row : *artifact.manifest().Find("sampling_declarations")->AsArray())
    declared += (declared.empty() ? "" : ", ") + *row.AsMap()->Find("key")->AsTextString();
  if (!declared.empty() && request.sampling.temperature == 0)
    warnings.push_back("decoded greedily; the publisher's sampling declarations are not applied: " +
                       declared);
  if (stop == StopReason::kContext)
    warnings.emplace_back("the context was full before max_new_tokens was reached");
  return warnings;
}

}  // namespace

Result<std::unique_ptr<TokenRun>> TokenRun::Create(const Artifact& artifact, Session& session,
                                                   Request request, std::vector<uint32_t> prompt_ids,
                                                   const RunOptions& options) {
  std::unique_ptr<TokenRun> run(new TokenRun(artifact, session, std::move(request)));
  run->answer_.prompt_ids = std::move(prompt_ids);
  SLM_TRY(run->Start(options));
  return run;
}

Status TokenRun::Start(const RunOptions& options) {
  GenerateOptions generate;
  generate.max_new_tokens = request_.spec.max_new_tokens;
  generate.stop_at_eos = request_.spec.stop_at_eos;
  generate.stop_ids = request_.stop_ids;
  generate.prompt_logits = request_.logits;
  generate.sampling = request_.sampling;
  if (options.keep_logits) {
    generate.on_logits = [this](uint64_t, std::span<const float> logits, uint32_t) {
      answer_.step_logits.insert(answer_.step_logits.end(), logits.begin(), logits.end());
    };
  }
  if (request_.trace) {
    generate.on_trace = [this](const SampleTrace& trace) {
      json::Writer line;
      evidence::WriteTrace(trace, line);
      answer_.trace.push_back(line.Take());
    };
  }
  SLM_ASSIGN(generator_, Generator::Create(*session_, std::move(generate)));
  const std::vector<uint32_t>& ids = answer_.prompt_ids;
  // Logits of positions that are not fed again would be missing.
  if (options.reuse_prefix && request_.logits != LogitRows::kAll && !ids.empty()) {
    const std::span<const uint32_t> known = session_->ids();
    const auto shared =
        std::mismatch(known.begin(), known.end(), ids.begin(), ids.end()).first - known.begin();
    // At least one id is fed: its logits choose the first token.
    n_fed_ = std::min<uint64_t>(static_cast<uint64_t>(shared), ids.size() - 1);
  }
  return session_->Truncate(n_fed_);
}

Status TokenRun::Prefill(uint64_t count) {
  const std::span<const uint32_t> left = std::span(answer_.prompt_ids).subspan(n_fed_);
  const uint64_t n = count == 0 ? left.size() : std::min<uint64_t>(count, left.size());
  const bool is_last = n == left.size();
  SLM_ASSIGN(const bool can_follow, generator_->Feed(left.first(n), is_last));
  n_fed_ += n;
  if (is_last && !can_follow)
    stop_ = request_.spec.max_new_tokens > 0 ? StopReason::kContext : StopReason::kLength;
  return {};
}

Result<uint32_t> TokenRun::Next() {
  SLM_ASSIGN(const Generator::Step step, generator_->Next());
  answer_.generation.ids.push_back(step.id);
  stop_ = step.stop;
  return step.id;
}

void TokenRun::StopByString() {
  const bool by_token = stop_ == StopReason::kEos || stop_ == StopReason::kStopId;
  if (!by_token) stop_ = StopReason::kStopString;
}

std::string_view TokenRun::last_trace() const {
  return answer_.trace.empty() ? std::string_view() : answer_.trace.back();
}

TokenAnswer TokenRun::Finish(bool by_error) {
  answer_.generation.stop_reason = by_error ? StopReason::kError : stop_.value_or(StopReason::kCancelled);
  answer_.generation.prompt_logits = generator_->prompt_logits();
  answer_.n_vocab = session_->model().plan().vocab_size;
  if (request_.kv) answer_.kv_sha256 = session_->KvHash();
  answer_.warnings = WarningsOf(*artifact_, request_, answer_.generation.stop_reason);
  return std::move(answer_);
}

void WriteTokens(const std::vector<uint32_t>& prompt_ids, const std::vector<uint32_t>& tokens,
                 json::Writer& out) {
  out.Key("prompt_ids").Uints(prompt_ids).Key("tokens").Uints(tokens);
}

void WriteEnd(const Request& request, const Generation& generation, const Hash256& kv_sha256,
              const std::vector<std::string>& trace, uint64_t n_vocab, json::Writer& out) {
  out.Key("stop_reason").String(StopReasonName(generation.stop_reason));
  if (request.kv) out.Key("kv_sha256").String(ToHex(kv_sha256));
  if (!trace.empty()) {
    out.Key("trace").BeginArray();
    for (const std::string& step : trace) out.Raw(step);
    out.EndArray();
  }
  if (generation.prompt_logits.empty()) return;
  Bytes values;
  for (const float value : generation.prompt_logits) AppendLe(&values, std::bit_cast<uint32_t>(value));
  out.Key("logits").BeginObject().Key("shape").BeginArray();
  out.Uint(generation.prompt_logits.size() / n_vocab).Uint(n_vocab).EndArray();
  out.Key("f32").String(ToBase64(values)).EndObject();
}

}  // namespace slm::records
