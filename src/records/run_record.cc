#include "records/run_record.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/utf8.h"
#include "evidence/sampling_record.h"

namespace slm::records {
namespace {

std::unexpected<Error> BadRecord(const json::Value& at, std::string message, std::string_view field) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(message)).At(at.byte_offset()).Field(field));
}

Result<std::vector<std::string>> ParseStop(const json::Value& value) {
  std::vector<std::string> stop;
  if (value.is_string()) {
    stop.emplace_back(value.string());
    return stop;
  }
  if (!value.is_array()) return BadRecord(value, "stop is a string or an array of strings", "stop");
  for (json::Value item : value.children()) {
    if (!item.is_string()) return BadRecord(item, "a stop string is a string", "stop");
    stop.emplace_back(item.string());
  }
  return stop;
}

// RUN-01: what does not stop a run and still bears on its output.
std::vector<std::string> WarningsOf(const evidence::Candidate& candidate, const Request& request,
                                    const Answer& answer) {
  std::vector<std::string> warnings;
  if (request.spec.kind == golden::InputKind::kUtf8 && candidate.chat_template() != nullptr)
    warnings.emplace_back("the artifact has a chat template, and this prompt did not go through it");
  std::string declared;
  for (const cbor::Value& row : *candidate.artifact().manifest().Find("sampling_declarations")->AsArray())
    declared += (declared.empty() ? "" : ", ") + *row.AsMap()->Find("key")->AsTextString();
  if (!declared.empty() && request.sampling.temperature == 0)
    warnings.push_back("decoded greedily; the publisher's sampling declarations are not applied: " +
                       declared);
  if (answer.generation.stop_reason == StopReason::kContext)
    warnings.emplace_back("the context was full before max_new_tokens was reached");
  if (FindUtf8Fault(answer.visible)) warnings.emplace_back("the visible bytes are not well-formed UTF-8");
  return warnings;
}

void WriteIds(json::Writer& out, std::string_view key, const std::vector<uint32_t>& ids) {
  out.Key(key).BeginArray();
  for (const uint32_t id : ids) out.Uint(id);
  out.EndArray();
}

}  // namespace

Result<Request> ParseRequest(const json::Value& record) {
  Request request;
  SLM_ASSIGN(request.spec,
             evidence::ParseCaseInput(record, "", {"sampling", "stop", "stop_ids", "logits", "trace", "kv"}));
  if (!record.Find("max_new_tokens")) request.spec.max_new_tokens = kDefaultNewTokens;
  if (const auto sampling = record.Find("sampling")) {
    SLM_ASSIGN(request.sampling, evidence::ParseSampling(*sampling));
  }
  if (const auto stop = record.Find("stop")) {
    SLM_ASSIGN(request.stop, ParseStop(*stop));
  }
  if (const auto trace = record.Find("trace")) {
    if (!trace->is_bool()) return BadRecord(*trace, "trace is true or false", "trace");
    request.trace = trace->boolean();
  }
  if (const auto kv = record.Find("kv")) {
    if (!kv->is_bool()) return BadRecord(*kv, "kv is true or false", "kv");
    request.kv = kv->boolean();
  }
  if (const auto ids = record.Find("stop_ids")) {
    if (!ids->is_array()) return BadRecord(*ids, "stop_ids is an array of ids", "stop_ids");
    for (json::Value item : ids->children()) {
      const auto id = item.is_number() ? item.AsUint() : std::nullopt;
      if (!id || *id > UINT32_MAX) return BadRecord(item, "an id is an integer of 32 bits", "stop_ids");
      request.stop_ids.push_back(static_cast<uint32_t>(*id));
    }
  }
  if (const auto logits = record.Find("logits")) {
    const std::string_view which = logits->is_string() ? logits->string() : "";
    if (which == "last") {
      request.logits = LogitRows::kLast;
    } else if (which == "all") {
      request.logits = LogitRows::kAll;
    } else if (which != "none") {
      return BadRecord(*logits, "logits is none, last or all", "logits");
    }
  }
  return request;
}

