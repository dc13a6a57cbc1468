#include "evidence/sampling_record.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace slm::evidence {
namespace {

std::unexpected<Error> BadSampling(const json::Value& member, std::string message) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(message))
                  .At(member.byte_offset())
                  .Field("sampling." + std::string(member.key())));
}

Result<double> Number(const json::Value& member) {
  const std::optional<double> value = member.is_number() ? member.AsDouble() : std::nullopt;
  if (!value) return BadSampling(member, std::string(member.key()) + " is a number");
  return *value;
}

Result<uint64_t> Integer(const json::Value& member, uint64_t largest) {
  const std::optional<uint64_t> value = member.is_number() ? member.AsUint() : std::nullopt;
  if (!value || *value > largest)
    return BadSampling(member,
                       std::string(member.key()) + " is an integer from 0 to " + std::to_string(largest));
  return *value;
}

// The float32 nearest to the number.
Result<float> Penalty(const json::Value& member) {
  SLM_ASSIGN(const double value, Number(member));
  const auto penalty = static_cast<float>(value);
  if (!std::isfinite(penalty) || penalty <= 0.0f)
    return BadSampling(member, "repetition_penalty is a number above 0, within the range of float32");
  return penalty;
}

Result<std::vector<uint32_t>> Ids(const json::Value& member) {
  if (!member.is_array()) return BadSampling(member, std::string(member.key()) + " is an array of token ids");
  std::vector<uint32_t> ids;
  for (json::Value item : member.children()) {
    const std::optional<uint64_t> id = item.is_number() ? item.AsUint() : std::nullopt;
    if (!id || *id > UINT32_MAX)
      return Fail(MakeError(ErrorCode::kCaseSchema, "a token id is an integer of 32 bits")
                      .At(item.byte_offset())
                      .Field("sampling." + std::string(member.key())));
    ids.push_back(static_cast<uint32_t>(*id));
  }
  return ids;
}

Status ReadMember(const json::Value& member, SamplingOptions* options) {
  constexpr uint64_t kWord = UINT32_MAX;
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  const std::string_view key = member.key();
  if (key == "temperature") {
    SLM_ASSIGN(options->temperature, Number(member));
  } else if (key == "top_p") {
    SLM_ASSIGN(options->top_p, Number(member));
  } else if (key == "min_p") {
    SLM_ASSIGN(options->min_p, Number(member));
  } else if (key == "repetition_penalty") {
    SLM_ASSIGN(options->repetition_penalty, Penalty(member));
  } else if (key == "top_k") {
    SLM_ASSIGN(const uint64_t value, Integer(member, kWord));
    options->top_k = static_cast<uint32_t>(value);
  } else if (key == "repetition_window") {
    SLM_ASSIGN(options->repetition_window, Integer(member, kAny));
  } else if (key == "min_new_tokens") {
    SLM_ASSIGN(options->min_new_tokens, Integer(member, kAny));
  } else if (key == "bans") {
    SLM_ASSIGN(options->bans, Ids(member));
  } else if (key == "seed") {
    SLM_ASSIGN(options->seed, Integer(member, kAny));
  } else if (key == "stream") {
    SLM_ASSIGN(const uint64_t value, Integer(member, kWord));
    options->stream = static_cast<uint32_t>(value);
  } else if (key == "turn") {
    SLM_ASSIGN(const uint64_t value, Integer(member, kWord));
    options->turn = static_cast<uint32_t>(value);
  } else {
    return BadSampling(member, "sampling has no option " + std::string(key));
  }
  return {};
}

cbor::Value DoubleBytes(double value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return cbor::Value(std::move(bytes));
}

}  // namespace

Result<SamplingOptions> ParseSampling(const json::Value& object) {
  if (!object.is_object())
    return Fail(MakeError(ErrorCode::kCaseSchema, "sampling is an object")
                    .At(object.byte_offset())
                    .Field("sampling"));
  SamplingOptions options;
  for (json::Value member : object.children()) SLM_TRY(ReadMember(member, &options));
  return options;
}

void WriteSampling(const SamplingOptions& options, json::Writer& out) {
  out.BeginObject().Key("profile").String(kSamplingProfile);
  out.Key("temperature").Double(options.temperature).Key("top_k").Uint(options.top_k);
  out.Key("top_p").Double(options.top_p).Key("min_p").Double(options.min_p);
  out.Key("repetition_penalty").Double(static_cast<double>(options.repetition_penalty));
  out.Key("repetition_window");
  if (options.repetition_window) {
    out.Uint(*options.repetition_window);
  } else {
    out.Null();
  }
  out.Key("min_new_tokens").Uint(options.min_new_tokens);
  out.Key("bans").BeginArray();
  for (const uint32_t id : options.bans) out.Uint(id);
  out.EndArray();
  out.Key("seed")
      .Uint(options.seed)
      .Key("stream")
      .Uint(options.stream)
      .Key("turn")
      .Uint(options.turn)
      .EndObject();
}

cbor::Map SamplingToCbor(const SamplingOptions& options) {
  cbor::Array bans;
  for (const uint32_t id : options.bans) bans.emplace_back(id);
  Bytes penalty;
  AppendLe(&penalty, std::bit_cast<uint32_t>(options.repetition_penalty));
  cbor::Map map{{"profile", kSamplingProfile},
                {"temperature", DoubleBytes(options.temperature)},
                {"top_k", options.top_k},
                {"top_p", DoubleBytes(options.top_p)},
                {"min_p", DoubleBytes(options.min_p)},
                {"repetition_penalty", cbor::Value(std::move(penalty))},
                {"min_new_tokens", options.min_new_tokens},
                {"bans", std::move(bans)},
                {"seed", options.seed},
                {"stream", options.stream},
                {"turn", options.turn}};
  if (options.repetition_window) map.Set("repetition_window", *options.repetition_window);
  return map;
}

void WriteTrace(const SampleTrace& trace, json::Writer& out) {
  out.BeginObject().Key("token_index").Uint(trace.token_index).Key("id").Uint(trace.id);
  out.Key("n_masked").Uint(trace.n_masked).Key("n_penalized").Uint(trace.n_penalized);
  out.Key("drawn").Bool(trace.drawn);
  if (!trace.drawn) {
    out.EndObject();
    return;
  }
  out.Key("n_after_top_k").Uint(trace.n_after_top_k).Key("n_after_top_p").Uint(trace.n_after_top_p);
  out.Key("n_after_min_p").Uint(trace.n_after_min_p);
  out.Key("survivors").BeginArray();
  for (const Survivor& survivor : trace.survivors)
    out.BeginObject()
        .Key("id")
        .Uint(survivor.id)
        .Key("logit")
        .Double(static_cast<double>(survivor.logit))
        .Key("probability")
        .Double(survivor.probability)
        .EndObject();
  out.EndArray();
  out.Key("mass").Double(trace.mass);
  out.Key("counter").BeginArray();
  for (const uint32_t word : trace.counter) out.Uint(word);
  out.EndArray().Key("key").BeginArray();
  for (const uint32_t word : trace.key) out.Uint(word);
  out.EndArray().Key("draw").Uint(trace.draw).Key("uniform").Double(trace.uniform);
  out.Key("interval").Uint(trace.interval).EndObject();
}

}  // namespace slm::evidence
