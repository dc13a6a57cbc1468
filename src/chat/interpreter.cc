#include "chat/interpreter.h"

#include <algorithm>

#include "chat/builtins.h"

namespace slm::chat {

// ---- making a program ready ----

uint32_t Executable::ContextIndex(const std::string& name) {
  const auto found = std::find(context_names_.begin(), context_names_.end(), name);
  if (found != context_names_.end()) return static_cast<uint32_t>(found - context_names_.begin());
  context_names_.push_back(name);
  const uint32_t function = FunctionId(name);
  context_defaults_.push_back(function == kNoFunction ? Value::Missing() : Value::Function(function));
  return static_cast<uint32_t>(context_names_.size() - 1);
}

Status Executable::Prepare(const ProgramNode& source, Node* node) {
  const auto text = [&](size_t i) -> const std::string& { return program_.strings[source.operands[i]]; };
  const auto constant = [&](size_t i) {
    Value& shared = literals_[source.operands[i]];
    if (shared.is_missing()) {
      shared = heap_.Borrow(text(i), kTemplateOwner);
      (void)shared.text().CountedScalars();
    }
    node->constant = shared;
  };
  switch (source.op) {
    case Op::kText:
    case Op::kString:
      constant(0);
      return {};
    case Op::kInteger: {
      const std::string& digits = text(0);
      if (digits.size() > 4'300 || digits.empty() ||
          digits.find_first_not_of("0123456789") != std::string::npos) {
        return Fail(ErrorCode::kTplIr, "an integer literal that is none");
      }
      node->constant = *ParseInteger(heap_, digits);
      return {};
    }
    case Op::kFloat: {
      const auto number = ParseFloatLiteral(text(0));
      if (!number) return Fail(ErrorCode::kTplIr, "a float literal that is none");
      node->constant = Value::Float(*number);
      return {};
    }
    case Op::kTrue:
    case Op::kFalse:
      node->constant = Value::Bool(source.op == Op::kTrue);
      return {};
    case Op::kNone:
      node->constant = Value::None();
      return {};
    case Op::kResolve:
      node->id = ContextIndex(text(1));
      return {};
    case Op::kTargetName:
      if (source.operands[1] != kNoNode) node->id = ContextIndex(text(1));
      return {};
    case Op::kDefault:
      constant(1);
      return {};
    case Op::kLoad:
      constant(2);
      return {};
    case Op::kTargetAttribute:
      constant(3);
      return {};
    case Op::kAttribute:
      constant(1);
      node->id = static_cast<uint32_t>(FindAttribute(text(1)));
      return {};
    case Op::kFilter:
      constant(0);
      node->id = FilterId(text(0));
      return {};
    case Op::kTest:
      constant(0);
      node->id = TestId(text(0));
      return {};
    case Op::kMacro:
      if (source.operands[0] == kNoNode) {
        node->constant = Value::None();
      } else {
        constant(0);
      }
      return {};
    default:
      return {};
  }
}

Result<std::shared_ptr<const Executable>> Executable::Make(Program program) {
  auto made = std::make_shared<Executable>();
  made->program_ = std::move(program);
  made->nodes_.resize(made->program_.nodes.size());
  made->literals_.resize(made->program_.strings.size());
  size_t n_operands = 0;
  for (const ProgramNode& node : made->program_.nodes) n_operands += node.operands.size();
  made->operands_.reserve(n_operands);
  made->links_.reserve(n_operands);
  for (size_t i = 0; i < made->nodes_.size(); ++i) {
    const ProgramNode& source = made->program_.nodes[i];
    Node& node = made->nodes_[i];
    node.op = source.op;
    node.place = source.place;
    node.operands = made->operands_.data() + made->operands_.size();
    node.links = made->links_.data() + made->links_.size();
    made->operands_.insert(made->operands_.end(), source.operands.begin(), source.operands.end());
    for (const uint32_t operand : source.operands)
      made->links_.push_back(operand < i ? &made->nodes_[operand] : nullptr);
    node.n_operands = static_cast<uint32_t>(source.operands.size());
    SLM_TRY(made->Prepare(source, &node));
    made->FindShape(source, &node);
  }
  made->FindSums();
  made->FindPrompt();
  return std::shared_ptr<const Executable>(std::move(made));
}

// Most of what templates do is to read message.role or message['content'], to compare it with a literal, and
// to write what they read.
void Executable::FindShape(const ProgramNode& source, Node* node) const {
  const auto child = [&](size_t i) { return &nodes_[source.operands[i]]; };
  switch (source.op) {
    case Op::kText:
    case Op::kString:
    case Op::kInteger:
    case Op::kFloat:
    case Op::kTrue:
    case Op::kFalse:
    case Op::kNone:
      node->shape = Shape::kLiteral;
      return;
    case Op::kLoad:
      node->slot = source.operands[1];
      if (source.operands[0] == 0) node->shape = Shape::kLocal;
      return;
    case Op::kOutput:
    case Op::kNot:
      node->left = child(0);
      if (source.op == Op::kNot) node->shape = Shape::kNot;
      return;
    case Op::kAnd:
    case Op::kOr:
      node->left = child(0);
      node->right = child(1);
      node->shape = source.op == Op::kAnd ? Shape::kAnd : Shape::kOr;
      return;
    case Op::kTest:
      node->left = child(1);
      if (node->id != kNoBuiltin && IsTestOfType(node->id) && source.operands[2] == 0 &&
          source.operands[3] == 0 && source.operands[4] == kNoNode && source.operands[5] == kNoNode) {
        node->shape = Shape::kTypeTest;
      }
      return;
    case Op::kCompare: {
      if (source.operands.size() != 3) return;
      const auto comparison = static_cast<Comparison>(source.operands[1]);
      const bool equals = comparison == Comparison::kEqual || comparison == Comparison::kNotEqual;
      if (!equals && comparison != Comparison::kIn && comparison != Comparison::kNotIn) return;
      const Node* text = child(equals ? 2 : 0);
      if (text->op != Op::kString) return;
      node->constant = text->constant;
      node->left = child(equals ? 0 : 2);
      node->negated = comparison == Comparison::kNotEqual || comparison == Comparison::kNotIn;
      node->shape = equals ? Shape::kEquals : Shape::kHolds;
      return;
    }
    case Op::kItem:
    case Op::kAttribute: {
      const Node* object = child(0);
      const bool named = source.op == Op::kItem && child(1)->op == Op::kString;
      if (named) node->constant = child(1)->constant;
      if (object->shape != Shape::kLocal || (source.op == Op::kItem && !named)) return;
      node->slot = object->slot;
      const std::string_view name = node->constant.view();
      if (named || node->id == static_cast<uint32_t>(AttributeId::none)) {
        node->shape = Shape::kMember;
        node->only_member = FindAttribute(name) == AttributeId::none && !name.starts_with('_');
        return;
      }
      constexpr std::string_view kLoopNames[] = {"index0", "index", "first", "last"};
      if (std::find(std::begin(kLoopNames), std::end(kLoopNames), name) != std::end(kLoopNames))
        node->shape = Shape::kLoopMember;
      return;
    }
    default:
      return;
  }
}

// {{ a + b + c }}: an output of texts, which are written without being put together first.
void Executable::FindSums() {
  const auto is_sum = [](const Node& node) {
    return node.op == Op::kBinary && node.operands[0] == static_cast<uint32_t>(Arithmetic::kAdd);
  };
  std::vector<std::pair<size_t, size_t>> ranges(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op != Op::kOutput || !is_sum(*nodes_[i].left)) continue;
    const size_t begin = parts_.size();
    const Node* sum = nodes_[i].left;
    for (; is_sum(*sum); sum = &nodes_[sum->operands[1]]) parts_.push_back({&nodes_[sum->operands[2]], sum});
    parts_.push_back({sum, nullptr});
    std::reverse(parts_.begin() + static_cast<ptrdiff_t>(begin), parts_.end());
    ranges[i] = {begin, parts_.size()};
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (ranges[i].second == 0) continue;
    nodes_[i].shape = Shape::kSum;
    nodes_[i].parts = parts_.data() + ranges[i].first;
    nodes_[i].parts_end = parts_.data() + ranges[i].second;
  }
}

