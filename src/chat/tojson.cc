#include "chat/tojson.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "base/utf8.h"

namespace slm::chat {
namespace {

class Dumper {
 public:
  Dumper(Runtime& runtime, bool ensure_ascii, bool sort_keys, std::optional<std::string> indent,
         std::string item_separator, std::string key_separator)
      : runtime_(runtime),
        ensure_ascii_(ensure_ascii),
        sort_keys_(sort_keys),
        indent_(std::move(indent)),
        item_separator_(std::move(item_separator)),
        key_separator_(std::move(key_separator)) {}

  bool Dump(const Value& value) {
    if (!runtime_.Work(1) || !runtime_.MayAllocate(out_.size())) return false;
    const Owner owner = value.owner();
    switch (value.kind()) {
      case ValueKind::kString:
        return String(value);
      case ValueKind::kList:
      case ValueKind::kTuple:
        return List(value);
      case ValueKind::kDict:
        return Members(value);
      default: {
        std::string text;
        if (!Scalar(value, &text)) return false;
        out_.Append(text, owner);
        return true;
      }
    }
  }

  Value Finish() { return runtime_.Make(out_); }

 private:
  bool Scalar(const Value& value, std::string* text) {
    switch (value.kind()) {
      case ValueKind::kNone:
        *text = "null";
        return true;
      case ValueKind::kBool:
        *text = value.integer() != 0 ? "true" : "false";
        return true;
      case ValueKind::kInteger:
      case ValueKind::kBigInteger:
        if (auto digits = IntegerText(value)) {
          *text = *std::move(digits);
          return true;
        }
        runtime_.Raise("ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
        return false;
      case ValueKind::kFloat:
        if (std::isnan(value.real())) {
          *text = "NaN";
        } else if (std::isinf(value.real())) {
          *text = value.real() < 0 ? "-Infinity" : "Infinity";
        } else {
          *text = FloatRepr(value.real());
        }
        return true;
      default:
        runtime_.RaiseType("Object of type " + std::string(TypeName(value)) + " is not JSON serializable");
        return false;
    }
  }

  void Separate(bool first, Owner owner) {
    if (!first) out_.Append(item_separator_, owner);
    NewLine(owner);
  }
  void NewLine(Owner owner) {
    if (!indent_) return;
    std::string text = "\n";
    for (size_t i = 0; i < level_; ++i) text += *indent_;
    out_.Append(text, owner);
  }

  bool List(const Value& value) {
    const Owner owner = value.owner();
    if (value.list().size == 0) {
      out_.Append("[]", owner);
      return true;
    }
    out_.Append("[", owner);
    ++level_;
    bool first = true;
    for (const Value& item : value.list()) {
      Separate(first, owner);
      first = false;
      if (!Dump(item)) return false;
    }
    --level_;
    NewLine(owner);
    out_.Append("]", owner);
    return true;
  }

  bool Key(const Value& key, Owner owner) {
    if (key.is_string()) return String(key);
    if (!key.is_none() && !key.is_number()) {
      runtime_.RaiseType("keys must be str, int, float, bool or None, not " + std::string(TypeName(key)));
      return false;
    }
    std::string text;
    if (!Scalar(key, &text)) return false;
    out_.Append("\"" + text + "\"", owner);
    return true;
  }

  bool Members(const Value& value) {
    const Owner owner = value.owner();
    if (value.dict().size == 0) {
      out_.Append("{}", owner);
      return true;
    }
    std::vector<std::pair<Value, Value>> members;
    for (const DictEntry& entry : value.dict()) members.emplace_back(entry.key, entry.value);
    if (sort_keys_) {
      std::vector<std::pair<Value, Value>> keyed;
      for (const DictEntry& entry : value.dict()) {
        const Value pair = runtime_.heap().Tuple({entry.key, entry.value});
        keyed.emplace_back(pair, pair);
      }
      if (!runtime_.Sort(&keyed, false)) return false;
      for (size_t i = 0; i < keyed.size(); ++i) {
        members[i] = {keyed[i].second.list().items[0], keyed[i].second.list().items[1]};
      }
    }
    out_.Append("{", owner);
    ++level_;
    bool first = true;
    for (const auto& [key, member] : members) {
      Separate(first, owner);
      first = false;
      if (!Key(key, owner)) return false;
      out_.Append(key_separator_, owner);
      if (!Dump(member)) return false;
    }
    --level_;
    NewLine(owner);
    out_.Append("}", owner);
    return true;
  }

  static std::string Unit(unsigned unit) {
    const uint8_t bytes[] = {static_cast<uint8_t>(unit >> 8), static_cast<uint8_t>(unit & 0xff)};
    return "\\u" + ToHex(bytes);
  }

  static std::string Escaped(char32_t c) {
    if (c < 0x10000) return Unit(static_cast<unsigned>(c));
    const unsigned rest = static_cast<unsigned>(c) - 0x10000;
    return Unit(0xd800 + (rest >> 10)) + Unit(0xdc00 + (rest & 0x3ff));
  }

  bool String(const Value& value) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    constexpr std::string_view kTo = "\"\\nrtbf";
    const Text& text = runtime_.Flat(value);
    const std::string_view bytes = text.view();
    if (!runtime_.Work(bytes.size() / 64)) return false;
    out_.Append("\"", bytes.empty() ? value.owner() : text.OwnerAt(0));
    ForEachSegment(text, 0, bytes.size(), [&](std::string_view part, Owner owner) {
      size_t plain = 0;
      for (size_t at = 0; at < part.size();) {
        const size_t begin = at;
        const auto byte = static_cast<unsigned char>(part[at]);
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
          ++at;
          continue;
        }
        const char32_t c = DecodeUtf8(part, &at);
        std::string escape;
        if (const size_t index = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
            index != std::string_view::npos) {
          escape = {'\\', kTo[index]};
        } else if (c < 0x20 || (ensure_ascii_ && c >= 0x7f)) {
          escape = Escaped(c);
        } else {
          continue;
        }
        out_.Append(part.substr(plain, begin - plain), owner);
        out_.Append(escape, owner);
        plain = at;
      }
      out_.Append(part.substr(plain), owner);
    });
    out_.Append("\"", bytes.empty() ? value.owner() : text.OwnerAt(bytes.size() - 1));
    return true;
  }

