#include "chat/runtime.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/python_escape.h"
#include "unicode/python_v14_0.h"

namespace slm::chat {
namespace {

// Types as bits, for the table of attributes.
enum TypeBit : uint32_t {
  kStr = 1,
  kList = 2,
  kDict = 4,
  kTuple = 8,
  kInt = 16,
  kFloat = 32,
  kRange = 64,
  kKeys = 128,
  kValues = 256,
  kItems = 512,
  kGenerator = 1024,
  kLoop = 2048,
  kMacro = 4096,
  kCycler = 8192,
  kJoiner = 16384,
  kMarkup = 32768,
  kGroup = 65536,
  kDictFunction = 131072,
};

struct AttributeRow {
  std::string_view name;
  uint32_t types, properties, unsafe;
};
constexpr AttributeRow kAttributes[] = {
#define SLM_ATTRIBUTE(name, types, properties, unsafe) {#name, types, properties, unsafe},
#include "chat/attributes.def"
#undef SLM_ATTRIBUTE
};

uint32_t TypeBits(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kString:
      return value.is_markup() ? kStr | kMarkup : kStr;
    case ValueKind::kList:
      return kList;
    case ValueKind::kDict:
      return kDict;
    case ValueKind::kTuple:
      return value.is_group() ? kTuple | kGroup : kTuple;
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kBigInteger:
      return kInt;
    case ValueKind::kFloat:
      return kFloat;
    case ValueKind::kRange:
      return kRange;
    case ValueKind::kDictKeys:
      return kKeys;
    case ValueKind::kDictValues:
      return kValues;
    case ValueKind::kDictItems:
      return kItems;
    case ValueKind::kIterator:
      return value.object<IteratorObject>().TypeName() == "generator" ? uint32_t{kGenerator} : 0;
    case ValueKind::kLoop:
      return kLoop;
    case ValueKind::kMacro:
      return kMacro;
    case ValueKind::kCycler:
      return kCycler;
    case ValueKind::kJoiner:
      return kJoiner;
    case ValueKind::kFunction:
      return value.integer() == 0 ? uint32_t{kDictFunction} : 0;  // function 0 is dict
    default:
      return 0;
  }
}

// Attributes that begin with two underscores and that every object of Python has.
bool IsSetLike(const Value& value) {
  return value.kind() == ValueKind::kDictKeys || value.kind() == ValueKind::kDictItems;
}

bool IsObjectAttribute(std::string_view name) {
  static constexpr std::array<std::string_view, 24> kNames = {
      "__class__", "__delattr__",      "__dir__",    "__doc__",  "__eq__",           "__format__",
      "__ge__",    "__getattribute__", "__gt__",     "__hash__", "__init__",         "__init_subclass__",
      "__le__",    "__lt__",           "__ne__",     "__new__",  "__reduce__",       "__reduce_ex__",
      "__repr__",  "__setattr__",      "__sizeof__", "__str__",  "__subclasshook__", "__getstate__"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

}  // namespace

AttributeId FindAttribute(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kAttributes), std::end(kAttributes), name,
                       [](const AttributeRow& row, std::string_view wanted) { return row.name < wanted; });
  if (found == std::end(kAttributes) || found->name != name) return AttributeId::none;
  return static_cast<AttributeId>(found - std::begin(kAttributes));
}

std::string_view AttributeName(AttributeId id) {
  return id == AttributeId::none ? std::string_view("attribute") : kAttributes[static_cast<size_t>(id)].name;
}

std::string TypeRepr(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kUndefined:
    case ValueKind::kLoop:
    case ValueKind::kMacro:
      return "jinja2.runtime." + std::string(TypeName(value)) + " object";
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      return "jinja2.utils." + std::string(TypeName(value)) + " object";
    case ValueKind::kNamespace:
      return "transformers.utils.chat_template_utils._cached_compile_jinja_template.<locals>."
             "TemplateNamespace object";
    default:
      return std::string(TypeName(value)) + " object";
  }
}

std::optional<int64_t> AsIndex(const Value& value) {
  if (value.is_small_integer()) return value.integer();
  if (value.kind() == ValueKind::kBigInteger) return value.big().negative ? INT64_MIN : INT64_MAX;
  return std::nullopt;
}

std::optional<int64_t> AsArgument(Runtime& runtime, const Value& value, CType type) {
  const auto index = AsIndex(value);
  if (!index) {
    runtime.RaiseType("'" + std::string(TypeName(value)) + "' object cannot be interpreted as an integer");
    return std::nullopt;
  }
  const bool is_int = type == CType::kInt;
  if (value.kind() == ValueKind::kBigInteger || (is_int && (*index > INT32_MAX || *index < INT32_MIN))) {
    runtime.Raise("OverflowError",
                  std::string("Python int too large to convert to C ") + (is_int ? "int" : "ssize_t"));
    return std::nullopt;
  }
  return index;
}

std::optional<int64_t> AsRepeats(Runtime& runtime, const Value& value) {
  const auto index = AsIndex(value);
  if (!index) {
    runtime.RaiseType("can't multiply sequence by non-int of type '" + std::string(TypeName(value)) + "'");
    return std::nullopt;
  }
  if (value.kind() == ValueKind::kBigInteger) {
    runtime.Raise("OverflowError", "cannot fit 'int' into an index-sized integer");
    return std::nullopt;
  }
  return index;
}

// ---- errors and budgets ----

Value Runtime::Raise(std::string_view exception, const std::string& message) {
  return Refuse(ErrorCode::kTplRuntime, std::string(exception) + ": " + message);
}

Value Runtime::Refuse(ErrorCode code, std::string message) {
  if (!error_) error_ = MakeError(code, std::move(message));
  return Value::Error();
}

Value Runtime::OverBudget(const char* what) {
  return Refuse(ErrorCode::kTplBudget, std::string("a rendering budget is used up: ") + what);
}