// Nodes of {% if add_generation_prompt is not defined %}{% set add_generation_prompt = false %}{% endif %},
// which are the same with every value that a caller gives: the condition, and what runs only where none was
// given.
std::vector<bool> Executable::FindWhereGiven() const {
  std::vector<bool> given(program_.nodes.size(), false);
  const auto is_prompt = [&](const Node& node) {
    return node.op == Op::kLoad && node.constant.view() == kGenerationPrompt;
  };
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op != Op::kIf || nodes_[i].n_operands != 3 || nodes_[i].operands[2] != kNoNode) continue;
    const Node* condition = &nodes_[nodes_[i].operands[0]];
    const bool negated = condition->shape == Shape::kNot;
    if (negated) condition = condition->left;
    if (condition->shape != Shape::kTypeTest || !is_prompt(*condition->left)) continue;
    if (condition->constant.view() != (negated ? "defined" : "undefined")) continue;
    given[static_cast<size_t>(condition->left - nodes_.data())] = true;
    for (std::vector<uint32_t> pending{nodes_[i].operands[1]}; !pending.empty();) {
      const Node& node = nodes_[pending.back()];
      pending.pop_back();
      if (node.op == Op::kSequence)
        pending.insert(pending.end(), node.operands, node.operands + node.n_operands);
      if (node.op == Op::kSet && nodes_[node.operands[0]].op == Op::kTargetName)
        given[node.operands[0]] = true;
    }
  }
  return given;
}

// What stands before the first statement that may read or set add_generation_prompt is the same with another
// value of it. Resolving the variable at the start of the root is no reading.
void Executable::FindPrompt() {
  std::vector<uint32_t> pending{program_.nodes[program_.root].operands[1]};
  while (!pending.empty()) {
    const uint32_t index = pending.back();
    pending.pop_back();
    const ProgramNode& node = program_.nodes[index];
    if (node.op != Op::kSequence) {
      statements_.push_back(index);
      continue;
    }
    ++n_sequences_;
    pending.insert(pending.end(), node.operands.rbegin(), node.operands.rend());
  }
  std::vector<bool> resolves(program_.nodes.size(), false);
  std::vector<uint32_t> slots;
  for (const uint32_t index : statements_) {
    const ProgramNode& node = program_.nodes[index];
    if (node.op != Op::kResolve || program_.strings[node.operands[1]] != kGenerationPrompt) continue;
    resolves[index] = true;
    slots.push_back(node.operands[0]);
  }
  const std::vector<bool> given = FindWhereGiven();
  std::vector<bool> member(program_.nodes.size(), false);
  uint32_t first = kNoNode;
  for (uint32_t index = 0; index < program_.nodes.size(); ++index) {
    const ProgramNode& node = program_.nodes[index];
    const auto is_prompt = [&](uint32_t text) {
      return text != kNoNode && program_.strings[text] == kGenerationPrompt;
    };
    bool touches = false;
    if (node.op == Op::kLoad) touches = is_prompt(node.operands[2]);
    if (node.op == Op::kResolve) touches = !resolves[index] && is_prompt(node.operands[1]);
    if (node.op == Op::kTargetName) {
      touches = is_prompt(node.operands[1]) ||
                std::find(slots.begin(), slots.end(), node.operands[0]) != slots.end();
    }
    if (node.op == Op::kAlias)
      touches = std::find(slots.begin(), slots.end(), node.operands[2]) != slots.end();
    if (node.op == Op::kClear) {
      touches = std::any_of(node.operands.begin(), node.operands.end(), [&](uint32_t slot) {
        return std::find(slots.begin(), slots.end(), slot) != slots.end();
      });
    }
    if (touches && !given[index]) first = std::min(first, index);
    if (node.op == Op::kAttribute) member[node.operands[0]] = true;
  }
  // A node stands before its user: the statement that holds it is this one or an earlier one.
  prompt_at_ = 0;
  while (prompt_at_ < statements_.size() && (first == kNoNode || statements_[prompt_at_] < first))
    ++prompt_at_;
  for (uint32_t index = 0; index < program_.nodes.size(); ++index) {
    const ProgramNode& node = program_.nodes[index];
    if (node.op == Op::kLoad && program_.strings[node.operands[2]] == "loop" && !member[index])
      keeps_loops_ = true;
  }
}

// ---- running it ----

namespace {

using Step = IteratorObject::Step;

enum class Flow : uint8_t { kNormal, kBreak, kContinue, kError };

// Variables of one run of a unit.
struct Activation {
  Activation* parent;
  Value* slots;
};

struct Recursion {
  uint32_t unit;
  Activation* outer;
};

}  // namespace

class Interpreter {
 public:
  using Node = Executable::Node;
  using Shape = Executable::Shape;

  Interpreter(const Executable& executable, Runtime& runtime, const std::string& clock)
      : executable_(executable), runtime_(runtime), clock_(clock) {}

  // `prompt`: in place of add_generation_prompt; missing: what the variables say.
  Result<Execution> Run(const Request& request, const Value& prompt) {
    Bind(request.variables, prompt);
    text_.Reserve(std::max(kFirstOutput, request.n_bytes_likely), kFirstOutput / 64);
    const Node& root = At(executable_.program_.root);
    active_ = NewActivation(nullptr, root.operands[0]);
    const bool may_ask = request.asks_prompt && executable_.prompt_at_ < executable_.statements_.size();
    Snapshot snapshot;
    bool good = runtime_.Work(executable_.n_sequences_);
    for (size_t i = 0; good && i < executable_.statements_.size(); ++i) {
      if (may_ask && i == executable_.prompt_at_) Save(root.operands[0], &snapshot);
      good = Statement(At(executable_.statements_[i])) != Flow::kError;
    }
    if (!good || !CheckJoin()) return Fail(runtime_.error());
    if (may_ask) execution_.prompt_writes = PromptWrites(request, snapshot);
    execution_.output = std::move(text_);
    return std::move(execution_);
  }

 private:
  // The state of a run between two statements of the root.
  struct Snapshot {
    Value* slots = nullptr;
    Value* context = nullptr;
    uint32_t n_slots = 0;
    Heap::Namespaces namespaces;
    size_t n_output = 0;
    uint64_t n_steps = 0;
    bool complete = false;  // nothing else that changes is alive
  };
  void Save(uint32_t n_slots, Snapshot* snapshot) {
    snapshot->n_slots = n_slots;
    snapshot->slots = Copy(active_->slots, n_slots);
    snapshot->context = Copy(context_, executable_.context_names_.size());
    snapshot->namespaces = heap().SaveNamespaces();
    snapshot->n_output = text_.size();
    snapshot->n_steps = runtime_.steps();
    snapshot->complete = !heap().has_changing() && !executable_.keeps_loops_;
  }
  Value* Copy(const Value* values, size_t n) {
    auto* copy = static_cast<Value*>(heap().Allocate(n * sizeof(Value)));
    std::uninitialized_copy(values, values + n, copy);
    return copy;
  }

