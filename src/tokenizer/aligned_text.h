// Text with its origin: every byte knows which bytes of the original input it came from.
//
// The rules for what an inserted, replaced or removed character inherits are those of the pinned
// reference (tokenizers 0.23.3): they decide the offsets of every token (TOK-12). Plain values, no
// shared state.
//
// Ill-formed bytes (byte API only, TOK-03) stand in the text as an escape: U+DC00 + byte in three
// bytes, which no well-formed input can hold. ReadScalar understands it.
#ifndef SLM_TOKENIZER_ALIGNED_TEXT_H_
#define SLM_TOKENIZER_ALIGNED_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace slm::tokenizer {

// Half-open range of bytes.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

// Bounds (TOK-05). A text that grows beyond the second, or beyond what GrowthLimit allows its part of
// the input, is refused.
inline constexpr uint64_t kMaxInputBytes = uint64_t{1} << 28;
inline constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

// To how many bytes normalizers may make a segment of n bytes grow: 16 MiB + 16 n, at most kMaxTextBytes.
[[nodiscard]] constexpr uint64_t GrowthLimit(uint64_t n_bytes) {
  const uint64_t limit = (uint64_t{16} << 20) + 16 * n_bytes;
  return limit < kMaxTextBytes ? limit : kMaxTextBytes;
}

struct Scalar {
  char32_t value;
  uint32_t n_bytes;
};

// The scalar whose first byte is at `at`. REQUIRES: well-formed text or an escape.
[[nodiscard]] inline Scalar ReadScalar(const char* at) {
  const auto b0 = static_cast<uint8_t>(at[0]);
  if (b0 < 0x80) return {b0, 1};
  const char32_t c1 = static_cast<uint8_t>(at[1]) & 0x3Fu;
  if (b0 < 0xE0) return {((b0 & 0x1Fu) << 6) | c1, 2};
  const char32_t c2 = static_cast<uint8_t>(at[2]) & 0x3Fu;
  if (b0 < 0xF0) return {((b0 & 0x0Fu) << 12) | (c1 << 6) | c2, 3};
  const char32_t c3 = static_cast<uint8_t>(at[3]) & 0x3Fu;
  return {((b0 & 0x07u) << 18) | (c1 << 12) | (c2 << 6) | c3, 4};
}

[[nodiscard]] inline bool IsContinuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}
[[nodiscard]] inline bool IsEscapedByte(char32_t scalar) {
  return scalar >= 0xDC80 && scalar <= 0xDCFF;
}

// Like AppendUtf8, and escapes too.
void AppendScalar(std::string* out, char32_t scalar);
// `bytes` with each byte of no character as its escape.
[[nodiscard]] std::string EscapeIllFormed(std::string_view bytes);

struct AlignedText {
  std::string text;
  std::vector<Span> align;  // one for each byte of text, in bytes of the original input
  Span original;            // the part of the input that this text stands for
};

// What becomes of a character: 0 it replaces one, 1 it is new, -n it replaces one and n after it go.
struct Change {
  char32_t scalar;
  int32_t change;
};

// Rewrites the whole text; every character of it must be replaced or removed by `changes`, apart from
// `n_initial` characters at the start, which go. TOK-SCHEMA where there are fewer characters to replace
// (the text begins with some that stand for nothing of the input): the reference panics.
[[nodiscard]] Status Transform(AlignedText* text, std::span<const Change> changes, size_t n_initial = 0);

// Keeps the characters that `keep` accepts.
template <typename Keep>
[[nodiscard]] Status Filter(AlignedText* text, Keep keep) {
  std::vector<Change> changes;
  size_t n_initial = 0;
  int32_t n_removed = 0;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    i += scalar.n_bytes;
    if (!keep(scalar.value)) {
      ++n_removed;
      continue;
    }
    if (changes.empty()) {
      n_initial = static_cast<size_t>(n_removed);
    } else {
      changes.back().change = -n_removed;
    }
    n_removed = 0;
    changes.push_back({scalar.value, 0});
  }
  if (!changes.empty()) changes.back().change = -n_removed;
  return Transform(text, changes, n_initial);
}

// Replaces each character by another one.
template <typename Replace>
[[nodiscard]] Status MapScalars(AlignedText* text, Replace replace) {
  std::vector<Change> changes;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    i += scalar.n_bytes;
    changes.push_back({replace(scalar.value), 0});
  }
  return Transform(text, changes);
}

// Puts `prefix` in front, aligned with the first character; nothing happens to empty text.
void Prepend(AlignedText* text, std::string_view prefix);

// Every match, in order, becomes `content`. LIMIT if the result grows beyond GrowthLimit.
[[nodiscard]] Status ReplaceMatches(AlignedText* text, std::span<const Span> matches,
                                    std::string_view content);

// Every leftmost occurrence of `pattern` becomes `content`. An empty pattern matches before every
// character and at the end. LIMIT as above.
[[nodiscard]] Status ReplaceAll(AlignedText* text, std::string_view pattern, std::string_view content);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_ALIGNED_TEXT_H_
