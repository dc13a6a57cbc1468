#include "chat/builtins.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/lexer.h"
#include "chat/strings.h"
#include "chat/tojson.h"
#include "codec/decimal.h"
#include "unicode/python_v14_0.h"

namespace slm::chat {
namespace {

using Step = IteratorObject::Step;
using FilterFunction = Value (*)(Runtime&, const Value&, const CallArguments&);

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

Value NotAnInteger(Runtime& runtime, const Value& value) {
  return runtime.RaiseType(Quoted(TypeName(value)) + " object cannot be interpreted as an integer");
}

// value.items() of what is no dict. Some have an attribute of that name, which cannot be called.
Value RaiseNoItems(Runtime& runtime, const Value& value) {
  const Value* member = nullptr;
  const bool is_cycler = value.kind() == ValueKind::kCycler;
  if (value.kind() == ValueKind::kNamespace) {
    for (const auto& [name, held] : *value.object<NamespaceObject>().members) {
      if (name.view() == "items") member = &held;
    }
  }
  if (!is_cycler && member == nullptr)
    return runtime.Raise("AttributeError", Quoted(TypeName(value)) + " object has no attribute 'items'");
  if (member != nullptr && (member->kind() == ValueKind::kMacro || member->kind() == ValueKind::kMethod ||
                            member->kind() == ValueKind::kFunction || member->kind() == ValueKind::kLoop))
    return runtime.Refuse(ErrorCode::kUnsupported, "a namespace whose items are called");
  return runtime.RaiseType(Quoted(is_cycler ? "tuple" : TypeName(*member)) + " object is not callable");
}

// The test == or !=.
bool TestsEquality(uint32_t id);

// ---- attributes of items ----

// The getter that the filters' `attribute` means: a path of keys.
class Getter {
 public:
  bool Prepare(Runtime& runtime, const Value& attribute) {
    if (attribute.is_missing() || attribute.is_none()) return true;
    if (!attribute.is_string()) {
      path_.push_back(attribute);
      return true;
    }
    const std::string_view text = runtime.View(attribute);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t dot = std::min(text.find('.', begin), text.size());
      const std::string_view part = text.substr(begin, dot - begin);
      const bool digits =
          !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
      path_.push_back(digits ? *ParseInteger(runtime.heap(), part)
                             : runtime.heap().Slice(attribute, begin, dot));
      begin = dot + 1;
    }
    return true;
  }
  void SetDefault(const Value& fallback) {
    if (!fallback.is_none()) default_ = fallback;
  }
  void FoldCase() { folds_case_ = true; }

  Value Get(Runtime& runtime, Value item) const {
    for (const Value& key : path_) {
      item = runtime.Item(item, key);
      if (item.failed()) return item;
      if (!default_.is_missing() && item.is_undefined()) item = default_;
    }
    if (folds_case_ && item.is_string()) return ChangeCase(runtime, item, CaseChange::kLower);
    return item;
  }

 private:
  std::vector<Value> path_;
  Value default_;
  bool folds_case_ = false;
};

// ---- generators ----

// Objects in the heap are never destroyed one by one: what they own besides heap memory would leak, so
// vectors are copied into the heap.
struct KeptArguments {
  const Value* positional = nullptr;
  size_t n_positional = 0;
  const CallArguments::Keyword* keywords = nullptr;
  size_t n_keywords = 0;

  static KeptArguments Keep(Runtime& runtime, const CallArguments& arguments, size_t skip) {
    KeptArguments kept;
    kept.n_positional = arguments.positional.size() - skip;
    auto* values = static_cast<Value*>(runtime.heap().Allocate(kept.n_positional * sizeof(Value)));
    std::copy(arguments.positional.begin() + static_cast<ptrdiff_t>(skip), arguments.positional.end(),
              values);
    kept.positional = values;
    kept.n_keywords = arguments.keywords.size();
    auto* words = static_cast<CallArguments::Keyword*>(
        runtime.heap().Allocate(kept.n_keywords * sizeof(CallArguments::Keyword)));
    std::copy(arguments.keywords.begin(), arguments.keywords.end(), words);
    kept.keywords = words;
    return kept;
  }
  [[nodiscard]] CallArguments Get() const {
    return {{positional, positional + n_positional}, {keywords, keywords + n_keywords}};
  }
};

// The generators of map, select, unique, batch, slice and items: the first item asked for starts them, as in
// Python.
class Generator final : public IteratorObject {
 public:
  enum class Kind : uint8_t {
    kMap,
    kSelect,
    kReject,
    kSelectAttribute,
    kRejectAttribute,
    kUnique,
    kBatch,
    kSlice,
    kItems
  };

  Generator(Runtime& runtime, Kind kind, const Value& source, const CallArguments& arguments)
      : runtime_(&runtime),
        kind_(kind),
        source_(source),
        arguments_(KeptArguments::Keep(runtime, arguments, 0)) {}

  Step Next(Value* value) override {
    if (state_ == State::kDone) return Step::kDone;
    if (state_ == State::kNew) {
      state_ = State::kRunning;
      const Step started = Start();
      if (started != Step::kValue) return End(started);
    }
    const Step step = Advance(value);
    return step == Step::kValue ? step : End(step);
  }

 private:
  enum class State : uint8_t { kNew, kRunning, kDone };

  Step Error() { return Step::kError; }
  Step End(Step step) {
    state_ = State::kDone;
    runtime_->heap().NoteUsedUp();
    return step;
  }

  // kValue: items follow.
  Step Start() {
    Runtime& runtime = *runtime_;
    switch (kind_) {
      case Kind::kItems:
        if (source_.is_undefined()) return Step::kDone;
        if (source_.kind() != ValueKind::kDict) {
          runtime.RaiseType("Can only get item pairs from a mapping.");
          return Error();
        }
        cursor_ = Cursor(Value::Of(ValueKind::kDictItems, source_.address(), source_.owner()));
        return Step::kValue;
      case Kind::kBatch:
      case Kind::kSlice:
      case Kind::kUnique:
        break;
      default:
        if (!Truth(source_)) return Step::kDone;
        if (!Prepare()) return Error();
        break;
    }
    if (kind_ == Kind::kSlice) return StartSlice();
    auto cursor = runtime.Iterate(source_);
    if (!cursor) return Error();
    cursor_ = *cursor;
    is_key_ = IsKey();
    forgets_ = source_.is_string() && is_key_ && (!calls_ || Forgets());
    return Step::kValue;
  }

  // A name without parts, that is no number.
  bool IsKey() const {
    if (!path_.is_string()) return false;
    const std::string_view name = runtime_->View(path_);
    return name.find('.') == name.npos && name.find_first_not_of("0123456789") != name.npos;
  }
  // Whether the test makes nothing that outlives it: a test of type, or a comparison with plain values. A
  // text is made flat before, since that stays.
  bool Forgets() {
    if (id_ == kNoBuiltin || kind_ == Kind::kMap || arguments_.n_keywords > 0) return false;
    for (size_t i = 0; i < arguments_.n_positional; ++i) {
      const Value& argument = arguments_.positional[i];
      if (argument.is_string()) {
        runtime_->Flat(argument);
      } else if (!argument.is_small_integer() && !argument.is_none()) {
        return false;
      }
    }
    return IsTestOfType(id_) || TestsEquality(id_);
  }

  // What `map` applies, or `select` and its kin test.
  bool Prepare() {
    Runtime& runtime = *runtime_;
    CallArguments arguments = arguments_.Get();
    if (kind_ == Kind::kMap) {
      const auto attribute = std::find_if(arguments.keywords.begin(), arguments.keywords.end(),
                                          [](const auto& keyword) { return keyword.name == "attribute"; });
      if (arguments.positional.empty() && attribute != arguments.keywords.end()) {
        path_ = attribute->value;
        for (const auto& keyword : arguments.keywords) {
          if (keyword.name == "attribute") continue;
          if (keyword.name != "default") {
            runtime.Raise("FilterArgumentError", "Unexpected keyword argument " + Quoted(keyword.name));
            return false;
          }
          default_ = keyword.value;
        }
        return true;
      }
      if (arguments.positional.empty()) {
        runtime.Raise("FilterArgumentError", "map requires a filter argument");
        return false;
      }
      return Name(arguments, 0, true);
    }
    const bool by_attribute = kind_ == Kind::kSelectAttribute || kind_ == Kind::kRejectAttribute;
    if (by_attribute && arguments.positional.empty()) {
      runtime.Raise("FilterArgumentError", "Missing parameter for attribute name");
      return false;
    }
    if (by_attribute) path_ = arguments.positional[0];
    const size_t at = by_attribute ? 1 : 0;
    if (arguments.positional.size() <= at) return true;  // by truth
    return Name(arguments, at, false);
  }

  bool Name(const CallArguments& arguments, size_t at, bool filter) {
    name_ = arguments.positional[at];
    calls_ = true;
    CallArguments rest = arguments;
    rest.positional.EraseFirst(at + 1);
    arguments_ = KeptArguments::Keep(*runtime_, rest, 0);
    id_ = kNoBuiltin;
    if (name_.is_string()) {
      const std::string_view name = runtime_->View(name_);
      id_ = filter ? FilterId(name) : TestId(name);
      if (filter && KnownFilter(name) == Known::kForbidden) {
        runtime_->Refuse(ErrorCode::kTplForbidden,
                         "the filter '" + std::string(name) + "' is outside the subset");
        return false;
      }
    }
    return true;
  }

  Value Apply(const Value& item) {
    Runtime& runtime = *runtime_;
    if (id_ == kNoBuiltin) {
      if (FindUnhashable(name_) != nullptr)
        return runtime.RaiseType("unhashable type: " + Quoted(FindUnhashable(name_)));
      const bool filter = kind_ == Kind::kMap;
      return runtime.Raise("TemplateRuntimeError", std::string("No ") + (filter ? "filter" : "test") +
                                                       " named " + runtime.Repr(name_) + ".");
    }
    return kind_ == Kind::kMap ? CallFilter(runtime, id_, item, arguments_.Get())
                               : CallTest(runtime, id_, item, arguments_.Get());
  }

