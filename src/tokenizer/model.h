// Models: turn one piece of text into tokens. Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_MODEL_H_
#define SLM_TOKENIZER_MODEL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/vocabulary.h"

namespace slm::tokenizer {

// Bytes [begin, end) of the piece. They may lie beyond the piece where a suffix was split into bytes.
struct ModelToken {
  uint32_t id;
  uint32_t begin;
  uint32_t end;
  bool own_text = false;  // the token shows its piece of the text, not the text of its id
};

class BpeModel;
class UnigramModel;
class WordPieceModel;

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of `text`. Error: TOK-NO-UNK. REQUIRES: not empty.
  [[nodiscard]] virtual Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const = 0;
  [[nodiscard]] virtual const Vocabulary& vocabulary() const = 0;
  // Whether every byte has a token of its own form <0xNN> that text without a token falls back to.
  [[nodiscard]] virtual bool has_byte_tokens() const = 0;
  // The model as byte pair encoding, or null.
  [[nodiscard]] virtual const BpeModel* AsBpe() const { return nullptr; }
  // The model as Unigram, or null.
  [[nodiscard]] virtual const UnigramModel* AsUnigram() const { return nullptr; }
  // The model as WordPiece, or null.
  [[nodiscard]] virtual const WordPieceModel* AsWordPiece() const { return nullptr; }
  // Pairs of tokens that the model puts together, for searches that look for places where models differ.
  [[nodiscard]] virtual std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const = 0;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_MODEL_H_
