// Runs a template program over a context, inside its budgets.
#ifndef SLM_CHAT_INTERPRETER_H_
#define SLM_CHAT_INTERPRETER_H_

#include <memory>
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
  struct Node {
    Op op{};
    bool plain_test = false;      // a test that looks at no more than the type, without arguments
    bool local_member = false;    // by a constant name, of a variable of the running unit: `slot`
    bool only_member = false;     // a local_member whose name is no attribute of any type
    bool equals_literal = false;  // == or != with a text of the template: `constant`
    uint32_t slot = 0;
    SourcePlace place;
    uint32_t n_operands = 0;
    const uint32_t* operands = nullptr;
    Value constant;            // of literals and names
    uint32_t id = UINT32_MAX;  // of a built-in, an attribute, or a context variable
  };
  Status Prepare(const ProgramNode& source, Node* node);
  void FindMember(const ProgramNode& source, Node* node) const;
  void FindPrompt();
  uint32_t ContextIndex(const std::string& name);

  Program program_;
  mutable Heap heap_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> operands_;  // of all nodes
  std::vector<Value> literals_;     // by string, made when first used
  std::vector<std::string> context_names_;
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
  const std::string& clock;  // civil time of strftime_now; empty: none was declared
  bool asks_prompt = false;  // whether the text is another one where add_generation_prompt is false
};

struct Execution {
  TextBuilder output;
  // Byte ranges that the statement `generation` enclosed.
  std::vector<std::pair<uint64_t, uint64_t>> generations;
  bool prompt_writes = false;  // the answer to asks_prompt; an error then is another text
};

// Errors: TPL-RAISED, TPL-RUNTIME, TPL-BUDGET, TPL-INPUT, TPL-FORBIDDEN, UNSUPPORTED; messages end with the
// template's line.
[[nodiscard]] Result<Execution> Execute(const Executable& executable, Runtime& runtime,
                                        const Request& request);

}  // namespace slm::chat

#endif  // SLM_CHAT_INTERPRETER_H_
