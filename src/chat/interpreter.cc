#include "chat/interpreter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/utf8.h"

namespace slm::chat {
namespace {

constexpr uint32_t kMaxValueDepth = 200;

enum class Flow : uint8_t { kNormal, kBreak, kContinue };

std::string TypeRepr(const Value& value) {
  if (value.kind() == ValueKind::kNone) return "None";
  return std::string(value.TypeName()) + " object";
}

bool IsHostMethod(const Value& receiver, std::string_view name) {
  static constexpr std::array<std::string_view, 11> kDictMethods = {
      "items", "keys",  "values",     "get",     "pop",     "update",
      "copy",  "clear", "setdefault", "popitem", "fromkeys"};
  static constexpr std::array<std::string_view, 12> kListMethods = {"append", "extend",  "insert", "remove",
                                                                    "pop",    "clear",   "index",  "count",
                                                                    "sort",   "reverse", "copy",   "real"};
  static constexpr std::array<std::string_view, 47> kStringMethods = {
      "capitalize", "casefold",     "center",       "count",   "encode",     "endswith",    "expandtabs",
      "find",       "format",       "format_map",   "index",   "isalnum",    "isalpha",     "isascii",
      "isdecimal",  "isdigit",      "isidentifier", "islower", "isnumeric",  "isprintable", "isspace",
      "istitle",    "isupper",      "join",         "ljust",   "lower",      "lstrip",      "maketrans",
      "partition",  "removeprefix", "removesuffix", "replace", "rfind",      "rindex",      "rjust",
      "rpartition", "rsplit",       "rstrip",       "split",   "splitlines", "startswith",  "strip",
      "swapcase",   "title",        "translate",    "upper",   "zfill"};
  const auto holds = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  switch (receiver.kind()) {
    case ValueKind::kDict:
      return holds(kDictMethods);
    case ValueKind::kString:
      return holds(kStringMethods);
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return holds(kListMethods);
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kFloat:
      return true;  // real, imag, bit_length, ...: numbers are not expected here at all
    default:
      return false;
  }
}

class Interpreter {
 public:
  Interpreter(const Program& program, const Variables& variables, const CallEnvironment& environment)
      : program_(program), variables_(variables), environment_(environment), scopes_(1) {}

  Result<OwnedText> Run() {
    SLM_TRY(Statement(program_.root));
    return std::move(output_);
  }

 private:
  struct Binding {
    uint32_t name;
    Value value;
  };
  using Scope = std::vector<Binding>;

  const ProgramNode& At(uint32_t node) const { return program_.nodes[node]; }
  const std::string& Text(uint32_t index) const { return program_.strings[index]; }

  Status Step(const ProgramNode& node) {
    if (++n_steps_ <= program_.budgets.max_steps) return {};
    return Fail(ErrorCode::kTplBudget, "more than " + std::to_string(program_.budgets.max_steps) +
                                           " steps (line " + std::to_string(node.line) + ")");
  }
  Status Charge(size_t n_bytes, const ProgramNode& node) {
    string_bytes_ += n_bytes;
    if (string_bytes_ <= program_.budgets.max_string_bytes) return {};
    return Fail(ErrorCode::kTplBudget, "more than " + std::to_string(program_.budgets.max_string_bytes) +
                                           " bytes of text in work (line " + std::to_string(node.line) + ")");
  }
  template <typename T>
  Result<T> WithLine(Result<T> result, const ProgramNode& node) const {
    if (result || result.error().message.ends_with(')') || result.error().code == ErrorCode::kTplRaised)
      return result;
    Error error = std::move(result).error();
    error.message += " (line " + std::to_string(node.line) + ")";
    return Fail(std::move(error));
  }

  // ---- statements ----
  Status Emit(const OwnedText& text, const ProgramNode& node) {
    output_.Append(text);
    if (output_.text().size() <= program_.budgets.max_output_bytes) return {};
    return Fail(ErrorCode::kTplBudget, "more than " + std::to_string(program_.budgets.max_output_bytes) +
                                           " bytes of output (line " + std::to_string(node.line) + ")");
  }

