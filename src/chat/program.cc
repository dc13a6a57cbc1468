#include "chat/program.h"

#include <algorithm>
#include <optional>

#include "chat/predicates.h"
#include "codec/cbor.h"

namespace slm::chat {
namespace {

constexpr std::string_view kSchema = "slm.template-ir.v3";
constexpr uint32_t kMaxDepth = 250;
constexpr uint32_t kMaxSlots = 1u << 16;
constexpr size_t kMaxNodes = 1u << 20;

// Operands of an operation, one letter each, as in the comments of Op: "hw" is a variable outward, a
// part in parentheses repeats, "c" is the end of a call.
std::optional<std::string_view> Shape(uint64_t op) {
  switch (static_cast<Op>(op)) {
    case Op::kText:
    case Op::kString:
    case Op::kInteger:
    case Op::kFloat:
      return "s";
    case Op::kOutput:
    case Op::kNot:
    case Op::kNegate:
    case Op::kPositive:
    case Op::kGeneration:
      return "x";
    case Op::kSequence:
      return "(t)";
    case Op::kIf:
      return "if";
    case Op::kFor:
      return "VaXFtTTu";
    case Op::kSet:
      return "ax";
    case Op::kSetBlock:
      return "atX";
    case Op::kBreak:
    case Op::kContinue:
    case Op::kTrue:
    case Op::kFalse:
    case Op::kNone:
    case Op::kCaptured:
      return "";
    case Op::kResolve:
      return "vs";
    case Op::kAlias:
      return "vhw";
    case Op::kClear:
      return "(v)";
    case Op::kDefault:
      return "vsX";
    case Op::kFilterBlock:
      return "tx";
    case Op::kCallBlock:
    case Op::kItem:
    case Op::kAnd:
    case Op::kOr:
      return "xx";
    case Op::kRecursive:
      return "xl";
    case Op::kTargetName:
      return "vS";
    case Op::kTargetAttribute:
      return "hwss";
    case Op::kTargetTuple:
      return "(a)";
    case Op::kUnit:
      return "ut";
    case Op::kFilterUnit:
      return "utax";
    case Op::kLoad:
      return "hws";
    case Op::kList:
    case Op::kTuple:
    case Op::kConcat:
      return "(x)";
    case Op::kDict:
      return "(xx)";
    case Op::kAttribute:
      return "xs";
    case Op::kSlice:
      return "xXXXu";
    case Op::kConditional:
      return "xxX";
    case Op::kBinary:
      return "uxx";
    case Op::kCompare:
      return "x(ux)";
    case Op::kFilter:
    case Op::kTest:
      return "sxc";
    case Op::kCall:
      return "xc";
    case Op::kMacro:
      return "SluVVV(sv)";
    case Op::kRaise:
      return "ss";
  }
  return std::nullopt;
}

enum class Category : uint8_t { kStatement, kTarget, kUnit, kFilterUnit, kExpression };

Category CategoryOf(Op op) {
  if (op == Op::kUnit) return Category::kUnit;
  if (op == Op::kFilterUnit) return Category::kFilterUnit;
  if (op < Op::kTargetName) return Category::kStatement;
  return op < Op::kUnit ? Category::kTarget : Category::kExpression;
}

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), used_(program.nodes.size(), false) {}

  bool Check() {
    if (program_.root >= program_.nodes.size() || program_.nodes.size() > kMaxNodes) return false;
    if (!Visit(program_.root, UINT32_MAX, Category::kUnit)) return false;
    return n_used_ == program_.nodes.size();
  }

 private:
  bool Visit(uint32_t index, uint32_t user, Category wanted) {
    if (index >= program_.nodes.size() || index >= user || used_[index] || depth_ >= kMaxDepth) return false;
    const ProgramNode& node = program_.nodes[index];
    if (CategoryOf(node.op) != wanted) return false;
    used_[index] = true;
    ++n_used_;
    ++depth_;
    const bool is_unit = wanted == Category::kUnit || wanted == Category::kFilterUnit;
    if (is_unit) {
      if (node.operands.empty() || node.operands[0] > kMaxSlots) return false;
      units_.push_back(node.operands[0]);
    }
    const bool good = Operands(node, index);
    if (is_unit) units_.pop_back();
    --depth_;
    return good;
  }

