// Byte pair encoding with every option of the pinned reference (TOK-09): the merge of the lowest
// rank first, the leftmost of equal ones.
//
// Short words are merged by looking through all pairs each time; long ones with a heap, so that a
// word of n symbols costs O(n log n). Both give the same tokens.
#ifndef SLM_TOKENIZER_BPE_H_
#define SLM_TOKENIZER_BPE_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/model.h"

namespace slm::tokenizer {

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

struct MergeRule {
  uint32_t left;
  uint32_t right;
  uint32_t merged;
};

// <0xNN>
[[nodiscard]] std::string ByteTokenText(uint32_t byte);

class BpeModel final : public Model {
 public:
  // `merges` in order of rank; of a pair that stands twice the last one counts. `table`: the same.
  BpeModel(BpeOptions options, Vocabulary vocabulary, std::vector<MergeRule> merges, MergeTable table);

  BpeModel(BpeOptions options, Vocabulary vocabulary, const std::vector<MergeRule>& merges)
      : BpeModel(std::move(options), std::move(vocabulary), merges, TableOf(merges)) {}

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override;
  [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
  [[nodiscard]] bool has_byte_tokens() const override;
  [[nodiscard]] const BpeModel* AsBpe() const override { return this; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override;

  [[nodiscard]] const BpeOptions& options() const { return options_; }
  // In order of rank.
  [[nodiscard]] const std::vector<MergeRule>& merges() const { return rules_; }
  // The tokens <0xNN>, as far as they are there.
  [[nodiscard]] const std::array<std::optional<uint32_t>, 256>& byte_ids() const { return byte_ids_; }

  // Words of at least this many symbols use the heap.
  static constexpr size_t kHeapFrom = 48;

 private:
  [[nodiscard]] static MergeTable TableOf(const std::vector<MergeRule>& merges);
  struct Symbol {
    uint32_t id;
    uint32_t n_bytes;
    int32_t previous;
    int32_t next;
  };
  struct Unknown {
    bool pending = false;
    uint32_t n_bytes = 0;
  };
  [[nodiscard]] Status Start(std::string_view text, std::vector<Symbol>* symbols) const;
  [[nodiscard]] std::optional<uint32_t> IdOf(std::string_view character, bool is_first, bool is_last,
                                             std::string* decorated) const;
  [[nodiscard]] bool FallBack(std::string_view symbol, std::vector<Symbol>* symbols) const;
  [[nodiscard]] Status AddUnknown(uint32_t n_bytes, Unknown* unknown, std::vector<Symbol>* symbols) const;
  void MergeShort(std::vector<Symbol>* symbols) const;
  void MergeLong(std::vector<Symbol>* symbols) const;

  BpeOptions options_;
  Vocabulary vocabulary_;
  std::vector<MergeRule> rules_;
  MergeTable merges_;
  std::optional<uint32_t> unk_id_;
  std::array<std::optional<uint32_t>, 256> byte_ids_;
  std::vector<uint32_t> low_ids_;                     // single characters below U+0400
  std::unordered_map<char32_t, uint32_t> other_ids_;  // single characters from there on
  bool is_decorated_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_BPE_H_