  Result<Flow> Statement(uint32_t index) {
    const ProgramNode& node = At(index);
    SLM_TRY(Step(node));
    switch (node.op) {
      case Op::kText:
        SLM_TRY(Emit(OwnedText(Text(node.operands[0]), kTemplateOwner), node));
        return Flow::kNormal;
      case Op::kOutput: {
        SLM_ASSIGN(const Value value, Evaluate(node.operands[0]));
        SLM_ASSIGN(const OwnedText text, WithLine(ToText(value), node));
        SLM_TRY(Emit(text, node));
        return Flow::kNormal;
      }
      case Op::kSequence:
        for (const uint32_t child : node.operands) {
          SLM_ASSIGN(const Flow flow, Statement(child));
          if (flow != Flow::kNormal) return flow;
        }
        return Flow::kNormal;
      case Op::kIf: {
        SLM_ASSIGN(const Value condition, Evaluate(node.operands[0]));
        if (condition.Truth()) return Statement(node.operands[1]);
        return node.operands[2] == kNoNode ? Result<Flow>(Flow::kNormal) : Statement(node.operands[2]);
      }
      case Op::kFor:
        return For(node);
      case Op::kSetName: {
        SLM_ASSIGN(Value value, Evaluate(node.operands[1]));
        Bind(node.operands[0], std::move(value));
        return Flow::kNormal;
      }
      case Op::kSetAttr:
        return SetAttribute(node);
      case Op::kBreak:
        return Flow::kBreak;
      case Op::kContinue:
        return Flow::kContinue;
      default:
        return Fail(ErrorCode::kTplIr, "an expression where a statement is expected");
    }
  }

  void Bind(uint32_t name, Value value) {
    for (Binding& binding : scopes_.back()) {
      if (binding.name == name) {
        binding.value = std::move(value);
        return;
      }
    }
    scopes_.back().push_back({name, std::move(value)});
  }

  Result<Flow> SetAttribute(const ProgramNode& node) {
    SLM_ASSIGN(Value value, Evaluate(node.operands[2]));
    const Value target = Lookup(node.operands[0]);
    if (target.kind() != ValueKind::kNamespace) {
      return WithLine<Flow>(Raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object"),
                            node);
    }
    if (value.depth() > kMaxValueDepth || value.kind() == ValueKind::kNamespace) {
      return Fail(ErrorCode::kTplBudget, "values nested too deep (line " + std::to_string(node.line) + ")");
    }
    target.namespace_members().Set(OwnedText(Text(node.operands[1]), kTemplateOwner), std::move(value));
    return Flow::kNormal;
  }

  Status BindTargets(const ProgramNode& node, const Value& item) {
    const size_t n_targets = node.operands.size() - 4;
    if (n_targets == 1) {
      Bind(node.operands[4], item);
      return {};
    }
    SLM_ASSIGN(const ValueList parts, WithLine(Iterate(item), node));
    if (parts.size() != n_targets) {
      return Fail(ErrorCode::kTplRuntime, "ValueError: expected " + std::to_string(n_targets) +
                                              " values to unpack, got " + std::to_string(parts.size()) +
                                              " (line " + std::to_string(node.line) + ")");
    }
    for (size_t i = 0; i < n_targets; ++i) Bind(node.operands[4 + i], parts[i]);
    return {};
  }

  Result<ValueList> FilteredItems(const ProgramNode& node, ValueList items) {
    if (node.operands[1] == kNoNode) return items;
    ValueList kept;
    for (Value& item : items) {
      scopes_.emplace_back();
      const Status bound = BindTargets(node, item);
      Result<Value> keep = bound ? Evaluate(node.operands[1]) : Result<Value>(std::unexpected(bound.error()));
      scopes_.pop_back();
      if (!keep) return std::unexpected(std::move(keep).error());
      if (keep->Truth()) kept.push_back(std::move(item));
    }
    return kept;
  }

  Result<Flow> For(const ProgramNode& node) {
    SLM_ASSIGN(const Value iterable, Evaluate(node.operands[0]));
    SLM_ASSIGN(ValueList all, WithLine(Iterate(iterable), node));
    SLM_ASSIGN(const ValueList items, FilteredItems(node, std::move(all)));
    if (items.empty()) {
      if (node.operands[3] == kNoNode) return Flow::kNormal;
      scopes_.emplace_back();
      auto flow = Statement(node.operands[3]);
      scopes_.pop_back();
      return flow;
    }
    const auto loop = std::make_shared<LoopState>();
    loop->items = &items;
    Status status;
    Flow flow = Flow::kNormal;
    loops_.push_back(loop);
    for (size_t i = 0; i < items.size() && status && flow != Flow::kBreak; ++i) {
      loop->index0 = i;
      scopes_.emplace_back();
      status = BindTargets(node, items[i]);
      if (status) {
        auto result = Statement(node.operands[2]);
        if (result) {
          flow = *result;
        } else {
          status = std::unexpected(std::move(result).error());
        }
      }
      scopes_.pop_back();
    }
    loops_.pop_back();
    loop->items = nullptr;
    if (!status) return std::unexpected(std::move(status).error());
    return Flow::kNormal;
  }

