// Statement files: what a person decided (ACQ-08, CFG-02, LVL-03; schema slm.decision.v1 in
// docs/spec/decisions.md).
//
// The program reads them and never writes one. A statement names the hashes it applies to, which
// the refusal printed; a hash of anything else makes it worthless. Strict JSON, no unknown key.
#ifndef SLM_ACQUIRE_DECISION_H_
#define SLM_ACQUIRE_DECISION_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "identity/node.h"

namespace slm::acquire {

struct Decision {
  std::string kind;  // one of DecisionKinds()
  std::string reviewer;
  std::string reason;
  std::vector<Hash256> applies_to;  // as in the file, at least one, no hash twice
  cbor::Value choice;               // null if the file has none
  Bytes statement;                  // the file, byte for byte
  Hash256 statement_hash{};
  std::string path;  // where it came from; never part of an identity

  [[nodiscard]] bool AppliesTo(const Hash256& hash) const;
  // The choice where it is a text, else empty.
  [[nodiscard]] std::string ChoiceText() const;
};

[[nodiscard]] std::span<const std::string_view> DecisionKinds();

// `display_path` stands in errors. Errors: DECISION-BAD with byte offset and field, or the JSON
// codes.
[[nodiscard]] Result<Decision> ParseDecision(ByteSpan text, const std::string& display_path);

// Reads the file (at most 1 MiB) and parses it. Errors: NOT-FOUND, IO, and those of ParseDecision.
[[nodiscard]] Result<Decision> LoadDecision(const std::string& path);

// The `decision` node; `extra_edges` are the nodes among applies_to (role "conflict"). The
// statement's bytes belong into the store as a blob.
[[nodiscard]] Node DecisionNode(const Decision& decision, std::vector<Edge> extra_edges = {});

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_DECISION_H_
