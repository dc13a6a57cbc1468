#include "chat/compiler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/builtins.h"
#include "chat/folding.h"
#include "chat/interpreter.h"
#include "chat/number.h"
#include "chat/predicates.h"

namespace slm::chat {
namespace {

constexpr SourcePlace kStart{1, 1};

using NameId = uint32_t;
// Of a variable: the level of its scope, and its name.
using Identifier = uint64_t;

// A function of the program: the template itself, a macro, a recursive loop, a loop's filter.
struct Unit {
  Unit* parent = nullptr;
  std::vector<Identifier> slots;
  uint32_t n_loops = 0;  // around the statement that is being compiled
};

enum class LoadKind : uint8_t { kParameter, kResolve, kAlias, kUndefined };

struct Reference {
  Identifier identifier = 0;
  Unit* unit = nullptr;
};

struct LoadAction {
  LoadKind kind = LoadKind::kUndefined;
  NameId name = 0;      // of kResolve
  Reference reference;  // of kAlias
};

// Values by key in the order in which they were first set: a scope has few names.
template <typename Key, typename Item>
class OrderedMap {
 public:
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] const Item* Find(Key key) const {
    for (const auto& [held, item] : entries_) {
      if (held == key) return &item;
    }
    return nullptr;
  }
  const Item& Set(Key key, const Item& item) {
    for (auto& [held, old] : entries_) {
      if (held == key) return old = item;
    }
    return entries_.emplace_back(key, item).second;
  }
  // What `changed` holds, a copy of this map to which more was done.
  void Take(const OrderedMap& changed) {
    for (size_t i = 0; i < changed.entries_.size(); ++i) {
      const auto& [key, item] = changed.entries_[i];
      if (i < entries_.size() && entries_[i].first == key) {
        entries_[i].second = item;
      } else {
        Set(key, item);
      }
    }
  }

 private:
  std::vector<std::pair<Key, Item>> entries_;
};

// Names of one scope and what they refer to.
struct Symbols {
  Symbols* parent = nullptr;
  Unit* unit = nullptr;
  uint32_t level = 0;
  OrderedMap<NameId, Reference> references;
  OrderedMap<Identifier, LoadAction> loads;
  std::vector<NameId> stores;

  [[nodiscard]] const Reference* Find(NameId name) const {
    for (const Symbols* scope = this; scope != nullptr; scope = scope->parent) {
      if (const Reference* found = scope->references.Find(name)) return found;
    }
    return nullptr;
  }
  const Reference& Define(NameId name, const LoadAction& action) {
    const Identifier identifier = Identifier{level} << 32U | name;
    loads.Set(identifier, action);
    return references.Set(name, {identifier, unit});
  }
  [[nodiscard]] bool Stores(NameId name) const {
    return std::find(stores.begin(), stores.end(), name) != stores.end();
  }
  void NoteStore(NameId name) {
    if (!Stores(name)) stores.push_back(name);
  }
  void Store(NameId name) {
    NoteStore(name);
    if (references.Find(name) != nullptr) return;
    if (parent != nullptr) {
      if (const Reference* outer = parent->Find(name)) {
        Define(name, {LoadKind::kAlias, 0, *outer});
        return;
      }
    }
    Define(name, {LoadKind::kUndefined, 0, {}});
  }
  const Reference& DeclareParameter(NameId name) {
    NoteStore(name);
    return Define(name, {LoadKind::kParameter, 0, {}});
  }
  void Load(NameId name) {
    if (Find(name) == nullptr) Define(name, {LoadKind::kResolve, name, {}});
  }
  // After an `if`: what any branch assigns is there afterwards, from outside or from the context.
  void MergeBranches(const std::vector<Symbols>& branches) {
    std::vector<NameId> added;
    for (const Symbols& branch : branches) {
      references.Take(branch.references);
      loads.Take(branch.loads);
      for (const NameId name : branch.stores) {
        if (!Stores(name)) added.push_back(name);
      }
    }
    for (const NameId name : added) {
      NoteStore(name);
      const Reference* outer = parent != nullptr ? parent->Find(name) : nullptr;
      const LoadAction from_outside = {LoadKind::kAlias, 0, outer != nullptr ? *outer : Reference{}};
      const LoadAction from_context = {LoadKind::kResolve, name, {}};
      loads.Set(Find(name)->identifier, outer != nullptr ? from_outside : from_context);
    }
  }
};

struct Frame {
  Symbols* symbols = nullptr;
  Unit* unit = nullptr;
  bool top_level = false;
  bool soft = false;    // inside an `if` or a conditional: unknown filters fail only when they run
  bool folds = false;   // inside an expression that the reference evaluates while it compiles (Folding)
  bool open = false;    // inside one of which it is not known
  bool writes = false;  // the expression is all that an output writes
};

// keyword.iskeyword.
bool IsPythonKeyword(std::string_view name) {
  static constexpr std::string_view kKeywords[] = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return std::find(std::begin(kKeywords), std::end(kKeywords), name) != std::end(kKeywords);
}

class Compiler {
 public:
  explicit Compiler(const Ast& ast) : ast_(ast), folding_(ast) { program_.nodes.reserve(ast.nodes.size()); }

