// Unpacks what tools/pack_unicode.py packed, where the form is defined. The bytes come from the program
// itself and are not checked.
#ifndef SLM_UNICODE_UNPACK_H_
#define SLM_UNICODE_UNPACK_H_

#include <cstddef>
#include <cstdint>

namespace slm::unicode::internal_unpack {

inline uint64_t ReadLeb128(const uint8_t** at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *(*at)++;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

// Writes `n_values` values to `out`.
template <typename T>
void Unpack(const uint8_t* packed, T* out, size_t n_values) {
  const size_t stride = *packed++;
  uint64_t n_zeros = 0;  // differences of 0 still to come
  for (size_t i = 0; i < n_values; ++i) {
    uint64_t delta = 0;
    if (n_zeros > 0) {
      --n_zeros;
    } else {
      const uint64_t zigzag = ReadLeb128(&packed);
      delta = (zigzag >> 1) ^ (0 - (zigzag & 1));
      if (zigzag == 0) n_zeros = ReadLeb128(&packed);
    }
    out[i] = static_cast<T>((i >= stride ? static_cast<uint64_t>(out[i - stride]) : 0) + delta);
  }
}

}  // namespace slm::unicode::internal_unpack

#endif  // SLM_UNICODE_UNPACK_H_
