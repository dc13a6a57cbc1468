// What built-ins and the interpreter share: errors, budgets, and the operations that Python defines on
// its values (str, iteration, comparison, attributes) as the reference's sandbox lets templates reach them.
#ifndef SLM_CHAT_RUNTIME_H_
#define SLM_CHAT_RUNTIME_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "chat/number.h"
#include "chat/program.h"
#include "chat/value.h"

namespace slm::chat {

// Attributes that some type of the reference has.
enum class AttributeId : uint16_t {
#define SLM_ATTRIBUTE(name, types, properties, unsafe) name,
#include "chat/attributes.def"
#undef SLM_ATTRIBUTE
  none,
};
[[nodiscard]] AttributeId FindAttribute(std::string_view name);
[[nodiscard]] std::string_view AttributeName(AttributeId id);

// A vector whose first N items need no memory of their own: calls have few arguments.
template <typename T, size_t N>
class ShortVector {
 public:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  ShortVector() = default;
  ShortVector(const T* begin, const T* end) { Assign(begin, static_cast<size_t>(end - begin)); }
  ShortVector(const ShortVector& other) { Assign(other.data_, other.size_); }
  ShortVector& operator=(const ShortVector& other) {
    if (this != &other) {
      size_ = 0;
      Assign(other.data_, other.size_);
    }
    return *this;
  }
  ~ShortVector() {
    if (data_ != Inline()) std::free(data_);
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const T* begin() const { return data_; }
  [[nodiscard]] const T* end() const { return data_ + size_; }
  [[nodiscard]] const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] const T& back() const { return data_[size_ - 1]; }
  void push_back(const T& item) {
    const T copy = item;
    if (size_ == capacity_) Grow(size_ + 1);
    ::new (data_ + size_++) T(copy);
  }
  void EraseFirst(size_t n) { Erase(0, n); }
  void Erase(size_t at, size_t n = 1) {
    std::memmove(static_cast<void*>(data_ + at), data_ + at + n, (size_ - at - n) * sizeof(T));
    size_ -= n;
  }

 private:
  T* Inline() { return reinterpret_cast<T*>(inline_); }
  void Grow(size_t least) {
    const size_t capacity = std::max(least, 2 * capacity_);
    T* grown = static_cast<T*>(std::malloc(capacity * sizeof(T)));
    if (grown == nullptr) std::abort();
    std::memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
    if (data_ != Inline()) std::free(data_);
    data_ = grown;
    capacity_ = capacity;
  }
  void Assign(const T* items, size_t n) {
    if (n > capacity_) Grow(n);
    if (n > 0) std::memcpy(static_cast<void*>(data_), items, n * sizeof(T));
    size_ = n;
  }
  alignas(T) unsigned char inline_[N * sizeof(T)];
  T* data_ = Inline();
  size_t size_ = 0;
  size_t capacity_ = N;
};

// Arguments of a call, receiver excluded.
struct CallArguments {
  struct Keyword {
    std::string_view name;
    Value value;
  };
  ShortVector<Value, 4> positional;
  ShortVector<Keyword, 2> keywords;
};

// Items of an iterable, one by one. Iterators are consumed.
class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(Value source) : source_(source) {}
  [[nodiscard]] const Value& source() const { return source_; }

 private:
  friend class Runtime;
  Value source_;
  uint64_t at_ = 0;  // item, or byte of a string
};

// The loop object of the reference (jinja2.runtime.LoopContext).
struct LoopObject {
  Cursor cursor;
  Value iterable;
  int64_t index0 = -1;
  int64_t length = -1;  // -1: not asked yet
  Value after;          // missing: no item was fetched ahead
  bool exhausted = false;
  Value current;
  Value before;
  Value last_changed;
  int64_t depth0 = 0;
  const void* recursion = nullptr;  // of the interpreter; null: not recursive
};

struct MacroObject {
  uint32_t node;          // of the program
  Value name;             // none for a call block
  const void* enclosing;  // activation that defined it
};

