// Hand-written matchers for the patterns by which published byte-level tokenizers cut text into words;
// each gives what the general engine gives for the same pattern (Unicode 16.0, Oniguruma's
// backtracking), which tests hold it to. Constant tables, any thread.
#ifndef SLM_TOKENIZER_SPLITTER_H_
#define SLM_TOKENIZER_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace slm::tokenizer {

enum class SplitPattern : uint8_t {
  kGpt2,        // that of MatchGpt2 (byte_level.h)
  kGpt2Digits,  // each numeric character (Unicode 17.0) cut out, then kGpt2 on what is between
  kCl100k,      // GPT-4's and Llama 3's: numbers in threes
  kQwen2,       // the same with numbers one by one
  kO200k,       // GPT-4o's and gpt-oss's: words end where lower case turns to upper
  kTekken,      // Mistral's: the same without contractions, and numbers one by one
  kDeepSeek,    // three in a row: numbers in threes, Chinese and Japanese, then all that is between
};

// The family whose regular expressions these are, as they stand in Split pre-tokenizers one after another.
[[nodiscard]] std::optional<SplitPattern> FindSplitPattern(std::span<const std::string_view> regexes);

struct Word {
  uint32_t begin;
  uint32_t end;
};

// Appends words of `text` from `at` on to words[0, capacity) and returns how many; `at` moves to the end
// of the last one. The words cover the text. REQUIRES: well-formed UTF-8, below 4 GiB.
size_t SplitWords(SplitPattern pattern, std::string_view text, size_t* at, Word* words, size_t capacity);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_SPLITTER_H_