Value Runtime::RaiseUndefined(const Value& undefined) {
  const UndefinedInfo* info = undefined.undefined();
  std::string message;
  const char* exception = info != nullptr && info->security ? "SecurityError" : "UndefinedError";
  if (info == nullptr) {
    message = "a value is undefined";
  } else if (info->kind == UndefinedInfo::Kind::kHint) {
    message = info->text;
  } else if (info->kind == UndefinedInfo::Kind::kName) {
    message = Quoted(info->text) + " is undefined";
  } else if (info->kind == UndefinedInfo::Kind::kAttribute) {
    message = Quoted(TypeRepr(info->object)) + " has no attribute " + QuotedRepr(info->text);
  } else {
    message = TypeRepr(info->object) + " has no element " + Repr(info->element);
  }
  return Raise(exception, message);
}

void Runtime::SetPlace(SourcePlace place) {
  if (place_.line != 0 || !error_) return;
  place_ = place;
  if (error_->code != ErrorCode::kTplRaised) error_->message += " (line " + std::to_string(place.line) + ")";
}

bool Runtime::DropTypeError() {
  if (!error_ || error_->code != ErrorCode::kTplRuntime || !error_->message.starts_with("TypeError: "))
    return false;
  ForgetError();
  return true;
}

Comparison ComparisonOf(std::string_view sign) {
  if (sign == "==") return Comparison::kEqual;
  if (sign == "!=") return Comparison::kNotEqual;
  if (sign == "<") return Comparison::kLess;
  if (sign == "<=") return Comparison::kLessEqual;
  if (sign == ">") return Comparison::kGreater;
  if (sign == ">=") return Comparison::kGreaterEqual;
  return sign == "in" ? Comparison::kIn : Comparison::kNotIn;
}

void Runtime::ForgetError() {
  error_.reset();
  place_ = {};
}

bool Runtime::ReportWork() {
  if (steps_ > budgets_.max_steps) {
    OverBudget(("more than " + std::to_string(budgets_.max_steps) + " steps").c_str());
    return false;
  }
  return MayAllocate(0);
}

bool Runtime::MayAllocate(uint64_t n_bytes) {
  if (n_bytes <= budgets_.max_heap_bytes && heap_.used() + n_bytes <= budgets_.max_heap_bytes) return true;
  OverBudget(("more than " + std::to_string(budgets_.max_heap_bytes) + " bytes of values").c_str());
  return false;
}

// ---- text ----

Value Runtime::Make(const TextBuilder& builder) {
  if (!MayAllocate(builder.size())) return Value::Error();
  return heap_.String(builder);
}

Value Runtime::ToText(const Value& value) {
  if (value.is_string()) {
    Flat(value);
    return value.WithFlag(false);
  }
  if (value.is_undefined()) return heap_.Borrow("", kTemplateOwner);
  TextBuilder text;
  if (!AppendText(value, &text)) return Value::Error();
  return Make(text);
}

bool Runtime::AppendText(const Value& value, TextBuilder* out) {
  if (value.is_string()) {
    slm::chat::AppendText(out, Flat(value));
    return true;
  }
  if (value.is_undefined()) return true;
  return AppendRepr(value, out);
}

std::string QuotedRepr(std::string_view text) {
  Runtime runtime{Budgets{}};
  TextBuilder out;
  const Value value = runtime.heap().Borrow(text, kTemplateOwner);
  return runtime.AppendRepr(value, &out) ? std::string(out.text()) : Quoted(text);
}

std::string Runtime::Repr(const Value& value) {
  TextBuilder out;
  std::optional<Error> held = error_;
  const bool good = AppendRepr(value, &out);
  error_ = std::move(held);
  return std::string(good ? out.text() : TypeName(value));
}

