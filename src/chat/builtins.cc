#include "chat/builtins.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/utf8.h"
#include "chat/lexer.h"
#include "chat/tojson.h"

namespace slm::chat {
namespace {

constexpr int64_t kMaxRange = 10'000;

constexpr std::array<std::string_view, 16> kFilters = {
    "trim",  "length", "count", "tojson", "default", "d",     "join",    "lower",
    "upper", "first",  "last",  "list",   "string",  "items", "replace", "int"};
constexpr std::array<std::string_view, 19> kTests = {
    "defined", "undefined", "none",     "string",   "number", "integer", "float",
    "boolean", "mapping",   "sequence", "iterable", "true",   "false",   "eq",
    "equalto", "ne",        "in",       "odd",      "even"};
constexpr std::array<std::string_view, 13> kMethods = {
    "strip", "lstrip",  "rstrip", "split", "startswith", "endswith", "upper",
    "lower", "replace", "items",  "keys",  "values",     "get"};
constexpr std::array<std::string_view, 4> kFunctions = {"raise_exception", "namespace", "range",
                                                        "strftime_now"};

template <size_t n>
bool Holds(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::unexpected<Error> RaiseType(const std::string& message) {
  return Raise("TypeError", message);
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Result<Value> ChangeCase(const OwnedText& value, bool upper) {
  if (!IsAscii(value.text())) return Fail(ErrorCode::kUnsupported, "case mapping of text outside ASCII");
  OwnedText result;
  size_t begin = 0;
  for (const OwnedText::Segment& segment : value.segments()) {
    std::string part = value.text().substr(begin, segment.end - begin);
    for (char& c : part) {
      if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    result.Append(part, segment.owner);
    begin = segment.end;
  }
  return Value::String(std::move(result));
}

// str.strip and its two halves. `characters`: a set, or null for white space.
Result<Value> Strip(const OwnedText& value, const Value* characters, bool left, bool right) {
  std::u32string set;
  if (characters != nullptr && characters->kind() != ValueKind::kNone) {
    if (!characters->is_string()) return RaiseType("strip arg must be None or str");
    const std::string& text = characters->text().text();
    for (size_t at = 0; at < text.size();) set.push_back(DecodeUtf8(text, &at));
  }
  const bool by_set = characters != nullptr && characters->kind() != ValueKind::kNone;
  const auto strips = [&](char32_t c) {
    return by_set ? set.find(c) != std::u32string::npos : IsPythonSpace(c);
  };
  const std::string& text = value.text();
  size_t begin = 0;
  while (left && begin < text.size()) {
    size_t next = begin;
    if (!strips(DecodeUtf8(text, &next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t last = end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
    size_t next = last;
    if (!strips(DecodeUtf8(text, &next))) break;
    end = last;
  }
  OwnedText result;
  result.AppendSlice(value, begin, end);
  return Value::String(std::move(result));
}

Value Slice(const OwnedText& value, size_t begin, size_t end) {
  OwnedText part;
  part.AppendSlice(value, begin, end);
  return Value::String(std::move(part));
}

Value SplitOnSpace(const OwnedText& value) {
  ValueList parts;
  const std::string& text = value.text();
  size_t begin = std::string::npos;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const bool space = IsPythonSpace(DecodeUtf8(text, &at));
    if (space && begin != std::string::npos) {
      parts.push_back(Slice(value, begin, here));
      begin = std::string::npos;
    } else if (!space && begin == std::string::npos) {
      begin = here;
    }
  }
  if (begin != std::string::npos) parts.push_back(Slice(value, begin, text.size()));
  return Value::List(std::move(parts), value.OwnerAt(0));
}

Result<Value> Split(const OwnedText& value, const CallArguments& arguments) {
  int64_t max_splits = -1;
  if (const Value* given = arguments.Get(1, "maxsplit")) {
    if (!given->is_integer()) return RaiseType("maxsplit must be an integer");
    max_splits = given->integer();
  }
  const Value* separator = arguments.Get(0, "sep");
  if (separator == nullptr || separator->kind() == ValueKind::kNone) {
    if (max_splits >= 0) return Fail(ErrorCode::kUnsupported, "split() on white space with maxsplit");
    return SplitOnSpace(value);
  }
  if (!separator->is_string())
    return RaiseType("must be str or None, not " + std::string(separator->TypeName()));
  const std::string& sign = separator->text().text();
  if (sign.empty()) return Raise("ValueError", "empty separator");
  ValueList parts;
  size_t begin = 0;
  for (size_t found = value.text().find(sign); found != std::string::npos && max_splits != 0;
       found = value.text().find(sign, begin)) {
    parts.push_back(Slice(value, begin, found));
    begin = found + sign.size();
    if (max_splits > 0) --max_splits;
  }
  parts.push_back(Slice(value, begin, value.text().size()));
  return Value::List(std::move(parts), value.OwnerAt(0));
}

// str.startswith / endswith; the argument may be a tuple of strings.
Result<Value> HasAffix(const OwnedText& value, const CallArguments& arguments, bool at_start) {
  if (arguments.positional.size() != 1 || !arguments.keywords.empty()) {
    return Fail(ErrorCode::kUnsupported, "startswith or endswith with positions");
  }
  const Value& affix = arguments.positional[0];
  const auto matches = [&](const Value& one) {
    const std::string& sign = one.text().text();
    return at_start ? value.text().starts_with(sign) : value.text().ends_with(sign);
  };
  if (affix.is_string()) return Value::Bool(matches(affix));
  if (affix.kind() != ValueKind::kTuple) return RaiseType("first arg must be str or a tuple of str");
  for (const Value& one : affix.items()) {
    if (!one.is_string()) return RaiseType("tuple for startswith must only contain str");
    if (matches(one)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

Result<Value> Replace(const OwnedText& value, const CallArguments& arguments) {
  const Value* from = arguments.Get(0, "old");
  const Value* to = arguments.Get(1, "new");
  if (from == nullptr || to == nullptr || arguments.positional.size() > 2) {
    return Fail(ErrorCode::kUnsupported, "replace with other than two arguments");
  }
  if (!from->is_string() || !to->is_string()) return RaiseType("replace() arguments must be str");
  const std::string& old = from->text().text();
  if (old.empty()) return Fail(ErrorCode::kUnsupported, "replace of the empty string");
  OwnedText result;
  size_t begin = 0;
  for (size_t found = value.text().find(old); found != std::string::npos;
       found = value.text().find(old, begin)) {
    result.AppendSlice(value, begin, found);
    result.Append(to->text());
    begin = found + old.size();
  }
  result.AppendSlice(value, begin, value.text().size());
  return Value::String(std::move(result));
}

Value Pairs(const Dict& dict, Owner owner) {
  ValueList pairs;
  for (const auto& [key, value] : dict.members) pairs.push_back(Value::Tuple({Value::String(key), value}));
  return Value::List(std::move(pairs), owner);
}

Result<Value> CallStringMethod(std::string_view name, const OwnedText& text, const CallArguments& arguments) {
  if (name == "strip") return Strip(text, arguments.Get(0, "chars"), true, true);
  if (name == "lstrip") return Strip(text, arguments.Get(0, "chars"), true, false);
  if (name == "rstrip") return Strip(text, arguments.Get(0, "chars"), false, true);
  if (name == "split") return Split(text, arguments);
  if (name == "startswith") return HasAffix(text, arguments, true);
  if (name == "endswith") return HasAffix(text, arguments, false);
  if (name == "upper") return ChangeCase(text, true);
  if (name == "lower") return ChangeCase(text, false);
  if (name == "replace") return Replace(text, arguments);
  return Raise("UndefinedError", "'str object' has no attribute '" + std::string(name) + "'");
}

Result<Value> CallDictMethod(std::string_view name, const Value& receiver, const CallArguments& arguments) {
  const Dict& dict = receiver.dict();
  if (name == "items") return Pairs(dict, receiver.owner());
  if (name == "keys" || name == "values") {
    ValueList list;
    for (const auto& [key, value] : dict.members) list.push_back(name == "keys" ? Value::String(key) : value);
    return Value::List(std::move(list), receiver.owner());
  }
  if (name == "get") {
    const Value* key = arguments.Get(0, "key");
    if (key == nullptr) return RaiseType("get expected at least 1 argument, got 0");
    const Value* found = key->is_string() ? dict.Find(key->text().text()) : nullptr;
    if (found != nullptr) return *found;
    const Value* fallback = arguments.Get(1, "default");
    return fallback != nullptr ? *fallback : Value::None();
  }
  return Raise("UndefinedError", "'dict object' has no attribute '" + std::string(name) + "'");
}

Result<Value> Length(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return Value::Integer(0);
    case ValueKind::kString:
      return Value::Integer(static_cast<int64_t>(CountScalars(value.text().text())));
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return Value::Integer(static_cast<int64_t>(value.items().size()));
    case ValueKind::kDict:
      return Value::Integer(static_cast<int64_t>(value.dict().members.size()));
    default:
      return RaiseType("object of type '" + std::string(value.TypeName()) + "' has no len()");
  }
}

Result<Value> Join(const Value& value, const CallArguments& arguments) {
  if (arguments.Get(1, "attribute") != nullptr)
    return Fail(ErrorCode::kUnsupported, "join with an attribute");
  const Value* given = arguments.Get(0, "d");
  SLM_ASSIGN(const OwnedText separator, given == nullptr ? OwnedText() : ToText(*given));
  SLM_ASSIGN(const ValueList items, Iterate(value));
  OwnedText result;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result.Append(separator);
    SLM_ASSIGN(const OwnedText part, ToText(items[i]));
    result.Append(part);
  }
  return Value::String(std::move(result));
}

Result<Value> FirstOrLast(const Value& value, bool first) {
  SLM_ASSIGN(const ValueList items, Iterate(value));
  if (items.empty()) {
    return Value::Undefined(first ? "No first item, sequence was empty."
                                  : "No last item, sequence was empty.");
  }
  return first ? items.front() : items.back();
}

Result<Value> ToInteger(const Value& value, const CallArguments& arguments) {
  const Value* fallback = arguments.Get(0, "default");
  if (arguments.Get(1, "base") != nullptr) return Fail(ErrorCode::kUnsupported, "int with a base");
  if (value.is_integer()) return Value::Integer(value.integer(), value.owner());
  if (value.is_string()) {
    const std::string& text = value.text().text();
    const bool negative = text.starts_with('-');
    const std::string digits = text.substr(negative ? 1 : 0);
    if (!digits.empty() && digits.size() <= 18 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      int64_t number = 0;
      for (const char c : digits) number = number * 10 + (c - '0');
      return Value::Integer(negative ? -number : number, value.owner());
    }
    return Fail(ErrorCode::kUnsupported, "int of text that is not plain decimal digits");
  }
  return fallback != nullptr ? *fallback : Value::Integer(0);
}

Result<Value> Range(const CallArguments& arguments) {
  if (!arguments.keywords.empty() || arguments.positional.empty() || arguments.positional.size() > 3) {
    return RaiseType("range expected 1 to 3 positional arguments");
  }
  std::array<int64_t, 3> bounds = {0, 0, 1};
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (!arguments.positional[i].is_integer()) {
      return RaiseType("'" + std::string(arguments.positional[i].TypeName()) +
                       "' object cannot be interpreted as an integer");
    }
    bounds[i] = arguments.positional[i].integer();
  }
  if (arguments.positional.size() == 1) bounds = {0, bounds[0], 1};
  const auto [start, stop, step] = bounds;
  if (step == 0) return Raise("ValueError", "range() arg 3 must not be zero");
  constexpr int64_t kBound = int64_t{1} << 40;
  if (std::max({std::abs(start), std::abs(stop), std::abs(step)}) > kBound) {
    return Fail(ErrorCode::kTplBudget, "range() with huge bounds");
  }
  ValueList numbers;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(numbers.size()) >= kMaxRange) {
      return Fail(ErrorCode::kTplBudget, "range() of more than 10000 numbers");
    }
    numbers.push_back(Value::Integer(i));
  }
  return Value::Range(std::move(numbers));
}

// The four directives that occur in published templates' dates, from the declared clock.
Result<Value> StrftimeNow(const CallArguments& arguments, const CallEnvironment& environment) {
  if (arguments.positional.size() != 1 || !arguments.positional[0].is_string()) {
    return RaiseType("strftime_now takes one format string");
  }
  const std::string& clock = environment.clock;
  if (clock.size() < 10) {
    return Fail(ErrorCode::kTplInput,
                "the template asks for the date; give a clock (\"clock\": \"2026-11-30T12:00:00\")");
  }
  static constexpr std::array<std::string_view, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  const int month = (clock[5] - '0') * 10 + (clock[6] - '0');
  if (month < 1 || month > 12) return Fail(ErrorCode::kTplInput, "the clock's month is out of range");
  const std::string& format = arguments.positional[0].text().text();
  std::string result;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      result.push_back(format[i]);
      continue;
    }
    const char directive = i + 1 < format.size() ? format[++i] : '\0';
    if (directive == 'Y') {
      result += clock.substr(0, 4);
    } else if (directive == 'm') {
      result += clock.substr(5, 2);
    } else if (directive == 'd') {
      result += clock.substr(8, 2);
    } else if (directive == 'B') {
      result += kMonths[static_cast<size_t>(month) - 1];
    } else if (directive == 'b') {
      result += kMonths[static_cast<size_t>(month) - 1].substr(0, 3);
    } else {
      return Fail(ErrorCode::kTplForbidden, std::string("the date directive %") + directive);
    }
  }
  return Value::String(result);
}

}  // namespace

bool IsFilterName(std::string_view name) {
  return Holds(kFilters, name);
}
bool IsTestName(std::string_view name) {
  return Holds(kTests, name);
}
bool IsMethodName(std::string_view name) {
  return Holds(kMethods, name);
}
bool IsFunctionName(std::string_view name) {
  return Holds(kFunctions, name);
}

std::unexpected<Error> Raise(std::string_view exception, const std::string& message) {
  return Fail(ErrorCode::kTplRuntime, std::string(exception) + ": " + message);
}

std::unexpected<Error> RaiseUndefined(const Value& value) {
  return Raise("UndefinedError", value.undefined_message());
}

const Value* CallArguments::Get(size_t position, std::string_view keyword) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [name, value] : keywords) {
    if (name == keyword) return &value;
  }
  return nullptr;
}