  bool Operands(const ProgramNode& node, uint32_t index) {
    const auto shape = Shape(static_cast<uint64_t>(node.op));
    if (!shape) return false;
    node_ = &node;
    position_ = 0;
    if (*shape == "if") return If(node, index);
    if (node.op == Op::kFor && node.operands.size() != 8) return false;
    const size_t repeat = shape->find('(');
    const std::string_view fixed = shape->substr(0, repeat);
    if (!Letters(node, index, fixed)) return false;
    if (repeat != std::string_view::npos) {
      const std::string_view part = shape->substr(repeat + 1, shape->size() - repeat - 2);
      const bool needs_one = node.op == Op::kCompare;
      if (needs_one && position_ >= node.operands.size()) return false;
      while (position_ < node.operands.size()) {
        if (!(node.op == Op::kMacro ? Parameter(node) : Letters(node, index, part))) return false;
      }
    }
    return position_ == node.operands.size() && Numbers(node);
  }

  // Bounds of the plain numbers among the operands.
  static bool Numbers(const ProgramNode& node) {
    if (node.op == Op::kFor) return node.operands[7] <= 1;
    if (node.op == Op::kBinary) return node.operands[0] <= 6;
    if (node.op == Op::kSlice) return node.operands[4] <= 2;
    if (node.op == Op::kMacro) return node.operands[2] <= 7;
    if (node.op != Op::kCompare) return true;
    for (size_t i = 1; i < node.operands.size(); i += 2) {
      if (node.operands[i] > static_cast<uint32_t>(Comparison::kNotIn)) return false;
    }
    return true;
  }

  bool If(const ProgramNode& node, uint32_t index) {
    if (node.operands.size() < 3 || node.operands.size() % 2 == 0) return false;
    while (position_ + 1 < node.operands.size()) {
      if (!Letters(node, index, "xt")) return false;
    }
    return Letters(node, index, "T");
  }

  // A parameter's name and its slot in the macro's own unit.
  bool Parameter(const ProgramNode& node) {
    if (position_ + 1 >= node.operands.size() || node.operands[position_] >= program_.strings.size())
      return false;
    const bool good = InUnit(node, node.operands[position_ + 1]);
    position_ += 2;
    return good;
  }
  bool InUnit(const ProgramNode& macro, uint32_t slot) const {
    return slot < program_.nodes[macro.operands[1]].operands[0];
  }

  bool Letters(const ProgramNode& node, uint32_t index, std::string_view letters) {
    for (size_t i = 0; i < letters.size(); ++i) {
      const char letter = letters[i];
      if (letter == 'c') {
        if (!CallEnd(node, index)) return false;
        continue;
      }
      if (position_ >= node.operands.size()) return false;
      const uint32_t operand = node.operands[position_++];
      if (letter >= 'A' && letter <= 'Z' && operand == kNoNode) continue;
      if (!One(node, index, letter, operand)) return false;
    }
    return true;
  }

  bool One(const ProgramNode& node, uint32_t index, char letter, uint32_t operand) {
    switch (letter) {
      case 's':
      case 'S':
        return operand < program_.strings.size();
      case 'v':
        return !units_.empty() && operand < units_.back();
      case 'V':  // of kFor: the running unit; of kMacro: the macro's own
        return node.op == Op::kMacro ? InUnit(node, operand) : !units_.empty() && operand < units_.back();
      case 'h':
        hops_ = operand;
        return operand < units_.size();
      case 'w':
        return operand < units_[units_.size() - 1 - hops_];
      case 'u':
        return operand != kNoNode;
      default:
        return Child(index, letter, operand);
    }
  }

  bool Child(uint32_t index, char letter, uint32_t operand) {
    Category wanted = Category::kExpression;
    if (letter == 't' || letter == 'T') wanted = Category::kStatement;
    if (letter == 'a') wanted = Category::kTarget;
    if (letter == 'l') wanted = Category::kUnit;
    if (letter == 'f' || letter == 'F') wanted = Category::kFilterUnit;
    // A filter unit of a recursive loop belongs to the unit around the loop's own.
    const bool outer = wanted == Category::kFilterUnit && program_.nodes[index].operands[7] == 1;
    if (outer && units_.size() < 2) return false;
    uint32_t held = 0;
    if (outer) {
      held = units_.back();
      units_.pop_back();
    }
    const size_t position = position_;
    const bool good = Visit(operand, index, wanted);
    position_ = position;
    if (outer) units_.push_back(held);
    return good;
  }

  bool CallEnd(const ProgramNode& node, uint32_t index) {
    for (const std::string_view part : {std::string_view("x"), std::string_view("sx")}) {
      if (position_ >= node.operands.size()) return false;
      const uint32_t n = node.operands[position_++];
      if (n > node.operands.size()) return false;
      for (uint32_t i = 0; i < n; ++i) {
        if (!Letters(node, index, part)) return false;
      }
    }
    return Letters(node, index, "XX");
  }

  const Program& program_;
  std::vector<bool> used_;
  size_t n_used_ = 0;
  std::vector<uint32_t> units_;  // slots of each unit around
  const ProgramNode* node_ = nullptr;
  size_t position_ = 0;
  uint32_t hops_ = 0;
  uint32_t depth_ = 0;
};

