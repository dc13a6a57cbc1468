#include "chat/program.h"

#include <algorithm>
#include <optional>

#include "codec/cbor.h"

namespace slm::chat {
namespace {

constexpr std::string_view kSchema = "slm.template-ir.v1";
constexpr uint32_t kMaxDepth = 200;

// Shape of an operation's operands: one letter each, as in the comments of Op; a last '*' repeats
// the letter before it, "call" operands are checked on their own.
std::optional<std::string_view> Shape(uint64_t op) {
  switch (static_cast<Op>(op)) {
    case Op::kText:
    case Op::kString:
    case Op::kInteger:
    case Op::kFloat:
    case Op::kName:
      return "s";
    case Op::kOutput:
    case Op::kNot:
    case Op::kNegate:
      return "n";
    case Op::kSequence:
    case Op::kList:
    case Op::kTuple:
    case Op::kConcat:
    case Op::kDict:
      return "n*";
    case Op::kIf:
    case Op::kConditional:
      return "nn?";
    case Op::kFor:
      return "n?n?s*";
    case Op::kSetName:
      return "sn";
    case Op::kSetAttr:
      return "ssn";
    case Op::kBreak:
    case Op::kContinue:
    case Op::kTrue:
    case Op::kFalse:
    case Op::kNone:
      return "";
    case Op::kAttr:
      return "ns";
    case Op::kItem:
    case Op::kAnd:
    case Op::kOr:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kModulo:
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kIn:
    case Op::kNotIn:
      return "nn";
    case Op::kSlice:
      return "n???";
    case Op::kFilter:
    case Op::kTest:
    case Op::kMethod:
    case Op::kFunction:
      return "call";
  }
  return std::nullopt;
}

bool IsStatement(Op op) {
  return op <= Op::kContinue;
}

// Whether operand number `i` of `op` must be a statement; all other nodes are expressions.
bool WantsStatement(Op op, size_t i) {
  switch (op) {
    case Op::kSequence:
      return true;
    case Op::kIf:
      return i == 1 || i == 2;
    case Op::kFor:
      return i == 2 || i == 3;
    default:
      return false;
  }
}

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), depth_(program.nodes.size(), 1) {}

  bool Check() {
    if (program_.nodes.empty() || program_.root >= program_.nodes.size()) return false;
    if (!IsStatement(program_.nodes[program_.root].op)) return false;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!CheckNode(static_cast<uint32_t>(i))) return false;
    }
    return true;
  }

 private:
  bool String(uint32_t operand) const { return operand < program_.strings.size(); }
  bool Child(uint32_t index, uint32_t operand, bool statement = false) {
    if (operand >= index || IsStatement(program_.nodes[operand].op) != statement) return false;
    depth_[index] = std::max(depth_[index], depth_[operand] + 1);
    return depth_[index] <= kMaxDepth;
  }
  bool Operand(char kind, uint32_t index, size_t i) {
    const uint32_t operand = program_.nodes[index].operands[i];
    if (kind == 's') return String(operand);
    const bool statement = WantsStatement(program_.nodes[index].op, i);
    return (kind == '?' && operand == kNoNode) || Child(index, operand, statement);
  }

  bool CheckCall(const ProgramNode& node, uint32_t index) {
    size_t position = 0;
    if (node.operands.empty() || !String(node.operands[position++])) return false;
    if (node.op != Op::kFunction &&
        (position >= node.operands.size() || !Child(index, node.operands[position++]))) {
      return false;
    }
    while (position < node.operands.size() && node.operands[position] != kNoNode) {
      if (!Child(index, node.operands[position++])) return false;
    }
    if (position >= node.operands.size()) return false;
    ++position;
    if ((node.operands.size() - position) % 2 != 0) return false;
    for (; position < node.operands.size(); position += 2) {
      if (!String(node.operands[position]) || !Child(index, node.operands[position + 1])) return false;
    }
    return true;
  }

  bool CheckNode(uint32_t index) {
    const ProgramNode& node = program_.nodes[index];
    const auto shape = Shape(static_cast<uint64_t>(node.op));
    if (!shape) return false;
    if (*shape == "call") return CheckCall(node, index);
    const bool repeats = shape->ends_with('*');
    const size_t fixed = repeats ? shape->size() - 2 : shape->size();
    if (node.operands.size() < fixed || (!repeats && node.operands.size() != fixed)) return false;
    if (node.op == Op::kFor && node.operands.size() == fixed) return false;
    if (node.op == Op::kDict && node.operands.size() % 2 != 0) return false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const char kind = i < fixed ? (*shape)[i] : (*shape)[shape->size() - 2];
      if (!Operand(kind, index, i)) return false;
    }
    return true;
  }

  const Program& program_;
  std::vector<uint32_t> depth_;
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
  if (row == nullptr || row->size() < 2) return Fail(ErrorCode::kTplIr, "a node is not an array");
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
      node.line = static_cast<uint32_t>(*number);
    } else {
      node.operands.push_back(static_cast<uint32_t>(*number));
    }
  }
  return node;
}

