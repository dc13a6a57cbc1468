// Finds a key that stands twice in a large object. Internal to codec/json*.cc.
#ifndef SLM_CODEC_JSON_KEY_SET_H_
#define SLM_CODEC_JSON_KEY_SET_H_

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "codec/json_impl.h"

namespace slm::json {

inline uint32_t HashKey(std::string_view key) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t hash = key.size() * kMultiplier;
  size_t i = 0;
  for (; i + 8 <= key.size(); i += 8) {
    hash = (hash ^ LoadLe<uint64_t>(AsBytes(key).data() + i)) * kMultiplier;
    hash ^= hash >> 29;
  }
  uint64_t tail = 0;
  for (; i < key.size(); ++i) tail = (tail << 8) | static_cast<uint8_t>(key[i]);
  hash = (hash ^ tail) * kMultiplier;
  hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93u;
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// Keys of one large object. A hash table; keys made to collide (the hash is no secret) move it
// to an ordered set, so that the worst case is n log n.
class KeySet {
 public:
  explicit KeySet(const Tape* document) : set_(Less{document}), document_(document) {}

  // False if the key is there already.
  bool Insert(uint32_t key_index) {
    if (is_ordered_) return set_.insert(key_index).second;
    if ((n_keys_ + 1) * 2 > slots_.size()) Grow();
    const std::string_view key = document_->StringAt(key_index);
    const uint32_t hash = HashKey(key);
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(hash) & mask;
    for (size_t n_probes = 0; slots_[at].index != kEmpty; at = (at + 1) & mask) {
      if (slots_[at].hash == hash && document_->StringAt(slots_[at].index) == key) return false;
      if (++n_probes == kMaxProbes) {
        for (const Slot& slot : slots_) {
          if (slot.index != kEmpty) set_.insert(slot.index);
        }
        is_ordered_ = true;
        return set_.insert(key_index).second;
      }
    }
    slots_[at] = {hash, key_index};
    ++n_keys_;
    return true;
  }

  [[nodiscard]] bool is_ordered() const { return is_ordered_; }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  static constexpr size_t kMaxProbes = 128;
  struct Slot {  // small, since most lookups miss the processor's caches
    uint32_t hash;
    uint32_t index;
  };
  struct Less {
    const Tape* document;
    bool operator()(uint32_t a, uint32_t b) const { return document->StringAt(a) < document->StringAt(b); }
  };

  void Grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 4, Slot{0, kEmpty});
    std::swap(old, slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.index == kEmpty) continue;
      size_t at = static_cast<size_t>(slot.hash) & mask;
      while (slots_[at].index != kEmpty) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t n_keys_ = 0;
  std::set<uint32_t, Less> set_;
  bool is_ordered_ = false;
  const Tape* document_;
};

}  // namespace slm::json

#endif  // SLM_CODEC_JSON_KEY_SET_H_
