// Token texts and ids: both directions, one block of memory. Immutable after Finish, any thread.
#ifndef SLM_TOKENIZER_VOCABULARY_H_
#define SLM_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace slm::tokenizer {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // entries view the bytes
  Vocabulary& operator=(const Vocabulary&) = delete;

  // Call with the number of entries and bytes to come: views stay valid.
  void Reserve(size_t n_entries, size_t n_bytes);
  // False if the text is there already. REQUIRES: within what was reserved.
  [[nodiscard]] bool Add(std::string_view text, uint32_t id);
  // A text that is there already gets the new id; the old one keeps it as its text.
  void AddOrMove(std::string_view text, uint32_t id);

  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] uint32_t max_id() const { return max_id_; }
  [[nodiscard]] std::optional<uint32_t> Find(std::string_view text) const { return Find(text, HashOf(text)); }
  // The same in two steps, for many texts at once: the second one finds in the processor's cache what
  // Prefetch asked for.
  [[nodiscard]] static uint64_t HashOf(std::string_view text);
  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[static_cast<size_t>(hash) & (slots_.size() - 1)]);
  }
  // REQUIRES: `hash` is that of `text`.
  [[nodiscard]] std::optional<uint32_t> Find(std::string_view text, uint64_t hash) const;
  // The text of an id; of several texts with one id, the last that was added.
  [[nodiscard]] std::optional<std::string_view> TextOf(uint32_t id) const;

  struct Entry {
    std::string_view text;
    uint32_t id;
  };
  // In the order of the calls of Add.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  [[nodiscard]] size_t SlotOf(std::string_view text, uint64_t hash) const;

  std::vector<char> bytes_;
  std::vector<Entry> entries_;
  struct Slot {
    uint32_t entry = kNone;  // index into entries_
    uint32_t tag = 0;        // upper half of the hash: few others are looked at
  };
  std::vector<Slot> slots_;      // open addressing
  std::vector<uint32_t> by_id_;  // indices into entries_
  uint32_t max_id_ = 0;
};

// Every pair of entries whose texts, one after the other, are an entry's text: where a model without a list
// of merges may put tokens together. Cuts between characters only.
[[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> PartsByCutting(const Vocabulary& vocabulary);

// (left id, right id) -> (rank, merged id), open addressing.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    uint32_t id;
  };
  void Reserve(size_t n_merges);
  // Asks for the memory that Put of this pair will look at.
  void Prefetch(uint32_t left, uint32_t right) const {
    __builtin_prefetch(&slots_[SlotOf(KeyOf(left, right))], 1);
  }
  // False if the pair is there already; it then gets the new rank and id.
  bool Put(uint32_t left, uint32_t right, Merge merge);
  // Nothing, or a pointer valid while the table lives.
  [[nodiscard]] const Merge* Find(uint32_t left, uint32_t right) const {
    const uint64_t key = KeyOf(left, right);
    for (uint64_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = 0xFFFFFFFFFFFFFFFF;
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };
  [[nodiscard]] static uint64_t KeyOf(uint32_t left, uint32_t right) {
    return (static_cast<uint64_t>(left) << 32) | right;
  }
  [[nodiscard]] uint64_t SlotOf(uint64_t key) const {
    key ^= key >> 29;
    return (key * 0x9E3779B97F4A7C15u) >> shift_;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(2);
  uint64_t mask_ = 1;
  int shift_ = 63;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_VOCABULARY_H_