  Result<Program> Run() {
    Unit* unit = NewUnit(nullptr);
    Frame frame = NewFrame(nullptr, unit);
    frame.top_level = true;
    std::vector<uint32_t> statements;
    if (FindUndeclared(ast_.body, {"self"}) != 0) {
      const uint32_t slot = SlotIn(unit, frame.symbols->DeclareParameter(NameOf("self")).identifier);
      statements.push_back(Emit(Op::kResolve, {slot, Intern(std::string(kSelfName))}, kStart));
    }
    VisitAll(*frame.symbols, ast_.body);
    EnterFrame(frame, kStart, &statements);
    SLM_TRY(Block(ast_.body, frame, &statements));
    const uint32_t body = Emit(Op::kSequence, std::move(statements), kStart);
    program_.root = EmitUnit(*unit, body, kStart);
    if (!assertion_.empty()) {
      ReplaceByAssertion();
    } else if (late_) {
      return Fail(*late_);
    }
    for (auto& [name, input] : inputs_) program_.inputs.push_back(input);
    program_.emits.assign(emits_.begin(), emits_.end());
    if (!IsWellFormed(program_)) {
      return Fail(
          MakeError(ErrorCode::kTplBound, "a chain of operators, filters or conditions that nests too deep"));
    }
    SLM_ASSIGN(program_.content_predicates, FindContentPredicates(program_));
    return std::move(program_);
  }

 private:
  using Nodes = std::vector<uint32_t>;

  // `text` outlives the compiler.
  NameId NameOf(std::string_view text) {
    const auto [entry, added] = name_ids_.try_emplace(text, static_cast<NameId>(names_.size()));
    if (added) names_.push_back(text);
    return entry->second;
  }