class Runtime {
 public:
  explicit Runtime(const Budgets& budgets) : budgets_(budgets), step_limit_(budgets.max_steps) {
    heap_.Watch(budgets.max_heap_bytes, &step_limit_);
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Heap& heap() { return heap_; }
  [[nodiscard]] const Budgets& budgets() const { return budgets_; }

  // ---- errors: every function that returns a Value returns Value::Error() after one of these ----
  Value Raise(std::string_view exception, const std::string& message);
  Value RaiseType(const std::string& message) { return Raise("TypeError", message); }
  Value RaiseUndefined(const Value& undefined);
  Value Refuse(ErrorCode code, std::string message);
  Value OverBudget(const char* what);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }
  // Where the pending error arose; the innermost place counts.
  void SetPlace(SourcePlace place);
  [[nodiscard]] SourcePlace error_place() const { return place_; }
  // `except TypeError`: forgets such an error; false if the error is another.
  bool DropTypeError();
  // `except Exception`. REQUIRES: failed(), by an exception of the reference.
  void ForgetError();

  // ---- budgets ----
  // Counts work; false (and an error) if the steps or the memory are used up.
  bool Work(uint64_t n_steps) {
    steps_ += n_steps;
    if (steps_ <= step_limit_) return true;
    return ReportWork();
  }
  // Counts work that is bounded by the program's size: whoever calls asks Work before it repeats.
  void Count(uint64_t n_steps) { steps_ += n_steps; }
  // Whether a text or list of that many bytes may still be made; an error if not.
  bool MayAllocate(uint64_t n_bytes);
  [[nodiscard]] uint64_t steps() const { return steps_; }
  // Sets the counted steps back, and lets as many bytes be made again as were until now.
  void Rewind(uint64_t n_steps) {
    steps_ = n_steps;
    budgets_.max_heap_bytes += heap_.used();
    heap_.Watch(budgets_.max_heap_bytes, &step_limit_);
  }

  // ---- text ----
  const Text& Flat(const Value& string) {
    heap_.Flatten(string.text());
    return string.text();
  }
  std::string_view View(const Value& string) { return Flat(string).view(); }
  // str(value): always a plain string (never Markup), flat.
  Value ToText(const Value& value);
  // soft_str(value): strings stay as they are.
  Value SoftText(const Value& value) { return value.is_string() ? value : ToText(value); }
  bool AppendText(const Value& value, TextBuilder* out);  // str()
  bool AppendRepr(const Value& value, TextBuilder* out);
  std::string Repr(const Value& value);  // for messages
  Value Make(const TextBuilder& builder);
  // markupsafe.escape.
  Value Escape(const Value& value);
  // left + right of strings, Markup escaping included.
  Value ConcatenateText(const Value& left, const Value& right);

  // ---- iteration ----
  // Makes a cursor; error "... is not iterable".
  std::optional<Cursor> Iterate(const Value& value);
  IteratorObject::Step Next(Cursor* cursor, Value* value) {
    if (!cursor->source_.is_list_or_tuple()) return NextOf(cursor, value);
    const ListObject& list = cursor->source_.list();
    if (cursor->at_ >= list.size) return IteratorObject::Step::kDone;
    *value = list.items[cursor->at_++];
    return Work(1) ? IteratorObject::Step::kValue : IteratorObject::Step::kError;
  }
  // list(value).
  template <typename Items>
  bool Collect(const Value& value, Items* items) {
    auto cursor = Iterate(value);
    if (!cursor) return false;
    for (;;) {
      Value item;
      const auto step = Next(&*cursor, &item);
      if (step != IteratorObject::Step::kValue) return step == IteratorObject::Step::kDone;
      items->push_back(item);
    }
  }
  // len(value).
  Value Length(const Value& value);
  [[nodiscard]] static bool IsIterable(const Value& value);
  // The first item ahead of the loop, or missing at its end. False on an error.
  bool PeekNext(LoopObject* loop);
  IteratorObject::Step NextOfLoop(LoopObject* loop, Value* value);
  // loop.index0 and its kin.
  Value LoopProperty(LoopObject* loop, AttributeId id);