Result<ValueList> Iterate(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return ValueList();
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return value.items();
    case ValueKind::kString: {
      ValueList characters;
      const std::string& text = value.text().text();
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        (void)DecodeUtf8(text, &at);
        characters.push_back(Slice(value.text(), begin, at));
      }
      return characters;
    }
    case ValueKind::kDict: {
      ValueList keys;
      for (const auto& [key, member] : value.dict().members) keys.push_back(Value::String(key));
      return keys;
    }
    default:
      return RaiseType("'" + std::string(value.TypeName()) + "' object is not iterable");
  }
}

Result<bool> Contains(const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case ValueKind::kUndefined:
      return false;
    case ValueKind::kString:
      if (!needle.is_string()) {
        return RaiseType("'in <string>' requires string as left operand, not " +
                         std::string(needle.TypeName()));
      }
      return haystack.text().text().find(needle.text().text()) != std::string::npos;
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return std::any_of(haystack.items().begin(), haystack.items().end(),
                         [&](const Value& item) { return item.Equals(needle); });
    case ValueKind::kDict:
      return needle.is_string() && haystack.dict().Find(needle.text().text()) != nullptr;
    default:
      return RaiseType("argument of type '" + std::string(haystack.TypeName()) + "' is not iterable");
  }
}

Result<Value> CallFilter(std::string_view name, const Value& receiver, const CallArguments& arguments) {
  if (name == "tojson") return ToJsonFilter(receiver, arguments);
  if (name == "length" || name == "count") return Length(receiver);
  if (name == "default" || name == "d") {
    const Value* fallback = arguments.Get(0, "default_value");
    const Value* boolean = arguments.Get(1, "boolean");
    const bool use = receiver.is_undefined() || (boolean != nullptr && boolean->Truth() && !receiver.Truth());
    if (!use) return receiver;
    return fallback != nullptr ? *fallback : Value::String("");
  }
  if (name == "join") return Join(receiver, arguments);
  if (name == "first" || name == "last") return FirstOrLast(receiver, name == "first");
  if (name == "list") {
    SLM_ASSIGN(ValueList items, Iterate(receiver));
    return Value::List(std::move(items), receiver.owner());
  }
  if (name == "items") {
    if (receiver.is_undefined()) return Value::List({});
    if (receiver.kind() != ValueKind::kDict) return RaiseType("Can only get item pairs from a mapping.");
    return Pairs(receiver.dict(), receiver.owner());
  }
  if (name == "int") return ToInteger(receiver, arguments);
  SLM_ASSIGN(const OwnedText text, ToText(receiver));
  if (name == "trim") return Strip(text, arguments.Get(0, "chars"), true, true);
  if (name == "lower" || name == "upper") return ChangeCase(text, name == "upper");
  if (name == "replace") return Replace(text, arguments);
  return Value::String(text);  // "string"
}

