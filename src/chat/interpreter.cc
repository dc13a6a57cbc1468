#include "chat/interpreter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/builtins.h"

namespace slm::chat {

// ---- making a program ready ----

uint32_t Executable::ContextIndex(const std::string& name) {
  const auto found = std::find(context_names_.begin(), context_names_.end(), name);
  if (found != context_names_.end()) return static_cast<uint32_t>(found - context_names_.begin());
  context_names_.push_back(name);
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
      double number = 0;
      const char* end = text(0).data() + text(0).size();
      const auto [stop, error] = std::from_chars(text(0).data(), end, number);
      if (stop != end || text(0).empty() || error == std::errc::invalid_argument) {
        return Fail(ErrorCode::kTplIr, "a float literal that is none");
      }
      if (error == std::errc::result_out_of_range) {
        const size_t minus = text(0).find('-');
        number = minus == std::string::npos ? INFINITY : 0;
      }
      node->constant = Value::Float(number);
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
      node->plain_test = node->id != kNoBuiltin && IsTestOfType(node->id) && source.operands[2] == 0 &&
                         source.operands[3] == 0 && source.operands[4] == kNoNode &&
                         source.operands[5] == kNoNode;
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
  for (size_t i = 0; i < made->nodes_.size(); ++i) {
    const ProgramNode& source = made->program_.nodes[i];
    Node& node = made->nodes_[i];
    node.op = source.op;
    node.place = source.place;
    node.operands = made->operands_.data() + made->operands_.size();
    made->operands_.insert(made->operands_.end(), source.operands.begin(), source.operands.end());
    node.n_operands = static_cast<uint32_t>(source.operands.size());
    SLM_TRY(made->Prepare(source, &node));
    made->FindMember(source, &node);
  }
  made->FindPrompt();
  return std::shared_ptr<const Executable>(std::move(made));
}

// Most of what templates do is to read message.role or message['content'], and to compare it with a literal.
void Executable::FindMember(const ProgramNode& source, Node* node) const {
  if (source.op == Op::kCompare && source.operands.size() == 3 &&
      source.operands[1] <= static_cast<uint32_t>(Comparison::kNotEqual) &&
      nodes_[source.operands[2]].op == Op::kString) {
    node->constant = nodes_[source.operands[2]].constant;
    node->equals_literal = true;
    return;
  }
  const bool item = source.op == Op::kItem && nodes_[source.operands[1]].op == Op::kString;
  if (!item && !(source.op == Op::kAttribute && node->id == static_cast<uint32_t>(AttributeId::none))) return;
  const Node& object = nodes_[source.operands[0]];
  if (object.op != Op::kLoad || object.operands[0] != 0) return;
  if (item) node->constant = nodes_[source.operands[1]].constant;
  const std::string_view name = node->constant.view();
  node->local_member = true;
  node->only_member = FindAttribute(name) == AttributeId::none && !name.starts_with('_');
  node->slot = object.operands[1];
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
    if (touches) first = std::min(first, index);
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

  Interpreter(const Executable& executable, Runtime& runtime, const std::string& clock)
      : executable_(executable), runtime_(runtime), clock_(clock) {}

  // `prompt`: in place of add_generation_prompt; missing: what the variables say.
  Result<Execution> Run(const Variables& variables, const Value& prompt, bool asks_prompt) {
    Bind(variables, prompt);
    output_ = &root_;
    root_.text.Reserve(kFirstOutput, kFirstOutput / 64);
    const Node& root = At(executable_.program_.root);
    active_ = NewActivation(nullptr, root.operands[0]);
    const bool may_ask = asks_prompt && executable_.prompt_at_ < executable_.statements_.size();
    Snapshot snapshot;
    bool good = runtime_.Work(executable_.n_sequences_);
    for (size_t i = 0; good && i < executable_.statements_.size(); ++i) {
      if (may_ask && i == executable_.prompt_at_) Save(root.operands[0], &snapshot);
      good = Statement(executable_.statements_[i]) != Flow::kError;
    }
    if (!good || !CheckJoin(root_)) return Fail(runtime_.error());
    if (may_ask) execution_.prompt_writes = PromptWrites(variables, snapshot);
    execution_.output = std::move(root_.text);
    return std::move(execution_);
  }

 private:
  // The state of a run between two statements of the root.
  struct Snapshot {
    std::vector<Value> slots;
    std::vector<Value> context;
    Heap::Namespaces namespaces;
    size_t n_output = 0;
    uint64_t n_steps = 0;
    bool complete = false;  // nothing else that changes is alive
  };
  void Save(uint32_t n_slots, Snapshot* snapshot) {
    snapshot->slots.assign(active_->slots, active_->slots + n_slots);
    snapshot->context = context_;
    snapshot->namespaces = heap().SaveNamespaces();
    snapshot->n_output = root_.text.size();
    snapshot->n_steps = runtime_.steps();
    snapshot->complete = !heap().has_changing() && !executable_.keeps_loops_;
  }

  // Whether add_generation_prompt being false gives another text. Runs what follows the snapshot once more.
  bool PromptWrites(const Variables& variables, const Snapshot& snapshot) {
    if (!snapshot.complete) {
      Runtime again(runtime_.budgets());
      const auto without = Interpreter(executable_, again, clock_).Run(variables, Value::Bool(false), false);
      return !without || without->output.text() != root_.text.text();
    }
    heap().RestoreNamespaces(snapshot.namespaces);
    std::copy(snapshot.slots.begin(), snapshot.slots.end(), active_->slots);
    context_ = snapshot.context;
    runtime_.Rewind(snapshot.n_steps);
    for (size_t i = 0; i < context_.size(); ++i) {
      if (executable_.context_names_[i] == kGenerationPrompt) context_[i] = Value::Bool(false);
    }
    for (size_t i = 0; i < executable_.prompt_at_; ++i) {
      const Node& node = At(executable_.statements_[i]);
      if (node.op == Op::kResolve && executable_.context_names_[node.id] == kGenerationPrompt)
        active_->slots[node.operands[0]] = Value::Bool(false);
    }
    Sink without;
    output_ = &without;
    for (size_t i = executable_.prompt_at_; i < executable_.statements_.size(); ++i) {
      if (Statement(executable_.statements_[i]) == Flow::kError) return true;
    }
    return !without.foreign.empty() ||
           std::string_view(root_.text.text()).substr(snapshot.n_output) != without.text.text();
  }

  void Bind(const Variables& variables, const Value& prompt) {
    for (const std::string& name : executable_.context_names_) {
      const auto found =
          std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
      if (found != variables.end()) {
        context_.push_back(found->second);
      } else {
        const uint32_t function = FunctionId(name);
        context_.push_back(function == kNoFunction ? Value::Missing() : Value::Function(function));
      }
      if (!prompt.is_missing() && name == kGenerationPrompt) context_.back() = prompt;
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

  // What is written, and the type of something in it that is no text: the reference joins at the end and
  // fails then.
  struct Sink {
    TextBuilder text;
    std::string_view foreign;
  };
  bool CheckJoin(const Sink& sink) {
    if (sink.foreign.empty()) return true;
    runtime_.RaiseType("sequence item: expected str instance, " + std::string(sink.foreign) + " found");
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
    if (output_->text.size() <= runtime_.budgets().max_output_bytes) return true;
    runtime_.OverBudget("the output");
    runtime_.SetPlace(node.place);
    return false;
  }
  // A text, or the sum or concatenation of several, written without being put together first.
  [[gnu::noinline]] Flow Write(const Node& output) {
    const Node& node = At(output.operands[0]);
    if (node.op == Op::kBinary && node.operands[0] == static_cast<uint32_t>(Arithmetic::kAdd)) {
      const Depth depth(&depth_);
      const size_t begin = output_->text.size();
      const Value rest = WriteSum(node, begin);
      if (!rest.is_missing()) return Emit(rest, output);
      return CheckOutput(output) ? Flow::kNormal : Flow::kError;
    }
    if (node.op == Op::kConcat) {
      const Depth depth(&depth_);
      if (!Enter(node)) return Flow::kError;
      ShortVector<Value, 8> parts;
      if (!EvaluateAll(node.operands, node.n_operands, &parts)) return FailAt(node);
      if (std::any_of(parts.begin(), parts.end(), [](const Value& part) { return part.is_markup(); }))
        return Emit(Joined(parts), output);
      for (const Value& part : parts) {
        if (!runtime_.AppendText(part, &output_->text) || !CheckOutput(node)) return FailAt(node);
      }
      return Flow::kNormal;
    }
    return Emit(Evaluate(output.operands[0]), output);
  }
  bool Append(const Value& text, const Node& node) {
    AppendText(&output_->text, runtime_.Flat(text));
    return CheckOutput(node);
  }
  static bool IsPlain(const Value& value) { return value.is_string() && !value.is_markup(); }
  // Appends the sum's parts while all of them are plain texts, and returns missing; else takes them back from
  // `begin` on and returns the sum.
  Value WriteSum(const Node& sum, size_t begin) {
    const Depth depth(&depth_);
    if (!Enter(sum)) return Value::Error();
    const Node& left = At(sum.operands[1]);
    Value value;
    if (left.op == Op::kBinary && left.operands[0] == static_cast<uint32_t>(Arithmetic::kAdd)) {
      value = WriteSum(left, begin);
    } else {
      value = Evaluate(sum.operands[1]);
      if (IsPlain(value)) value = Append(value, sum) ? Value::Missing() : Value::Error();
    }
    if (value.failed()) return value;
    const Value right = Evaluate(sum.operands[2]);
    if (right.failed()) return right;
    if (value.is_missing()) {
      if (IsPlain(right)) return Append(right, sum) ? Value::Missing() : Value::Error();
      value = heap().String(output_->text, begin);
      output_->text.Truncate(begin);
    }
    const Value result = Bounded(runtime_.Binary(Arithmetic::kAdd, value, right));
    if (result.failed()) runtime_.SetPlace(sum.place);
    return result;
  }

  Flow Emit(const Value& value, const Node& node) {
    if (value.failed() || !runtime_.AppendText(value, &output_->text)) return FailAt(node);
    return CheckOutput(node) ? Flow::kNormal : Flow::kError;
  }

  // Like Emit for what the reference writes without str().
  Flow EmitRaw(const Value& value, const Node& node) {
    if (value.failed()) return FailAt(node);
    if (value.is_string()) return Emit(value, node);
    if (output_->foreign.empty()) output_->foreign = TypeName(value);
    return Flow::kNormal;
  }

  Flow Statement(uint32_t index) {
    const Node& node = At(index);
    const Depth depth(&depth_);
    if (!Enter(node)) return Flow::kError;
    switch (node.op) {
      case Op::kText:
        output_->text.Append(node.constant.view(), kTemplateOwner);
        return CheckOutput(node) ? Flow::kNormal : Flow::kError;
      case Op::kOutput:
        return Write(node);
      case Op::kSequence:
        for (uint32_t i = 0; i < node.n_operands; ++i) {
          const Flow flow = Statement(node.operands[i]);
          if (flow != Flow::kNormal) return flow;
        }
        return Flow::kNormal;
      case Op::kIf:
        return If(node);
      case Op::kFor: {
        const Value iterable = Evaluate(node.operands[2]);
        return iterable.failed() ? Flow::kError : For(node, iterable, 0, nullptr);
      }
      case Op::kSet:
        if (!CheckNamespaces(node.operands[0])) return FailAt(node);
        return Assign(node.operands[0], Evaluate(node.operands[1])) ? Flow::kNormal : FailAt(node);
      case Op::kBreak:
        return Flow::kBreak;
      case Op::kContinue:
        return Flow::kContinue;
      case Op::kResolve:
        active_->slots[node.operands[0]] = context_[node.id];
        return Flow::kNormal;
      case Op::kAlias:
        active_->slots[node.operands[0]] = Slot(node.operands[1], node.operands[2]);
        return Flow::kNormal;
      case Op::kClear:
        for (uint32_t i = 0; i < node.n_operands; ++i) active_->slots[node.operands[i]] = Value::Missing();
        return Flow::kNormal;
      case Op::kDefault:
        return Default(node);
      default:
        return RareStatement(node);
    }
  }

  Flow If(const Node& node) {
    for (uint32_t i = 0; i + 1 < node.n_operands; i += 2) {
      const Value condition = Evaluate(node.operands[i]);
      if (condition.failed()) return Flow::kError;
      if (Truth(condition)) return Statement(node.operands[i + 1]);
    }
    const uint32_t otherwise = node.operands[node.n_operands - 1];
    return otherwise == kNoNode ? Flow::kNormal : Statement(otherwise);
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
        const uint64_t begin = output_->text.size();
        const Flow flow = Emit(CallMacro(macro.object<MacroObject>(), {}), node);
        if (output_ == &root_) execution_.generations.emplace_back(begin, output_->text.size());
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

  // What `body` writes, as a text.
  [[gnu::noinline]] Flow Capture(uint32_t body, Value* value) {
    Sink captured;
    Sink* outer = output_;
    output_ = &captured;
    const Flow flow = Statement(body);
    output_ = outer;
    if (flow != Flow::kNormal) return flow;
    *value = CheckJoin(captured) ? runtime_.Make(captured.text) : Value::Error();
    return value->failed() ? Flow::kError : Flow::kNormal;
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
      if (!Assign(node.operands[1], item)) return FailAt(node);
      if (loop != nullptr) active_->slots[node.operands[0]] = Value::Of(ValueKind::kLoop, loop);
      const Flow flow = Statement(node.operands[4]);
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
      if (test.failed()) result = Step::kError;
      if (Truth(test)) break;
    }
    active_ = outer;
    return result;
  }

  Value RunRecursion(const Recursion& recursion, const Value& iterable, int64_t depth) {
    const Node& unit = At(recursion.unit);
    if (!EnterCall(unit)) return Value::Error();
    Activation* outer = active_;
    Sink captured;
    Sink* outer_output = output_;
    active_ = NewActivation(recursion.outer, unit.operands[0]);
    output_ = &captured;
    const Flow flow = For(At(unit.operands[1]), iterable, depth, &recursion);
    output_ = outer_output;
    active_ = outer;
    --n_calls_;
    return flow == Flow::kError || !CheckJoin(captured) ? Value::Error() : runtime_.Make(captured.text);
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

  bool Assign(uint32_t index, const Value& value) {
    if (value.failed()) return false;
    const Node& node = At(index);
    if (node.op == Op::kTargetName) {
      active_->slots[node.operands[0]] = value;
      if (node.id != UINT32_MAX) context_[node.id] = value;
      return true;
    }
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
  Value Evaluate(uint32_t index) {
    const Node& node = At(index);
    if (IsLiteral(node.op)) return runtime_.Work(1) ? node.constant : FailedAt(node);
    if (node.op == Op::kLoad && node.operands[0] == 0) {
      const Value& value = active_->slots[node.operands[1]];
      if (!value.is_missing()) return runtime_.Work(1) ? value : FailedAt(node);
    }
    if (node.local_member) {
      const Value& object = active_->slots[node.slot];
      if (object.kind() == ValueKind::kDict) {
        const Value* found = Find(object.dict(), node.constant.view());
        if (found != nullptr || node.only_member) {
          if (!runtime_.Work(1 + node.n_operands)) return FailedAt(node);
          return found != nullptr ? *found : runtime_.UndefinedElement(object, node.constant);
        }
      }
    }
    const Depth depth(&depth_);
    if (!Enter(node)) return Value::Error();
    const Value value = node.equals_literal ? CompareWithLiteral(node) : Compute(node);
    if (value.failed()) return FailedAt(node);
    return value;
  }
  Value CompareWithLiteral(const Node& node) {
    const Value left = Evaluate(node.operands[0]);
    if (left.failed() || !runtime_.Work(1)) return Value::Error();
    const bool unequal = node.operands[1] == static_cast<uint32_t>(Comparison::kNotEqual);
    if (!left.is_string()) return Value::Bool(unequal);
    const std::string_view literal = node.constant.view();
    return Value::Bool((left.text().size == literal.size() && SameBytes(runtime_.View(left), literal)) !=
                       unequal);
  }
  static bool IsLiteral(Op op) { return op >= Op::kString && op <= Op::kNone; }
  Value FailedAt(const Node& node) {
    runtime_.SetPlace(node.place);
    return Value::Error();
  }

  Value Compute(const Node& node) {
    switch (node.op) {
      case Op::kString:
      case Op::kInteger:
      case Op::kFloat:
      case Op::kTrue:
      case Op::kFalse:
      case Op::kNone:
        return node.constant;
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
      case Op::kNot: {
        const Value value = Evaluate(node.operands[0]);
        return value.failed() ? value : Value::Bool(!Truth(value));
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
        // Where all is constant, the reference's optimizer may make `undefined` of what cannot be sliced.
        if (node.operands[4] == 1 && !parts[0].is_string() && !parts[0].is_list_or_tuple()) {
          return runtime_.Refuse(ErrorCode::kUnsupported, "a slice of a constant that is no sequence");
        }
        return runtime_.Slice(parts[0], parts[1], parts[2], parts[3]);
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
    const Value condition = Evaluate(node.operands[0]);
    if (condition.failed()) return condition;
    if (Truth(condition)) return Evaluate(node.operands[1]);
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
    if (node.plain_test) {
      if (!runtime_.Work(1)) return Value::Error();
      return Value::Bool(TestOfType(node.id, receiver));
    }
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

  static constexpr uint32_t kMaxValueDepth = 200;
  static constexpr size_t kFirstOutput = 4096;

  const Executable& executable_;
  Runtime& runtime_;
  const std::string& clock_;
  Execution execution_;
  Sink root_;
  Sink* output_ = nullptr;
  Activation* active_ = nullptr;
  std::vector<Value> context_;
  Value captured_;
  uint64_t depth_ = 0;
  uint64_t n_calls_ = 0;
};

Result<Execution> Execute(const Executable& executable, Runtime& runtime, const Request& request) {
  return Interpreter(executable, runtime, request.clock)
      .Run(request.variables, Value::Missing(), request.asks_prompt);
}

}  // namespace slm::chat
