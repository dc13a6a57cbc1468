// Pre-tokenizers: cut pieces of text into smaller pieces, and may rewrite them. Added tokens pass
// through untouched. Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_PRE_TOKENIZER_H_
#define SLM_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
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
