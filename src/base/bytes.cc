#include "base/bytes.h"

namespace slm {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr char kBase64Digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int Base64Value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

std::string ToHex(ByteSpan bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    out.push_back(kHexDigits[byte >> 4]);
    out.push_back(kHexDigits[byte & 15]);
  }
  return out;
}

bool FromHex(std::string_view hex, Bytes* out) {
  if (hex.size() % 2 != 0) return false;
  Bytes bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexValue(hex[i]);
    const int low = HexValue(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<uint8_t>(high * 16 + low));
  }
  *out = std::move(bytes);
  return true;
}

bool HashFromHex(std::string_view hex, Hash256* out) {
  if (hex.size() != 2 * out->size()) return false;
  Hash256 hash;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    hash[i] = static_cast<uint8_t>(high * 16 + low);
  }
  *out = hash;
  return true;
}

std::string ToBase64(ByteSpan bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const uint32_t group = static_cast<uint32_t>((bytes[i] << 16) | (bytes[i + 1] << 8) | bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kBase64Digits[(group >> shift) & 63]);
  }
  const size_t rest = bytes.size() - i;
  if (rest == 0) return out;
  const uint32_t group = static_cast<uint32_t>((bytes[i] << 16) | (rest == 2 ? bytes[i + 1] << 8 : 0));
  out.push_back(kBase64Digits[(group >> 18) & 63]);
  out.push_back(kBase64Digits[(group >> 12) & 63]);
  out.push_back(rest == 2 ? kBase64Digits[(group >> 6) & 63] : '=');
  out.push_back('=');
  return out;
}

bool FromBase64(std::string_view text, Bytes* out) {
  if (text.size() % 4 != 0) return false;
  size_t n_digits = text.size();
  if (!text.empty() && text[n_digits - 1] == '=') --n_digits;
  if (!text.empty() && text[n_digits - 1] == '=' && n_digits < text.size()) --n_digits;
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  unsigned n_bits = 0;
  for (size_t i = 0; i < n_digits; ++i) {
    const int value = Base64Value(text[i]);
    if (value < 0) return false;
    group = (group << 6) | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes.push_back(static_cast<uint8_t>(group >> n_bits));
      group &= (1u << n_bits) - 1;
    }
  }
  if (group != 0) return false;  // spare bits must be zero, so that each byte string has one spelling
  *out = std::move(bytes);
  return true;
}

}  // namespace slm
