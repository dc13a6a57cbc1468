// SHA-256 of a stream, computed on a thread beside the caller's (base/side_thread.h). Native only.
//
// Update copies the bytes, so they are the caller's again when it returns; it waits only when three blocks of
// 1 MiB are not hashed yet. A stream shorter than one block is hashed by the caller and makes no thread.
#ifndef SLM_CODEC_SHA256_BESIDE_H_
#define SLM_CODEC_SHA256_BESIDE_H_

#include <array>

#include "base/bytes.h"
#include "base/side_thread.h"
#include "codec/sha256.h"

namespace slm {

class Sha256Beside {
 public:
  void Update(ByteSpan bytes);
  // The digest of everything so far. REQUIRES: called once.
  [[nodiscard]] Hash256 Finish();

 private:
  std::array<Bytes, 3> blocks_;  // all but the one being filled may be the thread's
  size_t filling_ = 0;
  Sha256 hash_;        // the thread's while it runs
  SideThread thread_;  // the last member, so that it ends before what it uses
};

}  // namespace slm

#endif  // SLM_CODEC_SHA256_BESIDE_H_
