#include "chat/parser.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "chat/builtins.h"
#include "chat/lexer.h"
#include "codec/sha256.h"

namespace slm::chat {
namespace {

constexpr uint32_t kMaxNesting = 100;
constexpr size_t kMaxSourceBytes = 1u << 20;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Program> Run() {
    SLM_ASSIGN(program_.root, Body({}));
    for (const std::string& name : free_names_) program_.inputs.push_back(name);
    return std::move(program_);
  }

 private:
  // ---- tokens ----
  const Token& Peek() const { return tokens_[position_]; }
  const Token& Next() { return tokens_[position_ + 1 < tokens_.size() ? position_++ : position_]; }
  bool IsOperator(std::string_view sign) const {
    return Peek().kind == TokenKind::kOperator && Peek().text == sign;
  }
  bool IsName(std::string_view name) const { return Peek().kind == TokenKind::kName && Peek().text == name; }
  bool SkipOperator(std::string_view sign) {
    if (!IsOperator(sign)) return false;
    Next();
    return true;
  }
  bool SkipName(std::string_view name) {
    if (!IsName(name)) return false;
    Next();
    return true;
  }
  std::unexpected<Error> Refuse(ErrorCode code, const std::string& what, const Token& at) const {
    return Fail(MakeError(code, "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                                    ": " + what)
                    .At(at.byte_offset));
  }
  Status Expect(std::string_view sign) {
    if (SkipOperator(sign)) return {};
    return Refuse(ErrorCode::kTplSyntax, "expected '" + std::string(sign) + "'", Peek());
  }
  Status ExpectKind(TokenKind kind, std::string_view what) {
    if (Peek().kind != kind) return Refuse(ErrorCode::kTplSyntax, "expected " + std::string(what), Peek());
    Next();
    return {};
  }

  // ---- building ----
  uint32_t Intern(const std::string& text) {
    const auto [entry, added] = strings_.try_emplace(text, static_cast<uint32_t>(program_.strings.size()));
    if (added) program_.strings.push_back(text);
    return entry->second;
  }
  uint32_t Emit(Op op, std::vector<uint32_t> operands, uint32_t line) {
    program_.nodes.push_back({op, line, std::move(operands)});
    return static_cast<uint32_t>(program_.nodes.size() - 1);
  }

  // Limits the recursion of this parser, and with it the depth of the IR.
  struct Nesting {
    explicit Nesting(uint32_t* depth) : depth_(depth) { ++*depth_; }
    ~Nesting() { --*depth_; }
    uint32_t* depth_;
  };
  Status CheckNesting() const {
    if (nesting_ < kMaxNesting) return {};
    return Refuse(ErrorCode::kTplBound, "nested deeper than " + std::to_string(kMaxNesting), Peek());
  }

  // ---- statements ----
  bool AtEnd(const std::vector<std::string_view>& ends) const {
    return Peek().kind == TokenKind::kBlockBegin && position_ + 1 < tokens_.size() &&
           tokens_[position_ + 1].kind == TokenKind::kName &&
           std::find(ends.begin(), ends.end(), tokens_[position_ + 1].text) != ends.end();
  }

  // Statements up to one of `ends` (whose block-begin is not consumed) or the end of the source.
  Result<uint32_t> Body(const std::vector<std::string_view>& ends) {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const uint32_t line = Peek().line;
    std::vector<uint32_t> statements;
    while (Peek().kind != TokenKind::kEnd && !AtEnd(ends)) {
      const Token& token = Next();
      if (token.kind == TokenKind::kText) {
        statements.push_back(Emit(Op::kText, {Intern(token.text)}, token.line));
      } else if (token.kind == TokenKind::kVariableBegin) {
        SLM_ASSIGN(const uint32_t value, TupleOrExpression());
        SLM_TRY(ExpectKind(TokenKind::kVariableEnd, "'}}'"));
        statements.push_back(Emit(Op::kOutput, {value}, token.line));
      } else if (token.kind == TokenKind::kBlockBegin) {
        SLM_ASSIGN(const uint32_t statement, Statement());
        statements.push_back(statement);
      } else {
        return Refuse(ErrorCode::kTplSyntax, "unexpected token", token);
      }
    }
    if (Peek().kind == TokenKind::kEnd && !ends.empty()) {
      return Refuse(ErrorCode::kTplSyntax,
                    "the template ends inside a block; expected " + std::string(ends.back()), Peek());
    }
    return Emit(Op::kSequence, std::move(statements), line);
  }

  Result<uint32_t> Statement() {
    const Token name = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a statement"));
    if (name.text == "if") return If(name.line);
    if (name.text == "for") return For(name.line);
    if (name.text == "set") return Set(name.line);
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) return Refuse(ErrorCode::kTplSyntax, name.text + " outside a loop", name);
      SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
      return Emit(name.text == "break" ? Op::kBreak : Op::kContinue, {}, name.line);
    }
    static const std::set<std::string_view> kKnown = {
        "macro",  "call", "filter", "generation", "raw", "block", "extends", "include",
        "import", "from", "with",   "autoescape", "do",  "trans", "debug"};
    if (kKnown.contains(name.text)) {
      return Refuse(ErrorCode::kTplForbidden, "the statement '" + name.text + "' is outside the subset",
                    name);
    }
    return Refuse(ErrorCode::kTplSyntax, "unknown statement '" + EscapeName(name.text) + "'", name);
  }

