#include "chat/template.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/builtins.h"
#include "chat/compiler.h"
#include "chat/interpreter.h"
#include "chat/number.h"
#include "chat/parser.h"
#include "codec/sha256.h"

namespace slm::chat {
namespace {

// Turns a JSON context into values that know their owner. Strings stay where the document has them.
class ContextLoader {
 public:
  explicit ContextLoader(Heap& heap) : heap_(heap) { (void)Add(kTemplateName); }

  // REQUIRES: `name` outlives the loader.
  Owner Add(std::string_view name) { return Push({kNoParent, kNoIndex, name}); }
  // Paths are put together for the owners that a rendering names, not for all.
  std::string Name(Owner owner) const {
    const OwnerName& name = owners_[owner];
    if (name.parent == kNoParent) return std::string(name.part);
    std::string path = Name(name.parent);
    if (name.index == kNoIndex) return path.append(1, '.').append(name.part);
    return path + "[" + std::to_string(name.index) + "]";
  }
  // Owners that have the same name are one.
  Owner Same(Owner owner) const {
    const OwnerName& name = owners_[owner];
    return name.parent == kNoParent && name.part == kTemplateName ? kTemplateOwner : owner;
  }

  // `splits`: whether parts of this value are owners of their own, by path.
  Result<Value> Load(const json::Value& value, std::string_view name, bool splits) {
    return LoadOwned(value, splits, Add(name));
  }
  Result<Value> LoadItem(const json::Value& value, Owner list, uint64_t index, bool splits) {
    return LoadOwned(value, splits, Push({list, index, {}}));
  }

