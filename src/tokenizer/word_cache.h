// What words became: a table of bounded size from the bytes of a word to its ids, for words that come
// again. What it holds never changes a result, only how soon it is there.
//
// Belongs to one thread at a time.
#ifndef SLM_TOKENIZER_WORD_CACHE_H_
#define SLM_TOKENIZER_WORD_CACHE_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace slm::tokenizer {

class WordCache {
 public:
  // A short word is its own key; of a long one the key holds a hash, and its bytes lie in the store.
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
    uint64_t hash = 0;
  };
  // Of one text there may be several results: as a word, as a window of a longer word, and as a word with
  // the places of its tokens.
  enum class Kind : uint8_t { kWord = 0, kWindow = 0x80, kPlaces = 0x20 };
  static constexpr size_t kMaxShort = 15;   // bytes
  static constexpr size_t kMaxBytes = 512;  // longer words are not kept
  static constexpr size_t kInline = 3;      // ids that an entry holds itself

  WordCache();

  // REQUIRES: 0 < size. `readable` bytes from `word` on may be read.
  [[nodiscard]] static Key KeyOf(const char* word, size_t size, size_t readable, Kind kind) {
    Key key;
    if (size <= kMaxShort) {
      if (readable >= 16) {
        std::memcpy(&key.low, word, 8);
        std::memcpy(&key.high, word + 8, 8);
        if (size <= 8) {
          key.low &= ~uint64_t{0} >> (64 - 8 * size);
          key.high = 0;
        } else {
          key.high &= ~uint64_t{0} >> (128 - 8 * size);
        }
      } else {
        char bytes[16] = {};
        std::memcpy(bytes, word, size);
        std::memcpy(&key.low, bytes, 8);
        std::memcpy(&key.high, bytes + 8, 8);
      }
      key.high |= uint64_t{size} << 56;
    } else {
      key.low = HashBytes(word, size);
      key.high = (uint64_t{0x40} << 56) | size;
    }
    key.high |= uint64_t{static_cast<uint8_t>(kind)} << 56;
    key.hash = HashKey(key.low, key.high);
    return key;
  }

  void Prefetch(const Key& key) const { __builtin_prefetch(&entries_[SlotOf(key.hash)]); }

  // The ids of a word, if they are kept; valid until the next Insert. kInline ids may be read from the
  // start in any case.
  [[nodiscard]] std::span<const uint32_t> Find(const Key& key, std::string_view word) const {
    for (size_t slot = SlotOf(key.hash);; slot = (slot + 1) & (entries_.size() - 1)) {
      const Entry& entry = entries_[slot];
      if (entry.high == 0) return {};
      if (entry.low != key.low || entry.high != key.high) continue;
      if (word.size() <= kMaxShort) {
        if (entry.n_ids <= kInline) return {entry.ids, entry.n_ids};
        return {store_.data() + entry.ids[0], entry.n_ids};
      }
      const uint32_t* at = store_.data() + entry.ids[0];
      if (std::memcmp(at, word.data(), word.size()) == 0) return {at + (word.size() + 3) / 4, entry.n_ids};
    }
  }

  // REQUIRES: not there; size at most kMaxBytes.
  void Insert(const Key& key, std::string_view word, std::span<const uint32_t> ids);

 private:
  // The table doubles when half of it is in use, up to 32 MiB (2 MiB in WebAssembly); then it begins anew.
  static constexpr int kMinBits = 12;
#ifdef __wasm__
  static constexpr int kMaxBits = 16;
#else
  static constexpr int kMaxBits = 20;
#endif
  static constexpr size_t kStoreWords = size_t{1} << (kMaxBits + 2);
  struct alignas(32) Entry {  // two in a line of memory
    uint64_t low = 0;
    uint64_t high = 0;  // never 0 once it is set
    uint32_t n_ids = 0;
    uint32_t ids[kInline] = {};  // or the place in store_, of the bytes and then the ids
  };
  [[nodiscard]] static uint64_t HashKey(uint64_t low, uint64_t high) {
    uint64_t hash = (low ^ (high * 0xD6E8FEB86659FD93u)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    return hash * 0x9E3779B97F4A7C15u;
  }
  [[nodiscard]] size_t SlotOf(uint64_t hash) const { return static_cast<size_t>(hash >> shift_); }
  [[nodiscard]] static uint64_t HashBytes(const char* word, size_t size) {
    uint64_t hash = size;
    for (; size >= 8; word += 8, size -= 8) {
      uint64_t part = 0;
      std::memcpy(&part, word, 8);
      hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    std::memcpy(&rest, word, size);
    hash = (hash ^ rest) * 0xD6E8FEB86659FD93u;
    return hash ^ (hash >> 32);
  }
  void Put(const Entry& entry);
  void Resize(int n_bits);

  std::vector<Entry> entries_;  // open addressing
  int shift_;                   // from a hash to its slot
  size_t n_entries_ = 0;
  std::vector<uint32_t> store_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_WORD_CACHE_H_
