#include "chat/predicates.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "chat/builtins.h"

namespace slm::chat {
namespace {

using SetId = uint32_t;  // of a Sets; 0 is the empty set
using PathId = uint32_t;

constexpr size_t kMaxPaths = 24;     // of one value; beyond, one for each variable of the context
constexpr size_t kMaxLiterals = 16;  // of one value; beyond, none is named
constexpr uint32_t kMaxPathParts = 6;
// Visits of nodes over all passes: so many, or so many passes where the program is large.
constexpr uint64_t kMaxVisits = uint64_t{1} << 18;
constexpr uint64_t kMaxPasses = 8;
constexpr uint32_t kManyLiterals = 0;
constexpr std::string_view kAnySetting = "*";  // no variable has this name
constexpr uint32_t kFunctionBit = uint32_t{1} << 31;

bool OneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Numbers by pairs of numbers: open addressing, nothing is ever removed.
class PairMap {
 public:
  // Null: not there. Of two zeros there is never anything.
  [[nodiscard]] const uint32_t* Find(uint32_t a, uint32_t b) const {
    const uint64_t key = KeyOf(a, b);
    for (size_t at = HashOf(key) & mask_;; at = (at + 1) & mask_) {
      if (entries_[at].key == key && key != 0) return &entries_[at].value;
      if (entries_[at].key == 0) return nullptr;
    }
  }
  // REQUIRES: not there, and not two zeros. Returns the value.
  uint32_t Add(uint32_t a, uint32_t b, uint32_t value) {
    if (2 * ++n_ > entries_.size()) {
      std::vector<Entry> old(2 * entries_.size());
      old.swap(entries_);
      mask_ = entries_.size() - 1;
      for (const Entry& entry : old) {
        if (entry.key != 0) Place(entry);
      }
    }
    Place({KeyOf(a, b), value});
    return value;
  }

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t value = 0;
  };
  static uint64_t KeyOf(uint32_t a, uint32_t b) { return uint64_t{a} << 32U | b; }
  static size_t HashOf(uint64_t key) { return static_cast<size_t>((key * 0x9e3779b97f4a7c15U) >> 32U); }
  void Place(const Entry& entry) {
    size_t at = HashOf(entry.key) & mask_;
    while (entries_[at].key != 0) at = (at + 1) & mask_;
    entries_[at] = entry;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(64);
  size_t mask_ = 63;
  size_t n_ = 0;
};

// Sets of numbers, each kept once, so that a value is a few indices and a union is looked up. A set stays
// where it is.
class Sets {
 public:
  Sets() { sets_.emplace_back(); }
  const std::vector<uint32_t>& operator[](SetId id) const { return sets_[id]; }
  SetId Of(std::vector<uint32_t> sorted) {
    if (sorted.empty()) return 0;
    const auto [entry, added] = ids_.try_emplace(sorted, static_cast<SetId>(sets_.size()));
    if (added) sets_.push_back(std::move(sorted));
    return entry->second;
  }
  SetId Union(SetId a, SetId b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    if (a > b) std::swap(a, b);
    if (const uint32_t* known = unions_.Find(a, b)) return *known;
    std::vector<uint32_t> all;
    all.reserve(sets_[a].size() + sets_[b].size());
    std::set_union(sets_[a].begin(), sets_[a].end(), sets_[b].begin(), sets_[b].end(),
                   std::back_inserter(all));
    return unions_.Add(a, b, Of(std::move(all)));
  }

 private:
  std::deque<std::vector<uint32_t>> sets_;
  struct HashOf {
    size_t operator()(const std::vector<uint32_t>& members) const {
      uint64_t hash = members.size();
      for (const uint32_t member : members) hash = (hash ^ member) * 0x9e3779b97f4a7c15U;
      return static_cast<size_t>(hash ^ (hash >> 32U));
    }
  };
  std::unordered_map<std::vector<uint32_t>, SetId, HashOf> ids_;
  PairMap unions_;
};

// Paths into the context: a variable, then keys and "[]" for any item, ".*" for any member.
class Paths {
 public:
  PathId Root(std::string_view name) { return Intern(UINT32_MAX, std::string(name)); }
  // A path that is long enough, or that means everything below, stays as it is.
  PathId Step(PathId path, std::string_view part) {
    if (paths_[path].n_parts >= kMaxPathParts || paths_[path].part == ".*") return path;
    return Intern(path, std::string(part));
  }
  [[nodiscard]] size_t size() const { return paths_.size(); }
  [[nodiscard]] PathId RootOf(PathId path) const { return paths_[path].root; }
  [[nodiscard]] uint32_t n_parts(PathId path) const { return paths_[path].n_parts; }
  [[nodiscard]] std::string Text(PathId path) const {
    const Path& last = paths_[path];
    return (last.parent == UINT32_MAX ? "" : Text(last.parent)) + last.part;
  }
  // A variable beside the conversation: a setting of the caller's.
  [[nodiscard]] bool IsSetting(PathId path) const { return paths_[path].is_setting; }
  // A list of messages, tools or documents, one of them, or a message's role: shape, no text.
  [[nodiscard]] bool IsStructure(PathId path) const { return paths_[path].is_structure; }
  [[nodiscard]] bool IsRole(PathId path) const { return paths_[path].is_role; }
  // Everything below a variable, or every setting.
  [[nodiscard]] bool IsWide(PathId path) const {
    const Path& last = paths_[path];
    return last.n_parts == 0 ? last.part == kAnySetting : last.n_parts == 1 && last.part == ".*";
  }
  // The wide path that covers it; a path of shape is its own.
  PathId Widened(PathId path) {
    if (IsSetting(path)) return Root(kAnySetting);
    return IsContent(path) ? Step(RootOf(path), ".*") : path;
  }
  [[nodiscard]] bool IsContent(PathId path) const { return !IsSetting(path) && !IsStructure(path); }