  Value Field(const Value& item) {
    if (is_key_) {
      const Value field = runtime_->Item(item, path_);
      return field.is_undefined() && !default_.is_missing() && !default_.is_none() ? default_ : field;
    }
    Getter getter;
    (void)getter.Prepare(*runtime_, path_);
    if (!default_.is_missing()) getter.SetDefault(default_);
    return getter.Get(*runtime_, item);
  }

  Step Advance(Value* value) {
    switch (kind_) {
      case Kind::kItems:
        return runtime_->Next(&cursor_, value);
      case Kind::kMap: {
        Value item;
        const Step step = runtime_->Next(&cursor_, &item);
        if (step != Step::kValue) return step;
        *value = calls_ ? Apply(item) : Field(item);
        return value->failed() ? Step::kError : Step::kValue;
      }
      case Kind::kBatch:
        return AdvanceBatch(value);
      case Kind::kSlice:
        return AdvanceSlice(value);
      case Kind::kUnique:
        return AdvanceUnique(value);
      default:
        return AdvanceSelect(value);
    }
  }

  Step AdvanceSelect(Value* value) {
    const bool wanted = kind_ == Kind::kSelect || kind_ == Kind::kSelectAttribute;
    std::optional<Heap::NothingKept> nothing_kept;
    if (forgets_) nothing_kept.emplace(&runtime_->heap());
    for (;;) {
      const Heap::Mark mark = runtime_->heap().MarkHere();
      Value item;
      const Step step = runtime_->Next(&cursor_, &item);
      if (step != Step::kValue) return step;
      const Value field = path_.is_missing() ? item : Field(item);
      if (field.failed()) return Step::kError;
      const Value held = calls_ ? Apply(field) : Value::Bool(Truth(field));
      if (held.failed()) return Step::kError;
      if (Truth(held) == wanted) {
        *value = item;
        return Step::kValue;
      }
      if (forgets_) runtime_->heap().Forget(mark);
    }
  }

  Step AdvanceUnique(Value* value) {
    Runtime& runtime = *runtime_;
    Value given[2];
    if (!Bind(runtime, "unique", arguments_.Get(), {"case_sensitive", "attribute"}, 0, given)) return Error();
    Getter getter;
    (void)getter.Prepare(runtime, given[1]);
    if (given[0].is_missing() || !Truth(given[0])) getter.FoldCase();
    for (;;) {
      Value item;
      const Step step = runtime.Next(&cursor_, &item);
      if (step != Step::kValue) return step;
      const Value key = getter.Get(runtime, item);
      if (key.failed() || !runtime.CheckHashable(key)) return Error();
      const DictObject& seen = seen_ == nullptr ? kEmpty : *seen_;
      if (!runtime.Work(1 + seen.size / 16)) return Error();
      if (Find(seen, key) != nullptr) continue;
      std::vector<DictEntry> entries(seen.begin(), seen.end());
      entries.push_back({key, Value::None()});
      if (!runtime.MayAllocate(entries.size() * sizeof(DictEntry))) return Error();
      seen_ = &runtime.heap().Dict(entries).dict();
      *value = item;
      return Step::kValue;
    }
  }

  Step AdvanceBatch(Value* value) {
    Runtime& runtime = *runtime_;
    Value given[2];
    if (!Bind(runtime, "do_batch", arguments_.Get(), {"linecount", "fill_with"}, 1, given)) return Error();
    std::vector<Value> row;
    for (;;) {
      // The reference compares the length before it adds an item, so a width of 0 or a text never fills.
      if (!carried_.is_missing()) {
        row.push_back(carried_);
        carried_ = Value::Missing();
      }
      Value item;
      const Step step = runtime.Next(&cursor_, &item);
      if (step == Step::kError) return step;
      if (step == Step::kDone) break;
      const Value length = Value::Integer(static_cast<int64_t>(row.size()));
      if (Equal(length, given[0])) {
        carried_ = item;
        *value = runtime.heap().List(row);
        return Step::kValue;
      }
      row.push_back(item);
    }
    if (row.empty()) return Step::kDone;
    if (!given[1].is_missing() && !given[1].is_none()) {
      const auto less = runtime.Less(Value::Integer(static_cast<int64_t>(row.size())), given[0]);
      if (!less) return Error();
      if (*less) {
        const auto width = AsRepeats(runtime, given[0]);
        if (!width) return Error();
        if (!runtime.MayAllocate(static_cast<uint64_t>(*width) * sizeof(Value)) ||
            !runtime.Work(static_cast<uint64_t>(*width)))
          return Error();
        row.resize(static_cast<size_t>(*width), given[1]);
      }
    }
    *value = runtime.heap().List(row);
    return Step::kValue;
  }

  Step StartSlice() {
    Runtime& runtime = *runtime_;
    Value given[2];
    if (!Bind(runtime, "sync_do_slice", arguments_.Get(), {"slices", "fill_with"}, 1, given)) return Error();
    std::vector<Value> items;
    if (!runtime.Collect(source_, &items)) return Error();
    if (given[0].is_undefined()) {
      runtime.RaiseUndefined(given[0]);
      return Error();
    }
    if (!given[0].is_number()) {
      runtime.RaiseType("unsupported operand type(s) for //: 'int' and " + Quoted(chat::TypeName(given[0])));
      return Error();
    }
    if (!Truth(given[0])) {
      runtime.Raise("ZeroDivisionError", "integer division or modulo by zero");
      return Error();
    }
    const auto n = AsIndex(given[0]);
    if (!n) {
      (void)NotAnInteger(runtime, given[0]);
      return Error();
    }
    n_slices_ = *n;
    if (!given[1].is_missing()) default_ = given[1];
    cursor_ = Cursor(runtime.heap().List(items));
    return Step::kValue;
  }

  Step AdvanceSlice(Value* value) {
    if (slice_ >= n_slices_) return Step::kDone;
    const ListObject& items = cursor_.source().list();
    const auto length = static_cast<int64_t>(items.size);
    const int64_t each = length / n_slices_;
    const int64_t extra = length % n_slices_;
    const int64_t begin = offset_ + slice_ * each;
    if (slice_ < extra) ++offset_;
    const int64_t end = offset_ + (slice_ + 1) * each;
    std::vector<Value> row(items.begin() + begin, items.begin() + end);
    if (!default_.is_missing() && !default_.is_none() && slice_ >= extra) row.push_back(default_);
    ++slice_;
    if (!runtime_->Work(row.size() + 1)) return Error();
    *value = runtime_->heap().List(row);
    return Step::kValue;
  }

  inline static const DictObject kEmpty{};
  Runtime* runtime_;
  Kind kind_;
  State state_ = State::kNew;
  Value source_;
  KeptArguments arguments_;
  Cursor cursor_;
  bool calls_ = false;
  bool is_key_ = false;   // path_ is one key
  bool forgets_ = false;  // what a refused character of a text left behind is dropped
  uint32_t id_ = kNoBuiltin;
  Value name_;
  Value path_;
  Value default_;
  Value carried_;
  const DictObject* seen_ = nullptr;
  int64_t n_slices_ = 0, slice_ = 0, offset_ = 0;
};

class Reversed final : public IteratorObject {
 public:
  Reversed(Runtime& runtime, const Value& items, std::string_view type)
      : runtime_(&runtime), items_(items), left_(items.list().size), type_(type) {}
  Step Next(Value* value) override {
    if (left_ == 0 || !runtime_->Work(1)) return left_ == 0 ? Step::kDone : Step::kError;
    *value = items_.list().items[--left_];
    if (left_ == 0) runtime_->heap().NoteUsedUp();
    return Step::kValue;
  }
  [[nodiscard]] std::string_view TypeName() const override { return type_; }