  // ---- expressions ----
  Value Lookup(uint32_t name) const {
    const std::string& text = Text(name);
    for (size_t i = scopes_.size(); i-- > 0;) {
      for (const Binding& binding : scopes_[i]) {
        if (binding.name == name) return binding.value;
      }
    }
    if (text == "loop" && !loops_.empty()) return Value::Loop(loops_.back());
    for (const auto& [key, value] : variables_) {
      if (key == text) return value;
    }
    return Value::Undefined("'" + text + "' is undefined");
  }

  Result<Value> Evaluate(uint32_t index) {
    const ProgramNode& node = At(index);
    SLM_TRY(Step(node));
    SLM_ASSIGN(Value value, WithLine(Compute(node), node));
    if (value.is_string() && node.op >= Op::kAttr) SLM_TRY(Charge(value.text().text().size(), node));
    if (value.depth() > kMaxValueDepth) {
      return Fail(ErrorCode::kTplBudget, "values nested too deep (line " + std::to_string(node.line) + ")");
    }
    return value;
  }

  Result<ValueList> EvaluateAll(std::span<const uint32_t> nodes) {
    ValueList values;
    for (const uint32_t child : nodes) {
      SLM_ASSIGN(Value value, Evaluate(child));
      values.push_back(std::move(value));
    }
    return values;
  }

  Result<Value> Compute(const ProgramNode& node) {
    const std::vector<uint32_t>& operands = node.operands;
    switch (node.op) {
      case Op::kString:
        return Value::String(Text(operands[0]));
      case Op::kInteger:
      case Op::kFloat:
        return Number(node);
      case Op::kTrue:
        return Value::Bool(true);
      case Op::kFalse:
        return Value::Bool(false);
      case Op::kNone:
        return Value::None();
      case Op::kName:
        return Lookup(operands[0]);
      case Op::kList:
      case Op::kTuple: {
        SLM_ASSIGN(ValueList items, EvaluateAll(operands));
        return node.op == Op::kList ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
      }
      case Op::kDict:
        return DictLiteral(operands);
      case Op::kAttr: {
        SLM_ASSIGN(const Value receiver, Evaluate(operands[0]));
        return Attribute(receiver, Text(operands[1]));
      }
      case Op::kItem: {
        SLM_ASSIGN(const Value receiver, Evaluate(operands[0]));
        SLM_ASSIGN(const Value key, Evaluate(operands[1]));
        return Item(receiver, key);
      }
      case Op::kSlice:
        return Slice(operands);
      case Op::kNot: {
        SLM_ASSIGN(const Value value, Evaluate(operands[0]));
        return Value::Bool(!value.Truth());
      }
      case Op::kNegate: {
        SLM_ASSIGN(const Value value, Evaluate(operands[0]));
        if (value.is_undefined()) return RaiseUndefined(value);
        if (value.is_integer()) return Value::Integer(-value.integer(), value.owner());
        if (value.is_number()) return Value::Float(-value.number(), value.owner());
        return Raise("TypeError", "bad operand type for unary -: '" + std::string(value.TypeName()) + "'");
      }
      case Op::kAnd:
      case Op::kOr: {
        SLM_ASSIGN(Value left, Evaluate(operands[0]));
        if (left.Truth() == (node.op == Op::kOr)) return left;
        return Evaluate(operands[1]);
      }
      case Op::kConcat: {
        OwnedText text;
        for (const uint32_t part : operands) {
          SLM_ASSIGN(const Value value, Evaluate(part));
          SLM_ASSIGN(const OwnedText piece, ToText(value));
          text.Append(piece);
        }
        return Value::String(std::move(text));
      }
      case Op::kConditional: {
        SLM_ASSIGN(const Value condition, Evaluate(operands[0]));
        if (condition.Truth()) return Evaluate(operands[1]);
        if (operands[2] != kNoNode) return Evaluate(operands[2]);
        return Value::Undefined(
            "the inline if-expression evaluated to false and no else section was defined.");
      }
      case Op::kFilter:
      case Op::kTest:
      case Op::kFunction:
      case Op::kMethod:
        return Call(node);
      default:
        return Binary(node);
    }
  }

