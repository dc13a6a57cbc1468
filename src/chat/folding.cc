#include "chat/folding.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "chat/builtins.h"
#include "chat/number.h"

namespace slm::chat {
namespace {

Budgets BudgetsOfConstants() {
  Budgets budgets;
  budgets.max_steps = uint64_t{1} << 18;
  budgets.max_heap_bytes = uint64_t{1} << 22;
  return budgets;
}

// Filters that ask for the context of a rendering: the optimizer leaves them alone.
bool NeedsContext(std::string_view filter) {
  static constexpr std::string_view kNames[] = {"map",        "select",     "reject",
                                                "selectattr", "rejectattr", "random"};
  return std::find(std::begin(kNames), std::end(kNames), filter) != std::end(kNames);
}

// jinja2.compiler.has_safe_repr: eval(repr(value)) is the value.
bool HasSafeRepr(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kBigInteger:
    case ValueKind::kFloat:
    case ValueKind::kString:
    case ValueKind::kRange:
      return true;
    case ValueKind::kList:
    case ValueKind::kTuple:
      return !value.is_group() && std::all_of(value.list().begin(), value.list().end(), HasSafeRepr);
    case ValueKind::kDict:
      return std::all_of(value.dict().begin(), value.dict().end(), [](const DictEntry& entry) {
        return HasSafeRepr(entry.key) && HasSafeRepr(entry.value);
      });
    default:
      return false;
  }
}

}  // namespace

Folding::Folding(const Ast& ast) : ast_(ast), marks_(ast.nodes.size()) {
  runtimes_.emplace_back(BudgetsOfConstants());
}

bool Folding::MayBeConstant(uint32_t index) {
  uint8_t& mark = marks_[index];
  if ((mark & kAsked) != 0) return (mark & kMayBe) != 0;
  const AstNode& node = ast_.nodes[index];
  bool may = true;
  const auto also = [&](uint32_t child) { may = may && MayBeConstant(child); };
  switch (node.kind) {
    case AstKind::kName:
    case AstKind::kCall:
      may = false;
      break;
    case AstKind::kFilter:
      may = node.first != kNoAst && !NeedsContext(node.text);
      if (may) ast_.ForEachChild(index, also);
      break;
    case AstKind::kBinary:
      also(node.first);
      if (node.text != "and" && node.text != "or") also(node.second);
      break;
    case AstKind::kCompare:
      also(node.first);
      also(node.items[0]);
      break;
    case AstKind::kConditional:
      also(node.first);
      break;
    default:
      ast_.ForEachChild(index, also);
      break;
  }
  mark |= kAsked | (may ? kMayBe : 0);
  return may;
}

void Folding::Visit(uint32_t index) {
  if ((marks_[index] & kVisited) != 0) return;
  marks_[index] |= kVisited;
  ast_.ForEachChild(index, [this](uint32_t child) { Visit(child); });
  if (ast_.nodes[index].kind == AstKind::kSlice || !MayBeConstant(index)) return;
  const Outcome outcome = AsConst(index);
  switch (outcome.state) {
    case State::kValue:
      if (HasSafeRepr(outcome.value)) constants_.emplace(index, outcome.value);
      break;
    case State::kImpossible:
      break;
    case State::kFails:
      if (!failure_) failure_ = crash_;
      break;
    case State::kOpen:
      marks_[index] |= kOpen;
      break;
  }
}

const Value* Folding::Constant(uint32_t index) const {
  const auto found = constants_.find(index);
  return found == constants_.end() ? nullptr : &found->second;
}

std::optional<std::string> Folding::Written(uint32_t index) {
  if (!MayBeConstant(index)) return std::nullopt;
  Outcome text = AsConst(index);
  if (text.state == State::kValue) text = Take(runtime().ToText(text.value));
  if (text.state == State::kOpen) marks_[index] |= kOpen;
  if (text.state != State::kValue) return std::nullopt;
  return std::string(runtime().View(text.value));
}

Folding::Writing Folding::WritingOf(const Value& constant) {
  Writing writing;
  const auto add = [&writing](const Value& part) {
    const Writing other = WritingOf(part);
    if (writing.undefined_name == nullptr) writing.undefined_name = other.undefined_name;
    writing.too_long = writing.too_long || other.too_long;
  };
  switch (constant.kind()) {
    case ValueKind::kBigInteger:
      writing.too_long = !IntegerText(constant);
      break;
    case ValueKind::kFloat:
      if (std::isinf(constant.real())) writing.undefined_name = "inf";
      if (std::isnan(constant.real())) writing.undefined_name = "nan";
      break;
    case ValueKind::kList:
    case ValueKind::kTuple:
      for (const Value& item : constant.list()) add(item);
      break;
    case ValueKind::kDict:
      for (const DictEntry& entry : constant.dict()) {
        add(entry.key);
        add(entry.value);
      }
      break;
    default:
      break;
  }
  return writing;
}

