// Decoders: turn the texts of tokens into text. Immutable after loading, any thread may use them.
//
// Two ways through the same chain (TOK-11). Decode works on whole lists, as the reference does, and
// gives what the reference gives, U+FFFD for ill-formed bytes included. A Stage takes tokens as
// they come and gives bytes, nothing replaced; each Stage belongs to one stream.
#ifndef SLM_TOKENIZER_DECODER_H_
#define SLM_TOKENIZER_DECODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pre_tokenizer.h"

namespace slm::tokenizer {

// Part of a token on its way through the chain.
struct Fragment {
  std::string bytes;
  bool begins = true;  // the token's first fragment
  bool ends = true;    // its last one
};

class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  // Takes one fragment and appends what can be said now.
  [[nodiscard]] virtual Status Feed(const Fragment& in, std::vector<Fragment>* out) = 0;
  // No more fragments: appends what was held back.
  [[nodiscard]] virtual Status Finish(std::vector<Fragment>* out) = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  [[nodiscard]] virtual Status Decode(std::vector<std::string>* tokens) const = 0;
  // Whether Decode skips special tokens by itself, since what it does to others depends on where they stood.
  [[nodiscard]] virtual bool takes_special_tokens() const { return false; }
  // Appends the stages of this decoder.
  virtual void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const = 0;
};

// The bytes of the alphabet's characters, in one token.
class ByteLevelDecoder final : public Decoder {
 public:
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;
};

// <0xNN> as bytes; a run of them that is not UTF-8 becomes one U+FFFD for each byte.
class ByteFallbackDecoder final : public Decoder {
 public:
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;
};

// All tokens as one.
class FuseDecoder final : public Decoder {
 public:
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;
};

// Takes up to `start` and `stop` times one character off the ends of each token.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(char32_t content, uint64_t start, uint64_t stop)
      : content_(content), start_(start), stop_(stop) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  char32_t content_;
  uint64_t start_;
  uint64_t stop_;
};

// Replaces what a pattern matches in each token.
class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

// The suffix of each token becomes a space; of the last one, nothing.
class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  std::string suffix_;
};

// Tokens with the prefix join the one before, others get a space in front.
class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;
  // What becomes of one token.
  [[nodiscard]] std::string DecodeToken(const std::string& token, bool is_first) const;

 private:
  std::string prefix_;
  bool cleanup_;
};

// Repeated tokens count once, the padding vanishes, the delimiter becomes a space.
class CtcDecoder final : public Decoder {
 public:
  CtcDecoder(std::string pad_token, std::string word_delimiter_token, bool cleanup)
      : pad_token_(std::move(pad_token)), delimiter_(std::move(word_delimiter_token)), cleanup_(cleanup) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;
  // What becomes of one token that is not a repetition; empty: it vanishes.
  [[nodiscard]] std::string DecodeToken(const std::string& token) const;

 private:
  std::string pad_token_;
  std::string delimiter_;
  bool cleanup_;
};

// The replacement becomes a space; in the first token it vanishes, unless the scheme is never.
class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(char32_t replacement, PrependScheme scheme);
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  std::string replacement_;
  bool drops_in_first_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override;
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

// The byte that a token <0xNN> stands for, as the reference reads it.
[[nodiscard]] std::optional<uint8_t> ByteOfFallbackToken(std::string_view token);

// `token` with every `pattern` replaced; an empty pattern matches before every character and at the end.
[[nodiscard]] std::string ReplaceInToken(const std::string& token, const std::string& pattern,
                                         const std::string& content);

// Each token by itself, as plain string replacement does it: an empty pattern matches in empty tokens too.
[[nodiscard]] std::string ReplaceEverywhere(const std::string& token, const std::string& pattern,
                                            const std::string& content);

// Each match in `token` replaced.
[[nodiscard]] Result<std::string> ReplacePattern(const std::string& token, const Pattern& pattern,
                                                 const std::string& content);

// The refusal where a Strip decoder takes more than there is: the reference panics.
[[nodiscard]] Status StripFailure(uint64_t stop);

// Ill-formed bytes as U+FFFD, one for each maximal subpart.
[[nodiscard]] std::string ReplaceIllFormed(std::string_view bytes);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_DECODER_H_