  // Whether add_generation_prompt being false gives another text. Runs what follows the snapshot once more.
  bool PromptWrites(const Request& request, const Snapshot& snapshot) {
    if (!snapshot.complete) {
      Runtime again(runtime_.budgets());
      const auto without =
          Interpreter(executable_, again, clock_).Run({request.variables, clock_}, Value::Bool(false));
      if (without) Compare(text_.text(), without->output.text(), 0);
      return !without || execution_.prompt.has_value();
    }
    heap().RestoreNamespaces(snapshot.namespaces);
    std::copy(snapshot.slots, snapshot.slots + snapshot.n_slots, active_->slots);
    context_ = snapshot.context;
    runtime_.Rewind(snapshot.n_steps);
    for (size_t i = 0; i < executable_.context_names_.size(); ++i) {
      if (executable_.context_names_[i] == kGenerationPrompt) context_[i] = Value::Bool(false);
    }
    for (size_t i = 0; i < executable_.prompt_at_; ++i) {
      const Node& node = At(executable_.statements_[i]);
      if (node.op == Op::kResolve && executable_.context_names_[node.id] == kGenerationPrompt)
        active_->slots[node.operands[0]] = Value::Bool(false);
    }
    // Behind the text, which comes off again.
    const size_t n_text = text_.size();
    base_ = n_text - snapshot.n_output;
    bool good = true;
    for (size_t i = executable_.prompt_at_; good && i < executable_.statements_.size(); ++i)
      good = Statement(At(executable_.statements_[i])) != Flow::kError;
    good = good && foreign_.empty();
    const std::string_view both = text_.text();
    if (good)
      Compare(both.substr(snapshot.n_output, n_text - snapshot.n_output), both.substr(n_text),
              snapshot.n_output);
    text_.Truncate(n_text);
    return !good || execution_.prompt.has_value();
  }

  // Notes where `with`, which begins at byte `begin` of the text, differs from `without`.
  void Compare(std::string_view with, std::string_view without, uint64_t begin) {
    if (with == without) return;
    const auto is_inside = [](std::string_view text, size_t at) {
      return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U;
    };
    const size_t shortest = std::min(with.size(), without.size());
    size_t head = 0;
    while (head < shortest && with[head] == without[head]) ++head;
    while (is_inside(with, head) || is_inside(without, head)) --head;
    size_t tail = 0;
    while (tail < shortest - head && with[with.size() - 1 - tail] == without[without.size() - 1 - tail])
      ++tail;
    while (is_inside(with, with.size() - tail) || is_inside(without, without.size() - tail)) --tail;
    execution_.prompt = {begin + head, begin + with.size() - tail, without.size() - tail - head};
  }

  void Bind(const Variables& variables, const Value& prompt) {
    const size_t n = executable_.context_names_.size();
    context_ = Copy(executable_.context_defaults_.data(), n);
    for (size_t i = 0; i < n; ++i) {
      const std::string_view name = executable_.context_names_[i];
      for (const auto& [held, value] : variables) {
        if (!SameBytes(held, name)) continue;
        context_[i] = value;
        break;
      }
      if (!prompt.is_missing() && name == kGenerationPrompt) context_[i] = prompt;
    }
  }

  // The loop's own filter, `for x in y if test`: a generator that reads what the loop has assigned so far.
  class LoopFilter final : public IteratorObject {
   public:
    LoopFilter(Interpreter& interpreter, const Node& unit, Activation* outer, Cursor source)
        : interpreter_(&interpreter), unit_(&unit), outer_(outer), source_(source) {}
    Step Next(Value* value) override { return interpreter_->NextFiltered(this, value); }

   private:
    friend class Interpreter;
    Interpreter* interpreter_;
    const Node* unit_;
    Activation* outer_;
    Activation* own_ = nullptr;
    Cursor source_;
  };

  // The reference joins what was written at the end, and fails then on what is no text.
  bool CheckJoin() {
    if (foreign_.empty()) return true;
    runtime_.RaiseType("sequence item: expected str instance, " + std::string(foreign_) + " found");
    return false;
  }

  // Counts nesting while it lives.
  struct Depth {
    explicit Depth(uint64_t* depth) : depth_(depth) { ++*depth_; }
    ~Depth() { --*depth_; }
    uint64_t* depth_;
  };

  const Node& At(uint32_t index) const { return executable_.nodes_[index]; }
  const std::string& Text(uint32_t index) const { return executable_.program_.strings[index]; }
  Heap& heap() { return runtime_.heap(); }

  Activation* NewActivation(Activation* parent, uint32_t n_slots) {
    auto* slots = static_cast<Value*>(heap().Allocate(n_slots * sizeof(Value)));
    for (uint32_t i = 0; i < n_slots; ++i) ::new (slots + i) Value();
    return heap().New<Activation>(parent, slots);
  }
  Value& Slot(uint32_t hops, uint32_t slot) {
    Activation* activation = active_;
    for (; hops > 0; --hops) activation = activation->parent;
    return activation->slots[slot];
  }

  bool Enter(const Node& node) {
    if (depth_ <= runtime_.budgets().max_depth && runtime_.Work(1)) return true;
    if (!runtime_.failed()) runtime_.OverBudget("evaluations nested too deep");
    runtime_.SetPlace(node.place);
    return false;
  }
  Flow FailAt(const Node& node) {
    runtime_.SetPlace(node.place);
    return Flow::kError;
  }

  // ---- statements ----
  bool CheckOutput(const Node& node) {
    if (text_.size() - base_ <= runtime_.budgets().max_output_bytes) return true;
    runtime_.OverBudget("the output");
    runtime_.SetPlace(node.place);
    return false;
  }
  // A concatenation, written without being put together first.
  [[gnu::noinline]] Flow WriteConcat(const Node& output) {
    const Node& node = *output.left;
    const Depth depth(&depth_);
    if (!Enter(node)) return Flow::kError;
    ShortVector<Value, 8> parts;
    if (!EvaluateAll(node.operands, node.n_operands, &parts)) return FailAt(node);
    if (std::any_of(parts.begin(), parts.end(), [](const Value& part) { return part.is_markup(); }))
      return Emit(Joined(parts), output);
    for (const Value& part : parts) {
      if (!runtime_.AppendText(part, &text_) || !CheckOutput(node)) return FailAt(node);
    }
    return Flow::kNormal;
  }
  static bool IsPlain(const Value& value) { return value.is_string() && !value.is_markup(); }
  // Appends the parts while all of them are plain texts; else takes them back and writes their sum.
  Flow WriteSum(const Node& output) {
    const Depth depth(&depth_);
    if (!Enter(output)) return Flow::kError;
    const size_t begin = text_.size();
    for (const auto* part = output.parts; part != output.parts_end; ++part) {
      runtime_.Count(1);
      const Value value = Evaluate(*part->expression);
      if (value.failed()) return FailAt(output);
      if (!IsPlain(value)) return WriteOtherSum(output, part, value, begin);
      AppendText(&text_, runtime_.Flat(value));
      if (!CheckOutput(output)) return Flow::kError;
    }
    return Flow::kNormal;
  }
  // `part` is no plain text; those before it were written from `begin` on.
  [[gnu::noinline]] Flow WriteOtherSum(const Node& output, const Executable::Part* part, Value value,
                                       size_t begin) {
    Value sum = value;
    if (part != output.parts) {
      sum = heap().String(text_, begin);
      text_.Truncate(begin);
      sum = AddPart(*part, sum, value);
    }
    while (!sum.failed() && ++part != output.parts_end) {
      runtime_.Count(1);
      value = Evaluate(*part->expression);
      sum = value.failed() ? value : AddPart(*part, sum, value);
    }
    return Emit(sum, output);
  }
  Value AddPart(const Executable::Part& part, const Value& left, const Value& right) {
    const Value sum = Bounded(runtime_.Binary(Arithmetic::kAdd, left, right));
    if (sum.failed()) runtime_.SetPlace(part.sum->place);
    return sum;
  }