bool Runtime::AppendStringRepr(const Value& string, TextBuilder* out) {
  const Text& text = Flat(string);
  const std::string_view bytes = text.view();
  if (!Work(bytes.size() / 64)) return false;
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  const Owner first = bytes.empty() ? string.owner() : text.OwnerAt(0);
  if (string.is_markup()) out->Append("Markup(", first);
  out->Append({&quote, 1}, first);
  ForEachSegment(text, 0, bytes.size(), [&](std::string_view part, Owner owner) {
    size_t plain = 0;
    for (size_t at = 0; at < part.size();) {
      const size_t begin = at;
      const char32_t c = DecodeUtf8(part, &at);
      std::string escape;
      if (c == static_cast<unsigned char>(quote) || c == '\\') {
        escape = {'\\', static_cast<char>(c)};
      } else if (c == '\n' || c == '\r' || c == '\t') {
        escape = {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
      } else if ((unicode::PythonFlagsV14(c) & unicode::kPythonPrintable) == 0) {
        escape = PythonEscape(c);
      }
      if (escape.empty()) continue;
      out->Append(part.substr(plain, begin - plain), owner);
      out->Append(escape, owner);
      plain = at;
    }
    out->Append(part.substr(plain), owner);
  });
  const Owner last = bytes.empty() ? string.owner() : text.OwnerAt(bytes.size() - 1);
  out->Append({&quote, 1}, last);
  if (string.is_markup()) out->Append(")", last);
  return MayAllocate(out->size());
}

bool Runtime::AppendSequence(const Value& value, const char* open, const char* close, TextBuilder* out) {
  const Owner owner = value.owner();
  out->Append(open, owner);
  bool first = true;
  for (const Value& item : value.list()) {
    if (!first) out->Append(", ", owner);
    first = false;
    if (!AppendRepr(item, out)) return false;
  }
  if (value.kind() == ValueKind::kTuple && value.list().size == 1) out->Append(",", owner);
  out->Append(close, owner);
  return true;
}

bool Runtime::AppendDict(const Value& value, TextBuilder* out) {
  const Owner owner = value.owner();
  out->Append("{", owner);
  bool first = true;
  for (const DictEntry& entry : value.dict()) {
    if (!first) out->Append(", ", owner);
    first = false;
    if (!AppendRepr(entry.key, out)) return false;
    out->Append(": ", owner);
    if (!AppendRepr(entry.value, out)) return false;
  }
  out->Append("}", owner);
  return true;
}

bool Runtime::AppendView(const Value& value, TextBuilder* out) {
  const Owner owner = value.owner();
  out->Append(std::string(TypeName(value)) + "([", owner);
  bool first = true;
  for (const DictEntry& entry : value.dict()) {
    if (!first) out->Append(", ", owner);
    first = false;
    const bool items = value.kind() == ValueKind::kDictItems;
    if (items) out->Append("(", owner);
    if (value.kind() != ValueKind::kDictValues && !AppendRepr(entry.key, out)) return false;
    if (items) out->Append(", ", owner);
    if (value.kind() != ValueKind::kDictKeys && !AppendRepr(entry.value, out)) return false;
    if (items) out->Append(")", owner);
  }
  out->Append("])", owner);
  return true;
}

bool Runtime::AppendNamespace(const Value& value, TextBuilder* out) {
  out->Append("<Namespace {", kTemplateOwner);
  bool first = true;
  for (const auto& [key, member] : *value.object<NamespaceObject>().members) {
    if (!first) out->Append(", ", kTemplateOwner);
    first = false;
    if (!AppendRepr(key, out)) return false;
    out->Append(": ", kTemplateOwner);
    if (!AppendRepr(member, out)) return false;
  }
  out->Append("}>", kTemplateOwner);
  return true;
}

bool Runtime::AppendRepr(const Value& value, TextBuilder* out) {
  if (!Work(1) || !MayAllocate(out->size())) return false;
  const Owner owner = value.owner();
  switch (value.kind()) {
    case ValueKind::kUndefined:
      out->Append("Undefined", owner);
      return true;
    case ValueKind::kNone:
      out->Append("None", owner);
      return true;
    case ValueKind::kBool:
      out->Append(value.integer() != 0 ? "True" : "False", owner);
      return true;
    case ValueKind::kInteger:
    case ValueKind::kBigInteger: {
      const auto text = IntegerText(value);
      if (!text) {
        Raise("ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
        return false;
      }
      out->Append(*text, owner);
      return true;
    }
    case ValueKind::kFloat:
      out->Append(FloatRepr(value.real()), owner);
      return true;
    case ValueKind::kString:
      return AppendStringRepr(value, out);
    case ValueKind::kList:
      return AppendSequence(value, "[", "]", out);
    case ValueKind::kTuple:
      return AppendSequence(value, "(", ")", out);
    case ValueKind::kDict:
      return AppendDict(value, out);
    case ValueKind::kDictKeys:
    case ValueKind::kDictValues:
    case ValueKind::kDictItems:
      return AppendView(value, out);
    case ValueKind::kRange: {
      const RangeObject& range = value.range();
      std::string text = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
      if (range.step != 1) text += ", " + std::to_string(range.step);
      out->Append(text + ")", owner);
      return true;
    }
    case ValueKind::kNamespace:
      return AppendNamespace(value, out);
    case ValueKind::kFunction:
      if (slm::chat::TypeName(value) == "TemplateReference") {
        out->Append("<TemplateReference None>", kTemplateOwner);
        return true;
      }
      break;
    case ValueKind::kMacro: {
      const Value& name = value.object<MacroObject>().name;
      out->Append("<Macro " + (name.is_none() ? "anonymous" : QuotedRepr(View(name))) + ">", kTemplateOwner);
      return true;
    }
    case ValueKind::kLoop: {
      auto& loop = value.object<LoopObject>();
      const Value length = LoopProperty(&loop, AttributeId::length);
      if (length.failed()) return false;
      out->Append(
          "<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(length.integer()) + ">",
          kTemplateOwner);
      return true;
    }
    default:
      break;
  }
  Refuse(ErrorCode::kUnsupported,
         "printing a " + std::string(TypeName(value)) + ": the reference shows an address in memory");
  return false;
}

Value Runtime::Escape(const Value& value) {
  if (value.is_markup()) return value;
  const Value text = ToText(value);
  if (text.failed()) return text;
  const std::string_view bytes = View(text);
  if (bytes.find_first_of("&<>'\"") == std::string_view::npos) return text.WithFlag();
  if (!Work(bytes.size() / 64) || !MayAllocate(bytes.size() * 5)) return Value::Error();
  TextBuilder out;
  ForEachSegment(text.text(), 0, bytes.size(), [&out](std::string_view part, Owner owner) {
    for (size_t i = 0; i < part.size(); ++i) {
      const char c = part[i];
      const char* entity = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : nullptr;
      out.Append(entity != nullptr ? std::string_view(entity) : part.substr(i, 1), owner);
    }
  });
  const Value made = Make(out);
  return made.failed() ? made : made.WithFlag();
}

Value Runtime::ConcatenateText(const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  const Value a = markup ? Escape(left) : left;
  if (a.failed()) return a;
  const Value b = markup ? Escape(right) : right;
  if (b.failed()) return b;
  if (a.text().size + b.text().size > budgets_.max_heap_bytes) return OverBudget("a text that is too long");
  return heap_.Concatenate(a, b).WithFlag(markup);
}

// ---- iteration ----

bool Runtime::IsIterable(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kString:
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kDict:
    case ValueKind::kRange:
    case ValueKind::kDictKeys:
    case ValueKind::kDictValues:
    case ValueKind::kDictItems:
    case ValueKind::kIterator:
    case ValueKind::kLoop:
      return true;
    default:
      return false;
  }
}

std::optional<Cursor> Runtime::Iterate(const Value& value) {
  if (!IsIterable(value)) {
    RaiseType(Quoted(TypeName(value)) + " object is not iterable");
    return std::nullopt;
  }
  if (value.is_string()) Flat(value);
  return Cursor(value);
}

IteratorObject::Step Runtime::NextOf(Cursor* cursor, Value* value) {
  using Step = IteratorObject::Step;
  const Value& source = cursor->source_;
  const uint64_t at = cursor->at_;
  switch (source.kind()) {
    case ValueKind::kDict:
    case ValueKind::kDictKeys:
      if (at >= source.dict().size) return Step::kDone;
      *value = source.dict().entries[at].key;
      break;
    case ValueKind::kDictValues:
      if (at >= source.dict().size) return Step::kDone;
      *value = source.dict().entries[at].value;
      break;
    case ValueKind::kDictItems: {
      if (at >= source.dict().size) return Step::kDone;
      const Value pair[2] = {source.dict().entries[at].key, source.dict().entries[at].value};
      *value = Value::Of(ValueKind::kTuple, heap_.List(pair, 2, source.owner()).address(), source.owner());
      break;
    }
    case ValueKind::kRange:
      if (at >= static_cast<uint64_t>(source.range().length)) return Step::kDone;
      *value = Value::Integer(source.range().start + static_cast<int64_t>(at) * source.range().step);
      break;
    case ValueKind::kString: {
      const std::string_view text = source.view();
      if (at >= text.size()) return Step::kDone;
      size_t next = at;
      (void)DecodeUtf8(text, &next);
      *value = Character(source, at, next);
      cursor->at_ = next;
      return Work(1) ? Step::kValue : Step::kError;
    }
    case ValueKind::kIterator:
      return Work(1) ? source.object<IteratorObject>().Next(value) : Step::kError;
    case ValueKind::kLoop: {
      Value item;
      const Step step = NextOfLoop(&source.object<LoopObject>(), &item);
      if (step == Step::kValue) *value = heap_.Tuple({item, source});
      return step;
    }
    default:
      return Step::kDone;
  }
  ++cursor->at_;
  return Work(1) ? Step::kValue : Step::kError;
}

Value Runtime::Length(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return Value::Integer(0);
    case ValueKind::kString:
      return Value::Integer(static_cast<int64_t>(Flat(value).CountedScalars()), kTemplateOwner);
    case ValueKind::kList:
    case ValueKind::kTuple:
      return Value::Integer(static_cast<int64_t>(value.list().size));
    case ValueKind::kRange:
      return Value::Integer(value.range().length);
    case ValueKind::kDict:
    case ValueKind::kDictKeys:
    case ValueKind::kDictValues:
    case ValueKind::kDictItems:
      return Value::Integer(static_cast<int64_t>(value.dict().size));
    case ValueKind::kLoop:
      return LoopProperty(&value.object<LoopObject>(), AttributeId::length);
    default:
      return RaiseType("object of type " + Quoted(TypeName(value)) + " has no len()");
  }
}

