// Values of the template language: Python's, as far as the reference lets templates see them.
//
// A Value is 16 bytes and trivially copyable; what it points to lives in the rendering's Heap (or, for
// literals, in the Template) and never changes after it was made, except for namespaces, iterators
// and the other objects that Python itself changes. Strings are sequences of code points kept as UTF-8, and
// each byte knows its owner, so that a rendering can say where every output byte came from (TPL-05).
#ifndef SLM_CHAT_VALUE_H_
#define SLM_CHAT_VALUE_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace slm::chat {

// Index into the rendering's table of owners; 0 is the template.
using Owner = uint32_t;
inline constexpr Owner kTemplateOwner = 0;

struct Segment {
  uint64_t end;  // byte offset, exclusive
  Owner owner;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Copies n bytes. Most pieces of a text are short, and a call costs more than they do.
inline void CopyBytes(char* to, const char* from, size_t n) {
  const auto both = [&](auto word) {
    auto last = word;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(&last, from + n - sizeof last, sizeof last);
    std::memcpy(to, &word, sizeof word);
    std::memcpy(to + n - sizeof last, &last, sizeof last);
  };
  struct Sixteen {
    uint64_t low, high;
  };
  if (n > 32) {
    std::memcpy(to, from, n);
  } else if (n >= 16) {
    both(Sixteen{});
  } else if (n >= 8) {
    both(uint64_t{0});
  } else if (n >= 4) {
    both(uint32_t{0});
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// UTF-8 text under construction, and who owns which part of it.
class TextBuilder {
 public:
  void Append(std::string_view text, Owner owner) {
    const size_t n = text.size();
    if (n == 0) return;
    if (n > buffer_.size() - size_) Grow(n);
    CopyBytes(buffer_.data() + size_, text.data(), n);
    size_ += n;
    if (!segments_.empty() && segments_.back().owner == owner) {
      segments_.back().end = size_;
    } else {
      segments_.push_back({size_, owner});
    }
  }
  void AppendScalar(char32_t scalar, Owner owner);
  // Valid until something is appended.
  [[nodiscard]] std::string_view text() const { return {buffer_.data(), size_}; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  [[nodiscard]] size_t size() const { return size_; }
  void Clear() {
    size_ = 0;
    segments_.clear();
  }
  void Reserve(size_t n_bytes, size_t n_segments) {
    if (n_bytes > buffer_.size()) Grow(n_bytes - size_);
    segments_.reserve(n_segments);
  }
  // Drops what stands behind the first `size` bytes.
  void Truncate(size_t size);
  [[nodiscard]] std::string TakeText() {
    buffer_.resize(size_);
    size_ = 0;
    return std::move(buffer_);
  }
  [[nodiscard]] std::vector<Segment> TakeSegments() { return std::move(segments_); }

 private:
  // Makes room for n more bytes.
  void Grow(size_t n);

  std::string buffer_;  // the text is its first size_ bytes
  size_t size_ = 0;
  std::vector<Segment> segments_;
};

// Levels of containers inside each other.
inline constexpr uint32_t kMaxValueDepth = 200;

enum class ValueKind : uint8_t {
  kError,    // an error is pending in the interpreter; never visible to a template
  kMissing,  // a variable that was not assigned yet; never visible to a template
  kUndefined,
  kNone,
  kBool,
  kInteger,     // 64 bits
  kBigInteger,  // beyond 64 bits
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kDictKeys,
  kDictValues,
  kDictItems,
  kIterator,  // generators, reversed(), and what else yields its items once
  kNamespace,
  kLoop,
  kMacro,
  kMethod,
  kFunction,
  kCycler,
  kJoiner,
};

struct Text;
struct ListObject;
struct DictObject;
struct RangeObject;
struct BigInteger;
struct UndefinedInfo;
struct MethodObject;
struct NamespaceObject;
struct LoopObject;
struct MacroObject;
struct CyclerObject;
struct JoinerObject;
class IteratorObject;

class Value {
 public:
  constexpr Value() : kind_(ValueKind::kMissing), integer_(0) {}
  static Value Error() { return Value(ValueKind::kError); }
  static Value Missing() { return Value(ValueKind::kMissing); }
  static Value None(Owner owner = kTemplateOwner) { return Value(ValueKind::kNone, owner); }
  static Value Bool(bool value, Owner owner = kTemplateOwner) {
    Value result(ValueKind::kBool, owner);
    result.integer_ = value ? 1 : 0;
    return result;
  }
  static Value Integer(int64_t value, Owner owner = kTemplateOwner) {
    Value result(ValueKind::kInteger, owner);
    result.integer_ = value;
    return result;
  }
  static Value Float(double value, Owner owner = kTemplateOwner) {
    Value result(ValueKind::kFloat, owner);
    result.float_ = value;
    return result;
  }
  static Value Of(ValueKind kind, const void* object, Owner owner = kTemplateOwner) {
    Value result(kind, owner);
    result.object_ = object;
    return result;
  }
  static Value Function(uint32_t id) {
    Value result(ValueKind::kFunction);
    result.integer_ = id;
    return result;
  }

  [[nodiscard]] ValueKind kind() const { return kind_; }
  [[nodiscard]] bool failed() const { return kind_ == ValueKind::kError; }
  [[nodiscard]] bool is_missing() const { return kind_ == ValueKind::kMissing; }
  [[nodiscard]] bool is_undefined() const { return kind_ == ValueKind::kUndefined; }
  [[nodiscard]] bool is_none() const { return kind_ == ValueKind::kNone; }
  [[nodiscard]] bool is_string() const { return kind_ == ValueKind::kString; }
  [[nodiscard]] bool is_list_or_tuple() const {
    return kind_ == ValueKind::kList || kind_ == ValueKind::kTuple;
  }
  // Python's int, bool included.
  [[nodiscard]] bool is_integer() const {
    return kind_ == ValueKind::kInteger || kind_ == ValueKind::kBool || kind_ == ValueKind::kBigInteger;
  }
  [[nodiscard]] bool is_small_integer() const {
    return kind_ == ValueKind::kInteger || kind_ == ValueKind::kBool;
  }
  [[nodiscard]] bool is_number() const { return is_integer() || kind_ == ValueKind::kFloat; }
  [[nodiscard]] Owner owner() const { return owner_; }
  void set_owner(Owner owner) { owner_ = owner; }
  // A string that is markupsafe's Markup.
  [[nodiscard]] bool is_markup() const { return kind_ == ValueKind::kString && flag_ != 0; }
  // A tuple of the filter groupby, whose items are attributes too.
  [[nodiscard]] bool is_group() const { return kind_ == ValueKind::kTuple && flag_ != 0; }
  [[nodiscard]] Value WithFlag(bool flag = true) const {
    Value result = *this;
    result.flag_ = flag ? 1 : 0;
    return result;
  }

  // REQUIRES: the kind.
  [[nodiscard]] int64_t integer() const { return integer_; }  // also of booleans
  [[nodiscard]] double real() const { return float_; }
  [[nodiscard]] const Text& text() const { return *static_cast<const Text*>(object_); }
  [[nodiscard]] std::string_view view() const;
  [[nodiscard]] const ListObject& list() const { return *static_cast<const ListObject*>(object_); }
  [[nodiscard]] const DictObject& dict() const { return *static_cast<const DictObject*>(object_); }
  [[nodiscard]] const RangeObject& range() const { return *static_cast<const RangeObject*>(object_); }
  [[nodiscard]] const BigInteger& big() const { return *static_cast<const BigInteger*>(object_); }
  [[nodiscard]] const UndefinedInfo* undefined() const { return static_cast<const UndefinedInfo*>(object_); }
  template <typename T>
  [[nodiscard]] T& object() const {
    return *static_cast<T*>(const_cast<void*>(object_));
  }
  [[nodiscard]] const void* address() const { return object_; }

 private:
  explicit Value(ValueKind kind, Owner owner = kTemplateOwner) : kind_(kind), owner_(owner), integer_(0) {}
  ValueKind kind_;
  uint8_t flag_ = 0;
  Owner owner_ = kTemplateOwner;
  union {
    int64_t integer_;
    double float_;
    const void* object_;
  };
};
static_assert(sizeof(Value) == 16);

// Bytes of a string. A concatenation keeps its halves until someone reads the bytes, so that a text
// that grows piece by piece costs no quadratic time.
struct Text {
  mutable const char* data = nullptr;
  uint64_t size = 0;
  mutable int64_t n_scalars = -1;             // -1: not counted yet
  mutable const Segment* segments = nullptr;  // null: `owner` owns all
  mutable uint32_t n_segments = 0;
  Owner owner = kTemplateOwner;
  mutable const Text* left = nullptr;
  mutable const Text* right = nullptr;

  // REQUIRES: data is there (Heap::Flatten was called, or the text is no concatenation).
  [[nodiscard]] std::string_view view() const { return {data, static_cast<size_t>(size)}; }
  [[nodiscard]] Owner OwnerAt(uint64_t offset) const;
  [[nodiscard]] bool is_ascii() const { return CountedScalars() == size; }
  [[nodiscard]] uint64_t CountedScalars() const;
};

struct ListObject {
  const Value* items;
  uint64_t size;
  uint32_t depth;  // levels of containers below and including this one
  [[nodiscard]] const Value* begin() const { return items; }
  [[nodiscard]] const Value* end() const { return items + size; }
};

struct DictEntry {
  Value key;
  Value value;
};

// Insertion ordered. Beyond a few members there is a hash index.
struct DictObject {
  const DictEntry* entries = nullptr;
  uint64_t size = 0;
  uint32_t depth = 1;
  const uint32_t* index = nullptr;  // open addressing, n_slots of them, 0 for empty, else entry + 1
  uint32_t n_slots = 0;
  [[nodiscard]] const DictEntry* begin() const { return entries; }
  [[nodiscard]] const DictEntry* end() const { return entries + size; }
};

struct RangeObject {
  int64_t start, stop, step;
  int64_t length;
};

struct BigInteger {
  bool negative;
  uint32_t n_limbs;
  const uint32_t* limbs;  // least first, no leading zeros
};

// What a use of an undefined value says.
struct UndefinedInfo {
  enum class Kind : uint8_t { kName, kAttribute, kElement, kHint } kind;
  bool security = false;  // SecurityError in place of UndefinedError
  std::string_view text;  // name, attribute, or hint
  Value object;           // of kAttribute, kElement
  Value element;          // of kElement
};

struct MethodObject {
  Value receiver;
  uint32_t id;
};

struct NamespaceObject {
  std::vector<std::pair<Value, Value>>* members;
  uint32_t depth = 1;
};

struct CyclerObject {
  const ListObject* items;
  uint64_t position;
};

struct JoinerObject {
  Value separator;
  bool used;
};

// What yields values one by one: generators and iterators. Objects live in the Heap.
class IteratorObject {
 public:
  enum class Step : uint8_t { kValue, kDone, kError };
  virtual Step Next(Value* value) = 0;
  // len() where Python's object has one; -1 where it has none.
  [[nodiscard]] virtual int64_t Length() const { return -1; }
  // Python's name of the type.
  [[nodiscard]] virtual std::string_view TypeName() const { return "generator"; }

 protected:
  IteratorObject() = default;
  ~IteratorObject() = default;
};

// Memory of one rendering: everything is freed at once. Counts bytes; the interpreter compares with the
// budget.
class Heap {
 public:
  Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  void* Allocate(size_t n_bytes) {
    n_bytes = (n_bytes + 15) & ~size_t{15};
    used_ += n_bytes;
    if (n_bytes > static_cast<size_t>(end_ - next_)) return AllocateChunk(n_bytes);
    char* result = next_;
    next_ += n_bytes;
    return result;
  }
  template <typename T, typename... Args>
  T* New(Args&&... args) {
    return ::new (Allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }
  [[nodiscard]] uint64_t used() const { return used_; }
  // Sets *limit to 0 once more than `most` bytes are used; noticed when memory is asked of the system.
  void Watch(uint64_t most, uint64_t* limit) {
    most_ = most;
    limit_ = limit;
  }
  // What is allocated between Mark and Forget is gone: nothing of it may be held.
  struct Mark {
    char* next;
    char* end;
    uint64_t used;
  };
  [[nodiscard]] Mark MarkHere() const { return {next_, end_, used_}; }
  // While one is alive, nothing that is made is kept for later use: it may be forgotten.
  class NothingKept {
   public:
    explicit NothingKept(Heap* heap) : heap_(heap) { ++heap_->n_unkept_; }
    NothingKept(const NothingKept&) = delete;
    NothingKept& operator=(const NothingKept&) = delete;
    ~NothingKept() { --heap_->n_unkept_; }

   private:
    Heap* heap_;
  };
  void Forget(const Mark& mark) {
    if (mark.end != end_) return;  // in an earlier chunk: it stays
    next_ = mark.next;
    used_ = mark.used;
  }

  // Text whose bytes are copied; `Borrow` keeps a view that outlives the rendering.
  [[nodiscard]] Value String(std::string_view text, Owner owner = kTemplateOwner);
  [[nodiscard]] Value Borrow(std::string_view text, Owner owner);
  [[nodiscard]] Value String(const TextBuilder& builder) { return String(builder, 0); }
  // What the builder holds from byte `begin` on.
  [[nodiscard]] Value String(const TextBuilder& builder, size_t begin);
  // Bytes [begin, end) of `text`.
  [[nodiscard]] Value Slice(const Value& text, uint64_t begin, uint64_t end);
  // One ASCII character: a template that walks over a text makes few of them, each often.
  [[nodiscard]] Value Character(char character, Owner owner);
  [[nodiscard]] Value Concatenate(const Value& left, const Value& right);
  // Makes the bytes of a concatenation.
  void Flatten(const Text& text) {
    if (text.data == nullptr && text.left != nullptr) FlattenParts(text);
  }

  [[nodiscard]] Value List(const std::vector<Value>& items, Owner owner = kTemplateOwner);
  [[nodiscard]] Value Tuple(const std::vector<Value>& items);
  [[nodiscard]] Value List(const Value* items, size_t n, Owner owner);
  [[nodiscard]] Value Tuple(const Value* items, size_t n) {
    return Value::Of(ValueKind::kTuple, List(items, n, kTemplateOwner).address());
  }
  // REQUIRES: hashable keys, no two of them equal.
  [[nodiscard]] Value Dict(const std::vector<DictEntry>& entries, Owner owner = kTemplateOwner);
  [[nodiscard]] Value Dict(const DictEntry* entries, size_t n, Owner owner);
  [[nodiscard]] Value Undefined(UndefinedInfo info);
  // That `object` has no member `name`. A template asks the same of the same object again and again.
  [[nodiscard]] Value NoMember(const Value& object, std::string_view name);
  [[nodiscard]] Value NewNamespace();
  // What every namespace holds.
  using Namespaces = std::vector<std::vector<std::pair<Value, Value>>>;
  [[nodiscard]] Namespaces SaveNamespaces() const;
  // REQUIRES: saved from this heap.
  void RestoreNamespaces(const Namespaces& saved);
  // Values that change beside namespaces and loop objects: whoever makes one says so, and says when it is
  // used up and changes no more.
  void NoteChanging() { ++n_changing_; }
  void NoteUsedUp() { --n_changing_; }
  [[nodiscard]] bool has_changing() const { return n_changing_ != 0; }

 private:
  void* AllocateChunk(size_t n_bytes);
  void FlattenParts(const Text& text);
  static constexpr size_t kFirstBytes = 4096;
  alignas(16) char first_[kFirstBytes];
  char* next_ = first_;
  char* end_ = first_ + kFirstBytes;
  size_t chunk_bytes_ = 4 * kFirstBytes;
  uint64_t used_ = 0;
  uint64_t most_ = 0;
  uint64_t* limit_ = nullptr;
  uint64_t n_changing_ = 0;
  uint64_t n_unkept_ = 0;
  Value* characters_ = nullptr;     // 128 of them, the last one made of each; missing: none yet
  std::array<Value, 16> absent_{};  // what NoMember made
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::vector<std::unique_ptr<std::vector<std::pair<Value, Value>>>> namespaces_;
};

inline std::string_view Value::view() const {
  return text().view();
}

// Of what is no bool.
[[nodiscard]] bool TruthOf(const Value& value);
// Python's bool(). An iterator is true.
[[nodiscard]] inline bool Truth(const Value& value) {
  return value.kind() == ValueKind::kBool ? value.integer() != 0 : TruthOf(value);
}
// Python's ==. REQUIRES: flat strings (every operator sees to that).
[[nodiscard]] bool Equal(const Value& left, const Value& right);
// Equal values have equal hashes. REQUIRES: IsHashable.
[[nodiscard]] uint64_t Hash(const Value& value);
// Null, or the type's name of the part that cannot be hashed.
[[nodiscard]] const char* FindUnhashable(const Value& value);
// a == b. Keys, roles and literals are short: most are told apart by their sizes, or by two loads.
[[nodiscard]] inline bool SameBytes(std::string_view a, std::string_view b) {
  const size_t n = a.size();
  if (n != b.size()) return false;
  if (n > 16) return std::memcmp(a.data(), b.data(), n) == 0;
  const auto differ = [&](auto zero, size_t at) {
    auto x = zero, y = zero;
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    return x != y;
  };
  if (n >= 8) return !differ(uint64_t{0}, 0) && !differ(uint64_t{0}, n - 8);
  if (n >= 4) return !differ(uint32_t{0}, 0) && !differ(uint32_t{0}, n - 4);
  for (size_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
[[nodiscard]] const Value* FindByHash(const DictObject& dict, std::string_view key);
[[nodiscard]] inline const Value* Find(const DictObject& dict, std::string_view key) {
  if (dict.index != nullptr) return FindByHash(dict, key);
  for (const DictEntry& entry : dict) {
    if (entry.key.is_string() && SameBytes(entry.key.view(), key)) return &entry.value;
  }
  return nullptr;
}
[[nodiscard]] const Value* Find(const DictObject& dict, const Value& key);
[[nodiscard]] std::string_view TypeName(const Value& value);
// Levels of containers in the value: bounds every recursion over values.
[[nodiscard]] uint32_t Depth(const Value& value);

// For each part of `text` with one owner: fn(std::string_view part, Owner owner).
template <typename Fn>
void ForEachSegment(const Text& text, uint64_t begin, uint64_t end, Fn fn) {
  if (begin >= end) return;
  if (text.segments == nullptr) {
    fn(text.view().substr(begin, end - begin), text.owner);
    return;
  }
  uint64_t from = 0;
  for (uint32_t i = 0; i < text.n_segments; ++i) {
    const uint64_t low = from > begin ? from : begin;
    const uint64_t high = text.segments[i].end < end ? text.segments[i].end : end;
    if (low < high) fn(text.view().substr(low, high - low), text.segments[i].owner);
    from = text.segments[i].end;
    if (from >= end) return;
  }
}

inline void AppendSlice(TextBuilder* out, const Text& text, uint64_t begin, uint64_t end) {
  ForEachSegment(text, begin, end, [out](std::string_view part, Owner owner) { out->Append(part, owner); });
}
inline void AppendText(TextBuilder* out, const Text& text) {
  if (text.segments == nullptr) {
    out->Append(text.view(), text.owner);
  } else {
    AppendSlice(out, text, 0, text.size);
  }
}

}  // namespace slm::chat

#endif  // SLM_CHAT_VALUE_H_