  static std::string EscapeName(const std::string& name) { return name.substr(0, 64); }

  // After "if" or "elif".
  Result<uint32_t> If(uint32_t line) {
    SLM_ASSIGN(const uint32_t condition, TupleOrExpression());
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    SLM_ASSIGN(const uint32_t then, Body({"elif", "else", "endif"}));
    Next();
    const Token keyword = Next();
    uint32_t otherwise = kNoNode;
    if (keyword.text == "elif") {
      const Nesting nesting(&nesting_);
      SLM_TRY(CheckNesting());
      SLM_ASSIGN(otherwise, If(keyword.line));
      return Emit(Op::kIf, {condition, then, otherwise}, line);
    }
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    if (keyword.text == "else") {
      SLM_ASSIGN(otherwise, Body({"endif"}));
      Next();
      Next();
      SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    }
    return Emit(Op::kIf, {condition, then, otherwise}, line);
  }

  Result<std::string> TargetName() {
    const Token token = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a name"));
    static const std::set<std::string_view> kReserved = {"true",  "false", "none", "True",
                                                         "False", "None",  "loop"};
    if (kReserved.contains(token.text))
      return Refuse(ErrorCode::kTplSyntax, "cannot assign to " + token.text, token);
    return token.text;
  }

  Result<uint32_t> For(uint32_t line) {
    std::vector<std::string> targets;
    const bool parenthesized = SkipOperator("(");
    do {
      SLM_ASSIGN(std::string target, TargetName());
      targets.push_back(std::move(target));
    } while (SkipOperator(",") && !IsName("in"));
    if (parenthesized) SLM_TRY(Expect(")"));
    if (!SkipName("in")) return Refuse(ErrorCode::kTplSyntax, "expected 'in'", Peek());
    SLM_ASSIGN(const uint32_t iterable, TupleOrExpression(/*with_condition=*/false));
    scopes_.emplace_back(targets.begin(), targets.end());
    scopes_.back().insert("loop");
    uint32_t filter = kNoNode;
    if (SkipName("if")) {
      SLM_ASSIGN(filter, Expression());
    }
    if (IsName("recursive")) return Refuse(ErrorCode::kTplForbidden, "a recursive loop", Peek());
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    ++loops_;
    SLM_ASSIGN(const uint32_t body, Body({"else", "endfor"}));
    --loops_;
    scopes_.pop_back();
    Next();
    const Token keyword = Next();
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    uint32_t otherwise = kNoNode;
    if (keyword.text == "else") {
      SLM_ASSIGN(otherwise, Body({"endfor"}));
      Next();
      Next();
      SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    }
    std::vector<uint32_t> operands{iterable, filter, body, otherwise};
    for (const std::string& target : targets) operands.push_back(Intern(target));
    return Emit(Op::kFor, std::move(operands), line);
  }

  Result<uint32_t> Set(uint32_t line) {
    const Token at = Peek();
    SLM_ASSIGN(const std::string name, TargetName());
    std::optional<std::string> attribute;
    if (SkipOperator(".")) {
      SLM_ASSIGN(attribute, TargetName());
      if (attribute->starts_with('_')) return Refuse(ErrorCode::kTplForbidden, "an underscore attribute", at);
    }
    if (!IsOperator("="))
      return Refuse(ErrorCode::kTplForbidden, "this form of 'set' is outside the subset", Peek());
    Next();
    SLM_ASSIGN(const uint32_t value, TupleOrExpression());
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    if (attribute) {
      UseName(name);
      return Emit(Op::kSetAttr, {Intern(name), Intern(*attribute), value}, line);
    }
    return Emit(Op::kSetName, {Intern(name), value}, line);
  }

