#include "tokenizer/word_cache.h"

#include <algorithm>
#include <utility>

namespace slm::tokenizer {

WordCache::WordCache() {
  Resize(kMinBits);
}

void WordCache::Put(const Entry& entry) {
  size_t slot = SlotOf(HashKey(entry.low, entry.high));
  while (entries_[slot].high != 0) slot = (slot + 1) & (entries_.size() - 1);
  entries_[slot] = entry;
  ++n_entries_;
}

void WordCache::Resize(int n_bits) {
  const std::vector<Entry> before = std::exchange(entries_, std::vector<Entry>(size_t{1} << n_bits));
  shift_ = 64 - n_bits;
  n_entries_ = 0;
  for (const Entry& entry : before) {
    if (entry.high != 0) Put(entry);
  }
}

void WordCache::Insert(const Key& key, std::string_view word, std::span<const uint32_t> ids) {
  const size_t n_text = word.size() <= kMaxShort ? 0 : (word.size() + 3) / 4;
  const bool stored = n_text > 0 || ids.size() > kInline;
  const size_t n_stored = stored ? n_text + ids.size() : 0;
  const bool is_full = 2 * n_entries_ >= entries_.size();
  if (store_.size() + n_stored > kStoreWords || (is_full && shift_ == 64 - kMaxBits)) {
    std::fill(entries_.begin(), entries_.end(), Entry{});
    n_entries_ = 0;
    store_.clear();
  } else if (is_full) {
    Resize(64 - shift_ + 1);
  }
  Entry entry = {.low = key.low, .high = key.high, .n_ids = static_cast<uint32_t>(ids.size())};
  if (stored) {
    const size_t at = store_.size();
    entry.ids[0] = static_cast<uint32_t>(at);
    if (store_.capacity() < at + n_stored + kInline) store_.reserve(2 * (at + n_stored + kInline));
    store_.resize(at + n_stored);
    if (n_text > 0) std::memcpy(store_.data() + at, word.data(), word.size());
    for (size_t i = 0; i < ids.size(); ++i) store_[at + n_text + i] = ids[i];
  } else {
    for (size_t i = 0; i < ids.size(); ++i) entry.ids[i] = ids[i];
  }
  Put(entry);
}

}  // namespace slm::tokenizer
