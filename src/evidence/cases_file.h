// Cases files (docs/spec/cases.md): JSON Lines that the oracle, observe and promote all read.
// Strict: a key that is not listed there is refused. Plain data, any thread.
#ifndef SLM_EVIDENCE_CASES_FILE_H_
#define SLM_EVIDENCE_CASES_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/json.h"
#include "golden/golden.h"

namespace slm::evidence {

// Of a case, a record of a batch, or a command.
inline constexpr uint64_t kMaxNewTokens = uint64_t{1} << 20;

struct CaseSpec {
  std::string id;
  golden::InputKind kind = golden::InputKind::kUtf8;
  Bytes data;                 // as golden.md's input.data
  std::vector<uint32_t> ids;  // of kTokenIds
  golden::CaseClass case_class = golden::CaseClass::kPublicMechanical;
  uint64_t max_new_tokens = 0;
  bool add_special_tokens = true;      // text only
  bool add_generation_prompt = false;  // messages only
  bool stop_at_eos = true;
  uint64_t byte_offset = 0;  // of the record in its cases file
};

// Errors: CASE-SCHEMA with the byte offset in the file and the key in `field`; the JSON codes; LIMIT.
[[nodiscard]] Result<std::vector<CaseSpec>> ParseCases(std::string_view file);

// What went wrong with a case: with its id in the message (and in `field`, where nothing else stands there),
// at its record in the cases file `name`, unless the error is of another file.
[[nodiscard]] Error ErrorOfCase(Error error, const CaseSpec& spec, const std::string& name);

// One record that `run --batch` shares with cases: exactly one of text, ids, messages. `known_more` lists
// keys that the caller reads itself. Error: CASE-SCHEMA.
[[nodiscard]] Result<CaseSpec> ParseCaseInput(const json::Value& record, std::string_view default_id,
                                              const std::vector<std::string_view>& known_more);

// JSON text without blanks, members in their order: the form of messages in golden containers.
[[nodiscard]] std::string CompactJson(const json::Value& value);
// {"role":...,"content":...} in the same form. REQUIRES: well-formed UTF-8.
[[nodiscard]] std::string MessageJson(std::string_view role, std::string_view content);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_CASES_FILE_H_