  // ---- building ----
  uint32_t Intern(const std::string& text) {
    const auto [entry, added] = strings_.try_emplace(text, static_cast<uint32_t>(program_.strings.size()));
    if (added) program_.strings.push_back(text);
    return entry->second;
  }
  uint32_t Emit(Op op, Nodes operands, SourcePlace at) {
    program_.nodes.push_back({op, at, std::move(operands)});
    return static_cast<uint32_t>(program_.nodes.size() - 1);
  }
  uint32_t EmitUnit(const Unit& unit, uint32_t body, SourcePlace at) {
    return Emit(Op::kUnit, {static_cast<uint32_t>(unit.slots.size()), body}, at);
  }
  static std::unexpected<Error> Refuse(ErrorCode code, const std::string& what, const AstNode& at) {
    return Fail(MakeError(code, "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                                    ": " + what)
                    .At(at.byte_offset));
  }
  // What Python refuses in the program that the reference has compiled: only where that compiles.
  void RefuseLate(const std::string& what, const AstNode& at) {
    if (!late_) late_ = Refuse(ErrorCode::kTplSyntax, what, at).error();
  }
  // The reference refuses to compile: a program that raises at once.
  void ReplaceByAssertion() {
    program_.nodes.clear();
    program_.strings.clear();
    strings_.clear();
    emits_.clear();
    const uint32_t value = Emit(Op::kRaise, {Intern(assertion_class_), Intern(assertion_)}, assertion_place_);
    program_.root = Emit(Op::kUnit, {0, Emit(Op::kOutput, {value}, assertion_place_)}, assertion_place_);
  }

  Unit* NewUnit(Unit* parent) {
    units_.push_back({});
    units_.back().parent = parent;
    return &units_.back();
  }
  Frame NewFrame(const Frame* outer, Unit* unit) {
    symbols_.push_back({});
    Symbols* symbols = &symbols_.back();
    symbols->unit = unit;
    if (outer != nullptr) {
      symbols->parent = outer->symbols;
      symbols->level = outer->symbols->level + 1;
    }
    return {symbols, unit, false, false, false, false, false};
  }

  static uint32_t SlotIn(Unit* unit, Identifier identifier) {
    const auto found = std::find(unit->slots.begin(), unit->slots.end(), identifier);
    const auto slot = static_cast<uint32_t>(found - unit->slots.begin());
    if (found == unit->slots.end()) unit->slots.push_back(identifier);
    return slot;
  }
  // How many units outward, and the slot there.
  static std::pair<uint32_t, uint32_t> Locate(const Unit* from, const Reference& reference) {
    uint32_t hops = 0;
    for (const Unit* unit = from; unit != reference.unit; unit = unit->parent) ++hops;
    return {hops, SlotIn(reference.unit, reference.identifier)};
  }

  // ---- scopes ----
  void EnterFrame(const Frame& frame, SourcePlace at, Nodes* out) {
    Nodes undefined;
    for (const auto& [identifier, action] : frame.symbols->loads) {
      const uint32_t slot = SlotIn(frame.unit, identifier);
      if (action.kind == LoadKind::kResolve) {
        const std::string name(names_[action.name]);
        out->push_back(Emit(Op::kResolve, {slot, Intern(name)}, at));
        NoteInput(name);
      } else if (action.kind == LoadKind::kAlias) {
        const auto [hops, from] = Locate(frame.unit, action.reference);
        out->push_back(Emit(Op::kAlias, {slot, hops, from}, at));
      } else if (action.kind == LoadKind::kUndefined) {
        undefined.push_back(slot);
      }
    }
    if (!undefined.empty()) out->push_back(Emit(Op::kClear, std::move(undefined), at));
  }
  void LeaveFrame(const Frame& frame, SourcePlace at, Nodes* out) {
    Nodes slots;
    for (const auto& [identifier, action] : frame.symbols->loads)
      slots.push_back(SlotIn(frame.unit, identifier));
    if (!slots.empty()) out->push_back(Emit(Op::kClear, std::move(slots), at));
  }

  void NoteInput(const std::string& name) {
    if (FunctionId(name) != kNoFunction) return;
    const auto entry = inputs_.try_emplace(name).first;
    entry->second.name = name;
  }

  void VisitAll(Symbols& symbols, const Nodes& nodes) {
    for (const uint32_t node : nodes) Visit(symbols, node);
  }
  // What a statement or expression means for the names of the scope that it stands in. Bodies of loops,
  // macros and other scopes are visited when they are compiled.
  void Visit(Symbols& symbols, uint32_t index) {
    if (index == kNoAst) return;
    const AstNode& node = ast_.nodes[index];
    switch (node.kind) {
      case AstKind::kName:
        if (node.context == NameContext::kLoad) symbols.Load(NameOf(node.text));
        if (node.context == NameContext::kStore) symbols.Store(NameOf(node.text));
        if (node.context == NameContext::kParameter) symbols.DeclareParameter(NameOf(node.text));
        return;
      case AstKind::kNamespaceRef:
        symbols.Load(NameOf(node.text));
        return;
      case AstKind::kIf:
        VisitIf(symbols, node);
        return;
      case AstKind::kMacro:
        symbols.Store(NameOf(node.text));
        return;
      case AstKind::kSet:
        Visit(symbols, node.second);
        Visit(symbols, node.first);
        return;
      case AstKind::kFor:
        Visit(symbols, node.second);
        return;
      case AstKind::kCallBlock:
      case AstKind::kFilterBlock:
        Visit(symbols, node.first);
        return;
      case AstKind::kGeneration:
        return;
      case AstKind::kWith:
        VisitAll(symbols, node.others);
        return;
      case AstKind::kSetBlock:
        Visit(symbols, node.first);
        return;
      default:
        ast_.ForEachChild(index, [&](uint32_t child) { Visit(symbols, child); });
        return;
    }
  }
  void VisitIf(Symbols& symbols, const AstNode& node) {
    Visit(symbols, node.first);
    std::vector<Symbols> branches;
    branches.reserve(3);
    for (const Nodes* body : {&node.items, &node.others, &node.rest}) {
      if (!body->empty()) VisitAll(branches.emplace_back(symbols), *body);
    }
    symbols.MergeBranches(branches);
  }
  void VisitTargetAsParameters(Symbols& symbols, uint32_t index) {
    const AstNode& node = ast_.nodes[index];
    if (node.kind == AstKind::kName) {
      symbols.DeclareParameter(NameOf(node.text));
      return;
    }
    for (const uint32_t item : node.items) VisitTargetAsParameters(symbols, item);
  }

  // Which of `names` the nodes read without having assigned them before, the first one as bit 0; does not
  // stop at inner scopes.
  using Names = std::initializer_list<std::string_view>;
  uint32_t FindUndeclared(const Nodes& nodes, Names names) const {
    uint32_t wanted = (uint32_t{1} << names.size()) - 1;
    uint32_t undeclared = 0;
    for (const uint32_t node : nodes) SearchUndeclared(node, names, &wanted, &undeclared);
    return undeclared;
  }
  void SearchUndeclared(uint32_t index, Names names, uint32_t* wanted, uint32_t* undeclared) const {
    if (*undeclared == *wanted) return;  // the reference stops where everything was found
    const AstNode& node = ast_.nodes[index];
    if (node.kind != AstKind::kName) {
      ast_.ForEachChild(index, [&](uint32_t child) { SearchUndeclared(child, names, wanted, undeclared); });
      return;
    }
    const auto found = std::find(names.begin(), names.end(), node.text);
    if (found == names.end()) return;
    const uint32_t bit = uint32_t{1} << (found - names.begin());
    if (node.context == NameContext::kLoad && (*wanted & bit) != 0) {
      *undeclared |= bit;
    } else {
      *wanted &= ~bit;
    }
  }

  // ---- statements ----
  Status Block(const Nodes& body, const Frame& frame, Nodes* out) {
    for (const uint32_t index : body) SLM_TRY(Statement(index, frame, out));
    return {};
  }
  Result<uint32_t> Sequence(const Nodes& body, const Frame& frame, SourcePlace at) {
    Nodes statements;
    SLM_TRY(Block(body, frame, &statements));
    return Emit(Op::kSequence, std::move(statements), at);
  }

  Status Statement(uint32_t index, const Frame& frame, Nodes* out) {
    const AstNode& node = ast_.nodes[index];
    switch (node.kind) {
      case AstKind::kOutput:
        return Output(node, frame, out);
      case AstKind::kIf:
        return If(node, frame, out);
      case AstKind::kFor:
        return For(node, frame, out);
      case AstKind::kSet: {
        SLM_ASSIGN(const uint32_t value, Expression(node.second, frame));
        SLM_ASSIGN(const uint32_t target, Target(node.first, frame, frame.top_level));
        out->push_back(Emit(Op::kSet, {target, value}, node.place()));
        return {};
      }
      case AstKind::kSetBlock:
        return SetBlock(node, frame, out);
      case AstKind::kMacro: {
        SLM_ASSIGN(const uint32_t macro, Macro(node, frame, Intern(node.text)));
        const auto [hops, slot] = Locate(frame.unit, *frame.symbols->Find(NameOf(node.text)));
        const uint32_t exported = frame.top_level ? Intern(node.text) : kNoNode;
        const uint32_t target = Emit(Op::kTargetName, {slot, exported}, node.place());
        out->push_back(Emit(Op::kSet, {target, macro}, node.place()));
        return {};
      }
      case AstKind::kCallBlock: {
        SLM_ASSIGN(const uint32_t macro, Macro(node, frame, kNoNode));
        SLM_ASSIGN(const uint32_t call, Expression(node.first, frame));
        out->push_back(Emit(Op::kCallBlock, {macro, call}, node.place()));
        return {};
      }
      case AstKind::kGeneration: {
        SLM_ASSIGN(const uint32_t macro, Macro(node, frame, kNoNode));
        out->push_back(Emit(Op::kGeneration, {macro}, node.place()));
        return {};
      }
      case AstKind::kFilterBlock:
        return FilterBlock(node, frame, out);
      case AstKind::kWith:
        return With(node, frame, out);
      default:
        break;
    }
    const bool breaks = node.kind == AstKind::kBreak;
    if (frame.unit->n_loops == 0)
      RefuseLate(breaks ? "break outside a loop" : "continue outside a loop", node);
    out->push_back(Emit(breaks ? Op::kBreak : Op::kContinue, {}, node.place()));
    return {};
  }

  Status Output(const AstNode& node, const Frame& frame, Nodes* out) {
    for (const uint32_t item : node.items) {
      const AstNode& child = ast_.nodes[item];
      if (child.kind == AstKind::kData) {
        emits_.insert(child.text);
        out->push_back(Emit(Op::kText, {Intern(child.text)}, child.place()));
        continue;
      }
      Frame item_frame = frame;
      item_frame.writes = true;
      SLM_ASSIGN(const uint32_t value, Expression(item, item_frame));
      out->push_back(Emit(Op::kOutput, {value}, child.place()));
    }
    return {};
  }

  Status If(const AstNode& node, const Frame& outer, Nodes* out) {
    Frame frame = outer;
    frame.soft = true;
    Nodes operands;
    SLM_TRY(Branch(node, frame, &operands));
    for (const uint32_t other : node.others) SLM_TRY(Branch(ast_.nodes[other], frame, &operands));
    uint32_t otherwise = kNoNode;
    if (!node.rest.empty()) {
      SLM_ASSIGN(otherwise, Sequence(node.rest, frame, node.place()));
    }
    operands.push_back(otherwise);
    out->push_back(Emit(Op::kIf, std::move(operands), node.place()));
    return {};
  }
  Status Branch(const AstNode& node, const Frame& frame, Nodes* operands) {
    SLM_ASSIGN(const uint32_t condition, Expression(node.first, frame));
    SLM_ASSIGN(const uint32_t body, Sequence(node.items, frame, node.place()));
    operands->push_back(condition);
    operands->push_back(body);
    return {};
  }

  bool StoresLoop(uint32_t index) const {
    const AstNode& node = ast_.nodes[index];
    if (node.kind == AstKind::kName && node.context == NameContext::kStore && node.text == "loop")
      return true;
    bool found = false;
    ast_.ForEachChild(index, [&](uint32_t child) { found = found || StoresLoop(child); });
    return found;
  }

  Status For(const AstNode& node, const Frame& frame, Nodes* out) {
    Unit* unit = node.flag ? NewUnit(frame.unit) : frame.unit;
    Frame loop_frame = NewFrame(&frame, unit);
    Frame else_frame = NewFrame(&frame, unit);
    const bool extended = node.flag || FindUndeclared(node.items, {"loop"}) != 0;
    uint32_t loop_slot = kNoNode;
    if (extended) loop_slot = SlotIn(unit, loop_frame.symbols->DeclareParameter(NameOf("loop")).identifier);
    VisitTargetAsParameters(*loop_frame.symbols, node.first);
    VisitAll(*loop_frame.symbols, node.items);
    VisitAll(*else_frame.symbols, node.others);
    if (assertion_.empty()) {
      bool stores = false;
      for (const uint32_t child : {node.first}) stores = stores || StoresLoop(child);
      for (const uint32_t child : node.items) stores = stores || StoresLoop(child);
      for (const uint32_t child : node.others) stores = stores || StoresLoop(child);
      if (stores) Assert("Can't assign to special loop variable in for-loop target", node.place());
    }

    uint32_t iterable = kNoNode;
    uint32_t outer_iterable = kNoNode;
    if (node.flag) {
      SLM_ASSIGN(outer_iterable, Expression(node.second, frame));
    } else {
      SLM_ASSIGN(iterable, Expression(node.second, frame));
    }
    uint32_t filter = kNoNode;
    if (node.third != kNoAst) {
      SLM_ASSIGN(filter, LoopFilter(node, frame));
    }

    SLM_ASSIGN(const uint32_t target, Target(node.first, loop_frame, false));
    ++unit->n_loops;
    Nodes statements;
    EnterFrame(loop_frame, node.place(), &statements);
    SLM_TRY(Block(node.items, loop_frame, &statements));
    --unit->n_loops;
    const uint32_t body = Emit(Op::kSequence, std::move(statements), node.place());
    Nodes after;
    LeaveFrame(loop_frame, node.place(), &after);
    const uint32_t clear = after.empty() ? kNoNode : after[0];
    uint32_t otherwise = kNoNode;
    if (!node.others.empty()) {
      Nodes other;
      EnterFrame(else_frame, node.place(), &other);
      SLM_TRY(Block(node.others, else_frame, &other));
      LeaveFrame(else_frame, node.place(), &other);
      otherwise = Emit(Op::kSequence, std::move(other), node.place());
    }
    const uint32_t loop =
        Emit(Op::kFor, {loop_slot, target, iterable, filter, body, clear, otherwise, node.flag ? 1u : 0u},
             node.place());
    if (!node.flag) {
      out->push_back(loop);
      return {};
    }
    out->push_back(Emit(Op::kRecursive, {outer_iterable, EmitUnit(*unit, loop, node.place())}, node.place()));
    return {};
  }

  Result<uint32_t> LoopFilter(const AstNode& node, const Frame& frame) {
    Unit* unit = NewUnit(frame.unit);
    Frame test_frame = NewFrame(&frame, unit);
    VisitTargetAsParameters(*test_frame.symbols, node.first);
    Visit(*test_frame.symbols, node.third);
    Nodes enter;
    EnterFrame(test_frame, node.place(), &enter);
    const uint32_t entered = Emit(Op::kSequence, std::move(enter), node.place());
    SLM_ASSIGN(const uint32_t target, Target(node.first, test_frame, false));
    SLM_ASSIGN(const uint32_t test, Expression(node.third, test_frame));
    return Emit(Op::kFilterUnit, {static_cast<uint32_t>(unit->slots.size()), entered, target, test},
                node.place());
  }

  Result<uint32_t> Target(uint32_t index, const Frame& frame, bool exported) {
    const AstNode& node = ast_.nodes[index];
    if (node.kind == AstKind::kTuple) {
      Nodes items;
      for (const uint32_t item : node.items) {
        SLM_ASSIGN(const uint32_t target, Target(item, frame, exported));
        items.push_back(target);
      }
      return Emit(Op::kTargetTuple, std::move(items), node.place());
    }
    const auto [hops, slot] = Locate(frame.unit, *frame.symbols->Find(NameOf(node.text)));
    if (node.kind == AstKind::kNamespaceRef) {
      return Emit(Op::kTargetAttribute, {hops, slot, Intern(node.text), Intern(node.attribute)},
                  node.place());
    }
    if (const auto input = inputs_.find(node.text); input != inputs_.end() && exported)
      input->second.assigned = true;
    return Emit(Op::kTargetName, {slot, exported ? Intern(node.text) : kNoNode}, node.place());
  }

  Status SetBlock(const AstNode& node, const Frame& frame, Nodes* out) {
    const Frame block_frame = NewFrame(&frame, frame.unit);
    VisitAll(*block_frame.symbols, node.rest);
    // The filter is compiled in the block's scope, which has to know its names.
    if (node.second != kNoAst) DeclareFilterNames(*block_frame.symbols, node.second);
    EnterFrame(block_frame, node.place(), out);
    SLM_ASSIGN(const uint32_t body, Sequence(node.rest, block_frame, node.place()));
    SLM_ASSIGN(const uint32_t target, Target(node.first, frame, frame.top_level));
    uint32_t filter = kNoNode;
    if (node.second != kNoAst) {
      SLM_ASSIGN(filter, Expression(node.second, block_frame));
    }
    out->push_back(Emit(Op::kSetBlock, {target, body, filter}, node.place()));
    LeaveFrame(block_frame, node.place(), out);
    return {};
  }

  // Names in the filter of a set block that no scope has seen: the reference fails to compile them.
  void DeclareFilterNames(Symbols& symbols, uint32_t index) {
    const AstNode& node = ast_.nodes[index];
    if (node.kind == AstKind::kName && symbols.Find(NameOf(node.text)) == nullptr) {
      Assert("Tried to resolve a name to a reference that was unknown to the frame ('" + node.text + "')",
             node.place(), "AssertionError");
      symbols.Load(NameOf(node.text));
    }
    ast_.ForEachChild(index, [&](uint32_t child) { DeclareFilterNames(symbols, child); });
  }

  Status FilterBlock(const AstNode& node, const Frame& frame, Nodes* out) {
    const Frame filter_frame = NewFrame(&frame, frame.unit);
    VisitAll(*filter_frame.symbols, node.rest);
    Visit(*filter_frame.symbols, node.first);
    EnterFrame(filter_frame, node.place(), out);
    SLM_ASSIGN(const uint32_t body, Sequence(node.rest, filter_frame, node.place()));
    SLM_ASSIGN(const uint32_t filter, Expression(node.first, filter_frame));
    out->push_back(Emit(Op::kFilterBlock, {body, filter}, node.place()));
    LeaveFrame(filter_frame, node.place(), out);
    return {};
  }

  Status With(const AstNode& node, const Frame& frame, Nodes* out) {
    const Frame with_frame = NewFrame(&frame, frame.unit);
    VisitAll(*with_frame.symbols, node.items);
    VisitAll(*with_frame.symbols, node.rest);
    EnterFrame(with_frame, node.place(), out);
    for (size_t i = 0; i < node.items.size(); ++i) {
      SLM_ASSIGN(const uint32_t value, Expression(node.others[i], frame));
      SLM_ASSIGN(const uint32_t target, Target(node.items[i], with_frame, false));
      out->push_back(Emit(Op::kSet, {target, value}, node.place()));
    }
    SLM_TRY(Block(node.rest, with_frame, out));
    LeaveFrame(with_frame, node.place(), out);
    return {};
  }

  // A macro, or the body of a call block.
  Result<uint32_t> Macro(const AstNode& node, const Frame& outer, uint32_t name) {
    if (!node.attribute.empty()) RefuseLate("a duplicate argument '" + node.attribute + "'", node);
    Unit* unit = NewUnit(outer.unit);
    Frame frame = NewFrame(&outer, unit);
    const auto analyze = [&] {
      VisitAll(*frame.symbols, node.items);
      VisitAll(*frame.symbols, node.others);
      VisitAll(*frame.symbols, node.rest);
    };
    analyze();
    std::optional<size_t> explicit_caller;
    bool has_kwargs = false;
    bool has_varargs = false;
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string& argument = ast_.nodes[node.items[i]].text;
      if (argument == "caller") explicit_caller = i;
      has_kwargs = has_kwargs || argument == "kwargs";
      has_varargs = has_varargs || argument == "varargs";
    }
    const uint32_t undeclared = FindUndeclared(node.rest, {"caller", "kwargs", "varargs"});
    uint32_t flags = 0;
    const auto declare = [&](std::string_view parameter) {
      return SlotIn(unit, frame.symbols->DeclareParameter(NameOf(parameter)).identifier);
    };
    uint32_t caller = kNoNode;
    uint32_t kwargs = kNoNode;
    uint32_t varargs = kNoNode;
    if ((undeclared & 1) != 0) {
      flags |= 4;
      if (explicit_caller) {
        if (*explicit_caller + node.others.size() < node.items.size()) {
          Assert(
              "When defining macros or call blocks the special \"caller\" argument must be omitted or be "
              "given "
              "a default.",
              node.place());
        }
      } else {
        caller = declare("caller");
      }
    }
    if ((undeclared & 2) != 0 && !has_kwargs) {
      kwargs = declare("kwargs");
      flags |= 1;
    }
    if ((undeclared & 4) != 0 && !has_varargs) {
      varargs = declare("varargs");
      flags |= 2;
    }
    analyze();
    Nodes statements;
    EnterFrame(frame, node.place(), &statements);
    Nodes parameters;
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string& argument = ast_.nodes[node.items[i]].text;
      const uint32_t slot = SlotIn(unit, frame.symbols->Find(NameOf(argument))->identifier);
      uint32_t value = kNoNode;
      const size_t n_plain = node.items.size() - node.others.size();
      if (i >= n_plain) {
        SLM_ASSIGN(value, Expression(node.others[i - n_plain], frame));
      }
      statements.push_back(Emit(Op::kDefault, {slot, Intern(argument), value}, node.place()));
      parameters.push_back(Intern(argument));
      parameters.push_back(slot);
    }
    SLM_TRY(Block(node.rest, frame, &statements));
    const uint32_t body = Emit(Op::kSequence, std::move(statements), node.place());
    const uint32_t function = EmitUnit(*unit, body, node.place());
    Nodes operands{name, function, flags, caller, kwargs, varargs};
    operands.insert(operands.end(), parameters.begin(), parameters.end());
    return Emit(Op::kMacro, std::move(operands), node.place());
  }

