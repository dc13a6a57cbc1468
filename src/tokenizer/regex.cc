// From syntax tree to program, and running programs.
//
// A program runs by backtracking, as Oniguruma does. The order of alternatives decides which match
// is found, so the states that failed can be remembered without changing it: whether a state (place
// in the program, place in the text) leads on to the end of its body depends on nothing else, apart
// from which nullable loops around it have taken nothing yet, which is part of the state. With that
// memory a text of n bytes costs O(n * program). It is switched on when a search has used up the steps
// that ordinary patterns need.
#include "tokenizer/regex.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

#include "tokenizer/aligned_text.h"
#include "tokenizer/regex_parse.h"
#include "unicode/case_folding_v16_0.h"

namespace slm::tokenizer {
namespace {

using Op = Regex::Instruction::Op;
using Kind = RegexNode::Kind;

constexpr size_t kMaxProgram = 20000;
constexpr uint32_t kMaxLoopNesting = 3;  // nullable loops around one place

bool IsNullable(const RegexNode& node) {
  switch (node.kind) {
    case Kind::kSet:
    case Kind::kBackReference:
      return false;
    case Kind::kAlternatives:
      return std::any_of(node.children.begin(), node.children.end(),
                         [](const auto& child) { return IsNullable(*child); });
    case Kind::kConcat:
      return std::all_of(node.children.begin(), node.children.end(),
                         [](const auto& child) { return IsNullable(*child); });
    case Kind::kRepeat:
      return node.min == 0 || IsNullable(*node.children[0]);
    case Kind::kAtomic:
    case Kind::kCapture:
      return IsNullable(*node.children[0]);
    default:
      return true;
  }
}

// A set, or a group around nothing but one.
const RegexNode* AsSet(const RegexNode& node) {
  if (node.kind == Kind::kSet) return &node;
  if (node.kind == Kind::kConcat && node.children.size() == 1) return AsSet(*node.children[0]);
  return nullptr;
}

class Compiler {
 public:
  Compiler(Regex::Program* program, bool with_captures) : program_(program), with_captures_(with_captures) {}

  Status Run(const RegexNode& root) {
    SLM_TRY(Emit(root, false));
    Add(Op::kEnd);
    RangeSet first;
    if (!FirstOf(root, &first)) program_->first.emplace(first);
    return {};
  }

 private:
  uint32_t Add(Op op, uint32_t a = 0, uint32_t b = 0) {
    Regex::Instruction instruction{.op = op};
    instruction.a = a;
    instruction.b = b;
    instruction.nesting = nesting_;
    if (op == Op::kSplit || op == Op::kStar || op == Op::kLook || op == Op::kAtomic) {
      instruction.memo = program_->n_memo++;
    }
    program_->code.push_back(instruction);
    return static_cast<uint32_t>(program_->code.size() - 1);
  }
  [[nodiscard]] uint32_t Here() const { return static_cast<uint32_t>(program_->code.size()); }

  uint32_t SetNumber(const RangeSet& set) {
    const auto [found, fresh] = sets_.emplace(set.ranges(), static_cast<uint32_t>(program_->sets.size()));
    if (fresh) program_->sets.emplace_back(set);
    return found->second;
  }

  Status Emit(const RegexNode& node, bool backward) {
    if (program_->code.size() > kMaxProgram) {
      return Fail(
          MakeError(ErrorCode::kTokRegex, "a pattern that becomes longer than 20000 steps").At(node.offset));
    }
    switch (node.kind) {
      case Kind::kEmpty:
        return {};
      case Kind::kSet:
        EmitSet(node.set, backward);
        return {};
      case Kind::kConcat:
        for (size_t i = 0; i < node.children.size(); ++i) {
          SLM_TRY(Emit(*node.children[backward ? node.children.size() - 1 - i : i], backward));
        }
        return {};
      case Kind::kAlternatives: {
        std::vector<uint32_t> jumps;
        for (size_t i = 0; i < node.children.size(); ++i) {
          const bool last = i + 1 == node.children.size();
          const uint32_t split = last ? 0 : Add(Op::kSplit, Here() + 1);
          SLM_TRY(Emit(*node.children[i], backward));
          if (last) break;
          jumps.push_back(Add(Op::kJump));
          program_->code[split].b = Here();
        }
        for (const uint32_t jump : jumps) program_->code[jump].a = Here();
        return {};
      }
      case Kind::kRepeat:
        return EmitRepeat(node, backward);
      case Kind::kAssert:
        if (node.assertion == Assertion::kSearchStart) program_->uses_search_start = true;
        Add(Op::kAssert, static_cast<uint32_t>(node.assertion));
        return {};
      case Kind::kLook:
      case Kind::kAtomic:
        return EmitBody(node, backward);
      case Kind::kCapture: {
        if (!with_captures_) return Emit(*node.children[0], backward);
        const uint32_t slot = node.group * 2;
        program_->n_slots = std::max(program_->n_slots, slot + 2);
        Add(Op::kSave, backward ? slot + 1 : slot);
        SLM_TRY(Emit(*node.children[0], backward));
        Add(Op::kSave, backward ? slot : slot + 1);
        return {};
      }
      case Kind::kBackReference: {
        const uint32_t at = Add(Op::kBackReference, node.group * 2);
        program_->code[at].mode = node.ignore_case ? 1 : 0;
        program_->n_slots = std::max(program_->n_slots, node.group * 2 + 2);
        return {};
      }
    }
    return {};
  }