IteratorObject::Step Runtime::NextOfLoop(LoopObject* loop, Value* value) {
  using Step = IteratorObject::Step;
  if (!loop->after.is_missing()) {
    *value = loop->after;
    loop->after = Value::Missing();
  } else {
    if (loop->exhausted) return Step::kDone;
    const Step step = Next(&loop->cursor, value);
    if (step != Step::kValue) {
      loop->exhausted = step == Step::kDone;
      return step;
    }
  }
  ++loop->index0;
  loop->before = loop->current;
  loop->current = *value;
  return Step::kValue;
}

bool Runtime::PeekNext(LoopObject* loop) {
  if (!loop->after.is_missing() || loop->exhausted) return true;
  Value value;
  const auto step = Next(&loop->cursor, &value);
  if (step == IteratorObject::Step::kError) return false;
  if (step == IteratorObject::Step::kDone) {
    loop->exhausted = true;
  } else {
    loop->after = value;
  }
  return true;
}

// ---- operators ----

Value Runtime::Equals(const Value& left, const Value& right) {
  if (left.is_string()) Flat(left);
  if (right.is_string()) Flat(right);
  if (left.is_string() && right.is_string() && !Work(std::min(left.text().size, right.text().size) / 64)) {
    return Value::Error();
  }
  if (Depth(left) > 0 && !Work(8)) return Value::Error();
  return Value::Bool(Equal(left, right));
}

std::optional<bool> Runtime::Less(const Value& left, const Value& right) {
  const Value less = Order(Comparison::kLess, left, right);
  if (less.failed()) return std::nullopt;
  return less.integer() != 0;
}

Value Runtime::Order(Comparison op, const Value& left, const Value& right) {
  if (left.is_undefined()) return RaiseUndefined(left);
  if (right.is_undefined()) return RaiseUndefined(right);
  const auto decide = [op](Ordering order) {
    switch (op) {
      case Comparison::kLess:
        return Value::Bool(order == Ordering::kLess);
      case Comparison::kLessEqual:
        return Value::Bool(order == Ordering::kLess || order == Ordering::kEqual);
      case Comparison::kGreater:
        return Value::Bool(order == Ordering::kGreater);
      default:
        return Value::Bool(order == Ordering::kGreater || order == Ordering::kEqual);
    }
  };
  if (left.is_number() && right.is_number()) return decide(CompareNumbers(left, right));
  if (left.is_string() && right.is_string()) {
    if (!Work(std::min(left.text().size, right.text().size) / 64)) return Value::Error();
    const int order = View(left).compare(View(right));  // UTF-8 orders as code points do
    return decide(order < 0 ? Ordering::kLess : order > 0 ? Ordering::kGreater : Ordering::kEqual);
  }
  if (left.is_list_or_tuple() && left.kind() == right.kind()) {
    const ListObject& a = left.list();
    const ListObject& b = right.list();
    for (uint64_t i = 0; i < a.size && i < b.size; ++i) {
      if (!Work(1)) return Value::Error();
      const Value same = Equals(a.items[i], b.items[i]);
      if (same.failed()) return same;
      if (same.integer() == 0) return Order(op, a.items[i], b.items[i]);
    }
    return decide(a.size < b.size   ? Ordering::kLess
                  : a.size > b.size ? Ordering::kGreater
                                    : Ordering::kEqual);
  }
  if (IsSetLike(left) && IsSetLike(right))
    return Refuse(ErrorCode::kUnsupported, "the order of views of dicts");
  constexpr std::array<const char*, 4> kSigns = {"<", "<=", ">", ">="};
  return RaiseType(Quoted(kSigns[static_cast<size_t>(op) - static_cast<size_t>(Comparison::kLess)]) +
                   " not supported between instances of " + Quoted(TypeName(left)) + " and " +
                   Quoted(TypeName(right)));
}

bool Runtime::CheckHashable(const Value& key) {
  if (key.is_string()) {
    Flat(key);
    return true;
  }
  const char* name = FindUnhashable(key);
  if (name == nullptr) return true;
  RaiseType("unhashable type: " + Quoted(name));
  return false;
}

