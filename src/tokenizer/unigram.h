// The unigram language model as the pinned reference runs it (TOK-10): all scores and sums in double,
// a path replaces another only if it is strictly better, and of the paths that end at one place the
// one whose last piece begins first was there first. SentencePiece's own arithmetic is another
// (docs/spec/tokenizer.md).
//
// Immutable, any thread may use it.
#ifndef SLM_TOKENIZER_UNIGRAM_H_
#define SLM_TOKENIZER_UNIGRAM_H_

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/double_array.h"
#include "tokenizer/model.h"

namespace slm::tokenizer {

class UnigramModel final : public Model {
 public:
  struct Piece {
    std::string text;
    double score;
  };
  // Ids are places in `pieces`. Of equal texts the last one counts. REQUIRES: unk_id < pieces.size().
  UnigramModel(std::vector<Piece> pieces, std::optional<uint32_t> unk_id, bool byte_fallback);

  // TOK-NO-UNK for a character that no piece spells, without unk_id. Time n times the longest piece.
  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override;
  // What one call holds: with the same one for many calls, they need not each make their own.
  struct Scratch {
    struct Best {
      double score = 0;
      uint32_t begin = 0xFFFFFFFF;
      uint32_t id = 0;
    };
    std::vector<Best> best;      // of the paths that end at each byte
    std::vector<uint32_t> ends;  // of the tokens of the best path, the last one first
  };
  [[nodiscard]] Status Tokenize(std::string_view text, Scratch* scratch, std::vector<ModelToken>* out) const;
  [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
  [[nodiscard]] const UnigramModel* AsUnigram() const override { return this; }
  [[nodiscard]] std::optional<uint32_t> unk_id() const { return unk_id_; }
  [[nodiscard]] bool has_byte_tokens() const override;
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override {
    return PartsByCutting(vocabulary_);
  }

 private:
  // Appends the tokens of a run of unknown characters, fused.
  void AddUnknown(std::string_view text, uint32_t begin, uint32_t end, std::vector<ModelToken>* out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  DoubleArray trie_;
  double unk_score_ = 0;
  std::optional<uint32_t> unk_id_;
  bool byte_fallback_;
  std::array<std::optional<uint32_t>, 256> byte_ids_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_UNIGRAM_H_
