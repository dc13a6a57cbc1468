// What the fuzz targets share. Each target checks an invariant of its parser, not only that it survives.
#ifndef SLM_FUZZ_FUZZ_H_
#define SLM_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace slm::fuzz {

// Ends the process with the invariant's name; libFuzzer keeps the input.
inline void Require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "invariant broken: %s\n", invariant);
  std::abort();
}

// An error of a parser points into the input.
inline void RequireOffset(const Error& error, size_t size) {
  Require(!error.byte_offset || *error.byte_offset <= size, "a byte offset lies inside the input");
}

}  // namespace slm::fuzz

#define SLM_FUZZ_TARGET(data, size) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)

#endif  // SLM_FUZZ_FUZZ_H_