  // ---- expressions ----
  void Assert(const std::string& message, SourcePlace at, const char* exception = "TemplateAssertionError") {
    if (!assertion_.empty()) return;
    assertion_ = message;
    assertion_class_ = exception;
    assertion_place_ = at;
  }

  Result<uint32_t> Optional(uint32_t index, const Frame& frame) {
    if (index == kNoAst) return kNoNode;
    return Expression(index, frame);
  }
  Status All(const Nodes& items, const Frame& frame, Nodes* out) {
    for (const uint32_t item : items) {
      SLM_ASSIGN(const uint32_t value, Expression(item, frame));
      out->push_back(value);
    }
    return {};
  }

  // Of an expression that the reference's optimizer looks at before it is compiled.
  static bool IsOptimized(AstKind kind) {
    switch (kind) {
      case AstKind::kBinary:
      case AstKind::kUnary:
      case AstKind::kConcat:
      case AstKind::kCompare:
      case AstKind::kAttribute:
      case AstKind::kItem:
      case AstKind::kFilter:
      case AstKind::kTest:
      case AstKind::kConditional:
      case AstKind::kCall:
        return true;
      default:
        return false;
    }
  }
  uint32_t Undefined(const char* name, const AstNode& node) {
    return Emit(Op::kRaise, {Intern("NameError"), Intern("name '" + std::string(name) + "' is not defined")},
                node.place());
  }
  Result<uint32_t> Expression(uint32_t index, const Frame& outer) {
    const AstNode& node = ast_.nodes[index];
    Frame frame = outer;
    frame.writes = false;
    if (!frame.folds && (outer.writes || IsOptimized(node.kind))) {
      if (outer.writes && folding_.Written(index)) {
        frame.folds = true;
      } else if (IsOptimized(node.kind)) {
        folding_.Visit(index);
        if (const auto& failure = folding_.failure())
          Assert(failure->message, failure->place, failure->exception.c_str());
      }
    }
    if (!frame.folds) {
      // What the optimizer made a constant of is not compiled, but written into the reference's program.
      if (const Value* constant = folding_.Constant(index)) {
        const Folding::Writing writing = Folding::WritingOf(*constant);
        if (writing.too_long)
          Assert("Exceeds the limit (4300 digits) for integer string conversion", node.place(), "ValueError");
        if (writing.undefined_name != nullptr) return Undefined(writing.undefined_name, node);
        frame.folds = true;
      }
      frame.open = frame.open || folding_.IsOpen(index);
    }
    frame.soft = frame.soft || frame.folds || frame.open;
    Nodes operands;
    switch (node.kind) {
      case AstKind::kString:
        emits_.insert(node.text);
        return Emit(Op::kString, {Intern(node.text)}, node.place());
      case AstKind::kInteger:
        return Emit(Op::kInteger, {Intern(node.text)}, node.place());
      case AstKind::kFloat:
        if (!frame.folds && std::isinf(ParseFloatLiteral(node.text).value_or(0)))
          return Undefined("inf", node);
        return Emit(Op::kFloat, {Intern(node.text)}, node.place());
      case AstKind::kTrue:
        return Emit(Op::kTrue, {}, node.place());
      case AstKind::kFalse:
        return Emit(Op::kFalse, {}, node.place());
      case AstKind::kNone:
        return Emit(Op::kNone, {}, node.place());
      case AstKind::kName:
        return Name(node, frame);
      case AstKind::kTuple:
        SLM_TRY(All(node.items, frame, &operands));
        return Emit(Op::kTuple, std::move(operands), node.place());
      case AstKind::kList:
        SLM_TRY(All(node.items, frame, &operands));
        return Emit(Op::kList, std::move(operands), node.place());
      case AstKind::kDict:
        SLM_TRY(All(node.items, frame, &operands));
        return Emit(Op::kDict, std::move(operands), node.place());
      case AstKind::kConcat:
        SLM_TRY(All(node.items, frame, &operands));
        return Emit(Op::kConcat, std::move(operands), node.place());
      case AstKind::kConditional:
        return Conditional(node, frame);
      case AstKind::kBinary:
        return Binary(node, frame);
      case AstKind::kUnary: {
        SLM_ASSIGN(const uint32_t value, Expression(node.first, frame));
        const Op op = node.text == "not" ? Op::kNot : node.text == "-" ? Op::kNegate : Op::kPositive;
        return Emit(op, {value}, node.place());
      }
      case AstKind::kCompare:
        return Compare(node, frame);
      case AstKind::kAttribute: {
        if (IsReflection(node.text))
          return Refuse(ErrorCode::kTplForbidden, "the attribute '" + node.text + "' reaches the host", node);
        SLM_ASSIGN(const uint32_t value, Expression(node.first, frame));
        return Emit(Op::kAttribute, {value, Intern(node.text)}, node.place());
      }
      case AstKind::kItem:
        return Item(node, frame);
      case AstKind::kFilter:
      case AstKind::kTest:
        return FilterOrTest(node, frame);
      case AstKind::kCall:
        return Call(node, frame);
      default:
        return Refuse(ErrorCode::kTplSyntax, "an expression of an unknown kind", node);
    }
  }