  void EmitSet(const RangeSet& set, bool backward) {
    const auto& ranges = set.ranges();
    const bool one = ranges.size() == 1 && ranges[0].first == ranges[0].second;
    const uint32_t at = one ? Add(Op::kLiteral, ranges[0].first) : Add(Op::kChar, SetNumber(set));
    program_->code[at].backward = backward;
  }

  // A body that runs by itself: its alternatives end with it, and its loops are its own.
  Status EmitBody(const RegexNode& node, bool backward) {
    const bool is_look = node.kind == Kind::kLook;
    const uint32_t at = Add(is_look ? Op::kLook : Op::kAtomic);
    program_->code[at].mode = node.mode;
    const uint32_t outer = std::exchange(nesting_, 0);
    const uint32_t outer_depth = std::exchange(depth_, 0);
    SLM_TRY(Emit(*node.children[0], is_look ? node.mode >= kLookBehind : backward));
    Add(Op::kEnd);
    nesting_ = outer;
    depth_ = outer_depth;
    program_->code[at].b = Here();
    return {};
  }

  Status EmitRepeat(const RegexNode& node, bool backward) {
    if (node.mode == kPossessive && !(AsSet(*node.children[0]) != nullptr && node.max == kUnbounded)) {
      // x++ is (?>x+).
      const uint32_t at = Add(Op::kAtomic);
      const uint32_t outer = std::exchange(nesting_, 0);
      const uint32_t outer_depth = std::exchange(depth_, 0);
      SLM_TRY(EmitCounts(node, kGreedy, backward));
      Add(Op::kEnd);
      nesting_ = outer;
      depth_ = outer_depth;
      program_->code[at].b = Here();
      return {};
    }
    return EmitCounts(node, node.mode, backward);
  }

  Status EmitCounts(const RegexNode& node, uint8_t mode, bool backward) {
    const RegexNode& body = *node.children[0];
    for (uint32_t i = 0; i < node.min; ++i) SLM_TRY(Emit(body, backward));
    if (node.max == kUnbounded) {
      if (const RegexNode* set = AsSet(body)) {
        const uint32_t at = Add(Op::kStar, SetNumber(set->set));
        program_->code[at].mode = mode;
        program_->code[at].backward = backward;
        return {};
      }
      return EmitLoop(body, mode, backward);
    }
    // x{0,n}: each further one only after the one before.
    std::vector<uint32_t> splits;
    for (uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(AddChoice(mode));
      SLM_TRY(Emit(body, backward));
    }
    for (const uint32_t split : splits)
      (mode == kLazy ? program_->code[split].a : program_->code[split].b) = Here();
    return {};
  }

  // A choice between going on with what follows and leaving; the exit is filled in later.
  uint32_t AddChoice(uint8_t mode) {
    const uint32_t split = Add(Op::kSplit);
    (mode == kLazy ? program_->code[split].b : program_->code[split].a) = split + 1;
    return split;
  }

  Status EmitLoop(const RegexNode& body, uint8_t mode, bool backward) {
    const uint32_t split = AddChoice(mode);
    const bool nullable = IsNullable(body);
    uint32_t loop = 0;
    const uint32_t outer = nesting_;
    if (nullable) {
      if (depth_ == kMaxLoopNesting || program_->n_loops == 32) {
        return Fail(MakeError(ErrorCode::kTokRegex, "loops that may take nothing, nested deeper than 3")
                        .At(body.offset));
      }
      ++depth_;
      loop = program_->n_loops++;
      nesting_ |= 1u << loop;
      Add(Op::kEmptyStart, loop);
    }
    SLM_TRY(Emit(body, backward));
    uint32_t check = 0;
    if (nullable) {
      check = Add(Op::kEmptyEnd, loop);
      nesting_ = outer;
      --depth_;
    }
    Add(Op::kJump, split);
    (mode == kLazy ? program_->code[split].a : program_->code[split].b) = Here();
    if (nullable) program_->code[check].b = Here();
    return {};
  }