  void UseName(const std::string& name) {
    for (const auto& scope : scopes_) {
      if (scope.contains(name)) return;
    }
    // A name that the template assigns may still be read before that from the context.
    if (!IsFunctionName(name)) free_names_.insert(name);
  }

  // Names that Jinja2 itself defines: objects of the host, not inputs.
  Status CheckGlobal(const Token& token) const {
    static const std::set<std::string_view> kGlobals = {
        "self",   "lipsum", "cycler",    "joiner",          "dict",        "varargs", "kwargs",
        "caller", "range",  "namespace", "raise_exception", "strftime_now"};
    if (!kGlobals.contains(token.text)) return {};
    return Refuse(ErrorCode::kTplForbidden, "'" + token.text + "' as a value", token);
  }

  // ---- expressions ----
  Result<uint32_t> TupleOrExpression(bool with_condition = true) {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(const uint32_t first, with_condition ? Expression() : Or());
    if (!IsOperator(",")) return first;
    std::vector<uint32_t> items{first};
    while (SkipOperator(",")) {
      if (Peek().kind == TokenKind::kBlockEnd || Peek().kind == TokenKind::kVariableEnd || IsOperator(")"))
        break;
      SLM_ASSIGN(const uint32_t item, with_condition ? Expression() : Or());
      items.push_back(item);
    }
    return Emit(Op::kTuple, std::move(items), line);
  }