  static bool IsReflection(const std::string& name) {
    return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  }

  Result<uint32_t> Name(const AstNode& node, const Frame& frame) {
    const Reference* reference = frame.symbols->Find(NameOf(node.text));
    if (node.text == "lipsum") return Refuse(ErrorCode::kTplForbidden, "'lipsum' is random text", node);
    const auto [hops, slot] = Locate(frame.unit, *reference);
    return Emit(Op::kLoad, {hops, slot, Intern(node.text)}, node.place());
  }

  Result<uint32_t> Conditional(const AstNode& node, const Frame& outer) {
    Frame frame = outer;
    frame.soft = true;
    SLM_ASSIGN(const uint32_t condition, Expression(node.first, frame));
    SLM_ASSIGN(const uint32_t then, Expression(node.second, frame));
    SLM_ASSIGN(const uint32_t otherwise, Optional(node.third, frame));
    return Emit(Op::kConditional, {condition, then, otherwise}, node.place());
  }

  // Whether the reference's optimizer can evaluate the expression while compiling.
  bool IsConstant(uint32_t index) const {
    if (index == kNoAst) return true;
    const AstNode& node = ast_.nodes[index];
    if (node.kind == AstKind::kName || node.kind == AstKind::kCall) return false;
    bool constant = true;
    ast_.ForEachChild(index, [&](uint32_t child) { constant = constant && IsConstant(child); });
    return constant;
  }
  // Truth of a literal, where it decides `and` and `or` already while the reference compiles.
  std::optional<bool> KnownTruth(uint32_t index) const {
    const AstNode& node = ast_.nodes[index];
    switch (node.kind) {
      case AstKind::kTrue:
        return true;
      case AstKind::kFalse:
      case AstKind::kNone:
        return false;
      case AstKind::kString:
        return !node.text.empty();
      case AstKind::kInteger:
        return node.text != "0";
      case AstKind::kFloat:
        return node.text.substr(0, node.text.find_first_of("eE")).find_first_of("123456789") !=
               std::string::npos;
      case AstKind::kList:
      case AstKind::kTuple:
      case AstKind::kDict:
        if (!IsConstant(index)) return std::nullopt;
        return !node.items.empty();
      case AstKind::kUnary: {
        const auto truth = KnownTruth(node.first);
        if (!truth) return std::nullopt;
        return node.text == "not" ? !*truth : *truth;
      }
      case AstKind::kBinary: {
        if (node.text != "and" && node.text != "or") return std::nullopt;
        const auto left = KnownTruth(node.first);
        if (!left || *left == (node.text == "or")) return left;
        return KnownTruth(node.second);
      }
      default:
        return std::nullopt;
    }
  }