Value Runtime::Contains(const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case ValueKind::kString:
      if (!needle.is_string()) {
        return RaiseType("'in <string>' requires string as left operand, not " +
                         std::string(TypeName(needle)));
      }
      if (!Work(haystack.text().size / 64)) return Value::Error();
      return Value::Bool(View(haystack).find(View(needle)) != std::string_view::npos);
    case ValueKind::kDict:
    case ValueKind::kDictKeys:
      if (!CheckHashable(needle)) return Value::Error();
      return Value::Bool(Find(haystack.dict(), needle) != nullptr);
    case ValueKind::kDictItems: {
      if (needle.kind() != ValueKind::kTuple || needle.list().size != 2) return Value::Bool(false);
      if (!CheckHashable(needle.list().items[0])) return Value::Error();
      const Value* found = Find(haystack.dict(), needle.list().items[0]);
      return found == nullptr ? Value::Bool(false) : Equals(*found, needle.list().items[1]);
    }
    case ValueKind::kRange: {
      if (!needle.is_integer()) break;
      const RangeObject& range = haystack.range();
      const auto value = AsIndex(needle);
      if (needle.kind() == ValueKind::kBigInteger || range.length == 0) return Value::Bool(false);
      const int64_t offset = *value - range.start;
      return Value::Bool(offset % range.step == 0 && offset / range.step >= 0 &&
                         offset / range.step < range.length);
    }
    default:
      break;
  }
  if (!IsIterable(haystack)) {
    return RaiseType("argument of type " + Quoted(TypeName(haystack)) + " is not iterable");
  }
  auto cursor = Iterate(haystack);
  if (!cursor) return Value::Error();
  for (;;) {
    Value item;
    const auto step = Next(&*cursor, &item);
    if (step == IteratorObject::Step::kDone) return Value::Bool(false);
    if (step == IteratorObject::Step::kError) return Value::Error();
    const Value same = Equals(item, needle);
    if (same.failed() || same.integer() != 0) return same;
  }
}

Value Runtime::Compare(Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual:
      return Equals(left, right);
    case Comparison::kNotEqual: {
      const Value same = Equals(left, right);
      return same.failed() ? same : Value::Bool(same.integer() == 0);
    }
    case Comparison::kIn:
      return Contains(right, left);
    case Comparison::kNotIn: {
      const Value held = Contains(right, left);
      return held.failed() ? held : Value::Bool(held.integer() == 0);
    }
    default:
      return Order(op, left, right);
  }
}

bool Runtime::Sort(std::vector<std::pair<Value, Value>>* keyed, bool reverse) {
  // Python's sort asks `later < earlier`; a merge keeps equal keys in order.
  if (reverse) std::reverse(keyed->begin(), keyed->end());
  std::vector<std::pair<Value, Value>> merged(keyed->size());
  for (size_t width = 1; width < keyed->size(); width *= 2) {
    for (size_t low = 0; low < keyed->size(); low += 2 * width) {
      const size_t middle = std::min(low + width, keyed->size());
      const size_t high = std::min(low + 2 * width, keyed->size());
      size_t i = low;
      size_t k = middle;
      for (size_t at = low; at < high; ++at) {
        bool take_right = i >= middle;
        if (!take_right && k < high) {
          const auto less = Less((*keyed)[k].first, (*keyed)[i].first);
          if (!less || !Work(1)) return false;
          take_right = *less;
        }
        merged[at] = take_right ? (*keyed)[k++] : (*keyed)[i++];
      }
    }
    keyed->swap(merged);
  }
  if (reverse) std::reverse(keyed->begin(), keyed->end());
  return true;
}

Value Runtime::TypeMismatch(Arithmetic op, const Value& left, const Value& right) {
  constexpr std::array<const char*, 7> kSigns = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return RaiseType("unsupported operand type(s) for " + std::string(kSigns[static_cast<size_t>(op)]) + ": " +
                   Quoted(TypeName(left)) + " and " + Quoted(TypeName(right)));
}

Value Runtime::Repeat(const Value& sequence, const Value& times) {
  if (times.kind() == ValueKind::kBigInteger) {
    return Raise("OverflowError", "cannot fit 'int' into an index-sized integer");
  }
  const uint64_t n = times.integer() > 0 ? static_cast<uint64_t>(times.integer()) : 0;
  const uint64_t unit = sequence.is_string() ? sequence.text().size : sequence.list().size * sizeof(Value);
  if (unit != 0 && (n > budgets_.max_heap_bytes / unit || !MayAllocate(unit * n))) {
    return OverBudget("a sequence repeated too often");
  }
  if (!Work(unit * n / 64)) return Value::Error();
  if (sequence.is_string()) {
    TextBuilder text;
    if (unit != 0) {
      for (uint64_t i = 0; i < n; ++i) slm::chat::AppendText(&text, Flat(sequence));
    }
    const Value made = Make(text);
    return made.failed() ? made : made.WithFlag(sequence.is_markup());
  }
  std::vector<Value> items;
  if (unit != 0) {
    for (uint64_t i = 0; i < n; ++i)
      items.insert(items.end(), sequence.list().begin(), sequence.list().end());
  }
  return sequence.kind() == ValueKind::kTuple ? heap_.Tuple(items) : heap_.List(items, sequence.owner());
}

Value Runtime::Add(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) return ConcatenateText(left, right);
  if (left.is_undefined()) return RaiseUndefined(left);
  if (right.is_undefined()) return RaiseUndefined(right);
  if (left.is_list_or_tuple() && left.kind() == right.kind()) {
    const uint64_t n = left.list().size + right.list().size;
    if (!Work(n / 8) || !MayAllocate(n * sizeof(Value))) return Value::Error();
    std::vector<Value> items(left.list().begin(), left.list().end());
    items.insert(items.end(), right.list().begin(), right.list().end());
    return left.kind() == ValueKind::kTuple ? heap_.Tuple(items) : heap_.List(items, left.owner());
  }
  if (left.is_string() && !left.is_markup()) {
    return RaiseType("can only concatenate str (not \"" + std::string(TypeName(right)) + "\") to str");
  }
  if (left.is_list_or_tuple()) {
    const std::string type(TypeName(left));
    return RaiseType("can only concatenate " + type + " (not \"" + std::string(TypeName(right)) + "\") to " +
                     type);
  }
  return TypeMismatch(Arithmetic::kAdd, left, right);
}

