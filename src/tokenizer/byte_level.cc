#include "tokenizer/byte_level.h"

#include "base/utf8.h"
#include "tokenizer/aligned_text.h"
#include "unicode/classes_v16_0.h"

namespace slm::tokenizer {
namespace {

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> MakeAlphabet() {
  std::array<char32_t, 256> out{};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) out[byte] = StandsForItself(byte) ? byte : next++;
  return out;
}
constexpr std::array<char32_t, 256> kAlphabet = MakeAlphabet();
constexpr char32_t kAlphabetEnd = 0x144;  // 68 bytes do not stand for themselves

constexpr std::array<int16_t, kAlphabetEnd> MakeInverse() {
  std::array<int16_t, kAlphabetEnd> out{};
  for (auto& value : out) value = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) out[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return out;
}
constexpr std::array<int16_t, kAlphabetEnd> kInverse = MakeInverse();

// The three classes of the pattern; one of these, or 0 for everything else.
uint8_t ClassOf(char32_t scalar) {
  return unicode::ClassV16(scalar) & (unicode::kLetter | unicode::kNumber | unicode::kWhiteSpace);
}

// End of the run of characters of class `wanted` from `at`.
size_t RunEnd(std::string_view text, size_t at, uint8_t wanted) {
  while (at < text.size()) {
    const Scalar scalar = ReadScalar(text.data() + at);
    if (ClassOf(scalar.value) != wanted) break;
    at += scalar.n_bytes;
  }
  return at;
}

// Length of 's 't 'm 'd 're 've 'll at `at`, or 0.
uint32_t Contraction(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (at + 2 >= text.size()) return 0;
  const char second = text[at + 2];
  return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l') ? 3 : 0;
}

}  // namespace

const std::array<char32_t, 256>& ByteAlphabet() {
  return kAlphabet;
}

std::optional<uint8_t> ByteOfAlphabet(char32_t scalar) {
  if (scalar >= kAlphabetEnd || kInverse[scalar] < 0) return std::nullopt;
  return static_cast<uint8_t>(kInverse[scalar]);
}

Status TransformToBytes(AlignedText* text) {
  std::vector<Change> changes;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    if (IsEscapedByte(scalar.value)) {
      changes.push_back({kAlphabet[scalar.value & 0xFF], 0});
    } else {
      for (uint32_t k = 0; k < scalar.n_bytes; ++k) {
        changes.push_back({kAlphabet[static_cast<uint8_t>(text->text[i + k])], k > 0 ? 1 : 0});
      }
    }
    i += scalar.n_bytes;
  }
  return Transform(text, changes);
}

void AppendByteLevelToken(std::string_view token, std::string* out) {
  if (FindUtf8Fault(token)) {
    out->append(token);
    return;
  }
  const size_t before = out->size();
  for (size_t i = 0; i < token.size();) {
    const Scalar scalar = ReadScalar(token.data() + i);
    i += scalar.n_bytes;
    const auto byte = ByteOfAlphabet(scalar.value);
    if (!byte) {
      out->resize(before);
      out->append(token);
      return;
    }
    out->push_back(static_cast<char>(*byte));
  }
}

uint32_t MatchGpt2(std::string_view text, uint32_t at) {
  const Scalar first = ReadScalar(text.data() + at);
  if (first.value == '\'') {
    if (const uint32_t n = Contraction(text, at); n != 0) return n;
  }
  const uint8_t first_class = ClassOf(first.value);
  const size_t after_first = at + first.n_bytes;
  if (first_class != unicode::kWhiteSpace) {
    return static_cast<uint32_t>(RunEnd(text, after_first, first_class) - at);
  }
  if (first.value == ' ' && after_first < text.size()) {
    const uint8_t next_class = ClassOf(ReadScalar(text.data() + after_first).value);
    if (next_class != unicode::kWhiteSpace) {
      return static_cast<uint32_t>(RunEnd(text, after_first, next_class) - at);
    }
  }
  const size_t end = RunEnd(text, after_first, unicode::kWhiteSpace);
  if (end == text.size() || end == after_first) return static_cast<uint32_t>(end - at);
  size_t last = end - 1;  // \s+(?!\S) gives the last white space back
  while (IsContinuation(text[last])) --last;
  return static_cast<uint32_t>(last - at);
}

}  // namespace slm::tokenizer