  Flow Emit(const Value& value, const Node& node) {
    if (value.is_string()) {
      AppendText(&text_, runtime_.Flat(value));
    } else if (value.failed() || !runtime_.AppendText(value, &text_)) {
      return FailAt(node);
    }
    return CheckOutput(node) ? Flow::kNormal : Flow::kError;
  }

  // Like Emit for what the reference writes without str().
  Flow EmitRaw(const Value& value, const Node& node) {
    if (value.failed()) return FailAt(node);
    if (value.is_string()) return Emit(value, node);
    if (foreign_.empty()) foreign_ = TypeName(value);
    return Flow::kNormal;
  }

  Flow Statement(uint32_t index) { return Statement(At(index)); }
  Flow Statement(const Node& statement) {
    const Depth depth(&depth_);
    for (const Node* node = &statement;;) {
      if (!Enter(*node)) return Flow::kError;
      switch (node->op) {
        case Op::kText:
          text_.Append(node->constant.view(), kTemplateOwner);
          return CheckOutput(*node) ? Flow::kNormal : Flow::kError;
        case Op::kOutput:
          if (node->shape == Shape::kSum) return WriteSum(*node);
          if (node->left->op == Op::kConcat) return WriteConcat(*node);
          return Emit(Evaluate(*node->left), *node);
        case Op::kSequence: {
          if (node->n_operands == 0) return Flow::kNormal;
          for (uint32_t i = 0; i + 1 < node->n_operands; ++i) {
            const Flow flow = Statement(*node->links[i]);
            if (flow != Flow::kNormal) return flow;
          }
          node = node->links[node->n_operands - 1];
          continue;
        }
        case Op::kIf: {
          bool failed = false;
          node = Branch(*node, &failed);
          if (node == nullptr) return failed ? Flow::kError : Flow::kNormal;
          continue;
        }
        case Op::kFor: {
          const Value iterable = Evaluate(*node->links[2]);
          return iterable.failed() ? Flow::kError : For(*node, iterable, 0, nullptr);
        }
        case Op::kSet: {
          const Node& target = *node->links[0];
          if (target.op != Op::kTargetName && !CheckNamespaces(node->operands[0])) return FailAt(*node);
          return Assign(target, Evaluate(*node->links[1])) ? Flow::kNormal : FailAt(*node);
        }
        case Op::kBreak:
          return Flow::kBreak;
        case Op::kContinue:
          return Flow::kContinue;
        case Op::kResolve:
          active_->slots[node->operands[0]] = context_[node->id];
          return Flow::kNormal;
        case Op::kAlias:
          active_->slots[node->operands[0]] = Slot(node->operands[1], node->operands[2]);
          return Flow::kNormal;
        case Op::kClear:
          for (uint32_t i = 0; i < node->n_operands; ++i)
            active_->slots[node->operands[i]] = Value::Missing();
          return Flow::kNormal;
        case Op::kDefault:
          return Default(*node);
        default:
          return RareStatement(*node);
      }
    }
  }

  // What an if runs; null: nothing, or a condition failed.
  const Node* Branch(const Node& node, bool* failed) {
    for (uint32_t i = 0; i + 1 < node.n_operands; i += 2) {
      const Answer condition = Ask(*node.links[i]);
      if (condition == Answer::kYes) return node.links[i + 1];
      if (condition == Answer::kFailed) {
        *failed = true;
        return nullptr;
      }
    }
    return node.links[node.n_operands - 1];
  }

  [[gnu::noinline]] Flow Default(const Node& node) {
    Value& slot = active_->slots[node.operands[0]];
    if (!slot.is_missing()) return Flow::kNormal;
    if (node.operands[2] == kNoNode) {
      const Value hint =
          heap().String("parameter '" + std::string(node.constant.view()) + "' was not provided");
      slot = heap().Undefined({UndefinedInfo::Kind::kHint, false, hint.view(), {}, {}});
      return Flow::kNormal;
    }
    const Value value = Evaluate(node.operands[2]);
    if (value.failed()) return Flow::kError;
    active_->slots[node.operands[0]] = value;
    return Flow::kNormal;
  }

  [[gnu::noinline]] Flow RareStatement(const Node& node) {
    switch (node.op) {
      case Op::kSetBlock: {
        Value value;
        const Flow flow = Capture(node.operands[1], &value);
        if (flow != Flow::kNormal) return flow;
        if (node.operands[2] != kNoNode) value = Filtered(value, node.operands[2]);
        return Assign(node.operands[0], value) ? Flow::kNormal : FailAt(node);
      }
      case Op::kFilterBlock: {
        Value value;
        const Flow flow = Capture(node.operands[0], &value);
        return flow != Flow::kNormal ? flow : EmitRaw(Filtered(value, node.operands[1]), node);
      }
      case Op::kCallBlock: {
        const Value caller = Evaluate(node.operands[0]);
        return caller.failed() ? Flow::kError : EmitRaw(Call(At(node.operands[1]), &caller), node);
      }
      case Op::kGeneration: {
        const Value macro = Evaluate(node.operands[0]);
        if (macro.failed()) return Flow::kError;
        const uint64_t begin = text_.size();
        const Flow flow = Emit(CallMacro(macro.object<MacroObject>(), {}), node);
        if (captures_ == 0) execution_.generations.emplace_back(begin, text_.size());
        return flow;
      }
      case Op::kRecursive: {
        const Value iterable = Evaluate(node.operands[0]);
        if (iterable.failed()) return Flow::kError;
        const auto* recursion = heap().New<Recursion>(node.operands[1], active_);
        return Emit(RunRecursion(*recursion, iterable, 0), node);
      }
      default:
        runtime_.Refuse(ErrorCode::kTplIr, "an expression where a statement is expected");
        return Flow::kError;
    }
  }

