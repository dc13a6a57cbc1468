// What promote, verify, report, observe and mutate share: objects over the store, the running build, and
// the chain from a source to a receipt.
#ifndef SLM_APPS_SLM_CHAIN_H_
#define SLM_APPS_SLM_CHAIN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acquire/acquisition.h"
#include "acquire/decision.h"
#include "base/error.h"
#include "convert/convert.h"
#include "evidence/objects.h"
#include "evidence/promote.h"
#include "evidence/verify.h"
#include "store/store.h"

namespace slm::app {

inline constexpr uint64_t kMaxCasesBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxPolicyBytes = uint64_t{1} << 20;
inline constexpr uint64_t kMaxArtifactBytes = uint64_t{64} << 30;

// The store outlives what these return.
[[nodiscard]] evidence::ObjectSource SourceOver(const Store& store);
// Judges an acquisition of the store again from its files; for evidence::Verify.
[[nodiscard]] evidence::SourceJudge JudgeOver(const Store& store);
[[nodiscard]] evidence::ObjectSink SinkOver(Store& store);

// The one visible node whose id begins with these digits. Errors: NOT-FOUND, USAGE if several match.
[[nodiscard]] Result<Hash256> ResolveNode(const Store& store, const std::string& hex_prefix);

// The store's artifact node of this root, which binds tokenizer, template and source. Error: NOT-FOUND with
// `field`.
struct ArtifactNode {
  Hash256 id;
  Node node;
};
[[nodiscard]] Result<ArtifactNode> FindArtifactNode(const Store& store, const Hash256& root,
                                                    std::string_view field);

// `source` is a directory or could be the id of an acquisition; nothing is opened. Errors: NOT-FOUND,
// UNSUPPORTED for a file, which no source of this version is.
[[nodiscard]] Status CheckSource(const std::string& source);
// For a source that is an acquisition. Error: USAGE where either was given.
[[nodiscard]] Status RefuseNaming(const std::string& name, const std::string& revision);
// Whether this could be the id of a node, or its first digits.
[[nodiscard]] bool LooksLikeId(std::string_view text);

// Streams a file into the store.
[[nodiscard]] Result<Hash256> PutFile(Store& store, const std::string& path);

// Files of an acquisition as conversion reads them: mapped blobs. The store outlives the result.
[[nodiscard]] convert::Source SourceOf(const acquire::Acquisition& acquisition, const Store& store);

// BKD-03 of this very process: the executable that runs is hashed. Error: IO.
[[nodiscard]] Result<evidence::RuntimeBuild> ThisBuild();

// Statements by what they decide.
struct Statements {
  std::vector<std::string> license_paths;          // for acquisition
  std::vector<std::string> accept_conflict_paths;  // for acquisition
  std::vector<acquire::Decision> tokenizer;
  std::vector<acquire::Decision> config_fields;
  std::vector<std::string> config_field_paths;  // of the same; a directory's acquisition takes them
};
[[nodiscard]] Result<Statements> SortStatements(const std::vector<std::string>& paths);

// DECISION-BAD: a statement that nothing in the run asks for is never taken silently.
[[nodiscard]] Error UnneededStatement(const std::string& path);
// An acquisition that is there already asks for no statement about licenses or conflicts.
[[nodiscard]] Status RefuseAcquisitionStatements(const Statements& statements);

// The statements that the acquisition of a directory takes: of licenses and of fields. Those of fields are
// decisions of the acquisition then, and leave `statements`.
[[nodiscard]] std::vector<std::string> TakeAcquisitionPaths(Statements* statements);

// What a person decided at acquisition, as conversion reads it.
[[nodiscard]] convert::Options OptionsOf(const acquire::Acquisition& acquisition);

// A config-field statement applies to the file whose key it calls documentary: applies_to holds the file's
// SHA-256, choice is "config.json:some_key". Error: DECISION-BAD.
[[nodiscard]] Status ApplyConfigFields(const std::vector<acquire::Decision>& decisions,
                                       const acquire::Acquisition& acquisition, ConfigPolicy* policy);

struct ChainRequest {
  std::string source;  // a directory or an acquisition id
  std::string name, revision;
  std::string cases_path, policy_path;
  std::vector<std::string> evidence_paths;
  std::vector<std::string> statement_paths;
  std::string store_directory;  // where the store is
  std::string work_directory;   // for the artifact while it is written
  std::function<void(std::string_view stage, uint64_t done, uint64_t total)> on_progress;  // may be empty
};

struct ChainResult {
  acquire::Acquisition acquisition;
  convert::ConvertResult converted;
  Hash256 artifact_blob{};
  Hash256 observation_blob{};
  evidence::Promotion promotion;
};

// Acquires, settles conflicts, converts, observes, compares and writes the receipt graph; one log record
// at the end. Errors: those of every step; TOK-CONFLICT while the tokenizer's conflict is not settled.
[[nodiscard]] Result<ChainResult> RunChain(Store& store, const ChainRequest& request);

// Re-executes convert and observe of a receipt from the stored bytes and compares hashes. Error:
// RERUN-DIFFERS with the step in `field`.
struct RerunStep {
  std::string step;  // "convert", "observe"
  Hash256 expected{};
  Hash256 actual{};
};
[[nodiscard]] Result<std::vector<RerunStep>> Rerun(const Store& store, const Hash256& receipt,
                                                   const std::string& work_directory);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_CHAIN_H_
