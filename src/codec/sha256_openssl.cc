#include <openssl/evp.h>

#include <cstdlib>

#include "codec/sha256.h"

namespace slm {
namespace {

// Fetched once: EVP_sha256() would look its implementation up again for each digest.
const EVP_MD* Algorithm() {
  static const EVP_MD* const kAlgorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  return kAlgorithm;
}

// A process whose SHA-256 does not work can show nothing: it must not go on, and there is no
// input that leads here.
void RequireOk(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = nullptr;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->context = EVP_MD_CTX_new();
  RequireOk(state_->context != nullptr && Algorithm() != nullptr);
  RequireOk(EVP_DigestInit_ex2(state_->context, Algorithm(), nullptr) == 1);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(state_->context);
}

void Sha256::Update(ByteSpan bytes) {
  RequireOk(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Hash256 Sha256::Finish() {
  Hash256 digest;
  unsigned length = 0;
  RequireOk(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == digest.size());
  return digest;
}

Hash256 Sha256Of(ByteSpan bytes) {
  // One context for each thread, reused: making one costs more than hashing a small node.
  struct Reused {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~Reused() { EVP_MD_CTX_free(context); }
  };
  thread_local Reused reused;
  RequireOk(reused.context != nullptr && Algorithm() != nullptr);
  Hash256 digest;
  unsigned length = 0;
  RequireOk(EVP_DigestInit_ex2(reused.context, Algorithm(), nullptr) == 1);
  RequireOk(EVP_DigestUpdate(reused.context, bytes.data(), bytes.size()) == 1);
  RequireOk(EVP_DigestFinal_ex(reused.context, digest.data(), &length) == 1 && length == digest.size());
  return digest;
}

}  // namespace slm
