#include "chat/template.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "chat/builtins.h"
#include "chat/compiler.h"
#include "chat/interpreter.h"
#include "chat/number.h"
#include "chat/parser.h"
#include "codec/sha256.h"

namespace slm::chat {
namespace {
constexpr Owner kNoParent = UINT32_MAX;
constexpr uint64_t kNoIndex = UINT64_MAX;
constexpr size_t kLikelyPathBytes = 31;        // messages[12].content
constexpr size_t kLikelyTemplateBytes = 2048;  // what a template adds to a conversation

struct OwnerName {
  Owner parent;
  uint64_t index;
  std::string_view part;
};

}  // namespace

struct ContextState {
  Heap heap;
  Variables variables;
  std::vector<OwnerName> owners;  // 0 is the template, then come the special tokens
  Owner n_tokens = 0;
  Owner bos = 0, eos = 0;  // 0: there is none
  std::string bos_text, eos_text;
  bool generates = false;  // add_generation_prompt is true
  size_t n_bytes = 0;      // of all texts

  // Paths are put together for the owners that someone asks for, not for all.
  [[nodiscard]] std::string Name(Owner owner) const {
    std::string path;
    path.reserve(kLikelyPathBytes);
    AppendName(owner, &path);
    return path;
  }

 private:
  void AppendName(Owner owner, std::string* path) const {
    const OwnerName& name = owners[owner];
    if (name.parent != kNoParent) AppendName(name.parent, path);
    if (name.index == kNoIndex) {
      if (name.parent != kNoParent) path->push_back('.');
      path->append(name.part);
      return;
    }
    char digits[20];
    const auto written = std::to_chars(digits, digits + sizeof digits, name.index);
    path->append(1, '[').append(digits, written.ptr).append(1, ']');
  }
};

namespace {

// Turns a JSON context into values that know their owner. Strings stay where the document has them; names of
// members, which owners are called by, are copied.
class ContextLoader {
 public:
  explicit ContextLoader(ContextState& state) : state_(state), heap_(state.heap) {
    (void)Push({kNoParent, kNoIndex, "template"});
  }

  Status Load(const json::Value& context,
              const std::vector<std::pair<std::string, std::string>>& special_tokens) {
    if (!context.is_object()) {
      return Fail(MakeError(ErrorCode::kTplInput, "a context is one JSON object").At(context.byte_offset()));
    }
    Set("messages", heap_.List({}));
    Set("tools", Value::None());
    Set("documents", Value::None());
    for (const auto& [name, text] : special_tokens) {
      const Owner owner = Push({kNoParent, kNoIndex, "template"});
      state_.n_tokens = owner;
      if (name == "bos_token") state_.bos = owner, state_.bos_text = text;
      if (name == "eos_token") state_.eos = owner, state_.eos_text = text;
      Set(name, Counted(heap_.String(text, owner)));
    }
    bool has_messages = false;
    for (const json::Value member : context.children()) {
      const std::string_view name = member.key();
      has_messages = has_messages || name == "messages";
      SLM_ASSIGN(Value value, LoadVariable(member, name));
      Set(name, value);
    }
    if (!has_messages) {
      return Fail(MakeError(ErrorCode::kTplInput, "a context needs \"messages\"")
                      .At(context.byte_offset())
                      .Field("messages"));
    }
    for (const auto& [name, value] : state_.variables) {
      if (name == kGenerationPrompt) state_.generates = Truth(value);
    }
    return {};
  }

 private:
  Owner Push(const OwnerName& name) {
    state_.owners.push_back(name);
    return static_cast<Owner>(state_.owners.size() - 1);
  }
  void Set(std::string_view name, const Value& value) {
    for (auto& [held, old] : state_.variables) {
      if (held == name) {
        old = value;
        return;
      }
    }
    state_.variables.emplace_back(name, value);
  }
  // Nothing of a context changes once it is made: not even what is known of a text.
  static Value Counted(const Value& text) {
    (void)text.text().CountedScalars();
    return text;
  }
  // Few names stand in a context, each often.
  std::string_view Kept(std::string_view name) {
    for (const std::string_view held : names_) {
      if (held == name) return held;
    }
    const std::string_view copy = heap_.String(name).view();
    if (names_.size() < 16) names_.push_back(copy);
    return copy;
  }

