// Stop strings on the decoded byte stream (SMP-04): found wherever they stand, across tokens.
//
// The stream stops at the first byte at which a stop string is complete; where several end there,
// the longest counts. Visible text ends before its first byte; the caller keeps the raw bytes and
// ids, the match included. Until then the bytes that may be the head of a stop string are held back.
//
// One automaton a string: D. Knuth, J. Morris, V. Pratt, "Fast pattern matching in strings", 1977.
#ifndef SLM_SAMPLER_STOP_STRINGS_H_
#define SLM_SAMPLER_STOP_STRINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace slm {

class StopStrings {
 public:
  // Errors: SMP-VALUE for an empty string, field "stop[INDEX]".
  [[nodiscard]] static Result<StopStrings> Create(std::vector<std::string> strings);

  // Takes the next bytes of the stream and returns those that are visible now. After the match
  // nothing is visible any more.
  [[nodiscard]] std::string Push(std::string_view bytes);
  // The stream ended without a match: what was held back is visible after all.
  [[nodiscard]] std::string Finish();

  // Index of the string that stopped the stream.
  [[nodiscard]] std::optional<size_t> matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> failure;  // [i]: longest proper prefix of text that ends text[0..i]
    size_t state;                 // bytes of text that the stream ends with
  };

  explicit StopStrings(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace slm

#endif  // SLM_SAMPLER_STOP_STRINGS_H_