  Result<Value> Number(const ProgramNode& node) const {
    const std::string& text = Text(node.operands[0]);
    const char* end = text.data() + text.size();
    if (node.op == Op::kInteger) {
      int64_t integer = 0;
      const auto [stop, error] = std::from_chars(text.data(), end, integer);
      if (error != std::errc() || stop != end)
        return Fail(ErrorCode::kTplIr, "an integer literal that is none");
      return Value::Integer(integer);
    }
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) return Fail(ErrorCode::kTplIr, "a float literal that is none");
    return Value::Float(number);
  }

  Result<Value> DictLiteral(const std::vector<uint32_t>& operands) {
    Dict dict;
    for (size_t i = 0; i < operands.size(); i += 2) {
      SLM_ASSIGN(const Value key, Evaluate(operands[i]));
      SLM_ASSIGN(Value value, Evaluate(operands[i + 1]));
      if (!key.is_string()) return Fail(ErrorCode::kUnsupported, "a dict key that is not text");
      dict.Set(key.text(), std::move(value));
    }
    return Value::FromDict(std::move(dict));
  }

  Result<Value> LoopAttribute(const LoopState& loop, const std::string& name) const {
    if (loop.items == nullptr) return Fail(ErrorCode::kUnsupported, "the loop object outside its loop");
    const auto index = static_cast<int64_t>(loop.index0);
    const auto length = static_cast<int64_t>(loop.items->size());
    if (name == "index0") return Value::Integer(index);
    if (name == "index") return Value::Integer(index + 1);
    if (name == "revindex0") return Value::Integer(length - index - 1);
    if (name == "revindex") return Value::Integer(length - index);
    if (name == "length") return Value::Integer(length);
    if (name == "first") return Value::Bool(index == 0);
    if (name == "last") return Value::Bool(index + 1 == length);
    if (name == "previtem") {
      return index > 0 ? (*loop.items)[loop.index0 - 1] : Value::Undefined("there is no previous item");
    }
    if (name == "nextitem") {
      return index + 1 < length ? (*loop.items)[loop.index0 + 1] : Value::Undefined("there is no next item");
    }
    return Fail(ErrorCode::kUnsupported, "loop." + name);
  }

  Result<Value> Attribute(const Value& receiver, const std::string& name) const {
    if (receiver.is_undefined()) return RaiseUndefined(receiver);
    if (receiver.kind() == ValueKind::kLoop) return LoopAttribute(receiver.loop(), name);
    if (IsHostMethod(receiver, name)) {
      return Fail(ErrorCode::kTplForbidden,
                  "the attribute '" + name + "' is a method object in the reference");
    }
    if (receiver.kind() == ValueKind::kDict || receiver.kind() == ValueKind::kNamespace) {
      if (const Value* found = receiver.dict().Find(name)) return *found;
    }
    return Value::Undefined("'" + TypeRepr(receiver) + "' has no attribute '" + name + "'");
  }

  Result<Value> Item(const Value& receiver, const Value& key) const {
    if (receiver.is_undefined()) return RaiseUndefined(receiver);
    if (key.is_string()) {
      const std::string& name = key.text().text();
      if (receiver.kind() == ValueKind::kDict) {
        if (const Value* found = receiver.dict().Find(name)) return *found;
      }
      return Attribute(receiver, name);
    }
    if (key.is_integer() && (receiver.is_sequence() || receiver.is_string())) {
      SLM_ASSIGN(const ValueList items, Iterate(receiver));
      const auto length = static_cast<int64_t>(items.size());
      const int64_t index = key.integer() < 0 ? key.integer() + length : key.integer();
      if (index >= 0 && index < length) return items[static_cast<size_t>(index)];
    }
    SLM_ASSIGN(const OwnedText shown, ToText(key));
    return Value::Undefined(TypeRepr(receiver) + " has no element " + shown.text());
  }