 private:
  Runtime* runtime_;
  Value items_;
  uint64_t left_;
  std::string_view type_;
};

Value MakeGenerator(Runtime& runtime, Generator::Kind kind, const Value& source,
                    const CallArguments& arguments) {
  void* memory = runtime.heap().Allocate(sizeof(Generator));
  IteratorObject* made = ::new (memory) Generator(runtime, kind, source, arguments);
  runtime.heap().NoteChanging();
  return Value::Of(ValueKind::kIterator, made, source.owner());
}

template <Generator::Kind kind>
Value GeneratorFilter(Runtime& runtime, const Value& receiver, const CallArguments& arguments) {
  if (kind == Generator::Kind::kItems && (!arguments.positional.empty() || !arguments.keywords.empty())) {
    return runtime.RaiseType("do_items() takes 1 positional argument");
  }
  if (kind == Generator::Kind::kBatch || kind == Generator::Kind::kSlice ||
      kind == Generator::Kind::kUnique) {
    Value given[2];
    if (kind == Generator::Kind::kUnique) {
      if (!Bind(runtime, "unique", arguments, {"case_sensitive", "attribute"}, 0, given))
        return Value::Error();
    } else if (!Bind(runtime, "batch", arguments,
                     {kind == Generator::Kind::kBatch ? "linecount" : "slices", "fill_with"}, 1, given)) {
      return Value::Error();
    }
  }
  return MakeGenerator(runtime, kind, receiver, arguments);
}

// ---- numbers from text ----

// Digits of any script as ASCII, white space around cut, underscores between digits dropped; nothing if it
// cannot be a number.
std::optional<std::string> NumberText(std::string_view text) {
  std::string result;
  char previous = ' ';
  size_t end = text.size();
  size_t begin = 0;
  while (begin < end) {
    size_t next = begin;
    if (!IsPythonSpace(DecodeUtf8(text, &next))) break;
    begin = next;
  }
  for (size_t at = begin; at < end;) {
    size_t scan = at;
    bool only_space = true;
    while (scan < end) {
      if (!IsPythonSpace(DecodeUtf8(text, &scan))) {
        only_space = false;
        break;
      }
    }
    if (only_space) break;
    const char32_t c = DecodeUtf8(text, &at);
    char plain = c < 0x80 ? static_cast<char>(c) : '\0';
    if (c >= 0x80 && (unicode::PythonFlagsV14(c) & unicode::kPythonDecimal) != 0) {
      char32_t start = c;  // digits of a script are ten in a row, from zero
      while ((unicode::PythonFlagsV14(start - 1) & unicode::kPythonDecimal) != 0) --start;
      plain = static_cast<char>('0' + (c - start) % 10);
    }
    if (plain == '\0') return std::nullopt;
    if (plain == '_') {
      const bool after = std::isalnum(static_cast<unsigned char>(previous)) != 0;
      size_t next = at;
      const bool before = at < end && (text[at] != '_') && IsPythonSpace(DecodeUtf8(text, &next)) == false;
      if (!after || !before) return std::nullopt;
      previous = '_';
      continue;
    }
    result.push_back(plain);
    previous = plain;
  }
  if (result.empty()) return std::nullopt;
  return result;
}

std::optional<double> ParseFloat(std::string_view source) {
  const auto cleaned = NumberText(source);
  if (!cleaned) return std::nullopt;
  std::string lower;
  for (const char c : *cleaned) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  std::string_view body = lower;
  const bool negative = body.starts_with('-');
  if (negative || body.starts_with('+')) body.remove_prefix(1);
  double value = 0;
  if (body == "inf" || body == "infinity") {
    value = INFINITY;
  } else if (body == "nan") {
    value = NAN;
  } else {
    if (body.empty() || !((body[0] >= '0' && body[0] <= '9') || body[0] == '.')) return std::nullopt;
    const auto [stop, error] = std::from_chars(body.data(), body.data() + body.size(), value);
    if (stop != body.data() + body.size()) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      value = BeyondRange(body);
    } else if (error != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

// int(text, base); nothing where Python raises ValueError.
std::optional<Value> ParseInt(Runtime& runtime, std::string_view source, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto cleaned = NumberText(source);
  if (!cleaned) return std::nullopt;
  std::string body = *cleaned;
  std::string sign;
  if (body[0] == '-' || body[0] == '+') {
    sign = body.substr(0, 1);
    body.erase(0, 1);
  }
  const char letter = body.size() > 1 && body[0] == '0' ? static_cast<char>(body[1] | 0x20) : '\0';
  const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    body.erase(0, 2);
    base = named;
  } else if (base == 0) {
    if (body.size() > 1 && body[0] == '0' && body.find_first_not_of('0') != std::string::npos)
      return std::nullopt;
    base = 10;
  }
  if (body.empty() || body[0] == '-' || body[0] == '+') return std::nullopt;
  if (base == 10 && body.size() > 4300) return std::nullopt;
  if (body.size() > 65536 || !runtime.Work(body.size() * body.size() / 512)) return std::nullopt;
  return ParseInteger(runtime.heap(), sign + body, static_cast<uint32_t>(base));
}

Value ToInteger(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_int", arguments, {"default", "base"}, 0, given)) return Value::Error();
  const Value fallback = given[0].is_missing() ? Value::Integer(0) : given[0];
  if (value.is_undefined()) return runtime.RaiseUndefined(value);
  if (value.is_integer()) return runtime.Negate(value, /*positive=*/true);
  double number = 0;
  if (value.is_string()) {
    const auto base = given[1].is_missing() ? std::optional<int64_t>(10) : AsIndex(given[1]);
    const std::string_view text = runtime.View(value);
    if (base) {
      const auto parsed = ParseInt(runtime, text, *base);
      if (runtime.failed()) return Value::Error();
      if (parsed) {
        Value result = *parsed;
        result.set_owner(value.owner());
        return result;
      }
    }
    const auto real = ParseFloat(text);
    if (!real || !std::isfinite(*real)) return fallback;
    number = *real;
  } else if (value.kind() == ValueKind::kFloat) {
    number = value.real();
    if (std::isnan(number)) return fallback;
    if (std::isinf(number)) return runtime.Raise("OverflowError", "cannot convert float infinity to integer");
  } else {
    return fallback;
  }
  Value result = TruncateToInteger(runtime.heap(), number);
  result.set_owner(value.owner());
  return result;
}

Value ToFloat(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "do_float", arguments, {"default"}, 0, given)) return Value::Error();
  const Value fallback = given[0].is_missing() ? Value::Float(0) : given[0];
  if (value.is_undefined()) return runtime.RaiseUndefined(value);
  if (value.is_number()) {
    const auto number = ToDouble(value);
    if (!number) return runtime.Raise("OverflowError", "int too large to convert to float");
    return Value::Float(*number, value.owner());
  }
  if (!value.is_string()) return fallback;
  const auto number = ParseFloat(runtime.View(value));
  return number ? Value::Float(*number, value.owner()) : fallback;
}

// ---- filters ----

Value Default(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_default", arguments, {"default_value", "boolean"}, 0, given)) return Value::Error();
  const bool boolean = !given[1].is_missing() && Truth(given[1]);
  if (!value.is_undefined() && !(boolean && !Truth(value))) return value;
  return given[0].is_missing() ? runtime.heap().Borrow("", kTemplateOwner) : given[0];
}

Value Join(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "sync_do_join", arguments, {"d", "attribute"}, 0, given)) return Value::Error();
  Getter getter;
  (void)getter.Prepare(runtime, given[1]);
  const Value separator =
      given[0].is_missing() ? runtime.heap().Borrow("", kTemplateOwner) : runtime.ToText(given[0]);
  if (separator.failed()) return separator;
  auto cursor = runtime.Iterate(value);
  if (!cursor) return Value::Error();
  TextBuilder out;
  for (bool first = true;; first = false) {
    Value item;
    const Step step = runtime.Next(&*cursor, &item);
    if (step == Step::kError) return Value::Error();
    if (step == Step::kDone) break;
    item = getter.Get(runtime, item);
    if (item.failed()) return item;
    if (!first) AppendText(&out, separator.text());
    if (!runtime.AppendText(item, &out) || !runtime.MayAllocate(out.size())) return Value::Error();
  }
  return runtime.Make(out);
}

// reversed(value) as a list; nothing where Python says that it is not reversible.
std::optional<std::vector<Value>> ReversibleItems(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case ValueKind::kIterator:
    case ValueKind::kLoop:
      return std::nullopt;
    default:
      if (!Runtime::IsIterable(value) || !runtime.Collect(value, &items)) return std::nullopt;
      return items;
  }
}

Value First(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "sync_do_first", arguments, {}, 0, nullptr)) return Value::Error();
  auto cursor = runtime.Iterate(value);
  if (!cursor) return Value::Error();
  Value item;
  const Step step = runtime.Next(&*cursor, &item);
  if (step == Step::kError) return Value::Error();
  if (step == Step::kValue) return item;
  return runtime.heap().Undefined(
      {UndefinedInfo::Kind::kHint, false, "No first item, sequence was empty.", {}, {}});
}

Value Last(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_last", arguments, {}, 0, nullptr)) return Value::Error();
  if (value.is_string() && value.text().size > 0)
    return runtime.CharacterAt(value, runtime.Flat(value).CountedScalars() - 1);
  const auto items = ReversibleItems(runtime, value);
  if (!items) return runtime.RaiseType(Quoted(TypeName(value)) + " object is not reversible");
  if (!items->empty()) return items->back();
  return runtime.heap().Undefined(
      {UndefinedInfo::Kind::kHint, false, "No last item, sequence was empty.", {}, {}});
}

Value Reverse(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_reverse", arguments, {}, 0, nullptr)) return Value::Error();
  if (value.is_string()) return runtime.Slice(value, Value::None(), Value::None(), Value::Integer(-1));
  auto items = ReversibleItems(runtime, value);
  if (runtime.failed()) return Value::Error();
  if (!items) {
    if (!Runtime::IsIterable(value)) return runtime.Raise("FilterArgumentError", "argument must be iterable");
    std::vector<Value> collected;
    if (!runtime.Collect(value, &collected)) {
      if (runtime.DropTypeError()) return runtime.Raise("FilterArgumentError", "argument must be iterable");
      return Value::Error();
    }
    std::reverse(collected.begin(), collected.end());
    return runtime.heap().List(collected, value.owner());
  }
  static constexpr std::string_view kTypes[] = {"list_reverseiterator", "range_iterator",
                                                "dict_reversekeyiterator", "reversed"};
  const size_t type = value.kind() == ValueKind::kList    ? 0
                      : value.kind() == ValueKind::kRange ? 1
                      : value.kind() == ValueKind::kDict  ? 2
                                                          : 3;
  void* memory = runtime.heap().Allocate(sizeof(Reversed));
  IteratorObject* made = ::new (memory) Reversed(runtime, runtime.heap().List(*items), kTypes[type]);
  if (!items->empty()) runtime.heap().NoteChanging();
  return Value::Of(ValueKind::kIterator, made, value.owner());
}

Value Length(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!BindPositional(runtime, "len", arguments, 0, 0)) return Value::Error();
  return runtime.Length(value);
}

Value List(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "sync_do_list", arguments, {}, 0, nullptr)) return Value::Error();
  std::vector<Value> items;
  if (!runtime.Collect(value, &items)) return Value::Error();
  return runtime.heap().List(items, value.owner());
}

template <CaseChange change>
Value CaseFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "filter", arguments, {}, 0, nullptr)) return Value::Error();
  const Value text = runtime.SoftText(value);
  return text.failed() ? text : ChangeCase(runtime, text, change);
}

Value Title(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_title", arguments, {}, 0, nullptr)) return Value::Error();
  const Value text = runtime.SoftText(value);
  return text.failed() ? text : TitleWords(runtime, text);
}

Value Trim(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "do_trim", arguments, {"chars"}, 0, given)) return Value::Error();
  const Value text = runtime.SoftText(value);
  return text.failed() ? text : StripText(runtime, text, given[0], true, true);
}

Value String(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!BindPositional(runtime, "soft_str", arguments, 0, 0)) return Value::Error();
  return runtime.SoftText(value);
}

Value Replace(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_replace", arguments, {"old", "new", "count"}, 2, given)) return Value::Error();
  const Value text = runtime.ToText(value);
  const Value from = text.failed() ? text : runtime.ToText(given[0]);
  const Value to = from.failed() ? from : runtime.ToText(given[1]);
  if (to.failed()) return to;
  int64_t count = -1;
  if (!given[2].is_missing() && !given[2].is_none()) {
    const auto index = AsArgument(runtime, given[2], CType::kSize);
    if (!index) return Value::Error();
    count = *index;
  }
  return ReplaceText(runtime, text, from, to, count);
}