  Result<uint32_t> Expression() {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t value, Or());
    while (SkipName("if")) {
      SLM_ASSIGN(const uint32_t condition, Or());
      uint32_t otherwise = kNoNode;
      if (SkipName("else")) {
        SLM_ASSIGN(otherwise, Expression());
      }
      value = Emit(Op::kConditional, {condition, value, otherwise}, line);
    }
    return value;
  }

  Result<uint32_t> Or() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t left, And());
    while (SkipName("or")) {
      SLM_ASSIGN(const uint32_t right, And());
      left = Emit(Op::kOr, {left, right}, line);
    }
    return left;
  }

  Result<uint32_t> And() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t left, Not());
    while (SkipName("and")) {
      SLM_ASSIGN(const uint32_t right, Not());
      left = Emit(Op::kAnd, {left, right}, line);
    }
    return left;
  }

  Result<uint32_t> Not() {
    if (!IsName("not")) return Compare();
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const uint32_t line = Next().line;
    SLM_ASSIGN(const uint32_t value, Not());
    return Emit(Op::kNot, {value}, line);
  }

  std::optional<Op> CompareOperator() {
    static const std::map<std::string_view, Op> kSigns = {{"==", Op::kEqual},  {"!=", Op::kNotEqual},
                                                          {"<", Op::kLess},    {"<=", Op::kLessEqual},
                                                          {">", Op::kGreater}, {">=", Op::kGreaterEqual}};
    if (Peek().kind == TokenKind::kOperator) {
      const auto found = kSigns.find(Peek().text);
      if (found == kSigns.end()) return std::nullopt;
      Next();
      return found->second;
    }
    if (SkipName("in")) return Op::kIn;
    if (IsName("not") && tokens_[position_ + 1].kind == TokenKind::kName &&
        tokens_[position_ + 1].text == "in") {
      Next();
      Next();
      return Op::kNotIn;
    }
    return std::nullopt;
  }

  Result<uint32_t> Compare() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t left, Sum());
    auto op = CompareOperator();
    if (!op) return left;
    SLM_ASSIGN(const uint32_t right, Sum());
    if (*op == Op::kIn || *op == Op::kNotIn) NotePredicate("in", left, right, line);
    const Token at = Peek();
    if (CompareOperator()) return Refuse(ErrorCode::kTplForbidden, "a chained comparison", at);
    return Emit(*op, {left, right}, line);
  }

  Result<uint32_t> Sum() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t left, Concat());
    while (IsOperator("+") || IsOperator("-")) {
      const Op op = Next().text == "+" ? Op::kAdd : Op::kSubtract;
      SLM_ASSIGN(const uint32_t right, Concat());
      left = Emit(op, {left, right}, line);
    }
    return left;
  }

  Result<uint32_t> Concat() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(const uint32_t first, Product());
    std::vector<uint32_t> parts{first};
    while (SkipOperator("~")) {
      SLM_ASSIGN(const uint32_t part, Product());
      parts.push_back(part);
    }
    return parts.size() == 1 ? first : Emit(Op::kConcat, std::move(parts), line);
  }

  Result<uint32_t> Product() {
    const uint32_t line = Peek().line;
    SLM_ASSIGN(uint32_t left, Unary(/*with_filter=*/true));
    for (;;) {
      if (IsOperator("/") || IsOperator("//") || IsOperator("**")) {
        return Refuse(ErrorCode::kTplForbidden, "the operator '" + Peek().text + "'", Peek());
      }
      if (!IsOperator("*") && !IsOperator("%")) return left;
      const Op op = Next().text == "*" ? Op::kMultiply : Op::kModulo;
      SLM_ASSIGN(const uint32_t right, Unary(/*with_filter=*/true));
      left = Emit(op, {left, right}, line);
    }
  }

  Result<uint32_t> Unary(bool with_filter) {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const uint32_t line = Peek().line;
    uint32_t value = 0;
    if (SkipOperator("-")) {
      SLM_ASSIGN(const uint32_t operand, Unary(false));
      value = Emit(Op::kNegate, {operand}, line);
    } else if (SkipOperator("+")) {
      SLM_ASSIGN(value, Unary(false));
    } else {
      SLM_ASSIGN(value, Primary());
    }
    SLM_ASSIGN(value, Postfix(value));
    return with_filter ? FiltersAndTests(value) : value;
  }

  Result<uint32_t> Primary() {
    const Token token = Next();
    switch (token.kind) {
      case TokenKind::kName:
        if (token.text == "true" || token.text == "True") return Emit(Op::kTrue, {}, token.line);
        if (token.text == "false" || token.text == "False") return Emit(Op::kFalse, {}, token.line);
        if (token.text == "none" || token.text == "None") return Emit(Op::kNone, {}, token.line);
        if (IsOperator("(")) return FunctionCall(token);
        SLM_TRY(CheckGlobal(token));
        UseName(token.text);
        return Emit(Op::kName, {Intern(token.text)}, token.line);
      case TokenKind::kString: {
        std::string text = token.text;
        while (Peek().kind == TokenKind::kString) text += Next().text;
        return Emit(Op::kString, {Intern(text)}, token.line);
      }
      case TokenKind::kInteger:
        if (token.text.size() > 18)
          return Refuse(ErrorCode::kTplForbidden, "an integer of more than 18 digits", token);
        return Emit(Op::kInteger, {Intern(token.text)}, token.line);
      case TokenKind::kFloat:
        return Emit(Op::kFloat, {Intern(token.text)}, token.line);
      case TokenKind::kOperator:
        if (token.text == "(") return Parenthesized(token.line);
        if (token.text == "[") return ListLiteral(token.line);
        if (token.text == "{") return DictLiteral(token.line);
        break;
      default:
        break;
    }
    return Refuse(ErrorCode::kTplSyntax, "expected an expression", token);
  }

  Result<uint32_t> Parenthesized(uint32_t line) {
    if (SkipOperator(")")) return Emit(Op::kTuple, {}, line);
    SLM_ASSIGN(const uint32_t value, TupleOrExpression());
    SLM_TRY(Expect(")"));
    return value;
  }

  Result<uint32_t> ListLiteral(uint32_t line) {
    std::vector<uint32_t> items;
    while (!IsOperator("]")) {
      SLM_ASSIGN(const uint32_t item, Expression());
      items.push_back(item);
      if (!SkipOperator(",")) break;
    }
    SLM_TRY(Expect("]"));
    return Emit(Op::kList, std::move(items), line);
  }

  Result<uint32_t> DictLiteral(uint32_t line) {
    std::vector<uint32_t> items;
    while (!IsOperator("}")) {
      SLM_ASSIGN(const uint32_t key, Expression());
      SLM_TRY(Expect(":"));
      SLM_ASSIGN(const uint32_t value, Expression());
      items.push_back(key);
      items.push_back(value);
      if (!SkipOperator(",")) break;
    }
    SLM_TRY(Expect("}"));
    return Emit(Op::kDict, std::move(items), line);
  }

  // After "(": positional arguments, kNoNode, keyword arguments; the ")" is consumed.
  Status Arguments(std::vector<uint32_t>* operands) {
    std::vector<uint32_t> keywords;
    while (!IsOperator(")")) {
      if (IsOperator("*") || IsOperator("**"))
        return Refuse(ErrorCode::kTplForbidden, "unpacked arguments", Peek());
      if (Peek().kind == TokenKind::kName && tokens_[position_ + 1].kind == TokenKind::kOperator &&
          tokens_[position_ + 1].text == "=") {
        const std::string name = Next().text;
        Next();
        SLM_ASSIGN(const uint32_t value, Expression());
        keywords.push_back(Intern(name));
        keywords.push_back(value);
      } else {
        if (!keywords.empty())
          return Refuse(ErrorCode::kTplSyntax, "a positional argument after a keyword", Peek());
        SLM_ASSIGN(const uint32_t value, Expression());
        operands->push_back(value);
      }
      if (!SkipOperator(",")) break;
    }
    SLM_TRY(Expect(")"));
    operands->push_back(kNoNode);
    operands->insert(operands->end(), keywords.begin(), keywords.end());
    return {};
  }

  Result<uint32_t> FunctionCall(const Token& name) {
    if (!IsFunctionName(name.text)) {
      return Refuse(ErrorCode::kTplForbidden, "a call of '" + EscapeName(name.text) + "'", name);
    }
    Next();
    std::vector<uint32_t> operands{Intern(name.text)};
    SLM_TRY(Arguments(&operands));
    return Emit(Op::kFunction, std::move(operands), name.line);
  }

  Result<uint32_t> Postfix(uint32_t value) {
    for (;;) {
      const Token at = Peek();
      if (SkipOperator(".")) {
        SLM_ASSIGN(value, Member(value));
      } else if (SkipOperator("[")) {
        SLM_ASSIGN(value, Subscript(value, at.line));
      } else if (IsOperator("(")) {
        return Refuse(ErrorCode::kTplForbidden, "a call of a computed value", at);
      } else {
        return value;
      }
    }
  }

  // After ".".
  Result<uint32_t> Member(uint32_t receiver) {
    const Token name = Next();
    if (name.kind == TokenKind::kInteger) {
      const uint32_t index = Emit(Op::kInteger, {Intern(name.text)}, name.line);
      return Emit(Op::kItem, {receiver, index}, name.line);
    }
    if (name.kind != TokenKind::kName)
      return Refuse(ErrorCode::kTplSyntax, "expected a name after '.'", name);
    if (name.text.starts_with('_')) return Refuse(ErrorCode::kTplForbidden, "an underscore attribute", name);
    if (!IsOperator("(")) return Emit(Op::kAttr, {receiver, Intern(name.text)}, name.line);
    if (!IsMethodName(name.text)) {
      return Refuse(ErrorCode::kTplForbidden, "the method '" + EscapeName(name.text) + "'", name);
    }
    Next();
    std::vector<uint32_t> operands{Intern(name.text), receiver};
    SLM_TRY(Arguments(&operands));
    if (operands[2] != kNoNode) NotePredicate(name.text, operands[2], receiver, name.line);
    return Emit(Op::kMethod, std::move(operands), name.line);
  }

  // After "[".
  Result<uint32_t> Subscript(uint32_t receiver, uint32_t line) {
    uint32_t parts[3] = {kNoNode, kNoNode, kNoNode};
    size_t n_colons = 0;
    while (!IsOperator("]")) {
      if (SkipOperator(":")) {
        if (++n_colons > 2) return Refuse(ErrorCode::kTplSyntax, "too many ':' in a slice", Peek());
        continue;
      }
      if (parts[n_colons] != kNoNode) return Refuse(ErrorCode::kTplSyntax, "expected ']'", Peek());
      SLM_ASSIGN(parts[n_colons], Expression());
      if (IsOperator(",")) return Refuse(ErrorCode::kTplForbidden, "a subscript of several parts", Peek());
    }
    Next();
    if (n_colons > 0) return Emit(Op::kSlice, {receiver, parts[0], parts[1], parts[2]}, line);
    if (parts[0] == kNoNode) return Refuse(ErrorCode::kTplSyntax, "an empty subscript", Peek());
    const ProgramNode& index = program_.nodes[parts[0]];
    if (index.op == Op::kString && program_.strings[index.operands[0]].starts_with("__")) {
      return Refuse(ErrorCode::kTplForbidden, "an underscore attribute", Peek());
    }
    return Emit(Op::kItem, {receiver, parts[0]}, line);
  }

  Result<uint32_t> FiltersAndTests(uint32_t value) {
    for (;;) {
      if (SkipOperator("|")) {
        SLM_ASSIGN(value, Filter(value));
      } else if (IsName("is")) {
        SLM_ASSIGN(value, Test(value));
      } else {
        return value;
      }
    }
  }

  Result<uint32_t> Filter(uint32_t receiver) {
    const Token name = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a filter"));
    if (!IsFilterName(name.text)) {
      return Refuse(ErrorCode::kTplForbidden, "the filter '" + EscapeName(name.text) + "'", name);
    }
    std::vector<uint32_t> operands{Intern(name.text), receiver};
    if (SkipOperator("(")) {
      SLM_TRY(Arguments(&operands));
    } else {
      operands.push_back(kNoNode);
    }
    return Emit(Op::kFilter, std::move(operands), name.line);
  }

  Result<uint32_t> Test(uint32_t receiver) {
    Next();
    const bool negated = SkipName("not");
    const Token name = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a test"));
    if (!IsTestName(name.text)) {
      return Refuse(ErrorCode::kTplForbidden, "the test '" + EscapeName(name.text) + "'", name);
    }
    std::vector<uint32_t> operands{Intern(name.text), receiver};
    if (SkipOperator("(")) {
      SLM_TRY(Arguments(&operands));
    } else {
      if (StartsTestArgument()) {
        SLM_ASSIGN(uint32_t argument, Primary());
        SLM_ASSIGN(argument, Postfix(argument));
        operands.push_back(argument);
      }
      operands.push_back(kNoNode);
    }
    const uint32_t test = Emit(Op::kTest, std::move(operands), name.line);
    return negated ? Emit(Op::kNot, {test}, name.line) : test;
  }

  bool StartsTestArgument() const {
    const Token& token = Peek();
    if (token.kind == TokenKind::kName) {
      return token.text != "else" && token.text != "or" && token.text != "and" && token.text != "is" &&
             token.text != "if" && token.text != "in" && token.text != "not";
    }
    return token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
           token.kind == TokenKind::kFloat ||
           (token.kind == TokenKind::kOperator && (token.text == "[" || token.text == "{"));
  }

  // Records that a string may decide control flow: `literal in value`, value.startswith(literal) ...
  // The list is conservative: whether `value` is content is known only when rendering.
  void NotePredicate(const std::string& construct, uint32_t literal, uint32_t value, uint32_t line) {
    static const std::set<std::string_view> kDeciding = {"in", "startswith", "endswith", "split"};
    if (!kDeciding.contains(construct)) return;
    const Op receiver = program_.nodes[value].op;
    if (receiver == Op::kList || receiver == Op::kTuple || receiver == Op::kDict) return;
    const ProgramNode& node = program_.nodes[literal];
    const std::string text = node.op == Op::kString ? program_.strings[node.operands[0]] : std::string();
    program_.content_predicates.push_back({construct, text, line});
  }

  std::vector<Token> tokens_;
  size_t position_ = 0;
  Program program_;
  std::map<std::string, uint32_t> strings_;
  std::vector<std::set<std::string>> scopes_;
  std::set<std::string> free_names_;
  uint32_t nesting_ = 0;
  uint32_t loops_ = 0;
};

}  // namespace

Result<Program> ParseTemplate(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Fail(MakeError(ErrorCode::kTplBound, "a template of more than 1 MiB").At(kMaxSourceBytes));
  }
  SLM_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  SLM_ASSIGN(Program program, Parser(std::move(tokens)).Run());
  // Chains of operators nest in the IR though not in the source: `1+1+1+...`.
  if (!IsWellFormed(program)) {
    return Fail(
        MakeError(ErrorCode::kTplBound, "a chain of operators, filters or conditions that nests too deep"));
  }
  program.source_sha256 = Sha256Of(AsBytes(source));
  return program;
}

}  // namespace slm::chat
