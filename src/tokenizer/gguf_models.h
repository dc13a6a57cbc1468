// The parts of a GGUF vocabulary's pipeline: what llama.cpp does, where it is neither what a tokenizer.json
// nor what a SentencePiece model says (docs/spec/tokenizer.md, section 12). They stand in the same pipeline
// as those of a tokenizer.json. Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_GGUF_MODELS_H_
#define SLM_TOKENIZER_GGUF_MODELS_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/decoder.h"
#include "tokenizer/double_array.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/sentencepiece.h"

namespace slm::tokenizer {

// `tokenizer.ggml.model`.
enum class GgufKind : uint8_t { kBpe, kScored, kUnigram, kWordPiece };

struct GgufToken {
  float score = 0;
  PieceType type = PieceType::kNormal;  // as the file has it: what the models go by
  bool is_defined = true;               // false: a type that the reference does not know
  bool is_control = false;  // as the reference sees it once it has looked at the texts: what decoding goes by
  bool is_user_defined = false;
};

// What the parts share. Ids are places in `tokens`.
struct GgufTable {
  GgufKind kind = GgufKind::kBpe;
  Vocabulary vocabulary;
  std::vector<GgufToken> tokens;
  std::array<std::optional<uint32_t>, 256> byte_ids;  // <0xNN>
  uint32_t unk_id = 0;                                // kUnigram, kWordPiece
  std::optional<uint32_t> bos_id;
  std::optional<uint32_t> eos_id;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  bool clean_spaces = false;
};

// Byte-level BPE. A character without a token vanishes, and nothing is joined across it.
[[nodiscard]] std::unique_ptr<Model> MakeGgufBpe(std::unique_ptr<Model> bpe, bool ignore_merges);

// Neighbours whose joined text is any token at all are joined, the highest score first; a character without a
// token becomes its bytes. Tokenize: TOK-NO-UNK where such a byte has no token.
[[nodiscard]] std::unique_ptr<Model> MakeGgufScored(std::shared_ptr<const GgufTable> table);

// Sums in double, a token of the user costs nothing; unknown text is one token for each run.
[[nodiscard]] std::unique_ptr<Model> MakeGgufUnigram(std::shared_ptr<const GgufTable> table);

// U+2581 and the word, the longest token first; a word that does not come out is unknown as a whole.
[[nodiscard]] std::unique_ptr<Model> MakeGgufWordPiece(std::shared_ptr<const GgufTable> table);

// For kUnigram: the character map (null: none), spaces as U+2581, one put before each segment's first word.
[[nodiscard]] std::unique_ptr<Normalizer> MakeGgufUnigramNormalizer(
    std::shared_ptr<const GgufTable> table, std::unique_ptr<PrecompiledNormalizer> charsmap,
    bool remove_extra_whitespaces);

// For kWordPiece: controls go, and with `strip_accents` every character becomes the first one of its
// canonical decomposition and marks go; then lower case.
[[nodiscard]] std::unique_ptr<Normalizer> MakeGgufWordNormalizer(bool lowercase, bool strip_accents);

[[nodiscard]] std::unique_ptr<Decoder> MakeGgufDecoder(std::shared_ptr<const GgufTable> table);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_GGUF_MODELS_H_
