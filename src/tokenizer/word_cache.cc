#include "tokenizer/word_cache.h"

namespace slm::tokenizer {

WordCache::WordCache() {
  const size_t n_bytes = (size_t{1} << kBucketBits) * sizeof(Bucket);
  memory_.reset(std::calloc(1, n_bytes + alignof(Bucket)));
  if (memory_ == nullptr) std::abort();  // as operator new does where nothing catches
  void* at = memory_.get();
  size_t n_free = n_bytes + alignof(Bucket);
  buckets_ = static_cast<Bucket*>(std::align(alignof(Bucket), n_bytes, at, n_free));
}

void WordCache::Clear() {
  std::memset(static_cast<void*>(buckets_), 0, (size_t{1} << kBucketBits) * sizeof(Bucket));
  store_.clear();
}

void WordCache::Insert(const Key& key, std::string_view word, std::span<const uint32_t> ids) {
  const size_t n_text = word.size() <= kMaxShort ? 0 : (word.size() + 3) / 4;
  const bool stored = n_text > 0 || ids.size() > kInline;
  const size_t n_stored = stored ? n_text + ids.size() : 0;
  if (store_.size() + n_stored > kStoreWords) Clear();
  Bucket& bucket = buckets_[BucketOf(key)];
  if (bucket.entries[0].high != 0) bucket.entries[1] = bucket.entries[0];
  Entry& entry = bucket.entries[0];
  entry.low = key.low;
  entry.high = key.high;
  entry.n_ids = static_cast<uint32_t>(ids.size());
  if (!stored) {
    for (size_t i = 0; i < ids.size(); ++i) entry.ids[i] = ids[i];
    return;
  }
  const size_t at = store_.size();
  entry.ids[0] = static_cast<uint32_t>(at);
  store_.resize(at + n_stored);
  if (n_text > 0) std::memcpy(store_.data() + at, word.data(), word.size());
  for (size_t i = 0; i < ids.size(); ++i) store_[at + n_text + i] = ids[i];
}

}  // namespace slm::tokenizer