 private:
  struct Path {
    PathId parent;
    std::string part;
    uint32_t n_parts;  // after the variable
    PathId root = 0;
    bool is_setting = false, is_structure = false, is_role = false;
  };
  PathId Intern(PathId parent, std::string part) {
    const auto [entry, added] = ids_.try_emplace({parent, part}, static_cast<PathId>(paths_.size()));
    if (added) {
      const uint32_t n = parent == UINT32_MAX ? 0 : paths_[parent].n_parts + 1;
      paths_.push_back({parent, std::move(part), n});
      Classify(entry->second);
    }
    return entry->second;
  }
  void Classify(PathId id) {
    Path& path = paths_[id];
    if (path.n_parts == 0) {
      path.root = id;
      path.is_setting = !OneOf(path.part, {"messages", "tools", "documents"});
      path.is_structure = !path.is_setting;
      return;
    }
    const Path& above = paths_[path.parent];
    path.root = above.root;
    const Path& root = paths_[path.root];
    path.is_role = path.n_parts == 2 ? path.part == ".role" && root.part == "messages" : above.is_role;
    path.is_structure = !root.is_setting && (path.n_parts == 1 ? path.part == "[]" : path.is_role);
  }
  std::vector<Path> paths_;
  std::map<std::pair<PathId, std::string>, PathId> ids_;
};

// What a variable may hold.
struct Abstract {
  SetId is = 0;         // paths that the value itself may come from
  SetId holds = 0;      // paths of what may stand in it
  SetId literals = 0;   // of the template, that it or its items may be
  SetId callables = 0;  // macros, recursive loops, functions
  bool space = false;   // may be a namespace
  bool pairs = false;   // its items are (key, value)
  bool loop = false;    // may be a loop object, whose neighbours `holds` has
  friend bool operator==(const Abstract&, const Abstract&) = default;
};

// What a built-in does with text, as far as this analysis tells them apart.
enum class FilterKind : uint8_t {
  kTrim,
  kText,      // of all that it is given
  kSameText,  // the same, and a literal stays one
  kWhole,     // all that it is given
  kItem,      // one of the items
  kItems,     // pairs of key and value
  kDefault,
  kMap,
  kSelect,
  kOrder,
  kExtreme,  // an order, of which one item is left
  kLength,
  kSearch,  // every other
};
FilterKind FilterKindOf(std::string_view name) {
  if (name == "trim") return FilterKind::kTrim;
  if (OneOf(name, {"safe", "string"})) return FilterKind::kSameText;
  if (OneOf(name,
            {"capitalize", "center", "e", "escape", "forceescape", "format", "indent", "int", "float", "abs",
             "round", "lower", "upper", "title", "tojson", "urlencode", "xmlattr", "join", "sum"})) {
    return FilterKind::kText;
  }
  if (OneOf(name, {"list", "reverse", "batch", "slice"})) return FilterKind::kWhole;
  if (OneOf(name, {"first", "last"})) return FilterKind::kItem;
  if (name == "items") return FilterKind::kItems;
  if (OneOf(name, {"default", "d"})) return FilterKind::kDefault;
  if (name == "map") return FilterKind::kMap;
  if (OneOf(name, {"select", "reject", "selectattr", "rejectattr"})) return FilterKind::kSelect;
  if (OneOf(name, {"sort", "unique", "groupby", "dictsort"})) return FilterKind::kOrder;
  if (OneOf(name, {"min", "max"})) return FilterKind::kExtreme;
  if (OneOf(name, {"length", "count"})) return FilterKind::kLength;
  return FilterKind::kSearch;
}

enum class TestKind : uint8_t { kType, kIn, kName, kEquals };
TestKind TestKindOf(std::string_view name) {
  // Types, and whether something is there.
  if (OneOf(name, {"defined", "undefined", "none", "string", "number", "integer", "float", "boolean",
                   "mapping", "iterable", "sequence", "callable", "escaped"})) {
    return TestKind::kType;
  }
  if (name == "in") return TestKind::kIn;
  return OneOf(name, {"filter", "test"}) ? TestKind::kName : TestKind::kEquals;
}

enum class MethodKind : uint8_t {
  kStrip,
  kText,
  kSplit,
  kReplace,
  kGet,
  kItems,
  kMembers,
  kWhole,
  kNext,
  kSearch
};
MethodKind MethodKindOf(std::string_view name) {
  if (OneOf(name, {"strip", "lstrip", "rstrip"})) return MethodKind::kStrip;
  if (OneOf(name,
            {"upper", "lower", "title", "capitalize", "swapcase", "casefold", "join", "format", "format_map",
             "center", "ljust", "rjust", "zfill", "expandtabs", "escape", "unescape", "striptags"})) {
    return MethodKind::kText;
  }
  if (OneOf(name, {"split", "rsplit", "partition", "rpartition", "splitlines"})) return MethodKind::kSplit;
  if (OneOf(name, {"replace", "removeprefix", "removesuffix"})) return MethodKind::kReplace;
  if (OneOf(name, {"get", "setdefault", "pop"})) return MethodKind::kGet;
  if (name == "items") return MethodKind::kItems;
  if (OneOf(name, {"keys", "values"})) return MethodKind::kMembers;
  if (OneOf(name, {"copy", "reverse", "sort", "append", "extend", "insert"})) return MethodKind::kWhole;
  if (OneOf(name, {"cycle", "next"})) return MethodKind::kNext;
  return MethodKind::kSearch;  // find, count, index, startswith, isdigit, changed, ...
}

class Analyst {
 public:
  explicit Analyst(const Program& program)
      : program_(program),
        any_(Literal("*")),
        previtem_(Literal("previtem")),
        nextitem_(Literal("nextitem")),
        items_(Literal("[]")),
        any_member_(Literal(".*")),
        first_slots_(program.nodes.size()),
        written_(program.nodes.size()),
        iterated_(program.nodes.size()) {
    size_t n_slots = 0;
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      if (program.nodes[i].op != Op::kUnit && program.nodes[i].op != Op::kFilterUnit) continue;
      first_slots_[i] = n_slots;
      n_slots += program.nodes[i].operands[0];
    }
    slots_.resize(n_slots);
    literal_of_string_.reserve(program.strings.size());
    for (const std::string& text : program.strings) literal_of_string_.push_back(Literal(text));
  }

