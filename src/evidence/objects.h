// How evidence reads and writes objects, without knowing where they are kept: the store natively, a map
// in tests, fetched bundles in a browser. Whoever reads re-hashes; a source is never trusted.
#ifndef SLM_EVIDENCE_OBJECTS_H_
#define SLM_EVIDENCE_OBJECTS_H_

#include <functional>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "identity/node.h"

namespace slm::evidence {

// Blobs and nodes live apart (ID-01). Either function answers NOT-FOUND for an object it does not have.
struct ObjectSource {
  std::function<Result<Bytes>(const Hash256&)> node;  // the preimage
  std::function<Result<Bytes>(const Hash256&)> blob;
};

struct ObjectSink {
  std::function<Result<Hash256>(const Node&)> put_node;
  std::function<Result<Hash256>(ByteSpan)> put_blob;
};

// Reads a blob and re-hashes it. Errors: NOT-FOUND, FSCK-HASH.
[[nodiscard]] Result<Bytes> ReadBlob(const ObjectSource& source, const Hash256& id);
// Reads a node, re-hashes and decodes it. Errors: GRAPH-MISSING-CHILD, FSCK-HASH, the node codes.
[[nodiscard]] Result<Node> ReadNode(const ObjectSource& source, const Hash256& id);

// Objects in memory. One thread at a time.
class MemoryObjects {
 public:
  [[nodiscard]] ObjectSource Source() const;
  [[nodiscard]] ObjectSink Sink();

  std::map<Hash256, Bytes> nodes;
  std::map<Hash256, Bytes> blobs;
};

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_OBJECTS_H_