Folding::Outcome Folding::Failed(State state) {
  // A failed runtime stays failed.
  if (runtime().failed()) {
    const Error& error = runtime().error();
    const bool raised = error.code == ErrorCode::kTplRuntime || error.code == ErrorCode::kTplRaised;
    if (!raised) state = State::kOpen;
    if (raised) {
      runtime().ForgetError();
    } else if (runtimes_.size() < kMaxRuntimes) {
      runtimes_.emplace_back(BudgetsOfConstants());
    }
  }
  return {state, {}};
}

Folding::Outcome Folding::Take(const Value& value) {
  if (value.failed()) return Failed(State::kImpossible);
  if (Depth(value) > kMaxValueDepth) return {State::kOpen, {}};
  return {State::kValue, value};
}

// An exception that no part of the optimizer catches.
Folding::Outcome Folding::Crash(const AstNode& node) {
  const std::string message = runtime().error().message;
  const Outcome outcome = Failed(State::kFails);
  const size_t colon = std::min(message.find(": "), message.size());
  if (outcome.state == State::kFails)
    crash_ = {message.substr(0, colon), message.substr(std::min(colon + 2, message.size())), node.place()};
  return outcome;
}

Folding::Outcome Folding::AsConst(uint32_t index) {
  if (const Value* constant = Constant(index)) return {State::kValue, *constant};
  if (!MayBeConstant(index)) return {};
  const bool used_up = runtimes_.size() == kMaxRuntimes && runtime().failed();
  if (used_up) return {State::kOpen, {}};
  const AstNode& node = ast_.nodes[index];
  Heap& heap = runtime().heap();
  switch (node.kind) {
    case AstKind::kString:
      return {State::kValue, heap.Borrow(node.text, kTemplateOwner)};
    case AstKind::kInteger: {
      const auto integer = ParseInteger(heap, node.text);
      return integer ? Outcome{State::kValue, *integer} : Outcome{};
    }
    case AstKind::kFloat: {
      const auto real = ParseFloatLiteral(node.text);
      return real ? Outcome{State::kValue, Value::Float(*real)} : Outcome{};
    }
    case AstKind::kTrue:
    case AstKind::kFalse:
      return {State::kValue, Value::Bool(node.kind == AstKind::kTrue)};
    case AstKind::kNone:
      return {State::kValue, Value::None()};
    case AstKind::kTuple:
    case AstKind::kList: {
      std::vector<Value> items;
      for (const uint32_t item : node.items) {
        const Outcome outcome = AsConst(item);
        if (outcome.state != State::kValue) return outcome;
        items.push_back(outcome.value);
      }
      return Take(node.kind == AstKind::kTuple ? heap.Tuple(items) : heap.List(items));
    }
    case AstKind::kDict:
      return Dict(node);
    case AstKind::kConditional: {
      const Outcome test = AsConst(node.first);
      if (test.state != State::kValue) return test;
      if (Truth(test.value)) return AsConst(node.second);
      return node.third == kNoAst ? Outcome{} : AsConst(node.third);
    }
    case AstKind::kBinary: {
      if (node.text == "and" || node.text == "or") return Logic(node);
      const Outcome left = AsConst(node.first);
      if (left.state == State::kOpen) return left;
      if (left.state != State::kValue) return {};
      const Outcome right = AsConst(node.second);
      if (right.state == State::kOpen) return right;
      if (right.state != State::kValue) return {};
      return Take(runtime().Binary(ArithmeticOf(node.text), left.value, right.value));
    }
    case AstKind::kUnary: {
      const Outcome operand = AsConst(node.first);
      if (operand.state == State::kOpen) return operand;
      if (operand.state != State::kValue) return {};
      if (node.text == "not") return {State::kValue, Value::Bool(!Truth(operand.value))};
      return Take(runtime().Negate(operand.value, node.text == "+"));
    }
    case AstKind::kConcat:
      return Concat(node);
    case AstKind::kCompare:
      return Compare(node);
    case AstKind::kAttribute: {
      const Outcome object = AsConst(node.first);
      if (object.state == State::kOpen) return object;
      if (object.state != State::kValue) return {};
      return Take(runtime().Attribute(object.value, heap.Borrow(node.text, kTemplateOwner),
                                      FindAttribute(node.text)));
    }
    case AstKind::kItem:
      return Item(node);
    case AstKind::kFilter:
    case AstKind::kTest:
      return FilterOrTest(node);
    default:
      return {};
  }
}

Folding::Outcome Folding::Logic(const AstNode& node) {
  const Outcome left = AsConst(node.first);
  if (left.state != State::kValue || Truth(left.value) == (node.text == "or")) return left;
  return AsConst(node.second);
}

Folding::Outcome Folding::Concat(const AstNode& node) {
  Value text = runtime().heap().Borrow("", kTemplateOwner);
  for (const uint32_t item : node.items) {
    const Outcome part = AsConst(item);
    if (part.state != State::kValue) return part;
    const Value written = runtime().ToText(part.value);
    if (written.failed()) return Crash(node);
    text = runtime().ConcatenateText(text, written);
    if (text.failed()) return Crash(node);
  }
  return {State::kValue, text};
}

