// SentencePiece models (.model files) with SentencePiece's own rules and arithmetic: the second
// personality beside tokenizer.json (docs/spec/tokenizer.md, section 10). The parts here stand in the
// same pipeline as those of a tokenizer.json. Immutable after loading, any thread may use them.
//
// Source of the rules: SentencePiece 0.1.97 to 0.2; unigram sums are formed in double and kept as
// float, a candidate replaces another only if it is strictly better.
#ifndef SLM_TOKENIZER_SENTENCEPIECE_H_
#define SLM_TOKENIZER_SENTENCEPIECE_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tokenizer/compiled.h"
#include "tokenizer/decoder.h"
#include "tokenizer/double_array.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"

namespace slm::tokenizer {

enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePieces {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  std::vector<Piece> pieces;
  bool is_bpe = false;
  bool byte_fallback = false;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Reads the file's protocol buffer. TOK-SCHEMA with the byte offset; TOK-LIMIT; TOK-SCORE;
// TOK-ID-DUP for a piece that stands twice; TOK-UNSUPPORTED for the model types WORD and CHAR and for
// white space as a suffix.
[[nodiscard]] Result<SentencePieces> ReadSentencePieces(ByteSpan file);

// The pipeline. Errors: those above, TOK-CHARSMAP.
[[nodiscard]] Result<Compiled> CompileSentencePiece(ByteSpan file);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_SENTENCEPIECE_H_