Result<bool> CallTest(std::string_view name, const Value& receiver, const CallArguments& arguments) {
  const ValueKind kind = receiver.kind();
  if (name == "defined") return kind != ValueKind::kUndefined;
  if (name == "undefined") return kind == ValueKind::kUndefined;
  if (name == "none") return kind == ValueKind::kNone;
  if (name == "string") return kind == ValueKind::kString;
  if (name == "number") return receiver.is_number();
  if (name == "integer") return kind == ValueKind::kInteger;
  if (name == "float") return kind == ValueKind::kFloat;
  if (name == "boolean") return kind == ValueKind::kBool;
  if (name == "true" || name == "false")
    return kind == ValueKind::kBool && receiver.Truth() == (name == "true");
  if (name == "mapping") return kind == ValueKind::kDict;
  if (name == "sequence" || name == "iterable") {
    return kind == ValueKind::kUndefined || kind == ValueKind::kString || receiver.is_sequence() ||
           kind == ValueKind::kDict;
  }
  if (name == "odd" || name == "even") {
    if (receiver.is_undefined()) return RaiseUndefined(receiver);
    if (!receiver.is_integer()) return RaiseType("not all arguments converted during string formatting");
    return (receiver.integer() % 2 != 0) == (name == "odd");
  }
  const Value* other = arguments.Get(0, "other");
  if (other == nullptr) return RaiseType("the test '" + std::string(name) + "' needs an argument");
  if (name == "in") return Contains(*other, receiver);
  return receiver.Equals(*other) == (name != "ne");
}

