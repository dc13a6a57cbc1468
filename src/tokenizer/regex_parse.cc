// From a pattern to its syntax tree: the syntax that Oniguruma 6.9 has by default.
#include "tokenizer/regex_parse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "tokenizer/aligned_text.h"
#include "unicode/case_folding_v16_0.h"
#include "unicode/properties_v16_0.h"

namespace slm::tokenizer {
namespace {

constexpr uint32_t kMaxDepth = 64;
constexpr uint32_t kMaxRepeat = 100000;
constexpr uint8_t kPlainGroup = 1;  // mode of the sequence that (?:...) is

std::unexpected<Error> Wrong(size_t offset, std::string message) {
  return Fail(MakeError(ErrorCode::kTokRegex, std::move(message)).At(offset));
}

RangeSet Property(std::string_view name) {
  const auto ranges = unicode::PropertyRangesV16(name);
  return ranges ? RangeSet::FromPairs(*ranges) : RangeSet();
}

RangeSet WordSet() {
  RangeSet out = Property("alphabetic");
  out.Merge(Property("m"));
  out.Merge(Property("nd"));
  out.Merge(Property("pc"));
  return out;
}

// \w outside of classes also has what Oniguruma's table of ISO 8859-1 calls a word character.
const RangeSet& EscapeWordSet() {
  static const RangeSet kSet = [] {
    RangeSet out = WordSet();
    out.Merge({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}});
    return out;
  }();
  return kSet;
}

// The names that Oniguruma has for both [[:name:]] and \p{name}.
std::optional<RangeSet> PosixSet(std::string_view name) {
  if (name == "alpha") return Property("alphabetic");
  if (name == "alnum") {
    RangeSet out = Property("alphabetic");
    out.Merge(Property("nd"));
    return out;
  }
  if (name == "digit") return Property("nd");
  if (name == "lower") return Property("lowercase");
  if (name == "upper") return Property("uppercase");
  if (name == "space") return Property("whitespace");
  if (name == "word") return WordSet();
  if (name == "cntrl") return Property("cc");
  if (name == "xdigit") return Property("asciihexdigit");
  if (name == "ascii") return RangeSet({{0, 0x7F}});
  if (name == "blank") {
    RangeSet out = Property("zs");
    out.Add('\t', '\t');
    return out;
  }
  if (name == "punct") {
    RangeSet out = Property("p");
    out.Merge(Property("s"));
    return out;
  }
  if (name == "graph" || name == "print") {
    RangeSet none = Property("whitespace");
    none.Merge(Property("cc"));
    none.Merge(Property("cn"));
    none.Merge(Property("cs"));
    RangeSet out = none.Inverted();
    if (name == "print") out.Merge(Property("zs"));
    return out;
  }
  return std::nullopt;
}

RangeSet AnyScalar() {
  return RangeSet({{0, 0x10FFFF}});
}

// Every character of each class of equal simple folding, by the folding.
const std::map<char32_t, std::vector<char32_t>>& FoldClasses() {
  static const std::map<char32_t, std::vector<char32_t>> kClasses = [] {
    std::map<char32_t, std::vector<char32_t>> out;
    const auto pairs = unicode::SimpleFoldingsV16();
    for (size_t i = 0; i < pairs.size(); i += 2) {
      std::vector<char32_t>& members = out[pairs[i + 1]];
      if (members.empty()) members.push_back(pairs[i + 1]);
      members.push_back(pairs[i]);
    }
    return out;
  }();
  return kClasses;
}

RangeSet CloseUnderCase(const RangeSet& set) {
  RangeSet out = set;
  std::vector<RangeSet::Range> more;
  for (const auto& [fold, members] : FoldClasses()) {
    const bool any =
        std::any_of(members.begin(), members.end(), [&set](char32_t c) { return set.Contains(c); });
    if (!any) continue;
    for (const char32_t c : members) more.emplace_back(c, c);
  }
  out.Merge(more);
  return out;
}

struct FullFold {
  char32_t from;
  std::vector<char32_t> to;
};
const std::vector<FullFold>& FullFolds() {
  static const std::vector<FullFold> kFolds = [] {
    std::vector<FullFold> out;
    const auto rows = unicode::FullFoldingsV16();
    for (size_t i = 0; i < rows.size(); i += 4) {
      FullFold fold{rows[i], {rows[i + 1], rows[i + 2]}};
      if (rows[i + 3] != 0) fold.to.push_back(rows[i + 3]);
      out.push_back(std::move(fold));
    }
    return out;
  }();
  return kFolds;
}

RegexNodePtr NewNode(RegexNode::Kind kind, size_t offset) {
  auto node = std::make_unique<RegexNode>();
  node->kind = kind;
  node->offset = offset;
  return node;
}

RegexNodePtr NewSet(RangeSet set, size_t offset) {
  auto node = NewNode(RegexNode::Kind::kSet, offset);
  node->set = std::move(set);
  return node;
}

RegexNodePtr NewSequence(std::vector<RegexNodePtr> parts, size_t offset) {
  if (parts.empty()) return NewNode(RegexNode::Kind::kEmpty, offset);
  if (parts.size() == 1) return std::move(parts[0]);
  auto node = NewNode(RegexNode::Kind::kConcat, offset);
  node->children = std::move(parts);
  return node;
}

RegexNodePtr NewAlternatives(std::vector<RegexNodePtr> parts, size_t offset) {
  if (parts.size() == 1) return std::move(parts[0]);
  auto node = NewNode(RegexNode::Kind::kAlternatives, offset);
  node->children = std::move(parts);
  return node;
}

RangeSet OneOf(char32_t scalar, bool ignore_case) {
  const RangeSet set({{scalar, scalar}});
  return ignore_case ? CloseUnderCase(set) : set;
}

// A run of literal characters in any case. A character may stand for several (U+00DF for ss) and
// several for one.
RegexNodePtr CaselessRun(const std::vector<char32_t>& run, size_t offset) {
  std::vector<RegexNodePtr> out;
  for (size_t i = 0; i < run.size();) {
    size_t longest = 1;
    for (const FullFold& fold : FullFolds()) {
      const size_t n = fold.to.size();
      if (i + n > run.size()) continue;
      const bool equal = std::equal(fold.to.begin(), fold.to.end(), run.begin() + static_cast<ptrdiff_t>(i),
                                    [](char32_t a, char32_t b) { return a == unicode::FoldV16(b); });
      if (equal) longest = std::max(longest, n);
    }
    // All ways to cut run[i, i + longest) into single characters and foldings.
    const auto spell = [&](auto&& self, size_t at, size_t end) -> RegexNodePtr {
      if (at == end) return NewNode(RegexNode::Kind::kEmpty, offset);
      std::vector<RegexNodePtr> ways;
      std::vector<RegexNodePtr> single;
      single.push_back(NewSet(OneOf(run[at], true), offset));
      single.push_back(self(self, at + 1, end));
      ways.push_back(NewSequence(std::move(single), offset));
      for (size_t n = 2; n <= 3 && at + n <= end; ++n) {
        RangeSet folded;
        for (const FullFold& fold : FullFolds()) {
          const bool equal =
              fold.to.size() == n &&
              std::equal(fold.to.begin(), fold.to.end(), run.begin() + static_cast<ptrdiff_t>(at),
                         [](char32_t a, char32_t b) { return a == unicode::FoldV16(b); });
          if (equal) folded.Add(fold.from, fold.from);
        }
        if (folded.empty()) continue;
        std::vector<RegexNodePtr> way;
        way.push_back(NewSet(std::move(folded), offset));
        way.push_back(self(self, at + n, end));
        ways.push_back(NewSequence(std::move(way), offset));
      }
      return NewAlternatives(std::move(ways), offset);
    };
    // Foldings may overlap (sss is U+00DF s or s U+00DF): take them together.
    size_t end = i + longest;
    for (size_t at = i + 1; longest > 1 && at < end; ++at) {
      for (const FullFold& fold : FullFolds()) {
        const size_t n = fold.to.size();
        if (at + n <= run.size() && at + n > end && end - i < 8 &&
            std::equal(
                fold.to.begin(), fold.to.end(), run.begin() + static_cast<ptrdiff_t>(at),
                [](char32_t a, char32_t b) { return a == unicode::FoldV16(b); })) {
          end = at + n;
        }
      }
    }
    RegexNodePtr node = spell(spell, i, end);
    if (end == i + 1) {
      // One character that itself folds to several.
      for (const FullFold& fold : FullFolds()) {
        if (fold.from != run[i]) continue;
        std::vector<RegexNodePtr> ways;
        RangeSet same = OneOf(run[i], true);
        for (const FullFold& other : FullFolds()) {
          if (other.to == fold.to) same.Add(other.from, other.from);
        }
        ways.push_back(NewSet(std::move(same), offset));
        ways.push_back(CaselessRun(fold.to, offset));
        node = NewAlternatives(std::move(ways), offset);
        break;
      }
    }
    out.push_back(std::move(node));
    i = end;
  }
  return NewSequence(std::move(out), offset);
}

struct Options {
  bool ignore_case = false;
  bool dot_all = false;
  bool extended = false;
};

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}

  Result<ParsedRegex> Run() {
    // The parser steps from character to character, and looks no further than one says.
    if (const auto fault = FindUtf8Fault(pattern_)) return Wrong(fault->byte_offset, "ill-formed UTF-8");
    CountGroups();
    SLM_ASSIGN(RegexNodePtr root, ParseAlternatives(Options{}, 0));
    if (at_ < pattern_.size()) return Wrong(at_, "a ) that closes nothing");
    ParsedRegex out;
    out.root = std::move(root);
    out.n_groups = n_groups_;
    out.has_back_reference = has_back_reference_;
    return out;
  }

 private:
  [[nodiscard]] bool AtEnd() const { return at_ >= pattern_.size(); }
  [[nodiscard]] bool LooksAt(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool Take(std::string_view text) {
    if (!LooksAt(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t NextScalar() {
    const Scalar scalar = ReadScalar(pattern_.data() + at_);
    at_ += scalar.n_bytes;
    return scalar.value;
  }

  // With a named group somewhere plain groups do not capture.
  void CountGroups() {
    for (size_t i = 0; i + 3 < pattern_.size(); ++i) {
      if (pattern_[i] == '\\') {
        ++i;
      } else if (pattern_.substr(i).starts_with("(?<") && pattern_[i + 3] != '=' && pattern_[i + 3] != '!') {
        has_names_ = true;
      }
    }
  }

  // Alternatives up to the end or a closing parenthesis. (?i) inside holds to the end of the group.
  Result<RegexNodePtr> ParseAlternatives(Options options, uint32_t depth) {
    if (depth > kMaxDepth) return Wrong(at_, "groups nested deeper than 64");
    const size_t begin = at_;
    std::vector<RegexNodePtr> alternatives;
    std::vector<RegexNodePtr> sequence;
    std::vector<char32_t> run;  // literal characters in any case that wait to be folded together
    const auto flush = [&] {
      if (run.empty()) return;
      sequence.push_back(CaselessRun(run, begin));
      run.clear();
    };
    while (!AtEnd() && pattern_[at_] != ')') {
      if (Take("|")) {
        flush();
        alternatives.push_back(NewSequence(std::move(sequence), begin));
        sequence.clear();
        continue;
      }
      if (options.extended && SkipExtended()) continue;
      if (IsComment()) {
        SLM_TRY(SkipComment());
        continue;
      }
      Options changed = options;
      bool isolated = false;
      SLM_TRY(TakeOptions(&changed, &isolated));
      if (isolated) {  // (?i) alone: everything up to the end of the group, alternatives included
        flush();
        SLM_ASSIGN(RegexNodePtr rest, ParseAlternatives(changed, depth + 1));
        auto group = NewNode(RegexNode::Kind::kConcat, begin);
        group->children.push_back(std::move(rest));
        sequence.push_back(std::move(group));
        break;
      }
      const size_t atom_begin = at_;
      std::optional<char32_t> literal;
      SLM_ASSIGN(RegexNodePtr atom, ParseAtom(options, depth, &literal));
      if (literal && options.ignore_case && !QuantifierFollows(options)) {
        run.push_back(*literal);
        continue;
      }
      flush();
      if (literal) {
        atom = options.ignore_case ? CaselessRun({*literal}, atom_begin)
                                   : NewSet(OneOf(*literal, false), atom_begin);
      }
      SLM_ASSIGN(atom, ParseQuantifiers(std::move(atom), options));
      sequence.push_back(std::move(atom));
    }
    flush();
    alternatives.push_back(NewSequence(std::move(sequence), begin));
    return NewAlternatives(std::move(alternatives), begin);
  }

  bool SkipExtended() {
    const char c = pattern_[at_];
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      ++at_;
      return true;
    }
    if (c != '#') return false;
    while (!AtEnd() && pattern_[at_] != '\n') ++at_;
    return true;
  }

  [[nodiscard]] bool IsComment() const { return LooksAt("(?#"); }
  Status SkipComment() {
    const size_t begin = at_;
    while (!AtEnd() && pattern_[at_] != ')') at_ += pattern_[at_] == '\\' ? size_t{2} : size_t{1};
    if (AtEnd()) return Wrong(begin, "a comment without an end");
    ++at_;
    return {};
  }

  // (?imx-imx) alone changes the options of what follows.
  Status TakeOptions(Options* options, bool* isolated) {
    if (!LooksAt("(?")) return {};
    size_t i = at_ + 2;
    bool on = true;
    Options changed = *options;
    bool any = false;
    for (; i < pattern_.size(); ++i) {
      const char c = pattern_[i];
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        changed.ignore_case = on;
      } else if (c == 'm') {
        changed.dot_all = on;
      } else if (c == 'x') {
        changed.extended = on;
      } else {
        break;
      }
      any = true;
    }
    if (!any || i >= pattern_.size() || pattern_[i] != ')') return {};
    *options = changed;
    *isolated = true;
    at_ = i + 1;
    return {};
  }

  [[nodiscard]] bool QuantifierFollows(const Options& options) {
    const size_t saved = at_;
    // A comment without an end is found when it is read.
    while (!AtEnd() && (IsComment() ? SkipComment().has_value() : options.extended && SkipExtended()))
      continue;
    bool follows = false;
    if (!AtEnd()) {
      const char c = pattern_[at_];
      uint32_t min = 0, max = 0;
      follows = c == '*' || c == '+' || c == '?' || (c == '{' && ReadInterval(&min, &max).value_or(true));
    }
    at_ = saved;
    return follows;
  }

  // {n}, {n,}, {,m}, {n,m} at at_; false if it is none, and then { is a literal.
  Result<bool> ReadInterval(uint32_t* min, uint32_t* max) {
    const size_t begin = at_;
    size_t i = at_ + 1;
    const auto number = [&]() -> std::optional<uint64_t> {
      const size_t first = i;
      uint64_t value = 0;
      while (i < pattern_.size() && pattern_[i] >= '0' && pattern_[i] <= '9' && i - first < 9) {
        value = value * 10 + static_cast<uint64_t>(pattern_[i++] - '0');
      }
      return i == first ? std::nullopt : std::optional(value);
    };
    const auto low = number();
    std::optional<uint64_t> high = low;
    if (i < pattern_.size() && pattern_[i] == ',') {
      ++i;
      high = number();
      if (!low && !high) return false;
      if (!high) high = kUnbounded;
    } else if (!low) {
      return false;
    }
    if (i >= pattern_.size() || pattern_[i] != '}') return false;
    const uint64_t least = low.value_or(0);
    if (least > kMaxRepeat || (*high != kUnbounded && *high > kMaxRepeat)) {
      return Wrong(begin, "a repetition of more than 100000");
    }
    *min = static_cast<uint32_t>(least);
    *max = static_cast<uint32_t>(*high);
    at_ = i + 1;
    return true;
  }

  // What Oniguruma does not repeat: a position test, or a plain group of which one alternative is nothing but
  // one.
  static bool IsPosition(const RegexNode& node) {
    using Kind = RegexNode::Kind;
    if (node.kind == Kind::kAssert || node.kind == Kind::kLook) return true;
    if (node.kind != Kind::kConcat || node.mode != kPlainGroup) return false;
    const RegexNode& body = *node.children[0];
    if (body.kind != Kind::kAlternatives) return IsPosition(body);
    return std::any_of(body.children.begin(), body.children.end(),
                       [](const auto& alternative) { return IsPosition(*alternative); });
  }

  Result<RegexNodePtr> ParseQuantifiers(RegexNodePtr atom, const Options& options) {
    while (true) {
      while (!AtEnd()) {
        if (IsComment()) {
          SLM_TRY(SkipComment());
        } else if (!options.extended || !SkipExtended()) {
          break;
        }
      }
      if (AtEnd()) return atom;
      const size_t begin = at_;
      uint32_t min = 0, max = kUnbounded;
      const char c = pattern_[at_];
      bool is_interval = false;
      if (c == '*' || c == '+' || c == '?') {
        ++at_;
        min = c == '+' ? 1 : 0;
        max = c == '?' ? 1 : kUnbounded;
      } else if (c == '{') {
        SLM_ASSIGN(is_interval, ReadInterval(&min, &max));
        if (!is_interval) return atom;
      } else {
        return atom;
      }
      if (IsPosition(*atom)) return Wrong(begin, "a repetition of a position test");
      auto node = NewNode(RegexNode::Kind::kRepeat, begin);
      node->mode = kGreedy;
      if (is_interval && max != kUnbounded && min > max) {  // the other way round it is possessive
        std::swap(min, max);
        node->mode = kPossessive;
      } else if (!AtEnd() && pattern_[at_] == '?' && !(is_interval && min == max)) {
        ++at_;
        node->mode = kLazy;
      } else if (!AtEnd() && pattern_[at_] == '+' && !is_interval) {
        ++at_;
        node->mode = kPossessive;
      }
      node->min = min;
      node->max = max;
      node->children.push_back(std::move(atom));
      atom = std::move(node);
    }
  }

  Result<RegexNodePtr> ParseAtom(const Options& options, uint32_t depth, std::optional<char32_t>* literal) {
    const size_t begin = at_;
    const char c = pattern_[at_];
    const auto assertion = [&](Assertion kind) -> Result<RegexNodePtr> {
      auto node = NewNode(RegexNode::Kind::kAssert, begin);
      node->assertion = kind;
      return node;
    };
    switch (c) {
      case '(':
        return ParseGroup(options, depth);
      case '[': {
        ++at_;
        ClassParts parts;
        SLM_TRY(ParseClass(options, depth, &parts));
        return ClassNode(std::move(parts), options, begin);
      }
      case '.':
        ++at_;
        return NewSet(options.dot_all ? AnyScalar() : RangeSet({{'\n', '\n'}}).Inverted(), begin);
      case '^':
        ++at_;
        return assertion(Assertion::kLineStart);
      case '$':
        ++at_;
        return assertion(Assertion::kLineEnd);
      case '*':
      case '+':
      case '?':
        return Wrong(begin, "a repetition of nothing");
      case '{': {
        uint32_t min = 0, max = 0;
        SLM_ASSIGN(const bool is_interval, ReadInterval(&min, &max));
        if (is_interval) return Wrong(begin, "a repetition of nothing");
        break;
      }
      case '\\':
        ++at_;
        return ParseEscape(options, begin, literal);
      default:
        break;
    }
    *literal = NextScalar();
    return RegexNodePtr();
  }

  Result<RegexNodePtr> ParseGroup(const Options& options, uint32_t depth) {
    const size_t begin = at_;
    ++at_;
    RegexNodePtr node;
    Options inner = options;
    const auto look = [&](uint8_t mode) {
      node = NewNode(RegexNode::Kind::kLook, begin);
      node->mode = mode;
    };
    uint32_t group = 0;
    const bool is_plain = LooksAt("?:");
    if (!LooksAt("?")) {
      if (!has_names_) group = ++n_groups_;
    } else if (Take("?:")) {
    } else if (Take("?=")) {
      look(kLookAhead);
    } else if (Take("?!")) {
      look(kNotAhead);
    } else if (Take("?<=")) {
      look(kLookBehind);
    } else if (Take("?<!")) {
      look(kNotBehind);
    } else if (Take("?>")) {
      node = NewNode(RegexNode::Kind::kAtomic, begin);
    } else if (LooksAt("?<") || LooksAt("?'")) {
      const char close = pattern_[at_ + 1] == '<' ? '>' : '\'';
      at_ += 2;
      const size_t end = pattern_.find(close, at_);
      if (end == std::string_view::npos || end == at_) return Wrong(begin, "a group name without an end");
      const std::string name(pattern_.substr(at_, end - at_));
      const char32_t initial = ReadScalar(name.data()).value;
      if ((initial >= '0' && initial <= '9') || !EscapeWordSet().Contains(initial))
        return Wrong(begin, "a group name that begins with no letter");
      at_ = end + 1;
      group = ++n_groups_;
      if (!names_.emplace(name, group).second) return Wrong(begin, "a group name that stands twice");
    } else {
      at_ += 1;
      SLM_TRY(GroupOptions(begin, &inner));
    }
    SLM_ASSIGN(RegexNodePtr body, ParseAlternatives(inner, depth + 1));
    if (!Take(")")) return Wrong(begin, "a ( without its )");
    if (node != nullptr) {
      if (node->kind == RegexNode::Kind::kLook && node->mode >= kLookBehind)
        SLM_TRY(CheckBehind(*body, node->mode));
      node->children.push_back(std::move(body));
      return node;
    }
    if (group == 0) {
      // A group of its own even around one thing, so that a repetition takes all of it.
      std::vector<RegexNodePtr> only;
      only.push_back(std::move(body));
      auto wrapped = NewNode(RegexNode::Kind::kConcat, begin);
      wrapped->children = std::move(only);
      if (is_plain) wrapped->mode = kPlainGroup;
      return wrapped;
    }
    auto capture = NewNode(RegexNode::Kind::kCapture, begin);
    capture->group = group;
    single_char_group_.resize(group + 1, false);
    single_char_group_[group] = IsOneCharacter(*body);
    capture->children.push_back(std::move(body));
    return capture;
  }

  // What Oniguruma refuses there, and possessive parts, whose meaning backwards is another.
  Status CheckBehind(const RegexNode& node, uint8_t mode) {
    using Kind = RegexNode::Kind;
    const bool ahead = node.kind == Kind::kLook && node.mode <= kNotAhead;
    const bool capture = node.kind == Kind::kCapture && mode == kNotBehind;
    const bool atomic =
        node.kind == Kind::kAtomic || (node.kind == Kind::kRepeat && node.mode == kPossessive);
    if (ahead || capture || atomic || node.kind == Kind::kBackReference) {
      return Wrong(node.offset, "a look-behind outside the subset");
    }
    for (const auto& child : node.children) SLM_TRY(CheckBehind(*child, mode));
    return {};
  }

  static bool IsOneCharacter(const RegexNode& node) {
    if (node.kind == RegexNode::Kind::kSet) return true;
    if (node.kind == RegexNode::Kind::kAlternatives) {
      return std::all_of(node.children.begin(), node.children.end(),
                         [](const auto& child) { return IsOneCharacter(*child); });
    }
    return node.kind == RegexNode::Kind::kConcat && node.children.size() == 1 &&
           IsOneCharacter(*node.children[0]);
  }

  Status GroupOptions(size_t begin, Options* options) {
    bool on = true;
    for (; !AtEnd(); ++at_) {
      const char c = pattern_[at_];
      if (c == ':') {
        ++at_;
        return {};
      }
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        options->ignore_case = on;
      } else if (c == 'm') {
        options->dot_all = on;
      } else if (c == 'x') {
        options->extended = on;
      } else {
        break;
      }
    }
    return Wrong(begin, "a kind of group that is unknown or outside the subset");
  }

  Result<char32_t> Hex(size_t begin, size_t min_digits, size_t max_digits) {
    char32_t value = 0;
    size_t n = 0;
    while (n < max_digits && !AtEnd()) {
      const char c = pattern_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
      ++n;
    }
    if (n < min_digits) return Wrong(begin, "too few hexadecimal digits");
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return Wrong(begin, "a code point that is no scalar value");
    }
    return value;
  }

  // An escape that stands for one character, after the backslash; nothing if it is another kind.
  Result<std::optional<char32_t>> EscapedScalar(size_t begin) {
    const char c = pattern_[at_];
    const auto simple = [this](char32_t value) -> Result<std::optional<char32_t>> {
      ++at_;
      return std::optional(value);
    };
    switch (c) {
      case 't':
        return simple('\t');
      case 'n':
        return simple('\n');
      case 'r':
        return simple('\r');
      case 'f':
        return simple('\f');
      case 'v':
        return simple('\v');
      case 'a':
        return simple('\a');
      case 'e':
        return simple(0x1B);
      case 'u': {
        ++at_;
        SLM_ASSIGN(const char32_t value, Hex(begin, 4, 4));
        return std::optional(value);
      }
      case 'x': {
        ++at_;
        if (AtEnd()) return std::optional<char32_t>('x');
        if (Take("{")) {
          SLM_ASSIGN(const char32_t value, Hex(begin, 1, 8));
          if (!Take("}")) return Wrong(begin, "\\x{ without }");
          return std::optional(value);
        }
        SLM_ASSIGN(const char32_t value, Hex(begin, 0, 2));
        if (value < 0x80) return std::optional(value);
        return RawBytes(begin, value);
      }
      case 'c':
      case 'C': {
        ++at_;
        if (c == 'C' && !Take("-")) return Wrong(begin, "an escape that is unknown");
        if (AtEnd() || pattern_[at_] == '\\') return Wrong(begin, "a control character of an unknown form");
        const char32_t value = NextScalar();
        return std::optional<char32_t>(value == '?' ? 0x7F : value & 0x9F);
      }
      case 'M':
        return Wrong(begin, "\\M- is outside the subset");
      default:
        break;
    }
    if (c == '0') {
      char32_t value = 0;
      for (int n = 0; n < 3 && !AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++n) {
        value = value * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
      }
      if (value > 0x7F) return Wrong(begin, "an octal escape beyond ASCII");
      return std::optional(value);
    }
    return std::optional<char32_t>();
  }

  // \xE3\x81\x82: the bytes of one character.
  Result<std::optional<char32_t>> RawBytes(size_t begin, char32_t first) {
    std::string bytes(1, static_cast<char>(static_cast<uint8_t>(first)));
    while (IncompleteUtf8Suffix(bytes) > 0 && LooksAt("\\x") && !LooksAt("\\x{")) {
      at_ += 2;
      SLM_ASSIGN(const char32_t more, Hex(begin, 2, 2));
      bytes.push_back(static_cast<char>(static_cast<uint8_t>(more)));
    }
    if (FindUtf8Fault(bytes)) return Wrong(begin, "bytes that are no character");
    size_t position = 0;
    return std::optional(DecodeUtf8(bytes, &position));
  }

  // \d and its like, after the backslash; nothing if it is another kind.
  std::optional<RangeSet> EscapedSet(bool in_class) {
    const char c = pattern_[at_];
    const auto set = [this, c](const RangeSet& positive) {
      ++at_;
      return std::optional(c >= 'a' ? positive : positive.Inverted());
    };
    if (c == 'd' || c == 'D') return set(Property("nd"));
    if (c == 's' || c == 'S') return set(Property("whitespace"));
    if (c == 'w' || c == 'W') return set(in_class ? WordSet() : EscapeWordSet());
    if (c == 'h' || c == 'H') return set(Property("asciihexdigit"));
    return std::nullopt;
  }

  // \p{Name}, \P{Name}, \p{^Name}, after the backslash. Without braces p is a literal.
  Result<std::optional<RangeSet>> PropertySet(size_t begin) {
    const bool negated_letter = LooksAt("P{");
    if (!LooksAt("p{") && !negated_letter) return std::optional<RangeSet>();
    at_ += 2;
    const bool negated = negated_letter != Take("^");
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return Wrong(begin, "\\p{ without }");
    std::string name;
    for (const char c : pattern_.substr(at_, end - at_)) {
      if (c == ' ' || c == '_' || c == '-') continue;
      name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
    std::optional<RangeSet> set = PosixSet(name);
    // As a property punctuation is the general category alone.
    if (name == "punct") set = Property("p");
    if (name == "word") set = EscapeWordSet();
    if (name == "any") set = AnyScalar();
    if (name == "assigned") set = Property("cn").Inverted();
    if (!set) {
      if (const auto ranges = unicode::PropertyRangesV16(name)) set = RangeSet::FromPairs(*ranges);
    }
    if (!set)
      return Wrong(begin, "\\p{" + std::string(name) + "}: an unknown property, or one outside the subset");
    at_ = end + 1;
    return std::optional(negated ? set->Inverted() : *std::move(set));
  }

  Result<RegexNodePtr> ParseEscape(const Options& options, size_t begin, std::optional<char32_t>* literal) {
    if (AtEnd()) return Wrong(begin, "a \\ at the end");
    const auto assertion = [&](Assertion kind) -> Result<RegexNodePtr> {
      ++at_;
      auto node = NewNode(RegexNode::Kind::kAssert, begin);
      node->assertion = kind;
      return node;
    };
    switch (pattern_[at_]) {
      case 'A':
        return assertion(Assertion::kTextStart);
      case 'z':
        return assertion(Assertion::kTextEnd);
      case 'Z':
        return assertion(Assertion::kTextEndOrNewline);
      case 'G':
        return assertion(Assertion::kSearchStart);
      case 'b':
        return assertion(Assertion::kWord);
      case 'B':
        return assertion(Assertion::kNotWord);
      case 'N':
        ++at_;
        return NewSet(RangeSet({{'\n', '\n'}}).Inverted(), begin);
      case 'O':
        ++at_;
        return NewSet(AnyScalar(), begin);
      case 'R': {  // (?>\r\n|[\n-\r\u{85 2028 2029}])
        ++at_;
        std::vector<RegexNodePtr> pair;
        pair.push_back(NewSet(RangeSet({{'\r', '\r'}}), begin));
        pair.push_back(NewSet(RangeSet({{'\n', '\n'}}), begin));
        std::vector<RegexNodePtr> ways;
        ways.push_back(NewSequence(std::move(pair), begin));
        ways.push_back(NewSet(RangeSet({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}), begin));
        auto node = NewNode(RegexNode::Kind::kAtomic, begin);
        node->children.push_back(NewAlternatives(std::move(ways), begin));
        return node;
      }
      case 'k':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7':
      case '8':
      case '9':
        return ParseBackReference(options, begin, literal);
      case 'K':
      case 'X':
      case 'y':
      case 'Y':
      case 'g':
        return Wrong(begin, std::string("\\") + pattern_[at_] + " is outside the subset");
      default:
        break;
    }
    if (auto set = EscapedSet(false)) return NewSet(*std::move(set), begin);
    SLM_ASSIGN(std::optional<RangeSet> property, PropertySet(begin));
    // As it is, in any case too: only in a class is a property closed under case.
    if (property) return NewSet(*std::move(property), begin);
    SLM_ASSIGN(*literal, EscapedScalar(begin));
    if (!*literal) *literal = NextScalar();
    return RegexNodePtr();
  }

  Result<RegexNodePtr> ParseBackReference(const Options& options, size_t begin,
                                          std::optional<char32_t>* literal) {
    uint32_t group = 0;
    if (Take("k")) {
      const char close = LooksAt("<") ? '>' : '\'';
      if (!Take("<") && !Take("'")) return Wrong(begin, "a reference of an unknown form");
      const size_t end = pattern_.find(close, at_);
      if (end == std::string_view::npos) return Wrong(begin, "a reference without an end");
      const std::string name(pattern_.substr(at_, end - at_));
      at_ = end + 1;
      const auto found = names_.find(name);
      if (found == names_.end()) return Wrong(begin, "a reference to a group that does not stand before it");
      group = found->second;
    } else {
      const size_t first = at_;
      uint64_t number = 0;
      while (!AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '9' && at_ - first < 4) {
        number = number * 10 + static_cast<uint64_t>(pattern_[at_++] - '0');
      }
      if (number > 9 && number > n_groups_) {  // an octal character code
        at_ = first;
        char32_t value = 0;
        for (int n = 0; n < 3 && !AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++n) {
          value = value * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
        }
        if (at_ == first || value > 0x7F) return Wrong(begin, "an escape of an unknown form");
        *literal = value;
        return RegexNodePtr();
      }
      if (has_names_) return Wrong(begin, "a reference by number beside named groups");
      if (number > n_groups_) return Wrong(begin, "a reference to a group that does not stand before it");
      group = static_cast<uint32_t>(number);
    }
    if (group >= single_char_group_.size() || !single_char_group_[group]) {
      return Wrong(begin, "a back-reference to a group that is not one character");
    }
    has_back_reference_ = true;
    auto node = NewNode(RegexNode::Kind::kBackReference, begin);
    node->group = group;
    node->ignore_case = options.ignore_case;
    return node;
  }

  struct ClassParts {
    RangeSet set;
    bool negated = false;
  };

  // After the [. Leaves after the ].
  Status ParseClass(const Options& options, uint32_t depth, ClassParts* out) {
    const size_t begin = at_ - 1;
    if (depth > kMaxDepth) return Wrong(begin, "classes nested deeper than 64");
    out->negated = Take("^");
    RangeSet set;
    std::optional<RangeSet> left;  // of &&
    bool first = true;
    bool any = false;
    while (true) {
      if (AtEnd()) return Wrong(begin, "a [ without its ]");
      const size_t item = at_;
      if (pattern_[at_] == ']') {
        // At the very start it is a member, if another one closes the class.
        if (!first || pattern_.find(']', at_ + 1) == std::string_view::npos) {
          if (first) return Wrong(begin, "an empty class");
          ++at_;
          break;
        }
      } else if (Take("&&")) {
        left = left ? left->And(set) : set;
        set = RangeSet();
        first = false;
        any = true;
        continue;
      }
      first = false;
      any = true;
      SLM_ASSIGN(auto member, ClassMember(options, depth));
      if (member.is_set) {
        if (LooksAt("-") && !LooksAt("-]") && !LooksAt("-&&") && !LooksAt("-[")) {
          return Wrong(at_, "a range that begins with a class");
        }
        set.Merge(member.set);
        continue;
      }
      const char32_t low = member.scalar;
      if (LooksAt("-") && !LooksAt("-]") && !LooksAt("-&&") && !LooksAt("-[")) {
        ++at_;
        SLM_ASSIGN(const auto high, ClassMember(options, depth));
        if (high.is_set) return Wrong(item, "a range that ends with a class");
        if (high.scalar < low) return Wrong(item, "a range whose end lies before its start");
        set.Add(low, high.scalar);
        continue;
      }
      set.Add(low, low);
    }
    if (!any) return Wrong(begin, "an empty class");
    out->set = left ? left->And(set) : std::move(set);
    return {};
  }

  struct Member {
    bool is_set = false;
    RangeSet set;
    char32_t scalar = 0;
  };
  Result<Member> ClassMember(const Options& options, uint32_t depth) {
    const size_t begin = at_;
    Member out;
    const auto as_set = [&out](RangeSet set) {
      out.is_set = true;
      out.set = std::move(set);
    };
    if (AtEnd()) return Wrong(begin, "a class without an end");
    if (LooksAt("[:")) {
      const size_t end = pattern_.find(":]", at_ + 2);
      if (end != std::string_view::npos && end - at_ <= 22) {
        std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
        const bool negated = name.starts_with("^");
        if (negated) name.remove_prefix(1);
        const bool is_name =
            std::all_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
        if (is_name) {
          const auto set = PosixSet(name);
          if (!set) return Wrong(begin, "an unknown POSIX class");
          at_ = end + 2;
          as_set(negated ? set->Inverted() : *set);
          return out;
        }
      }
    }
    if (Take("[")) {
      ClassParts parts;
      SLM_TRY(ParseClass(options, depth + 1, &parts));
      as_set(parts.negated ? parts.set.Inverted() : std::move(parts.set));
      return out;
    }
    if (!Take("\\")) {
      out.scalar = NextScalar();
      return out;
    }
    if (AtEnd()) return Wrong(begin, "a \\ at the end");
    if (auto set = EscapedSet(true)) {
      as_set(*std::move(set));
      return out;
    }
    SLM_ASSIGN(std::optional<RangeSet> property, PropertySet(begin));
    if (property) {
      as_set(*std::move(property));
      return out;
    }
    if (Take("b")) {
      out.scalar = 0x08;
      return out;
    }
    if (LooksAt("R") || LooksAt("X")) return Wrong(begin, "an escape that has no meaning in a class");
    if (pattern_[at_] >= '1' && pattern_[at_] <= '7') {
      char32_t value = 0;
      for (int n = 0; n < 3 && !AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++n) {
        value = value * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
      }
      if (value > 0x7F) return Wrong(begin, "an octal escape beyond ASCII");
      out.scalar = value;
      return out;
    }
    SLM_ASSIGN(const std::optional<char32_t> scalar, EscapedScalar(begin));
    out.scalar = scalar ? *scalar : NextScalar();
    return out;
  }

  Result<RegexNodePtr> ClassNode(ClassParts parts, const Options& options, size_t begin) {
    if (!options.ignore_case)
      return NewSet(parts.negated ? parts.set.Inverted() : std::move(parts.set), begin);
    const RangeSet closed = CloseUnderCase(parts.set);
    if (parts.negated) return NewSet(closed.Inverted(), begin);
    std::vector<RegexNodePtr> ways;
    RangeSet set = closed;
    std::vector<std::vector<char32_t>> spelled;
    for (const FullFold& fold : FullFolds()) {
      if (!parts.set.Contains(fold.from)) continue;
      for (const FullFold& other : FullFolds()) {
        if (other.to == fold.to) set.Add(other.from, other.from);
      }
      if (std::find(spelled.begin(), spelled.end(), fold.to) == spelled.end()) spelled.push_back(fold.to);
    }
    ways.push_back(NewSet(std::move(set), begin));
    for (const auto& text : spelled) {
      std::vector<RegexNodePtr> letters;
      for (const char32_t c : text) letters.push_back(NewSet(OneOf(c, true), begin));
      ways.push_back(NewSequence(std::move(letters), begin));
    }
    return NewAlternatives(std::move(ways), begin);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  uint32_t n_groups_ = 0;
  bool has_names_ = false;
  bool has_back_reference_ = false;
  std::map<std::string, uint32_t> names_;
  std::vector<bool> single_char_group_;
};

}  // namespace

bool IsRegexWord(char32_t scalar) {
  static const CharSet kWord(EscapeWordSet());
  return kWord.Contains(scalar);
}

Result<ParsedRegex> ParseRegex(std::string_view pattern) {
  return RegexParser(pattern).Run();
}

}  // namespace slm::tokenizer
