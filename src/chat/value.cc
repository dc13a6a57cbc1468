#include "chat/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace slm::chat {

void OwnedText::Append(std::string_view text, Owner owner) {
  if (text.empty()) return;
  text_.append(text);
  if (!segments_.empty() && segments_.back().owner == owner) {
    segments_.back().end = text_.size();
  } else {
    segments_.push_back({text_.size(), owner});
  }
}

void OwnedText::AppendSlice(const OwnedText& other, size_t begin, size_t end) {
  size_t from = 0;
  for (const Segment& segment : other.segments_) {
    const size_t low = std::max(from, begin);
    const size_t high = std::min(segment.end, end);
    if (low < high) Append(std::string_view(other.text_).substr(low, high - low), segment.owner);
    from = segment.end;
  }
}

Owner OwnedText::OwnerAt(size_t offset) const {
  for (const Segment& segment : segments_) {
    if (offset < segment.end) return segment.owner;
  }
  return segments_.empty() ? kTemplateOwner : segments_.back().owner;
}

Value Value::Undefined(std::string_view message) {
  Value value;
  value.text_ = std::make_shared<const OwnedText>(message, kTemplateOwner);
  return value;
}
Value Value::None(Owner owner) {
  Value value;
  value.kind_ = ValueKind::kNone;
  value.owner_ = owner;
  return value;
}
Value Value::Bool(bool truth, Owner owner) {
  Value value;
  value.kind_ = ValueKind::kBool;
  value.integer_ = truth ? 1 : 0;
  value.owner_ = owner;
  return value;
}
Value Value::Integer(int64_t number, Owner owner) {
  Value value;
  value.kind_ = ValueKind::kInteger;
  value.integer_ = number;
  value.owner_ = owner;
  return value;
}
Value Value::Float(double number, Owner owner) {
  Value value;
  value.kind_ = ValueKind::kFloat;
  value.float_ = number;
  value.owner_ = owner;
  return value;
}
Value Value::String(OwnedText text) {
  Value value;
  value.kind_ = ValueKind::kString;
  value.owner_ = text.OwnerAt(0);
  value.text_ = std::make_shared<const OwnedText>(std::move(text));
  return value;
}
Value Value::List(ValueList items, Owner owner) {
  Value value;
  value.kind_ = ValueKind::kList;
  value.owner_ = owner;
  for (const Value& item : items) value.depth_ = std::max(value.depth_, item.depth_ + 1);
  value.list_ = std::make_shared<const ValueList>(std::move(items));
  return value;
}
Value Value::Tuple(ValueList items) {
  Value value = List(std::move(items));
  value.kind_ = ValueKind::kTuple;
  return value;
}
Value Value::Range(ValueList integers) {
  Value value = List(std::move(integers));
  value.kind_ = ValueKind::kRange;
  return value;
}
Value Value::FromDict(Dict dict, Owner owner) {
  Value value;
  value.kind_ = ValueKind::kDict;
  value.owner_ = owner;
  for (const auto& member : dict.members) value.depth_ = std::max(value.depth_, member.second.depth_ + 1);
  value.dict_ = std::make_shared<Dict>(std::move(dict));
  return value;
}
Value Value::NewNamespace(Dict members) {
  Value value = FromDict(std::move(members));
  value.kind_ = ValueKind::kNamespace;
  return value;
}
Value Value::Loop(std::shared_ptr<LoopState> loop) {
  Value value;
  value.kind_ = ValueKind::kLoop;
  value.loop_ = std::move(loop);
  return value;
}

const std::string& Value::undefined_message() const {
  static const std::string kUnnamed;
  return text_ == nullptr ? kUnnamed : text_->text();
}

bool Value::Truth() const {
  switch (kind_) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
    case ValueKind::kInteger:
      return integer_ != 0;
    case ValueKind::kFloat:
      return float_ != 0;
    case ValueKind::kString:
      return !text_->text().empty();
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return !list_->empty();
    case ValueKind::kDict:
      return !dict_->members.empty();
    case ValueKind::kNamespace:
    case ValueKind::kLoop:
      return true;
  }
  return false;
}

namespace {

// Exact comparison of an integer with a double, as Python does it.
bool IntegerEqualsFloat(int64_t integer, double number) {
  return number >= -9223372036854775808.0 && number < 9223372036854775808.0 && std::trunc(number) == number &&
         static_cast<int64_t>(number) == integer;
}

bool DictEquals(const Dict& a, const Dict& b) {
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const auto& member) {
    const Value* other = b.Find(member.first.text());
    return other != nullptr && member.second.Equals(*other);
  });
}

}  // namespace

