// Storage formats of 16 bits, and distances between float32 numbers.
//
// bfloat16 is the upper half of float32; binary16 is IEEE 754. Widening is exact (signalling
// NaNs keep their bits); narrowing rounds to nearest, ties to even. Pure functions.
#ifndef SLM_NUMERIC_FLOAT_FORMATS_H_
#define SLM_NUMERIC_FLOAT_FORMATS_H_

#include <bit>
#include <cstdint>

namespace slm::numeric {

[[nodiscard]] inline uint32_t BitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}
[[nodiscard]] inline float FromBits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
[[nodiscard]] inline bool IsFinite(float value) {
  return (BitsOf(value) & 0x7f800000u) != 0x7f800000u;
}
[[nodiscard]] inline bool IsNan(float value) {
  return (BitsOf(value) & 0x7fffffffu) > 0x7f800000u;
}

[[nodiscard]] float Bf16ToF32(uint16_t bits);
[[nodiscard]] float F16ToF32(uint16_t bits);
// Values beyond the largest finite number become infinite; NaNs stay NaNs (quiet).
[[nodiscard]] uint16_t F32ToBf16(float value);
[[nodiscard]] uint16_t F32ToF16(float value);

// Number of float32 values from a to b in the order of the real line; the two zeros are one.
// UINT32_MAX where either is a NaN: a NaN is never near anything (OPS-03).
[[nodiscard]] uint32_t UlpDistance(float a, float b);

}  // namespace slm::numeric

#endif  // SLM_NUMERIC_FLOAT_FORMATS_H_