  // What `run` writes, as a text: behind the text of the rendering, from which it comes off again.
  template <typename Run>
  Flow CaptureOf(Run run, Value* value) {
    const size_t outer_base = base_;
    const std::string_view outer_foreign = foreign_;
    const size_t begin = text_.size();
    base_ = begin;
    foreign_ = {};
    captures_ += 1;
    const Flow flow = run();
    const bool good = flow == Flow::kNormal && CheckJoin();
    *value =
        good && runtime_.MayAllocate(text_.size() - begin) ? heap().String(text_, begin) : Value::Error();
    text_.Truncate(begin);
    captures_ -= 1;
    base_ = outer_base;
    foreign_ = outer_foreign;
    return flow == Flow::kNormal && value->failed() ? Flow::kError : flow;
  }
  [[gnu::noinline]] Flow Capture(uint32_t body, Value* value) {
    return CaptureOf([&] { return Statement(body); }, value);
  }

  Value Filtered(const Value& captured, uint32_t filter) {
    const Value outer = captured_;
    captured_ = captured;
    const Value value = Evaluate(filter);
    captured_ = outer;
    return value;
  }

  // ---- loops ----
  [[gnu::noinline]] Flow For(const Node& node, const Value& iterable, int64_t depth,
                             const Recursion* recursion) {
    Value source = iterable;
    if (node.operands[3] != kNoNode) {
      const auto cursor = runtime_.Iterate(iterable);
      if (!cursor) return FailAt(node);
      Activation* outer = node.operands[7] == 1 ? active_->parent : active_;
      void* memory = heap().Allocate(sizeof(LoopFilter));
      IteratorObject* filter = ::new (memory) LoopFilter(*this, At(node.operands[3]), outer, *cursor);
      source = Value::Of(ValueKind::kIterator, filter);
    }
    auto cursor = runtime_.Iterate(source);
    if (!cursor) return FailAt(node);
    LoopObject* loop = nullptr;
    if (node.operands[0] != kNoNode) {
      loop = heap().New<LoopObject>();
      loop->cursor = *cursor;
      loop->iterable = source;
      loop->depth0 = depth;
      loop->recursion = recursion;
    }
    bool completed = false;
    for (;;) {
      Value item;
      const Step step = loop != nullptr ? runtime_.NextOfLoop(loop, &item) : runtime_.Next(&*cursor, &item);
      if (step == Step::kError) return FailAt(node);
      if (step == Step::kDone) break;
      if (!Assign(*node.links[1], item)) return FailAt(node);
      if (loop != nullptr) active_->slots[node.operands[0]] = Value::Of(ValueKind::kLoop, loop);
      const Flow flow = Statement(*node.links[4]);
      if (flow == Flow::kError) return flow;
      if (flow == Flow::kBreak) break;
      // The reference notes a pass at its end only: `else` runs where every pass was cut short.
      if (flow == Flow::kNormal) completed = true;
    }
    if (node.operands[5] != kNoNode && Statement(node.operands[5]) == Flow::kError) return Flow::kError;
    if (completed || node.operands[6] == kNoNode) return Flow::kNormal;
    return Statement(node.operands[6]);
  }

  Step NextFiltered(LoopFilter* filter, Value* value) {
    const Depth depth(&depth_);
    const Node& unit = *filter->unit_;
    if (!Enter(unit)) return Step::kError;
    Activation* outer = active_;
    const bool first = filter->own_ == nullptr;
    if (first) filter->own_ = NewActivation(filter->outer_, unit.operands[0]);
    active_ = filter->own_;
    Step result = first && Statement(unit.operands[1]) == Flow::kError ? Step::kError : Step::kValue;
    while (result == Step::kValue) {
      result = runtime_.Next(&filter->source_, value);
      if (result != Step::kValue) break;
      const Value test = Assign(unit.operands[2], *value) ? Evaluate(unit.operands[3]) : Value::Error();
      if (test.failed()) {
        result = Step::kError;
        break;
      }
      if (!Truth(test)) continue;
      // The reference's generator gives what it unpacked: a tuple, whatever it was before.
      *value = Unpacked(At(unit.operands[2]));
      break;
    }
    active_ = outer;
    return result;
  }

  // What the target holds now.
  Value Unpacked(const Node& target) {
    if (target.op == Op::kTargetName) return active_->slots[target.operands[0]];
    std::vector<Value> parts;
    for (uint32_t i = 0; i < target.n_operands; ++i) parts.push_back(Unpacked(At(target.operands[i])));
    return heap().Tuple(parts);
  }

  Value RunRecursion(const Recursion& recursion, const Value& iterable, int64_t depth) {
    const Node& unit = At(recursion.unit);
    if (!EnterCall(unit)) return Value::Error();
    Activation* outer = active_;
    active_ = NewActivation(recursion.outer, unit.operands[0]);
    Value result = Value::Error();
    (void)CaptureOf(
        [&] {
          // A loop's break ends inside of it.
          return For(At(unit.operands[1]), iterable, depth, &recursion) == Flow::kError ? Flow::kError
                                                                                        : Flow::kNormal;
        },
        &result);
    active_ = outer;
    --n_calls_;
    return result;
  }

  bool EnterCall(const Node& node) {
    if (n_calls_ < runtime_.budgets().max_calls) {
      ++n_calls_;
      return true;
    }
    runtime_.OverBudget("macros or loops that call each other too deep");
    runtime_.SetPlace(node.place);
    return false;
  }

  // ---- assignment ----
  bool CheckNamespaces(uint32_t index) {
    const Node& node = At(index);
    if (node.op == Op::kTargetAttribute) {
      if (Slot(node.operands[0], node.operands[1]).kind() == ValueKind::kNamespace) return true;
      runtime_.Raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      return false;
    }
    if (node.op != Op::kTargetTuple) return true;
    for (uint32_t i = 0; i < node.n_operands; ++i) {
      if (!CheckNamespaces(node.operands[i])) return false;
    }
    return true;
  }

  bool Assign(uint32_t index, const Value& value) { return Assign(At(index), value); }
  bool Assign(const Node& node, const Value& value) {
    if (value.failed()) return false;
    if (node.op != Op::kTargetName) return AssignParts(node, value);
    active_->slots[node.operands[0]] = value;
    if (node.id != UINT32_MAX) context_[node.id] = value;
    return true;
  }
  [[gnu::noinline]] bool AssignParts(const Node& node, const Value& value) {
    if (node.op == Op::kTargetAttribute) return AssignAttribute(node, value);
    if (!Runtime::IsIterable(value)) {
      runtime_.RaiseType("cannot unpack non-iterable " + std::string(TypeName(value)) + " object");
      return false;
    }
    std::vector<Value> parts;
    auto cursor = runtime_.Iterate(value);
    while (parts.size() <= node.n_operands) {
      Value part;
      const Step step = runtime_.Next(&*cursor, &part);
      if (step == Step::kError) return false;
      if (step == Step::kDone) break;
      parts.push_back(part);
    }
    if (parts.size() != node.n_operands) {
      const std::string expected = "(expected " + std::to_string(node.n_operands);
      runtime_.Raise("ValueError", parts.size() > node.n_operands
                                       ? "too many values to unpack " + expected + ")"
                                       : "not enough values to unpack " + expected + ", got " +
                                             std::to_string(parts.size()) + ")");
      return false;
    }
    for (uint32_t i = 0; i < node.n_operands; ++i) {
      if (!Assign(node.operands[i], parts[i])) return false;
    }
    return true;
  }

