#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace slm::tokenizer {
uint64_t Vocabulary::HashOf(std::string_view text) {
  uint64_t hash = 0x2545F4914F6CDD1Du ^ text.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    mix(word);
  }
  uint64_t tail = 0;
  for (; i < text.size(); ++i) tail = (tail << 8) | static_cast<uint8_t>(text[i]);
  mix(tail);
  return hash;
}

void Vocabulary::Reserve(size_t n_entries, size_t n_bytes) {
  bytes_.reserve(n_bytes);
  entries_.reserve(n_entries);
  slots_.assign(std::bit_ceil(n_entries * 2 + 2), Slot{});
}

size_t Vocabulary::SlotOf(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = static_cast<size_t>(hash) & mask;
  while (slots_[slot].entry != kNone &&
         (slots_[slot].tag != tag || entries_[slots_[slot].entry].text != text)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

bool Vocabulary::Add(std::string_view text, uint32_t id) {
  const uint64_t hash = HashOf(text);
  const size_t slot = SlotOf(text, hash);
  if (slots_[slot].entry != kNone) return false;
  const size_t begin = bytes_.size();
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  slots_[slot] = {static_cast<uint32_t>(entries_.size()), static_cast<uint32_t>(hash >> 32)};
  if (id >= by_id_.size()) by_id_.resize(size_t{id} + 1, kNone);
  by_id_[id] = static_cast<uint32_t>(entries_.size());
  entries_.push_back({std::string_view(bytes_.data() + begin, text.size()), id});
  max_id_ = std::max(max_id_, id);
  return true;
}

void Vocabulary::AddOrMove(std::string_view text, uint32_t id) {
  if (Add(text, id)) return;
  const uint32_t entry = slots_[SlotOf(text, HashOf(text))].entry;
  entries_[entry].id = id;
  if (id >= by_id_.size()) by_id_.resize(size_t{id} + 1, kNone);
  by_id_[id] = entry;
  max_id_ = std::max(max_id_, id);
}

std::optional<uint32_t> Vocabulary::Find(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return std::nullopt;
  const uint32_t entry = slots_[SlotOf(text, hash)].entry;
  if (entry == kNone) return std::nullopt;
  return entries_[entry].id;
}

std::optional<std::string_view> Vocabulary::TextOf(uint32_t id) const {
  if (id >= by_id_.size() || by_id_[id] == kNone) return std::nullopt;
  return entries_[by_id_[id]].text;
}

void MergeTable::Reserve(size_t n_merges) {
  slots_.assign(std::bit_ceil(n_merges * 2 + 2), Slot{});
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
}

bool MergeTable::Put(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t key = KeyOf(left, right);
  uint64_t slot = SlotOf(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  const bool fresh = slots_[slot].key == kEmpty;
  slots_[slot] = {key, merge};
  return fresh;
}

std::vector<std::pair<uint32_t, uint32_t>> PartsByCutting(const Vocabulary& vocabulary) {
  std::vector<std::pair<uint32_t, uint32_t>> parts;
  for (const Vocabulary::Entry& entry : vocabulary.entries()) {
    for (size_t at = 1; at < entry.text.size(); ++at) {
      if ((static_cast<uint8_t>(entry.text[at]) & 0xC0) == 0x80) continue;
      const auto left = vocabulary.Find(entry.text.substr(0, at));
      if (!left) continue;
      if (const auto right = vocabulary.Find(entry.text.substr(at))) parts.emplace_back(*left, *right);
    }
  }
  return parts;
}

}  // namespace slm::tokenizer
