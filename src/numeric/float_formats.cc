#include "numeric/float_formats.h"

namespace slm::numeric {

float Bf16ToF32(uint16_t bits) {
  return FromBits(static_cast<uint32_t>(bits) << 16);
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return FromBits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return FromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return FromBits(sign);
  uint32_t shifted_exponent = 113;
  while ((mantissa & 0x400u) == 0) {
    mantissa <<= 1;
    --shifted_exponent;
  }
  return FromBits(sign | (shifted_exponent << 23) | ((mantissa & 0x3ffu) << 13));
}

uint16_t F32ToBf16(float value) {
  const uint32_t bits = BitsOf(value);
  if (IsNan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 rounds to infinity
  if (magnitude >= 0x38800000u) {                                              // normal: 2^-14 and above
    const uint32_t rounded = magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | (rounded >> 13));
  }
  if (magnitude <= 0x33000000u) return static_cast<uint16_t>(sign);  // 2^-25 is the tie with zero
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - (magnitude >> 23);  // 14 to 24: units of 2^-24 remain
  const uint32_t half = 1u << (shift - 1);
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t up = (rest > half || (rest == half && (kept & 1u) != 0)) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (kept + up));
}

uint32_t UlpDistance(float a, float b) {
  if (IsNan(a) || IsNan(b)) return UINT32_MAX;
  // Position on the line: negative numbers count down from zero.
  const auto position = [](float value) {
    const auto magnitude = static_cast<int64_t>(BitsOf(value) & 0x7fffffffu);
    return (BitsOf(value) >> 31) != 0 ? -magnitude : magnitude;
  };
  const int64_t distance = position(a) - position(b);
  return static_cast<uint32_t>(distance < 0 ? -distance : distance);
}

}  // namespace slm::numeric
