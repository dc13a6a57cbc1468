// The parts of a promotion as they are opened from their blobs; shared by promote, verify and report.
#ifndef SLM_EVIDENCE_RECEIPT_H_
#define SLM_EVIDENCE_RECEIPT_H_

#include <memory>
#include <vector>

#include "base/error.h"
#include "compare/compare.h"
#include "evidence/cases_file.h"
#include "evidence/objects.h"
#include "golden/golden.h"
#include "slm_file/artifact.h"

namespace slm::evidence {

// Opened evidence, in the order given. Owns the containers that `sorted` points into.
struct OpenEvidence {
  std::vector<std::shared_ptr<const golden::Golden>> containers;
  compare::Evidence sorted;
};
[[nodiscard]] Result<OpenEvidence> OpenEvidenceBlobs(const ObjectSource& source,
                                                     const std::vector<Hash256>& blobs);
[[nodiscard]] Result<std::shared_ptr<const golden::Golden>> OpenGoldenBlob(const ObjectSource& source,
                                                                           const Hash256& blob);

// Level name and "truth" to verdict name, as they stand in comparison and promotion nodes.
[[nodiscard]] cbor::Map VerdictsOf(const compare::Comparison& comparison);

// The text parts of an artifact that have nodes of their own.
struct ArtifactParts {
  std::optional<Bytes> tokenizer;
  std::optional<Bytes> template_source;
  std::optional<Bytes> template_ir;
};
[[nodiscard]] ArtifactParts PartsOfArtifact(const Artifact& artifact);

// What a candidate's container must name, known from the artifact and the suite.
[[nodiscard]] Result<compare::Subject> SubjectOf(const Artifact& artifact,
                                                 const std::vector<CaseSpec>& cases);

// The nodes under an artifact's node say what the file says: root, size, configuration, ledger.
// Error: SLM-ROOT, GRAPH-SCHEMA with the key in `field`.
[[nodiscard]] Status CheckArtifactNodes(const Artifact& artifact, const Node& artifact_node,
                                        const Node& config_node, const Node& ledger_node);

// The hash under `key` of a node's metadata; zero if there is none (schemas are checked before).
[[nodiscard]] Hash256 HashOf(const Node& node, std::string_view key);
[[nodiscard]] std::string TextOf(const Node& node, std::string_view key);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_RECEIPT_H_
