// Models that take words as wholes: WordPiece and WordLevel. Immutable, any thread may use them.
#ifndef SLM_TOKENIZER_WORD_MODELS_H_
#define SLM_TOKENIZER_WORD_MODELS_H_

#include <string>
#include <utility>
#include <vector>

#include "tokenizer/double_array.h"
#include "tokenizer/model.h"

namespace slm::tokenizer {

// The longest piece first, from left to right; a word that does not come out is unknown as a whole.
class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, std::string unk_token, const std::string& continuing_subword_prefix,
                 uint64_t max_input_chars_per_word);
  // TOK-NO-UNK where unk_token is needed and not in the vocabulary.
  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override;
  [[nodiscard]] bool has_unknown() const { return vocabulary_.Find(unk_token_).has_value(); }
  [[nodiscard]] const WordPieceModel* AsWordPiece() const override { return this; }
  [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
  [[nodiscard]] bool has_byte_tokens() const override { return false; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override { return {}; }

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
  uint64_t max_chars_;
  DoubleArray first_;  // all tokens
  DoubleArray next_;   // tokens that begin with the prefix, without it
};

class WordLevelModel final : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token)
      : vocabulary_(std::move(vocabulary)), unk_token_(std::move(unk_token)) {}
  // TOK-NO-UNK as above.
  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override;
  [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
  [[nodiscard]] bool has_byte_tokens() const override { return false; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override { return {}; }

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_WORD_MODELS_H_
