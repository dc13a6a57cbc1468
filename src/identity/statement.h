// Statements: what a person decided (ACQ-08, CFG-02, LVL-03; schema slm.decision.v1 in
// docs/spec/decisions.md).
//
// The program reads them and never writes one. A statement names the hashes it applies to, which
// the refusal printed; a hash of anything else makes it worthless. Strict JSON, no unknown key.
#ifndef SLM_IDENTITY_STATEMENT_H_
#define SLM_IDENTITY_STATEMENT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "identity/node.h"

namespace slm {

inline constexpr uint64_t kMaxStatementBytes = uint64_t{1} << 20;

struct Decision {
  std::string kind;  // one of DecisionKinds()
  std::string reviewer;
  std::string reason;
  std::vector<Hash256> applies_to;  // as in the file, at least one, no hash twice
  cbor::Value choice;               // null if the file has none
  Bytes statement;                  // the file, byte for byte
  Hash256 statement_hash{};
  std::string path;  // display form of where it came from; never part of an identity

  [[nodiscard]] bool AppliesTo(const Hash256& hash) const;
  // The choice where it is a text, else empty.
  [[nodiscard]] std::string ChoiceText() const;
};

[[nodiscard]] std::span<const std::string_view> DecisionKinds();

// `display_path` stands in errors. Errors: DECISION-BAD with byte offset and field, or the JSON
// codes.
[[nodiscard]] Result<Decision> ParseDecision(ByteSpan text, const std::string& display_path);

// The `decision` node; `extra_edges` are the nodes among applies_to (role "conflict"). The
// statement's bytes belong into the store as a blob.
[[nodiscard]] Node DecisionNode(const Decision& decision, std::vector<Edge> extra_edges = {});

// The node says what the statement says, under the edges that the node has; each is among applies_to.
// Errors: those of ParseDecision, DECISION-BAD with the key in `field`.
[[nodiscard]] Status CheckDecisionNode(const Node& node, ByteSpan statement);

}  // namespace slm

#endif  // SLM_IDENTITY_STATEMENT_H_