  // The characters that a match of `node` can begin with; true if it may begin anywhere (it can be
  // empty, or tests positions only).
  static bool FirstOf(const RegexNode& node, RangeSet* out) {
    switch (node.kind) {
      case Kind::kSet:
        out->Merge(node.set);
        return false;
      case Kind::kConcat:
        for (const auto& child : node.children) {
          if (!FirstOf(*child, out)) return false;
        }
        return true;
      case Kind::kAlternatives: {
        bool open = false;
        for (const auto& child : node.children) open = FirstOf(*child, out) || open;
        return open;
      }
      case Kind::kRepeat: {
        if (node.max == 0) return true;
        const bool open = FirstOf(*node.children[0], out);
        return open || node.min == 0;
      }
      case Kind::kAtomic:
      case Kind::kCapture:
        return FirstOf(*node.children[0], out);
      default:
        return true;
    }
  }

  Regex::Program* program_;
  bool with_captures_;
  uint32_t nesting_ = 0;
  uint32_t depth_ = 0;
  std::map<std::vector<RangeSet::Range>, uint32_t> sets_;
};

}  // namespace

Result<std::shared_ptr<const Regex>> Regex::Compile(std::string_view pattern) {
  SLM_ASSIGN(const ParsedRegex parsed, ParseRegex(pattern));
  auto program = std::make_shared<Program>();
  program->has_back_reference = parsed.has_back_reference;
  SLM_TRY(Compiler(program.get(), parsed.has_back_reference).Run(*parsed.root));
  auto out = std::make_shared<Regex>();
  out->program_ = std::move(program);
  return std::shared_ptr<const Regex>(std::move(out));
}

// One text.
struct RegexSearch::State {
  static constexpr uint32_t kNo = 0xFFFFFFFF;
  static constexpr uint32_t kRestoreLoop = 0x80000000;  // entries that only put a register back
  static constexpr uint32_t kRestoreSlot = 0x80000001;

  struct Entry {
    uint32_t pc;  // or kRestore...
    uint32_t at;
    uint32_t low;      // kStar: how far it may still give back; registers: which one
    uint32_t n_trail;  // states entered before
  };
  struct Run {  // the last run of a star
    uint32_t begin = 1;
    uint32_t end = 0;
  };

  const Regex::Program& program;
  std::string_view text;
  uint32_t size;
  uint32_t search_from = 0;  // where the next search begins
  uint32_t last_end = kNo;   // end of the match before
  bool exhausted = false;

  std::vector<Entry> stack;
  std::vector<uint32_t> loops;
  std::vector<uint32_t> slots;
  std::vector<Run> runs;
  uint32_t search_start = 0;

  // Steps before memory is switched on, or, with back-references, before the search is given up.
  uint64_t n_steps = 0;
  uint64_t max_steps;
  bool remembers = false;
  bool out_of_steps = false;
  // One bit for each (instruction, nesting, place), made when first used: state entered and not (yet)
  // successful. Successes inside bodies with their end.
  std::vector<std::vector<uint64_t>> failed;
  std::unordered_map<uint64_t, uint32_t> succeeded;
  std::vector<uint64_t> trail;

  State(const Regex::Program& program_in, std::string_view text_in)
      : program(program_in),
        text(text_in),
        size(static_cast<uint32_t>(text_in.size())),
        loops(program_in.n_loops, kNo),
        slots(program_in.n_slots, kNo),
        runs(program_in.n_memo) {
    max_steps = program.has_back_reference ? 1000000 + uint64_t{200} * size : 4096 + uint64_t{32} * size;
  }

  [[nodiscard]] uint32_t Before(uint32_t at) const {
    --at;
    while (at > 0 && IsContinuation(text[at])) --at;
    return at;
  }
  [[nodiscard]] bool IsWordAt(uint32_t at) const {
    return at < size && IsRegexWord(ReadScalar(text.data() + at).value);
  }

