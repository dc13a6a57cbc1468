#include "chat/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "chat/lexer.h"

namespace slm::chat {
namespace {

constexpr uint32_t kMaxNesting = 100;
constexpr size_t kMaxSourceBytes = 1u << 20;
// Chains of operators nest in the tree though not in the source; the IR holds no more levels than this.
constexpr uint32_t kMaxDepth = 250;
constexpr size_t kMaxNodes = 1u << 18;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    ast_.nodes.reserve(tokens_.size());  // seldom more: moving them costs more than making them
  }

  Result<Ast> Run() {
    SLM_ASSIGN(ast_.body, Body({}));
    SLM_TRY(CheckNesting());
    return std::move(ast_);
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // ---- tokens ----
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  const Token& Next() { return tokens_[position_ + 1 < tokens_.size() ? position_++ : position_]; }
  bool IsOperator(std::string_view sign) const {
    return Peek().kind == TokenKind::kOperator && Peek().text == sign;
  }
  bool IsName(std::string_view name) const { return Peek().kind == TokenKind::kName && Peek().text == name; }
  bool IsAnyName(Words names) const {
    return Peek().kind == TokenKind::kName &&
           std::find(names.begin(), names.end(), Peek().text) != names.end();
  }
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
  static std::unexpected<Error> Refuse(ErrorCode code, const std::string& what, const Token& at) {
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
  Status ExpectName(std::string_view name) {
    if (SkipName(name)) return {};
    return Refuse(ErrorCode::kTplSyntax, "expected '" + std::string(name) + "'", Peek());
  }
  Result<std::string> AnyName() {
    const Token token = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a name"));
    return token.text;
  }

  // ---- building ----
  AstNode Make(AstKind kind, const Token& at) const {
    AstNode node;
    node.kind = kind;
    node.line = at.line;
    node.column = at.column;
    node.byte_offset = at.byte_offset;
    return node;
  }
  uint32_t Add(AstNode node) {
    ast_.nodes.push_back(std::move(node));
    AstNode& added = ast_.nodes.back();
    ast_.ForEachChild(static_cast<uint32_t>(ast_.nodes.size() - 1), [&](uint32_t child) {
      added.depth = std::max(added.depth, ast_.nodes[child].depth + 1);
    });
    deepest_ = std::max(deepest_, added.depth);
    return static_cast<uint32_t>(ast_.nodes.size() - 1);
  }
  AstNode& At(uint32_t index) { return ast_.nodes[index]; }

  // Limits the recursion of this parser and of everything that walks the tree.
  struct Nesting {
    explicit Nesting(uint32_t* depth) : depth_(depth) { ++*depth_; }
    ~Nesting() { --*depth_; }
    uint32_t* depth_;
  };
  Status CheckNesting() const {
    if (deepest_ > kMaxDepth) return Refuse(ErrorCode::kTplBound, "a chain that nests too deep", Peek());
    if (nesting_ < kMaxNesting && ast_.nodes.size() < kMaxNodes) return {};
    if (ast_.nodes.size() >= kMaxNodes)
      return Refuse(ErrorCode::kTplBound, "a template of too many nodes", Peek());
    return Refuse(ErrorCode::kTplBound, "nested deeper than " + std::to_string(kMaxNesting), Peek());
  }

  // ---- statements ----
  // Up to one of `ends`, which becomes the current token; or to the end of the source.
  Result<std::vector<uint32_t>> Body(Words ends) {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    std::vector<uint32_t> body;
    std::vector<uint32_t> output;
    Token output_at = Peek();
    const auto flush = [&] {
      if (output.empty()) return;
      AstNode node = Make(AstKind::kOutput, output_at);
      node.items = std::move(output);
      output.clear();
      body.push_back(Add(std::move(node)));
    };
    while (Peek().kind != TokenKind::kEnd) {
      const Token token = Next();
      if (output.empty()) output_at = token;
      if (token.kind == TokenKind::kText) {
        AstNode node = Make(AstKind::kData, token);
        node.text = token.text;
        output.push_back(Add(std::move(node)));
      } else if (token.kind == TokenKind::kVariableBegin) {
        SLM_ASSIGN(const uint32_t value, TupleOrExpression());
        SLM_TRY(ExpectKind(TokenKind::kVariableEnd, "'}}'"));
        output.push_back(value);
      } else {  // a block begins: the lexer knows nothing else at this level
        flush();
        if (ends.size() > 0 && IsAnyName(ends)) return body;
        SLM_ASSIGN(const uint32_t statement, Statement());
        body.push_back(statement);
        SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
      }
    }
    flush();
    if (ends.size() > 0) {
      return Refuse(ErrorCode::kTplSyntax,
                    "the template ends inside a block; expected " + std::string(*(ends.end() - 1)), Peek());
    }
    return body;
  }

  // After the head of a block statement: its end, then the body. The end word is current.
  Result<std::vector<uint32_t>> Statements(Words ends) {
    SkipOperator(":");
    SLM_TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    return Body(ends);
  }
  Result<std::vector<uint32_t>> StatementsTo(std::string_view end) {
    SLM_ASSIGN(std::vector<uint32_t> body, Statements({end}));
    Next();
    return body;
  }

  Result<uint32_t> Statement() {
    const Token name = Peek();
    SLM_TRY(ExpectKind(TokenKind::kName, "a statement"));
    if (name.text == "if") return If(name);
    if (name.text == "for") return For(name);
    if (name.text == "set") return Set(name);
    if (name.text == "macro") return Macro(name);
    if (name.text == "call") return CallBlock(name);
    if (name.text == "filter") return FilterBlock(name);
    if (name.text == "with") return With(name);
    if (name.text == "print") return Print(name);
    if (name.text == "generation") {
      SLM_ASSIGN(std::vector<uint32_t> body, StatementsTo("endgeneration"));
      AstNode node = Make(AstKind::kGeneration, name);
      node.rest = std::move(body);
      return Add(std::move(node));
    }
    if (name.text == "break") return Add(Make(AstKind::kBreak, name));
    if (name.text == "continue") return Add(Make(AstKind::kContinue, name));
    static constexpr std::array<std::string_view, 6> kReaching = {"block",  "extends", "include",
                                                                  "import", "from",    "autoescape"};
    if (std::find(kReaching.begin(), kReaching.end(), name.text) != kReaching.end()) {
      return Refuse(ErrorCode::kTplForbidden, "the statement '" + name.text + "' is outside the subset",
                    name);
    }
    return Refuse(ErrorCode::kTplSyntax, "unknown statement '" + std::string(name.text.substr(0, 64)) + "'",
                  name);
  }

  Result<uint32_t> If(const Token& at) {
    AstNode result = Make(AstKind::kIf, at);
    SLM_ASSIGN(result.first, TupleOrExpression(/*with_condition=*/false));
    SLM_ASSIGN(result.items, Statements({"elif", "else", "endif"}));
    while (IsName("elif")) {
      AstNode branch = Make(AstKind::kIf, Next());
      SLM_ASSIGN(branch.first, TupleOrExpression(/*with_condition=*/false));
      SLM_ASSIGN(branch.items, Statements({"elif", "else", "endif"}));
      result.others.push_back(Add(std::move(branch)));
    }
    if (Next().text == "else") {
      SLM_ASSIGN(result.rest, StatementsTo("endif"));
    }
    return Add(std::move(result));
  }

  Result<uint32_t> For(const Token& at) {
    AstNode node = Make(AstKind::kFor, at);
    SLM_ASSIGN(node.first, AssignTarget(/*with_namespace=*/false));
    SLM_TRY(ExpectName("in"));
    SLM_ASSIGN(node.second, TupleOrExpression(/*with_condition=*/false));
    if (SkipName("if")) {
      SLM_ASSIGN(node.third, Expression());
    }
    node.flag = SkipName("recursive");
    SLM_ASSIGN(node.items, Statements({"endfor", "else"}));
    if (Next().text == "else") {
      SLM_ASSIGN(node.others, StatementsTo("endfor"));
    }
    return Add(std::move(node));
  }

  Result<uint32_t> Set(const Token& at) {
    SLM_ASSIGN(const uint32_t target, AssignTarget(/*with_namespace=*/true));
    if (SkipOperator("=")) {
      AstNode node = Make(AstKind::kSet, at);
      node.first = target;
      SLM_ASSIGN(node.second, TupleOrExpression());
      return Add(std::move(node));
    }
    AstNode node = Make(AstKind::kSetBlock, at);
    node.first = target;
    SLM_ASSIGN(node.second, Filters(kNoAst, /*inline_first=*/false));
    SLM_ASSIGN(node.rest, StatementsTo("endset"));
    return Add(std::move(node));
  }

  Result<uint32_t> With(const Token& at) {
    AstNode node = Make(AstKind::kWith, at);
    while (Peek().kind != TokenKind::kBlockEnd) {
      if (!node.items.empty()) SLM_TRY(Expect(","));
      SLM_ASSIGN(const uint32_t target, AssignTarget(/*with_namespace=*/false));
      SetContext(target, NameContext::kParameter);
      node.items.push_back(target);
      SLM_TRY(Expect("="));
      SLM_ASSIGN(const uint32_t value, Expression());
      node.others.push_back(value);
    }
    SLM_ASSIGN(node.rest, StatementsTo("endwith"));
    return Add(std::move(node));
  }

  Result<uint32_t> Print(const Token& at) {
    AstNode node = Make(AstKind::kOutput, at);
    while (Peek().kind != TokenKind::kBlockEnd) {
      if (!node.items.empty()) SLM_TRY(Expect(","));
      SLM_ASSIGN(const uint32_t value, Expression());
      node.items.push_back(value);
    }
    return Add(std::move(node));
  }

  Result<uint32_t> TargetName(NameContext context) {
    const Token token = Peek();
    SLM_ASSIGN(std::string name, AnyName());
    if (IsConstantName(name)) return Refuse(ErrorCode::kTplSyntax, "cannot assign to '" + name + "'", token);
    AstNode node = Make(AstKind::kName, token);
    node.text = std::move(name);
    node.context = context;
    return Add(std::move(node));
  }

  Status Signature(AstNode* node) {
    SLM_TRY(Expect("("));
    while (!IsOperator(")")) {
      if (!node->items.empty()) SLM_TRY(Expect(","));
      const Token at = Peek();
      SLM_ASSIGN(const uint32_t argument, TargetName(NameContext::kParameter));
      for (const uint32_t other : node->items) {
        if (At(other).text == At(argument).text) node->attribute = At(argument).text;
      }
      if (SkipOperator("=")) {
        SLM_ASSIGN(const uint32_t value, Expression());
        node->others.push_back(value);
      } else if (!node->others.empty()) {
        return Refuse(ErrorCode::kTplSyntax, "non-default argument follows default argument", at);
      }
      node->items.push_back(argument);
    }
    return Expect(")");
  }

  Result<uint32_t> Macro(const Token& at) {
    AstNode node = Make(AstKind::kMacro, at);
    SLM_ASSIGN(const uint32_t name, TargetName(NameContext::kStore));
    node.text = At(name).text;
    SLM_TRY(Signature(&node));
    SLM_ASSIGN(node.rest, StatementsTo("endmacro"));
    return Add(std::move(node));
  }

  Result<uint32_t> CallBlock(const Token& at) {
    AstNode node = Make(AstKind::kCallBlock, at);
    if (IsOperator("(")) SLM_TRY(Signature(&node));
    SLM_ASSIGN(node.first, Expression());
    if (At(node.first).kind != AstKind::kCall) return Refuse(ErrorCode::kTplSyntax, "expected a call", at);
    SLM_ASSIGN(node.rest, StatementsTo("endcall"));
    return Add(std::move(node));
  }

  Result<uint32_t> FilterBlock(const Token& at) {
    AstNode node = Make(AstKind::kFilterBlock, at);
    SLM_ASSIGN(node.first, Filters(kNoAst, /*inline_first=*/true));
    SLM_ASSIGN(node.rest, StatementsTo("endfilter"));
    return Add(std::move(node));
  }

  // ---- targets of assignments ----
  static bool IsConstantName(std::string_view name) {
    return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
           name == "None";
  }

  void SetContext(uint32_t index, NameContext context) {
    AstNode& node = At(index);
    if (node.kind == AstKind::kName) node.context = context;
    for (const uint32_t item : node.items) SetContext(item, context);
  }

  bool CanAssign(uint32_t index) {
    const AstNode& node = At(index);
    if (node.kind == AstKind::kName) return !IsConstantName(node.text);
    if (node.kind == AstKind::kNamespaceRef) return true;
    return node.kind == AstKind::kTuple && std::all_of(node.items.begin(), node.items.end(),
                                                       [this](uint32_t item) { return CanAssign(item); });
  }

  Result<uint32_t> AssignTarget(bool with_namespace) {
    const Token at = Peek();
    SLM_ASSIGN(const uint32_t target, Tuple(/*explicit_parentheses=*/false,
                                            [this, with_namespace] { return Primary(with_namespace); }));
    if (!CanAssign(target)) return Refuse(ErrorCode::kTplSyntax, "cannot assign to this expression", at);
    SetContext(target, NameContext::kStore);
    return target;
  }

  // ---- expressions ----
  // The reference means `in` and `recursive` to end a tuple as well; the way it asks, they never do.
  bool IsTupleEnd() const {
    return Peek().kind == TokenKind::kVariableEnd || Peek().kind == TokenKind::kBlockEnd || IsOperator(")");
  }

  // One expression, or several with commas between.
  template <typename Parse>
  Result<uint32_t> Tuple(bool explicit_parentheses, Parse parse) {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const Token at = Peek();
    std::vector<uint32_t> items;
    bool is_tuple = false;
    for (;;) {
      if (!items.empty()) SLM_TRY(Expect(","));
      if (IsTupleEnd()) break;
      SLM_ASSIGN(const uint32_t item, parse());
      items.push_back(item);
      if (!IsOperator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!items.empty()) return items[0];
      if (!explicit_parentheses) return Refuse(ErrorCode::kTplSyntax, "expected an expression", Peek());
    }
    AstNode node = Make(AstKind::kTuple, at);
    node.items = std::move(items);
    return Add(std::move(node));
  }
  Result<uint32_t> TupleOrExpression(bool with_condition = true, bool explicit_parentheses = false) {
    return Tuple(explicit_parentheses,
                 [this, with_condition] { return with_condition ? Expression() : Or(); });
  }

  Result<uint32_t> Expression() {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    Token at = Peek();
    SLM_ASSIGN(uint32_t value, Or());
    while (SkipName("if")) {
      AstNode node = Make(AstKind::kConditional, at);
      node.second = value;
      SLM_ASSIGN(node.first, Or());
      if (SkipName("else")) {
        SLM_ASSIGN(node.third, Expression());
      }
      value = Add(std::move(node));
      at = Peek();
    }
    return value;
  }

  Result<uint32_t> Or() {
    Token at = Peek();
    SLM_ASSIGN(uint32_t left, And());
    while (SkipName("or")) {
      SLM_ASSIGN(const uint32_t right, And());
      left = Binary("or", left, right, at);
      at = Peek();
    }
    return left;
  }

  Result<uint32_t> And() {
    Token at = Peek();
    SLM_ASSIGN(uint32_t left, Not());
    while (SkipName("and")) {
      SLM_ASSIGN(const uint32_t right, Not());
      left = Binary("and", left, right, at);
      at = Peek();
    }
    return left;
  }

  uint32_t Binary(std::string_view sign, uint32_t left, uint32_t right, const Token& at) {
    AstNode node = Make(AstKind::kBinary, at);
    node.text = sign;
    node.first = left;
    node.second = right;
    return Add(std::move(node));
  }
  uint32_t Unary(std::string_view sign, uint32_t operand, const Token& at) {
    AstNode node = Make(AstKind::kUnary, at);
    node.text = sign;
    node.first = operand;
    return Add(std::move(node));
  }

  Result<uint32_t> Not() {
    if (!IsName("not")) return Compare();
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const Token at = Next();
    SLM_ASSIGN(const uint32_t value, Not());
    return Unary("not", value, at);
  }

  std::string CompareOperator() {
    static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
    if (Peek().kind == TokenKind::kOperator &&
        std::find(kSigns.begin(), kSigns.end(), Peek().text) != kSigns.end()) {
      return Next().text;
    }
    if (SkipName("in")) return "in";
    if (IsName("not") && Peek(1).kind == TokenKind::kName && Peek(1).text == "in") {
      Next();
      Next();
      return "not in";
    }
    return "";
  }

  Result<uint32_t> Compare() {
    const Token at = Peek();
    SLM_ASSIGN(const uint32_t left, Sum());
    AstNode node = Make(AstKind::kCompare, at);
    node.first = left;
    for (std::string sign = CompareOperator(); !sign.empty(); sign = CompareOperator()) {
      SLM_ASSIGN(const uint32_t right, Sum());
      node.names.push_back(std::move(sign));
      node.items.push_back(right);
    }
    return node.items.empty() ? left : Add(std::move(node));
  }

  Result<uint32_t> Sum() {
    Token at = Peek();
    SLM_ASSIGN(uint32_t left, Concat());
    while (IsOperator("+") || IsOperator("-")) {
      const std::string sign = Next().text;
      SLM_ASSIGN(const uint32_t right, Concat());
      left = Binary(sign, left, right, at);
      at = Peek();
    }
    return left;
  }

  Result<uint32_t> Concat() {
    const Token at = Peek();
    SLM_ASSIGN(const uint32_t first, Product());
    AstNode node = Make(AstKind::kConcat, at);
    node.items.push_back(first);
    while (SkipOperator("~")) {
      SLM_ASSIGN(const uint32_t part, Product());
      node.items.push_back(part);
    }
    return node.items.size() == 1 ? first : Add(std::move(node));
  }

  Result<uint32_t> Product() {
    Token at = Peek();
    SLM_ASSIGN(uint32_t left, Power());
    while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
      const std::string sign = Next().text;
      SLM_ASSIGN(const uint32_t right, Power());
      left = Binary(sign, left, right, at);
      at = Peek();
    }
    return left;
  }

  Result<uint32_t> Power() {
    Token at = Peek();
    SLM_ASSIGN(uint32_t left, Unary(/*with_filter=*/true));
    std::vector<uint32_t> operands{left};
    while (SkipOperator("**")) {
      SLM_ASSIGN(const uint32_t right, Unary(/*with_filter=*/true));
      operands.push_back(right);
    }
    for (size_t i = 1; i < operands.size(); ++i) left = Binary("**", left, operands[i], at);
    return left;
  }

  Result<uint32_t> Unary(bool with_filter) {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    const Token at = Peek();
    uint32_t value = 0;
    if (IsOperator("-") || IsOperator("+")) {
      const std::string sign = Next().text;
      SLM_ASSIGN(const uint32_t operand, Unary(false));
      value = Unary(sign, operand, at);
    } else {
      SLM_ASSIGN(value, Primary(/*with_namespace=*/false));
    }
    SLM_ASSIGN(value, Postfix(value));
    return with_filter ? FiltersAndTests(value) : value;
  }

  Result<uint32_t> Primary(bool with_namespace) {
    const Token token = Next();
    switch (token.kind) {
      case TokenKind::kName: {
        if (token.text == "true" || token.text == "True") return Add(Make(AstKind::kTrue, token));
        if (token.text == "false" || token.text == "False") return Add(Make(AstKind::kFalse, token));
        if (token.text == "none" || token.text == "None") return Add(Make(AstKind::kNone, token));
        AstNode node = Make(AstKind::kName, token);
        node.text = token.text;
        if (with_namespace && SkipOperator(".")) {
          node.kind = AstKind::kNamespaceRef;
          SLM_ASSIGN(node.attribute, AnyName());
        }
        return Add(std::move(node));
      }
      case TokenKind::kString: {
        AstNode node = Make(AstKind::kString, token);
        node.text = token.text;
        while (Peek().kind == TokenKind::kString) node.text += Next().text;
        return Add(std::move(node));
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat: {
        AstNode node = Make(token.kind == TokenKind::kInteger ? AstKind::kInteger : AstKind::kFloat, token);
        node.text = token.text;
        return Add(std::move(node));
      }
      case TokenKind::kOperator:
        break;
      default:
        return Refuse(ErrorCode::kTplSyntax, "unexpected end of an expression", token);
    }
    if (token.text == "(") {
      SLM_ASSIGN(const uint32_t value,
                 TupleOrExpression(/*with_condition=*/true, /*explicit_parentheses=*/true));
      SLM_TRY(Expect(")"));
      return value;
    }
    if (token.text == "[") return ListLiteral(token);
    if (token.text == "{") return DictLiteral(token);
    return Refuse(ErrorCode::kTplSyntax, "unexpected '" + token.text + "'", token);
  }

  Result<uint32_t> ListLiteral(const Token& at) {
    AstNode node = Make(AstKind::kList, at);
    while (!IsOperator("]")) {
      if (!node.items.empty()) SLM_TRY(Expect(","));
      if (IsOperator("]")) break;
      SLM_ASSIGN(const uint32_t item, Expression());
      node.items.push_back(item);
    }
    SLM_TRY(Expect("]"));
    return Add(std::move(node));
  }

  Result<uint32_t> DictLiteral(const Token& at) {
    AstNode node = Make(AstKind::kDict, at);
    while (!IsOperator("}")) {
      if (!node.items.empty()) SLM_TRY(Expect(","));
      if (IsOperator("}")) break;
      SLM_ASSIGN(const uint32_t key, Expression());
      SLM_TRY(Expect(":"));
      SLM_ASSIGN(const uint32_t value, Expression());
      node.items.push_back(key);
      node.items.push_back(value);
    }
    SLM_TRY(Expect("}"));
    return Add(std::move(node));
  }

  Result<uint32_t> Postfix(uint32_t value) {
    for (;;) {
      SLM_TRY(CheckNesting());
      if (IsOperator(".") || IsOperator("[")) {
        SLM_ASSIGN(value, Subscript(value));
      } else if (IsOperator("(")) {
        SLM_ASSIGN(value, Call(value));
      } else {
        return value;
      }
    }
  }

  Result<uint32_t> FiltersAndTests(uint32_t value) {
    for (;;) {
      SLM_TRY(CheckNesting());
      if (IsOperator("|")) {
        SLM_ASSIGN(value, Filters(value, /*inline_first=*/false));
      } else if (IsName("is")) {
        SLM_ASSIGN(value, Test(value));
      } else if (IsOperator("(")) {
        SLM_ASSIGN(value, Call(value));
      } else {
        return value;
      }
    }
  }

  Result<uint32_t> Subscript(uint32_t value) {
    const Token at = Next();
    if (at.text == ".") {
      const Token name = Next();
      if (name.kind == TokenKind::kName) {
        AstNode node = Make(AstKind::kAttribute, name);
        node.first = value;
        node.text = name.text;
        return Add(std::move(node));
      }
      if (name.kind != TokenKind::kInteger)
        return Refuse(ErrorCode::kTplSyntax, "expected name or number", name);
      AstNode number = Make(AstKind::kInteger, name);
      number.text = name.text;
      AstNode node = Make(AstKind::kItem, at);
      node.first = value;
      node.second = Add(std::move(number));
      return Add(std::move(node));
    }
    std::vector<uint32_t> keys;
    bool has_slice = false;
    while (!IsOperator("]")) {
      if (!keys.empty()) SLM_TRY(Expect(","));
      SLM_ASSIGN(const uint32_t key, Subscribed());
      has_slice = has_slice || At(key).kind == AstKind::kSlice;
      keys.push_back(key);
    }
    SLM_TRY(Expect("]"));
    AstNode node = Make(AstKind::kItem, at);
    node.first = value;
    if (keys.size() == 1) {
      node.second = keys[0];
      return Add(std::move(node));
    }
    if (has_slice) return Refuse(ErrorCode::kTplSyntax, "a slice inside a tuple", at);
    AstNode tuple = Make(AstKind::kTuple, at);
    tuple.items = std::move(keys);
    node.second = Add(std::move(tuple));
    return Add(std::move(node));
  }

  Result<uint32_t> Subscribed() {
    const Nesting nesting(&nesting_);
    SLM_TRY(CheckNesting());
    AstNode slice = Make(AstKind::kSlice, Peek());
    if (!IsOperator(":")) {
      SLM_ASSIGN(slice.first, Expression());
      if (!IsOperator(":")) return slice.first;
    }
    Next();
    if (!IsOperator(":") && !IsOperator("]") && !IsOperator(",")) {
      SLM_ASSIGN(slice.second, Expression());
    }
    if (SkipOperator(":") && !IsOperator("]") && !IsOperator(",")) {
      SLM_ASSIGN(slice.third, Expression());
    }
    return Add(std::move(slice));
  }

  Status Arguments(AstNode* node) {
    const Token at = Peek();
    SLM_TRY(Expect("("));
    const auto invalid = [&at] {
      return Refuse(ErrorCode::kTplSyntax, "invalid syntax for function call expression", at);
    };
    bool needs_comma = false;
    while (!IsOperator(")")) {
      if (needs_comma) {
        SLM_TRY(Expect(","));
        if (IsOperator(")")) break;
      }
      if (IsOperator("*")) {
        if (node->second != kNoAst || node->third != kNoAst) return invalid();
        Next();
        SLM_ASSIGN(node->second, Expression());
      } else if (IsOperator("**")) {
        if (node->third != kNoAst) return invalid();
        Next();
        SLM_ASSIGN(node->third, Expression());
      } else if (Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator &&
                 Peek(1).text == "=") {
        if (node->third != kNoAst) return invalid();
        const std::string name = Next().text;
        Next();
        if (std::find(node->names.begin(), node->names.end(), name) != node->names.end())
          node->attribute = name;
        SLM_ASSIGN(const uint32_t value, Expression());
        node->names.push_back(name);
        node->others.push_back(value);
      } else {
        if (node->second != kNoAst || node->third != kNoAst || !node->names.empty()) return invalid();
        SLM_ASSIGN(const uint32_t value, Expression());
        node->items.push_back(value);
      }
      needs_comma = true;
    }
    return Expect(")");
  }

  Result<uint32_t> Call(uint32_t callee) {
    AstNode node = Make(AstKind::kCall, Peek());
    node.first = callee;
    SLM_TRY(Arguments(&node));
    return Add(std::move(node));
  }

  Result<std::string> DottedName() {
    SLM_ASSIGN(std::string name, AnyName());
    while (SkipOperator(".")) {
      SLM_ASSIGN(const std::string part, AnyName());
      name += "." + part;
    }
    return name;
  }

  // `inline_first`: the first filter has no bar before it (the statement `filter`). kNoAst if there is none.
  Result<uint32_t> Filters(uint32_t value, bool inline_first) {
    while (inline_first || IsOperator("|")) {
      SLM_TRY(CheckNesting());
      if (!inline_first) Next();
      inline_first = false;
      AstNode node = Make(AstKind::kFilter, Peek());
      node.first = value;
      SLM_ASSIGN(node.text, DottedName());
      if (IsOperator("(")) SLM_TRY(Arguments(&node));
      value = Add(std::move(node));
    }
    return value;
  }

  Result<uint32_t> Test(uint32_t value) {
    const Token at = Next();
    const bool negated = SkipName("not");
    AstNode node = Make(AstKind::kTest, Peek());
    node.first = value;
    SLM_ASSIGN(node.text, DottedName());
    if (IsOperator("(")) {
      SLM_TRY(Arguments(&node));
    } else if (StartsTestArgument()) {
      if (IsName("is")) return Refuse(ErrorCode::kTplSyntax, "tests cannot be chained with 'is'", Peek());
      const Nesting nesting(&nesting_);
      SLM_TRY(CheckNesting());
      SLM_ASSIGN(uint32_t argument, Primary(/*with_namespace=*/false));
      SLM_ASSIGN(argument, Postfix(argument));
      node.items.push_back(argument);
    }
    const uint32_t test = Add(std::move(node));
    return negated ? Unary("not", test, at) : test;
  }

  bool StartsTestArgument() const {
    const Token& token = Peek();
    if (token.kind == TokenKind::kName) return !IsAnyName({"else", "or", "and"});
    return token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
           token.kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{");
  }

  std::vector<Token> tokens_;
  size_t position_ = 0;
  Ast ast_;
  uint32_t nesting_ = 0;
  uint32_t deepest_ = 0;
};

}  // namespace

Result<Ast> ParseTemplate(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Fail(MakeError(ErrorCode::kTplBound, "a template of more than 1 MiB").At(kMaxSourceBytes));
  }
  SLM_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace slm::chat
