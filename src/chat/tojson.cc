#include "chat/tojson.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "chat/builtins.h"

namespace slm::chat {
namespace {

class Dumper {
 public:
  Dumper(bool ensure_ascii, std::optional<std::string> indent)
      : ensure_ascii_(ensure_ascii), indent_(std::move(indent)) {}

  Status Dump(const Value& value) {
    const Owner owner = value.owner();
    switch (value.kind()) {
      case ValueKind::kNone:
        out_.Append("null", owner);
        return {};
      case ValueKind::kBool:
        out_.Append(value.integer() != 0 ? "true" : "false", owner);
        return {};
      case ValueKind::kInteger:
        out_.Append(std::to_string(value.integer()), owner);
        return {};
      case ValueKind::kFloat:
        out_.Append(FloatText(value.number()), owner);
        return {};
      case ValueKind::kString:
        String(value.text());
        return {};
      case ValueKind::kList:
      case ValueKind::kTuple:
        return List(value);
      case ValueKind::kDict:
        return Members(value);
      default:
        return Raise("TypeError",
                     "Object of type " + std::string(value.TypeName()) + " is not JSON serializable");
    }
  }

  OwnedText Take() { return std::move(out_); }

 private:
  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value);
  }

  void Separate(bool first, Owner owner) {
    if (!first) out_.Append(indent_ ? "," : ", ", owner);
    NewLine(owner);
  }
  void NewLine(Owner owner) {
    if (!indent_) return;
    std::string text = "\n";
    for (size_t i = 0; i < level_; ++i) text += *indent_;
    out_.Append(text, owner);
  }

  Status List(const Value& value) {
    const Owner owner = value.owner();
    if (value.items().empty()) {
      out_.Append("[]", owner);
      return {};
    }
    out_.Append("[", owner);
    ++level_;
    bool first = true;
    for (const Value& item : value.items()) {
      Separate(first, owner);
      first = false;
      SLM_TRY(Dump(item));
    }
    --level_;
    NewLine(owner);
    out_.Append("]", owner);
    return {};
  }

  Status Members(const Value& value) {
    const Owner owner = value.owner();
    if (value.dict().members.empty()) {
      out_.Append("{}", owner);
      return {};
    }
    out_.Append("{", owner);
    ++level_;
    bool first = true;
    for (const auto& [key, member] : value.dict().members) {
      Separate(first, owner);
      first = false;
      String(key);
      out_.Append(": ", owner);
      SLM_TRY(Dump(member));
    }
    --level_;
    NewLine(owner);
    out_.Append("}", owner);
    return {};
  }

  void Escape(char32_t c, Owner owner) {
    char buffer[16];
    if (c >= 0x10000) {
      const unsigned rest = static_cast<unsigned>(c) - 0x10000;
      std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    } else {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
    }
    out_.Append(buffer, owner);
  }

  void String(const OwnedText& value) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    constexpr std::string_view kTo = "\"\\nrtbf";
    const std::string& text = value.text();
    out_.Append("\"", value.OwnerAt(0));
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = DecodeUtf8(text, &at);
      if (const size_t index = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
          index != std::string_view::npos) {
        const char escape[2] = {'\\', kTo[index]};
        out_.Append(std::string_view(escape, 2), value.OwnerAt(begin));
      } else if (c < 0x20 || (ensure_ascii_ && c > 0x7f)) {
        Escape(c, value.OwnerAt(begin));
      } else {
        out_.AppendSlice(value, begin, at);
      }
    }
    out_.Append("\"", value.OwnerAt(0));
  }

  bool ensure_ascii_;
  std::optional<std::string> indent_;
  size_t level_ = 0;
  OwnedText out_;
};

}  // namespace

Result<Value> ToJsonFilter(const Value& value, const CallArguments& arguments) {
  const Value* ensure_ascii = arguments.Get(0, "ensure_ascii");
  const Value* indent = arguments.Get(1, "indent");
  for (const auto& [position, name] :
       {std::pair<size_t, std::string_view>{2, "separators"}, {3, "sort_keys"}}) {
    const Value* given = arguments.Get(position, name);
    if (given != nullptr && given->Truth())
      return Fail(ErrorCode::kUnsupported, "tojson with " + std::string(name));
  }
  std::optional<std::string> indent_text;
  if (indent != nullptr && indent->kind() != ValueKind::kNone) {
    if (indent->is_string()) {
      indent_text = indent->text().text();
    } else if (indent->is_integer() && indent->integer() <= 64) {
      indent_text = std::string(static_cast<size_t>(std::max<int64_t>(indent->integer(), 0)), ' ');
    } else {
      return Fail(ErrorCode::kTplBudget, "tojson with an indent of more than 64");
    }
  }
  if (value.is_undefined()) return Raise("TypeError", "Object of type Undefined is not JSON serializable");
  Dumper dumper(ensure_ascii != nullptr && ensure_ascii->Truth(), std::move(indent_text));
  SLM_TRY(dumper.Dump(value));
  return Value::String(dumper.Take());
}

}  // namespace slm::chat