  [[nodiscard]] bool Test(Assertion assertion, uint32_t at) const {
    switch (assertion) {
      case Assertion::kLineStart:
        return at == 0 || (text[at - 1] == '\n' && at < size);
      case Assertion::kLineEnd:
        return at == size || text[at] == '\n';
      case Assertion::kTextStart:
        return at == 0;
      case Assertion::kTextEnd:
        return at == size;
      case Assertion::kTextEndOrNewline:
        return at == size || (at + 1 == size && text[at] == '\n');
      case Assertion::kSearchStart:
        return at == search_start;
      case Assertion::kWord:
      case Assertion::kNotWord: {
        const bool before = at > 0 && IsWordAt(Before(at));
        return (before != IsWordAt(at)) == (assertion == Assertion::kWord);
      }
    }
    return false;
  }

  // Place after one character of `set`, or kNo.
  [[nodiscard]] uint32_t Step(const CharSet& set, bool backward, uint32_t at) const {
    if (backward) {
      if (at == 0) return kNo;
      const uint32_t before = Before(at);
      return set.Contains(ReadScalar(text.data() + before).value) ? before : kNo;
    }
    if (at >= size) return kNo;
    const Scalar scalar = ReadScalar(text.data() + at);
    return set.Contains(scalar.value) ? at + scalar.n_bytes : kNo;
  }

  [[nodiscard]] uint32_t StepLiteral(char32_t wanted, bool backward, uint32_t at) const {
    if (backward) {
      if (at == 0) return kNo;
      const uint32_t before = Before(at);
      return ReadScalar(text.data() + before).value == wanted ? before : kNo;
    }
    if (at >= size) return kNo;
    const Scalar scalar = ReadScalar(text.data() + at);
    return scalar.value == wanted ? at + scalar.n_bytes : kNo;
  }

  // Furthest place that a star reaches from `at`; runs are kept, as searches come back to them.
  uint32_t RunFrom(const Regex::Instruction& star, uint32_t at) {
    Run& run = runs[star.memo];
    if (at >= run.begin && at <= run.end) return star.backward ? run.begin : run.end;
    uint32_t end = at;
    for (uint32_t next = Step(program.sets[star.a], star.backward, end); next != kNo;
         next = Step(program.sets[star.a], star.backward, end)) {
      end = next;
    }
    run = star.backward ? Run{end, at} : Run{at, end};
    return end;
  }

  [[nodiscard]] uint64_t KeyOf(const Regex::Instruction& instruction, uint32_t at) const {
    // Which of the loops around have taken nothing: at most three of them.
    uint32_t mask = 0;
    uint32_t bit = 1;
    for (uint32_t nesting = instruction.nesting; nesting != 0; nesting &= nesting - 1) {
      if (loops[static_cast<size_t>(std::countr_zero(nesting))] == at) mask |= bit;
      bit <<= 1;
    }
    return (uint64_t{instruction.memo} * 8 + mask) * (uint64_t{size} + 1) + at;
  }

  // Enters a state. kNo: go on; otherwise it was there before: it failed (size + 1) or ended at the
  // place that is returned.
  uint32_t Enter(const Regex::Instruction& instruction, uint32_t at) {
    const uint64_t key = KeyOf(instruction, at);
    const auto block = static_cast<size_t>(key / (uint64_t{size} + 1));
    const uint64_t bit = key % (uint64_t{size} + 1);
    if (failed.empty()) failed.resize(size_t{program.n_memo} * 8);
    if (failed[block].empty()) failed[block].resize(size / 64 + 1);
    uint64_t& word = failed[block][bit / 64];
    if ((word >> (bit % 64) & 1) != 0) {
      const auto found = succeeded.find(key);
      return found == succeeded.end() ? size + 1 : found->second;
    }
    word |= uint64_t{1} << (bit % 64);
    trail.push_back(key);
    return kNo;
  }

  // The states since `n_trail` did not fail. Those of a body are kept with its end; those of the whole
  // pattern are forgotten.
  void Settle(size_t n_trail, bool is_body, uint32_t end) {
    for (size_t i = n_trail; i < trail.size(); ++i) {
      const uint64_t key = trail[i];
      if (is_body) {
        succeeded[key] = end;
      } else {
        const uint64_t bit = key % (uint64_t{size} + 1);
        failed[static_cast<size_t>(key / (uint64_t{size} + 1))][bit / 64] &= ~(uint64_t{1} << (bit % 64));
      }
    }
    trail.resize(n_trail);
  }

