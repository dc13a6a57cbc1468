// Internal to src/evidence: walks a graph, re-hashes it, and collects what is wrong.
#ifndef SLM_EVIDENCE_WALK_H_
#define SLM_EVIDENCE_WALK_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "evidence/objects.h"
#include "evidence/verify.h"

namespace slm::evidence {

inline constexpr uint64_t kMaxGraphDepth = 64;
inline constexpr uint64_t kMaxGraphNodes = uint64_t{1} << 20;

// Visits each node once. A cycle can only be forged (some node's bytes do not match its id), so both
// faults are reported.
class Walker {
 public:
  Walker(const ObjectSource& source, Verification* verification) : source_(source), out_(verification) {}
  void Walk(const Hash256& root);

 private:
  struct Frame {
    Hash256 id;
    size_t next_edge = 0;
  };
  // Reads, checks and remembers a node. False if it cannot be followed.
  bool Enter(const Hash256& id, const Hash256* parent, const std::string& role);
  void CheckBlobs(const Hash256& id, const Node& node);
  void Report(const Error& error, const Hash256& id, std::string field);

  const ObjectSource& source_;
  Verification* out_;
  std::set<Hash256> blobs_done_;
};

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_WALK_H_
