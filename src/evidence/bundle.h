// A receipt that travels: its objects in one file, `slm.bundle.v1` (docs/spec/promotion.md, 6). Plain data,
// any thread; nothing in a bundle is believed, whoever reads the objects hashes them again.
#ifndef SLM_EVIDENCE_BUNDLE_H_
#define SLM_EVIDENCE_BUNDLE_H_

#include "base/bytes.h"
#include "base/error.h"
#include "evidence/objects.h"

namespace slm::evidence {

struct Bundle {
  Hash256 receipt{};
  MemoryObjects objects;
};

// Errors: the CBOR codes; GRAPH-SCHEMA with the key for another form, or for objects that do not stand in the
// order of their ids. Bounds: 2 GiB, 2^21 objects.
[[nodiscard]] Result<Bundle> DecodeBundle(ByteSpan bytes);
[[nodiscard]] Bytes EncodeBundle(const Bundle& bundle);

// Everything that the receipt reaches; with `base`, a node, less what that one reaches: who has it already
// needs the rest only. Errors: NOT-FOUND, GRAPH-MISSING-CHILD, FSCK-HASH, the node codes, LIMIT.
[[nodiscard]] Result<Bundle> CollectBundle(const ObjectSource& source, const Hash256& receipt,
                                           const Hash256* base = nullptr);

// Puts `root` and everything below it into `sink`. Errors: those of CollectBundle and of the sink.
[[nodiscard]] Status CopyGraph(const ObjectSource& source, const Hash256& root, const ObjectSink& sink);

// Reads from `first`, and what that lacks from `second`.
[[nodiscard]] ObjectSource Overlay(ObjectSource first, ObjectSource second);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_BUNDLE_H_