  Result<std::vector<ContentPredicate>> Run() {
    uint64_t n_visits = 0;
    do {
      changed_ = false;
      n_visits += program_.nodes.size();
      if (n_visits > std::max<uint64_t>(kMaxVisits, kMaxPasses * program_.nodes.size()))
        return Fail(ErrorCode::kTplBound, "variables that depend on each other in too long a chain");
      Pass();
    } while (changed_);
    return Named();
  }

 private:
  // A predicate by numbers: construct and literal among the literals. The empty literal is number 0.
  struct Found {
    uint32_t construct, literal;
    PathId subject;
    SourcePlace place;
    [[nodiscard]] auto Key() const { return std::tie(place.line, place.column, construct, literal, subject); }
    friend bool operator<(const Found& a, const Found& b) { return a.Key() < b.Key(); }
    friend bool operator==(const Found& a, const Found& b) { return a.Key() == b.Key(); }
  };
  // What the last pass found, each once, in the order that the header promises.
  std::vector<ContentPredicate> Named() {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    std::vector<std::string> subjects(paths_.size());
    for (const Found& one : found_) {
      if (subjects[one.subject].empty()) subjects[one.subject] = paths_.Text(one.subject);
    }
    std::sort(found_.begin(), found_.end(), [&](const Found& a, const Found& b) {
      if (a.place != b.place)
        return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
      if (a.construct != b.construct) return literals_[a.construct] < literals_[b.construct];
      if (a.literal != b.literal) return literals_[a.literal] < literals_[b.literal];
      return subjects[a.subject] < subjects[b.subject];
    });
    std::vector<ContentPredicate> named;
    named.reserve(found_.size());
    for (const Found& one : found_)
      named.push_back({literals_[one.construct], literals_[one.literal], subjects[one.subject], one.place});
    // Paths that differ may be written alike.
    named.erase(std::unique(named.begin(), named.end()), named.end());
    return named;
  }
  struct Arguments {
    std::vector<Abstract> positional;
    std::vector<std::pair<std::string_view, Abstract>> keywords;
    Abstract rest;  // what * and ** may add
    [[nodiscard]] const Abstract* At(size_t i, std::string_view name) const {
      if (i < positional.size()) return &positional[i];
      for (const auto& [key, value] : keywords) {
        if (key == name) return &value;
      }
      return nullptr;
    }
  };

  void Pass() {
    found_.clear();
    units_.assign(1, program_.root);
    outputs_.assign(1, {});
    (void)Body(program_.root);
  }

  const ProgramNode& At(uint32_t index) const { return program_.nodes[index]; }
  std::string_view Text(uint32_t index) const { return program_.strings[index]; }

  // ---- values ----
  uint32_t Literal(std::string_view text) {
    const auto known = literal_ids_.find(text);
    if (known != literal_ids_.end()) return known->second;
    const auto id = static_cast<uint32_t>(literals_.size());
    literal_ids_.emplace(literals_.emplace_back(text), id);
    words_.emplace_back();
    return id;
  }
  // What is asked about a literal again and again.
  struct Word {
    SetId set = 0;        // that holds it alone; 0: not made yet
    uint32_t member = 0;  // the literal that is it behind a dot; 0: likewise
    Abstract context;     // the variable of that name
    Abstract field;       // of all namespaces, by that name
    std::optional<FilterKind> filter;
    std::optional<TestKind> test;
    std::optional<MethodKind> method;
  };
  uint32_t LiteralOf(uint32_t string) const { return literal_of_string_[string]; }
  SetId SetOf(uint32_t literal) {
    SetId& set = words_[literal].set;
    if (set == 0) set = sets_.Of({literal});
    return set;
  }
  uint32_t MemberPart(uint32_t literal) {
    if (words_[literal].member == 0) {
      const uint32_t part = Literal("." + literals_[literal]);
      words_[literal].member = part;
    }
    return words_[literal].member;
  }
  SetId JoinPaths(SetId a, SetId b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    if (a > b) std::swap(a, b);
    if (const uint32_t* known = path_unions_.Find(a, b)) return *known;
    return path_unions_.Add(a, b, Bounded(sets_.Union(a, b)));
  }
  // Few paths: many of one variable become one that means all of them, and that takes in the others.
  SetId Bounded(SetId set) {
    const bool many = sets_[set].size() > kMaxPaths;
    const bool wide = std::any_of(sets_[set].begin(), sets_[set].end(),
                                  [this](PathId path) { return paths_.IsWide(path); });
    if (!many && !wide) return set;
    std::set<PathId> wide_paths;
    std::vector<uint32_t> fewer;
    for (const PathId path : sets_[set]) {
      if (paths_.IsWide(path)) wide_paths.insert(path);
      fewer.push_back(paths_.Widened(path));
    }
    // Without too many, only what a wide one covers is replaced.
    for (size_t i = 0; i < fewer.size() && !many; ++i) {
      if (!wide_paths.contains(fewer[i])) fewer[i] = sets_[set][i];
    }
    return Sorted(std::move(fewer));
  }
  SetId Sorted(std::vector<uint32_t> members) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    return sets_.Of(std::move(members));
  }
  SetId JoinLiterals(SetId a, SetId b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    const SetId joined = sets_.Union(a, b);
    const auto& all = sets_[joined];
    const bool many = !all.empty() && all.front() == kManyLiterals;
    return many || all.size() > kMaxLiterals ? sets_.Of({kManyLiterals}) : joined;
  }
  Abstract Join(const Abstract& a, const Abstract& b) {
    if (a == b) return a;
    return {JoinPaths(a.is, b.is),
            JoinPaths(a.holds, b.holds),
            JoinLiterals(a.literals, b.literals),
            sets_.Union(a.callables, b.callables),
            a.space || b.space,
            a.pairs || b.pairs,
            a.loop || b.loop};
  }
  void Into(Abstract* target, const Abstract& value) {
    const Abstract joined = Join(*target, value);
    if (joined == *target) return;
    *target = joined;
    changed_ = true;
  }
  Abstract OfPath(PathId path) {
    Abstract value;
    value.is = sets_.Of({path});
    return value;
  }
  // `part` is a literal.
  SetId StepAll(SetId paths, uint32_t part) {
    if (paths == 0) return 0;
    if (const uint32_t* known = steps_.Find(part, paths)) return *known;
    return steps_.Add(part, paths, NewStep(paths, literals_[part]));
  }
  SetId NewStep(SetId paths, std::string_view part) {
    std::vector<uint32_t> steps;
    for (const PathId path : sets_[paths]) steps.push_back(paths_.Step(path, part));
    return Bounded(Sorted(std::move(steps)));
  }
  // An item of a list or of a text.
  Abstract ItemOf(const Abstract& value) {
    Abstract item = value;
    item.loop = false;
    item.pairs = false;
    if (value.pairs) {
      item.is = 0;
      return item;
    }
    item.is = JoinPaths(value.holds, StepAll(value.is, items_));
    return item;
  }
  // `name` is a literal.
  Abstract MemberOf(const Abstract& value, uint32_t name) {
    if (value.loop && value.is == 0 && name != previtem_ && name != nextitem_) return {};
    Abstract member = value;
    member.pairs = false;
    member.loop = false;
    member.is = JoinPaths(StepAll(value.is, MemberPart(name)), value.holds);
    if (value.space) {
      member = Join(member, Field(name));
      member = Join(member, Field(any_));
    }
    return member;
  }
  // Its text: everything below a list or a message counts.
  Abstract TextOf(const Abstract& value) {
    Abstract text;
    if (value.is == 0 && value.holds == 0) return text;
    const uint32_t* known = texts_.Find(value.is, value.holds);
    text.is = known != nullptr ? *known : texts_.Add(value.is, value.holds, NewText(value));
    return text;
  }
  SetId NewText(const Abstract& value) {
    std::vector<uint32_t> all;
    for (const SetId set : {value.is, value.holds}) {
      for (const PathId path : sets_[set]) {
        const bool container = paths_.IsStructure(path) && !paths_.IsRole(path);
        all.push_back(container ? paths_.Step(path, ".*") : path);
      }
    }
    return Bounded(Sorted(std::move(all)));
  }
  Abstract Holding(const Abstract& value) {
    Abstract list = value;
    list.holds = JoinPaths(value.is, value.holds);
    list.is = 0;
    list.loop = false;
    return list;
  }

