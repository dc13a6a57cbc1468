// The syntax tree of a regular expression. Internal to the module.
#ifndef SLM_TOKENIZER_REGEX_PARSE_H_
#define SLM_TOKENIZER_REGEX_PARSE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/char_set.h"
#include "tokenizer/regex.h"

namespace slm::tokenizer {

struct RegexNode;
using RegexNodePtr = std::unique_ptr<RegexNode>;

inline constexpr uint32_t kUnbounded = 0xFFFFFFFF;

struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,
    kConcat,
    kAlternatives,
    kRepeat,
    kAssert,
    kLook,
    kAtomic,
    kCapture,
    kBackReference,
  };
  Kind kind = Kind::kEmpty;
  RangeSet set;                        // kSet
  std::vector<RegexNodePtr> children;  // kRepeat, kLook, kAtomic, kCapture: one
  uint32_t min = 0, max = 0;           // kRepeat
  uint8_t mode = 0;                    // kRepeat: kGreedy and so on; kLook: kLookAhead and so on
  Assertion assertion = Assertion::kLineStart;
  uint32_t group = 0;        // kCapture, kBackReference: number from 1
  bool ignore_case = false;  // kBackReference
  size_t offset = 0;         // in the pattern, for messages
};

struct ParsedRegex {
  RegexNodePtr root;
  uint32_t n_groups = 0;
  bool has_back_reference = false;
};

// TOK-REGEX with the place in the pattern.
[[nodiscard]] Result<ParsedRegex> ParseRegex(std::string_view pattern);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_REGEX_PARSE_H_
