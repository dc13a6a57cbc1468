#include "tokenizer/splitter.h"

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "unicode/classes_v16_0.h"
#include "unicode/numeric_v17_0.h"
#include "unicode/properties_v16_0.h"

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

// How many of the eight bytes at `p`, from the first on, are ASCII letters: of both cases, or small ones.
template <bool kBothCases>
size_t CountLetters(const char* p) {
  uint64_t block = 0;
  std::memcpy(&block, p, 8);
  const uint64_t low = (block | EveryByte(kBothCases ? 0x20 : 0)) & EveryByte(0x7F);
  const uint64_t from_a = low + EveryByte(0x80 - 'a');
  const uint64_t beyond_z = low + EveryByte(0x7F - 'z');
  const uint64_t others = ~(from_a & ~beyond_z & ~block) & EveryByte(0x80);
  return others == 0 ? 8 : static_cast<size_t>(std::countr_zero(others)) / 8;
}

// Length of 's 't 'm 'd 're 've 'll in any case at `at`, or 0; U+017F is a case of s.
size_t AnyCaseContraction(const char* p, size_t n, size_t at) {
  if (at + 1 >= n || p[at] != '\'') return 0;
  const auto lower = [p](size_t i) { return static_cast<char>(p[i] | 0x20); };
  const char first = lower(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (at + 2 >= n) return 0;
  if (p[at + 1] == '\xC5' && p[at + 2] == '\xBF') return 3;
  const char second = lower(at + 2);
  return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l') ? 3 : 0;
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
      if (const size_t n = AnyCaseContraction(p_, n_, at); n != 0) return at + n;
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
        const size_t n = CountLetters<true>(p_ + at);
        at += n;
        if (n < 8) break;
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

  const char* p_;
  size_t n_;
};

// More classes, of which a character may have several.
constexpr uint8_t kUpper = 8;          // Lu, Lt, Lm, Lo, M: what GPT-4o's words begin with
constexpr uint8_t kLower = 16;         // Ll, Lm, Lo, M: what they go on with
constexpr uint8_t kPunctuation = 32;   // P, S
constexpr uint8_t kLetterOrMark = 64;  // L, M
constexpr uint8_t kEastAsian = 128;    // U+4E00 to U+9FA5, hiragana and katakana

class ClassTable {
 public:
  ClassTable() : pages_(0x1100) {
    std::vector<uint8_t> flags(0x110000);
    const auto add = [&flags](std::string_view property, uint8_t flag) {
      const auto ranges = unicode::PropertyRangesV16(property).value_or(std::span<const char32_t>());
      for (size_t i = 0; i < ranges.size(); i += 2) {
        for (char32_t c = ranges[i]; c <= ranges[i + 1]; ++c) flags[c] |= flag;
      }
    };
    add("whitespace", kWhiteSpace);
    add("n", kNumber);
    add("l", kLetter | kLetterOrMark);
    add("m", kUpper | kLower | kLetterOrMark);
    for (const std::string_view name : {"lu", "lt", "lm", "lo"}) add(name, kUpper);
    for (const std::string_view name : {"ll", "lm", "lo"}) add(name, kLower);
    for (const std::string_view name : {"p", "s"}) add(name, kPunctuation);
    for (char32_t c = 0x4E00; c <= 0x9FA5; ++c) flags[c] |= kEastAsian;
    for (char32_t c = 0x3040; c <= 0x30FF; ++c) flags[c] |= kEastAsian;
    std::map<std::string_view, uint16_t> seen;
    for (size_t page = 0; page < pages_.size(); ++page) {
      const std::string_view block(reinterpret_cast<const char*>(flags.data()) + page * 256, 256);
      const auto [at, is_new] = seen.emplace(block, static_cast<uint16_t>(flags_.size() / 256));
      if (is_new) flags_.insert(flags_.end(), block.begin(), block.end());
      pages_[page] = at->second;
    }
  }
  [[nodiscard]] uint8_t operator[](char32_t c) const {
    return flags_[size_t{pages_[c >> 8]} << 8 | (c & 0xFF)];
  }

 private:
  std::vector<uint16_t> pages_;
  std::vector<uint8_t> flags_;
};

// The patterns that need ClassTable.
class WideCutter {
 public:
  explicit WideCutter(std::string_view text) : table_(Table()), p_(text.data()), n_(text.size()) {}

  // Tekken's pattern is the same but for contractions, which it has not, and numbers, which it takes singly.
  template <bool kContractions, size_t kNumbers>
  [[nodiscard]] size_t O200k(size_t at) const {
    const Character first = Read(at);
    const char c = p_[at];
    const size_t after = at + first.n_bytes;
    // A word, with a character before it that is no letter, number or end of line; else without.
    const bool may_precede = (first.cls & (kLetter | kNumber)) == 0 && c != '\r' && c != '\n';
    const Run with = may_precede ? UpperRun(after) : Run{};
    const bool is_word = (first.cls & (kUpper | kLower)) != 0;
    const Run without = is_word ? UpperRun(at) : Run{};
    const auto word_end = [this](size_t end) {
      return kContractions ? end + AnyCaseContraction(p_, n_, end) : end;
    };
    for (const Run& run : {with, without}) {
      if (run.lower_end != 0) return word_end(run.lower_end);
    }
    if (may_precede && with.end > after) return word_end(with.end);
    if (is_word) return word_end(without.end);
    if ((first.cls & kNumber) != 0) return NumberEnd<kNumbers>(after);
    const auto is_other = [](uint8_t cls) { return (cls & (kWhiteSpace | kLetter | kNumber)) == 0; };
    if (is_other(first.cls) || (c == ' ' && after < n_ && is_other(Read(after).cls))) {
      size_t end = RunEnd(after, is_other);
      while (end < n_ && (p_[end] == '\n' || p_[end] == '\r' || p_[end] == '/')) ++end;
      return end;
    }
    const size_t end = RunEnd(after, [](uint8_t cls) { return (cls & kWhiteSpace) != 0; });
    return SpaceEnd(at, after, end, end == n_);
  }

  // Numbers and East Asian runs are pieces of their own, and so is what stands between: nothing looks
  // beyond the piece it stands in.
  [[nodiscard]] size_t DeepSeek(size_t at) const {
    const Character first = Read(at);
    if ((first.cls & kNumber) != 0) return NumberEnd<3>(at + first.n_bytes);
    const auto kind = static_cast<uint8_t>(first.cls & kEastAsian);
    const auto stays = [kind](uint8_t cls) { return (cls & (kNumber | kEastAsian)) == kind; };
    // The class of the character at `i`, or kNumber for the end of the piece.
    const auto class_at = [&](size_t i) {
      if (i >= n_) return kNumber;
      const uint8_t cls = Read(i).cls;
      return stays(cls) ? cls : kNumber;
    };
    const auto run_end = [&](size_t i, uint8_t wanted) {
      return RunEnd(i, [&](uint8_t cls) { return stays(cls) && (cls & wanted) != 0; });
    };
    const char c = p_[at];
    const size_t after = at + first.n_bytes;
    const uint8_t next = class_at(after);
    if ((first.cls & kPunctuation) != 0) {
      if (first.n_bytes == 1 && after < n_ && IsAsciiLetter(p_[after])) {
        size_t end = after + 1;
        while (end < n_ && IsAsciiLetter(p_[end])) ++end;
        return end;
      }
      const size_t end = run_end(after, kPunctuation);
      return kind == 0 ? NewlineEnd(end) : end;
    }
    if ((first.cls & kLetterOrMark) != 0 || ((next & kLetterOrMark) != 0 && c != '\r' && c != '\n')) {
      const auto is_letter = [&](uint8_t cls) { return stays(cls) && (cls & kLetterOrMark) != 0; };
      return kind == 0 ? LetterRunEnd<true>(after, is_letter) : RunEnd(after, is_letter);
    }
    if (c == ' ' && (next & kPunctuation) != 0) return NewlineEnd(run_end(after, kPunctuation));
    if ((first.cls & kWhiteSpace) != 0) {
      const size_t end = run_end(after, kWhiteSpace);
      return SpaceEnd(at, after, end, class_at(end) == kNumber);
    }
    // What matches nothing, up to where something does.
    size_t end = after;
    while (end < n_) {
      const Character one = Read(end);
      if (!stays(one.cls) || (one.cls & (kPunctuation | kLetterOrMark | kWhiteSpace)) != 0) break;
      if ((class_at(end + one.n_bytes) & kLetterOrMark) != 0) break;
      end += one.n_bytes;
    }
    return end;
  }

 private:
  struct Character {
    uint8_t cls;
    uint32_t n_bytes;
  };
  struct Run {
    size_t end = 0;        // of the characters of kUpper
    size_t lower_end = 0;  // of the longest part that ends in kLower, be it one of both or one after them
  };
  static const ClassTable& Table() {
    static const ClassTable kTable;
    return kTable;
  }
  static bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  [[nodiscard]] Character Read(size_t at) const {
    const auto byte = static_cast<uint8_t>(p_[at]);
    if (byte < 0x80) return {table_[byte], 1};
    const Scalar scalar = ReadScalar(p_ + at);
    return {table_[scalar.value], scalar.n_bytes};
  }
  template <typename Wanted>
  [[nodiscard]] size_t RunEnd(size_t at, Wanted wanted) const {
    while (at < n_) {
      const Character next = Read(at);
      if (!wanted(next.cls)) break;
      at += next.n_bytes;
    }
    return at;
  }
  // The same where ASCII letters, of both cases or small ones, are wanted: eight of them at a time.
  template <bool kBothCases, typename Wanted>
  [[nodiscard]] size_t LetterRunEnd(size_t at, Wanted wanted) const {
    while (at < n_) {
      if (at + 8 <= n_ && static_cast<uint8_t>(p_[at]) < 0x80) {
        const size_t n = CountLetters<kBothCases>(p_ + at);
        at += n;
        if (n == 8) continue;
        if (static_cast<uint8_t>(p_[at]) < 0x80) return at;
      }
      const Character next = Read(at);
      if (!wanted(next.cls)) break;
      at += next.n_bytes;
    }
    return at;
  }
  // [upper]*[lower]+ takes all of `upper` if `lower` follows; else it gives back what is not also `lower`.
  [[nodiscard]] Run UpperRun(size_t at) const {
    Run run = {at, 0};
    while (run.end < n_) {
      const Character next = Read(run.end);
      if ((next.cls & kUpper) == 0) {
        if ((next.cls & kLower) == 0) break;
        run.lower_end = LetterRunEnd<false>(run.end, [](uint8_t cls) { return (cls & kLower) != 0; });
        break;
      }
      run.end += next.n_bytes;
      if ((next.cls & kLower) != 0) run.lower_end = run.end;
    }
    return run;
  }
  // Of at most `kNumbers` numbers, of which one ends at `at`.
  template <size_t kNumbers>
  [[nodiscard]] size_t NumberEnd(size_t at) const {
    for (size_t i = 1; i < kNumbers && at < n_; ++i) {
      const Character next = Read(at);
      if ((next.cls & kNumber) == 0) break;
      at += next.n_bytes;
    }
    return at;
  }
  [[nodiscard]] size_t NewlineEnd(size_t at) const {
    while (at < n_ && (p_[at] == '\n' || p_[at] == '\r')) ++at;
    return at;
  }
  // \s*[\r\n]+|\s+(?!\S)|\s+ for white space [at, end), whose first character ends at `after_first`.
  [[nodiscard]] size_t SpaceEnd(size_t at, size_t after_first, size_t end, bool ends_piece) const {
    for (size_t i = end; i > at; --i) {
      if (p_[i - 1] == '\n' || p_[i - 1] == '\r') return i;
    }
    if (ends_piece || end == after_first) return end;
    size_t last = end - 1;
    while (IsContinuation(p_[last])) --last;
    return last;
  }

  const ClassTable& table_;
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

std::optional<SplitPattern> FindSplitPattern(std::span<const std::string_view> regexes) {
  if (regexes.size() == 3) {
    const bool is_deepseek =
        regexes[0] == R"(\p{N}{1,3})" &&
        regexes[1] == "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+" &&
        regexes[2] == R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                      "\r\n"
                      R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                      "\r\n]*|\\s*[\r\n]+"
                      R"(|\s+(?!\S)|\s+)";
    return is_deepseek ? std::optional(SplitPattern::kDeepSeek) : std::nullopt;
  }
  if (regexes.size() != 1) return std::nullopt;
  const std::string_view regex = regexes[0];
  if (regex ==
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)") {
    return SplitPattern::kO200k;
  }
  if (regex == R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
               R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
               R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)") {
    return SplitPattern::kTekken;
  }
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
    case SplitPattern::kO200k: {
      const WideCutter wide(text);
      return Fill(text, at, words, capacity, [&wide](size_t i) { return wide.O200k<true, 3>(i); });
    }
    case SplitPattern::kTekken: {
      const WideCutter wide(text);
      return Fill(text, at, words, capacity, [&wide](size_t i) { return wide.O200k<false, 1>(i); });
    }
    case SplitPattern::kDeepSeek: {
      const WideCutter wide(text);
      return Fill(text, at, words, capacity, [&wide](size_t i) { return wide.DeepSeek(i); });
    }
  }
  return 0;
}

}  // namespace slm::tokenizer
