// Verifies a promotion receipt from its objects alone.
//
// Everything reachable is re-hashed and checked against its schema; every verdict is recomputed from the
// raw arrays and the policy, and only then compared with what the receipt says. No stored verdict is ever
// an input. Reads through ObjectSource, so it runs wherever the objects are. One call, one thread.
#ifndef SLM_EVIDENCE_VERIFY_H_
#define SLM_EVIDENCE_VERIFY_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "compare/compare.h"
#include "evidence/objects.h"
#include "evidence/promote.h"
#include "identity/node.h"

namespace slm::evidence {

enum class ClaimState : uint8_t { kHolds, kFails, kUnstable, kNotClaimed };
[[nodiscard]] std::string_view ClaimStateName(ClaimState state);  // in JSON: "holds", "not-claimed", ...
[[nodiscard]] std::string_view ClaimStateText(ClaimState state);  // for people: "not claimed"

struct Claim {
  std::string name;  // "graph", "artifact", "L5", "truth", ...
  ClaimState state = ClaimState::kNotClaimed;
  std::string detail;  // one line
  std::string node;    // id of the node that the line is about; hexadecimal
  std::string code;    // of the first failure; empty otherwise
};

// Something that is wrong with the graph.
struct Problem {
  std::string code;
  std::string node;   // id, hexadecimal
  std::string field;  // key, role or blob id
  std::string what;
};

struct Verification {
  Hash256 receipt{};
  uint64_t n_nodes = 0;
  uint64_t n_blobs = 0;
  uint64_t n_bytes = 0;  // of nodes and blobs, all re-hashed
  std::vector<Claim> claims;
  std::vector<Problem> problems;
  std::map<Hash256, Node> nodes;                  // everything that could be read
  std::optional<compare::Comparison> comparison;  // recomputed; absent if something could not be read
  [[nodiscard]] const Claim* Find(std::string_view name) const;
  // Whether all of `names` hold, and with them every claim of integrity that they rest on (all but the
  // levels and truth); with no names, whether nothing fails or is unstable.
  [[nodiscard]] bool Holds(const std::vector<std::string>& names) const;
};

// What the receipt leaves open, and what would settle it (LVL-05).
struct OpenItem {
  std::string what;
  std::string settled_by;
};
struct OpenItemText {
  std::string_view what, settled_by;
};
// The claim of a rerun that the executable that ran again is the one the receipt names.
inline constexpr std::string_view kRerunBuildClaim = "rerun build";
[[nodiscard]] std::vector<OpenItem> OpenItems(const Verification& verification);

// What no verification can show; printed under every result.
inline constexpr std::string_view kTrustedWithoutProof =
    "trusted without proof: SHA-256; that the oracle's machine ran the oracle as its receipt says; that the "
    "named executable made the observations (--rerun shows it again); the publisher's training data and "
    "intentions";

// Why an acquisition does not follow from its own files and statements.
struct SourceFault {
  std::string claim;  // "source", "license" or "conflicts"
  Error error;        // UNSUPPORTED: this program cannot judge it; the claims are then not made
};
// Judges an acquisition again from its files, by the rules of acquisition; nothing if it follows. The
// program gives it, since those rules stand beside this module.
using SourceJudge = std::function<std::optional<SourceFault>(const Hash256& acquisition)>;

// Without `judge`, license and conflicts are not claimed: nothing read the files.
// Fails only if the receipt itself is absent or is no promotion (NOT-FOUND, NODE-TYPE); everything else
// is a problem in the result.
[[nodiscard]] Result<Verification> Verify(const ObjectSource& source, const Hash256& receipt,
                                          const SourceJudge& judge);

// Adds the claim kRerunBuildClaim: `running` is the build that ran the promotion again. Not claimed for
// another executable; fails if the very executable that is named says something else about itself (BKD-03).
void ClaimRerunBuild(const RuntimeBuild& running, Verification* verification);

[[nodiscard]] std::string VerificationToText(const Verification& verification);
// At most `max_problems` of them stand in it; "n_problems" counts all.
[[nodiscard]] std::string VerificationToJson(const Verification& verification,
                                             uint64_t max_problems = UINT64_MAX);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_VERIFY_H_
