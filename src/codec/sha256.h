// SHA-256 (FIPS 180-4).
#ifndef SLM_CODEC_SHA256_H_
#define SLM_CODEC_SHA256_H_

#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace slm {

// Incremental hash; one thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(ByteSpan bytes);
  // The digest of everything so far. REQUIRES: called once.
  [[nodiscard]] Hash256 Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] Hash256 Sha256Of(ByteSpan bytes);

}  // namespace slm

#endif  // SLM_CODEC_SHA256_H_