  // Tools and documents are owners as wholes: tools[0]; a message's fields by path.
  Result<Value> LoadVariable(const json::Value& value, std::string_view name) {
    const Owner owner = Push({kNoParent, kNoIndex, Kept(name)});
    if ((name == "tools" || name == "documents") && value.is_array()) {
      std::vector<Value> items;
      uint64_t i = 0;
      for (const json::Value item : value.children()) {
        SLM_ASSIGN(Value loaded, LoadOwned(item, false, Push({owner, i++, {}})));
        items.push_back(loaded);
      }
      return heap_.List(items, owner);
    }
    return LoadOwned(value, name == "messages", owner);
  }

  Result<Value> LoadNumber(const json::Value& value, Owner owner) {
    const auto refuse = [&value](const char* what) -> std::unexpected<Error> {
      return Fail(MakeError(ErrorCode::kTplInput, what).At(value.byte_offset()).Field(value.Path()));
    };
    const std::string_view text = value.number_text();
    if (text.find_first_of(".eE") == std::string_view::npos) {
      if (text.size() > 4'300) return refuse("an integer of more than 4300 digits");
      Value integer = *ParseInteger(heap_, text);
      integer.set_owner(owner);
      return integer;
    }
    if (const auto number = value.AsDouble()) return Value::Float(*number, owner);
    return refuse("a number out of range");
  }

  // `splits`: whether parts of this value are owners of their own, by path.
  Result<Value> LoadOwned(const json::Value& value, bool splits, Owner owner) {
    switch (value.kind()) {
      case json::Kind::kNull:
        return Value::None(owner);
      case json::Kind::kTrue:
      case json::Kind::kFalse:
        return Value::Bool(value.boolean(), owner);
      case json::Kind::kString:
        state_.n_bytes += value.string().size();
        return Counted(heap_.Borrow(value.string(), owner));
      case json::Kind::kNumber:
        return LoadNumber(value, owner);
      case json::Kind::kArray: {
        const size_t begin = items_.size();
        for (const json::Value item : value.children()) {
          const size_t i = items_.size() - begin;
          SLM_ASSIGN(Value loaded, LoadOwned(item, splits, splits ? Push({owner, i, {}}) : owner));
          items_.push_back(loaded);
        }
        const Value list = heap_.List(items_.data() + begin, items_.size() - begin, owner);
        items_.resize(begin);
        return list;
      }
      case json::Kind::kObject: {
        const size_t begin = entries_.size();
        for (const json::Value member : value.children()) {
          const std::string_view key = Kept(member.key());
          SLM_ASSIGN(Value loaded, LoadOwned(member, splits, splits ? Push({owner, kNoIndex, key}) : owner));
          entries_.push_back({Counted(heap_.Borrow(key, owner)), loaded});
        }
        const Value dict = heap_.Dict(entries_.data() + begin, entries_.size() - begin, owner);
        entries_.resize(begin);
        return dict;
      }
    }
    return Value::None(owner);
  }

  ContextState& state_;
  Heap& heap_;
  std::vector<std::string_view> names_;
  // Of the containers that are being loaded, the innermost one's last.
  std::vector<Value> items_;
  std::vector<DictEntry> entries_;
};

// Whether `token` stands in `text`. The first two bytes tell most places apart, without a call for each.
bool Holds(std::string_view text, std::string_view token) {
  if (token.size() < 2) return !token.empty() && text.find(token) != text.npos;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (end - at >= static_cast<ptrdiff_t>(token.size())) {
    at =
        static_cast<const char*>(std::memchr(at, token[0], static_cast<size_t>(end - at) - token.size() + 1));
    if (at == nullptr) return false;
    if (at[1] == token[1] && std::memcmp(at, token.data(), token.size()) == 0) return true;
    ++at;
  }
  return false;
}

// Who wrote what, and the segments with the special tokens as the template's.
void SetOwnership(const ContextState& state, Rendered* rendered) {
  bool bos = false;
  bool eos = false;
  bool written = false;
  size_t kept = 0;
  std::vector<Segment>& segments = rendered->segments;
  uint64_t begin = 0;
  const std::string_view text = rendered->text;
  for (const Segment& segment : segments) {
    const std::string_view part = text.substr(begin, segment.end - begin);
    begin = segment.end;
    const auto wrote = [&](Owner token, const std::string& literal) {
      if (token == 0) return false;
      if (segment.owner == token) return true;
      return segment.owner == kTemplateOwner && Holds(part, literal);
    };
    bos = bos || wrote(state.bos, state.bos_text);
    eos = eos || wrote(state.eos, state.eos_text);
    written = written || segment.owner == kTemplateOwner;
    const Owner owner = segment.owner <= state.n_tokens ? kTemplateOwner : segment.owner;
    if (kept > 0 && segments[kept - 1].owner == owner) {
      segments[kept - 1].end = segment.end;
    } else {
      segments[kept++] = {segment.end, owner};
    }
  }
  segments.resize(kept);
  if (bos) rendered->ownership.bos = "template";
  if (eos) rendered->ownership.eos = "template";
  if (written) rendered->ownership.turn_separator = "template";
}

}  // namespace

std::vector<Span> Rendered::Spans() const {
  std::vector<Span> spans;
  spans.reserve(segments.size());
  uint64_t begin = 0;
  for (const Segment& segment : segments) {
    spans.push_back({begin, segment.end, owners->Name(segment.owner)});
    begin = segment.end;
  }
  return spans;
}

namespace {

// Refused whether or not the template asks for the date: a caller's mistake is no matter of the template.
Status CheckClock(const RenderOptions& options) {
  if (options.clock.empty() || IsCivilTime(options.clock)) return {};
  return Fail(
      MakeError(ErrorCode::kTplInput, "the clock is no civil time like 2026-11-30T12:00:00").Field("clock"));
}

}  // namespace

Result<Context> Context::Make(const json::Value& context,
                              const std::vector<std::pair<std::string, std::string>>& special_tokens) {
  auto state = std::make_shared<ContextState>();
  SLM_TRY(ContextLoader(*state).Load(context, special_tokens));
  return Context(std::move(state));
}

Result<Template> Template::Compile(std::string_view source) {
  if (const auto fault = FindUtf8Fault(source)) {
    return Fail(
        MakeError(ErrorCode::kUtf8, "template source is not well-formed UTF-8").At(fault->byte_offset));
  }
  SLM_ASSIGN(const Ast ast, ParseTemplate(source));
  SLM_ASSIGN(Program program, CompileTemplate(ast));
  program.source_sha256 = Sha256Of(AsBytes(source));
  SLM_ASSIGN(auto executable, Executable::Make(std::move(program)));
  return Template(std::move(executable));
}

Result<Template> Template::Load(ByteSpan ir) {
  SLM_ASSIGN(Program program, LoadProgram(ir));
  SLM_ASSIGN(auto executable, Executable::Make(std::move(program)));
  return Template(std::move(executable));
}

Result<Rendered> Template::Render(const json::Value& context, const RenderOptions& options) const {
  SLM_TRY(CheckClock(options));
  SLM_ASSIGN(const Context made, Context::Make(context, options.special_tokens));
  return Render(made, options);
}

Result<Rendered> Template::Render(const Context& context, const RenderOptions& options) const {
  SLM_TRY(CheckClock(options));
  const ContextState& state = *context.state_;
  Runtime runtime(program().budgets);
  Result<Execution> executed =
      Execute(*executable_, runtime,
              {state.variables, options.clock, state.generates, state.n_bytes + kLikelyTemplateBytes});
  if (options.fault != nullptr) *options.fault = runtime.error_place();
  if (!executed) return Fail(std::move(executed).error());
  Rendered rendered;
  rendered.text = executed->output.TakeText();
  rendered.segments = executed->output.TakeSegments();
  rendered.owners = context.state_;
  rendered.generations = std::move(executed->generations);
  SetOwnership(state, &rendered);
  if (executed->prompt_writes) rendered.ownership.generation_prefix = "template";
  rendered.generation_prefix = executed->prompt;
  return rendered;
}

}  // namespace slm::chat
