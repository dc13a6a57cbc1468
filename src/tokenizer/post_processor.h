// Post-processors: trim offsets and put special tokens around the text (TOK-07: they own those
// tokens). Immutable after loading, any thread may use them.
#ifndef SLM_TOKENIZER_POST_PROCESSOR_H_
#define SLM_TOKENIZER_POST_PROCESSOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/encoding.h"

namespace slm::tokenizer {

// Whether trimming takes this character of a token's text out of its offsets.
[[nodiscard]] bool IsTrimmedFromOffsets(char32_t scalar);

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Takes and leaves a list of rows that are joined in the end.
  [[nodiscard]] virtual Status Process(std::vector<Row>* rows, bool add_special_tokens) const = 0;
  // Tokens that it adds to one sequence or to a pair.
  [[nodiscard]] virtual uint64_t n_added(bool is_pair) const = 0;
  // Ids that it puts before or after a single sequence: who emits BOS and EOS (TPL-05).
  [[nodiscard]] virtual std::vector<uint32_t> added_ids(bool before_text) const = 0;
  // Whether it trims offsets; `add_prefix_space` of the last part that does.
  struct Trimming {
    uint32_t n_times = 0;
    bool add_prefix_space = false;
  };
  [[nodiscard]] virtual Trimming trimming() const { return {}; }
};

// Takes white space at either end of a token out of its offsets.
class ByteLevelPostProcessor final : public PostProcessor {
 public:
  ByteLevelPostProcessor(bool add_prefix_space, bool trim_offsets)
      : add_prefix_space_(add_prefix_space), trim_offsets_(trim_offsets) {}
  [[nodiscard]] Status Process(std::vector<Row>* rows, bool add_special_tokens) const override;
  [[nodiscard]] uint64_t n_added(bool) const override { return 0; }
  [[nodiscard]] std::vector<uint32_t> added_ids(bool) const override { return {}; }
  [[nodiscard]] Trimming trimming() const override { return {trim_offsets_ ? 1u : 0u, add_prefix_space_}; }

 private:
  void Trim(Row* row) const;
  bool add_prefix_space_;
  bool trim_offsets_;
};

// [CLS] A [SEP] B [SEP] with type ids 0 and 1, or, as RoBERTa has it, <s> A </s></s> B </s> with type
// ids 0.
class PairPostProcessor final : public PostProcessor {
 public:
  struct Token {
    std::string text;
    uint32_t id;
  };
  // `trim` may be null (BERT); with one it is RoBERTa's form.
  PairPostProcessor(Token cls, Token sep, bool is_roberta, std::unique_ptr<ByteLevelPostProcessor> trim)
      : cls_(std::move(cls)), sep_(std::move(sep)), is_roberta_(is_roberta), trim_(std::move(trim)) {}
  [[nodiscard]] Status Process(std::vector<Row>* rows, bool add_special_tokens) const override;
  [[nodiscard]] uint64_t n_added(bool is_pair) const override { return !is_pair ? 2 : is_roberta_ ? 4 : 3; }
  [[nodiscard]] std::vector<uint32_t> added_ids(bool before_text) const override {
    return {before_text ? cls_.id : sep_.id};
  }
  [[nodiscard]] Trimming trimming() const override {
    return trim_ == nullptr ? Trimming{} : trim_->trimming();
  }

 private:
  void Wrap(Row* row, bool is_first) const;
  Token cls_;
  Token sep_;
  bool is_roberta_;
  std::unique_ptr<ByteLevelPostProcessor> trim_;
};

// The sequences and special tokens in a fixed order.
class TemplatePostProcessor final : public PostProcessor {
 public:
  struct Special {
    std::vector<uint32_t> ids;
    std::vector<std::string> tokens;  // as many
  };
  struct Element {
    int sequence = -1;  // 0 or 1, or -1 for a special token
    uint32_t type_id = 0;
    size_t special = 0;  // index
  };
  // REQUIRES: `single` uses sequence 0 only.
  TemplatePostProcessor(std::vector<Element> single, std::vector<Element> pair, std::vector<Special> specials)
      : single_(std::move(single)), pair_(std::move(pair)), specials_(std::move(specials)) {}
  [[nodiscard]] Status Process(std::vector<Row>* rows, bool add_special_tokens) const override;
  [[nodiscard]] uint64_t n_added(bool is_pair) const override;
  [[nodiscard]] std::vector<uint32_t> added_ids(bool before_text) const override;

 private:
  std::vector<Element> single_;
  std::vector<Element> pair_;
  std::vector<Special> specials_;
};

class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(std::vector<std::unique_ptr<PostProcessor>> parts)
      : parts_(std::move(parts)) {}
  [[nodiscard]] Status Process(std::vector<Row>* rows, bool add_special_tokens) const override;
  [[nodiscard]] uint64_t n_added(bool is_pair) const override;
  [[nodiscard]] std::vector<uint32_t> added_ids(bool before_text) const override;
  [[nodiscard]] Trimming trimming() const override;

 private:
  std::vector<std::unique_ptr<PostProcessor>> parts_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_POST_PROCESSOR_H_