Value Safe(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_mark_safe", arguments, {}, 0, nullptr)) return Value::Error();
  const Value text = runtime.ToText(value);
  return text.failed() ? text : text.WithFlag();
}

Value EscapeFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!BindPositional(runtime, "escape", arguments, 0, 0)) return Value::Error();
  return runtime.Escape(value);
}

Value ForceEscape(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_forceescape", arguments, {}, 0, nullptr)) return Value::Error();
  const Value text = runtime.ToText(value);
  return text.failed() ? text : runtime.Escape(text);
}

Value Indent(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_indent", arguments, {"width", "first", "blank"}, 0, given)) return Value::Error();
  std::string indent = "    ";
  if (given[0].is_string()) {
    indent = std::string(runtime.View(given[0]));
  } else if (!given[0].is_missing()) {
    if (given[0].is_undefined()) return runtime.RaiseUndefined(given[0]);
    const auto width = AsRepeats(runtime, given[0]);
    if (!width) return Value::Error();
    if (*width > static_cast<int64_t>(runtime.budgets().max_heap_bytes))
      return runtime.OverBudget("an indent");
    indent.assign(static_cast<size_t>(std::max<int64_t>(*width, 0)), ' ');
  }
  const bool first = !given[1].is_missing() && Truth(given[1]);
  const bool blank = !given[2].is_missing() && Truth(given[2]);
  if (value.kind() == ValueKind::kList) {
    return runtime.Raise("AttributeError", "'list' object has no attribute 'splitlines'");
  }
  const Value with_newline =
      runtime.Binary(Arithmetic::kAdd, value, runtime.heap().Borrow("\n", kTemplateOwner));
  if (with_newline.failed()) return with_newline;
  std::vector<Value> lines;
  if (!with_newline.is_string()) return runtime.RaiseType("splitlines of what is no string");
  if (!SplitLines(runtime, with_newline, false, &lines)) return Value::Error();
  if (!runtime.MayAllocate(lines.size() * indent.size()) || !runtime.Work(lines.size() * indent.size() / 64))
    return Value::Error();
  TextBuilder out;
  if (first) out.Append(indent, kTemplateOwner);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n", kTemplateOwner);
    if (i > 0 && (blank || lines[i].text().size > 0)) out.Append(indent, kTemplateOwner);
    AppendText(&out, lines[i].text());
  }
  const Value made = runtime.Make(out);
  return made.failed() ? made : made.WithFlag(value.is_markup());
}

Value DictSort(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0, given))
    return Value::Error();
  bool by_key = true;
  if (!given[1].is_missing()) {
    const std::string_view by = given[1].is_string() ? runtime.View(given[1]) : std::string_view();
    if (by != "key" && by != "value") {
      return runtime.Raise("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
    }
    by_key = by == "key";
  }
  if (value.is_undefined()) return runtime.RaiseUndefined(value);
  if (value.kind() != ValueKind::kDict) return RaiseNoItems(runtime, value);
  if (!given[2].is_missing() && !AsArgument(runtime, given[2], CType::kInt)) return Value::Error();
  const bool sensitive = !given[0].is_missing() && Truth(given[0]);
  std::vector<std::pair<Value, Value>> keyed;
  for (const DictEntry& entry : value.dict()) {
    Value key = by_key ? entry.key : entry.value;
    if (!sensitive && key.is_string()) key = ChangeCase(runtime, key, CaseChange::kLower);
    if (key.failed()) return key;
    keyed.emplace_back(key, runtime.heap().Tuple({entry.key, entry.value}));
  }
  if (!runtime.Sort(&keyed, !given[2].is_missing() && Truth(given[2]))) return Value::Error();
  std::vector<Value> items;
  for (const auto& [key, item] : keyed) items.push_back(item);
  return runtime.heap().List(items, value.owner());
}

Value SortFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0, given))
    return Value::Error();
  std::vector<Getter> getters;
  const bool sensitive = !given[1].is_missing() && Truth(given[1]);
  const auto add = [&](const Value& attribute) {
    getters.emplace_back();
    (void)getters.back().Prepare(runtime, attribute);
    if (!sensitive) getters.back().FoldCase();
  };
  if (given[2].is_string()) {
    const std::string_view text = runtime.View(given[2]);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      add(runtime.heap().Slice(given[2], begin, comma));
      begin = comma + 1;
    }
  } else {
    add(given[2]);
  }
  std::vector<Value> items;
  if (!runtime.Collect(value, &items)) return Value::Error();
  if (!given[0].is_missing() && !AsArgument(runtime, given[0], CType::kInt)) return Value::Error();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Getter& getter : getters) {
      key.push_back(getter.Get(runtime, item));
      if (key.back().failed()) return key.back();
    }
    keyed.emplace_back(runtime.heap().List(key), item);
  }
  if (!runtime.Sort(&keyed, !given[0].is_missing() && Truth(given[0]))) return Value::Error();
  for (size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
  return runtime.heap().List(items, value.owner());
}

template <bool wants_max>
Value Extreme(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, wants_max ? "do_max" : "do_min", arguments, {"case_sensitive", "attribute"}, 0, given))
    return Value::Error();
  Getter getter;
  (void)getter.Prepare(runtime, given[1]);
  if (given[0].is_missing() || !Truth(given[0])) getter.FoldCase();
  std::vector<Value> items;
  if (!runtime.Collect(value, &items)) return Value::Error();
  if (items.empty()) {
    return runtime.heap().Undefined(
        {UndefinedInfo::Kind::kHint, false, "No aggregated item, sequence was empty.", {}, {}});
  }
  Value best = items[0];
  Value best_key = getter.Get(runtime, best);
  if (best_key.failed()) return best_key;
  for (size_t i = 1; i < items.size(); ++i) {
    const Value key = getter.Get(runtime, items[i]);
    if (key.failed()) return key;
    const Value better = runtime.Order(wants_max ? Comparison::kGreater : Comparison::kLess, key, best_key);
    if (better.failed()) return better;
    if (better.integer() == 0) continue;
    best = items[i];
    best_key = key;
  }
  return best;
}

Value Sum(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "sync_do_sum", arguments, {"attribute", "start"}, 0, given)) return Value::Error();
  Getter getter;
  (void)getter.Prepare(runtime, given[0]);
  Value total = given[1].is_missing() ? Value::Integer(0) : given[1];
  auto cursor = runtime.Iterate(value);
  if (!cursor) return Value::Error();
  if (total.is_string()) return runtime.RaiseType("sum() can't sum strings [use ''.join(seq) instead]");
  for (;;) {
    Value item;
    const Step step = runtime.Next(&*cursor, &item);
    if (step == Step::kError) return Value::Error();
    if (step == Step::kDone) return total;
    item = getter.Get(runtime, item);
    if (item.failed()) return item;
    total = runtime.Binary(Arithmetic::kAdd, total, item);
    if (total.failed()) return total;
  }
}

Value GroupBy(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "sync_do_groupby", arguments, {"attribute", "default", "case_sensitive"}, 1, given))
    return Value::Error();
  Getter getter;
  (void)getter.Prepare(runtime, given[0]);
  if (!given[1].is_missing()) getter.SetDefault(given[1]);
  Getter output = getter;
  const bool sensitive = !given[2].is_missing() && Truth(given[2]);
  if (!sensitive) getter.FoldCase();
  std::vector<Value> items;
  if (!runtime.Collect(value, &items)) return Value::Error();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    const Value key = getter.Get(runtime, item);
    if (key.failed()) return key;
    keyed.emplace_back(key, item);
  }
  if (!runtime.Sort(&keyed, false)) return Value::Error();
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    size_t end = begin + 1;
    std::vector<Value> members{keyed[begin].second};
    for (; end < keyed.size(); ++end) {
      const Value same = runtime.Equals(keyed[begin].first, keyed[end].first);
      if (same.failed()) return same;
      if (same.integer() == 0) break;
      members.push_back(keyed[end].second);
    }
    const Value key = sensitive ? keyed[begin].first : output.Get(runtime, members[0]);
    if (key.failed()) return key;
    groups.push_back(runtime.heap().Tuple({key, runtime.heap().List(members)}).WithFlag());
    begin = end;
  }
  return runtime.heap().List(groups, value.owner());
}

Value AbsFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!BindPositional(runtime, "abs", arguments, 0, 0)) return Value::Error();
  if (!value.is_number()) return runtime.RaiseType("bad operand type for abs(): " + Quoted(TypeName(value)));
  return Absolute(runtime.heap(), value);
}

Value RoundInteger(Runtime& runtime, const Value& value, int64_t precision) {
  if (precision >= 0) return runtime.Negate(value, /*positive=*/true);
  if (precision < -4300) return Value::Integer(0);
  Heap& heap = runtime.heap();
  const Value unit = Compute(heap, Arithmetic::kPower, Value::Integer(10), Value::Integer(-precision)).value;
  const Value rest = Compute(heap, Arithmetic::kModulo, value, unit).value;
  const Value low = Compute(heap, Arithmetic::kSubtract, value, rest).value;
  const Value twice = Compute(heap, Arithmetic::kAdd, rest, rest).value;
  const Ordering order = CompareNumbers(twice, unit);
  const Value parity = Compute(heap, Arithmetic::kModulo,
                               Compute(heap, Arithmetic::kFloorDivide, low, unit).value, Value::Integer(2))
                           .value;
  if (order == Ordering::kGreater || (order == Ordering::kEqual && Truth(parity)))
    return Compute(heap, Arithmetic::kAdd, low, unit).value;
  return low;
}

