// SHA-256 (FIPS 180-4) in portable C++: what codec/sha256.h runs on where there is no OpenSSL (WebAssembly).
// Native builds compile it too, for the test that compares the two.
#ifndef SLM_CODEC_SHA256_PORTABLE_H_
#define SLM_CODEC_SHA256_PORTABLE_H_

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace slm {

// Incremental hash; one thread at a time.
class PortableSha256 {
 public:
  void Update(ByteSpan bytes);
  // The digest of everything so far. REQUIRES: called once.
  [[nodiscard]] Hash256 Finish();

 private:
  void Compress(const uint8_t* blocks, size_t n_blocks);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_ = {};
  uint64_t n_bytes_ = 0;
};

}  // namespace slm

#endif  // SLM_CODEC_SHA256_PORTABLE_H_
