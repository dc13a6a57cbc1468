// What BERT's normalizer and pre-tokenizer and a WordPiece model make of a text, part by part, for the fast
// path. ASCII white space and punctuation, and Chinese characters where they stand alone, end a word on both
// sides whatever stands beside them: no character is composed, moved or removed across them. So the parts
// between them have the tokens that they have in the whole text, at the same places.
//
// Immutable, any thread may use one.
#ifndef SLM_TOKENIZER_BERT_WORDS_H_
#define SLM_TOKENIZER_BERT_WORDS_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/word_models.h"

namespace slm::tokenizer {

class BertWords {
 public:
  // `model` must outlive it.
  BertWords(const BertNormalizer::Options& options, const WordPieceModel& model);

  // Writes parts of `text` from `at` on to parts[0, capacity) and returns how many; `at` moves to where the
  // next ones begin. What lies between them is white space. REQUIRES: well-formed UTF-8, below 4 GiB.
  size_t Split(std::string_view text, size_t* at, Word* parts, size_t capacity) const;

  struct Token {
    uint32_t id;
    uint32_t begin;  // bytes of the part that it comes from
    uint32_t end;
    bool starts_word;
  };
  struct Scratch {
    AlignedText text;
    std::vector<ModelToken> tokens;
  };
  // Replaces *out by the tokens of a part; there may be none. Error: TOK-NO-UNK.
  [[nodiscard]] Status Encode(std::string_view part, Scratch* scratch, std::vector<Token>* out) const;

 private:
  enum ByteClass : uint8_t { kInWord, kSpace, kAlone, kLead };  // kLead: a Chinese character may begin here

  [[nodiscard]] Status Normalize(std::string_view part, AlignedText* out) const;
  [[nodiscard]] Status EncodeWord(uint32_t begin, uint32_t end, Scratch* scratch,
                                  std::vector<Token>* out) const;

  BertNormalizer normalizer_;
  const WordPieceModel& model_;
  std::array<uint8_t, 256> classes_{};
  std::array<char, 128> plain_{};  // an ASCII character that does not vanish, after normalization; else 0
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_BERT_WORDS_H_