  Result<uint32_t> Binary(const AstNode& node, const Frame& frame) {
    SLM_ASSIGN(const uint32_t left, Expression(node.first, frame));
    if (node.text == "and" || node.text == "or") {
      const auto truth = KnownTruth(node.first);
      if (frame.folds && truth && *truth == (node.text == "or")) return left;  // the right side never runs
    }
    SLM_ASSIGN(const uint32_t right, Expression(node.second, frame));
    if (node.text == "and") return Emit(Op::kAnd, {left, right}, node.place());
    if (node.text == "or") return Emit(Op::kOr, {left, right}, node.place());
    return Emit(Op::kBinary, {static_cast<uint32_t>(ArithmeticOf(node.text)), left, right}, node.place());
  }

  Result<uint32_t> Compare(const AstNode& node, const Frame& frame) {
    SLM_ASSIGN(const uint32_t first, Expression(node.first, frame));
    Nodes operands{first};
    for (size_t i = 0; i < node.items.size(); ++i) {
      SLM_ASSIGN(const uint32_t value, Expression(node.items[i], frame));
      operands.push_back(static_cast<uint32_t>(ComparisonOf(node.names[i])));
      operands.push_back(value);
    }
    return Emit(Op::kCompare, std::move(operands), node.place());
  }

  Result<uint32_t> Item(const AstNode& node, const Frame& frame) {
    const AstNode& key = ast_.nodes[node.second];
    SLM_ASSIGN(const uint32_t value, Expression(node.first, frame));
    if (key.kind == AstKind::kSlice) {
      SLM_ASSIGN(const uint32_t start, Optional(key.first, frame));
      SLM_ASSIGN(const uint32_t stop, Optional(key.second, frame));
      SLM_ASSIGN(const uint32_t step, Optional(key.third, frame));
      return Emit(Op::kSlice,
                  {value, start, stop, step,
                   frame.folds  ? 1U
                   : frame.open ? 2U
                                : 0U},
                  node.place());
    }
    if (key.kind == AstKind::kString && IsReflection(key.text))
      return Refuse(ErrorCode::kTplForbidden, "the attribute '" + key.text + "' reaches the host", key);
    SLM_ASSIGN(const uint32_t item, Expression(node.second, frame));
    return Emit(Op::kItem, {value, item}, node.place());
  }