Value Round(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_round", arguments, {"precision", "method"}, 0, given)) return Value::Error();
  const Value precision = given[0].is_missing() ? Value::Integer(0) : given[0];
  std::string_view method = "common";
  if (!given[1].is_missing()) {
    if (FindUnhashable(given[1]) != nullptr) return runtime.RaiseType("unhashable type");
    method = given[1].is_string() ? runtime.View(given[1]) : std::string_view();
  }
  if (method != "common" && method != "ceil" && method != "floor") {
    return runtime.Raise("FilterArgumentError", "method must be common, ceil or floor");
  }
  if (method == "common") {
    if (!value.is_number()) {
      return runtime.RaiseType("type " + std::string(TypeName(value)) + " doesn't define __round__ method");
    }
    if (precision.is_none()) {
      if (value.is_integer()) return runtime.Negate(value, true);
      if (!std::isfinite(value.real()))
        return runtime.Raise(std::isnan(value.real()) ? "ValueError" : "OverflowError",
                             "cannot convert float to integer");
      return TruncateToInteger(runtime.heap(), std::nearbyint(value.real()));
    }
    const auto digits = AsIndex(precision);
    if (!digits) return NotAnInteger(runtime, precision);
    if (value.is_integer()) return RoundInteger(runtime, value, *digits);
    return Value::Float(RoundTo(value.real(), static_cast<int>(std::clamp<int64_t>(*digits, -400, 400))),
                        value.owner());
  }
  const Value scale = runtime.Binary(Arithmetic::kPower, Value::Integer(10), precision);
  if (scale.failed()) return scale;
  const Value scaled = runtime.Binary(Arithmetic::kMultiply, value, scale);
  if (scaled.failed()) return scaled;
  if (!scaled.is_number())
    return runtime.RaiseType("must be real number, not " + std::string(TypeName(scaled)));
  Value whole = scaled;
  if (scaled.kind() == ValueKind::kFloat) {
    if (!std::isfinite(scaled.real()))
      return runtime.Raise(std::isnan(scaled.real()) ? "ValueError" : "OverflowError",
                           "cannot convert float to integer");
    whole = TruncateToInteger(runtime.heap(),
                              method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real()));
  }
  return runtime.Binary(Arithmetic::kDivide, whole, scale);
}

Value FormatFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    return runtime.Raise("FilterArgumentError",
                         "can't handle positional and keyword arguments at the same time");
  }
  const Value text = runtime.SoftText(value);
  if (text.failed()) return text;
  if (arguments.keywords.empty())
    return FormatPercent(runtime, text,
                         runtime.heap().Tuple(arguments.positional.begin(), arguments.positional.size()));
  std::vector<DictEntry> entries;
  for (const auto& keyword : arguments.keywords)
    entries.push_back({runtime.heap().Borrow(keyword.name, kTemplateOwner), keyword.value});
  return FormatPercent(runtime, text, runtime.heap().Dict(entries));
}

Value CenterFilter(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "do_center", arguments, {"width"}, 0, given)) return Value::Error();
  const Value text = runtime.SoftText(value);
  if (text.failed()) return text;
  if (given[0].is_missing()) return Center(runtime, text, 80);
  const auto width = AsArgument(runtime, given[0], CType::kSize);
  if (!width) return Value::Error();
  return Center(runtime, text, *width);
}

Value Truncate(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[4];
  if (!Bind(runtime, "do_truncate", arguments, {"length", "killwords", "end", "leeway"}, 0, given))
    return Value::Error();
  const Value end = given[2].is_missing() ? runtime.heap().Borrow("...", kTemplateOwner) : given[2];
  const Value length = given[0].is_missing() ? Value::Integer(255) : given[0];
  const Value leeway = given[3].is_missing() || given[3].is_none() ? Value::Integer(5) : given[3];
  const Value end_length = runtime.Length(end);
  if (end_length.failed()) return end_length;
  const Value fits = runtime.Order(Comparison::kGreaterEqual, length, end_length);
  if (fits.failed()) return fits;
  if (!Truth(fits)) return runtime.Raise("AssertionError", "expected length >= the length of the end");
  const Value positive = runtime.Order(Comparison::kGreaterEqual, leeway, Value::Integer(0));
  if (positive.failed()) return positive;
  if (!Truth(positive)) return runtime.Raise("AssertionError", "expected leeway >= 0");
  const Value size = runtime.Length(value);
  if (size.failed()) return size;
  const Value limit = runtime.Binary(Arithmetic::kAdd, length, leeway);
  if (limit.failed()) return limit;
  const Value within = runtime.Order(Comparison::kLessEqual, size, limit);
  if (within.failed() || Truth(within)) return within.failed() ? within : value;
  const Value keep = runtime.Binary(Arithmetic::kSubtract, length, end_length);
  if (keep.failed()) return keep;
  Value head = runtime.Slice(value, Value::None(), keep, Value::None());
  if (head.failed()) return head;
  if (given[1].is_missing() || !Truth(given[1])) {
    if (!head.is_string()) {
      return runtime.Raise("AttributeError", Quoted(TypeName(head)) + " object has no attribute 'rsplit'");
    }
    const std::string_view text = runtime.View(head);
    const size_t space = text.rfind(' ');
    if (space != std::string_view::npos)
      head = runtime.heap().Slice(head, 0, space).WithFlag(head.is_markup());
  }
  return runtime.Binary(Arithmetic::kAdd, head, end);
}

Value WordCount(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_wordcount", arguments, {}, 0, nullptr)) return Value::Error();
  const Value text = runtime.SoftText(value);
  if (text.failed()) return text;
  const std::string_view bytes = runtime.View(text);
  if (!runtime.Work(bytes.size() / 16)) return Value::Error();
  using namespace unicode;
  int64_t n = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size();) {
    const char32_t c = DecodeUtf8(bytes, &at);
    const bool word = c == '_' || (PythonFlagsV14(c) &
                                   (kPythonAlpha | kPythonDecimal | kPythonDigit | kPythonNumeric)) != 0;
    if (word && !inside) ++n;
    inside = word;
  }
  return Value::Integer(n);
}

void AppendQuotedUrl(Runtime& runtime, const Value& text, bool for_query, TextBuilder* out) {
  ForEachSegment(runtime.Flat(text), 0, text.text().size, [&](std::string_view part, Owner owner) {
    std::string quoted;
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0 || c == '_' || c == '.' || c == '-' || c == '~' ||
          (c == '/' && !for_query)) {
        quoted.push_back(c);
      } else if (c == ' ' && for_query) {
        quoted.push_back('+');
      } else {
        constexpr char kHex[] = "0123456789ABCDEF";
        quoted += {'%', kHex[byte >> 4], kHex[byte & 15]};
      }
    }
    out->Append(quoted, owner);
  });
}

Value UrlEncode(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  if (!Bind(runtime, "do_urlencode", arguments, {}, 0, nullptr)) return Value::Error();
  TextBuilder out;
  if (value.is_string() || !Runtime::IsIterable(value)) {
    const Value text = runtime.ToText(value);
    if (text.failed()) return text;
    if (!runtime.Work(text.text().size / 16)) return Value::Error();
    AppendQuotedUrl(runtime, text, false, &out);
    return runtime.Make(out);
  }
  const Value source = value.kind() == ValueKind::kDict
                           ? Value::Of(ValueKind::kDictItems, value.address(), value.owner())
                           : value;
  std::vector<Value> pairs;
  if (!runtime.Collect(source, &pairs)) return Value::Error();
  for (size_t i = 0; i < pairs.size(); ++i) {
    std::vector<Value> pair;
    if (!runtime.Collect(pairs[i], &pair)) return Value::Error();
    if (pair.size() != 2) return runtime.Raise("ValueError", "expected 2 values to unpack");
    if (i > 0) out.Append("&", kTemplateOwner);
    for (size_t k = 0; k < 2; ++k) {
      if (k == 1) out.Append("=", kTemplateOwner);
      const Value text = runtime.ToText(pair[k]);
      if (text.failed()) return text;
      AppendQuotedUrl(runtime, text, true, &out);
    }
    if (!runtime.MayAllocate(out.size())) return Value::Error();
  }
  return runtime.Make(out);
}

Value FileSize(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "do_filesizeformat", arguments, {"binary"}, 0, given)) return Value::Error();
  if (value.is_undefined()) return runtime.RaiseUndefined(value);
  std::optional<double> number;
  if (value.is_number()) {
    number = ToDouble(value);
    if (!number) return runtime.Raise("OverflowError", "int too large to convert to float");
  } else if (value.is_string()) {
    number = ParseFloat(runtime.View(value));
    if (!number) return runtime.Raise("ValueError", "could not convert string to float");
  } else {
    return runtime.RaiseType("float() argument must be a string or a real number, not " +
                             Quoted(TypeName(value)));
  }
  const bool binary = !given[0].is_missing() && Truth(given[0]);
  const double base = binary ? 1024 : 1000;
  const double bytes = *number;
  if (bytes == 1) return runtime.heap().String("1 Byte", value.owner());
  if (std::isnan(bytes)) return runtime.heap().String(binary ? "nan YiB" : "nan YB", value.owner());
  if (bytes < base) {
    if (std::isinf(bytes)) return runtime.Raise("OverflowError", "cannot convert float infinity to integer");
    return runtime.heap().String(*IntegerText(TruncateToInteger(runtime.heap(), bytes)) + " Bytes",
                                 value.owner());
  }
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  for (; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (bytes < unit) break;
  }
  const size_t prefix = std::min(i, kPrefixes.size() - 1);
  std::string name(1, kPrefixes[prefix]);
  if (binary) name = (prefix == 0 ? std::string("K") : name) + "i";
  const double scaled = base * bytes / unit;
  return runtime.heap().String((std::isinf(scaled) ? "inf" : FixedText(scaled, 1)) + " " + name + "B",
                               value.owner());
}

Value XmlAttributes(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "do_xmlattr", arguments, {"autospace"}, 0, given)) return Value::Error();
  if (value.is_undefined()) return runtime.RaiseUndefined(value);
  if (value.kind() != ValueKind::kDict) return RaiseNoItems(runtime, value);
  TextBuilder out;
  bool first = true;
  for (const DictEntry& entry : value.dict()) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string())
      return runtime.RaiseType("expected string or bytes-like object, got " + Quoted(TypeName(entry.key)));
    if (runtime.View(entry.key).find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return runtime.Raise("ValueError", "Invalid character in attribute name: " + runtime.Repr(entry.key));
    }
    const Value key = runtime.Escape(entry.key);
    const Value text = key.failed() ? key : runtime.Escape(entry.value);
    if (text.failed()) return text;
    if (!first || given[0].is_missing() || Truth(given[0])) out.Append(" ", kTemplateOwner);
    first = false;
    AppendText(&out, runtime.Flat(key));
    out.Append("=\"", kTemplateOwner);
    AppendText(&out, runtime.Flat(text));
    out.Append("\"", kTemplateOwner);
    if (!runtime.MayAllocate(out.size())) return Value::Error();
  }
  return runtime.Make(out);
}

