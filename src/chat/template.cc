#include "chat/template.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/interpreter.h"
#include "chat/parser.h"

namespace slm::chat {
namespace {

// Turns a JSON context into values that know their owner.
class ContextLoader {
 public:
  ContextLoader() : owners_{"template"} {}

  Owner Add(const std::string& name) {
    owners_.push_back(name);
    return static_cast<Owner>(owners_.size() - 1);
  }
  const std::string& Name(Owner owner) const { return owners_[owner]; }

  // `splits`: whether parts of this value are owners of their own, by path.
  Result<Value> Load(const json::Value& value, const std::string& path, bool splits) {
    return LoadOwned(value, path, splits, Add(path));
  }

 private:
  Result<Value> LoadOwned(const json::Value& value, const std::string& path, bool splits, Owner owner) {
    switch (value.kind()) {
      case json::Kind::kNull:
        return Value::None(owner);
      case json::Kind::kTrue:
      case json::Kind::kFalse:
        return Value::Bool(value.boolean(), owner);
      case json::Kind::kString:
        return Value::String(value.string(), owner);
      case json::Kind::kNumber: {
        if (value.is_integer_text() || value.number_text() == "-0") {
          if (const auto integer = value.AsInt()) return Value::Integer(*integer, owner);
          if (value.number_text() == "-0") return Value::Integer(0, owner);
          return Fail(MakeError(ErrorCode::kUnsupported, "an integer beyond 64 bits in a context")
                          .At(value.byte_offset())
                          .Field(value.Path()));
        }
        if (const auto number = value.AsDouble()) return Value::Float(*number, owner);
        return Fail(MakeError(ErrorCode::kTplInput, "a number out of range")
                        .At(value.byte_offset())
                        .Field(value.Path()));
      }
      case json::Kind::kArray: {
        ValueList items;
        size_t i = 0;
        for (const json::Value item : value.children()) {
          const std::string item_path = path + "[" + std::to_string(i++) + "]";
          SLM_ASSIGN(Value loaded,
                     splits ? Load(item, item_path, splits) : LoadOwned(item, path, false, owner));
          items.push_back(std::move(loaded));
        }
        return Value::List(std::move(items), owner);
      }
      case json::Kind::kObject: {
        Dict dict;
        for (const json::Value member : value.children()) {
          const std::string key(member.key());
          SLM_ASSIGN(Value loaded,
                     splits ? Load(member, path + "." + key, splits) : LoadOwned(member, path, false, owner));
          dict.members.emplace_back(OwnedText(key, owner), std::move(loaded));
        }
        return Value::FromDict(std::move(dict), owner);
      }
    }
    return Value();
  }

  std::vector<std::string> owners_;
};

// Tools and documents are owners as wholes: tools[0]; a message's fields by path.
Result<Value> LoadVariable(ContextLoader& loader, const json::Value& value, const std::string& name) {
  if ((name == "tools" || name == "documents") && value.is_array()) {
    ValueList items;
    size_t i = 0;
    for (const json::Value item : value.children()) {
      SLM_ASSIGN(Value loaded, loader.Load(item, name + "[" + std::to_string(i++) + "]", false));
      items.push_back(std::move(loaded));
    }
    return Value::List(std::move(items), loader.Add(name));
  }
  return loader.Load(value, name, name == "messages");
}

struct Input {
  Variables variables;
  Owner bos = UINT32_MAX;
  Owner eos = UINT32_MAX;
  std::string bos_text, eos_text;
};

Result<Input> BuildInput(ContextLoader& loader, const json::Value& context, const RenderOptions& options) {
  if (!context.is_object()) {
    return Fail(MakeError(ErrorCode::kTplInput, "a context is one JSON object").At(context.byte_offset()));
  }
  Input input;
  const auto set = [&](const std::string& name, Value value) {
    for (auto& [held, old] : input.variables) {
      if (held == name) {
        old = std::move(value);
        return;
      }
    }
    input.variables.emplace_back(name, std::move(value));
  };
  set("messages", Value::List({}));
  set("tools", Value::None());
  set("documents", Value::None());
  set("add_generation_prompt", Value::Bool(false));
  for (const auto& [name, text] : options.special_tokens) {
    const Owner owner = loader.Add("template");
    if (name == "bos_token") input.bos = owner, input.bos_text = text;
    if (name == "eos_token") input.eos = owner, input.eos_text = text;
    set(name, Value::String(text, owner));
  }
  bool has_messages = false;
  for (const json::Value member : context.children()) {
    const std::string name(member.key());
    has_messages = has_messages || name == "messages";
    SLM_ASSIGN(Value value, LoadVariable(loader, member, name));
    set(name, std::move(value));
  }
  if (!has_messages) {
    return Fail(MakeError(ErrorCode::kTplInput, "a context needs \"messages\"")
                    .At(context.byte_offset())
                    .Field("messages"));
  }
  return input;
}

bool Owns(const OwnedText& text, Owner owner) {
  return std::any_of(text.segments().begin(), text.segments().end(),
                     [owner](const OwnedText::Segment& segment) { return segment.owner == owner; });
}

// Whether the template itself wrote `literal` (not the content of a message).
bool TemplateWrote(const OwnedText& text, const std::string& literal) {
  if (literal.empty()) return false;
  size_t begin = 0;
  for (const OwnedText::Segment& segment : text.segments()) {
    if (segment.owner == kTemplateOwner &&
        text.text().substr(begin, segment.end - begin).find(literal) != std::string::npos) {
      return true;
    }
    begin = segment.end;
  }
  return false;
}

std::vector<Span> ToSpans(const OwnedText& text, const ContextLoader& loader) {
  std::vector<Span> spans;
  uint64_t begin = 0;
  for (const OwnedText::Segment& segment : text.segments()) {
    const std::string& owner = loader.Name(segment.owner);
    if (!spans.empty() && spans.back().owner == owner) {
      spans.back().end = segment.end;
    } else {
      spans.push_back({begin, segment.end, owner});
    }
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
  SLM_ASSIGN(Program program, ParseTemplate(source));
  return Template(std::move(program));
}

Result<Template> Template::Load(ByteSpan ir) {
  SLM_ASSIGN(Program program, LoadProgram(ir));
  return Template(std::move(program));
}

Result<Rendered> Template::Render(const json::Value& context, const RenderOptions& options) const {
  ContextLoader loader;
  SLM_ASSIGN(Input input, BuildInput(loader, context, options));
  const CallEnvironment environment{options.clock};
  SLM_ASSIGN(const OwnedText text, Execute(program_, input.variables, environment));

  Rendered rendered;
  rendered.text = text.text();
  rendered.spans = ToSpans(text, loader);
  if (Owns(text, input.bos) || TemplateWrote(text, input.bos_text)) rendered.ownership.bos = "template";
  if (Owns(text, input.eos) || TemplateWrote(text, input.eos_text)) rendered.ownership.eos = "template";
  if (Owns(text, kTemplateOwner)) rendered.ownership.turn_separator = "template";
  for (auto& [name, value] : input.variables) {
    if (name != "add_generation_prompt" || !value.Truth()) continue;
    value = Value::Bool(false);
    const auto without = Execute(program_, input.variables, environment);
    if (!without || without->text() != text.text()) rendered.ownership.generation_prefix = "template";
    break;
  }
  return rendered;
}

}  // namespace slm::chat
