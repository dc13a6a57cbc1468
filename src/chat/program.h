// The template IR: a bounded, serializable program (TPL-01, docs/spec/template-ir.md).
//
// A table of nodes in which each operand that is a node stands before its user and has one user: a
// tree. It repeats itself only by looping over the items of a value and by calling macros, and both
// are counted while it runs. The runtime executes this table and never sees template source.
#ifndef SLM_CHAT_PROGRAM_H_
#define SLM_CHAT_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::chat {

inline constexpr uint32_t kNoNode = UINT32_MAX;

// Operands in brackets. Letters: s index into Program::strings, x expression, t statement, a target
// of an assignment, l unit (the body of a function with variables of its own), f filter unit, v slot
// of a variable of the running unit, u number; capitals: the same or kNoNode; * any number.
// (h, w): a variable h units outward, in slot w there. Numbers are part of the serialized form: append only.
enum class Op : uint8_t {
  // Statements.
  kText = 0,      // [s] literal bytes of the template
  kOutput = 1,    // [x]
  kSequence = 2,  // [t*]
  kIf = 3,        // [(x, t)*, T otherwise]
  kFor =
      4,  // [V loop object, a, X iterable, F filter, t body, T after, T otherwise, u 1: of a recursive loop]
  kSet = 5,           // [a, x]
  kSetBlock = 6,      // [a, t body, X filter]
  kBreak = 7,         //
  kContinue = 8,      //
  kResolve = 9,       // [v, s] variable from the context
  kAlias = 10,        // [v, (h, w)]
  kClear = 11,        // [v*]
  kDefault = 12,      // [v, s name, X] a parameter that was not given
  kFilterBlock = 13,  // [t, x]
  kCallBlock = 14,    // [x macro, x call]
  kGeneration = 15,   // [x macro]
  kRecursive = 16,    // [x iterable, l]
  // Targets.
  kTargetName = 24,       // [v, S name in the context]
  kTargetAttribute = 25,  // [(h, w), s variable, s attribute]
  kTargetTuple = 26,      // [a*]
  // Units.
  kUnit = 28,        // [u slots, t]
  kFilterUnit = 29,  // [u slots, t enter, a, x]
  // Expressions.
  kString = 32,     // [s]
  kInteger = 33,    // [s] decimal digits
  kFloat = 34,      // [s] decimal text
  kTrue = 35,       //
  kFalse = 36,      //
  kNone = 37,       //
  kLoad = 38,       // [(h, w), s]
  kList = 39,       // [x*]
  kTuple = 40,      // [x*]
  kDict = 41,       // [(x, x)*]
  kCaptured = 42,   // what the block around a filter rendered
  kAttribute = 48,  // [x, s]
  kItem = 49,       // [x, x]
  kSlice = 50,      // [x, X, X, X, u 1: all of it is constant]
  kNot = 56,
  kNegate = 57,
  kPositive = 58,
  kAnd = 59,
  kOr = 60,
  kConcat = 61,       // [x*]
  kConditional = 62,  // [x condition, x then, X otherwise]
  kBinary = 63,       // [u Arithmetic, x, x]
  kCompare = 64,      // [x, (u Comparison, x)*]
  // Calls end in: u n, x*n positional, u m, (s, x)*m keywords, X sequence, X mapping.
  kFilter = 72,  // [s, x, call]
  kTest = 73,    // [s, x, call]
  kCall = 74,    // [x, call]
  kMacro = 75,   // [S name, l, u flags, V caller, V kwargs, V varargs, (s, v)*]; slots are the unit's own
  kRaise = 76,   // [s class of exception, s message]
};

enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

// In the template's source, from 1; the column counts characters.
struct SourcePlace {
  uint32_t line = 0;
  uint32_t column = 0;
  friend bool operator==(const SourcePlace&, const SourcePlace&) = default;
};

struct ProgramNode {
  Op op;
  SourcePlace place;
  std::vector<uint32_t> operands;
  friend bool operator==(const ProgramNode&, const ProgramNode&) = default;
};

// What a rendering may use at most. Exceeding one is an error, never a truncation.
struct Budgets {
  uint64_t max_steps = 4'000'000;         // nodes executed, and bytes and items that built-ins touch / 64
  uint64_t max_depth = 1'500;             // nested evaluations
  uint64_t max_calls = 64;                // macros inside macros
  uint64_t max_output_bytes = 16u << 20;  // rendered text
  uint64_t max_heap_bytes = 192u << 20;   // all values made
  friend bool operator==(const Budgets&, const Budgets&) = default;
};

// A place where text of the context decides what the template does (TPL-07): chat/predicates.h.
struct ContentPredicate {
  std::string construct;  // "in", "==", "startswith", "split", "truth", "for", ...
  std::string literal;    // of the template, that the text is held against; empty where there is none
  std::string subject;    // whose text: "messages[].content"
  SourcePlace place;
  friend bool operator==(const ContentPredicate&, const ContentPredicate&) = default;
};

// A variable that the context may set, and how the template tells its states apart.
struct InputSpec {
  std::string name;
  bool tests_defined = false;  // absent differs from present by `is defined` or `is undefined`
  bool tests_none = false;     // null differs by `is none` or a comparison with none
  bool assigned = false;       // the template also assigns it
  friend bool operator==(const InputSpec&, const InputSpec&) = default;
};

struct Program {
  uint32_t version = 3;
  Hash256 source_sha256{};
  Budgets budgets;
  std::vector<std::string> strings;
  std::vector<ProgramNode> nodes;
  uint32_t root = 0;               // a unit
  std::vector<InputSpec> inputs;   // by name
  std::vector<std::string> emits;  // every literal that can reach the output, sorted
  std::vector<ContentPredicate> content_predicates;
  friend bool operator==(const Program&, const Program&) = default;
};

// Whether operands, their order, their kinds, slots and the depth are right: what LoadProgram demands,
// and the compiler guarantees.
[[nodiscard]] bool IsWellFormed(const Program& program);

// Deterministic bytes; the same program always gives the same ones.
[[nodiscard]] Bytes SerializeProgram(const Program& program);

// Strict inverse. Errors: TPL-IR.
[[nodiscard]] Result<Program> LoadProgram(ByteSpan bytes);

}  // namespace slm::chat

#endif  // SLM_CHAT_PROGRAM_H_