  // Goes back to the last choice above `bottom`; false if there is none.
  bool Backtrack(size_t bottom, uint32_t* pc, uint32_t* at) {
    while (stack.size() > bottom) {
      Entry& top = stack.back();
      if (remembers) trail.resize(top.n_trail);
      if (top.pc == kRestoreLoop) {
        loops[top.low] = top.at;
        stack.pop_back();
        continue;
      }
      if (top.pc == kRestoreSlot) {
        slots[top.low] = top.at;
        stack.pop_back();
        continue;
      }
      const Regex::Instruction& instruction = program.code[top.pc];
      if (instruction.op == Op::kStar && remembers) {  // the choice that StarStep left
        const bool lazy = instruction.mode == kLazy;
        *pc = lazy ? top.pc : top.pc + 1;
        *at = lazy ? Step(program.sets[instruction.a], instruction.backward, top.at) : top.at;
        stack.pop_back();
        return true;
      }
      if (instruction.op == Op::kStar) {
        if (instruction.mode == kLazy) {  // takes one more
          const uint32_t next = Step(program.sets[instruction.a], instruction.backward, top.at);
          if (next == kNo) {
            stack.pop_back();
            continue;
          }
          top.at = next;
          *at = next;
        } else if (top.at == top.low) {
          stack.pop_back();
          continue;
        } else {  // gives one back
          top.at = instruction.backward ? top.at + ReadScalar(text.data() + top.at).n_bytes : Before(top.at);
          *at = top.at;
        }
        *pc = top.pc + 1;
        return true;
      }
      *pc = instruction.b;
      *at = top.at;
      stack.pop_back();
      return true;
    }
    return false;
  }

  void Push(uint32_t pc, uint32_t at, uint32_t low) {
    stack.push_back({pc, at, low, static_cast<uint32_t>(trail.size())});
  }

  // Runs from `pc` to the end of its body: the end in the text, or kNo.
  uint32_t Execute(uint32_t pc, uint32_t at, bool is_body) {
    const size_t bottom = stack.size();
    const size_t first_trail = trail.size();
    const auto finish = [&](uint32_t end) {
      if (remembers) Settle(end == kNo ? trail.size() : first_trail, is_body, end);
      if (remembers && end == kNo) trail.resize(first_trail);
      if (end == kNo || !program.has_back_reference) {
        // Loop registers of a body are its own; captures stay as they are.
        while (stack.size() > bottom) {
          if (stack.back().pc == kRestoreLoop) loops[stack.back().low] = stack.back().at;
          stack.pop_back();
        }
      } else {  // what puts captures back stays for the body around
        const auto kept = std::remove_if(stack.begin() + static_cast<ptrdiff_t>(bottom), stack.end(),
                                         [](const Entry& entry) { return entry.pc != kRestoreSlot; });
        stack.erase(kept, stack.end());
      }
      return end;
    };
    while (true) {
      if (++n_steps > max_steps && !remembers) {
        out_of_steps = true;
        return finish(kNo);
      }
      const Regex::Instruction& instruction = program.code[pc];
      bool failed_here = false;
      switch (instruction.op) {
        case Op::kChar: {
          const uint32_t next = Step(program.sets[instruction.a], instruction.backward, at);
          failed_here = next == kNo;
          if (!failed_here) at = next;
          ++pc;
          break;
        }
        case Op::kLiteral: {
          const uint32_t next = StepLiteral(instruction.a, instruction.backward, at);
          failed_here = next == kNo;
          if (!failed_here) at = next;
          ++pc;
          break;
        }
        case Op::kJump:
          pc = instruction.a;
          break;
        case Op::kSplit:
        case Op::kStar: {
          if (remembers) {
            const uint32_t known = Enter(instruction, at);
            if (known <= size) return finish(known);
            if (known != kNo) {
              failed_here = true;
              break;
            }
          }
          if (instruction.op == Op::kSplit) {
            Push(pc, at, 0);
            pc = instruction.a;
            break;
          }
          if (remembers) {  // one character a step, so that each state is entered once
            StarStep(instruction, &pc, &at);
            break;
          }
          if (instruction.mode == kLazy) {
            Push(pc, at, at);
          } else {
            const uint32_t end = RunFrom(instruction, at);
            if (instruction.mode == kGreedy && end != at) Push(pc, end, at);
            at = end;
          }
          ++pc;
          break;
        }
        case Op::kEmptyStart:
          Push(kRestoreLoop, loops[instruction.a], instruction.a);
          loops[instruction.a] = at;
          ++pc;
          break;
        case Op::kEmptyEnd: {
          const bool empty = loops[instruction.a] == at;
          pc = empty ? instruction.b : pc + 1;
          break;
        }
        case Op::kAssert:
          failed_here = !Test(static_cast<Assertion>(instruction.a), at);
          ++pc;
          break;
        case Op::kLook: {
          const uint32_t end = Execute(pc + 1, at, true);
          if (out_of_steps) return finish(kNo);
          failed_here = (end != kNo) == ((instruction.mode & 1) != 0);
          pc = instruction.b;
          break;
        }
        case Op::kAtomic: {
          const uint32_t end = Execute(pc + 1, at, true);
          if (out_of_steps) return finish(kNo);
          failed_here = end == kNo;
          if (!failed_here) at = end;
          pc = instruction.b;
          break;
        }
        case Op::kSave:
          Push(kRestoreSlot, slots[instruction.a], instruction.a);
          slots[instruction.a] = at;
          ++pc;
          break;
        case Op::kBackReference:
          failed_here = !SameAgain(instruction, &at);
          ++pc;
          break;
        case Op::kEnd:
          return finish(at);
      }
      if (failed_here && !Backtrack(bottom, &pc, &at)) return finish(kNo);
    }
  }