Result<std::vector<std::string>> Texts(const cbor::Array& array) {
  std::vector<std::string> texts;
  for (const cbor::Value& value : array) {
    if (value.AsTextString() == nullptr) return Fail(ErrorCode::kTplIr, "a name or literal is not text");
    texts.push_back(*value.AsTextString());
  }
  return texts;
}

cbor::Array TextArray(const std::vector<std::string>& texts) {
  cbor::Array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

Result<ProgramNode> LoadNode(const cbor::Value& value) {
  const cbor::Array* row = value.AsArray();
  if (row == nullptr || row->size() < 3) return Fail(ErrorCode::kTplIr, "a node is not an array");
  ProgramNode node{};
  for (size_t i = 0; i < row->size(); ++i) {
    const uint64_t* number = (*row)[i].AsUint();
    if (number == nullptr || *number > UINT32_MAX) return Fail(ErrorCode::kTplIr, "an operand out of range");
    if (i == 0) {
      if (*number > UINT8_MAX || !Shape(*number)) {
        return Fail(ErrorCode::kTplIr, "unknown operation " + std::to_string(*number));
      }
      node.op = static_cast<Op>(*number);
    } else if (i == 1) {
      node.place.line = static_cast<uint32_t>(*number);
    } else if (i == 2) {
      node.place.column = static_cast<uint32_t>(*number);
    } else {
      node.operands.push_back(static_cast<uint32_t>(*number));
    }
  }
  return node;
}

Result<Budgets> LoadBudgets(const cbor::Map& map) {
  cbor::Reader reader(map, "budgets");
  Budgets budgets;
  SLM_ASSIGN(budgets.max_steps, reader.Uint("max_steps"));
  SLM_ASSIGN(budgets.max_depth, reader.Uint("max_depth"));
  SLM_ASSIGN(budgets.max_calls, reader.Uint("max_calls"));
  SLM_ASSIGN(budgets.max_output_bytes, reader.Uint("max_output_bytes"));
  SLM_ASSIGN(budgets.max_heap_bytes, reader.Uint("max_heap_bytes"));
  SLM_TRY(reader.Finish());
  // A file may ask for less than this version's limits, never for more.
  const Budgets most;
  if (budgets.max_steps > most.max_steps || budgets.max_depth > most.max_depth ||
      budgets.max_calls > most.max_calls || budgets.max_output_bytes > most.max_output_bytes ||
      budgets.max_heap_bytes > most.max_heap_bytes) {
    return Fail(ErrorCode::kTplIr, "a budget beyond the limits of this version");
  }
  return budgets;
}

Result<InputSpec> LoadInput(const cbor::Value& value) {
  if (value.AsMap() == nullptr) return Fail(ErrorCode::kTplIr, "an input is not a map");
  cbor::Reader row(*value.AsMap(), "inputs");
  InputSpec input;
  SLM_ASSIGN(input.name, row.Text("name"));
  SLM_ASSIGN(const uint64_t flags, row.Uint("flags"));
  if (flags > 7) return Fail(ErrorCode::kTplIr, "unknown flags of an input");
  input.tests_defined = (flags & 1) != 0;
  input.tests_none = (flags & 2) != 0;
  input.assigned = (flags & 4) != 0;
  SLM_TRY(row.Finish());
  return input;
}

Result<ContentPredicate> LoadPredicate(const cbor::Value& value) {
  if (value.AsMap() == nullptr) return Fail(ErrorCode::kTplIr, "a content predicate is not a map");
  cbor::Reader row(*value.AsMap(), "content_predicates");
  ContentPredicate predicate;
  SLM_ASSIGN(predicate.construct, row.Text("construct"));
  SLM_ASSIGN(predicate.literal, row.Text("literal"));
  SLM_ASSIGN(predicate.subject, row.Text("subject"));
  SLM_ASSIGN(const uint64_t line, row.Uint("line"));
  SLM_ASSIGN(const uint64_t column, row.Uint("column"));
  if (line > UINT32_MAX || column > UINT32_MAX) return Fail(ErrorCode::kTplIr, "a place out of range");
  predicate.place = {static_cast<uint32_t>(line), static_cast<uint32_t>(column)};
  SLM_TRY(row.Finish());
  return predicate;
}

Result<Program> FromMap(const cbor::Map& map) {
  cbor::Reader reader(map);
  Program program;
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kSchema) return Fail(ErrorCode::kTplIr, "template IR of another version: " + schema);
  SLM_ASSIGN(program.source_sha256, reader.Hash("source_sha256"));
  SLM_ASSIGN(const cbor::Map* limits, reader.MapOf("budgets"));
  SLM_ASSIGN(program.budgets, LoadBudgets(*limits));
  SLM_ASSIGN(const cbor::Array* strings, reader.ArrayOf("strings"));
  SLM_ASSIGN(program.strings, Texts(*strings));
  SLM_ASSIGN(const cbor::Array* inputs, reader.ArrayOf("inputs"));
  for (const cbor::Value& value : *inputs) {
    SLM_ASSIGN(InputSpec input, LoadInput(value));
    if (!program.inputs.empty() && program.inputs.back().name >= input.name)
      return Fail(ErrorCode::kTplIr, "inputs out of order");
    program.inputs.push_back(std::move(input));
  }
  SLM_ASSIGN(const cbor::Array* emits, reader.ArrayOf("emits"));
  SLM_ASSIGN(program.emits, Texts(*emits));
  SLM_ASSIGN(const cbor::Array* nodes, reader.ArrayOf("nodes"));
  for (const cbor::Value& value : *nodes) {
    SLM_ASSIGN(ProgramNode node, LoadNode(value));
    program.nodes.push_back(std::move(node));
  }
  SLM_ASSIGN(const uint64_t root, reader.Uint("root"));
  if (root >= program.nodes.size()) return Fail(ErrorCode::kTplIr, "the root is not a node");
  program.root = static_cast<uint32_t>(root);
  SLM_ASSIGN(const cbor::Array* predicates, reader.ArrayOf("content_predicates"));
  for (const cbor::Value& value : *predicates) {
    SLM_ASSIGN(ContentPredicate predicate, LoadPredicate(value));
    program.content_predicates.push_back(std::move(predicate));
  }
  SLM_TRY(reader.Finish());
  return program;
}

}  // namespace