// The reference makes a set of the view before it looks at the other side.
Value Runtime::SubtractFromView(const Value& view) {
  auto cursor = Iterate(view);
  if (!cursor) return Value::Error();
  for (;;) {
    Value item;
    const IteratorObject::Step step = Next(&*cursor, &item);
    if (step == IteratorObject::Step::kDone) return Refuse(ErrorCode::kUnsupported, "a set");
    if (step == IteratorObject::Step::kError || !CheckHashable(item)) return Value::Error();
  }
}

Value Runtime::Binary(Arithmetic op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    const NumberResult result = chat::Compute(heap_, op, left, right);
    if (result.exception != nullptr) return Raise(result.exception, result.message);
    if (result.too_big) return OverBudget("an integer of more than 65,536 digits");
    if (result.is_complex) return Refuse(ErrorCode::kUnsupported, "a complex number");
    Value value = result.value;
    value.set_owner(left.owner() != kTemplateOwner ? left.owner() : right.owner());
    return value;
  }
  if (op == Arithmetic::kAdd) return Add(left, right);
  if (op == Arithmetic::kModulo && left.is_string()) return FormatPercent(*this, left, right);
  if (left.is_undefined()) return RaiseUndefined(left);
  if (op == Arithmetic::kSubtract && IsSetLike(left)) return SubtractFromView(left);
  if (right.is_undefined()) return RaiseUndefined(right);
  if (op == Arithmetic::kMultiply) {
    const auto repeats = [](const Value& value) { return value.is_string() || value.is_list_or_tuple(); };
    if (repeats(left) && right.is_integer()) return Repeat(left, right);
    if (left.is_integer() && repeats(right)) return Repeat(right, left);
    if (repeats(left) || repeats(right)) {
      return RaiseType("can't multiply sequence by non-int of type " +
                       Quoted(TypeName(repeats(left) ? right : left)));
    }
  }
  if (op == Arithmetic::kSubtract && IsSetLike(right)) return Refuse(ErrorCode::kUnsupported, "a set");
  return TypeMismatch(op, left, right);
}

Value Runtime::Negate(const Value& value, bool positive) {
  if (value.is_undefined()) return RaiseUndefined(value);
  if (!value.is_number()) {
    return RaiseType(std::string("bad operand type for unary ") + (positive ? "+" : "-") + ": " +
                     Quoted(TypeName(value)));
  }
  if (!positive) return chat::Negate(heap_, value);
  return value.kind() == ValueKind::kBool ? Value::Integer(value.integer(), value.owner()) : value;
}

// ---- access ----

Value Runtime::UndefinedName(const Value& name) {
  return heap_.Undefined({UndefinedInfo::Kind::kName, false, View(name), {}, {}});
}

Value Runtime::UndefinedElement(const Value& object, const Value& key) {
  if (key.is_string()) return heap_.NoMember(object, View(key));
  return heap_.Undefined({UndefinedInfo::Kind::kElement, false, {}, object, key});
}

Value Runtime::UnsafeAttribute(const Value& object, std::string_view name) {
  const std::string hint =
      "access to attribute " + QuotedRepr(name) + " of " + Quoted(TypeName(object)) + " object is unsafe.";
  const Value text = heap_.String(hint);
  return heap_.Undefined({UndefinedInfo::Kind::kHint, true, View(text), {}, {}});
}

bool Runtime::HasSafeMethod(const Value& object, AttributeId id) {
  if (id == AttributeId::none) return false;
  const AttributeRow& row = kAttributes[static_cast<size_t>(id)];
  const uint32_t bits = TypeBits(object);
  return (row.types & bits) != 0 && (row.properties & bits) == 0 && (row.unsafe & bits) == 0;
}

Value Runtime::LoopProperty(LoopObject* loop, AttributeId id) {
  switch (id) {
    case AttributeId::index0:
      return Value::Integer(loop->index0);
    case AttributeId::index:
      return Value::Integer(loop->index0 + 1);
    case AttributeId::first:
      return Value::Bool(loop->index0 == 0);
    case AttributeId::depth0:
      return Value::Integer(loop->depth0);
    case AttributeId::depth:
      return Value::Integer(loop->depth0 + 1);
    case AttributeId::last:
      if (!PeekNext(loop)) return Value::Error();
      return Value::Bool(loop->after.is_missing());
    case AttributeId::previtem:
      if (loop->index0 == 0)
        return heap_.Undefined({UndefinedInfo::Kind::kHint, false, "there is no previous item", {}, {}});
      return loop->before;
    case AttributeId::nextitem:
      if (!PeekNext(loop)) return Value::Error();
      if (loop->after.is_missing())
        return heap_.Undefined({UndefinedInfo::Kind::kHint, false, "there is no next item", {}, {}});
      return loop->after;
    default:
      break;
  }
  if (loop->length < 0) {
    if (loop->iterable.kind() == ValueKind::kIterator &&
        loop->iterable.object<IteratorObject>().Length() < 0) {
      std::vector<Value> rest;
      for (;;) {
        Value value;
        const auto step = loop->exhausted ? IteratorObject::Step::kDone : Next(&loop->cursor, &value);
        if (step == IteratorObject::Step::kError) return Value::Error();
        if (step == IteratorObject::Step::kDone) break;
        rest.push_back(value);
      }
      loop->length =
          static_cast<int64_t>(rest.size()) + loop->index0 + 1 + (loop->after.is_missing() ? 0 : 1);
      loop->cursor = Cursor(heap_.List(rest));
      loop->exhausted = false;
    } else {
      const Value length = Length(loop->iterable);
      if (length.failed()) return length;
      loop->length = length.integer();
    }
  }
  if (id == AttributeId::length) return Value::Integer(loop->length);
  const int64_t left = loop->length - loop->index0;
  return Value::Integer(id == AttributeId::revindex ? left : left - 1);
}

