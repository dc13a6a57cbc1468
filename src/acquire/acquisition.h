// One acquisition: a source directory becomes files in the store, a license decision, conflict
// receipts and one `acquisition` node (ACQ-02, ACQ-04, ACQ-06, ACQ-07, ACQ-08, ACQ-10, ACQ-12, ACQ-14;
// docs/spec/acquisition.md).
//
// The transaction is atomic: blobs may reach the store before it ends, but nothing is visible
// until the one log record at its end (ACQ-10). The same bytes, name, revision, profile and
// statements give the same id; no time, host or folder name enters any node. Memory is flat
// whatever the size of a weights file. One transaction runs on one thread.
#ifndef SLM_ACQUIRE_ACQUISITION_H_
#define SLM_ACQUIRE_ACQUISITION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/llama.h"
#include "store/store.h"

namespace slm::acquire {

struct Progress {
  std::string_view path;
  uint64_t bytes_done = 0;  // of the whole tree
  uint64_t bytes_total = 0;
};

struct DirectoryRequest {
  std::string directory;
  std::string name;                         // as the caller calls the source; asserted, never checked here
  std::string revision;                     // likewise
  std::string store_directory{};            // of the store, where it could lie in `directory`: left out
  std::string profile_path;                 // empty: the built-in hf-directory-v2
  std::vector<std::string> decision_paths;  // statements of kind "license" or "config-field"
  std::vector<std::string> accept_conflict_paths;  // statements of kind "accept-conflict"
  std::function<void(Progress)> on_progress;
};

struct SourceFile {
  std::string path;
  std::string kind;  // from the profile: "config", "weights", "license-text", ...
  uint64_t size = 0;
  Hash256 blob{};
  Hash256 node{};
};

// What a person chose where the source contradicts itself.
struct ConflictChoice {
  std::string code;   // "CFG-CONFLICT-EOS"
  std::string field;  // "eos_token_id"
  std::string ref;    // the declaration that holds: "config.json#$.eos_token_id"
  Hash256 conflict{};
};

// A key of the tokenizer's files without effect on the chain.
struct IgnoredKey {
  std::string file;
  std::string key;
  std::string value;  // as it stands in the file, cut to 256 bytes
  std::string reason;
};

struct Acquisition {
  Hash256 id{};
  std::string name;
  std::string revision;
  std::vector<SourceFile> files;  // ascending by path
  std::vector<Hash256> conflicts;
  std::vector<Hash256> decisions;
  std::string spdx;
  std::vector<std::string> flags;  // accepted, but worth a record
  Hash256 tree{};
  Hash256 license{};
  std::string redistribution;  // "allowed", "conditional", "forbidden", "by-decision"
  std::vector<ConflictChoice> choices;
  // Keys outside every list that a person called documentary; conversion lets them through.
  std::vector<DocumentaryKey> documentary_keys;
  std::vector<IgnoredKey> ignored_metadata;  // in order of file; of config.json the artifact says it
  // The weights files to read, in order of path: the single file, or the shards of the index.
  std::vector<std::string> weights;
  std::vector<std::string> ignored;  // folders that were left out; not part of any node

  // Null if there is none.
  [[nodiscard]] const SourceFile* Find(std::string_view path) const;
};

// Kinds of statement that an acquisition takes; the others belong to later steps.
[[nodiscard]] bool IsAcquisitionDecision(std::string_view kind);

// Errors: ACQ-*, LFS-*, ST-*, IX-*, LIC-*, CFG-*, TOK-ADDED-ID and TPL-AMBIGUOUS for conflicts,
// CFG-UNKNOWN-FIELD, CFG-UNCLASSIFIED and CFG-VALUE for keys of the configuration and of the tokenizer's
// files, DECISION-BAD, the JSON codes, UTF8 for a chat template, those of the store. A conflict leaves its
// receipt in the store.
[[nodiscard]] Result<Acquisition> AcquireDirectory(Store& store, const DirectoryRequest& request);

// Why an acquisition of the store is not what its own files and statements give.
struct AcquisitionFault {
  std::string part;  // "source", "license" or "conflicts": what the fault concerns
  Error error;
};
// Reads every file again and judges it by the rules of this program: kinds, weights, conflicts, decisions,
// license. Nothing if that gives exactly this node; writes nothing. UNSUPPORTED says that it was judged by
// tables that this program does not carry.
[[nodiscard]] std::optional<AcquisitionFault> JudgeAgain(const Store& store, const Hash256& id);

// From the store. Errors: NOT-FOUND, GRAPH-SCHEMA, and those of Store::GetNode.
[[nodiscard]] Result<Acquisition> LoadAcquisition(const Store& store, const Hash256& id);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_ACQUISITION_H_
