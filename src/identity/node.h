// Nodes of the identity graph (ID-01, ID-02, ID-03, ID-04, ID-05, ID-06, ID-07, docs/spec/identity.md).
//
// A node's file is its hash preimage:
//   "tinyrustlm-conformance-node-v1" || type || deterministic CBOR map || child ids
// so that `sha256sum FILE` prints the node's id. The map holds `schema` (text) and `edges`
// (array of role names, one for each child, in the children's order).
#ifndef SLM_IDENTITY_NODE_H_
#define SLM_IDENTITY_NODE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"

namespace slm {

inline constexpr std::string_view kNodeDomain = "tinyrustlm-conformance-node-v1";

struct Edge {
  std::string role;  // [a-z0-9_-]+
  Hash256 child;
  friend bool operator==(const Edge&, const Edge&) = default;
};

struct Node {
  std::string type;    // one of NodeTypes()
  cbor::Map metadata;  // without `edges`; EncodeNode adds it
  std::vector<Edge> edges;

  // First child with this role; null if there is none.
  [[nodiscard]] const Hash256* Child(std::string_view role) const;
  [[nodiscard]] std::vector<Hash256> Children(std::string_view role) const;
  friend bool operator==(const Node&, const Node&) = default;
};

// The node types of ID-02.
[[nodiscard]] bool IsNodeType(std::string_view type);
[[nodiscard]] std::span<const std::string_view> NodeTypes();  // sorted

// Whether EncodeNode may be called on a node that came from outside. Errors: NODE-TYPE, NODE-EDGES,
// SCHEMA-MISSING, SCHEMA-TYPE, SCHEMA-NULL, or those of cbor::CheckEncodable.
[[nodiscard]] Status CheckNode(const Node& node);

// The preimage. REQUIRES: a known type, metadata without the key `edges`, and with the key `schema`.
[[nodiscard]] Bytes EncodeNode(const Node& node);

// Strict inverse. Errors: NODE-DOMAIN, NODE-TYPE, NODE-EDGES, or the CBOR codes.
[[nodiscard]] Result<Node> DecodeNode(ByteSpan preimage);

[[nodiscard]] Hash256 NodeId(const Node& node);

// The first key, in the order of the metadata, under which the two hold something else or which one of them
// lacks; nothing where the metadata agree. For messages about a node that was derived again.
[[nodiscard]] std::optional<std::string> FirstDifferentKey(const Node& derived, const Node& recorded);

// Whether a 32-byte string under `key`, at the top of the metadata of a node of this type, is the id of a
// blob (docs/spec/identity.md).
[[nodiscard]] constexpr bool IsBlobKey(std::string_view type, std::string_view key) {
  if (key == "blob" || key.ends_with("_blob")) return true;
  if (type == "acquisition") return key == "profile";
  if (type == "license-decision") return key == "cards_table" || key == "texts_table";
  return type == "decision" && key == "statement";
}

// Every blob that the metadata names: under the keys of IsBlobKey, at any depth under `blob` and `*_blob`,
// and in arrays under `blobs` and `*_blobs`. In order of the metadata; one that stands twice comes twice.
[[nodiscard]] std::vector<Hash256> BlobsOf(const Node& node);

}  // namespace slm

#endif  // SLM_IDENTITY_NODE_H_
