// Regular expressions as the reference runs them: the Ruby syntax of Oniguruma 6.9 over Unicode 16.0,
// with its order of alternatives, its empty-loop rule and its search for the next match
// (docs/spec/tokenizer.md, section 9). Linear time: a search that backtracks too much goes on with a
// memory of the states that failed, so no pattern can hang it.
//
// A Regex is immutable, any thread may use one; a Search belongs to one thread.
#ifndef SLM_TOKENIZER_REGEX_H_
#define SLM_TOKENIZER_REGEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/char_set.h"

namespace slm::tokenizer {

class Regex {
 public:
  // TOK-REGEX with the byte offset in the pattern (Error::byte_offset) for what Oniguruma refuses
  // and for what lies outside the subset: look-behind of unbounded length or with captures inside,
  // back-references to a group that is not one character, calls, conditionals, absent groups, \X, \K.
  [[nodiscard]] static Result<std::shared_ptr<const Regex>> Compile(std::string_view pattern);

  struct Instruction;
  struct Program;

 private:
  friend class RegexSearch;
  std::shared_ptr<const Program> program_;
};

// Successive matches in one text, as the reference's iterator finds them.
class RegexSearch {
 public:
  struct Match {
    uint32_t begin;
    uint32_t end;
  };
  // Both must outlive the search. `text` is well-formed UTF-8 or has escaped bytes (AlignedText).
  RegexSearch(const Regex& regex, std::string_view text);
  ~RegexSearch();
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;
  // The next match, or nothing. LIMIT only for patterns with back-references that backtrack without
  // bound.
  [[nodiscard]] Result<std::optional<Match>> Next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Inside of the module.
struct Regex::Instruction {
  enum class Op : uint8_t {
    kChar,           // one character of set `a`; backwards if `backward`
    kLiteral,        // the character `a`; likewise
    kSplit,          // goes on at `a`, or else at `b`
    kJump,           // to `a`
    kStar,           // any number of characters of set `a`; see `mode`
    kEmptyStart,     // an iteration of nullable loop `a` begins
    kEmptyEnd,       // it ends: leaves the loop (to `b`) if it took nothing
    kAssert,         // position test `a` (Assertion)
    kLook,           // body at pc + 1, ends before `b`; `mode` says what
    kAtomic,         // body at pc + 1, ends before `b`
    kSave,           // notes the position in slot `a`
    kBackReference,  // the character that stands between slots `a` and `a` + 1; `mode` 1: any case
    kEnd,            // of a body or of the pattern
  };
  Op op;
  uint8_t mode = 0;
  bool backward = false;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t memo = 0;     // number among the instructions that are remembered
  uint32_t nesting = 0;  // bit for each nullable loop around it, within its body
};

enum class Assertion : uint8_t {
  kLineStart,
  kLineEnd,
  kTextStart,
  kTextEnd,
  kTextEndOrNewline,
  kSearchStart,
  kWord,
  kNotWord
};
inline constexpr uint8_t kGreedy = 0, kLazy = 1, kPossessive = 2;                         // kStar
inline constexpr uint8_t kLookAhead = 0, kNotAhead = 1, kLookBehind = 2, kNotBehind = 3;  // kLook

struct Regex::Program {
  std::vector<Instruction> code;
  std::vector<CharSet> sets;
  std::optional<CharSet> first;  // characters that a match can begin with; none: any, or none at all
  uint32_t n_memo = 0;
  uint32_t n_loops = 0;  // nullable loops
  uint32_t n_slots = 0;
  bool has_back_reference = false;
  bool uses_search_start = false;
};

// Oniguruma's \w for one character.
[[nodiscard]] bool IsRegexWord(char32_t scalar);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_REGEX_H_
