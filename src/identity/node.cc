#include "identity/node.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "codec/sha256.h"

namespace slm {
namespace {

// ID-02, sorted.
constexpr auto kNodeTypes = std::to_array<std::string_view>({
    "acquisition",
    "artifact",
    "attempt",
    "backend-profile",
    "bisection",
    "calibration",
    "case-suite",
    "commitment",
    "comparison",
    "conflict",
    "conversation",
    "decision",
    "drift-observation",
    "effective-config",
    "family-profile",
    "golden-suite",
    "license-decision",
    "observation",
    "oracle-run",
    "promotion",
    "quant-profile",
    "raw-output",
    "run",
    "runtime-build",
    "sampling-profile",
    "secret-scan",
    "signature",
    "source-file",
    "source-tree",
    "statistical-plan",
    "statistical-result",
    "template",
    "tensor-ledger",
    "tokenizer",
    "tolerance-policy",
});
static_assert(std::is_sorted(kNodeTypes.begin(), kNodeTypes.end()));

constexpr size_t kIdBytes = std::tuple_size_v<Hash256>;

bool IsTypeCharacter(uint8_t byte) {
  return (byte >= 'a' && byte <= 'z') || byte == '-';
}

bool IsRole(std::string_view role) {
  return !role.empty() && role.size() <= 64 && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Error EdgeError(uint64_t offset, std::string message) {
  return MakeError(ErrorCode::kNodeEdges, std::move(message)).At(offset).Field("edges");
}

// The roles of `map`'s `edges`, which may not be absent.
Result<std::vector<std::string>> Roles(const cbor::Map& map, uint64_t map_offset) {
  const cbor::Value* edges = map.Find("edges");
  const cbor::Array* array = edges == nullptr ? nullptr : edges->AsArray();
  if (array == nullptr) return Fail(EdgeError(map_offset, "the map needs `edges`, an array of roles"));
  std::vector<std::string> roles;
  roles.reserve(array->size());
  for (const cbor::Value& value : *array) {
    const std::string* role = value.AsTextString();
    if (role == nullptr || !IsRole(*role)) {
      return Fail(EdgeError(map_offset, "a role is text of 1 to 64 characters of [a-z0-9_-]"));
    }
    roles.push_back(*role);
  }
  return roles;
}

}  // namespace

const Hash256* Node::Child(std::string_view role) const {
  for (const Edge& edge : edges) {
    if (edge.role == role) return &edge.child;
  }
  return nullptr;
}

std::vector<Hash256> Node::Children(std::string_view role) const {
  std::vector<Hash256> children;
  for (const Edge& edge : edges) {
    if (edge.role == role) children.push_back(edge.child);
  }
  return children;
}

bool IsNodeType(std::string_view type) {
  return std::binary_search(kNodeTypes.begin(), kNodeTypes.end(), type);
}

std::span<const std::string_view> NodeTypes() {
  return kNodeTypes;
}

Status CheckNode(const Node& node) {
  if (!IsNodeType(node.type)) {
    return Fail(
        MakeError(ErrorCode::kNodeType, "the node type is not one of the standard's").Field(node.type));
  }
  if (node.metadata.Find("edges") != nullptr) {
    return Fail(MakeError(ErrorCode::kNodeEdges, "the key `edges` is made from the edges").Field("edges"));
  }
  for (const Edge& edge : node.edges) {
    if (!IsRole(edge.role)) {
      return Fail(MakeError(ErrorCode::kNodeEdges, "a role is text of 1 to 64 characters of [a-z0-9_-]")
                      .Field("edges"));
    }
  }
  SLM_TRY(cbor::Reader(node.metadata).Text("schema"));
  return cbor::CheckEncodable(node.metadata);
}

Bytes EncodeNode(const Node& node) {
  assert(IsNodeType(node.type));
  assert(node.metadata.Find("edges") == nullptr && node.metadata.Find("schema") != nullptr);
  cbor::Array roles;
  roles.reserve(node.edges.size());
  for (const Edge& edge : node.edges) {
    assert(IsRole(edge.role));
    roles.emplace_back(edge.role);
  }
  cbor::Map map = node.metadata;
  map.Set("edges", std::move(roles));
  const Bytes encoded_map = cbor::Encode(std::move(map));

  Bytes preimage;
  preimage.reserve(kNodeDomain.size() + node.type.size() + encoded_map.size() + kIdBytes * node.edges.size());
  const ByteSpan domain = AsBytes(kNodeDomain);
  const ByteSpan type = AsBytes(node.type);
  preimage.insert(preimage.end(), domain.begin(), domain.end());
  preimage.insert(preimage.end(), type.begin(), type.end());
  preimage.insert(preimage.end(), encoded_map.begin(), encoded_map.end());
  for (const Edge& edge : node.edges) preimage.insert(preimage.end(), edge.child.begin(), edge.child.end());
  return preimage;
}

Result<Node> DecodeNode(ByteSpan preimage) {
  if (!AsText(preimage).starts_with(kNodeDomain)) {
    return Fail(MakeError(ErrorCode::kNodeDomain, "a node starts with its domain string").At(0));
  }
  const size_t type_offset = kNodeDomain.size();
  size_t map_offset = type_offset;
  while (map_offset < preimage.size() && IsTypeCharacter(preimage[map_offset])) ++map_offset;
  Node node;
  node.type = AsText(preimage.subspan(type_offset, map_offset - type_offset));
  if (!IsNodeType(node.type)) {
    return Fail(
        MakeError(ErrorCode::kNodeType, "the node type is not one of the standard's").At(type_offset));
  }

  size_t map_size = 0;
  auto value = cbor::DecodePrefix(preimage.subspan(map_offset), &map_size);
  if (!value.has_value()) {
    Error error = std::move(value).error();
    error.byte_offset = map_offset + error.byte_offset.value_or(0);
    return Fail(std::move(error));
  }
  const cbor::Map* map = value->AsMap();
  if (map == nullptr) {
    return Fail(MakeError(ErrorCode::kSchemaType, "a node's metadata is a map").At(map_offset));
  }
  auto schema = cbor::Reader(*map).Text("schema");
  if (!schema.has_value()) return Fail(std::move(schema).error().At(map_offset));
  SLM_ASSIGN(const std::vector<std::string> roles, Roles(*map, map_offset));

  const ByteSpan children = preimage.subspan(map_offset + map_size);
  if (children.size() != kIdBytes * roles.size()) {
    return Fail(EdgeError(map_offset + map_size, "the bytes after the map are not 32 for each edge"));
  }
  for (size_t i = 0; i < roles.size(); ++i) {
    Edge edge{roles[i], {}};
    std::copy_n(children.begin() + static_cast<ptrdiff_t>(kIdBytes * i), kIdBytes, edge.child.begin());
    node.edges.push_back(std::move(edge));
  }
  for (const auto& [key, member] : *map) {
    if (key != "edges") node.metadata.Set(key, member);
  }
  return node;
}

Hash256 NodeId(const Node& node) {
  return Sha256Of(EncodeNode(node));
}

namespace {

void AppendHash(const cbor::Value& value, std::vector<Hash256>* out) {
  const uint8_t* bytes = value.AsHash();
  if (bytes == nullptr) return;
  Hash256 hash;
  std::copy_n(bytes, hash.size(), hash.begin());
  out->push_back(hash);
}

void CollectBlobs(std::string_view type, const cbor::Map& map, std::vector<Hash256>* out);

// Recursion is bounded by the depth of CBOR.
void CollectBelow(const cbor::Value& value, std::vector<Hash256>* out) {
  if (const cbor::Map* map = value.AsMap()) CollectBlobs("", *map, out);
  if (const cbor::Array* array = value.AsArray()) {
    for (const cbor::Value& element : *array) CollectBelow(element, out);
  }
}

void CollectBlobs(std::string_view type, const cbor::Map& map, std::vector<Hash256>* out) {
  for (const auto& [key, value] : map) {
    const std::string_view name = key;
    if (IsBlobKey(type, name)) AppendHash(value, out);
    const cbor::Array* array = value.AsArray();
    if (array != nullptr && (name == "blobs" || name.ends_with("_blobs"))) {
      for (const cbor::Value& element : *array) AppendHash(element, out);
    }
    CollectBelow(value, out);
  }
}

}  // namespace

std::optional<std::string> FirstDifferentKey(const Node& derived, const Node& recorded) {
  for (const auto& [key, value] : derived.metadata) {
    const cbor::Value* held = recorded.metadata.Find(key);
    if (held == nullptr || *held != value) return std::string(key);
  }
  for (const auto& [key, value] : recorded.metadata) {
    if (derived.metadata.Find(key) == nullptr) return std::string(key);
  }
  return std::nullopt;
}

std::vector<Hash256> BlobsOf(const Node& node) {
  std::vector<Hash256> out;
  CollectBlobs(node.type, node.metadata, &out);
  return out;
}

}  // namespace slm