  bool AssignAttribute(const Node& node, const Value& value) {
    const Value target = Slot(node.operands[0], node.operands[1]);
    if (target.kind() != ValueKind::kNamespace) {
      // Reached by a set block only, where the reference does not check first.
      if (target.kind() == ValueKind::kDict) {
        runtime_.Refuse(ErrorCode::kUnsupported, "a set block that changes a dict");
      } else {
        runtime_.RaiseType("'" + std::string(TypeName(target)) + "' object does not support item assignment");
      }
      return false;
    }
    if (node.constant.view().starts_with('_')) {
      runtime_.Raise("SecurityError",
                     "Chat templates cannot store underscore-prefixed attributes on a namespace");
      return false;
    }
    auto& object = target.object<NamespaceObject>();
    const uint32_t nested = chat::Depth(value);
    // A namespace inside itself has no depth; only its repr would ask for one.
    if (value.kind() != ValueKind::kNamespace) object.depth = std::max(object.depth, nested + 1);
    if (nested > kMaxValueDepth || object.depth > kMaxValueDepth) {
      runtime_.OverBudget("values nested too deep");
      return false;
    }
    for (auto& [key, member] : *object.members) {
      if (key.view() != node.constant.view()) continue;
      member = value;
      return true;
    }
    object.members->emplace_back(node.constant, value);
    return true;
  }

  // ---- expressions ----
  Value Evaluate(uint32_t index) { return Evaluate(At(index)); }
  Value Evaluate(const Node& node) {
    switch (node.shape) {
      case Shape::kLiteral:
        runtime_.Count(1);
        return node.constant;
      case Shape::kLocal: {
        const Value& value = active_->slots[node.slot];
        if (value.is_missing()) break;
        runtime_.Count(1);
        return value;
      }
      case Shape::kMember: {
        const Value& object = active_->slots[node.slot];
        if (object.kind() != ValueKind::kDict) break;
        const Value* found = Find(object.dict(), node.constant.view());
        if (found == nullptr && !node.only_member) break;
        runtime_.Count(3);
        return found != nullptr ? *found : runtime_.UndefinedElement(object, node.constant);
      }
      case Shape::kLoopMember: {
        const Value& object = active_->slots[node.slot];
        if (object.kind() != ValueKind::kLoop) break;
        runtime_.Count(3);
        const Value value =
            runtime_.LoopProperty(&object.object<LoopObject>(), static_cast<AttributeId>(node.id));
        return value.failed() ? FailedAt(node) : value;
      }
      default:
        break;
    }
    return EvaluateOther(node);
  }
  [[gnu::noinline]] Value EvaluateOther(const Node& node) {
    const Depth depth(&depth_);
    if (!Enter(node)) return Value::Error();
    const Value value = Compute(node);
    if (value.failed()) return FailedAt(node);
    return value;
  }

  // Whether an expression is true: what a condition asks, without making a value of it.
  enum class Answer : uint8_t { kNo, kYes, kFailed };
  static Answer AnswerOf(bool yes) { return yes ? Answer::kYes : Answer::kNo; }
  static Value ValueOf(Answer answer) {
    return answer == Answer::kFailed ? Value::Error() : Value::Bool(answer == Answer::kYes);
  }
  Answer Ask(const Node& node) {
    runtime_.Count(1);
    switch (node.shape) {
      case Shape::kEquals: {
        const Value left = Evaluate(*node.left);
        if (left.failed()) return Answer::kFailed;
        if (!left.is_string()) return AnswerOf(node.negated);
        const std::string_view literal = node.constant.view();
        const bool same = left.text().size == literal.size() && SameBytes(runtime_.View(left), literal);
        return AnswerOf(same != node.negated);
      }
      case Shape::kHolds: {
        const Value held = Evaluate(*node.left);
        if (held.failed()) return Answer::kFailed;
        if (held.kind() == ValueKind::kDict)
          return AnswerOf((Find(held.dict(), node.constant.view()) != nullptr) != node.negated);
        const Value found = runtime_.Contains(held, node.constant);
        if (!found.failed()) return AnswerOf((found.integer() != 0) != node.negated);
        runtime_.SetPlace(node.place);
        return Answer::kFailed;
      }
      case Shape::kTypeTest: {
        const Value value = Evaluate(*node.left);
        return value.failed() ? Answer::kFailed : AnswerOf(TestOfType(node.id, value));
      }
      case Shape::kNot: {
        const Answer answer = Ask(*node.left);
        return answer == Answer::kFailed ? answer : AnswerOf(answer == Answer::kNo);
      }
      case Shape::kAnd: {
        const Answer answer = Ask(*node.left);
        return answer == Answer::kYes ? Ask(*node.right) : answer;
      }
      case Shape::kOr: {
        const Answer answer = Ask(*node.left);
        return answer == Answer::kNo ? Ask(*node.right) : answer;
      }
      default: {
        const Value value = Evaluate(node);
        return value.failed() ? Answer::kFailed : AnswerOf(Truth(value));
      }
    }
  }
  Value FailedAt(const Node& node) {
    runtime_.SetPlace(node.place);
    return Value::Error();
  }

  Value Compute(const Node& node) {
    switch (node.shape) {
      case Shape::kEquals:
      case Shape::kHolds:
      case Shape::kTypeTest:
      case Shape::kNot:
        return ValueOf(Ask(node));
      default:
        break;
    }
    switch (node.op) {
      case Op::kLoad: {
        const Value& value = Slot(node.operands[0], node.operands[1]);
        return value.is_missing() ? runtime_.UndefinedName(node.constant) : value;
      }
      case Op::kAttribute: {
        const Value object = Evaluate(node.operands[0]);
        return object.failed() ? object : Attribute(node, object);
      }
      case Op::kItem: {
        const Value object = Evaluate(node.operands[0]);
        if (object.failed()) return object;
        const Node& name = At(node.operands[1]);
        if (name.op == Op::kString && object.kind() == ValueKind::kDict) {
          if (!runtime_.Work(1)) return Value::Error();
          if (const Value* found = Find(object.dict(), name.constant.view())) return *found;
          return runtime_.Item(object, name.constant);
        }
        const Value key = Evaluate(node.operands[1]);
        return key.failed() ? key : runtime_.Item(object, key);
      }
      case Op::kAnd:
      case Op::kOr: {
        const Value left = Evaluate(node.operands[0]);
        if (left.failed() || Truth(left) == (node.op == Op::kOr)) return left;
        return Evaluate(node.operands[1]);
      }
      case Op::kConditional:
        return Conditional(node);
      case Op::kBinary: {
        const Value left = Evaluate(node.operands[1]);
        if (left.failed()) return left;
        const Value right = Evaluate(node.operands[2]);
        return right.failed()
                   ? right
                   : Bounded(runtime_.Binary(static_cast<Arithmetic>(node.operands[0]), left, right));
      }
      case Op::kCompare:
        return Compare(node);
      case Op::kConcat:
        return Concat(node);
      case Op::kFilter:
      case Op::kTest:
        return FilterOrTest(node);
      case Op::kCall:
        return Call(node, nullptr);
      default:
        return RareExpression(node);
    }
  }

