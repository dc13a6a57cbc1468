#include "base/utf8.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "base/bytes.h"

namespace slm {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080u;

// One row of table 3-7: how many bytes follow, and which second bytes are allowed.
struct Lead {
  size_t n_following;
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

uint8_t ByteAt(std::string_view text, size_t position) {
  return static_cast<uint8_t>(text[position]);
}

// Length of the longest prefix of `text` from `position` that fits one row of the table, and
// whether it is a whole character. REQUIRES: a byte >= 0x80 at `position`.
size_t SequenceLength(std::string_view text, size_t position, bool* whole, size_t* n_expected) {
  const Lead lead = LeadOf(ByteAt(text, position));
  *whole = false;
  *n_expected = lead.n_following + 1;
  if (lead.n_following == 0) return 1;
  size_t length = 1;
  while (length <= lead.n_following) {
    if (position + length >= text.size()) return length;
    const uint8_t byte = ByteAt(text, position + length);
    const uint8_t low = length == 1 ? lead.second_min : 0x80;
    const uint8_t high = length == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return length;
    ++length;
  }
  *whole = true;
  return length;
}

bool IsHiddenInDisplay(char32_t scalar) {
  return scalar < 0x20 || (scalar >= 0x7F && scalar <= 0x9F) || scalar == 0xAD || scalar == 0x61C ||
         (scalar >= 0x200B && scalar <= 0x200F) || (scalar >= 0x2028 && scalar <= 0x202E) ||
         (scalar >= 0x2060 && scalar <= 0x206F) || scalar == 0xFEFF ||
         (scalar >= 0xFFF9 && scalar <= 0xFFFB) || (scalar >= 0xFE00 && scalar <= 0xFE0F) ||
         (scalar >= 0xE0000 && scalar <= 0xE0FFF) || (scalar & 0xFFFE) == 0xFFFE ||
         (scalar >= 0xFDD0 && scalar <= 0xFDEF);
}

void AppendHexByte(std::string* out, uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out->append("\\x");
  out->push_back(kDigits[byte >> 4]);
  out->push_back(kDigits[byte & 15]);
}

void AppendHexScalar(std::string* out, char32_t scalar) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out->append("\\u{");
  bool started = false;
  for (int shift = 20; shift >= 0; shift -= 4) {
    const auto digit = (scalar >> shift) & 15;
    started = started || digit != 0 || shift == 0;
    if (started) out->push_back(kDigits[digit]);
  }
  out->push_back('}');
}

}  // namespace

std::optional<Utf8Fault> FindUtf8Fault(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    if (position + 8 <= text.size()) {  // eight ASCII bytes at a time
      uint64_t block = 0;
      std::memcpy(&block, text.data() + position, 8);
      const uint64_t high = block & kHighBits;
      if (high == 0) {
        position += 8;
        continue;
      }
      if constexpr (std::endian::native == std::endian::little)
        position += static_cast<size_t>(std::countr_zero(high)) / 8;
    }
    const uint8_t first = ByteAt(text, position);
    if (first < 0x80) {
      ++position;
      continue;
    }
    // Most sequences are well formed, of two bytes, or of three without limits on the second.
    const auto follows = [&](size_t i) {
      return position + i < text.size() && (ByteAt(text, position + i) & 0xC0) == 0x80;
    };
    if (first >= 0xC2 && first <= 0xDF && follows(1)) {
      position += 2;
      continue;
    }
    if (first >= 0xE1 && first <= 0xEF && first != 0xED && follows(1) && follows(2)) {
      position += 3;
      continue;
    }
    bool whole = false;
    size_t n_expected = 0;
    const size_t length = SequenceLength(text, position, &whole, &n_expected);
    if (!whole) return Utf8Fault{position, length};
    position += length;
  }
  return std::nullopt;
}

char32_t DecodeUtf8(std::string_view text, size_t* position) {
  assert(*position < text.size());
  const uint8_t first = ByteAt(text, *position);
  if (first < 0x80) {
    ++*position;
    return first;
  }
  const size_t n_following = LeadOf(first).n_following;
  assert(n_following > 0 && *position + n_following < text.size());
  char32_t scalar = first & (0x3Fu >> n_following);
  for (size_t i = 1; i <= n_following; ++i) scalar = (scalar << 6) | (ByteAt(text, *position + i) & 0x3Fu);
  *position += n_following + 1;
  return scalar;
}

void AppendUtf8(std::string* out, char32_t scalar) {
  assert(scalar <= 0x10FFFF && (scalar < 0xD800 || scalar > 0xDFFF));
  if (scalar < 0x80) {
    out->push_back(static_cast<char>(scalar));
  } else if (scalar < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (scalar >> 6)));
    out->push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
  } else if (scalar < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (scalar >> 12)));
    out->push_back(static_cast<char>(0x80 | ((scalar >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (scalar >> 18)));
    out->push_back(static_cast<char>(0x80 | ((scalar >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((scalar >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
  }
}

size_t CountScalars(std::string_view text) {
  size_t n_following = 0;
  size_t position = 0;
  for (; position + 8 <= text.size(); position += 8) {
    uint64_t block = 0;
    std::memcpy(&block, text.data() + position, 8);
    // The high bit of each byte 10xxxxxx, moved to its lowest; their sum gathers in the highest byte.
    const uint64_t following = (block & ~(block << 1) & kHighBits) >> 7;
    n_following += static_cast<size_t>((following * 0x0101010101010101u) >> 56);
  }
  for (; position < text.size(); ++position)
    n_following += (ByteAt(text, position) & 0xC0) == 0x80 ? size_t{1} : size_t{0};
  return text.size() - n_following;
}

size_t IncompleteUtf8Suffix(std::string_view text) {
  for (size_t n_back = 1; n_back <= 3 && n_back <= text.size(); ++n_back) {
    const size_t position = text.size() - n_back;
    const uint8_t byte = ByteAt(text, position);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation byte: its lead stands further left
    bool whole = false;
    size_t n_expected = 0;
    const size_t length = SequenceLength(text, position, &whole, &n_expected);
    return !whole && length == n_back && n_expected > length ? n_back : 0;
  }
  return 0;
}

std::string EscapeForDisplay(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  size_t position = 0;
  while (position < bytes.size()) {
    const uint8_t byte = ByteAt(bytes, position);
    if (byte >= 0x80) {
      bool whole = false;
      size_t n_expected = 0;
      const size_t length = SequenceLength(bytes, position, &whole, &n_expected);
      if (!whole) {
        for (size_t i = 0; i < length; ++i) AppendHexByte(&out, ByteAt(bytes, position + i));
        position += length;
        continue;
      }
      size_t end = position;
      const char32_t scalar = DecodeUtf8(bytes, &end);
      if (IsHiddenInDisplay(scalar)) {
        AppendHexScalar(&out, scalar);
      } else {
        out.append(bytes.substr(position, length));
      }
      position = end;
    } else {
      if (byte == '\\') {
        out.append("\\\\");  // so that the display form of two different byte strings differs
      } else if (IsHiddenInDisplay(byte)) {
        AppendHexByte(&out, byte);
      } else {
        out.push_back(static_cast<char>(byte));
      }
      ++position;
    }
  }
  return out;
}

}  // namespace slm