  // ---- declaring ----
  enum class Counts : uint8_t { kContent, kSettingsToo };
  std::vector<PathId> Subjects(const Abstract& value, Counts counts, bool items) {
    std::vector<PathId> subjects;
    for (const SetId set : {value.is, items ? value.holds : 0}) {
      for (const PathId path : sets_[set]) {
        const bool setting = paths_.IsSetting(path);
        if (paths_.IsContent(path) || (setting && counts == Counts::kSettingsToo)) subjects.push_back(path);
      }
    }
    return subjects;
  }
  void Declare(std::string_view construct, const std::vector<PathId>& subjects, const Abstract* literal,
               SourcePlace place) {
    if (subjects.empty()) return;
    const uint32_t name = Literal(construct);
    for (const PathId subject : subjects) {
      if (literal == nullptr || literal->literals == 0) {
        found_.push_back({name, kManyLiterals, subject, place});
      } else {
        for (const uint32_t text : sets_[literal->literals]) found_.push_back({name, text, subject, place});
      }
    }
  }
  void DeclareTruth(const Abstract& value, SourcePlace place) {
    Declare("truth", Subjects(value, Counts::kContent, false), nullptr, place);
  }
  Abstract Condition(uint32_t index) {
    const Abstract value = Evaluate(index);
    DeclareTruth(value, At(index).place);
    return value;
  }

  // ---- variables ----
  uint32_t UnitAt(uint32_t hops) const { return units_[units_.size() - 1 - hops]; }
  Abstract& Slot(uint32_t unit, uint32_t slot) { return slots_[first_slots_[unit] + slot]; }
  // Of all namespaces, by name; any_: of unknown name.
  Abstract& Field(uint32_t name) { return words_[name].field; }
  Abstract& Context(uint32_t name) {
    Abstract& value = words_[name].context;
    if (value.is == 0 && value.callables == 0) {
      const uint32_t function = FunctionId(literals_[name]);
      Abstract input;
      if (function == kNoFunction) {
        input = OfPath(paths_.Root(literals_[name]));
      } else {
        input.callables = sets_.Of({function | kFunctionBit});
      }
      Into(&value, input);
    }
    return value;
  }
  void Assign(uint32_t target, const Abstract& value) {
    const ProgramNode& node = At(target);
    switch (node.op) {
      case Op::kTargetName:
        Into(&Slot(units_.back(), node.operands[0]), value);
        if (node.operands[1] != kNoNode) {
          Into(&Context(LiteralOf(node.operands[1])), value);
        }
        return;
      case Op::kTargetAttribute:
        Into(&Field(LiteralOf(node.operands[3])), value);
        return;
      default: {
        const Abstract item = ItemOf(value);
        for (const uint32_t part : node.operands) Assign(part, item);
        return;
      }
    }
  }

  // ---- statements ----
  Abstract& Output() { return outputs_.back(); }
  void Write(const Abstract& value) { Output() = Join(Output(), TextOf(value)); }

  // What the unit writes.
  Abstract Body(uint32_t unit) {
    outputs_.emplace_back();
    Statement(At(unit).operands[1]);
    Into(&written_[unit], outputs_.back());
    outputs_.pop_back();
    return written_[unit];
  }
  Abstract Captured(uint32_t statement) {
    outputs_.emplace_back();
    Statement(statement);
    const Abstract text = outputs_.back();
    outputs_.pop_back();
    return text;
  }
  Abstract Filtered(const Abstract& captured, uint32_t filter) {
    const Abstract outer = captured_;
    captured_ = captured;
    const Abstract value = Evaluate(filter);
    captured_ = outer;
    return value;
  }