Result<Program> FromMap(const cbor::Map& map) {
  cbor::Reader reader(map);
  Program program;
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kSchema) return Fail(ErrorCode::kTplIr, "template IR of another version: " + schema);
  SLM_ASSIGN(program.source_sha256, reader.Hash("source_sha256"));
  SLM_ASSIGN(const cbor::Map* limits, reader.MapOf("budgets"));
  cbor::Reader limit_reader(*limits, "budgets");
  SLM_ASSIGN(program.budgets.max_steps, limit_reader.Uint("max_steps"));
  SLM_ASSIGN(program.budgets.max_output_bytes, limit_reader.Uint("max_output_bytes"));
  SLM_ASSIGN(program.budgets.max_string_bytes, limit_reader.Uint("max_string_bytes"));
  SLM_TRY(limit_reader.Finish());
  SLM_ASSIGN(const cbor::Array* strings, reader.ArrayOf("strings"));
  SLM_ASSIGN(program.strings, Texts(*strings));
  SLM_ASSIGN(const cbor::Array* inputs, reader.ArrayOf("inputs"));
  SLM_ASSIGN(program.inputs, Texts(*inputs));
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
    if (value.AsMap() == nullptr) return Fail(ErrorCode::kTplIr, "a content predicate is not a map");
    cbor::Reader row(*value.AsMap(), "content_predicates");
    ContentPredicate predicate;
    SLM_ASSIGN(predicate.construct, row.Text("construct"));
    SLM_ASSIGN(predicate.literal, row.Text("literal"));
    SLM_ASSIGN(const uint64_t line, row.Uint("line"));
    predicate.line = static_cast<uint32_t>(std::min<uint64_t>(line, UINT32_MAX));
    SLM_TRY(row.Finish());
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
    cbor::Array row{static_cast<uint64_t>(node.op), node.line};
    for (const uint32_t operand : node.operands) row.emplace_back(operand);
    nodes.emplace_back(std::move(row));
  }
  cbor::Array predicates;
  for (const ContentPredicate& predicate : program.content_predicates) {
    predicates.emplace_back(cbor::Map{
        {"construct", predicate.construct}, {"literal", predicate.literal}, {"line", predicate.line}});
  }
  return cbor::Encode(cbor::Map{
      {"schema", kSchema},
      {"source_sha256", program.source_sha256},
      {"budgets", cbor::Map{{"max_steps", program.budgets.max_steps},
                            {"max_output_bytes", program.budgets.max_output_bytes},
                            {"max_string_bytes", program.budgets.max_string_bytes}}},
      {"strings", TextArray(program.strings)},
      {"inputs", TextArray(program.inputs)},
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
  return program;
}

}  // namespace slm::chat