struct FilterRow {
  std::string_view name;
  FilterFunction function;  // null: the reference has it, this version refuses it
};

using Kind = Generator::Kind;
constexpr FilterRow kFilters[] = {
    {"abs", AbsFilter},
    {"attr", nullptr},
    {"batch", GeneratorFilter<Kind::kBatch>},
    {"capitalize", CaseFilter<CaseChange::kCapitalize>},
    {"center", CenterFilter},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"filesizeformat", FileSize},
    {"first", First},
    {"float", ToFloat},
    {"forceescape", ForceEscape},
    {"format", FormatFilter},
    {"groupby", GroupBy},
    {"indent", Indent},
    {"int", ToInteger},
    {"items", GeneratorFilter<Kind::kItems>},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", List},
    {"lower", CaseFilter<CaseChange::kLower>},
    {"map", GeneratorFilter<Kind::kMap>},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"pprint", nullptr},
    {"random", nullptr},
    {"reject", GeneratorFilter<Kind::kReject>},
    {"rejectattr", GeneratorFilter<Kind::kRejectAttribute>},
    {"replace", Replace},
    {"reverse", Reverse},
    {"round", Round},
    {"safe", Safe},
    {"select", GeneratorFilter<Kind::kSelect>},
    {"selectattr", GeneratorFilter<Kind::kSelectAttribute>},
    {"slice", GeneratorFilter<Kind::kSlice>},
    {"sort", SortFilter},
    {"string", String},
    {"striptags", nullptr},
    {"sum", Sum},
    {"title", Title},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"unique", GeneratorFilter<Kind::kUnique>},
    {"upper", CaseFilter<CaseChange::kUpper>},
    {"urlencode", UrlEncode},
    {"urlize", nullptr},
    {"wordcount", WordCount},
    {"wordwrap", nullptr},
    {"xmlattr", XmlAttributes},
};

// ---- tests ----

enum class TestKind : uint8_t {
  kBoolean,
  kCallable,
  kDefined,
  kDivisibleBy,
  kEqual,
  kEscaped,
  kEven,
  kFalse,
  kFilter,
  kFloat,
  kGreater,
  kGreaterEqual,
  kIn,
  kInteger,
  kIterable,
  kLess,
  kLessEqual,
  kLower,
  kMapping,
  kNone,
  kNotEqual,
  kNumber,
  kOdd,
  kSameAs,
  kSequence,
  kString,
  kTest,
  kTrue,
  kUndefined,
  kUpper,
};
struct TestRow {
  std::string_view name;
  TestKind kind;
};
constexpr TestRow kTests[] = {
    {"!=", TestKind::kNotEqual},
    {"<", TestKind::kLess},
    {"<=", TestKind::kLessEqual},
    {"==", TestKind::kEqual},
    {">", TestKind::kGreater},
    {">=", TestKind::kGreaterEqual},
    {"boolean", TestKind::kBoolean},
    {"callable", TestKind::kCallable},
    {"defined", TestKind::kDefined},
    {"divisibleby", TestKind::kDivisibleBy},
    {"eq", TestKind::kEqual},
    {"equalto", TestKind::kEqual},
    {"escaped", TestKind::kEscaped},
    {"even", TestKind::kEven},
    {"false", TestKind::kFalse},
    {"filter", TestKind::kFilter},
    {"float", TestKind::kFloat},
    {"ge", TestKind::kGreaterEqual},
    {"greaterthan", TestKind::kGreater},
    {"gt", TestKind::kGreater},
    {"in", TestKind::kIn},
    {"integer", TestKind::kInteger},
    {"iterable", TestKind::kIterable},
    {"le", TestKind::kLessEqual},
    {"lessthan", TestKind::kLess},
    {"lower", TestKind::kLower},
    {"lt", TestKind::kLess},
    {"mapping", TestKind::kMapping},
    {"ne", TestKind::kNotEqual},
    {"none", TestKind::kNone},
    {"number", TestKind::kNumber},
    {"odd", TestKind::kOdd},
    {"sameas", TestKind::kSameAs},
    {"sequence", TestKind::kSequence},
    {"string", TestKind::kString},
    {"test", TestKind::kTest},
    {"true", TestKind::kTrue},
    {"undefined", TestKind::kUndefined},
    {"upper", TestKind::kUpper},
};

bool TestsEquality(uint32_t id) {
  return kTests[id].kind == TestKind::kEqual || kTests[id].kind == TestKind::kNotEqual;
}

template <typename Row, size_t n>
uint32_t FindRow(const Row (&rows)[n], std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(rows), std::end(rows), name,
                       [](const Row& row, std::string_view wanted) { return row.name < wanted; });
  if (found == std::end(rows) || found->name != name) return kNoBuiltin;
  return static_cast<uint32_t>(found - std::begin(rows));
}

bool IsSame(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone:
      return true;
    case ValueKind::kBool:
    case ValueKind::kFunction:
      return a.integer() == b.integer();
    case ValueKind::kInteger:
      return a.integer() == b.integer() && a.integer() >= -5 && a.integer() <= 256;
    case ValueKind::kString:
      // Python keeps one object for each text of at most one character.
      return a.address() == b.address() ||
             (a.text().size == b.text().size && a.text().size <= 1 && a.view() == b.view());
    case ValueKind::kFloat:
      return false;
    default:
      return a.address() == b.address();
  }
}

bool IsCallable(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kMacro:
    case ValueKind::kMethod:
    case ValueKind::kLoop:
    case ValueKind::kJoiner:
      return true;
    case ValueKind::kFunction:
      return TypeName(value) != "TemplateReference";
    default:
      return false;
  }
}

// value % divisor == rest.
Value Remainder(Runtime& runtime, const Value& value, const Value& divisor, int64_t rest) {
  const Value remainder = runtime.Binary(Arithmetic::kModulo, value, divisor);
  return remainder.failed() ? remainder : runtime.Equals(remainder, Value::Integer(rest));
}

// ---- functions ----

// The last is no function: the object `self`, under a name that no template can write.
constexpr std::array<std::string_view, 8> kFunctions = {
    "dict", "range", "namespace", "raise_exception", "strftime_now", "cycler", "joiner", kSelfName};

// dict(*positional, **keywords) as entries.
bool BuildDict(Runtime& runtime, const CallArguments& arguments, std::vector<DictEntry>* entries) {
  if (arguments.positional.size() > 1) {
    runtime.RaiseType("dict expected at most 1 argument, got " + std::to_string(arguments.positional.size()));
    return false;
  }
  const auto set = [&](const Value& key, const Value& value) {
    for (DictEntry& entry : *entries) {
      if (!Equal(entry.key, key)) continue;
      entry.value = value;
      return;
    }
    entries->push_back({key, value});
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.kind() == ValueKind::kDict) {
      entries->assign(source.dict().begin(), source.dict().end());
    } else {
      if (source.kind() == ValueKind::kUndefined) {
        // Undefined answers every request for an attribute by raising, `keys` among them.
        runtime.RaiseUndefined(source);
        return false;
      }
      std::vector<Value> pairs;
      if (!runtime.Collect(source, &pairs)) return false;
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (!Runtime::IsIterable(pairs[i])) {
          runtime.RaiseType("cannot convert dictionary update sequence element #" + std::to_string(i) +
                            " to a sequence");
          return false;
        }
        std::vector<Value> pair;
        if (!runtime.Collect(pairs[i], &pair)) return false;
        if (pair.size() != 2) {
          runtime.Raise("ValueError", "dictionary update sequence element #" + std::to_string(i) +
                                          " has length " + std::to_string(pair.size()) + "; 2 is required");
          return false;
        }
        if (!runtime.CheckHashable(pair[0]) || !runtime.Work(1 + entries->size() / 16)) return false;
        set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& keyword : arguments.keywords) {
    set(runtime.heap().Borrow(keyword.name, kTemplateOwner), keyword.value);
  }
  return runtime.Work(1 + entries->size()) && runtime.MayAllocate(entries->size() * sizeof(DictEntry));
}

Value MakeNamespace(Runtime& runtime, const CallArguments& arguments) {
  std::vector<DictEntry> entries;
  if (!BuildDict(runtime, arguments, &entries)) return Value::Error();
  const Value made = runtime.heap().NewNamespace();
  auto& object = made.object<NamespaceObject>();
  for (const DictEntry& entry : entries) {
    if (entry.key.is_string() && runtime.View(entry.key).starts_with('_')) {
      return runtime.Raise("SecurityError",
                           "Chat templates cannot store underscore-prefixed attributes on a namespace");
    }
    object.members->emplace_back(entry.key, entry.value);
    object.depth = std::max(object.depth, Depth(entry.value) + 1);
  }
  return made;
}

Value Range(Runtime& runtime, const CallArguments& arguments) {
  if (!BindPositional(runtime, "range", arguments, 1, 3)) return Value::Error();
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    const auto bound = AsIndex(arguments.positional[i]);
    if (!bound) return NotAnInteger(runtime, arguments.positional[i]);
    bounds[i] = *bound;
  }
  if (arguments.positional.size() == 1) {
    bounds[1] = bounds[0];
    bounds[0] = 0;
  }
  const int64_t step = bounds[2];
  if (step == 0) return runtime.Raise("ValueError", "range() arg 3 must not be zero");
  uint64_t length = 0;
  if (step > 0 && bounds[0] < bounds[1]) {
    length = (static_cast<uint64_t>(bounds[1]) - static_cast<uint64_t>(bounds[0]) - 1) /
                 static_cast<uint64_t>(step) +
             1;
  } else if (step < 0 && bounds[0] > bounds[1]) {
    length = (static_cast<uint64_t>(bounds[0]) - static_cast<uint64_t>(bounds[1]) - 1) /
                 (~static_cast<uint64_t>(step) + 1) +
             1;
  }
  if (length > 100'000) {
    return runtime.Raise("OverflowError",
                         "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return Value::Of(ValueKind::kRange,
                   runtime.heap().New<RangeObject>(bounds[0], bounds[1], step, static_cast<int64_t>(length)));
}