  Runtime& runtime_;
  bool ensure_ascii_;
  bool sort_keys_;
  std::optional<std::string> indent_;
  std::string item_separator_;
  std::string key_separator_;
  size_t level_ = 0;
  TextBuilder out_;
};

}  // namespace

Value ToJsonFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[4];
  if (!Bind(runtime, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, given)) {
    return Value::Error();
  }
  std::optional<std::string> indent;
  if (!given[1].is_missing() && !given[1].is_none()) {
    if (given[1].is_string()) {
      indent = std::string(runtime.View(given[1]));
    } else if (const auto width = AsIndex(given[1]); width && given[1].kind() != ValueKind::kBigInteger) {
      if (*width > 4096) return runtime.OverBudget("tojson with an indent of more than 4096");
      indent = std::string(static_cast<size_t>(std::max<int64_t>(*width, 0)), ' ');
    } else if (!value.is_string()) {  // json.dumps writes a text before it looks at the indent
      if (given[1].is_undefined()) return runtime.RaiseUndefined(given[1]);
      (void)AsRepeats(runtime, given[1]);
      return Value::Error();
    }
  }
  std::string separators[2] = {indent ? "," : ", ", ": "};
  if (!given[2].is_missing() && !given[2].is_none()) {
    std::vector<Value> parts;
    if (!runtime.Collect(given[2], &parts)) return Value::Error();
    if (parts.size() != 2) {
      return runtime.Raise("ValueError", parts.size() < 2 ? "not enough values to unpack (expected 2)"
                                                          : "too many values to unpack (expected 2)");
    }
    for (size_t i = 0; i < 2; ++i) {
      if (!parts[i].is_string()) {
        if (value.is_string()) continue;  // nor at the separators
        return runtime.RaiseType("make_encoder() argument must be str, not " +
                                 std::string(TypeName(parts[i])));
      }
      separators[i] = std::string(runtime.View(parts[i]));
    }
  }
  Dumper dumper(runtime, !given[0].is_missing() && Truth(given[0]), !given[3].is_missing() && Truth(given[3]),
                std::move(indent), separators[0], separators[1]);
  if (!dumper.Dump(value)) return Value::Error();
  return dumper.Finish();
}

}  // namespace slm::chat
