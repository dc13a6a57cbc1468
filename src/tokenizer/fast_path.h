// The fast way from text to ids, for the tokenizers that most models have: byte-level BPE with a known
// pattern, BPE over whole texts in which spaces are U+2581, WordPiece as BERT has it (bert_words.h), and
// Unigram as XLNet and T5 have it (unigram_words.h).
// Loading decides whether a file is of such a form; everything else takes the general path (tokenizer.cc),
// which also says what is right: both give the same tokens and offsets.
//
// Why it is fast: the text is not rewritten, it is cut by hand-written matchers, and words that came
// before are looked up (WordCache). A long word is encoded in windows, so its cost is linear in practice and
// its memory a few bytes for each of its bytes:
//   BPE takes the lowest rank first, so what happens inside two neighbouring parts of a text happens in
//   the same order whether they stand alone or among others, until a merge crosses a border. A row of
//   tokens is therefore the encoding of its text if and only if each two neighbours are the encoding
//   of theirs. Windows are encoded one by one, and widened at their borders until that holds.
//
// Any thread may use one: what is kept between calls is handed to one call at a time.
#ifndef SLM_TOKENIZER_FAST_PATH_H_
#define SLM_TOKENIZER_FAST_PATH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "tokenizer/added_vocabulary.h"
#include "tokenizer/bert_words.h"
#include "tokenizer/bpe_merger.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unigram_words.h"
#include "tokenizer/word_cache.h"

namespace slm::tokenizer {

// What a file declares, where it is a form that the fast path knows.
struct FastForm {
  enum class Prefix : uint8_t {
    kNone,
    kAlways,           // U+2581 in front of every segment
    kUnlessThere,      // unless it begins with one
    kFirstUnlessThere  // the same for a segment at the start of the input only
  };
  bool is_byte_level = false;
  SplitPattern pattern = SplitPattern::kGpt2;    // byte-level only
  bool nfc = false;                              // byte-level only
  Prefix prefix = Prefix::kNone;                 // otherwise
  std::optional<BertNormalizer::Options> bert;   // set: WordPiece, and nothing of the above
  std::optional<UnigramWords::Options> unigram;  // the same, with Unigram
};
// REQUIRES: a tokenizer.json that loads.
[[nodiscard]] std::optional<FastForm> FindFastForm(json::Value root);

struct FastTokens {
  std::vector<uint32_t> ids;
  std::vector<Span> spans;      // in bytes of the input; only if asked for, like the rest
  std::vector<uint32_t> words;  // index of the piece
  std::vector<uint32_t> added;  // places in `ids` of tokens that are added tokens
  // Every token that is not an added one has the text at its place. Not so where bytes have no token.
  bool spells_text = true;
  bool shows_unknown = false;  // a token has its place in the normalized text as its own text
};

class FastPath {
 public:
  // Null if the model is not one that the fast path runs. The parts must outlive it; `normalizer` may be
  // null.
  [[nodiscard]] static std::unique_ptr<const FastPath> Make(const FastForm& form, const Model& model,
                                                            const AddedVocabulary& added,
                                                            const Normalizer* normalizer);
  ~FastPath();
  FastPath(const FastPath&) = delete;
  FastPath& operator=(const FastPath&) = delete;

  // Replaces *out by the tokens of a text; false for the rare text that must take the general path.
  // Error codes as Tokenizer::Encode. REQUIRES: well-formed UTF-8 of at most kMaxInputBytes.
  [[nodiscard]] Result<bool> Encode(std::string_view text, Unmatched unmatched, bool with_spans,
                                    FastTokens* out) const;

 private:
  struct State;
  class Call;
  FastPath(const FastForm& form, const Model& model, const AddedVocabulary& added);
  [[nodiscard]] bool SetUpBpe(const BpeModel& model);
  [[nodiscard]] bool SetUpBytes(const BpeModel& model);
  [[nodiscard]] bool SetUpScalars(const BpeModel& model);

  // Id of a character, or kNone.
  [[nodiscard]] uint32_t IdOf(char32_t scalar) const {
    const uint32_t page = pages_[scalar >> 8];
    return page == 0 ? kNone : page_ids_[(page - 1) << 8 | (scalar & 0xFF)];
  }
  // How many symbols a token stands for: bytes, or characters and bytes without a character of their own.
  [[nodiscard]] uint32_t SymbolsOf(uint32_t id) const;

  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr size_t kNotAscii = 128;  // the class of all other characters

  FastForm form_;
  const Model& model_;
  const AddedVocabulary& added_;
  UnicodeNormalizer nfc_{false, true};
  std::optional<BertWords> bert_words_;                // WordPiece only
  std::unique_ptr<const UnigramWords> unigram_words_;  // Unigram only; what follows is for BPE
  bool ignore_merges_ = false;
  std::unique_ptr<const BpeMerger> merger_;
  std::vector<uint8_t> n_symbols_;        // by id; kMany: count them
  uint32_t max_symbols_ = 0;              // of any token
  std::array<uint32_t, 256> byte_ids_{};  // of bytes (byte-level), or of <0xNN>
  std::vector<bool> is_byte_token_;       // by id; not byte-level
  std::vector<uint16_t> pages_;           // by the upper bits of a character, one more than the page
  std::vector<uint32_t> page_ids_;
  // Which class of characters may follow which inside a token that merges make: 129 bits each.
  std::array<std::array<uint64_t, 3>, kNotAscii + 1> joins_{};
  mutable std::atomic<State*> state_{nullptr};
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_FAST_PATH_H_