  Status CallEnd(const AstNode& node, const Frame& frame, Nodes* operands) {
    // A word of Python among the keywords makes a dict of them, in which the last one counts.
    const bool is_call = std::none_of(node.names.begin(), node.names.end(), IsPythonKeyword);
    if (!node.attribute.empty() && !frame.folds && is_call)
      RefuseLate("keyword argument repeated: " + node.attribute, node);
    operands->push_back(static_cast<uint32_t>(node.items.size()));
    SLM_TRY(All(node.items, frame, operands));
    const size_t n_at = operands->size();
    operands->push_back(0);
    for (size_t i = 0; i < node.others.size(); ++i) {
      const auto first = std::find(node.names.begin(), node.names.end(), node.names[i]) - node.names.begin();
      if (static_cast<size_t>(first) != i) continue;
      const auto last = std::find(node.names.rbegin(), node.names.rend(), node.names[i]);
      const auto given = static_cast<size_t>(node.names.rend() - last) - 1;
      (*operands)[n_at] += 1;
      operands->push_back(Intern(node.names[i]));
      SLM_ASSIGN(const uint32_t value, Expression(node.others[given], frame));
      operands->push_back(value);
    }
    SLM_ASSIGN(const uint32_t sequence, Optional(node.second, frame));
    SLM_ASSIGN(const uint32_t mapping, Optional(node.third, frame));
    operands->push_back(sequence);
    operands->push_back(mapping);
    return {};
  }

