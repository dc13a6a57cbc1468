// What the normalizers, the pre-tokenizers and the model of a Unigram file (XLNet, ALBERT, T5, XLM-R) make of
// a text, part by part, for the fast path. Parts are cut beside ASCII white space, where no stage looks
// across: nothing is matched, sorted, composed or taken for one grapheme cluster over such a place
// (docs/spec/tokenizer.md, section 13). So a part has the tokens that it has in the whole text.
//
// Immutable, any thread may use one.
#ifndef SLM_TOKENIZER_UNIGRAM_WORDS_H_
#define SLM_TOKENIZER_UNIGRAM_WORDS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bert_words.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unigram.h"

namespace slm::tokenizer {

class UnigramWords {
 public:
  // The normalizers, in this order. After them: WhitespaceSplit, and Metaspace with U+2581 in front of every
  // word.
  struct Options {
    struct Replacement {  // both ASCII without white space; `with` not empty and no longer than `text`
      std::string text;
      std::string with;
    };
    std::vector<Replacement> replacements;
    bool nfkd_strip_accents = false;  // NFKD and StripAccents
    bool lowercase = false;
    bool charsmap = false;  // Precompiled
  };
  // Null where ASCII white space does not stay what it is. `charsmap` is null unless there is one. The parts
  // must outlive it.
  [[nodiscard]] static std::unique_ptr<const UnigramWords> Make(Options options, const UnigramModel& model,
                                                                const PrecompiledNormalizer* charsmap);

  // As BertWords::Split.
  size_t Split(std::string_view text, size_t* at, Word* parts, size_t capacity) const;

  using Token = BertWords::Token;
  struct Char {
    char32_t scalar;
    Span origin;
  };
  struct Scratch {
    std::vector<Char> chars;
    std::vector<Char> after;       // of the stage in hand
    std::vector<Change> changes;   // of a charsmap
    std::string piece;             // with its prefix
    std::vector<uint32_t> places;  // which of chars each byte of `piece` stands for
    std::vector<ModelToken> tokens;
    UnigramModel::Scratch model;
    uint64_t n_bytes = 0;  // of the part after any stage, at most
  };
  // Replaces *out by the tokens of a part; there may be none. False for a part that only the whole text can
  // tell about, or with which a stage fails.
  [[nodiscard]] bool Encode(std::string_view part, Scratch* scratch, std::vector<Token>* out) const;

  // Id of the tokens that show their place in the text in place of their own.
  [[nodiscard]] bool IsUnknown(uint32_t id) const { return model_.unk_id() == id; }
  // Whether no stage makes more than 1 GiB of `text`, as far as its size tells.
  [[nodiscard]] bool StaysSmall(std::string_view text) const;

 private:
  UnigramWords(Options options, const UnigramModel& model, const PrecompiledNormalizer* charsmap);
  [[nodiscard]] bool SetUp();
  // What the normalizers make of one ASCII character by itself; nothing where they fail.
  [[nodiscard]] std::optional<std::string> OfAscii(char c) const;
  [[nodiscard]] bool EncodePlain(std::string_view part, Scratch* scratch, std::vector<Token>* out) const;
  void Read(std::string_view part, Scratch* scratch) const;
  [[nodiscard]] bool ApplyCharsmap(Scratch* scratch) const;
  [[nodiscard]] bool EncodeWord(size_t begin, size_t end, Scratch* scratch, std::vector<Token>* out) const;

  Options options_;
  const UnigramModel& model_;
  const PrecompiledNormalizer* charsmap_;
  std::array<char, 128> plain_{};  // an ASCII character after normalization; 0: not another such one
  std::array<bool, 256> is_space_{};
  std::array<bool, 256> starts_part_{};  // may be cut off from white space before it
  uint64_t ascii_growth_ = 1;
  uint64_t growth_ = 1;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_UNIGRAM_WORDS_H_
