// Where two tokenizers differ: a search for the shortest text to which they give other ids.
//
// Deterministic for given options. Not proof of equality: what was tried is reported.
#ifndef SLM_TOKENIZER_DIFFERENCE_H_
#define SLM_TOKENIZER_DIFFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {

struct DifferenceOptions {
  uint64_t seed = 1;
  uint64_t n_generated = 20000;  // strings in the last phase
  bool add_special_tokens = true;
};

struct Difference {
  std::string text;  // shortest found: fewest bytes, then most printable, then byte order
  std::vector<uint32_t> first_ids;
  std::vector<uint32_t> second_ids;
  std::optional<ErrorCode> first_error;  // set where a tokenizer refuses the text
  std::optional<ErrorCode> second_error;
  std::string phase;  // "corpus", "special tokens", "tokens", "merges", "generated"
};

struct DifferenceReport {
  std::optional<Difference> difference;
  uint64_t n_tried = 0;  // texts given to both
};

// Phases, in this order, each only if the ones before found nothing: the corpus of TOK-13; special
// tokens alone, adjacent, with spaces and inside words; every token's text, bare and with one and two
// spaces before it; the texts of each two parts that a merge joins, with and without a space between;
// generated strings. What differs is shrunk (delta debugging over scalars), and then the strings with
// fewer bytes over its own scalars, a space, a digit and a letter are tried, 50,000 at most.
[[nodiscard]] DifferenceReport FindShortestDifference(const Tokenizer& first, const Tokenizer& second,
                                                      const DifferenceOptions& options = {});

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_DIFFERENCE_H_