struct CivilTime {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int weekday = 0;   // 0: Sunday
  int year_day = 0;  // 1: the first of January
};

bool IsLeap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

std::optional<CivilTime> ParseClock(const std::string& clock) {
  const auto number = [&clock](size_t at, size_t n) {
    int value = 0;
    for (size_t i = at; i < at + n; ++i) {
      if (i >= clock.size() || clock[i] < '0' || clock[i] > '9') return -1;
      value = value * 10 + (clock[i] - '0');
    }
    return value;
  };
  CivilTime time{number(0, 4), number(5, 2), number(8, 2)};
  if (clock.size() < 10 || clock[4] != '-' || clock[7] != '-') return std::nullopt;
  if (clock.size() > 10) {
    if ((clock[10] != 'T' && clock[10] != ' ') || clock.size() < 19 || clock[13] != ':' || clock[16] != ':')
      return std::nullopt;
    time.hour = number(11, 2);
    time.minute = number(14, 2);
    time.second = number(17, 2);
  }
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (time.year < 1 || time.month < 1 || time.month > 12) return std::nullopt;
  const int most = kDays[time.month - 1] + (time.month == 2 && IsLeap(time.year) ? 1 : 0);
  if (time.day < 1 || time.day > most || time.hour < 0 || time.hour > 23 || time.minute < 0 ||
      time.minute > 59 || time.second < 0 || time.second > 59) {
    return std::nullopt;
  }
  time.year_day = time.day;
  for (int m = 0; m + 1 < time.month; ++m) time.year_day += kDays[m] + (m == 1 && IsLeap(time.year) ? 1 : 0);
  const int before = time.year - 1;
  time.weekday = (before * 365 + before / 4 - before / 100 + before / 400 + time.year_day) % 7;
  return time;
}

Value StrftimeNow(Runtime& runtime, const CallArguments& arguments, const std::string& clock) {
  Value given[1];
  if (!Bind(runtime, "strftime_now", arguments, {"format"}, 1, given)) return Value::Error();
  if (!given[0].is_string()) {
    return runtime.RaiseType("strftime() argument 1 must be str, not " + std::string(TypeName(given[0])));
  }
  if (clock.empty()) {
    return runtime.Refuse(
        ErrorCode::kTplInput,
        "the template asks for the date; give a clock (\"clock\": \"2026-11-30T12:00:00\")");
  }
  const auto parsed = ParseClock(clock);
  if (!parsed)
    return runtime.Refuse(ErrorCode::kTplInput, "the clock is no civil time like 2026-11-30T12:00:00");
  const CivilTime& time = *parsed;
  static constexpr std::array<std::string_view, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                            "Thursday", "Friday", "Saturday"};
  const auto padded = [](int value, size_t width) {
    std::string text = std::to_string(value);
    return std::string(width > text.size() ? width - text.size() : 0, '0') + text;
  };
  const auto number = [&padded](int value, size_t width, bool bare) {
    return padded(value, bare ? 1 : width);
  };
  const std::string_view month = kMonths[static_cast<size_t>(time.month) - 1];
  const std::string_view day = kDays[static_cast<size_t>(time.weekday)];
  const std::string_view format = runtime.View(given[0]);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    // The C library's sign for no padding.
    const bool bare = i + 1 < format.size() && format[i + 1] == '-';
    if (bare) ++i;
    const char directive = i + 1 < format.size() ? format[++i] : '\0';
    const int hour12 = time.hour % 12 == 0 ? 12 : time.hour % 12;
    switch (directive) {
      case 'Y':
        out += std::to_string(time.year);
        break;
      case 'y':
        out += number(time.year % 100, 2, bare);
        break;
      case 'm':
        out += number(time.month, 2, bare);
        break;
      case 'd':
        out += number(time.day, 2, bare);
        break;
      case 'e':
        out += (time.day < 10 && !bare ? " " : "") + std::to_string(time.day);
        break;
      case 'H':
        out += number(time.hour, 2, bare);
        break;
      case 'I':
        out += number(hour12, 2, bare);
        break;
      case 'M':
        out += number(time.minute, 2, bare);
        break;
      case 'S':
        out += number(time.second, 2, bare);
        break;
      case 'j':
        out += number(time.year_day, 3, bare);
        break;
      case 'w':
        out += std::to_string(time.weekday);
        break;
      case 'u':
        out += std::to_string(time.weekday == 0 ? 7 : time.weekday);
        break;
      case 'B':
        out += month;
        break;
      case 'b':
      case 'h':
        out += month.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'p':
        out += time.hour < 12 ? "AM" : "PM";
        break;
      case 'F':
        out += padded(time.year, 4) + "-" + padded(time.month, 2) + "-" + padded(time.day, 2);
        break;
      case 'T':
        out += padded(time.hour, 2) + ":" + padded(time.minute, 2) + ":" + padded(time.second, 2);
        break;
      case 'R':
        out += padded(time.hour, 2) + ":" + padded(time.minute, 2);
        break;
      case 'D':
        out += padded(time.month, 2) + "/" + padded(time.day, 2) + "/" + padded(time.year % 100, 2);
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'z':
      case 'Z':
        break;  // the reference's clock has no zone
      case '%':
        out += '%';
        break;
      default:
        return runtime.Refuse(ErrorCode::kTplForbidden,
                              std::string("the date directive %") + (directive == '\0' ? ' ' : directive));
    }
  }
  return runtime.heap().String(out);
}

Value DictFromKeys(Runtime& runtime, const CallArguments& arguments) {
  if (!BindPositional(runtime, "fromkeys", arguments, 1, 2)) return Value::Error();
  std::vector<Value> keys;
  if (!runtime.Collect(arguments.positional[0], &keys)) return Value::Error();
  CallArguments pairs;
  std::vector<Value> items;
  for (const Value& key : keys) {
    items.push_back(runtime.heap().Tuple(
        {key, arguments.positional.size() > 1 ? arguments.positional[1] : Value::None()}));
  }
  pairs.positional.push_back(runtime.heap().List(items));
  std::vector<DictEntry> entries;
  if (!BuildDict(runtime, pairs, &entries)) return Value::Error();
  return runtime.heap().Dict(entries);
}

Value CallDictMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                     const CallArguments& arguments) {
  switch (id) {
    case AttributeId::items:
    case AttributeId::keys:
    case AttributeId::values:
      if (!BindPositional(runtime, AttributeName(id), arguments, 0, 0)) return Value::Error();
      return Value::Of(id == AttributeId::items  ? ValueKind::kDictItems
                       : id == AttributeId::keys ? ValueKind::kDictKeys
                                                 : ValueKind::kDictValues,
                       receiver.address(), receiver.owner());
    case AttributeId::get: {
      if (!BindPositional(runtime, "get", arguments, 1, 2)) return Value::Error();
      if (!runtime.CheckHashable(arguments.positional[0])) return Value::Error();
      const Value* found = Find(receiver.dict(), arguments.positional[0]);
      if (found != nullptr) return *found;
      return arguments.positional.size() > 1 ? arguments.positional[1] : Value::None();
    }
    case AttributeId::copy:
      if (!BindPositional(runtime, "copy", arguments, 0, 0)) return Value::Error();
      return receiver;
    default:
      return DictFromKeys(runtime, arguments);
  }
}

Value CallSequenceMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                         const CallArguments& arguments) {
  if (id == AttributeId::copy) {
    if (!BindPositional(runtime, "copy", arguments, 0, 0)) return Value::Error();
    return receiver;
  }
  const bool counts = id == AttributeId::count;
  if (!BindPositional(runtime, AttributeName(id), arguments, 1,
                      counts || receiver.kind() == ValueKind::kRange ? 1 : 3))
    return Value::Error();
  std::vector<Value> items;
  if (!runtime.Collect(receiver, &items)) return Value::Error();
  int64_t bounds[2] = {0, static_cast<int64_t>(items.size())};
  for (size_t i = 1; i < arguments.positional.size(); ++i) {
    auto bound = AsIndex(arguments.positional[i]);
    if (!bound) return runtime.RaiseType("slice indices must be integers or have an __index__ method");
    if (*bound < 0) bound = std::max<int64_t>(0, *bound + static_cast<int64_t>(items.size()));
    bounds[i - 1] = std::min<int64_t>(*bound, static_cast<int64_t>(items.size()));
  }
  int64_t n = 0;
  for (int64_t i = bounds[0]; i < bounds[1]; ++i) {
    const Value same = runtime.Equals(items[static_cast<size_t>(i)], arguments.positional[0]);
    if (same.failed()) return same;
    if (same.integer() == 0) continue;
    if (!counts) return Value::Integer(i);
    ++n;
  }
  if (counts) return Value::Integer(n);
  return runtime.Raise(
      "ValueError", runtime.Repr(arguments.positional[0]) + " is not in " + std::string(TypeName(receiver)));
}

Value CallNumberMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                       const CallArguments& arguments) {
  const bool makes_other_types =
      id == AttributeId::to_bytes || id == AttributeId::from_bytes || id == AttributeId::fromhex;
  if (!makes_other_types && !BindPositional(runtime, AttributeName(id), arguments, 0, 0))
    return Value::Error();
  switch (id) {
    case AttributeId::is_integer:
      return Value::Bool(std::isfinite(receiver.real()) && std::trunc(receiver.real()) == receiver.real());
    case AttributeId::conjugate:
      return runtime.Negate(receiver, /*positive=*/true);
    case AttributeId::bit_length: {
      const std::string bits = Digits(receiver, 2);
      return Value::Integer(bits == "0" ? 0 : static_cast<int64_t>(bits.size()));
    }
    case AttributeId::bit_count: {
      const std::string bits = Digits(receiver, 2);
      return Value::Integer(std::count(bits.begin(), bits.end(), '1'));
    }
    default:
      return runtime.Refuse(ErrorCode::kUnsupported,
                            "the method " + std::string(AttributeName(id)) + " of a number");
  }
}

