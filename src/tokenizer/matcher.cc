#include "tokenizer/matcher.h"

#include <bit>

namespace slm::tokenizer {

uint32_t Matcher::Child(uint32_t node, uint8_t byte) const {
  if (node == 0) return root_[byte] == 0 ? kNone : root_[byte];
  if (edge_slots_.empty()) {
    for (uint32_t e = nodes_[node].first_edge; e != kNone; e = edges_[e].next) {
      if (edges_[e].byte == byte) return edges_[e].to;
    }
    return kNone;
  }
  const uint64_t mask = edge_slots_.size() - 1;
  for (uint64_t slot = SlotOf(node, byte);; slot = (slot + 1) & mask) {
    const uint32_t e = edge_slots_[slot];
    if (e == kNone) return kNone;
    if (edge_parents_[e] == node && edges_[e].byte == byte) return edges_[e].to;
  }
}

uint64_t Matcher::SlotOf(uint32_t node, uint8_t byte) const {
  const uint64_t key = (static_cast<uint64_t>(node) << 8) | byte;
  return (key * 0x9E3779B97F4A7C15u) >> (64 - std::countr_zero(edge_slots_.size()));
}

uint32_t Matcher::AddChild(uint32_t node, uint8_t byte) {
  const auto child = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(Node{.depth = nodes_[node].depth + 1});
  edges_.push_back(Edge{.to = child, .next = nodes_[node].first_edge, .byte = byte});
  edge_parents_.push_back(node);
  nodes_[node].first_edge = static_cast<uint32_t>(edges_.size() - 1);
  if (node == 0) root_[byte] = child;
  return child;
}

bool Matcher::Add(std::string_view pattern, uint32_t value) {
  if (pattern.empty()) return false;
  uint32_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<uint8_t>(c);
    const uint32_t child = Child(node, byte);
    node = child == kNone ? AddChild(node, byte) : child;
  }
  if (nodes_[node].value != kNone) return false;
  nodes_[node].value = value;
  return true;
}

void Matcher::BuildTable() {
  edge_slots_.assign(std::bit_ceil(edges_.size() * 2 + 2), kNone);
  const uint64_t mask = edge_slots_.size() - 1;
  for (uint32_t e = 0; e < edges_.size(); ++e) {
    uint64_t slot = SlotOf(edge_parents_[e], edges_[e].byte);
    while (edge_slots_[slot] != kNone) slot = (slot + 1) & mask;
    edge_slots_[slot] = e;
  }
}

void Matcher::Build() {
  BuildTable();
  std::vector<uint32_t> queue = {0};
  for (size_t head = 0; head < queue.size(); ++head) {
    const uint32_t node = queue[head];
    for (uint32_t e = nodes_[node].first_edge; e != kNone; e = edges_[e].next) {
      const uint32_t child = edges_[e].to;
      uint32_t fail = nodes_[node].fail;
      while (node != 0 && Child(fail, edges_[e].byte) == kNone && fail != 0) fail = nodes_[fail].fail;
      const uint32_t target = node == 0 ? kNone : Child(fail, edges_[e].byte);
      nodes_[child].fail = target == kNone ? 0 : target;
      queue.push_back(child);
    }
    nodes_[node].longest_suffix =
        nodes_[node].value != kNone ? node : (node == 0 ? kNone : nodes_[nodes_[node].fail].longest_suffix);
  }
}

std::optional<Matcher::Match> Matcher::Find(std::string_view text, size_t from) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = from; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (node == 0) {  // no match can be pending here
      while (root_[static_cast<uint8_t>(text[i])] == 0) {
        if (++i == text.size()) return best;
      }
      node = root_[static_cast<uint8_t>(text[i])];
    } else {
      uint32_t child = Child(node, byte);
      while (child == kNone && node != 0) {
        node = nodes_[node].fail;
        child = Child(node, byte);
      }
      node = child == kNone ? 0 : child;
    }
    // Text that could still extend an earlier start is gone: the pending match stands.
    if (best && (node == 0 || i + 1 - nodes_[node].depth > best->begin)) return best;
    const uint32_t suffix = nodes_[node].longest_suffix;
    if (suffix == kNone) continue;
    const size_t begin = i + 1 - nodes_[suffix].depth;
    if (!best || begin <= best->begin) best = Match{begin, i + 1, nodes_[suffix].value};
  }
  return best;
}

}  // namespace slm::tokenizer
