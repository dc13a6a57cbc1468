// Pre-tokenizers: cut pieces of text into smaller pieces, and may rewrite them. Added tokens pass
// through untouched. Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_PRE_TOKENIZER_H_
#define SLM_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pretokenized.h"

namespace slm::tokenizer {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  [[nodiscard]] virtual Status Run(PreTokenized* pieces) const = 0;
};

// Bytes as printable characters, cut by the GPT-2 pattern.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  void Cut(PreTokenized* pieces) const;
  bool add_prefix_space_;
  bool use_regex_;
};

// Numeric characters (Unicode 17.0, category N) apart, one by one or in runs.
class DigitsPreTokenizer final : public PreTokenizer {
 public:
  explicit DigitsPreTokenizer(bool individual_digits) : individual_digits_(individual_digits) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  bool individual_digits_;
};

// Words between White_Space, punctuation (ASCII, and P of Unicode 8.0) apart.
class BertPreTokenizer final : public PreTokenizer {
 public:
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;
  [[nodiscard]] static bool IsPunctuation(char32_t c);
};

// Punctuation as above.
class PunctuationPreTokenizer final : public PreTokenizer {
 public:
  explicit PunctuationPreTokenizer(SplitBehavior behavior) : behavior_(behavior) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  SplitBehavior behavior_;
};

// Takes out one character.
class DelimiterPreTokenizer final : public PreTokenizer {
 public:
  explicit DelimiterPreTokenizer(char32_t delimiter) : delimiter_(delimiter) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  char32_t delimiter_;
};

// Words between White_Space.
class WhitespaceSplitPreTokenizer final : public PreTokenizer {
 public:
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;
};

// Matches of \w+|[^\w\s]+ with the classes of the reference's other engine (Unicode 16.0).
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;
};

// Pieces of so many characters.
class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  // REQUIRES: length > 0.
  explicit FixedLengthPreTokenizer(uint64_t length) : length_(length) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  uint64_t length_;
};

// Runs of one script (Unicode 9.0).
class UnicodeScriptsPreTokenizer final : public PreTokenizer {
 public:
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;
};

// Cuts at what a pattern matches; `invert` swaps matches and gaps.
class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

enum class PrependScheme : uint8_t { kFirst, kNever, kAlways };

// U+0020 becomes the replacement, which is also put in front and cut at.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(char32_t replacement, PrependScheme scheme, bool split);
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  [[nodiscard]] Status Run(PreTokenized* pieces) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_PRE_TOKENIZER_H_