 private:
  static constexpr std::string_view kTemplateName = "template";
  static constexpr Owner kNoParent = UINT32_MAX;
  static constexpr uint64_t kNoIndex = UINT64_MAX;
  struct OwnerName {
    Owner parent;
    uint64_t index;
    std::string_view part;
  };
  Owner Push(const OwnerName& name) {
    owners_.push_back(name);
    return static_cast<Owner>(owners_.size() - 1);
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

  Result<Value> LoadOwned(const json::Value& value, bool splits, Owner owner) {
    switch (value.kind()) {
      case json::Kind::kNull:
        return Value::None(owner);
      case json::Kind::kTrue:
      case json::Kind::kFalse:
        return Value::Bool(value.boolean(), owner);
      case json::Kind::kString:
        return heap_.Borrow(value.string(), owner);
      case json::Kind::kNumber:
        return LoadNumber(value, owner);
      case json::Kind::kArray: {
        std::vector<Value> items;
        size_t i = 0;
        for (const json::Value item : value.children()) {
          SLM_ASSIGN(Value loaded, LoadOwned(item, splits, splits ? Push({owner, i, {}}) : owner));
          ++i;
          items.push_back(loaded);
        }
        return heap_.List(items, owner);
      }
      case json::Kind::kObject: {
        std::vector<DictEntry> entries;
        for (const json::Value member : value.children()) {
          const std::string_view key = member.key();
          SLM_ASSIGN(Value loaded, LoadOwned(member, splits, splits ? Push({owner, kNoIndex, key}) : owner));
          entries.push_back({heap_.Borrow(key, owner), loaded});
        }
        return heap_.Dict(entries, owner);
      }
    }
    return Value::None(owner);
  }

  Heap& heap_;
  std::vector<OwnerName> owners_;
};

// Tools and documents are owners as wholes: tools[0]; a message's fields by path.
Result<Value> LoadVariable(Heap& heap, ContextLoader& loader, const json::Value& value,
                           std::string_view name) {
  if ((name == "tools" || name == "documents") && value.is_array()) {
    std::vector<Value> items;
    uint64_t i = 0;
    const Owner list = loader.Add(name);
    for (const json::Value item : value.children()) {
      SLM_ASSIGN(Value loaded, loader.LoadItem(item, list, i++, false));
      items.push_back(loaded);
    }
    return heap.List(items, list);
  }
  return loader.Load(value, name, name == "messages");
}

struct Input {
  Variables variables;
  Owner bos = UINT32_MAX;
  Owner eos = UINT32_MAX;
  std::string bos_text, eos_text;
};

Result<Input> BuildInput(Heap& heap, ContextLoader& loader, const json::Value& context,
                         const RenderOptions& options) {
  if (!context.is_object()) {
    return Fail(MakeError(ErrorCode::kTplInput, "a context is one JSON object").At(context.byte_offset()));
  }
  Input input;
  const auto set = [&](std::string_view name, const Value& value) {
    for (auto& [held, old] : input.variables) {
      if (held == name) {
        old = value;
        return;
      }
    }
    input.variables.emplace_back(name, value);
  };
  set("messages", heap.List({}));
  set("tools", Value::None());
  set("documents", Value::None());
  for (const auto& [name, text] : options.special_tokens) {
    const Owner owner = loader.Add("template");
    if (name == "bos_token") input.bos = owner, input.bos_text = text;
    if (name == "eos_token") input.eos = owner, input.eos_text = text;
    set(name, heap.Borrow(text, owner));
  }
  bool has_messages = false;
  for (const json::Value member : context.children()) {
    const std::string_view name = member.key();
    has_messages = has_messages || name == "messages";
    SLM_ASSIGN(Value value, LoadVariable(heap, loader, member, name));
    set(name, value);
  }
  if (!has_messages) {
    return Fail(MakeError(ErrorCode::kTplInput, "a context needs \"messages\"")
                    .At(context.byte_offset())
                    .Field("messages"));
  }
  return input;
}

bool Owns(const TextBuilder& text, Owner owner) {
  return std::any_of(text.segments().begin(), text.segments().end(),
                     [owner](const Segment& segment) { return segment.owner == owner; });
}

// Whether the template itself wrote `literal` (not the content of a message).
bool TemplateWrote(const TextBuilder& text, const std::string& literal) {
  if (literal.empty()) return false;
  size_t begin = 0;
  for (const Segment& segment : text.segments()) {
    if (segment.owner == kTemplateOwner &&
        text.text().substr(begin, segment.end - begin).find(literal) != std::string::npos) {
      return true;
    }
    begin = segment.end;
  }
  return false;
}

std::vector<Span> ToSpans(const TextBuilder& text, const ContextLoader& loader) {
  std::vector<Span> spans;
  spans.reserve(text.segments().size());
  uint64_t begin = 0;
  Owner last = UINT32_MAX;
  for (const Segment& segment : text.segments()) {
    const Owner owner = loader.Same(segment.owner);
    if (owner == last) {
      spans.back().end = segment.end;
    } else {
      spans.push_back({begin, segment.end, loader.Name(owner)});
    }
    last = owner;
    begin = segment.end;
  }
  return spans;
}

}  // namespace

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
  // Refused whether or not the template asks for the date: a caller's mistake is no matter of the template.
  if (!options.clock.empty() && !IsCivilTime(options.clock)) {
    return Fail(MakeError(ErrorCode::kTplInput, "the clock is no civil time like 2026-11-30T12:00:00")
                    .Field("clock"));
  }
  Runtime runtime(program().budgets);
  ContextLoader loader(runtime.heap());
  SLM_ASSIGN(Input input, BuildInput(runtime.heap(), loader, context, options));
  Result<Execution> executed = Execute(*executable_, runtime, input.variables, options.clock);
  if (options.fault != nullptr) *options.fault = runtime.error_place();
  if (!executed) return Fail(std::move(executed).error());
  Execution& execution = *executed;
  const TextBuilder& text = execution.output;

  Rendered rendered;
  rendered.text = text.text();
  rendered.spans = ToSpans(text, loader);
  rendered.generations = std::move(execution.generations);
  if (Owns(text, input.bos) || TemplateWrote(text, input.bos_text)) rendered.ownership.bos = "template";
  if (Owns(text, input.eos) || TemplateWrote(text, input.eos_text)) rendered.ownership.eos = "template";
  if (Owns(text, kTemplateOwner)) rendered.ownership.turn_separator = "template";
  for (auto& [name, value] : input.variables) {
    if (name != "add_generation_prompt" || !Truth(value)) continue;
    // A template that never reads it writes nothing for it.
    const auto& inputs = program().inputs;
    if (std::none_of(inputs.begin(), inputs.end(),
                     [](const auto& one) { return one.name == "add_generation_prompt"; }))
      break;
    value = Value::Bool(false);
    Runtime again(program().budgets);
    const auto without = Execute(*executable_, again, input.variables, options.clock);
    if (!without || without->output.text() != text.text()) rendered.ownership.generation_prefix = "template";
    break;
  }
  return rendered;
}

}  // namespace slm::chat
