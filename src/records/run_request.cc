#include "records/run_request.h"

#include <utility>

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

}  // namespace slm::records