  // ---- operators ----
  Value Equals(const Value& left, const Value& right);
  // left OP right for the four order operators.
  Value Order(Comparison op, const Value& left, const Value& right);
  Value Contains(const Value& haystack, const Value& needle);
  Value Compare(Comparison op, const Value& left, const Value& right);
  Value Binary(Arithmetic op, const Value& left, const Value& right);
  Value Negate(const Value& value, bool positive);
  // Python's order of two items for sorting: negative, zero or positive; nothing on an error.
  std::optional<bool> Less(const Value& left, const Value& right);
  // Stable sort by keys. False on an error.
  bool Sort(std::vector<std::pair<Value, Value>>* keyed, bool reverse);
  // A key of a dict: false and TypeError if it is not hashable.
  bool CheckHashable(const Value& key);

  // ---- access ----
  // Environment.getattr and Environment.getitem of the sandbox.
  Value Attribute(const Value& object, const Value& name, AttributeId id);
  Value Item(const Value& object, const Value& key);
  Value Slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  // Whether `object` has the method `id` and the sandbox lets it be called.
  [[nodiscard]] static bool HasSafeMethod(const Value& object, AttributeId id);
  Value UndefinedName(const Value& name);
  Value UndefinedElement(const Value& object, const Value& key);
  // The character of a flat string at these bytes, no Markup.
  Value Character(const Value& string, uint64_t begin, uint64_t end);
  // The character at a position of a string.
  Value CharacterAt(const Value& string, uint64_t index);

 private:
  bool ReportWork();
  // Of what is no list.
  IteratorObject::Step NextOf(Cursor* cursor, Value* value);
  // getattr(object, name): the value; or missing where Python raises AttributeError.
  Value PythonAttribute(const Value& object, std::string_view name, AttributeId id, bool* unsafe);
  Value PropertyOf(const Value& object, AttributeId id);
  // object[key]: the value; or missing where Python raises TypeError or LookupError.
  Value PythonItem(const Value& object, const Value& key);
  Value UnsafeAttribute(const Value& object, std::string_view name);
  bool AppendStringRepr(const Value& string, TextBuilder* out);
  bool AppendSequence(const Value& value, const char* open, const char* close, TextBuilder* out);
  bool AppendDict(const Value& value, TextBuilder* out);
  bool AppendView(const Value& value, TextBuilder* out);
  bool AppendNamespace(const Value& value, TextBuilder* out);
  Value Repeat(const Value& sequence, const Value& times);
  Value Add(const Value& left, const Value& right);
  Value TypeMismatch(Arithmetic op, const Value& left, const Value& right);
  Value SubtractFromView(const Value& view);

  Budgets budgets_;
  Heap heap_;
  std::optional<Error> error_;
  uint64_t steps_ = 0;
  uint64_t step_limit_;  // 0: the heap is used up
  SourcePlace place_;    // of the error; line 0: none
};

// REQUIRES: one of == != < <= > >= in not in, as a template writes it.
[[nodiscard]] Comparison ComparisonOf(std::string_view sign);

// object_type_repr: "None", "dict object", "jinja2.runtime.Macro object".
[[nodiscard]] std::string TypeRepr(const Value& value);
// repr of a short text for messages.
[[nodiscard]] std::string QuotedRepr(std::string_view text);

// Binds arguments to parameters as Python does. `required` of them have no default; what is not given
// stays missing. False and TypeError if they do not fit.
bool Bind(Runtime& runtime, std::string_view function, const CallArguments& arguments,
          std::initializer_list<std::string_view> names, size_t required, Value* values);
// The same for built-in functions that take no keywords.
bool BindPositional(Runtime& runtime, std::string_view function, const CallArguments& arguments, size_t least,
                    size_t most);

// int(value) for indices: a small integer, clamped; nothing if it is no integer.
[[nodiscard]] std::optional<int64_t> AsIndex(const Value& value);
// An argument that Python converts to a C type. Nothing after an error: TypeError, or OverflowError where it
// does not fit.
enum class CType : uint8_t { kInt, kSize };
[[nodiscard]] std::optional<int64_t> AsArgument(Runtime& runtime, const Value& value, CType type);
// n in `text * n`: the same errors, of that operation.
[[nodiscard]] std::optional<int64_t> AsRepeats(Runtime& runtime, const Value& value);

}  // namespace slm::chat

#endif  // SLM_CHAT_RUNTIME_H_