  // Python's slice of a list or a string, by items or code points.
  Result<Value> Slice(const std::vector<uint32_t>& operands) {
    SLM_ASSIGN(const Value receiver, Evaluate(operands[0]));
    std::array<std::optional<int64_t>, 3> bounds;
    for (size_t i = 0; i < 3; ++i) {
      if (operands[i + 1] == kNoNode) continue;
      SLM_ASSIGN(const Value bound, Evaluate(operands[i + 1]));
      if (bound.kind() == ValueKind::kNone) continue;
      if (!bound.is_integer()) {
        return Raise("TypeError", "slice indices must be integers or None or have an __index__ method");
      }
      bounds[i] = bound.integer();
    }
    if (receiver.is_undefined()) return RaiseUndefined(receiver);
    if (!receiver.is_sequence() && !receiver.is_string()) {
      return Raise("TypeError", "'" + std::string(receiver.TypeName()) + "' object is not subscriptable");
    }
    SLM_ASSIGN(const ValueList items, Iterate(receiver));
    const auto length = static_cast<int64_t>(items.size());
    const int64_t step = bounds[2].value_or(1);
    if (step == 0) return Raise("ValueError", "slice step cannot be zero");
    const auto clamp = [&](int64_t bound) {
      if (bound < 0) bound += length;
      return step > 0 ? std::clamp<int64_t>(bound, 0, length) : std::clamp<int64_t>(bound, -1, length - 1);
    };
    const int64_t start = bounds[0] ? clamp(*bounds[0]) : (step > 0 ? 0 : length - 1);
    const int64_t stop = bounds[1] ? clamp(*bounds[1]) : (step > 0 ? length : -1);
    ValueList taken;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
      taken.push_back(items[static_cast<size_t>(i)]);
    if (receiver.kind() == ValueKind::kTuple) return Value::Tuple(std::move(taken));
    if (receiver.kind() == ValueKind::kRange) return Value::Range(std::move(taken));
    if (receiver.kind() == ValueKind::kList) return Value::List(std::move(taken), receiver.owner());
    OwnedText text;
    for (const Value& character : taken) text.Append(character.text());
    return Value::String(std::move(text));
  }

  Result<Value> Call(const ProgramNode& node) {
    const std::string& name = Text(node.operands[0]);
    size_t position = 1;
    Value receiver;
    if (node.op != Op::kFunction) {
      SLM_ASSIGN(receiver, Evaluate(node.operands[position++]));
    }
    CallArguments arguments;
    for (; node.operands[position] != kNoNode; ++position) {
      SLM_ASSIGN(Value value, Evaluate(node.operands[position]));
      arguments.positional.push_back(std::move(value));
    }
    for (++position; position < node.operands.size(); position += 2) {
      SLM_ASSIGN(Value value, Evaluate(node.operands[position + 1]));
      arguments.keywords.emplace_back(Text(node.operands[position]), std::move(value));
    }
    switch (node.op) {
      case Op::kFilter:
        return CallFilter(name, receiver, arguments);
      case Op::kMethod:
        return CallMethod(name, receiver, arguments);
      case Op::kFunction:
        return CallFunction(name, arguments, environment_);
      default: {
        SLM_ASSIGN(const bool holds, CallTest(name, receiver, arguments));
        return Value::Bool(holds);
      }
    }
  }

  Result<Value> Binary(const ProgramNode& node) {
    SLM_ASSIGN(const Value left, Evaluate(node.operands[0]));
    SLM_ASSIGN(const Value right, Evaluate(node.operands[1]));
    switch (node.op) {
      case Op::kEqual:
        return Value::Bool(left.Equals(right));
      case Op::kNotEqual:
        return Value::Bool(!left.Equals(right));
      case Op::kIn:
      case Op::kNotIn: {
        SLM_ASSIGN(const bool holds, Contains(right, left));
        return Value::Bool(holds == (node.op == Op::kIn));
      }
      default:
        break;
    }
    if (left.is_undefined()) return RaiseUndefined(left);
    if (right.is_undefined()) return RaiseUndefined(right);
    if (node.op >= Op::kLess && node.op <= Op::kGreaterEqual) return Order(node.op, left, right);
    return Arithmetic(node, left, right);
  }

