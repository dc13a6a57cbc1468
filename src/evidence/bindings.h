// What ties the parts of a promotion to each other: evidence to source and suite, observations to
// artifact and suite, artifact to source. promote refuses what these refuse; verify reports it.
#ifndef SLM_EVIDENCE_BINDINGS_H_
#define SLM_EVIDENCE_BINDINGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "evidence/cases_file.h"
#include "evidence/objects.h"
#include "golden/golden.h"
#include "identity/node.h"
#include "slm_file/artifact.h"

namespace slm::evidence {

// Path (exact bytes) to size, hash and node.
struct FileIdentity {
  uint64_t size = 0;
  Hash256 sha256{};
  Hash256 node{};  // the source-file node
};
using SourceFiles = std::map<Bytes, FileIdentity>;

// The files of an acquisition node, read through its tree.
[[nodiscard]] Result<SourceFiles> FilesOfAcquisition(const ObjectSource& source, const Node& acquisition);

// The artifact was made from these files: each of its source list is there, and its tokenizer is one of
// them, byte for byte. Error: GRAPH-SCHEMA with the path in `field`.
[[nodiscard]] Status CheckFilesOfArtifact(const SourceFiles& files, const Artifact& artifact);
// The artifact names this acquisition (id, name, revision, SPDX expression) and this family profile.
// Error: GRAPH-SCHEMA with the manifest's key in `field`.
[[nodiscard]] Status CheckSourceOfArtifact(const Hash256& acquisition_id, const Node& acquisition,
                                           const Node& family_profile, const Artifact& artifact);
// Every file that the oracle read is in the acquisition with the same bytes, and every file of the
// acquisition that holds weights or configuration was read. Error: GRAPH-SCHEMA with the path in `field`.
[[nodiscard]] Status CheckEvidenceOfSource(const SourceFiles& files, const golden::Golden& evidence);
// The oracle ran exactly this cases file. Error: GRAPH-SCHEMA, field "cases_sha256".
[[nodiscard]] Status CheckEvidenceOfCases(const Hash256& cases_sha256, const golden::Golden& evidence);

// The libraries whose behaviour the artifact's profiles name, each as "NAME VERSION".
struct OraclePin {
  std::string framework;                 // "transformers 5.24.0"
  std::optional<std::string> tokenizer;  // "tokenizers 0.23.3"; absent where the artifact holds no tokenizer
};
// What an artifact's nodes pin; null for a node that is absent.
[[nodiscard]] OraclePin PinOf(const Node* family_profile, const Node* tokenizer);
// The oracle ran these libraries with the settings that its mode asks for: eager attention, deterministic
// algorithms, no reduced precision (TF32) and, for `reference`, float32 (ORA-01, ORA-02).
// Error: GRAPH-SCHEMA with the generator's key in `field`.
[[nodiscard]] Status CheckEvidenceOfPin(const OraclePin& pin, const golden::Golden& evidence);
// Both were exported by the same exporter from the same locked environment. Error: GRAPH-SCHEMA.
[[nodiscard]] Status CheckSameExporter(const golden::Golden& first, const golden::Golden& other);
// The candidate ran this artifact. Error: SLM-ROOT.
[[nodiscard]] Status CheckCandidateOfArtifact(const Hash256& root, const golden::Golden& candidate);

// The container holds exactly these cases, in their order, on their inputs, with a generation where one is
// asked for, and a rendered prompt and its tokens where there is text. Error: GRAPH-SCHEMA, field "cases" or
// the case's id.
[[nodiscard]] Status CheckCasesOfContainer(const std::vector<CaseSpec>& cases,
                                           const golden::Golden& container);
// The candidate's container says that this backend ran this cases file. Error: GRAPH-SCHEMA with the key.
[[nodiscard]] Status CheckCandidateOfBackend(const Node& backend, const Hash256& cases_sha256,
                                             const golden::Golden& candidate);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_BINDINGS_H_
