// The byte-to-character map of byte-level vocabularies (GPT-2): each byte stands as one printable
// character, so that a vocabulary of text can hold any bytes. Constant tables, any thread.
#ifndef SLM_TOKENIZER_BYTE_LEVEL_H_
#define SLM_TOKENIZER_BYTE_LEVEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {

// The character that stands for a byte: itself for ! to ~, U+00A1 to U+00AC and U+00AE to U+00FF;
// the others, in order, are U+0100 and on.
[[nodiscard]] const std::array<char32_t, 256>& ByteAlphabet();

// The byte that a character stands for.
[[nodiscard]] std::optional<uint8_t> ByteOfAlphabet(char32_t scalar);

// Rewrites a text to the characters that stand for its bytes; an escaped byte is one byte.
[[nodiscard]] Status TransformToBytes(AlignedText* text);

// Bytes of a token: mapped back if every character belongs to the alphabet, else its own UTF-8.
void AppendByteLevelToken(std::string_view token, std::string* out);

// One match of the GPT-2 pattern at `at`, as a length in bytes:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with the classes of Unicode 16.0 and Oniguruma's backtracking. REQUIRES: at < text.size(). The
// pattern matches everywhere, so successive matches cover the text.
[[nodiscard]] uint32_t MatchGpt2(std::string_view text, uint32_t at);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_BYTE_LEVEL_H_
