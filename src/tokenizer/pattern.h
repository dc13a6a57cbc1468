// What Split and Replace look for: a literal text or a regular expression. Immutable, any thread.
#ifndef SLM_TOKENIZER_PATTERN_H_
#define SLM_TOKENIZER_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/regex.h"

namespace slm::tokenizer {

class Pattern {
 public:
  explicit Pattern(std::string literal) : literal_(std::move(literal)) {}
  explicit Pattern(std::shared_ptr<const Regex> regex) : regex_(std::move(regex)) {}

  // Replaces `out` by all matches in order. An empty literal matches before every character and at the
  // end. LIMIT as RegexSearch::Next.
  [[nodiscard]] Status FindAll(std::string_view text, std::vector<Span>* out) const;
  [[nodiscard]] bool is_regex() const { return regex_ != nullptr; }
  [[nodiscard]] const std::string& literal() const { return literal_; }

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_PATTERN_H_