Result<Value> CallMethod(std::string_view name, const Value& receiver, const CallArguments& arguments) {
  if (receiver.is_undefined()) return RaiseUndefined(receiver);
  if (receiver.is_string()) return CallStringMethod(name, receiver.text(), arguments);
  if (receiver.kind() == ValueKind::kDict) {
    // A key of that name is no method: the reference finds the attribute first.
    return CallDictMethod(name, receiver, arguments);
  }
  return Raise("UndefinedError", "'" + std::string(receiver.TypeName()) + " object' has no attribute '" +
                                     std::string(name) + "'");
}

Result<Value> CallFunction(std::string_view name, const CallArguments& arguments,
                           const CallEnvironment& environment) {
  if (name == "raise_exception") {
    if (arguments.positional.size() != 1) return RaiseType("raise_exception takes one message");
    SLM_ASSIGN(const OwnedText message, ToText(arguments.positional[0]));
    return Fail(ErrorCode::kTplRaised, message.text());
  }
  if (name == "namespace") {
    if (!arguments.positional.empty())
      return Fail(ErrorCode::kUnsupported, "namespace() with positional arguments");
    Dict members;
    for (const auto& [key, value] : arguments.keywords) members.Set(OwnedText(key, kTemplateOwner), value);
    return Value::NewNamespace(std::move(members));
  }
  if (name == "range") return Range(arguments);
  return StrftimeNow(arguments, environment);
}

}  // namespace slm::chat