  void Statement(uint32_t index) {
    const ProgramNode& node = At(index);
    const auto& operands = node.operands;
    switch (node.op) {
      case Op::kOutput:
        Write(Evaluate(operands[0]));
        return;
      case Op::kSequence:
        for (const uint32_t statement : operands) Statement(statement);
        return;
      case Op::kIf:
        for (size_t i = 0; i + 1 < operands.size(); i += 2) {
          (void)Condition(operands[i]);
          Statement(operands[i + 1]);
        }
        if (operands.back() != kNoNode) Statement(operands.back());
        return;
      case Op::kFor:
        For(node);
        return;
      case Op::kSet:
        Assign(operands[0], Evaluate(operands[1]));
        return;
      case Op::kSetBlock: {
        Abstract value = Captured(operands[1]);
        if (operands[2] != kNoNode) value = Filtered(value, operands[2]);
        Assign(operands[0], value);
        return;
      }
      case Op::kResolve:
        Into(&Slot(units_.back(), operands[0]), Context(LiteralOf(operands[1])));
        return;
      case Op::kAlias:
        Into(&Slot(units_.back(), operands[0]), Slot(UnitAt(operands[1]), operands[2]));
        return;
      case Op::kDefault:
        if (operands[2] != kNoNode) Into(&Slot(units_.back(), operands[0]), Evaluate(operands[2]));
        return;
      case Op::kFilterBlock:
        Write(Filtered(Captured(operands[0]), operands[1]));
        return;
      case Op::kCallBlock: {
        const Abstract caller = Evaluate(operands[0]);
        const ProgramNode& call = At(operands[1]);
        Write(call.op == Op::kCall ? Call(call, &caller) : Evaluate(operands[1]));
        return;
      }
      case Op::kGeneration:
        Write(CallAny(Evaluate(operands[0]), {}, nullptr, node.place));
        return;
      case Op::kRecursive: {
        const uint32_t unit = operands[1];
        Into(&iterated_[unit], Evaluate(operands[0]));
        units_.push_back(unit);
        Write(Body(unit));
        units_.pop_back();
        return;
      }
      default:
        return;
    }
  }

  void For(const ProgramNode& node) {
    const auto& operands = node.operands;
    const bool recursive = operands[7] == 1;
    const Abstract iterable = operands[2] == kNoNode ? iterated_[units_.back()] : Evaluate(operands[2]);
    Declare("for", Subjects(iterable, Counts::kContent, false), nullptr, node.place);
    const Abstract item = ItemOf(iterable);
    if (operands[3] != kNoNode) {
      const uint32_t filter = operands[3];
      const std::vector<uint32_t> held = units_;
      if (recursive && units_.size() > 1) units_.pop_back();
      units_.push_back(filter);
      Statement(At(filter).operands[1]);
      Assign(At(filter).operands[2], item);
      (void)Condition(At(filter).operands[3]);
      units_ = held;
    }
    Assign(operands[1], item);
    if (operands[0] != kNoNode) {
      Abstract loop = Holding(item);
      loop.loop = true;
      if (recursive) loop.callables = sets_.Union(loop.callables, sets_.Of({units_.back()}));
      Into(&Slot(units_.back(), operands[0]), loop);
    }
    Statement(operands[4]);
    for (const size_t i : {size_t{5}, size_t{6}}) {
      if (operands[i] != kNoNode) Statement(operands[i]);
    }
  }

  // ---- expressions ----
  Abstract Evaluate(uint32_t index) {
    const ProgramNode& node = At(index);
    const auto& operands = node.operands;
    switch (node.op) {
      case Op::kString: {
        Abstract value;
        value.literals = SetOf(LiteralOf(operands[0]));
        return value;
      }
      case Op::kLoad:
        return Slot(UnitAt(operands[0]), operands[1]);
      case Op::kList:
      case Op::kTuple:
      case Op::kDict: {
        Abstract value;
        for (const uint32_t item : operands) value = Join(value, Holding(Evaluate(item)));
        return value;
      }
      case Op::kCaptured:
        return captured_;
      case Op::kAttribute:
        return MemberOf(Evaluate(operands[0]), LiteralOf(operands[1]));
      case Op::kItem:
        return Item(Evaluate(operands[0]), Evaluate(operands[1]), IsNumber(operands[1]), node.place);
      case Op::kSlice: {
        const Abstract value = Evaluate(operands[0]);
        for (size_t i = 1; i < 4; ++i) {
          if (operands[i] == kNoNode) continue;
          Declare("slice", Subjects(Evaluate(operands[i]), Counts::kContent, false), nullptr, node.place);
        }
        return value;
      }
      case Op::kNot:
        (void)Condition(operands[0]);
        return {};
      case Op::kNegate:
      case Op::kPositive:
        return TextOf(Evaluate(operands[0]));
      case Op::kAnd:
      case Op::kOr: {
        const Abstract left = Condition(operands[0]);
        return Join(left, Evaluate(operands[1]));
      }
      case Op::kConcat: {
        Abstract value;
        std::optional<std::string> text("");
        for (const uint32_t part : operands) {
          const Abstract next = Evaluate(part);
          value = Join(value, TextOf(next));
          text = Glued(text, next);
        }
        return WithLiteral(value, text);
      }
      case Op::kConditional: {
        (void)Condition(operands[0]);
        const Abstract then = Evaluate(operands[1]);
        return operands[2] == kNoNode ? then : Join(then, Evaluate(operands[2]));
      }
      case Op::kBinary:
        return Binary(node);
      case Op::kCompare:
        return Compare(node);
      case Op::kFilter:
        return Filter(node);
      case Op::kTest:
        return Test(node);
      case Op::kCall:
        return Call(node, nullptr);
      case Op::kMacro: {
        units_.push_back(operands[1]);
        (void)Body(operands[1]);
        units_.pop_back();
        Abstract value;
        value.callables = sets_.Of({index});
        return value;
      }
      default:
        return {};
    }
  }

  bool IsNumber(uint32_t index) const {
    const Op op = At(index).op;
    return op == Op::kInteger || op == Op::kNegate || (op == Op::kBinary && At(index).operands[0] != 0);
  }
  // The one literal that a value is, put after `text`.
  std::optional<std::string> Glued(const std::optional<std::string>& text, const Abstract& value) const {
    if (!text || value.is != 0 || value.holds != 0 || sets_[value.literals].size() != 1) return std::nullopt;
    if (sets_[value.literals][0] == kManyLiterals || text->size() > 256) return std::nullopt;
    return *text + literals_[sets_[value.literals][0]];
  }
  Abstract WithLiteral(Abstract value, const std::optional<std::string>& text) {
    value.literals = 0;
    if (text && !text->empty()) value.literals = SetOf(Literal(*text));
    return value;
  }