Folding::Outcome Folding::Compare(const AstNode& node) {
  Outcome left = AsConst(node.first);
  Outcome result = left;
  if (left.state != State::kValue) return left;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Outcome right = AsConst(node.items[i]);
    if (right.state == State::kOpen) return right;
    if (right.state != State::kValue) return {};
    result = Take(runtime().Compare(ComparisonOf(node.names[i]), left.value, right.value));
    if (result.state != State::kValue) return result;
    if (!Truth(result.value)) return {State::kValue, Value::Bool(false)};
    left = right;
  }
  return result;
}

Folding::Outcome Folding::Dict(const AstNode& node) {
  std::vector<DictEntry> entries;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const Outcome key = AsConst(node.items[i]);
    if (key.state != State::kValue) return key;
    const Outcome value = AsConst(node.items[i + 1]);
    if (value.state != State::kValue) return value;
    if (!runtime().CheckHashable(key.value) || !runtime().Work(entries.size() / 8)) return Crash(node);
    const auto held = std::find_if(entries.begin(), entries.end(),
                                   [&](const DictEntry& entry) { return Equal(entry.key, key.value); });
    if (held != entries.end()) {
      held->value = value.value;
    } else {
      entries.push_back({key.value, value.value});
    }
  }
  return Take(runtime().heap().Dict(entries));
}

Folding::Outcome Folding::Item(const AstNode& node) {
  const AstNode& key = ast_.nodes[node.second];
  const auto caught = [](const Outcome& outcome) {
    return outcome.state == State::kOpen ? outcome : Outcome{};
  };
  const Outcome object = AsConst(node.first);
  if (object.state != State::kValue) return caught(object);
  if (key.kind != AstKind::kSlice) {
    const Outcome item = AsConst(node.second);
    if (item.state != State::kValue) return caught(item);
    return Take(runtime().Item(object.value, item.value));
  }
  Value bounds[3];
  const uint32_t parts[] = {key.first, key.second, key.third};
  for (size_t i = 0; i < 3; ++i) {
    if (parts[i] == kNoAst) continue;
    const Outcome bound = AsConst(parts[i]);
    if (bound.state != State::kValue) return caught(bound);
    bounds[i] = bound.value;
  }
  const Value slice = runtime().Slice(object.value, bounds[0], bounds[1], bounds[2]);
  if (!slice.failed() || !runtime().DropTypeError()) return Take(slice);
  // Environment.getitem: what cannot be sliced has no such member.
  return Take(runtime().UndefinedElement(object.value, Value::None()));
}

Folding::Outcome Folding::FilterOrTest(const AstNode& node) {
  const bool is_filter = node.kind == AstKind::kFilter;
  const uint32_t id = is_filter ? FilterId(node.text) : TestId(node.text);
  if (id == kNoBuiltin || (is_filter && KnownFilter(node.text) != Known::kKnown)) return {};
  CallArguments arguments;
  for (const uint32_t item : node.items) {
    const Outcome value = AsConst(item);
    if (value.state != State::kValue) return value;
    arguments.positional.push_back(value.value);
  }
  const auto set_keyword = [&arguments](std::string_view name, const Value& value) {
    CallArguments changed;
    changed.positional = arguments.positional;
    bool found = false;
    for (const auto& keyword : arguments.keywords) {
      found = found || keyword.name == name;
      changed.keywords.push_back({keyword.name, keyword.name == name ? value : keyword.value});
    }
    if (!found) changed.keywords.push_back({name, value});
    arguments = changed;
  };
  for (size_t i = 0; i < node.others.size(); ++i) {
    const Outcome value = AsConst(node.others[i]);
    if (value.state != State::kValue) return value;
    set_keyword(node.names[i], value.value);
  }
  if (node.second != kNoAst) {
    const Outcome sequence = AsConst(node.second);
    if (sequence.state != State::kValue) return sequence.state == State::kOpen ? sequence : Outcome{};
    if (!runtime().Collect(sequence.value, &arguments.positional)) return Failed(State::kImpossible);
  }
  if (node.third != kNoAst) {
    const Outcome mapping = AsConst(node.third);
    if (mapping.state != State::kValue) return mapping.state == State::kOpen ? mapping : Outcome{};
    if (mapping.value.kind() != ValueKind::kDict) return {State::kOpen, {}};  // dict.update takes pairs, too
    for (const DictEntry& entry : mapping.value.dict()) {
      if (!entry.key.is_string()) return {};
      set_keyword(runtime().View(entry.key), entry.value);
    }
  }
  const Outcome receiver = AsConst(node.first);
  if (receiver.state != State::kValue) return receiver;
  return Take(is_filter ? CallFilter(runtime(), id, receiver.value, arguments)
                        : CallTest(runtime(), id, receiver.value, arguments));
}

}  // namespace slm::chat