bool Value::Equals(const Value& other) const {
  if (is_integer() && other.is_integer()) return integer_ == other.integer_;
  if (is_number() && other.is_number()) {
    if (kind_ == other.kind_) return float_ == other.float_;
    return kind_ == ValueKind::kFloat ? IntegerEqualsFloat(other.integer_, float_)
                                      : IntegerEqualsFloat(integer_, other.float_);
  }
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return true;
    case ValueKind::kString:
      return text_->text() == other.text_->text();
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return std::equal(list_->begin(), list_->end(), other.list_->begin(), other.list_->end(),
                        [](const Value& a, const Value& b) { return a.Equals(b); });
    case ValueKind::kDict:
      return DictEquals(*dict_, *other.dict_);
    case ValueKind::kNamespace:
      return dict_ == other.dict_;
    case ValueKind::kLoop:
      return loop_ == other.loop_;
    default:
      return false;
  }
}

std::string_view Value::TypeName() const {
  switch (kind_) {
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInteger:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kString:
      return "str";
    case ValueKind::kList:
      return "list";
    case ValueKind::kTuple:
      return "tuple";
    case ValueKind::kRange:
      return "range";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kNamespace:
      return "Namespace";
    case ValueKind::kLoop:
      return "LoopContext";
  }
  return "object";
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name.text() == key) return &value;
  }
  return nullptr;
}

void Dict::Set(const OwnedText& key, Value value) {
  for (auto& [name, held] : members) {
    if (name.text() == key.text()) {
      held = std::move(value);
      return;
    }
  }
  members.emplace_back(key, std::move(value));
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);
  if (exponent >= -4 && exponent < 16) {
    const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
    std::string result(buffer, static_cast<size_t>(fixed.ptr - buffer));
    if (result.find('.') == std::string::npos) result += ".0";
    return result;
  }
  std::string result(text.substr(0, e));
  const int magnitude = exponent < 0 ? -exponent : exponent;
  result += exponent < 0 ? "e-" : "e+";
  if (magnitude < 10) result += '0';
  return result + std::to_string(magnitude);
}

namespace {

Status AppendStringRepr(const OwnedText& value, OwnedText* out) {
  const std::string& text = value.text();
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  const Owner owner = value.OwnerAt(0);
  out->Append(std::string_view(&quote, 1), owner);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    const Owner own = value.OwnerAt(at);
    if (c >= 0x80) {
      return Fail(ErrorCode::kUnsupported, "printing a list or dict that holds text outside ASCII");
    }
    if (text[at] == quote || c == '\\') {
      out->Append("\\", own);
      out->AppendSlice(value, at, at + 1);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out->Append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", own);
    } else if (c < 0x20 || c == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", c);
      out->Append(buffer, own);
    } else {
      out->AppendSlice(value, at, at + 1);
    }
  }
  out->Append(std::string_view(&quote, 1), owner);
  return {};
}

Status AppendItems(const Value& value, OwnedText* out) {
  const Owner owner = value.owner();
  const bool tuple = value.kind() == ValueKind::kTuple;
  out->Append(tuple ? "(" : "[", owner);
  for (size_t i = 0; i < value.items().size(); ++i) {
    if (i > 0) out->Append(", ", owner);
    SLM_TRY(AppendRepr(value.items()[i], out));
  }
  if (tuple && value.items().size() == 1) out->Append(",", owner);
  out->Append(tuple ? ")" : "]", owner);
  return {};
}

Status AppendMembers(const Value& value, OwnedText* out) {
  const Owner owner = value.owner();
  out->Append("{", owner);
  bool first = true;
  for (const auto& [key, member] : value.dict().members) {
    if (!first) out->Append(", ", owner);
    first = false;
    SLM_TRY(AppendStringRepr(key, out));
    out->Append(": ", owner);
    SLM_TRY(AppendRepr(member, out));
  }
  out->Append("}", owner);
  return {};
}

}  // namespace

Status AppendRepr(const Value& value, OwnedText* out) {
  const Owner owner = value.owner();
  switch (value.kind()) {
    case ValueKind::kUndefined:
      out->Append("Undefined", owner);
      return {};
    case ValueKind::kNone:
      out->Append("None", owner);
      return {};
    case ValueKind::kBool:
      out->Append(value.integer() != 0 ? "True" : "False", owner);
      return {};
    case ValueKind::kInteger:
      out->Append(std::to_string(value.integer()), owner);
      return {};
    case ValueKind::kFloat:
      out->Append(FloatRepr(value.number()), owner);
      return {};
    case ValueKind::kString:
      return AppendStringRepr(value.text(), out);
    case ValueKind::kList:
    case ValueKind::kTuple:
      return AppendItems(value, out);
    case ValueKind::kDict:
      return AppendMembers(value, out);
    case ValueKind::kRange:
    case ValueKind::kNamespace:
    case ValueKind::kLoop:
      return Fail(ErrorCode::kUnsupported, "printing a range, a namespace, or the loop object");
  }
  return {};
}

Result<OwnedText> ToText(const Value& value) {
  if (value.is_string()) return value.text();
  OwnedText text;
  if (!value.is_undefined()) SLM_TRY(AppendRepr(value, &text));
  return text;
}

}  // namespace slm::chat
