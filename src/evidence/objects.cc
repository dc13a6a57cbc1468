#include "evidence/objects.h"

#include "codec/sha256.h"

namespace slm::evidence {
namespace {

Result<Bytes> Lookup(const std::map<Hash256, Bytes>& objects, const Hash256& id) {
  const auto found = objects.find(id);
  if (found == objects.end()) return Fail(ErrorCode::kNotFound, "no object " + ToHex(id));
  return found->second;
}

Status CheckHash(const Bytes& bytes, const Hash256& id) {
  if (Sha256Of(bytes) == id) return {};
  return Fail(
      MakeError(ErrorCode::kFsckHash, "the content of " + ToHex(id) + " has another hash").Field(ToHex(id)));
}

}  // namespace

Result<Bytes> ReadBlob(const ObjectSource& source, const Hash256& id) {
  auto bytes = source.blob(id);
  if (!bytes.has_value()) return Fail(std::move(bytes).error().Field(ToHex(id)));
  SLM_TRY(CheckHash(*bytes, id));
  return bytes;
}

Result<Node> ReadNode(const ObjectSource& source, const Hash256& id) {
  auto bytes = source.node(id);
  if (!bytes.has_value()) {
    return Fail(
        MakeError(ErrorCode::kGraphMissingChild, "node " + ToHex(id) + " is absent").Field(ToHex(id)));
  }
  SLM_TRY(CheckHash(*bytes, id));
  return DecodeNode(*bytes);
}

ObjectSource MemoryObjects::Source() const {
  return {.node = [this](const Hash256& id) { return Lookup(nodes, id); },
          .blob = [this](const Hash256& id) { return Lookup(blobs, id); }};
}

ObjectSink MemoryObjects::Sink() {
  return {.put_node = [this](const Node& node) -> Result<Hash256> {
            const Bytes preimage = EncodeNode(node);
            const Hash256 id = Sha256Of(preimage);
            nodes.emplace(id, preimage);
            return id;
          },
          .put_blob = [this](ByteSpan bytes) -> Result<Hash256> {
            const Hash256 id = Sha256Of(bytes);
            blobs.emplace(id, Bytes(bytes.begin(), bytes.end()));
            return id;
          }};
}

}  // namespace slm::evidence
