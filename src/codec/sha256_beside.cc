#include "codec/sha256_beside.h"

#include <algorithm>

namespace slm {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

}  // namespace

void Sha256Beside::Update(ByteSpan bytes) {
  while (!bytes.empty()) {
    Bytes& block = blocks_[filling_];
    const size_t take = std::min(bytes.size(), kBlockBytes - block.size());
    if (block.capacity() < kBlockBytes && block.size() + take > block.capacity()) {
      block.reserve(block.size() + take < kBlockBytes / 8 ? block.size() + take : kBlockBytes);
    }
    block.insert(block.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (block.size() < kBlockBytes) return;
    // The tasks never fail: hashing has no errors.
    static_cast<void>(thread_.Start([this, &block]() -> Status {
      hash_.Update(block);
      return {};
    }));
    filling_ = (filling_ + 1) % blocks_.size();
    static_cast<void>(thread_.Wait(blocks_.size() - 1));
    blocks_[filling_].clear();
  }
}

Hash256 Sha256Beside::Finish() {
  static_cast<void>(thread_.Wait());
  hash_.Update(blocks_[filling_]);
  return hash_.Finish();
}

}  // namespace slm