  static Result<Value> Order(Op op, const Value& left, const Value& right) {
    int order = 0;
    if (left.is_integer() && right.is_integer()) {
      order = left.integer() < right.integer() ? -1 : left.integer() > right.integer() ? 1 : 0;
    } else if (left.is_number() && right.is_number()) {
      order = left.number() < right.number() ? -1 : left.number() > right.number() ? 1 : 0;
    } else if (left.is_string() && right.is_string()) {
      order = left.text().text().compare(right.text().text());  // UTF-8 orders as code points do
    } else if (left.is_sequence() && left.kind() == right.kind()) {
      return Fail(ErrorCode::kUnsupported, "the order of lists");
    } else {
      constexpr std::array<std::string_view, 4> kSigns = {"<", "<=", ">", ">="};
      return Raise("TypeError",
                   "'" + std::string(kSigns[static_cast<size_t>(op) - static_cast<size_t>(Op::kLess)]) +
                       "' not supported between instances of '" + std::string(left.TypeName()) + "' and '" +
                       std::string(right.TypeName()) + "'");
    }
    switch (op) {
      case Op::kLess:
        return Value::Bool(order < 0);
      case Op::kLessEqual:
        return Value::Bool(order <= 0);
      case Op::kGreater:
        return Value::Bool(order > 0);
      default:
        return Value::Bool(order >= 0);
    }
  }

  Result<Value> Arithmetic(const ProgramNode& node, const Value& left, const Value& right) {
    if (left.is_integer() && right.is_integer()) return IntegerArithmetic(node.op, left, right);
    if (node.op == Op::kAdd && left.is_string() && right.is_string()) {
      OwnedText text = left.text();
      text.Append(right.text());
      return Value::String(std::move(text));
    }
    if (node.op == Op::kMultiply && (left.is_sequence() || right.is_sequence())) {
      return Fail(ErrorCode::kUnsupported, "a list multiplied");
    }
    if (node.op == Op::kAdd && left.is_sequence() && left.kind() == right.kind() &&
        left.kind() != ValueKind::kRange) {
      ValueList items = left.items();
      items.insert(items.end(), right.items().begin(), right.items().end());
      return left.kind() == ValueKind::kTuple ? Value::Tuple(std::move(items))
                                              : Value::List(std::move(items));
    }
    if (node.op == Op::kMultiply &&
        ((left.is_string() && right.is_integer()) || (left.is_integer() && right.is_string()))) {
      const OwnedText& text = left.is_string() ? left.text() : right.text();
      const int64_t times = std::max<int64_t>(left.is_string() ? right.integer() : left.integer(), 0);
      if (!text.text().empty() &&
          static_cast<uint64_t>(times) > program_.budgets.max_string_bytes / text.text().size()) {
        return Fail(ErrorCode::kTplBudget, "a string repeated beyond the budget");
      }
      OwnedText result;
      if (!text.text().empty()) {
        for (int64_t i = 0; i < times; ++i) result.Append(text);
      }
      return Value::String(std::move(result));
    }
    if (left.is_number() && right.is_number())
      return Fail(ErrorCode::kUnsupported, "arithmetic on fractions");
    if (node.op == Op::kModulo && left.is_string())
      return Fail(ErrorCode::kTplForbidden, "string formatting with %");
    constexpr std::array<std::string_view, 4> kSigns = {"+", "-", "*", "%"};
    const size_t sign = static_cast<size_t>(node.op) - static_cast<size_t>(Op::kAdd);
    return Raise("TypeError", "unsupported operand type(s) for " + std::string(kSigns[sign]) + ": '" +
                                  std::string(left.TypeName()) + "' and '" + std::string(right.TypeName()) +
                                  "'");
  }

  static Result<Value> IntegerArithmetic(Op op, const Value& left, const Value& right) {
    const int64_t a = left.integer();
    const int64_t b = right.integer();
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case Op::kAdd:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
      case Op::kSubtract:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
      case Op::kMultiply:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
      default:
        if (b == 0) return Raise("ZeroDivisionError", "integer modulo by zero");
        result = b == -1 ? 0 : a % b;
        if (result != 0 && (result < 0) != (b < 0)) result += b;
        break;
    }
    if (overflow) return Fail(ErrorCode::kUnsupported, "an integer beyond 64 bits");
    return Value::Integer(result);
  }

  const Program& program_;
  const Variables& variables_;
  const CallEnvironment& environment_;
  OwnedText output_;
  std::vector<Scope> scopes_;
  std::vector<std::shared_ptr<LoopState>> loops_;
  uint64_t n_steps_ = 0;
  uint64_t string_bytes_ = 0;
};

}  // namespace

Result<OwnedText> Execute(const Program& program, const Variables& variables,
                          const CallEnvironment& environment) {
  return Interpreter(program, variables, environment).Run();
}

}  // namespace slm::chat
