#include "tokenizer/splitter.h"

#include <array>
#include <bit>
#include <cstring>

#include "tokenizer/aligned_text.h"
#include "unicode/classes_v16_0.h"
#include "unicode/numeric_v17_0.h"

namespace slm::tokenizer {
namespace {

using unicode::kLetter;
using unicode::kNumber;
using unicode::kWhiteSpace;
constexpr uint8_t kClasses = kLetter | kNumber | kWhiteSpace;  // none of them: other characters

constexpr std::array<uint8_t, 128> MakeAsciiClasses() {
  std::array<uint8_t, 128> out{};
  for (uint8_t c = 0; c < 128; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) out[c] = kLetter;
    if (c >= '0' && c <= '9') out[c] = kNumber;
    if (c == ' ' || (c >= 9 && c <= 13)) out[c] = kWhiteSpace;
  }
  return out;
}
constexpr std::array<uint8_t, 128> kAsciiClasses = MakeAsciiClasses();

constexpr uint64_t EveryByte(uint8_t byte) {
  return 0x0101010101010101u * byte;
}

// One text while it is cut. `kDigits`: numeric characters are cut out one by one, and the pieces
// between them are texts of their own.
template <bool kDigits>
class Cutter {
 public:
  explicit Cutter(std::string_view text) : p_(text.data()), n_(text.size()) {}

  [[nodiscard]] size_t Gpt2(size_t at) const {
    const Character first = Read(at);
    if (p_[at] == '\'') {
      if (const size_t n = Contraction(at); n != 0) return at + n;
    }
    const size_t after = at + first.n_bytes;
    if (kDigits && first.cls == kNumber) return after;
    if (first.cls == kLetter) return LetterEnd(after);
    if (first.cls != kWhiteSpace) return RunEnd(after, first.cls);
    if (p_[at] == ' ' && after < n_) {
      const Character next = Read(after);
      if (next.cls == kLetter) return LetterEnd(after + next.n_bytes);
      if (kDigits && next.cls == kNumber) return after;
      if (next.cls != kWhiteSpace) return RunEnd(after + next.n_bytes, next.cls);
    }
    return SpaceEnd(after, RunEnd(after, kWhiteSpace));
  }

  template <size_t kNumbers>
  [[nodiscard]] size_t Cl100k(size_t at) const {
    const Character first = Read(at);
    if (first.cls == kLetter) return LetterEnd(at + first.n_bytes);
    const char c = p_[at];
    if (c == '\'') {
      if (const size_t n = AnyCaseContraction(at); n != 0) return at + n;
    }
    size_t after = at + first.n_bytes;
    if (first.cls == kNumber) {
      for (size_t i = 1; i < kNumbers && after < n_; ++i) {
        const Character next = Read(after);
        if (next.cls != kNumber) break;
        after += next.n_bytes;
      }
      return after;
    }
    if (after < n_ && c != '\r' && c != '\n') {
      const Character next = Read(after);
      if (next.cls == kLetter) return LetterEnd(after + next.n_bytes);
      if (c == ' ' && next.cls == 0) return NewlineEnd(RunEnd(after + next.n_bytes, 0));
    }
    if (first.cls == 0) return NewlineEnd(RunEnd(after, 0));
    const size_t end = RunEnd(after, kWhiteSpace);
    for (size_t i = end; i > at; --i) {
      if (p_[i - 1] == '\n' || p_[i - 1] == '\r') return i;
    }
    return SpaceEnd(after, end);
  }

 private:
  struct Character {
    uint8_t cls;
    uint32_t n_bytes;
  };
  [[nodiscard]] Character Read(size_t at) const {
    const auto byte = static_cast<uint8_t>(p_[at]);
    if (byte < 0x80) return {kAsciiClasses[byte], 1};
    const Scalar scalar = ReadScalar(p_ + at);
    if (kDigits && unicode::IsNumericV17(scalar.value)) return {kNumber, scalar.n_bytes};
    return {static_cast<uint8_t>(unicode::ClassV16(scalar.value) & kClasses), scalar.n_bytes};
  }

  // End of the run of characters of class `wanted` from `at`.
  [[nodiscard]] size_t RunEnd(size_t at, uint8_t wanted) const {
    while (at < n_) {
      const Character next = Read(at);
      if (next.cls != wanted) break;
      at += next.n_bytes;
    }
    return at;
  }