Value CallLoopMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                     const CallArguments& arguments) {
  auto& loop = receiver.object<LoopObject>();
  if (!arguments.keywords.empty()) return runtime.RaiseType("got an unexpected keyword argument");
  if (id == AttributeId::cycle) {
    if (arguments.positional.empty()) return runtime.RaiseType("no items for cycling given");
    return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
  }
  const Value values = runtime.heap().Tuple(arguments.positional.begin(), arguments.positional.size());
  for (const Value& value : arguments.positional) {
    if (value.is_string()) runtime.Flat(value);
  }
  if (!loop.last_changed.is_missing() && Equal(loop.last_changed, values)) return Value::Bool(false);
  loop.last_changed = values;
  return Value::Bool(true);
}

}  // namespace

Known KnownFilter(std::string_view name) {
  const uint32_t id = FilterId(name);
  if (id == kNoBuiltin) return Known::kUnknown;
  return kFilters[id].function == nullptr ? Known::kForbidden : Known::kKnown;
}

Known KnownTest(std::string_view name) {
  return TestId(name) == kNoBuiltin ? Known::kUnknown : Known::kKnown;
}

uint32_t FilterId(std::string_view name) {
  return FindRow(kFilters, name);
}

uint32_t TestId(std::string_view name) {
  return FindRow(kTests, name);
}

uint32_t FunctionId(std::string_view name) {
  const auto found = std::find(kFunctions.begin(), kFunctions.end(), name);
  return found == kFunctions.end() ? kNoFunction : static_cast<uint32_t>(found - kFunctions.begin());
}

Value RaiseUnknown(Runtime& runtime, const char* kind, std::string_view name) {
  return runtime.Raise("TemplateRuntimeError",
                       std::string("No ") + kind + " named " + Quoted(name) + " found.");
}

Value CallFilter(Runtime& runtime, uint32_t id, const Value& receiver, const CallArguments& arguments) {
  if (!runtime.Work(1)) return Value::Error();
  if (kFilters[id].function == nullptr) {
    return runtime.Refuse(ErrorCode::kTplForbidden,
                          "the filter '" + std::string(kFilters[id].name) + "' is outside the subset");
  }
  return kFilters[id].function(runtime, receiver, arguments);
}

bool IsTestOfType(uint32_t id) {
  switch (kTests[id].kind) {
    case TestKind::kDefined:
    case TestKind::kUndefined:
    case TestKind::kNone:
    case TestKind::kString:
    case TestKind::kNumber:
    case TestKind::kInteger:
    case TestKind::kFloat:
    case TestKind::kBoolean:
    case TestKind::kTrue:
    case TestKind::kFalse:
    case TestKind::kMapping:
    case TestKind::kIterable:
    case TestKind::kSequence:
    case TestKind::kCallable:
    case TestKind::kEscaped:
      return true;
    default:
      return false;
  }
}

bool TestOfType(uint32_t id, const Value& receiver) {
  const ValueKind value = receiver.kind();
  switch (kTests[id].kind) {
    case TestKind::kDefined:
      return !receiver.is_undefined();
    case TestKind::kUndefined:
      return receiver.is_undefined();
    case TestKind::kNone:
      return receiver.is_none();
    case TestKind::kString:
      return receiver.is_string();
    case TestKind::kNumber:
      return receiver.is_number();
    case TestKind::kInteger:
      return value == ValueKind::kInteger || value == ValueKind::kBigInteger;
    case TestKind::kFloat:
      return value == ValueKind::kFloat;
    case TestKind::kBoolean:
      return value == ValueKind::kBool;
    case TestKind::kTrue:
      return value == ValueKind::kBool && receiver.integer() != 0;
    case TestKind::kFalse:
      return value == ValueKind::kBool && receiver.integer() == 0;
    case TestKind::kMapping:
      return value == ValueKind::kDict;
    case TestKind::kIterable:
      return Runtime::IsIterable(receiver);
    case TestKind::kSequence:
      return receiver.is_undefined() || receiver.is_string() || receiver.is_list_or_tuple() ||
             value == ValueKind::kDict || value == ValueKind::kRange;
    case TestKind::kCallable:
      return IsCallable(receiver);
    case TestKind::kEscaped:
      return receiver.is_markup();
    default:
      return false;
  }
}

Value CallTest(Runtime& runtime, uint32_t id, const Value& receiver, const CallArguments& arguments) {
  if (!runtime.Work(1)) return Value::Error();
  const TestKind kind = kTests[id].kind;
  Value other;
  switch (kind) {
    case TestKind::kDivisibleBy:
      if (!Bind(runtime, "test_divisibleby", arguments, {"num"}, 1, &other)) return Value::Error();
      return Remainder(runtime, receiver, other, 0);
    case TestKind::kSameAs:
      if (!Bind(runtime, "test_sameas", arguments, {"other"}, 1, &other)) return Value::Error();
      return Value::Bool(IsSame(receiver, other));
    case TestKind::kIn:
      if (!Bind(runtime, "test_in", arguments, {"seq"}, 1, &other)) return Value::Error();
      return runtime.Contains(other, receiver);
    case TestKind::kEqual:
    case TestKind::kNotEqual:
    case TestKind::kLess:
    case TestKind::kLessEqual:
    case TestKind::kGreater:
    case TestKind::kGreaterEqual: {
      if (!BindPositional(runtime, kTests[id].name, arguments, 1, 1)) return Value::Error();
      const Comparison op = kind == TestKind::kEqual       ? Comparison::kEqual
                            : kind == TestKind::kNotEqual  ? Comparison::kNotEqual
                            : kind == TestKind::kLess      ? Comparison::kLess
                            : kind == TestKind::kLessEqual ? Comparison::kLessEqual
                            : kind == TestKind::kGreater   ? Comparison::kGreater
                                                           : Comparison::kGreaterEqual;
      return runtime.Compare(op, receiver, arguments.positional[0]);
    }
    default:
      break;
  }
  const bool has_arguments = !arguments.positional.empty() || !arguments.keywords.empty();
  if (has_arguments &&
      !Bind(runtime, std::string("test_") + std::string(kTests[id].name), arguments, {}, 0, nullptr))
    return Value::Error();
  if (IsTestOfType(id)) return Value::Bool(TestOfType(id, receiver));
  switch (kind) {
    case TestKind::kOdd:
      return Remainder(runtime, receiver, Value::Integer(2), 1);
    case TestKind::kEven:
      return Remainder(runtime, receiver, Value::Integer(2), 0);
    case TestKind::kFilter:
    case TestKind::kTest: {
      if (!runtime.CheckHashable(receiver)) return Value::Error();
      if (!receiver.is_string()) return Value::Bool(false);
      const std::string_view name = runtime.View(receiver);
      return Value::Bool((kind == TestKind::kFilter ? FilterId(name) : TestId(name)) != kNoBuiltin);
    }
    default: {  // lower, upper
      const Value text = runtime.ToText(receiver);
      if (text.failed()) return text;
      return CallStringMethod(runtime, kind == TestKind::kLower ? AttributeId::islower : AttributeId::isupper,
                              text, {});
    }
  }
}

Value CallFunction(Runtime& runtime, uint32_t id, const CallArguments& arguments, const std::string& clock) {
  if (!runtime.Work(1)) return Value::Error();
  switch (id) {
    case 0: {
      std::vector<DictEntry> entries;
      if (!BuildDict(runtime, arguments, &entries)) return Value::Error();
      return runtime.heap().Dict(entries);
    }
    case 1:
      return Range(runtime, arguments);
    case 2:
      return MakeNamespace(runtime, arguments);
    case 3: {
      Value message;
      if (!Bind(runtime, "raise_exception", arguments, {"message"}, 1, &message)) return Value::Error();
      // The reference keeps None as no message at all; every other value shows its str().
      TextBuilder text;
      if (!message.is_undefined() && !runtime.AppendText(message, &text)) return Value::Error();
      return runtime.Refuse(ErrorCode::kTplRaised, std::string(text.text()));
    }
    case 4:
      return StrftimeNow(runtime, arguments, clock);
    case 5: {
      if (!arguments.keywords.empty())
        return runtime.RaiseType("Cycler() got an unexpected keyword argument");
      if (arguments.positional.empty())
        return runtime.Raise("RuntimeError", "at least one item has to be provided");
      const Value items = runtime.heap().Tuple(arguments.positional.begin(), arguments.positional.size());
      runtime.heap().NoteChanging();
      return Value::Of(ValueKind::kCycler, runtime.heap().New<CyclerObject>(&items.list(), uint64_t{0}));
    }
    case 7:
      return runtime.RaiseType("'TemplateReference' object is not callable");
    default: {
      Value separator;
      if (!Bind(runtime, "Joiner", arguments, {"sep"}, 0, &separator)) return Value::Error();
      if (separator.is_missing()) separator = runtime.heap().Borrow(", ", kTemplateOwner);
      runtime.heap().NoteChanging();
      return Value::Of(ValueKind::kJoiner, runtime.heap().New<JoinerObject>(separator, false));
    }
  }
}

Value CallMethod(Runtime& runtime, AttributeId id, const Value& receiver, const CallArguments& arguments) {
  if (!runtime.Work(1)) return Value::Error();
  switch (receiver.kind()) {
    case ValueKind::kString:
      return CallStringMethod(runtime, id, receiver, arguments);
    case ValueKind::kDict:
      return CallDictMethod(runtime, id, receiver, arguments);
    case ValueKind::kFunction:
      return DictFromKeys(runtime, arguments);
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kRange:
      return CallSequenceMethod(runtime, id, receiver, arguments);
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kBigInteger:
    case ValueKind::kFloat:
      return CallNumberMethod(runtime, id, receiver, arguments);
    case ValueKind::kLoop:
      return CallLoopMethod(runtime, id, receiver, arguments);
    case ValueKind::kCycler: {
      if (!Bind(runtime, AttributeName(id), arguments, {}, 0, nullptr)) return Value::Error();
      auto& cycler = receiver.object<CyclerObject>();
      if (id == AttributeId::reset) {
        cycler.position = 0;
        return Value::None();
      }
      const Value current = cycler.items->items[cycler.position];
      cycler.position = (cycler.position + 1) % cycler.items->size;
      return current;
    }
    default:
      return runtime.Refuse(ErrorCode::kUnsupported, "the method " + std::string(AttributeName(id)) +
                                                         " of a " + std::string(TypeName(receiver)));
  }
}

bool IsCivilTime(const std::string& clock) {
  return ParseClock(clock).has_value();
}

}  // namespace slm::chat