  Abstract Item(const Abstract& value, const Abstract& key, bool is_number, SourcePlace place) {
    const auto by = Subjects(key, Counts::kContent, false);
    if (!by.empty()) Declare("item", by, nullptr, place);
    if (by.empty() && key.literals != 0 && key.is == 0) {
      Abstract member;
      for (const uint32_t name : sets_[key.literals]) member = Join(member, MemberOf(value, name));
      return member;
    }
    const Abstract item = ItemOf(value);
    if (is_number) return item;
    Abstract any = value.space ? AllFields() : Abstract{};
    for (const PathId path : sets_[value.is]) {
      if (paths_.n_parts(path) > 0) any = Join(any, OfPath(paths_.Step(path, ".*")));
    }
    return Join(item, any);
  }
  Abstract AllFields() {
    std::vector<uint32_t> names;
    for (uint32_t name = 0; name < words_.size(); ++name) {
      if (!(Field(name) == Abstract{})) names.push_back(name);
    }
    std::sort(names.begin(), names.end(),
              [this](uint32_t a, uint32_t b) { return literals_[a] < literals_[b]; });
    Abstract any;
    for (const uint32_t name : names) any = Join(any, Field(name));
    return any;
  }

  Abstract Binary(const ProgramNode& node) {
    const Abstract left = Evaluate(node.operands[1]);
    const Abstract right = Evaluate(node.operands[2]);
    const Abstract both = Join(left, right);
    switch (static_cast<Arithmetic>(node.operands[0])) {
      case Arithmetic::kAdd: {
        const auto text = Glued(Glued(std::string(), left), right);
        // A list of literals stays one; of texts, only the whole is a literal.
        return text ? WithLiteral(both, text) : both;
      }
      case Arithmetic::kMultiply:
        return both;
      default: {
        Abstract value = TextOf(both);
        value.literals = 0;
        return value;
      }
    }
  }

