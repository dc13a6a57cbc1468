// Arithmetic that reports overflow. Sizes of files and tensors are uint64_t everywhere,
// also where size_t is 32 bits (wasm32).
#ifndef SLM_BASE_CHECKED_H_
#define SLM_BASE_CHECKED_H_

#include <cstdint>
#include <optional>

namespace slm {

[[nodiscard]] inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
[[nodiscard]] inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
// Smallest multiple of `alignment` (a power of two) that is >= value.
[[nodiscard]] inline std::optional<uint64_t> CheckedAlignUp(uint64_t value, uint64_t alignment) {
  auto sum = CheckedAdd(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

}  // namespace slm

#endif  // SLM_BASE_CHECKED_H_
