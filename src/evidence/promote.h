// Writes the receipt graph of a promotion (docs/spec/promotion.md).
//
// Takes what acquisition, conversion and observation left behind, checks that the parts belong together,
// compares, and writes the nodes. No clock and no machine name enters: the same input gives the same
// receipt id. A promotion whose claims fail is written too, with its verdicts; it stays retrievable.
#ifndef SLM_EVIDENCE_PROMOTE_H_
#define SLM_EVIDENCE_PROMOTE_H_

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/cbor.h"
#include "compare/compare.h"
#include "evidence/build_nodes.h"
#include "evidence/objects.h"

namespace slm::evidence {

struct PromotionParts {
  Hash256 acquisition{};           // node
  Hash256 license_decision{};      // node
  std::vector<Hash256> conflicts;  // nodes, settled by `decisions`
  std::vector<Hash256> decisions;  // nodes
  Hash256 artifact_node{};         // the file it names is a blob, the nodes below it are there
  Bytes policy_json;
  Bytes cases;
  std::vector<Hash256> evidence_blobs;  // golden containers; none: nothing but L0 is claimed
  Hash256 observation_blob{};           // golden container of the candidate
  RuntimeBuild build;
  Backend backend;
  std::optional<cbor::Map> engine;  // of a browser: what it said of itself (browser_run.h)
};

// What another promotion of the same artifact, suite, evidence and policy starts from: everything but
// observation, build, backend and engine, which are left empty. Errors: NODE-TYPE for what is no promotion,
// GRAPH-MISSING-CHILD, NOT-FOUND, FSCK-HASH.
[[nodiscard]] Result<PromotionParts> PartsOfPromotion(const ObjectSource& source, const Hash256& promotion);

struct Promotion {
  Hash256 receipt{};
  std::vector<Hash256> nodes;      // all that were written, children before parents
  compare::Comparison comparison;  // without evidence: L0 alone
  // Every claimed level and the truth rule hold.
  [[nodiscard]] bool Holds() const;
};

// Errors: GRAPH-SCHEMA for evidence of another source or suite, SLM-ROOT for observations of another
// artifact, GRAPH-POLICY for a changed policy under a shipped name, and those of the parts' own readers.
[[nodiscard]] Result<Promotion> WritePromotion(const ObjectSource& source, const ObjectSink& sink,
                                               const PromotionParts& parts);

// A policy under the name and version of one that ships with this program is that one (TOL-03).
// Error: GRAPH-POLICY, field "blob".
[[nodiscard]] Status CheckPolicyName(const compare::Policy& policy);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_PROMOTE_H_
