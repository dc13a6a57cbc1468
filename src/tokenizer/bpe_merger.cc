#include "tokenizer/bpe_merger.h"

#include <bit>
#include <queue>

namespace slm::tokenizer {

BpeMerger::BpeMerger(std::span<const MergeRule> merges, std::span<const uint32_t> first_ids)
    : slots_(std::bit_ceil(merges.size() * 2 + 2), kEmpty), mask_(slots_.size() - 1), merged_(merges.size()) {
  shift_ = 64 - std::countr_zero(slots_.size());
  filter_.assign(slots_.size() / 16 + 1, 0);
  filter_shift_ = 64 - std::countr_zero(std::bit_floor(filter_.size() * 64));
  const auto pair_of = [](const MergeRule& merge) { return (uint64_t{merge.left} << 20) | merge.right; };
  constexpr size_t kAhead = 16;
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    if (rank + kAhead < merges.size()) {
      __builtin_prefetch(&slots_[pair_of(merges[rank + kAhead]) * 0x9E3779B97F4A7C15u >> shift_], 1);
    }
    const MergeRule& merge = merges[rank];
    merged_[rank] = merge.merged;
    const uint64_t pair = pair_of(merge);
    const uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    const uint64_t bit = (hash << 20) >> filter_shift_;
    filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
    uint64_t slot = hash >> shift_;
    while (slots_[slot] != kEmpty && slots_[slot] >> 24 != pair) slot = (slot + 1) & mask_;
    slots_[slot] = (pair << 24) | rank;
  }
  if (first_ids.empty()) return;
  first_ranks_.assign(size_t{256} * 256, kNoRank);
  for (size_t left = 0; left < first_ids.size(); ++left) {
    for (size_t right = 0; right < first_ids.size(); ++right) {
      if (first_ids[left] > kMaxId || first_ids[right] > kMaxId) continue;
      first_ranks_[left << 8 | right] = RankOf(first_ids[left], first_ids[right]);
    }
  }
}

void BpeMerger::MergeLong(std::vector<uint32_t>* ids) const {
  struct Links {
    uint32_t previous;
    uint32_t next;
  };
  std::vector<uint32_t>& s = *ids;
  const auto n = static_cast<uint32_t>(s.size());
  std::vector<Links> links(n);
  std::vector<uint64_t> initial;  // rank, then place: the lowest is taken first
  for (uint32_t i = 0; i < n; ++i) {
    links[i] = {i - 1, i + 1};
    if (i + 1 == n) break;
    const uint32_t rank = RankOf(s[i], s[i + 1]);
    if (rank != kNoRank) initial.push_back((uint64_t{rank} << 32) | i);
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue(std::greater<>{},
                                                                             std::move(initial));
  constexpr uint32_t kGone = 0xFFFFFFFF;
  const auto push = [&](uint32_t left) {
    const uint32_t rank = RankOf(s[left], s[links[left].next]);
    if (rank != kNoRank) queue.push((uint64_t{rank} << 32) | left);
  };
  while (!queue.empty()) {
    const auto rank = static_cast<uint32_t>(queue.top() >> 32);
    const auto at = static_cast<uint32_t>(queue.top());
    queue.pop();
    const uint32_t right = links[at].next;
    if (s[at] == kGone || right == n || RankOf(s[at], s[right]) != rank) continue;  // it has expired
    s[at] = merged_[rank];
    s[right] = kGone;
    links[at].next = links[right].next;
    if (links[at].next != n) {
      links[links[at].next].previous = at;
      push(at);
    }
    if (at != 0) push(links[at].previous);
  }
  std::erase(s, kGone);
}

}  // namespace slm::tokenizer
