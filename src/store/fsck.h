// Checks a store: names against contents, nodes against their graph, the log's chain.
#ifndef SLM_STORE_FSCK_H_
#define SLM_STORE_FSCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace slm {

namespace store {
class Vfs;
}

struct FsckOptions {
  bool quick = false;   // do not hash the blobs' contents
  bool repair = false;  // remove staging garbage, cut a torn log tail; nothing else is touched
};

struct FsckProblem {
  ErrorCode code;
  std::string path_or_id;  // path below the store
  std::string what;
};

struct FsckReport {
  uint64_t n_blobs = 0;
  uint64_t n_nodes = 0;
  uint64_t n_log_records = 0;
  uint64_t n_staging_removed = 0;
  std::vector<FsckProblem> problems;  // empty: the store is clean
  std::vector<std::string> notes;     // what a crash leaves behind, and other harmless facts
};

// Fails only where the store could not be checked. Memory grows with the number of objects, not
// with their sizes.
[[nodiscard]] Result<FsckReport> Fsck(const std::string& directory, const FsckOptions& options = {});
[[nodiscard]] Result<FsckReport> FsckOn(store::Vfs& vfs, const std::string& directory,
                                        const FsckOptions& options = {});

}  // namespace slm

#endif  // SLM_STORE_FSCK_H_
