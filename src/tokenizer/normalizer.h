// Normalizers: rewrite one segment of text, keeping its alignment (TOK-06: only what the pinned
// tokenizer declares). Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_NORMALIZER_H_
#define SLM_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/pattern.h"

namespace slm::tokenizer {

class PrecompiledNormalizer;

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  [[nodiscard]] virtual Status Normalize(AlignedText* text) const = 0;
  // The last charsmap among its parts, or null.
  [[nodiscard]] virtual const PrecompiledNormalizer* FindCharsmap() const { return nullptr; }
};

// Puts a text in front of every segment that is not empty.
class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  std::string prefix_;
};

// Replaces what a pattern matches; the content is literal.
class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

// A normalization form (UAX #15) with the tables of Unicode 9.0, as the pinned reference has them.
class UnicodeNormalizer final : public Normalizer {
 public:
  UnicodeNormalizer(bool compatible, bool compose) : compatible_(compatible), compose_(compose) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
  // The text that Normalize makes of a whole input, where nobody asks for its origin.
  [[nodiscard]] std::string NormalizeText(std::string_view text) const;

 private:
  bool compatible_;
  bool compose_;
};

// The original BERT's cleaning, with categories of Unicode 8.0 and lower case of 17.0.
class BertNormalizer final : public Normalizer {
 public:
  struct Options {
    bool clean_text;
    bool handle_chinese_chars;
    bool strip_accents;
    bool lowercase;
  };
  explicit BertNormalizer(const Options& options) : options_(options) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
  // What Normalize makes of `text` as a whole input, in one step; false where marks that stay might change
  // places, and *out is then of no use.
  [[nodiscard]] bool NormalizeInOrder(std::string_view text, AlignedText* out) const;
  // The characters around which spaces are put.
  [[nodiscard]] static bool IsChinese(char32_t c);

 private:
  Options options_;
};

// Takes White_Space off the ends.
class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  bool left_;
  bool right_;
};

// Takes out all marks (M, Unicode 9.0), without decomposing first.
class StripAccentsNormalizer final : public Normalizer {
 public:
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
};

// Lower case of each character by itself (Unicode 17.0).
class LowercaseNormalizer final : public Normalizer {
 public:
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
};

// Takes out some controls and turns others, and some invisible characters, into spaces.
class NmtNormalizer final : public Normalizer {
 public:
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
};

// Bytes as characters of the byte alphabet.
class ByteLevelNormalizer final : public Normalizer {
 public:
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
};

// A SentencePiece map, looked up as the reference does: grapheme cluster by grapheme cluster (Unicode
// 17.0), where the shortest entry that begins the cluster replaces all of it. Nothing else knows clusters
// (TOK-08).
class PrecompiledNormalizer final : public Normalizer {
 public:
  // TOK-CHARSMAP for a map that is damaged where it can be told at once.
  [[nodiscard]] static Result<std::unique_ptr<PrecompiledNormalizer>> Make(ByteSpan charsmap);
  // The longest entry that begins `text`, with its length, as SentencePiece itself looks. TOK-CHARSMAP.
  [[nodiscard]] Result<std::optional<std::pair<size_t, std::string_view>>> FindLongest(
      std::string_view text) const;
  // The replacement of the shortest entry that begins `cluster`, as Normalize looks it up. TOK-CHARSMAP.
  [[nodiscard]] Result<std::optional<std::string_view>> FindShortest(std::string_view cluster) const;
  // No replacement has more bytes.
  [[nodiscard]] size_t LongestReplacement() const;
  // TOK-CHARSMAP where the text leads outside the trie or its strings.
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
  [[nodiscard]] const PrecompiledNormalizer* FindCharsmap() const override { return this; }

 private:
  PrecompiledNormalizer() = default;
  // The shortest (or longest) entry that begins `part`: its length and its replacement.
  [[nodiscard]] Result<std::optional<std::pair<size_t, std::string_view>>> Find(std::string_view part,
                                                                                bool longest) const;
  std::vector<uint32_t> trie_;  // a double array (Darts)
  std::string strings_;         // ended by NUL each
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
  [[nodiscard]] const PrecompiledNormalizer* FindCharsmap() const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_NORMALIZER_H_
