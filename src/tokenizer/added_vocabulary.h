// Tokens that were added to a vocabulary: found in the text as such, before the model sees it.
//
// The reference looks twice: for tokens that are not normalized in the input itself, then, after the
// normalizer ran on each segment, for the normalized ones (a recorded deviation from TOK-01's order
// of stages). Immutable after Build, any thread may use it.
#ifndef SLM_TOKENIZER_ADDED_VOCABULARY_H_
#define SLM_TOKENIZER_ADDED_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "tokenizer/matcher.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenized.h"

namespace slm::tokenizer {

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
  std::string pattern;  // what is searched for: content, or its normalized form
};

// Which added tokens a text may not form.
enum class Unmatched : uint8_t {
  kNone,
  kSpecial,  // those with the flag `special`, as the reference's encode_special_tokens
  kMarkers,  // all but those of white space, which stand for nothing else
};

class AddedVocabulary {
 public:
  // A token whose text is there already replaces it. `normalizer` may be null.
  // TOK-ADDED-DUP if another token has the same normalized form; TOK-SCHEMA if that is empty.
  [[nodiscard]] Status Add(AddedToken token, const Normalizer* normalizer);
  // Call before Build: the token of the longest text is looked for first, then the next over what is left (of
  // equal length, the earlier one), and one that may not match hides nothing. White space beside tokens is
  // that of ASCII. For vocabularies of GGUF files; all tokens must be not normalized.
  void SearchLongestFirst() { longest_first_ = true; }
  [[nodiscard]] Status Build();

  [[nodiscard]] const std::vector<AddedToken>& tokens() const { return tokens_; }
  [[nodiscard]] const AddedToken* FindContent(std::string_view content) const;
  [[nodiscard]] const AddedToken* FindId(uint32_t id) const;
  // Whether decoding skips a token of this text.
  [[nodiscard]] bool IsSpecialText(std::string_view text) const {
    return special_texts_.contains(std::string(text));
  }

  // Cuts every text piece at the tokens that are (not) normalized. TOK-SCHEMA where a token that
  // takes white space to its left stands inside what the one before took to its right: the
  // reference panics.
  [[nodiscard]] Status Cut(PreTokenized* pieces, bool normalized, Unmatched unmatched) const;

  struct Found {
    size_t begin;
    size_t end;
    uint32_t added;  // index into tokens(), or kNoToken
  };
  // The same cut of one text: parts that cover it, of which an empty one is not a piece.
  [[nodiscard]] Result<std::vector<Found>> Parts(std::string_view text, bool normalized,
                                                 Unmatched unmatched) const {
    return FindIn(text, normalized ? normalized_matcher_ : raw_matcher_, unmatched);
  }
  [[nodiscard]] bool has_normalized() const { return !normalized_matcher_.empty(); }

 private:
  [[nodiscard]] Result<std::vector<Found>> FindIn(std::string_view text, const Matcher& matcher,
                                                  Unmatched unmatched) const;
  [[nodiscard]] std::vector<Found> FindLongestFirst(std::string_view text, Unmatched unmatched) const;
  [[nodiscard]] bool MayOverlap() const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, uint32_t> by_content_;
  std::unordered_map<uint32_t, uint32_t> by_id_;
  std::unordered_set<std::string> special_texts_;
  Matcher raw_matcher_;
  Matcher normalized_matcher_;
  bool longest_first_ = false;
  bool is_plain_ = true;             // leftmost and longest gives the same as longest first
  std::vector<uint32_t> by_length_;  // with longest_first_
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_ADDED_VOCABULARY_H_
