// Runs a template program over a context, inside its budgets.
#ifndef SLM_CHAT_INTERPRETER_H_
#define SLM_CHAT_INTERPRETER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/program.h"
#include "chat/runtime.h"
#include "chat/value.h"

namespace slm::chat {

// A program made ready: literals are values, names of built-ins are numbers. Immutable; any thread.
class Executable {
 public:
  // REQUIRES: IsWellFormed(program). Errors: TPL-IR where a literal is no number.
  [[nodiscard]] static Result<std::shared_ptr<const Executable>> Make(Program program);
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  friend class Interpreter;
  // How a node is run where it has one of the commonest forms; every other is kGeneral.
  enum class Shape : uint8_t {
    kGeneral,
    kLiteral,     // `constant`
    kLocal,       // the variable `slot` of the running unit
    kMember,      // `constant`, a text, of that variable: message.role, message['role']
    kLoopMember,  // the attribute `id` of that variable, where it is a loop object
    kEquals,      // == or != (`negated`) between `left` and `constant`, a text
    kHolds,       // in or not in (`negated`): `constant`, a text, in `left`
    kTypeTest,    // the test `id` of `left`, which looks at no more than the type
    kNot,         // of `left`
    kAnd,         // of `left` and `right`
    kOr,
    kSum,  // of an output: `parts`, added from the left
  };
  struct Node;
  // A part of a sum, and the addition that joins it to what stands before it (of the first: none).
  struct Part {
    const Node* expression;
    const Node* sum;
  };
  struct Node {
    Op op{};
    Shape shape = Shape::kGeneral;
    bool negated = false;
    bool only_member = false;  // kMember: the name is no attribute of any type
    uint32_t slot = 0;
    uint32_t n_operands = 0;
    uint32_t id = UINT32_MAX;  // of a built-in, an attribute, or a context variable
    const uint32_t* operands = nullptr;
    const Node* const* links = nullptr;  // the operands that are nodes, at the same places
    Value constant;                      // of literals and names
    const Node* left = nullptr;
    const Node* right = nullptr;
    const Part* parts = nullptr;
    const Part* parts_end = nullptr;
    SourcePlace place;
  };
  Status Prepare(const ProgramNode& source, Node* node);
  void FindShape(const ProgramNode& source, Node* node) const;
  void FindSums();
  void FindPrompt();
  [[nodiscard]] std::vector<bool> FindWhereGiven() const;
  uint32_t ContextIndex(const std::string& name);

  Program program_;
  mutable Heap heap_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> operands_;  // of all nodes
  std::vector<const Node*> links_;  // likewise
  std::vector<Part> parts_;         // of all sums
  std::vector<Value> literals_;     // by string, made when first used
  std::vector<std::string> context_names_;
  std::vector<Value> context_defaults_;  // what a name means where the context does not set it
  // The root's statements in the order in which they run; how many sequences around them count as steps;
  // the first that may read or set add_generation_prompt, and whether a loop object may outlive its loop.
  std::vector<uint32_t> statements_;
  uint64_t n_sequences_ = 0;
  size_t prompt_at_ = 0;
  bool keeps_loops_ = false;
};

inline constexpr std::string_view kGenerationPrompt = "add_generation_prompt";

// Variables of the context by name; a name that is not here is undefined.
using Variables = std::vector<std::pair<std::string, Value>>;

struct Request {
  const Variables& variables;
  const std::string& clock;   // civil time of strftime_now; empty: none was declared
  bool asks_prompt = false;   // whether the text is another one where add_generation_prompt is false
  size_t n_bytes_likely = 0;  // of the text, for the first allocation
};

// What add_generation_prompt writes: bytes [begin, end) of the text stand where without it `n_replaced`
// others would.
struct GenerationPrefix {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t n_replaced = 0;
  friend bool operator==(const GenerationPrefix&, const GenerationPrefix&) = default;
};

struct Execution {
  TextBuilder output;
  // Byte ranges that the statement `generation` enclosed.
  std::vector<std::pair<uint64_t, uint64_t>> generations;
  bool prompt_writes = false;  // the answer to asks_prompt; an error then is another text
  // Where the two texts differ; nothing where they do not, or there is no other.
  std::optional<GenerationPrefix> prompt;
};

// Errors: TPL-RAISED, TPL-RUNTIME, TPL-BUDGET, TPL-INPUT, TPL-FORBIDDEN, UNSUPPORTED; messages end with the
// template's line.
[[nodiscard]] Result<Execution> Execute(const Executable& executable, Runtime& runtime,
                                        const Request& request);

}  // namespace slm::chat

#endif  // SLM_CHAT_INTERPRETER_H_
