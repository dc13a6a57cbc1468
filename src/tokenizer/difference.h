// Where two tokenizers differ: a search for the shortest texts to which they give other ids.
//
// Deterministic for given options. Not proof of equality: what was tried is reported.
#ifndef SLM_TOKENIZER_DIFFERENCE_H_
#define SLM_TOKENIZER_DIFFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {

struct DifferenceOptions {
  uint64_t seed = 1;
  uint64_t n_generated = 20000;  // strings in the last phase
  bool add_special_tokens = true;
};

// The first stage at which two tokenizers part.
enum class DifferenceKind : uint8_t {
  kPutIn,          // the tokens around a text
  kSpecialTokens,  // which tokens are found in the text as such
  kText,           // what reaches the model, spaces as U+2581 or in the byte alphabet being spaces
  kModel,          // what becomes of the same text
  kRefusal,        // one of them refuses the text
};
[[nodiscard]] std::string_view NameOf(DifferenceKind kind);

struct Difference {
  std::string text;  // shortest found: fewest bytes, then most printable, then byte order
  std::vector<uint32_t> first_ids;
  std::vector<uint32_t> second_ids;
  std::optional<ErrorCode> first_error;  // set where a tokenizer refuses the text
  std::optional<ErrorCode> second_error;
  std::string phase;  // "corpus", "special tokens", "tokens", "merges", "generated"
  DifferenceKind kind = DifferenceKind::kModel;
};

struct DifferenceReport {
  std::optional<Difference> difference;  // the shortest
  // FindDifferences only: the shortest of each kind and each form (which classes of characters stand in it),
  // shortest first, at most 16 of a kind.
  std::vector<Difference> differences;
  uint64_t n_tried = 0;  // texts given to both
  std::vector<std::pair<std::string, uint64_t>>
      searched;  // phases with the texts of each, before any was shrunk
};

// Phases, in this order, each only if the ones before found nothing: the corpus of TOK-13; special
// tokens alone, adjacent, with spaces and inside words; every token's text, bare and with one and two
// spaces before it; the texts of each two parts that the model joins, with and without a space between;
// generated strings. What differs is shrunk (delta debugging over scalars), and then the strings with
// fewer bytes over its own scalars, a space, a digit and a letter are tried, 50,000 at most.
[[nodiscard]] DifferenceReport FindShortestDifference(const Tokenizer& first, const Tokenizer& second,
                                                      const DifferenceOptions& options = {});

// All phases whatever they find, without the tokens around a text, which are compared once by themselves. A
// text is shrunk only as far as it stays of its kind, so that a difference that is everywhere does not hide
// another.
[[nodiscard]] DifferenceReport FindDifferences(const Tokenizer& first, const Tokenizer& second,
                                               const DifferenceOptions& options = {});

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_DIFFERENCE_H_
