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

// Copies what is below a node, unless it is in `without`.
class Collector {
 public:
  Collector(const ObjectSource& source, const MemoryObjects* without) : source_(source), without_(without) {}

  Status Collect(const Hash256& root, MemoryObjects* out) {
    std::vector<Hash256> open = {root};
    while (!open.empty()) {
      const Hash256 id = open.back();
      open.pop_back();
      if (out->nodes.contains(id) || (without_ != nullptr && without_->nodes.contains(id))) continue;
      if (out->nodes.size() >= kMaxGraphNodes)
        return Fail(ErrorCode::kLimit, "the graph is larger than 2^20 nodes");
      SLM_ASSIGN(const Node node, ReadNode(source_, id));
      out->nodes.emplace(id, EncodeNode(node));
      SLM_TRY(CollectBlobs(node, out));
      for (const Edge& edge : node.edges) open.push_back(edge.child);
    }
    return {};
  }

 private:
  Status CollectBlobs(const Node& node, MemoryObjects* out) {
    for (const Hash256& blob : BlobsOf(node)) {
      if (out->blobs.contains(blob) || (without_ != nullptr && without_->blobs.contains(blob))) continue;
      SLM_ASSIGN(Bytes bytes, ReadBlob(source_, blob));
      out->blobs.emplace(blob, std::move(bytes));
    }
    return {};
  }

  const ObjectSource& source_;
  const MemoryObjects* without_;
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
  MemoryObjects without;
  if (base != nullptr) {
    SLM_TRY(Collector(source, nullptr).Collect(*base, &without));
  }
  Bundle bundle;
  bundle.receipt = receipt;
  SLM_TRY(Collector(source, &without).Collect(receipt, &bundle.objects));
  return bundle;
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
