// The merges of byte pair encoding over rows of ids, for the fast path: the pair of the lowest rank
// first, the leftmost of equal ones, as BpeModel without a prefix does it (bpe.h).
//
// Immutable after construction, any thread may use one.
#ifndef SLM_TOKENIZER_BPE_MERGER_H_
#define SLM_TOKENIZER_BPE_MERGER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/bpe.h"

namespace slm::tokenizer {

class BpeMerger {
 public:
  // Rows of at most this many ids are merged by looking through all pairs each time.
  static constexpr size_t kMaxShort = 64;
  static constexpr uint32_t kMaxId = (1u << 20) - 1;
  static constexpr uint32_t kMaxRank = (1u << 23) - 1;

  // `merges` in order of rank; of a pair that stands twice the last one counts. `first_ids`: ids whose
  // pairs are looked up often and at once, at most 256 (the bytes of a byte-level vocabulary), or empty.
  // REQUIRES: ids up to kMaxId, ranks up to kMaxRank.
  BpeMerger(std::span<const MergeRule> merges, std::span<const uint32_t> first_ids);

  // Merges ids[0, n) in place and returns how many are left. REQUIRES: n <= kMaxShort.
  [[nodiscard]] size_t MergeShort(uint32_t* ids, size_t n) const { return Merge(ids, n, Pairs{this}); }
  // The same for ids that are first_ids[bytes[i]].
  [[nodiscard]] size_t MergeBytes(const uint8_t* bytes, uint32_t* ids, size_t n) const {
    return Merge(ids, n, BytePairs{this, bytes});
  }
  // The same for any number, in time n log n.
  void MergeLong(std::vector<uint32_t>* ids) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static constexpr uint32_t kNoRank = (1u << 24) - 1;
  static constexpr int32_t kNever = INT32_MAX;

  [[nodiscard]] uint32_t RankOf(uint32_t left, uint32_t right) const {
    const uint64_t pair = (uint64_t{left} << 20) | right;
    const uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    const uint64_t bit = (hash << 20) >> filter_shift_;
    if ((filter_[bit >> 6] >> (bit & 63) & 1) == 0) return kNoRank;
    for (uint64_t slot = hash >> shift_;; slot = (slot + 1) & mask_) {
      const uint64_t found = slots_[slot];
      if (found >> 24 == pair) return found & 0xFFFFFF;
      if (found == kEmpty) return kNoRank;
    }
  }
  // What is compared to find the next merge: the rank, then the place.
  [[nodiscard]] static int32_t OrderOf(uint32_t rank, size_t at) {
    return rank == kNoRank ? kNever : static_cast<int32_t>((rank << 6) | static_cast<uint32_t>(at));
  }
  struct Pairs {
    const BpeMerger* merger;
    [[nodiscard]] uint32_t First(const uint32_t* ids, size_t i) const {
      return merger->RankOf(ids[i], ids[i + 1]);
    }
  };
  struct BytePairs {
    const BpeMerger* merger;
    const uint8_t* bytes;
    [[nodiscard]] uint32_t First(const uint32_t*, size_t i) const {
      return merger->first_ranks_[size_t{bytes[i]} << 8 | bytes[i + 1]];
    }
  };
  template <typename First>
  size_t Merge(uint32_t* ids, size_t n, const First& first) const;

  std::vector<uint64_t> slots_;  // open addressing: left id, right id (20 bits each), rank (24)
  uint64_t mask_;
  int shift_;
  std::vector<uint64_t> filter_;  // a bit for each hash: most pairs have none, and are not looked up
  int filter_shift_;
  std::vector<uint32_t> merged_;       // by rank
  std::vector<uint32_t> first_ranks_;  // by place among the first ids of left and right, 256 each
};

template <typename First>
size_t BpeMerger::Merge(uint32_t* ids, size_t n, const First& first) const {
  std::array<int32_t, kMaxShort> order;
  const size_t n_padded = (n + 7) & ~size_t{7};
  int32_t best = kNever;
  for (size_t i = 0; i + 1 < n; ++i) {
    order[i] = OrderOf(first.First(ids, i), i);
    best = order[i] < best ? order[i] : best;
  }
  for (size_t i = n == 0 ? 0 : n - 1; i < n_padded; ++i) order[i] = kNever;
  uint64_t live = n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  while (best != kNever) {
    const size_t at = static_cast<size_t>(best) & 63;
    const uint64_t after = live & ~(~uint64_t{0} >> (63 - at));
    const auto right = static_cast<size_t>(__builtin_ctzll(after));
    ids[at] = merged_[static_cast<uint32_t>(best) >> 6];
    live &= ~(uint64_t{1} << right);
    order[right] = kNever;
    const uint64_t rest = after & (after - 1);
    const uint64_t before = live & ((uint64_t{1} << at) - 1);
    order[at] =
        rest == 0 ? kNever : OrderOf(RankOf(ids[at], ids[static_cast<size_t>(__builtin_ctzll(rest))]), at);
    if (before != 0) {
      const auto left = static_cast<size_t>(63 - __builtin_clzll(before));
      order[left] = OrderOf(RankOf(ids[left], ids[at]), left);
    }
    best = kNever;
    for (size_t i = 0; i < n_padded; ++i) best = order[i] < best ? order[i] : best;
  }
  size_t n_left = 0;
  for (; live != 0; live &= live - 1) ids[n_left++] = ids[static_cast<size_t>(__builtin_ctzll(live))];
  return n_left;
}

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_BPE_MERGER_H_
