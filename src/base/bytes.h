// Byte spans and little-endian integers (ID-05: nothing depends on the host's layout).
#ifndef SLM_BASE_BYTES_H_
#define SLM_BASE_BYTES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slm {

using ByteSpan = std::span<const uint8_t>;
using Bytes = std::vector<uint8_t>;
using Hash256 = std::array<uint8_t, 32>;

[[nodiscard]] inline ByteSpan AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view AsText(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Little-endian load; REQUIRES: `from` has at least sizeof(T) bytes.
template <typename T>
[[nodiscard]] inline T LoadLe(const uint8_t* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  return value;
}
template <typename T>
inline void StoreLe(uint8_t* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}
template <typename T>
inline void AppendLe(Bytes* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// Lower-case hexadecimal.
[[nodiscard]] std::string ToHex(ByteSpan bytes);
// Inverse; false unless `hex` is an even number of lower-case hex digits.
[[nodiscard]] bool FromHex(std::string_view hex, Bytes* out);
[[nodiscard]] bool HashFromHex(std::string_view hex, Hash256* out);

// RFC 4648 base64 with padding; decoding is strict (no blanks, exact padding, zero spare bits).
[[nodiscard]] std::string ToBase64(ByteSpan bytes);
[[nodiscard]] bool FromBase64(std::string_view text, Bytes* out);

}  // namespace slm

#endif  // SLM_BASE_BYTES_H_
