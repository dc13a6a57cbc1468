// The syntax tree of a template, as Jinja2's parser builds it, names and orders of children included:
// scoping depends on the order in which the reference visits them.
#ifndef SLM_CHAT_AST_H_
#define SLM_CHAT_AST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chat/program.h"

namespace slm::chat {

inline constexpr uint32_t kNoAst = UINT32_MAX;

enum class AstKind : uint8_t {
  // Statements.
  kOutput,       // items
  kFor,          // first target, second iterable, third test; items body, others otherwise; flag: recursive
  kIf,           // first test; items body, others elif nodes (each kIf), rest otherwise
  kMacro,        // text name; items arguments, others defaults, rest body; attribute: an argument named twice
  kCallBlock,    // first call; items arguments, others defaults, rest body; attribute: likewise
  kGeneration,   // rest body
  kFilterBlock,  // first filter; rest body
  kWith,         // items targets, others values; rest body
  kSet,          // first target, second value
  kSetBlock,     // first target, second filter; rest body
  kBreak,
  kContinue,
  // Expressions.
  kData,          // text: literal output
  kName,          // text
  kNamespaceRef,  // text name, attribute
  kString,        // text
  kInteger,       // text
  kFloat,         // text
  kTrue,
  kFalse,
  kNone,
  kTuple,        // items
  kList,         // items
  kDict,         // items: key, value, ...
  kConditional,  // first test, second then, third otherwise
  kBinary,       // text operator; first, second
  kUnary,        // text operator; first
  kConcat,       // items
  kCompare,      // first; items others, names: operators
  kAttribute,    // first; text
  kItem,         // first, second
  kSlice,        // first start, second stop, third step
  kFilter,       // first (kNoAst: what a block captured); text name; arguments
  kTest,         // first; text name; arguments
  kCall,         // first; arguments
};

enum class NameContext : uint8_t { kLoad, kStore, kParameter };

struct AstNode {
  AstKind kind{};
  NameContext context = NameContext::kLoad;  // of names
  bool flag = false;
  uint32_t depth = 1;  // levels of nodes below and with this one
  uint32_t line = 0;
  uint32_t column = 0;
  uint64_t byte_offset = 0;
  std::string text;
  std::string attribute;
  uint32_t first = kNoAst, second = kNoAst, third = kNoAst;
  // Arguments of a call: items positional, names and others keywords, second *, third **; attribute: a
  // keyword given twice.
  std::vector<uint32_t> items, others, rest;
  std::vector<std::string> names;

  [[nodiscard]] SourcePlace place() const { return {line, column}; }
};

struct Ast {
  std::vector<AstNode> nodes;
  std::vector<uint32_t> body;

  // For each child of `index`, in the reference's order: fn(uint32_t).
  template <typename Fn>
  void ForEachChild(uint32_t index, Fn fn) const {
    const AstNode& node = nodes[index];
    const auto one = [&fn](uint32_t child) {
      if (child != kNoAst) fn(child);
    };
    const auto all = [&fn](const std::vector<uint32_t>& children) {
      for (const uint32_t child : children) fn(child);
    };
    switch (node.kind) {
      case AstKind::kFor:
        one(node.first);
        one(node.second);
        all(node.items);
        all(node.others);
        one(node.third);
        break;
      case AstKind::kFilterBlock:
        all(node.rest);
        one(node.first);
        break;
      case AstKind::kFilter:
      case AstKind::kTest:
      case AstKind::kCall:
        one(node.first);
        all(node.items);
        all(node.others);
        one(node.second);
        one(node.third);
        break;
      case AstKind::kSet:
      case AstKind::kSetBlock:
      default:
        one(node.first);
        one(node.second);
        one(node.third);
        all(node.items);
        all(node.others);
        all(node.rest);
        break;
    }
  }
};

}  // namespace slm::chat

#endif  // SLM_CHAT_AST_H_
