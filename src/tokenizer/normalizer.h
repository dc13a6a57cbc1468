// Normalizers: rewrite one segment of text, keeping its alignment (TOK-06: only what the pinned
// tokenizer declares). Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_NORMALIZER_H_
#define SLM_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  [[nodiscard]] virtual Status Normalize(AlignedText* text) const = 0;
};

// Puts a text in front of every segment that is not empty.
class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  std::string prefix_;
};

// Replaces a literal text.
class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  std::string pattern_;
  std::string content_;
};

// Normalization form C with the tables of Unicode 9.0, as the pinned reference has them.
class NfcNormalizer final : public Normalizer {
 public:
  [[nodiscard]] Status Normalize(AlignedText* text) const override;
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  [[nodiscard]] Status Normalize(AlignedText* text) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_NORMALIZER_H_