  [[gnu::noinline]] Value RareExpression(const Node& node) {
    switch (node.op) {
      case Op::kList:
      case Op::kTuple: {
        std::vector<Value> items;
        if (!EvaluateAll(node.operands, node.n_operands, &items)) return Value::Error();
        return Bounded(node.op == Op::kTuple ? heap().Tuple(items) : heap().List(items));
      }
      case Op::kDict:
        return Bounded(DictLiteral(node));
      case Op::kCaptured:
        return captured_;
      case Op::kSlice: {
        Value parts[4];
        for (uint32_t i = 0; i < 4; ++i) {
          if (node.operands[i] == kNoNode) continue;
          parts[i] = Evaluate(node.operands[i]);
          if (parts[i].failed()) return parts[i];
        }
        const Value sliced = runtime_.Slice(parts[0], parts[1], parts[2], parts[3]);
        // What the reference's optimizer cannot slice has no such member.
        if (!sliced.failed() || node.operands[4] == 0 || !runtime_.DropTypeError()) return sliced;
        if (node.operands[4] == 1) return runtime_.UndefinedElement(parts[0], Value::None());
        return runtime_.Refuse(ErrorCode::kUnsupported, "a slice of a constant that cannot be sliced");
      }
      case Op::kNegate:
      case Op::kPositive: {
        const Value value = Evaluate(node.operands[0]);
        return value.failed() ? value : runtime_.Negate(value, node.op == Op::kPositive);
      }
      case Op::kMacro:
        return Value::Of(ValueKind::kMacro, heap().New<MacroObject>(IndexOf(node), node.constant, active_));
      case Op::kRaise:
        return runtime_.Raise(Text(node.operands[0]), Text(node.operands[1]));
      default:
        return runtime_.Refuse(ErrorCode::kTplIr, "a statement where an expression is expected");
    }
  }

  uint32_t IndexOf(const Node& node) const {
    return static_cast<uint32_t>(&node - executable_.nodes_.data());
  }

  // Every container is made here or by a built-in from such: its depth bounds every recursion over values.
  Value Bounded(const Value& value) {
    if (chat::Depth(value) <= kMaxValueDepth) return value;
    return runtime_.OverBudget("values nested too deep");
  }

  template <typename Values>
  bool EvaluateAll(const uint32_t* nodes, uint32_t n, Values* values) {
    for (uint32_t i = 0; i < n; ++i) {
      const Value value = Evaluate(nodes[i]);
      if (value.failed()) return false;
      values->push_back(value);
    }
    return true;
  }

  Value Attribute(const Node& node, const Value& object) {
    const auto id = static_cast<AttributeId>(node.id);
    if (object.kind() == ValueKind::kDict && id == AttributeId::none) {
      if (const Value* found = Find(object.dict(), node.constant.view())) return *found;
    }
    return runtime_.Attribute(object, node.constant, id);
  }

  Value Conditional(const Node& node) {
    const Answer condition = Ask(At(node.operands[0]));
    if (condition == Answer::kFailed) return Value::Error();
    if (condition == Answer::kYes) return Evaluate(node.operands[1]);
    if (node.operands[2] != kNoNode) return Evaluate(node.operands[2]);
    const Value hint = heap().String("the inline if-expression on line " + std::to_string(node.place.line) +
                                     " evaluated to false and no else section was defined.");
    return heap().Undefined({UndefinedInfo::Kind::kHint, false, hint.view(), {}, {}});
  }

  [[gnu::noinline]] Value Compare(const Node& node) {
    Value left = Evaluate(node.operands[0]);
    Value result = left;
    for (uint32_t i = 1; i + 1 < node.n_operands && !left.failed(); i += 2) {
      const Value right = Evaluate(node.operands[i + 1]);
      if (right.failed()) return right;
      result = runtime_.Compare(static_cast<Comparison>(node.operands[i]), left, right);
      if (result.failed() || result.integer() == 0) return result;
      left = right;
    }
    return result;
  }

  [[gnu::noinline]] Value Concat(const Node& node) {
    ShortVector<Value, 8> parts;
    return EvaluateAll(node.operands, node.n_operands, &parts) ? Joined(parts) : Value::Error();
  }
  Value Joined(const ShortVector<Value, 8>& parts) {
    Value result = heap().Borrow("", kTemplateOwner);
    for (const Value& part : parts) {
      const Value text = runtime_.ToText(part);
      if (text.failed()) return text;
      result = runtime_.ConcatenateText(result, text);
      if (result.failed()) return result;
    }
    return result;
  }

  [[gnu::noinline]] Value DictLiteral(const Node& node) {
    std::vector<DictEntry> entries;
    for (uint32_t i = 0; i + 1 < node.n_operands; i += 2) {
      const Value key = Evaluate(node.operands[i]);
      if (key.failed()) return key;
      const Value value = Evaluate(node.operands[i + 1]);
      if (value.failed()) return value;
      if (!runtime_.CheckHashable(key) || !runtime_.Work(entries.size() / 8)) return Value::Error();
      const auto found =
          std::find_if(entries.begin(), entries.end(), [&](const DictEntry& e) { return Equal(e.key, key); });
      if (found != entries.end()) {
        found->value = value;
      } else {
        entries.push_back({key, value});
      }
    }
    return heap().Dict(entries);
  }

  // ---- calls ----
  // The end of a call's operands, from `position`.
  bool Arguments(const Node& node, uint32_t position, CallArguments* arguments) {
    const uint32_t n_positional = node.operands[position++];
    if (!EvaluateAll(node.operands + position, n_positional, &arguments->positional)) return false;
    position += n_positional;
    const uint32_t n_keywords = node.operands[position++];
    for (uint32_t i = 0; i < n_keywords; ++i, position += 2) {
      const Value value = Evaluate(node.operands[position + 1]);
      if (value.failed()) return false;
      arguments->keywords.push_back({Text(node.operands[position]), value});
    }
    if (node.operands[position] != kNoNode && !Unpack(node.operands[position], arguments)) return false;
    return node.operands[position + 1] == kNoNode || UnpackMapping(node.operands[position + 1], arguments);
  }

  bool Unpack(uint32_t index, CallArguments* arguments) {
    const Value value = Evaluate(index);
    if (value.failed()) return false;
    if (!Runtime::IsIterable(value)) {
      runtime_.RaiseType("argument after * must be an iterable, not " + std::string(TypeName(value)));
      return false;
    }
    return runtime_.Collect(value, &arguments->positional);
  }

  bool UnpackMapping(uint32_t index, CallArguments* arguments) {
    const Value value = Evaluate(index);
    if (value.failed()) return false;
    if (value.is_undefined()) {
      runtime_.RaiseUndefined(value);
      return false;
    }
    if (value.kind() != ValueKind::kDict) {
      runtime_.RaiseType("argument after ** must be a mapping, not " + std::string(TypeName(value)));
      return false;
    }
    for (const DictEntry& entry : value.dict()) {
      if (!entry.key.is_string()) {
        runtime_.RaiseType("keywords must be strings");
        return false;
      }
      const std::string_view name = entry.key.view();
      for (const auto& keyword : arguments->keywords) {
        if (keyword.name != name) continue;
        runtime_.RaiseType("got multiple values for keyword argument '" + std::string(name) + "'");
        return false;
      }
      arguments->keywords.push_back({name, entry.value});
    }
    return true;
  }

  [[gnu::noinline]] Value FilterOrTest(const Node& node) {
    const bool filter = node.op == Op::kFilter;
    const Value receiver = Evaluate(node.operands[1]);
    if (receiver.failed()) return receiver;
    CallArguments arguments;
    if (!Arguments(node, 2, &arguments)) return Value::Error();
    if (node.id == kNoBuiltin) {
      // The reference's stand-in takes no keywords.
      if (!arguments.keywords.empty()) {
        return runtime_.RaiseType("got an unexpected keyword argument '" +
                                  std::string(arguments.keywords[0].name) + "'");
      }
      return RaiseUnknown(runtime_, filter ? "filter" : "test", node.constant.view());
    }
    return Bounded(filter ? CallFilter(runtime_, node.id, receiver, arguments)
                          : CallTest(runtime_, node.id, receiver, arguments));
  }