Value Runtime::PropertyOf(const Value& object, AttributeId id) {
  switch (object.kind()) {
    case ValueKind::kLoop:
      return LoopProperty(&object.object<LoopObject>(), id);
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kBigInteger:
      if (id == AttributeId::imag) return Value::Integer(0);
      if (id == AttributeId::denominator) return Value::Integer(1);
      return Negate(object, /*positive=*/true);
    case ValueKind::kFloat:
      return id == AttributeId::imag ? Value::Float(0) : object;
    case ValueKind::kRange:
      return Value::Integer(id == AttributeId::start  ? object.range().start
                            : id == AttributeId::stop ? object.range().stop
                                                      : object.range().step);
    case ValueKind::kTuple:
      return object.list().items[id == AttributeId::grouper ? 0 : 1];
    case ValueKind::kCycler: {
      auto& cycler = object.object<CyclerObject>();
      if (id == AttributeId::items) return Value::Of(ValueKind::kTuple, cycler.items);
      if (id == AttributeId::pos) return Value::Integer(static_cast<int64_t>(cycler.position));
      return cycler.items->items[cycler.position];
    }
    case ValueKind::kJoiner: {
      auto& joiner = object.object<JoinerObject>();
      return id == AttributeId::sep ? joiner.separator : Value::Bool(joiner.used);
    }
    case ValueKind::kMacro:
      if (id == AttributeId::name) return object.object<MacroObject>().name;
      return Refuse(ErrorCode::kUnsupported, "the signature of a macro as a value");
    default:
      return Refuse(ErrorCode::kUnsupported,
                    "the attribute '" + std::string(AttributeName(id)) + "' as a value");
  }
}

Value Runtime::PythonAttribute(const Value& object, std::string_view name, AttributeId id, bool* unsafe) {
  if (object.kind() == ValueKind::kNamespace) {
    for (const auto& [key, member] : *object.object<NamespaceObject>().members) {
      if (View(key) == name) return member;
    }
    if (name == "__class__") {
      *unsafe = true;
      return Value::None();
    }
    return Value::Missing();
  }
  if (id != AttributeId::none) {
    const AttributeRow& row = kAttributes[static_cast<size_t>(id)];
    const uint32_t bits = TypeBits(object);
    if ((row.types & bits) == 0) return Value::Missing();
    if ((row.unsafe & bits) != 0) {
      *unsafe = true;
      return Value::None();
    }
    if ((row.properties & bits) != 0) return PropertyOf(object, id);
    return Value::Of(ValueKind::kMethod, heap_.New<MethodObject>(object, static_cast<uint32_t>(id)),
                     object.owner());
  }
  if (name.starts_with("__") && IsObjectAttribute(name)) {
    *unsafe = true;
    return Value::None();
  }
  return Value::Missing();
}

Value Runtime::Character(const Value& string, uint64_t begin, uint64_t end) {
  const Text& text = string.text();
  if (end == begin + 1 && text.segments == nullptr) return heap_.Character(text.data[begin], text.owner);
  return heap_.Slice(string, begin, end).WithFlag(false);
}

Value Runtime::CharacterAt(const Value& string, uint64_t index) {
  const Text& text = Flat(string);
  const std::string_view bytes = text.view();
  if (text.is_ascii()) return Character(string, index, index + 1).WithFlag(string.is_markup());
  size_t at = 0;
  for (uint64_t i = 0; i < index; ++i) (void)DecodeUtf8(bytes, &at);
  size_t end = at;
  (void)DecodeUtf8(bytes, &end);
  if (!Work(at / 64)) return Value::Error();
  return heap_.Slice(string, at, end).WithFlag(string.is_markup());
}

Value Runtime::PythonItem(const Value& object, const Value& key) {
  const auto position = [&key](uint64_t size) -> std::optional<uint64_t> {
    if (!key.is_small_integer()) return std::nullopt;
    int64_t index = key.integer();
    if (index < 0) index += static_cast<int64_t>(size);
    if (index < 0 || static_cast<uint64_t>(index) >= size) return std::nullopt;
    return static_cast<uint64_t>(index);
  };
  switch (object.kind()) {
    case ValueKind::kDict: {
      if (key.is_string()) Flat(key);
      if (FindUnhashable(key) != nullptr) return Value::Missing();
      const Value* found = Find(object.dict(), key);
      return found != nullptr ? *found : Value::Missing();
    }
    case ValueKind::kList:
    case ValueKind::kTuple: {
      const auto index = position(object.list().size);
      return index ? object.list().items[*index] : Value::Missing();
    }
    case ValueKind::kString: {
      const auto index = position(Flat(object).CountedScalars());
      return index ? CharacterAt(object, *index) : Value::Missing();
    }
    case ValueKind::kRange: {
      const auto index = position(static_cast<uint64_t>(object.range().length));
      return index ? Value::Integer(object.range().start + static_cast<int64_t>(*index) * object.range().step)
                   : Value::Missing();
    }
    default:
      return Value::Missing();
  }
}

Value Runtime::Attribute(const Value& object, const Value& name, AttributeId id) {
  const std::string_view text = View(name);
  if (object.is_undefined()) {
    // Attributes that the object really has are unsafe; every other raises.
    constexpr std::string_view kOwn[] = {"_undefined_hint",    "_undefined_obj",
                                         "_undefined_name",    "_undefined_exception",
                                         "_undefined_message", "_fail_with_undefined_error"};
    const bool held = (text.starts_with("__") && IsObjectAttribute(text)) ||
                      std::find(std::begin(kOwn), std::end(kOwn), text) != std::end(kOwn);
    return held ? UnsafeAttribute(object, text) : RaiseUndefined(object);
  }
  bool unsafe = false;
  const Value value = PythonAttribute(object, text, id, &unsafe);
  if (value.failed()) return value;
  if (unsafe || (!value.is_missing() && text.starts_with('_'))) return UnsafeAttribute(object, text);
  if (!value.is_missing()) return value;
  const Value item = PythonItem(object, name);
  if (!item.is_missing()) return item;
  return UndefinedElement(object, name);
}

