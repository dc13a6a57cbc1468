// What a record of run asks for (docs/spec/cli.md, "Batches"). Plain data, any thread.
#ifndef SLM_RECORDS_RUN_REQUEST_H_
#define SLM_RECORDS_RUN_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codec/json.h"
#include "evidence/cases_file.h"
#include "runtime/session.h"
#include "sampler/sampler.h"

namespace slm::records {

inline constexpr uint64_t kDefaultNewTokens = 128;  // of a record that does not say, and of the command

// One request: a prompt and how to go on from it.
struct Request {
  evidence::CaseSpec spec;
  std::vector<uint32_t> stop_ids;
  std::vector<std::string> stop;
  SamplingOptions sampling;
  LogitRows logits = LogitRows::kNone;
  bool trace = false;
  bool kv = false;  // whether the answer holds the hash of the key/value cache
};

// Errors: CASE-SCHEMA with the byte offset in the record, SCHEMA-UNKNOWN-KEY.
[[nodiscard]] Result<Request> ParseRequest(const json::Value& record);

}  // namespace slm::records

#endif  // SLM_RECORDS_RUN_REQUEST_H_
