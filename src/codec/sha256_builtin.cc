// codec/sha256.h where there is no OpenSSL.
#include "codec/sha256.h"
#include "codec/sha256_portable.h"

namespace slm {

struct Sha256::State {
  PortableSha256 hash;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::Update(ByteSpan bytes) {
  state_->hash.Update(bytes);
}

Hash256 Sha256::Finish() {
  return state_->hash.Finish();
}

Hash256 Sha256Of(ByteSpan bytes) {
  PortableSha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

}  // namespace slm