Value Runtime::Item(const Value& object, const Value& key) {
  if (object.is_undefined()) return RaiseUndefined(object);
  const Value item = PythonItem(object, key);
  if (!item.is_missing()) return item;
  if (key.is_string()) {
    const std::string_view name = View(key);
    bool unsafe = false;
    const Value value = PythonAttribute(object, name, FindAttribute(name), &unsafe);
    if (value.failed()) return value;
    if (unsafe || (!value.is_missing() && name.starts_with('_'))) return UnsafeAttribute(object, name);
    if (!value.is_missing()) return value;
  }
  return UndefinedElement(object, key);
}

Value Runtime::Slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) return RaiseUndefined(object);
  const bool is_text = object.is_string();
  if (!is_text && !object.is_list_or_tuple() && object.kind() != ValueKind::kRange) {
    if (object.kind() == ValueKind::kDict) return RaiseType("unhashable type: 'slice'");
    return RaiseType(Quoted(TypeName(object)) + " object is not subscriptable");
  }
  std::array<std::optional<int64_t>, 3> bounds;
  const std::array<const Value*, 3> given = {&start, &stop, &step};
  for (const size_t i : {size_t{2}, size_t{0}, size_t{1}}) {
    if (given[i]->is_missing() || given[i]->is_none()) continue;
    bounds[i] = AsIndex(*given[i]);
    if (!bounds[i]) {
      return RaiseType("slice indices must be integers or None or have an __index__ method");
    }
    if (i == 2 && *bounds[i] == 0) return Raise("ValueError", "slice step cannot be zero");
  }
  const Value measured = Length(object);
  const int64_t length = measured.integer();
  const int64_t stride = std::clamp<int64_t>(bounds[2].value_or(1), -INT64_MAX, INT64_MAX);
  const auto clamp = [&](int64_t bound) {
    if (bound < 0) bound = bound < -length ? -1 - length : bound + length;
    return stride > 0 ? std::clamp<int64_t>(bound, 0, length) : std::clamp<int64_t>(bound, -1, length - 1);
  };
  const int64_t from = bounds[0] ? clamp(*bounds[0]) : (stride > 0 ? 0 : length - 1);
  const int64_t to = bounds[1] ? clamp(*bounds[1]) : (stride > 0 ? length : -1);
  int64_t n = 0;
  if (stride > 0 && from < to) n = (to - from - 1) / stride + 1;
  if (stride < 0 && from > to) n = (from - to - 1) / -stride + 1;
  if (!Work(static_cast<uint64_t>(length) / 64)) return Value::Error();
  if (object.kind() == ValueKind::kRange) {
    const RangeObject& range = object.range();
    return Value::Of(ValueKind::kRange,
                     heap_.New<RangeObject>(range.start + from * range.step, range.start + to * range.step,
                                            range.step * stride, n));
  }
  if (!is_text) {
    std::vector<Value> items;
    for (int64_t i = 0; i < n; ++i) items.push_back(object.list().items[from + i * stride]);
    if (!MayAllocate(items.size() * sizeof(Value))) return Value::Error();
    return object.kind() == ValueKind::kTuple ? heap_.Tuple(items) : heap_.List(items, object.owner());
  }
  const Text& text = Flat(object);
  const std::string_view bytes = text.view();
  if (text.is_ascii() && stride == 1) {
    return heap_.Slice(object, static_cast<uint64_t>(from), static_cast<uint64_t>(from + n))
        .WithFlag(object.is_markup());
  }
  std::vector<uint64_t> starts;  // of each scalar, and the end
  for (size_t at = 0; at < bytes.size();) {
    starts.push_back(at);
    (void)DecodeUtf8(bytes, &at);
  }
  starts.push_back(bytes.size());
  if (stride == 1) {
    return heap_.Slice(object, starts[static_cast<size_t>(from)], starts[static_cast<size_t>(from + n)])
        .WithFlag(object.is_markup());
  }
  TextBuilder out;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(from + i * stride);
    AppendSlice(&out, text, starts[at], starts[at + 1]);
  }
  const Value made = Make(out);
  return made.failed() ? made : made.WithFlag(object.is_markup());
}

// ---- binding of arguments ----

bool Bind(Runtime& runtime, std::string_view function, const CallArguments& arguments,
          std::initializer_list<std::string_view> names, size_t required, Value* values) {
  const auto call = [function] { return std::string(function) + "()"; };
  if (arguments.positional.size() > names.size()) {
    runtime.RaiseType(call() + " takes " + std::to_string(names.size()) + " arguments but " +
                      std::to_string(arguments.positional.size()) + " were given");
    return false;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    values[i] = i < arguments.positional.size() ? arguments.positional[i] : Value::Missing();
  }
  for (const CallArguments::Keyword& keyword : arguments.keywords) {
    const auto* found = std::find(names.begin(), names.end(), keyword.name);
    if (found == names.end()) {
      runtime.RaiseType(call() + " got an unexpected keyword argument " + Quoted(keyword.name));
      return false;
    }
    const auto at = static_cast<size_t>(found - names.begin());
    if (!values[at].is_missing()) {
      runtime.RaiseType(call() + " got multiple values for argument " + Quoted(keyword.name));
      return false;
    }
    values[at] = keyword.value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values[i].is_missing()) continue;
    runtime.RaiseType(call() + " missing a required argument: " + Quoted(*(names.begin() + i)));
    return false;
  }
  return true;
}

bool BindPositional(Runtime& runtime, std::string_view function, const CallArguments& arguments, size_t least,
                    size_t most) {
  if (!arguments.keywords.empty()) {
    runtime.RaiseType(std::string(function) + "() takes no keyword arguments");
    return false;
  }
  if (arguments.positional.size() >= least && arguments.positional.size() <= most) return true;
  runtime.RaiseType(std::string(function) + "() takes " + std::to_string(least) + " to " +
                    std::to_string(most) + " arguments (" + std::to_string(arguments.positional.size()) +
                    " given)");
  return false;
}

}  // namespace slm::chat