  [[gnu::noinline]] Value Call(const Node& node, const Value* caller) {
    const Node& callee = At(node.operands[0]);
    CallArguments arguments;
    Value function;
    if (callee.op == Op::kAttribute) {
      const Value receiver = Evaluate(callee.operands[0]);
      if (receiver.failed()) return receiver;
      const auto id = static_cast<AttributeId>(callee.id);
      if (Runtime::HasSafeMethod(receiver, id)) {
        if (!Arguments(node, 1, &arguments)) return Value::Error();
        if (caller != nullptr) arguments.keywords.push_back({"caller", *caller});
        return Bounded(CallMethod(runtime_, id, receiver, arguments));
      }
      function = Attribute(callee, receiver);
    } else {
      function = Evaluate(node.operands[0]);
    }
    if (function.failed() || !Arguments(node, 1, &arguments)) return Value::Error();
    if (caller != nullptr) {
      for (const auto& keyword : arguments.keywords) {
        if (keyword.name == "caller")
          return runtime_.RaiseType("got multiple values for keyword argument 'caller'");
      }
      arguments.keywords.push_back({"caller", *caller});
    }
    return Bounded(CallValue(function, arguments));
  }

  Value CallValue(const Value& function, const CallArguments& arguments) {
    switch (function.kind()) {
      case ValueKind::kFunction:
        return CallFunction(runtime_, static_cast<uint32_t>(function.integer()), arguments, clock_);
      case ValueKind::kMacro:
        return CallMacro(function.object<MacroObject>(), arguments);
      case ValueKind::kMethod: {
        const auto& method = function.object<MethodObject>();
        return CallMethod(runtime_, static_cast<AttributeId>(method.id), method.receiver, arguments);
      }
      case ValueKind::kLoop: {
        const auto& loop = function.object<LoopObject>();
        Value iterable;
        if (!chat::Bind(runtime_, "__call__", arguments, {"iterable"}, 1, &iterable)) return Value::Error();
        if (loop.recursion == nullptr) {
          return runtime_.RaiseType("The loop must have the 'recursive' marker to be called recursively.");
        }
        return RunRecursion(*static_cast<const Recursion*>(loop.recursion), iterable, loop.depth0 + 1);
      }
      case ValueKind::kJoiner: {
        if (!chat::Bind(runtime_, "__call__", arguments, {}, 0, nullptr)) return Value::Error();
        auto& joiner = function.object<JoinerObject>();
        if (joiner.used) return joiner.separator;
        joiner.used = true;
        return heap().Borrow("", kTemplateOwner);
      }
      case ValueKind::kUndefined:
        return runtime_.RaiseUndefined(function);
      default:
        return runtime_.RaiseType("'" + std::string(TypeName(function)) + "' object is not callable");
    }
  }

  Value CallMacro(const MacroObject& macro, const CallArguments& arguments) {
    const Node& node = At(macro.node);
    const Node& unit = At(node.operands[1]);
    if (!EnterCall(node)) return Value::Error();
    Activation* own =
        NewActivation(static_cast<Activation*>(const_cast<void*>(macro.enclosing)), unit.operands[0]);
    Value result = Value::Error();
    if (BindMacro(node, arguments, own)) {
      Activation* outer = active_;
      active_ = own;
      if (Capture(unit.operands[1], &result) != Flow::kNormal) result = Value::Error();
      active_ = outer;
    }
    --n_calls_;
    return result;
  }

  // jinja2.runtime.Macro.__call__: positional arguments, then keywords, then the special ones.
  bool BindMacro(const Node& node, const CallArguments& arguments, Activation* own) {
    const uint32_t flags = node.operands[2];
    const uint32_t n_parameters = (node.n_operands - 6) / 2;
    auto keywords = arguments.keywords;
    const auto take = [&keywords](std::string_view name, Value* value) {
      const auto found =
          std::find_if(keywords.begin(), keywords.end(), [name](const auto& k) { return k.name == name; });
      if (found == keywords.end()) return false;
      *value = found->value;
      keywords.Erase(static_cast<size_t>(found - keywords.begin()));
      return true;
    };
    bool found_caller = false;
    for (uint32_t i = 0; i < n_parameters; ++i) {
      const std::string& name = Text(node.operands[6 + 2 * i]);
      if (name == "caller") found_caller = true;
      Value value;
      if (i < arguments.positional.size()) {
        value = arguments.positional[i];
        if (name == "caller" && arguments.positional.size() < n_parameters) found_caller = false;
      } else {
        (void)take(name, &value);
      }
      own->slots[node.operands[7 + 2 * i]] = value;
    }
    if ((flags & 4) != 0 && !found_caller) {
      Value caller = Value::None();
      (void)take("caller", &caller);
      if (caller.is_none()) {
        caller = heap().Undefined({UndefinedInfo::Kind::kHint, false, "No caller defined", {}, {}});
      }
      if (node.operands[3] == kNoNode) {
        runtime_.RaiseType("macro() takes fewer positional arguments");
        return false;
      }
      own->slots[node.operands[3]] = caller;
    }
    if ((flags & 1) != 0) {
      std::vector<DictEntry> entries;
      for (const auto& keyword : keywords)
        entries.push_back({heap().Borrow(keyword.name, kTemplateOwner), keyword.value});
      own->slots[node.operands[4]] = heap().Dict(entries);
    } else if (!keywords.empty()) {
      runtime_.RaiseType("macro '" + MacroName(node) + "' takes no keyword argument '" +
                         std::string(keywords[0].name) + "'");
      return false;
    }
    const size_t n_given = arguments.positional.size();
    if ((flags & 2) != 0) {
      std::vector<Value> rest;
      if (n_given > n_parameters)
        rest.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(n_parameters),
                    arguments.positional.end());
      own->slots[node.operands[5]] = heap().Tuple(rest);
    } else if (n_given > n_parameters) {
      runtime_.RaiseType("macro '" + MacroName(node) + "' takes not more than " +
                         std::to_string(n_parameters) + " argument(s)");
      return false;
    }
    return true;
  }

  static std::string MacroName(const Node& node) {
    return node.constant.is_string() ? std::string(node.constant.view()) : "None";
  }

  static constexpr size_t kFirstOutput = 4096;

  const Executable& executable_;
  Runtime& runtime_;
  const std::string& clock_;
  Execution execution_;
  TextBuilder text_;          // of the rendering, and behind it of the captures that are open
  size_t base_ = 0;           // where the innermost of them begins
  uint64_t captures_ = 0;     // how many are open
  std::string_view foreign_;  // the type of something written in the innermost that is no text
  Activation* active_ = nullptr;
  Value* context_ = nullptr;  // by the executable's number of the name
  Value captured_;
  uint64_t depth_ = 0;
  uint64_t n_calls_ = 0;
};

Result<Execution> Execute(const Executable& executable, Runtime& runtime, const Request& request) {
  return Interpreter(executable, runtime, request.clock).Run(request, Value::Missing());
}

}  // namespace slm::chat