  // The same for letters, eight ASCII ones at a time.
  [[nodiscard]] size_t LetterEnd(size_t at) const {
    while (true) {
      while (at + 8 <= n_) {
        uint64_t block = 0;
        std::memcpy(&block, p_ + at, 8);
        const uint64_t low = (block | EveryByte(0x20)) & EveryByte(0x7F);
        const uint64_t from_a = low + EveryByte(0x80 - 'a');
        const uint64_t beyond_z = low + EveryByte(0x7F - 'z');
        const uint64_t others = ~(from_a & ~beyond_z & ~block) & EveryByte(0x80);
        if (others == 0) {
          at += 8;
          continue;
        }
        at += static_cast<size_t>(std::countr_zero(others)) / 8;
        break;
      }
      // ASCII near the end of the text, and what is not ASCII.
      while (true) {
        if (at >= n_) return at;
        const bool is_ascii = static_cast<uint8_t>(p_[at]) < 0x80;
        const Character next = Read(at);
        if (next.cls != kLetter) return at;
        at += next.n_bytes;
        if (is_ascii && at + 8 <= n_) break;
      }
    }
  }

  [[nodiscard]] size_t NewlineEnd(size_t at) const {
    while (at < n_ && (p_[at] == '\n' || p_[at] == '\r')) ++at;
    return at;
  }

  // \s+(?!\S)|\s+ for white space whose first character ends at `after_first` and that ends at `end`.
  [[nodiscard]] size_t SpaceEnd(size_t after_first, size_t end) const {
    if (end == n_ || end == after_first || (kDigits && Read(end).cls == kNumber)) return end;
    size_t last = end - 1;
    while (IsContinuation(p_[last])) --last;
    return last;
  }

  // Length of 's 't 'm 'd 're 've 'll at `at`, or 0.
  [[nodiscard]] size_t Contraction(size_t at) const {
    if (at + 1 >= n_) return 0;
    const char first = p_[at + 1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (at + 2 >= n_) return 0;
    const char second = p_[at + 2];
    return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l') ? 3 : 0;
  }
  // The same in any case; U+017F is a case of s.
  [[nodiscard]] size_t AnyCaseContraction(size_t at) const {
    if (at + 1 >= n_) return 0;
    const auto lower = [this](size_t i) { return static_cast<char>(p_[i] | 0x20); };
    const char first = lower(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (at + 2 >= n_) return 0;
    if (p_[at + 1] == '\xC5' && p_[at + 2] == '\xBF') return 3;
    const char second = lower(at + 2);
    return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l') ? 3 : 0;
  }

  const char* p_;
  size_t n_;
};

template <typename Match>
size_t Fill(std::string_view text, size_t* at, Word* words, size_t capacity, Match match) {
  size_t n_words = 0;
  size_t i = *at;
  while (n_words < capacity && i < text.size()) {
    const size_t end = match(i);
    words[n_words++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(end)};
    i = end;
  }
  *at = i;
  return n_words;
}

}  // namespace

std::optional<SplitPattern> FindSplitPattern(std::string_view regex) {
  if (regex == R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)") {
    return SplitPattern::kGpt2;
  }
  constexpr std::string_view kHead = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  constexpr std::string_view kTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (!regex.starts_with(kHead) || !regex.ends_with(kTail)) return std::nullopt;
  if (regex.size() < kHead.size() + kTail.size()) return std::nullopt;
  const std::string_view numbers = regex.substr(kHead.size(), regex.size() - kHead.size() - kTail.size());
  if (numbers.empty()) return SplitPattern::kQwen2;
  if (numbers == "{1,3}") return SplitPattern::kCl100k;
  return std::nullopt;
}

size_t SplitWords(SplitPattern pattern, std::string_view text, size_t* at, Word* words, size_t capacity) {
  const Cutter<false> cutter(text);
  switch (pattern) {
    case SplitPattern::kGpt2:
      return Fill(text, at, words, capacity, [&cutter](size_t i) { return cutter.Gpt2(i); });
    case SplitPattern::kGpt2Digits: {
      const Cutter<true> digits(text);
      return Fill(text, at, words, capacity, [&digits](size_t i) { return digits.Gpt2(i); });
    }
    case SplitPattern::kCl100k:
      return Fill(text, at, words, capacity, [&cutter](size_t i) { return cutter.Cl100k<3>(i); });
    case SplitPattern::kQwen2:
      return Fill(text, at, words, capacity, [&cutter](size_t i) { return cutter.Cl100k<1>(i); });
  }
  return 0;
}

}  // namespace slm::tokenizer
