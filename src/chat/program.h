// The template IR: a bounded, serializable program (TPL-01, docs/spec/template-ir.md).
//
// A flat table of nodes in which each operand that is a node stands before its user, so that a
// program cannot loop by construction; its only loops run over the items of input lists. The
// runtime executes this table and never sees template source.
#ifndef SLM_CHAT_PROGRAM_H_
#define SLM_CHAT_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::chat {

inline constexpr uint32_t kNoNode = UINT32_MAX;

// Operands in brackets; s = index into Program::strings, n = node, n? = node or kNoNode,
// * = any number. Numbers are part of the serialized form: append only.
enum class Op : uint8_t {
  // Statements.
  kText = 0,      // [s] literal bytes of the template
  kOutput = 1,    // [n]
  kSequence = 2,  // [n*]
  kIf = 3,        // [n condition, n then, n? otherwise]
  kFor = 4,       // [n iterable, n? filter, n body, n? otherwise, s* targets]
  kSetName = 5,   // [s, n]
  kSetAttr = 6,   // [s namespace, s attribute, n]
  kBreak = 7,
  kContinue = 8,
  // Literals and names.
  kString = 16,   // [s]
  kInteger = 17,  // [s] decimal text
  kFloat = 18,    // [s] decimal text
  kTrue = 19,
  kFalse = 20,
  kNone = 21,
  kName = 22,   // [s]
  kList = 23,   // [n*]
  kTuple = 24,  // [n*]
  kDict = 25,   // [n key, n value, ...]
  // Access.
  kAttr = 32,   // [n, s]
  kItem = 33,   // [n, n]
  kSlice = 34,  // [n, n? start, n? stop, n? step]
  // Operators.
  kNot = 48,
  kNegate = 49,
  kAnd = 50,
  kOr = 51,
  kAdd = 52,
  kSubtract = 53,
  kMultiply = 54,
  kModulo = 55,
  kConcat = 56,  // [n*]
  kEqual = 57,
  kNotEqual = 58,
  kLess = 59,
  kLessEqual = 60,
  kGreater = 61,
  kGreaterEqual = 62,
  kIn = 63,
  kNotIn = 64,
  kConditional = 65,  // [n condition, n then, n? otherwise]
  // Calls: [s name, (n receiver), n* positional ..., kNoNode, (s, n)* keywords]
  kFilter = 80,
  kTest = 81,      // no keywords
  kFunction = 82,  // no receiver
  kMethod = 83,
};

struct ProgramNode {
  Op op;
  uint32_t line;  // in the template's source, for messages
  std::vector<uint32_t> operands;
  friend bool operator==(const ProgramNode&, const ProgramNode&) = default;
};

// What a rendering may use at most. Exceeding one is an error, never a truncation.
struct Budgets {
  uint64_t max_steps = 4'000'000;         // nodes executed
  uint64_t max_output_bytes = 16u << 20;  // rendered text
  uint64_t max_string_bytes = 64u << 20;  // sum of all strings made
  friend bool operator==(const Budgets&, const Budgets&) = default;
};

// A place where the content of a message decides what the template does (TPL-07).
struct ContentPredicate {
  std::string construct;  // "in", "startswith", "split", ...
  std::string literal;    // the literal looked for; empty if it is not a literal
  uint32_t line;
  friend bool operator==(const ContentPredicate&, const ContentPredicate&) = default;
};

struct Program {
  uint32_t version = 1;
  Hash256 source_sha256{};
  Budgets budgets;
  std::vector<std::string> strings;
  std::vector<ProgramNode> nodes;
  uint32_t root = 0;
  std::vector<std::string> inputs;  // free names, sorted: what a context may set
  std::vector<ContentPredicate> content_predicates;
  friend bool operator==(const Program&, const Program&) = default;
};

// Whether operands, their order, their kinds (statement or expression) and the depth are right: what
// LoadProgram demands, and the compiler guarantees.
[[nodiscard]] bool IsWellFormed(const Program& program);

// Deterministic bytes; the same program always gives the same ones.
[[nodiscard]] Bytes SerializeProgram(const Program& program);

// Strict inverse: operand counts, ranges, order of nodes and depth are checked. Errors: TPL-IR.
[[nodiscard]] Result<Program> LoadProgram(ByteSpan bytes);

}  // namespace slm::chat

#endif  // SLM_CHAT_PROGRAM_H_