  // One step of a star in memory mode: the choice is pushed as a split would be.
  void StarStep(const Regex::Instruction& star, uint32_t* pc, uint32_t* at) {
    if (star.mode == kPossessive) {
      *at = RunFrom(star, *at);
      ++*pc;
      return;
    }
    const uint32_t next = Step(program.sets[star.a], star.backward, *at);
    if (star.mode == kLazy) {
      if (next != kNo) Push(*pc, *at, *at);
      ++*pc;
      return;
    }
    if (next == kNo) {
      ++*pc;
      return;
    }
    Push(*pc, *at, 0);
    *at = next;  // and the same star again
  }

  bool SameAgain(const Regex::Instruction& instruction, uint32_t* at) {
    const uint32_t begin = slots[instruction.a];
    if (begin == kNo || slots[instruction.a + 1] == kNo || *at >= size) return false;
    const Scalar wanted = ReadScalar(text.data() + begin);
    const Scalar found = ReadScalar(text.data() + *at);
    const bool same = instruction.mode == 1 ? unicode::FoldV16(wanted.value) == unicode::FoldV16(found.value)
                                            : wanted.value == found.value;
    if (same) *at += found.n_bytes;
    return same;
  }

  // The first match that begins at or after `from`.
  Result<std::optional<Match>> Find(uint32_t from) {
    search_start = from;
    if (program.uses_search_start) {  // what failed before may not fail from here
      failed.clear();
      succeeded.clear();
    }
    uint32_t at = from;
    while (at <= size) {
      if (program.first) {
        while (at < size) {
          const Scalar scalar = ReadScalar(text.data() + at);
          if (program.first->Contains(scalar.value)) break;
          at += scalar.n_bytes;
        }
        if (at >= size) return std::optional<Match>();
      }
      std::fill(slots.begin(), slots.end(), kNo);
      stack.clear();
      const uint32_t end = Execute(0, at, false);
      if (out_of_steps) {
        if (program.has_back_reference) {
          return Fail(ErrorCode::kLimit, "a regular expression with a back-reference takes too many steps");
        }
        out_of_steps = false;
        remembers = true;
        continue;
      }
      if (end != kNo) return std::optional(Match{at, end});
      if (at == size) break;
      at += ReadScalar(text.data() + at).n_bytes;
    }
    return std::optional<Match>();
  }
};

RegexSearch::RegexSearch(const Regex& regex, std::string_view text)
    : state_(std::make_unique<State>(*regex.program_, text)) {}
RegexSearch::~RegexSearch() = default;

// An empty match right after the match before is skipped, and one character with it.
Result<std::optional<RegexSearch::Match>> RegexSearch::Next() {
  State& state = *state_;
  while (!state.exhausted && state.search_from <= state.size) {
    SLM_ASSIGN(const std::optional<Match> match, state.Find(state.search_from));
    if (!match) break;
    if (match->begin == match->end && state.last_end == match->end) {
      state.search_from +=
          state.search_from < state.size ? ReadScalar(state.text.data() + state.search_from).n_bytes : 1;
      continue;
    }
    state.search_from = match->end;
    state.last_end = match->end;
    return match;
  }
  state.exhausted = true;
  return std::optional<Match>();
}

}  // namespace slm::tokenizer