void WriteAnswer(const Request& request, const Answer& answer, json::Writer& out) {
  WriteIds(out, "prompt_ids", answer.prompt.ids);
  WriteIds(out, "tokens", answer.generation.ids);
  if (!FindUtf8Fault(answer.visible)) out.Key("text").String(answer.visible);
  out.Key("bytes").String(ToBase64(AsBytes(answer.visible)));
  out.Key("stop_reason").String(StopReasonName(answer.generation.stop_reason));
  if (request.kv) out.Key("kv_sha256").String(ToHex(answer.kv_sha256));
  if (!answer.trace.empty()) {
    out.Key("trace").BeginArray();
    for (const std::string& step : answer.trace) out.Raw(step);
    out.EndArray();
  }
  if (answer.generation.prompt_logits.empty()) return;
  Bytes values;
  for (const float value : answer.generation.prompt_logits) AppendLe(&values, std::bit_cast<uint32_t>(value));
  out.Key("logits").BeginObject().Key("shape").BeginArray();
  out.Uint(answer.generation.prompt_logits.size() / answer.n_vocab).Uint(answer.n_vocab).EndArray();
  out.Key("f32").String(ToBase64(values)).EndObject();
}

Result<std::unique_ptr<Run>> Run::Create(const evidence::Candidate& candidate, Session& session,
                                         Request request, const RunOptions& options) {
  std::unique_ptr<Run> run(new Run(candidate, session, std::move(request)));
  SLM_TRY(run->Start(options));
  return run;
}

Status Run::Start(const RunOptions& options) {
  SLM_ASSIGN(answer_.prompt, candidate_->Prepare(request_.spec));
  SLM_ASSIGN(output_, TextOutput::Create(candidate_->tokenizer(), request_.stop));
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
  const std::vector<uint32_t>& ids = answer_.prompt.ids;
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

Status Run::Prefill(uint64_t count) {
  const std::span<const uint32_t> left = std::span(answer_.prompt.ids).subspan(n_fed_);
  const uint64_t n = count == 0 ? left.size() : std::min<uint64_t>(count, left.size());
  const bool is_last = n == left.size();
  SLM_ASSIGN(const bool can_follow, generator_->Feed(left.first(n), is_last));
  n_fed_ += n;
  if (is_last && !can_follow)
    stop_ = request_.spec.max_new_tokens > 0 ? StopReason::kContext : StopReason::kLength;
  return {};
}

Result<Run::Step> Run::Next() {
  SLM_ASSIGN(const Generator::Step step, generator_->Next());
  answer_.generation.ids.push_back(step.id);
  stop_ = step.stop;
  SLM_ASSIGN(std::string text, output_->Push(step.id));
  const bool by_token = step.stop == StopReason::kEos || step.stop == StopReason::kStopId;
  if (output_->stopped_by() && !by_token) stop_ = StopReason::kStopString;
  return Step{step.id, std::move(text)};
}

std::string_view Run::last_trace() const {
  return answer_.trace.empty() ? std::string_view() : answer_.trace.back();
}

Result<Run::End> Run::Finish() {
  End end;
  SLM_ASSIGN(end.text, output_->Finish());
  answer_.generation.stop_reason = stop_.value_or(StopReason::kCancelled);
  answer_.generation.prompt_logits = generator_->prompt_logits();
  answer_.visible = output_->text();
  if (candidate_->tokenizer() != nullptr) {
    SLM_ASSIGN(answer_.raw,
               candidate_->tokenizer()->Decode(answer_.generation.ids, tokenizer::DecodeMode::kRaw));
  }
  answer_.n_vocab = candidate_->model()->plan().vocab_size;
  if (request_.kv) answer_.kv_sha256 = session_->KvHash();
  answer_.warnings = WarningsOf(*candidate_, request_, answer_);
  end.answer = std::move(answer_);
  return end;
}

Result<Run::End> Run::FinishAfter(const Error& error) {
  stop_ = StopReason::kError;
  answer_.errors.push_back(error);
  return Finish();
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
