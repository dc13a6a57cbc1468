// What the reference computes already while it compiles: jinja2.optimizer, and `as_const` of jinja2.nodes.
//
// It shows. What the optimizer makes a constant of is not compiled, so that an unknown filter behind `or`
// raises or does not; a constant goes into the generated program by its repr, where infinity is a name that
// nobody defined; and a constant dict with a key that has no hash stops the compiler, wherever it stands.
#ifndef SLM_CHAT_FOLDING_H_
#define SLM_CHAT_FOLDING_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "chat/ast.h"
#include "chat/runtime.h"

namespace slm::chat {

class Folding {
 public:
  // `ast` outlives the object.
  explicit Folding(const Ast& ast);

  // Optimizer.visit: finds the constants in an expression. An expression is visited once.
  void Visit(uint32_t index);
  // What a visited expression was replaced by; null: by nothing.
  [[nodiscard]] const Value* Constant(uint32_t index) const;
  // Whether it is open what the optimizer does: the constant exceeds a budget, or is outside the subset.
  [[nodiscard]] bool IsOpen(uint32_t index) const { return (marks_[index] & kOpen) != 0; }
  // The text of an expression that is all that an output writes, where the compiler writes it. Where that is
  // open, IsOpen says so.
  [[nodiscard]] std::optional<std::string> Written(uint32_t index);

  // An exception that stops the reference's compiler: the first one of all visits.
  struct Failure {
    std::string exception, message;
    SourcePlace place;
  };
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  // What a constant does where it is written into the generated program: the name that is undefined there
  // ("inf", "nan"), or that it has too many digits.
  struct Writing {
    const char* undefined_name = nullptr;
    bool too_long = false;
  };
  [[nodiscard]] static Writing WritingOf(const Value& constant);

 private:
  enum class State : uint8_t { kValue, kImpossible, kFails, kOpen };
  struct Outcome {
    State state = State::kImpossible;
    Value value;
  };
  static constexpr uint8_t kAsked = 1, kMayBe = 2, kVisited = 4, kOpen = 8;
  // Each that was used up by a constant; then all further ones are open.
  static constexpr size_t kMaxRuntimes = 16;

  // Whether all that decides is constant: a cheap first answer.
  bool MayBeConstant(uint32_t index);
  [[nodiscard]] Outcome AsConst(uint32_t index);
  [[nodiscard]] Outcome Logic(const AstNode& node);
  [[nodiscard]] Outcome Compare(const AstNode& node);
  [[nodiscard]] Outcome Concat(const AstNode& node);
  [[nodiscard]] Outcome Dict(const AstNode& node);
  [[nodiscard]] Outcome Item(const AstNode& node);
  [[nodiscard]] Outcome FilterOrTest(const AstNode& node);
  // The exception of an operation as the optimizer sees it, and its value.
  [[nodiscard]] Outcome Take(const Value& value);
  [[nodiscard]] Outcome Failed(State state);
  [[nodiscard]] Outcome Crash(const AstNode& node);
  Runtime& runtime() { return runtimes_.back(); }

  const Ast& ast_;
  std::vector<uint8_t> marks_;  // by node
  std::unordered_map<uint32_t, Value> constants_;
  std::deque<Runtime> runtimes_;  // the last one works; the others hold values
  std::optional<Failure> failure_;
  std::optional<Failure> crash_;  // of the evaluation that runs
};

}  // namespace slm::chat

#endif  // SLM_CHAT_FOLDING_H_
