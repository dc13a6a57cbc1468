#include "evidence/bundle.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codec/cbor.h"
#include "codec/sha256.h"
#include "evidence/walk.h"
#include "identity/node.h"

namespace slm::evidence {
namespace {

constexpr std::string_view kSchema = "slm.bundle.v1";
constexpr cbor::Limits kLimits = {.max_bytes = uint64_t{2} << 30,
                                  .max_depth = 4,
                                  .max_items = (uint64_t{1} << 21) + 16,
                                  .max_string_bytes = uint64_t{2} << 30};

std::unexpected<Error> Bad(std::string_view field, std::string_view what) {
  return Fail(MakeError(ErrorCode::kGraphSchema, "bundle: " + std::string(what)).Field(field));
}

Status ReadObjects(const cbor::Array& array, const std::string& key, std::map<Hash256, Bytes>* out) {
  for (size_t i = 0; i < array.size(); ++i) {
    const Bytes* bytes = array[i].AsByteString();
    const std::string field = key + "[" + std::to_string(i) + "]";
    if (bytes == nullptr) return Bad(field, "a byte string is expected");
    const Hash256 id = Sha256Of(*bytes);
    if (!out->empty() && !(out->rbegin()->first < id))
      return Bad(field, "objects stand in the order of their ids, each once");
    out->emplace_hint(out->end(), id, *bytes);
  }
  return {};
}

cbor::Array ArrayOf(const std::map<Hash256, Bytes>& objects) {
  cbor::Array array;
  array.reserve(objects.size());
  for (const auto& [id, bytes] : objects) array.emplace_back(bytes);
  return array;
}

// Copies what is below a node, each object once.
class Copier {
 public:
  explicit Copier(const ObjectSource& source) : source_(source) {}

  // Without `sink`, what is below `root` is only remembered, and so left out of later copies.
  Status Copy(const Hash256& root, const ObjectSink* sink) {
    std::vector<Hash256> open = {root};
    while (!open.empty()) {
      const Hash256 id = open.back();
      open.pop_back();
      if (nodes_.contains(id)) continue;
      if (nodes_.size() >= kMaxGraphNodes)
        return Fail(ErrorCode::kLimit, "the graph is larger than 2^20 nodes");
      SLM_ASSIGN(const Node node, ReadNode(source_, id));
      nodes_.insert(id);
      for (const Hash256& blob : BlobsOf(node)) {
        if (!blobs_.insert(blob).second || sink == nullptr) continue;
        SLM_ASSIGN(const Bytes bytes, ReadBlob(source_, blob));
        SLM_TRY(sink->put_blob(bytes));
      }
      if (sink != nullptr) SLM_TRY(sink->put_node(node));
      for (const Edge& edge : node.edges) open.push_back(edge.child);
    }
    return {};
  }

 private:
  const ObjectSource& source_;
  std::set<Hash256> nodes_, blobs_;
};

}  // namespace

Result<Bundle> DecodeBundle(ByteSpan bytes) {
  SLM_ASSIGN(const cbor::Value value, cbor::Decode(bytes, kLimits));
  const cbor::Map* map = value.AsMap();
  if (map == nullptr) return Bad("", "a map is expected");
  cbor::Reader reader(*map);
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kSchema) return Bad("schema", "expected schema " + std::string(kSchema));
  Bundle bundle;
  SLM_ASSIGN(bundle.receipt, reader.Hash("receipt"));
  SLM_ASSIGN(const cbor::Array* nodes, reader.ArrayOf("nodes"));
  SLM_ASSIGN(const cbor::Array* blobs, reader.ArrayOf("blobs"));
  SLM_TRY(reader.Finish());
  SLM_TRY(ReadObjects(*nodes, "nodes", &bundle.objects.nodes));
  SLM_TRY(ReadObjects(*blobs, "blobs", &bundle.objects.blobs));
  return bundle;
}

Bytes EncodeBundle(const Bundle& bundle) {
  return cbor::Encode(cbor::Map{{"schema", kSchema},
                                {"receipt", bundle.receipt},
                                {"nodes", ArrayOf(bundle.objects.nodes)},
                                {"blobs", ArrayOf(bundle.objects.blobs)}});
}

Result<Bundle> CollectBundle(const ObjectSource& source, const Hash256& receipt, const Hash256* base) {
  Copier copier(source);
  if (base != nullptr) SLM_TRY(copier.Copy(*base, nullptr));
  Bundle bundle;
  bundle.receipt = receipt;
  const ObjectSink sink = bundle.objects.Sink();
  SLM_TRY(copier.Copy(receipt, &sink));
  return bundle;
}

Status CopyGraph(const ObjectSource& source, const Hash256& root, const ObjectSink& sink) {
  return Copier(source).Copy(root, &sink);
}

ObjectSource Overlay(ObjectSource first, ObjectSource second) {
  const auto both = [](auto one, auto other) {
    return [one = std::move(one), other = std::move(other)](const Hash256& id) -> Result<Bytes> {
      auto found = one(id);
      if (found.has_value() || found.error().code != ErrorCode::kNotFound) return found;
      return other(id);
    };
  };
  return {.node = both(std::move(first.node), std::move(second.node)),
          .blob = both(std::move(first.blob), std::move(second.blob))};
}

}  // namespace slm::evidence
