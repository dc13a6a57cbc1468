#include "evidence/walk.h"

#include <algorithm>

#include "codec/sha256.h"
#include "evidence/schemas.h"

namespace slm::evidence {

void Walker::Report(const Error& error, const Hash256& id, std::string field) {
  out_->problems.push_back({error.CodeText(), ToHex(id), std::move(field), error.message});
}

bool Walker::Enter(const Hash256& id, const Hash256* parent, const std::string& role) {
  auto bytes = source_.node(id);
  if (!bytes.has_value()) {
    const Hash256& at = parent == nullptr ? id : *parent;
    Report(MakeError(ErrorCode::kGraphMissingChild, "the child " + ToHex(id) + " is absent"), at, role);
    return false;
  }
  out_->n_bytes += bytes->size();
  if (Sha256Of(*bytes) != id)
    Report(MakeError(ErrorCode::kFsckHash, "the node's content has another hash"), id, "");
  auto node = DecodeNode(*bytes);
  if (!node.has_value()) {
    Report(node.error(), id, node.error().field);
    return false;
  }
  if (const Status form = CheckNodeForm(*node); !form.has_value())
    Report(form.error(), id, form.error().field);
  if (parent != nullptr && !ChildTypeFits(out_->nodes.at(*parent), role, node->type)) {
    Report(MakeError(ErrorCode::kGraphSchema, "a child of type " + node->type + " stands under this role"),
           *parent, role);
  }
  CheckBlobs(id, *node);
  ++out_->n_nodes;
  out_->nodes.emplace(id, *std::move(node));
  return true;
}

void Walker::CheckBlobs(const Hash256& id, const Node& node) {
  for (const Hash256& blob : BlobsOf(node)) {
    if (!blobs_done_.insert(blob).second) continue;
    auto bytes = ReadBlob(source_, blob);
    if (!bytes.has_value()) {
      const bool absent = bytes.error().code == ErrorCode::kNotFound;
      Report(absent ? MakeError(ErrorCode::kGraphMissingChild, "the blob " + ToHex(blob) + " is absent")
                    : bytes.error(),
             id, ToHex(blob));
      continue;
    }
    ++out_->n_blobs;
    out_->n_bytes += bytes->size();
  }
}

void Walker::Walk(const Hash256& root) {
  std::vector<Frame> path;
  std::set<Hash256> on_path;
  if (!Enter(root, nullptr, "")) return;
  path.push_back({root});
  on_path.insert(root);
  while (!path.empty()) {
    Frame& frame = path.back();
    const Node& node = out_->nodes.at(frame.id);
    if (frame.next_edge == node.edges.size()) {
      on_path.erase(frame.id);
      path.pop_back();
      continue;
    }
    const Edge& edge = node.edges[frame.next_edge++];
    const Hash256 parent = frame.id;
    if (on_path.contains(edge.child)) {
      Report(MakeError(ErrorCode::kGraphCycle, "the node reaches itself through " + ToHex(edge.child)),
             parent, edge.role);
      continue;
    }
    if (const auto seen = out_->nodes.find(edge.child); seen != out_->nodes.end()) {
      if (!ChildTypeFits(node, edge.role, seen->second.type)) {
        Report(MakeError(ErrorCode::kGraphSchema,
                         "a child of type " + seen->second.type + " stands under this role"),
               parent, edge.role);
      }
      continue;
    }
    if (path.size() >= kMaxGraphDepth || out_->nodes.size() >= kMaxGraphNodes) {
      Report(MakeError(ErrorCode::kLimit, "the graph is deeper than 64 or larger than 2^20 nodes"), parent,
             edge.role);
      continue;
    }
    if (!Enter(edge.child, &parent, edge.role)) continue;
    path.push_back({edge.child});
    on_path.insert(edge.child);
  }
}

}  // namespace slm::evidence