  Result<uint32_t> FilterOrTest(const AstNode& node, const Frame& frame) {
    const bool is_filter = node.kind == AstKind::kFilter;
    const Known known = is_filter ? KnownFilter(node.text) : KnownTest(node.text);
    if (known == Known::kForbidden) {
      return Refuse(ErrorCode::kTplForbidden, "the filter '" + node.text + "' is outside the subset", node);
    }
    if (known == Known::kUnknown && !frame.soft) {
      Assert(std::string("No ") + (is_filter ? "filter" : "test") + " named '" + node.text + "'.",
             node.place());
    }
    uint32_t receiver = kNoNode;
    if (node.first == kNoAst) {
      receiver = Emit(Op::kCaptured, {}, node.place());
    } else {
      SLM_ASSIGN(receiver, Expression(node.first, frame));
    }
    if (!is_filter) NoteTest(node);
    Nodes operands{Intern(node.text), receiver};
    SLM_TRY(CallEnd(node, frame, &operands));
    return Emit(is_filter ? Op::kFilter : Op::kTest, std::move(operands), node.place());
  }

  void NoteTest(const AstNode& node) {
    const AstNode& subject = ast_.nodes[node.first];
    if (subject.kind != AstKind::kName) return;
    const auto input = inputs_.find(subject.text);
    if (input == inputs_.end()) return;
    if (node.text == "defined" || node.text == "undefined") input->second.tests_defined = true;
    if (node.text == "none") input->second.tests_none = true;
  }

  Result<uint32_t> Call(const AstNode& node, const Frame& frame) {
    SLM_ASSIGN(const uint32_t callee, Expression(node.first, frame));
    Nodes operands{callee};
    SLM_TRY(CallEnd(node, frame, &operands));
    return Emit(Op::kCall, std::move(operands), node.place());
  }

  const Ast& ast_;
  Folding folding_;
  Program program_;
  std::unordered_map<std::string, uint32_t> strings_;
  std::unordered_map<std::string_view, NameId> name_ids_;
  std::vector<std::string_view> names_;
  std::deque<Unit> units_;
  std::deque<Symbols> symbols_;
  std::map<std::string, InputSpec> inputs_;
  std::set<std::string> emits_;
  std::optional<Error> late_;
  std::string assertion_;
  std::string assertion_class_;
  SourcePlace assertion_place_;
};

}  // namespace

Result<Program> CompileTemplate(const Ast& ast) {
  return Compiler(ast).Run();
}

}  // namespace slm::chat