bool IsWellFormed(const Program& program) {
  return Checker(program).Check();
}

Bytes SerializeProgram(const Program& program) {
  cbor::Array nodes;
  for (const ProgramNode& node : program.nodes) {
    cbor::Array row{static_cast<uint64_t>(node.op), node.place.line, node.place.column};
    for (const uint32_t operand : node.operands) row.emplace_back(operand);
    nodes.emplace_back(std::move(row));
  }
  cbor::Array predicates;
  for (const ContentPredicate& predicate : program.content_predicates) {
    predicates.emplace_back(cbor::Map{{"construct", predicate.construct},
                                      {"literal", predicate.literal},
                                      {"subject", predicate.subject},
                                      {"line", predicate.place.line},
                                      {"column", predicate.place.column}});
  }
  cbor::Array inputs;
  for (const InputSpec& input : program.inputs) {
    const uint64_t flags =
        (input.tests_defined ? 1u : 0u) | (input.tests_none ? 2u : 0u) | (input.assigned ? 4u : 0u);
    inputs.emplace_back(cbor::Map{{"name", input.name}, {"flags", flags}});
  }
  return cbor::Encode(cbor::Map{
      {"schema", kSchema},
      {"source_sha256", program.source_sha256},
      {"budgets", cbor::Map{{"max_steps", program.budgets.max_steps},
                            {"max_depth", program.budgets.max_depth},
                            {"max_calls", program.budgets.max_calls},
                            {"max_output_bytes", program.budgets.max_output_bytes},
                            {"max_heap_bytes", program.budgets.max_heap_bytes}}},
      {"strings", TextArray(program.strings)},
      {"inputs", std::move(inputs)},
      {"emits", TextArray(program.emits)},
      {"nodes", std::move(nodes)},
      {"root", program.root},
      {"content_predicates", std::move(predicates)},
  });
}

Result<Program> LoadProgram(ByteSpan bytes) {
  auto value = cbor::Decode(bytes);
  if (!value) {
    Error error = MakeError(ErrorCode::kTplIr, value.error().message);
    error.byte_offset = value.error().byte_offset;
    error.cause = value.error().code;
    return Fail(std::move(error));
  }
  if (value->AsMap() == nullptr) return Fail(ErrorCode::kTplIr, "template IR is not a map");
  auto program = FromMap(*value->AsMap());
  if (!program) {
    Error error = program.error();
    if (error.code != ErrorCode::kTplIr) {
      error.cause = error.code;
      error.code = ErrorCode::kTplIr;
    }
    return Fail(std::move(error));
  }
  if (!IsWellFormed(*program)) {
    return Fail(ErrorCode::kTplIr, "template IR is not a well-formed program: operands, order or depth");
  }
  // The list of an IR from elsewhere is not believed: content reaches control flow where it says, only.
  const auto predicates = FindContentPredicates(*program);
  if (!predicates) return Fail(ErrorCode::kTplIr, predicates.error().message);
  if (program->content_predicates != *predicates) {
    return Fail(ErrorCode::kTplIr, "template IR declares other content predicates than it has");
  }
  return program;
}

}  // namespace slm::chat