  Abstract Compare(const ProgramNode& node) {
    static constexpr std::array<std::string_view, 8> kNames = {
        "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    Abstract left = Evaluate(node.operands[0]);
    for (size_t i = 1; i + 1 < node.operands.size(); i += 2) {
      const auto comparison = static_cast<Comparison>(node.operands[i]);
      const Abstract right = Evaluate(node.operands[i + 1]);
      if (comparison == Comparison::kIn || comparison == Comparison::kNotIn) {
        Contains(kNames[node.operands[i]], left, right, node.place);
      } else {
        Equals(kNames[node.operands[i]], left, right, node.place);
      }
      left = right;
    }
    return {};
  }
  void Contains(std::string_view construct, const Abstract& needle, const Abstract& haystack,
                SourcePlace place) {
    Declare(construct, Subjects(haystack, Counts::kSettingsToo, true), &needle, place);
    Declare(construct, Subjects(needle, Counts::kContent, true), &haystack, place);
  }
  void Equals(std::string_view construct, const Abstract& left, const Abstract& right, SourcePlace place) {
    Declare(construct, Subjects(left, Counts::kContent, true), &right, place);
    Declare(construct, Subjects(right, Counts::kContent, true), &left, place);
    // Two whole messages, or lists of them: equal texts make them equal.
    const Abstract left_text = Below(left);
    const Abstract right_text = Below(right);
    if (left_text.is == 0 || right_text.is == 0) return;
    Declare(construct, Subjects(Join(left_text, right_text), Counts::kContent, true), nullptr, place);
  }
  // Everything below the lists and messages that the value may be.
  Abstract Below(const Abstract& value) {
    std::vector<uint32_t> all;
    for (const SetId set : {value.is, value.holds}) {
      for (const PathId path : sets_[set]) {
        if (paths_.IsStructure(path) && !paths_.IsRole(path)) all.push_back(paths_.Step(path, ".*"));
      }
    }
    Abstract below;
    below.is = Sorted(std::move(all));
    return below;
  }

  // ---- calls ----
  Arguments CallEnd(const ProgramNode& node, size_t position) {
    Arguments arguments;
    const auto& operands = node.operands;
    const uint32_t n = operands[position++];
    for (uint32_t i = 0; i < n; ++i) arguments.positional.push_back(Evaluate(operands[position++]));
    const uint32_t m = operands[position++];
    for (uint32_t i = 0; i < m; ++i, position += 2) {
      arguments.keywords.emplace_back(Text(operands[position]), Evaluate(operands[position + 1]));
    }
    for (size_t i = 0; i < 2; ++i) {
      if (operands[position + i] == kNoNode) continue;
      const Abstract spread = Evaluate(operands[position + i]);
      arguments.rest = Join(arguments.rest, Join(ItemOf(spread), MemberOf(spread, any_)));
    }
    return arguments;
  }
  Abstract AllOf(const Arguments& arguments) {
    Abstract all = arguments.rest;
    for (const Abstract& value : arguments.positional) all = Join(all, value);
    for (const auto& [name, value] : arguments.keywords) all = Join(all, value);
    return all;
  }
  Abstract FirstOf(const Arguments& arguments) {
    return arguments.positional.empty() ? AllOf(arguments) : arguments.positional[0];
  }

  Abstract Filter(const ProgramNode& node) {
    const Abstract receiver = Evaluate(node.operands[1]);
    const Arguments arguments = CallEnd(node, 2);
    return ApplyFilter(LiteralOf(node.operands[0]), receiver, arguments, node.place);
  }

  // White space only, or nothing: what trimming takes anyway.
  bool TrimsBlanks(const Arguments& arguments) const {
    const Abstract* characters = arguments.At(0, "chars");
    if (characters == nullptr) return true;
    if (characters->is != 0 || characters->literals == 0) return false;
    for (const uint32_t text : sets_[characters->literals]) {
      if (literals_[text].find_first_not_of(" \t\n\r\f\v") != std::string::npos) return false;
    }
    return true;
  }

  // `filter` is a literal, its name.
  Abstract ApplyFilter(uint32_t filter, const Abstract& receiver, const Arguments& arguments,
                       SourcePlace place) {
    const std::string_view name = literals_[filter];
    std::optional<FilterKind>& kind = words_[filter].filter;
    if (!kind) kind = FilterKindOf(name);
    const Abstract all = Join(receiver, AllOf(arguments));
    switch (*kind) {
      case FilterKind::kTrim:
        if (!TrimsBlanks(arguments)) Searches(name, receiver, arguments, place);
        return TextOf(receiver);
      case FilterKind::kText:
        return TextOf(all);
      case FilterKind::kSameText: {
        Abstract text = TextOf(all);
        text.literals = receiver.literals;
        return text;
      }
      case FilterKind::kWhole:
        return all;
      case FilterKind::kItem:
        return ItemOf(receiver);
      case FilterKind::kItems:
        return Pairs(receiver);
      case FilterKind::kDefault:
        if (arguments.positional.size() + arguments.keywords.size() > 1) DeclareTruth(receiver, place);
        return all;
      case FilterKind::kMap:
        return Map(receiver, arguments, place);
      case FilterKind::kSelect:
        return Select(name, receiver, arguments, place);
      case FilterKind::kOrder:
      case FilterKind::kExtreme:
        Orders(name, receiver, arguments, place);
        return *kind == FilterKind::kExtreme ? ItemOf(receiver) : all;
      case FilterKind::kLength:
        Declare("length", Subjects(receiver, Counts::kContent, false), nullptr, place);
        return {};
      case FilterKind::kSearch:
        break;
    }
    Searches(name, receiver, arguments, place);
    return TextOf(all);
  }

  // An operation that looks for its first argument in a text, or decides by the text alone.
  void Searches(std::string_view construct, const Abstract& receiver, const Arguments& arguments,
                SourcePlace place) {
    const Abstract needle = FirstOf(arguments);
    Declare(construct, Subjects(TextOf(receiver), Counts::kSettingsToo, true), &needle, place);
    Declare(construct, Subjects(TextOf(AllOf(arguments)), Counts::kContent, true), &receiver, place);
  }

  // A part of each item, by the name in `attribute`: "content", "function.name".
  Abstract Part(const Abstract& item, const Abstract* attribute) {
    if (attribute == nullptr) return item;
    if (attribute->literals == 0 || attribute->is != 0) return Join(ItemOf(item), MemberOf(item, any_));
    Abstract part;
    for (const uint32_t literal : sets_[attribute->literals]) {
      Abstract at = item;
      const std::string& names = literals_[literal];
      for (size_t begin = 0; begin <= names.size();) {
        const size_t end = std::min(names.find('.', begin), names.size());
        at = MemberOf(at, Literal(std::string_view(names).substr(begin, end - begin)));
        begin = end + 1;
      }
      part = Join(part, at);
    }
    return part;
  }
  static const Abstract* Named(const Arguments& arguments, std::string_view name) {
    for (const auto& [key, value] : arguments.keywords) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  Abstract Map(const Abstract& receiver, const Arguments& arguments, SourcePlace place) {
    const Abstract item = ItemOf(receiver);
    if (const Abstract* attribute = Named(arguments, "attribute")) {
      Abstract part = Part(item, attribute);
      if (const Abstract* otherwise = Named(arguments, "default")) part = Join(part, *otherwise);
      return Holding(part);
    }
    if (arguments.positional.empty()) return Holding(Join(item, AllOf(arguments)));
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    Abstract value;
    for (const uint32_t name : sets_[arguments.positional[0].literals])
      value = Join(value, ApplyFilter(name, item, rest, place));
    if (arguments.positional[0].literals == 0) Searches("map", item, rest, place);
    return Holding(Join(value, TextOf(item)));
  }

  Abstract Select(std::string_view name, const Abstract& receiver, const Arguments& arguments,
                  SourcePlace place) {
    Abstract subject = ItemOf(receiver);
    Arguments rest = arguments;
    if (name.ends_with("attr")) {
      subject = Part(subject, arguments.positional.empty() ? nullptr : &arguments.positional[0]);
      if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
    }
    if (rest.positional.empty()) {
      DeclareTruth(subject, place);
      return receiver;
    }
    const Abstract test = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
    if (test.literals == 0) Searches(name, subject, rest, place);
    for (const uint32_t literal : sets_[test.literals]) ApplyTest(literal, subject, rest, place);
    return receiver;
  }

  void Orders(std::string_view name, const Abstract& receiver, const Arguments& arguments,
              SourcePlace place) {
    const Abstract* attribute = Named(arguments, "attribute");
    if (attribute == nullptr && name == "groupby" && !arguments.positional.empty())
      attribute = &arguments.positional[0];
    if (attribute == nullptr && OneOf(name, {"sort", "unique", "min", "max"})) {
      // The name may come after the flags.
      for (const Abstract& value : arguments.positional) {
        if (value.literals != 0) attribute = &value;
      }
    }
    const Abstract item =
        name == "dictsort" ? Join(MemberOf(receiver, any_), ItemOf(receiver)) : ItemOf(receiver);
    Declare(name, Subjects(Part(item, attribute), Counts::kContent, true), nullptr, place);
  }

  Abstract Pairs(const Abstract& value) {
    Abstract pairs = Holding(value);
    pairs.holds = JoinPaths(value.holds, StepAll(value.is, any_member_));
    pairs.pairs = true;
    return pairs;
  }

  Abstract Test(const ProgramNode& node) {
    const Abstract receiver = Evaluate(node.operands[1]);
    ApplyTest(LiteralOf(node.operands[0]), receiver, CallEnd(node, 2), node.place);
    return {};
  }
  // `test` is a literal, its name.
  void ApplyTest(uint32_t test, const Abstract& receiver, const Arguments& arguments, SourcePlace place) {
    const std::string_view name = literals_[test];
    std::optional<TestKind>& kind = words_[test].test;
    if (!kind) kind = TestKindOf(name);
    switch (*kind) {
      case TestKind::kType:
        return;
      case TestKind::kIn:
        Contains(name, receiver, FirstOf(arguments), place);
        return;
      case TestKind::kName:
        Searches(name, receiver, arguments, place);
        return;
      case TestKind::kEquals:
        Equals(name, receiver, FirstOf(arguments), place);
        return;
    }
  }

  Abstract Call(const ProgramNode& node, const Abstract* caller) {
    const ProgramNode& callee = At(node.operands[0]);
    if (callee.op != Op::kAttribute) {
      const Abstract function = Evaluate(node.operands[0]);
      return CallAny(function, CallEnd(node, 1), caller, node.place);
    }
    const Abstract receiver = Evaluate(callee.operands[0]);
    const uint32_t name = LiteralOf(callee.operands[1]);
    const Abstract member = MemberOf(receiver, name);
    const Arguments arguments = CallEnd(node, 1);
    const Abstract value = Method(name, receiver, arguments, callee.place);
    if (member.callables == 0) return value;
    return Join(value, CallAny(member, arguments, caller, node.place));
  }

  // `method` is a literal, its name.
  Abstract Method(uint32_t method, const Abstract& receiver, const Arguments& arguments, SourcePlace place) {
    const std::string_view name = literals_[method];
    std::optional<MethodKind>& kind = words_[method].method;
    if (!kind) kind = MethodKindOf(name);
    switch (*kind) {
      case MethodKind::kStrip:
        if (!TrimsBlanks(arguments)) Searches(name, receiver, arguments, place);
        return TextOf(receiver);
      case MethodKind::kText:
        return TextOf(Join(receiver, AllOf(arguments)));
      case MethodKind::kSplit:
        Searches(name, receiver, arguments, place);
        return Holding(TextOf(receiver));
      case MethodKind::kReplace:
        Searches(name, receiver, arguments, place);
        return TextOf(Join(receiver, AllOf(arguments)));
      case MethodKind::kGet: {
        if (arguments.positional.empty()) return ItemOf(receiver);
        const Abstract item = Item(receiver, arguments.positional[0], false, place);
        return arguments.positional.size() > 1 ? Join(item, arguments.positional[1]) : item;
      }
      case MethodKind::kItems:
        return Pairs(receiver);
      case MethodKind::kMembers:
        return Holding(MemberOf(receiver, any_));
      case MethodKind::kWhole:
        return Join(receiver, AllOf(arguments));
      case MethodKind::kNext:
        return Join(ItemOf(receiver), AllOf(arguments));
      case MethodKind::kSearch:
        break;
    }
    Searches(name, receiver, arguments, place);
    return {};
  }

  Abstract CallAny(const Abstract& function, const Arguments& arguments, const Abstract* caller,
                   SourcePlace place) {
    Abstract result;
    for (const uint32_t callable : sets_[function.callables]) {
      if ((callable & kFunctionBit) != 0) {
        result = Join(result, CallFunctionNamed(callable & ~kFunctionBit, arguments, place));
      } else if (At(callable).op == Op::kMacro) {
        result = Join(result, CallMacro(At(callable), arguments, caller));
      } else {
        Into(&iterated_[callable], FirstOf(arguments));
        result = Join(result, written_[callable]);
      }
    }
    if (function.callables == 0) return TextOf(AllOf(arguments));
    return result;
  }

  Abstract CallFunctionNamed(uint32_t function, const Arguments& arguments, SourcePlace place) {
    const auto is = [function](std::string_view name) { return FunctionId(name) == function; };
    if (is("range")) {
      Declare("range", Subjects(AllOf(arguments), Counts::kContent, false), nullptr, place);
      return {};
    }
    if (is("raise_exception") || is("strftime_now")) return {};
    const Abstract all = AllOf(arguments);
    if (is("namespace")) {
      for (const auto& [name, value] : arguments.keywords) Into(&Field(Literal(name)), value);
      for (const Abstract& value : arguments.positional)
        Into(&Field(any_), Join(ItemOf(value), MemberOf(value, any_)));
      Into(&Field(any_), arguments.rest);
      Abstract space;
      space.space = true;
      return space;
    }
    // dict copies; cycler and joiner give what they were given.
    Abstract held = Holding(all);
    for (const Abstract& value : arguments.positional) held = Join(held, value);
    return held;
  }

  Abstract CallMacro(const ProgramNode& macro, const Arguments& arguments, const Abstract* caller) {
    const auto& operands = macro.operands;
    const uint32_t unit = operands[1];
    const size_t n_parameters = (operands.size() - 6) / 2;
    for (size_t i = 0; i < n_parameters; ++i) {
      Abstract& slot = Slot(unit, operands[7 + 2 * i]);
      if (const Abstract* value = arguments.At(i, Text(operands[6 + 2 * i]))) Into(&slot, *value);
      Into(&slot, arguments.rest);
      if (caller != nullptr && Text(operands[6 + 2 * i]) == "caller") Into(&slot, *caller);
    }
    if (operands[3] != kNoNode) {
      if (caller != nullptr) Into(&Slot(unit, operands[3]), *caller);
      if (const Abstract* given = Named(arguments, "caller")) Into(&Slot(unit, operands[3]), *given);
    }
    for (const size_t i : {size_t{4}, size_t{5}}) {
      if (operands[i] != kNoNode) Into(&Slot(unit, operands[i]), Holding(AllOf(arguments)));
    }
    return written_[unit];
  }

  const Program& program_;
  Sets sets_;
  Paths paths_;
  std::deque<std::string> literals_;  // they stay where they are
  std::deque<Word> words_;            // by literal; likewise
  std::unordered_map<std::string_view, uint32_t> literal_ids_;
  const uint32_t none_ = Literal("");  // kManyLiterals
  uint32_t any_, previtem_, nextitem_, items_, any_member_;
  std::vector<uint32_t> literal_of_string_;
  std::vector<size_t> first_slots_;  // by unit
  std::vector<Abstract> slots_;
  std::vector<Abstract> written_;   // by unit
  std::vector<Abstract> iterated_;  // by unit of a recursive loop
  std::vector<uint32_t> units_;     // around what is evaluated, innermost last
  std::vector<Abstract> outputs_;
  Abstract captured_;
  PairMap path_unions_;
  PairMap steps_;             // by part and set
  PairMap texts_;             // by both sets of a value
  std::vector<Found> found_;  // of the last pass, which finds all
  bool changed_ = false;
};

}  // namespace

Result<std::vector<ContentPredicate>> FindContentPredicates(const Program& program) {
  return Analyst(program).Run();
}

}  // namespace slm::chat
