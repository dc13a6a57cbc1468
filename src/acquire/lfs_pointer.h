// Git LFS pointers (ACQ-05): small text files that stand for data which is elsewhere.
//
// One encoding only: version, oid sha256, size, each line ended by LF; no extension, no alias of
// the version. A pointer is never model data. Pure functions; any thread.
// Source: the LFS specification (docs/spec.md); its own decoder is laxer and only flags.
#ifndef SLM_ACQUIRE_LFS_POINTER_H_
#define SLM_ACQUIRE_LFS_POINTER_H_

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::acquire {

struct LfsPointer {
  Hash256 oid{};
  uint64_t size = 0;  // at least 1: an empty file is an empty file
  friend bool operator==(const LfsPointer&, const LfsPointer&) = default;
};

// A file that means to be a pointer, canonical or not: under 1,024 bytes, and beginning with the
// version line of LFS or of one of its two former names.
[[nodiscard]] bool LooksLikeLfsPointer(ByteSpan whole_file);

// The only encoding of a pointer.
[[nodiscard]] std::string EncodeLfsPointer(const LfsPointer& pointer);

// Error: LFS-NONCANONICAL with the offset of the first byte that Encode would not write.
[[nodiscard]] Result<LfsPointer> ParseLfsPointer(ByteSpan whole_file);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_LFS_POINTER_H_
