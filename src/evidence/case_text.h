// What the text half says of a case, in the form in which a container keeps it (docs/spec/golden.md), and the
// JSON in which it goes from the module that has the tokenizer to the one that has the model. Plain data, any
// thread.
#ifndef SLM_EVIDENCE_CASE_TEXT_H_
#define SLM_EVIDENCE_CASE_TEXT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/json.h"
#include "golden/golden.h"

namespace slm::evidence {

struct CaseText {
  std::vector<uint32_t> ids;                                    // of the whole prompt
  std::optional<Bytes> rendered;                                // of messages
  std::optional<std::vector<golden::OwnedInterval>> ownership;  // of `rendered`
  std::optional<golden::Tokenization> tokenization;             // of text and messages
  friend bool operator==(const CaseText&, const CaseText&) = default;
};

// {"ids","rendered": base64,"ownership":[[begin,end,owner]],"tokenization":{"of","add_special_tokens",
// "byte_offsets":[[begin,end]],"scalar_offsets":[[begin,end]],"decoded": base64}}; what does not apply is
// left out. The ids of the tokenization are the case's, its reference is "published".
void WriteCaseText(const CaseText& text, json::Writer& out);
// Error: CASE-SCHEMA with the member's path.
[[nodiscard]] Result<CaseText> ReadCaseText(const json::Value& value);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_CASE_TEXT_H_
