// Values of the template language: Python's, as far as the subset reaches. Strings are sequences
// of code points kept as UTF-8, and each byte knows its owner, so that a rendering can say where
// every output byte came from (TPL-05).
#ifndef SLM_CHAT_VALUE_H_
#define SLM_CHAT_VALUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace slm::chat {

// Index into the rendering's table of owners; 0 is the template.
using Owner = uint32_t;
inline constexpr Owner kTemplateOwner = 0;

// UTF-8 text, and who owns which part of it.
class OwnedText {
 public:
  struct Segment {
    size_t end;  // byte offset, exclusive
    Owner owner;
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  OwnedText() = default;
  OwnedText(std::string_view text, Owner owner) { Append(text, owner); }

  void Append(std::string_view text, Owner owner);
  void Append(const OwnedText& other) { AppendSlice(other, 0, other.text_.size()); }
  // Bytes [begin, end) of `other` with their owners.
  void AppendSlice(const OwnedText& other, size_t begin, size_t end);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  // The owner of the byte at `offset`; of empty text, the template.
  [[nodiscard]] Owner OwnerAt(size_t offset) const;

 private:
  std::string text_;
  std::vector<Segment> segments_;
};

class Value;
using ValueList = std::vector<Value>;

enum class ValueKind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,  // of range(): a sequence of integers that is no list
  kDict,
  kNamespace,
  kLoop
};

struct Dict;
struct LoopState;

// Cheap to copy; lists, dicts and texts are shared and never changed after they were made,
// namespaces are shared and change by `set`.
class Value {
 public:
  Value() = default;  // undefined
  // `message` says what is missing, as the reference words it: "'x' is undefined".
  [[nodiscard]] static Value Undefined(std::string_view message);
  [[nodiscard]] static Value None(Owner owner = kTemplateOwner);
  [[nodiscard]] static Value Bool(bool value, Owner owner = kTemplateOwner);
  [[nodiscard]] static Value Integer(int64_t value, Owner owner = kTemplateOwner);
  [[nodiscard]] static Value Float(double value, Owner owner = kTemplateOwner);
  [[nodiscard]] static Value String(OwnedText text);
  [[nodiscard]] static Value String(std::string_view text, Owner owner = kTemplateOwner) {
    return String(OwnedText(text, owner));
  }
  [[nodiscard]] static Value List(ValueList items, Owner owner = kTemplateOwner);
  [[nodiscard]] static Value Tuple(ValueList items);
  [[nodiscard]] static Value Range(ValueList integers);
  [[nodiscard]] static Value FromDict(Dict dict, Owner owner = kTemplateOwner);
  [[nodiscard]] static Value NewNamespace(Dict members);
  [[nodiscard]] static Value Loop(std::shared_ptr<LoopState> loop);

  [[nodiscard]] ValueKind kind() const { return kind_; }
  [[nodiscard]] bool is_undefined() const { return kind_ == ValueKind::kUndefined; }
  [[nodiscard]] bool is_string() const { return kind_ == ValueKind::kString; }
  [[nodiscard]] bool is_sequence() const {
    return kind_ == ValueKind::kList || kind_ == ValueKind::kTuple || kind_ == ValueKind::kRange;
  }
  // Booleans count as integers, as in Python.
  [[nodiscard]] bool is_integer() const { return kind_ == ValueKind::kInteger || kind_ == ValueKind::kBool; }
  [[nodiscard]] bool is_number() const { return is_integer() || kind_ == ValueKind::kFloat; }
  [[nodiscard]] Owner owner() const { return owner_; }

  // REQUIRES: the kind.
  [[nodiscard]] int64_t integer() const { return integer_; }  // also of booleans
  [[nodiscard]] double number() const {
    return kind_ == ValueKind::kFloat ? float_ : static_cast<double>(integer_);
  }
  [[nodiscard]] const OwnedText& text() const { return *text_; }
  [[nodiscard]] const ValueList& items() const { return *list_; }
  [[nodiscard]] const Dict& dict() const { return *dict_; }
  [[nodiscard]] Dict& namespace_members() const { return *dict_; }
  [[nodiscard]] const LoopState& loop() const { return *loop_; }
  [[nodiscard]] const std::string& undefined_message() const;
  // Levels of lists and dicts below this value; bounds every recursion over values.
  [[nodiscard]] uint32_t depth() const { return depth_; }

  // Python's bool().
  [[nodiscard]] bool Truth() const;
  // Python's ==.
  [[nodiscard]] bool Equals(const Value& other) const;
  // The name of the Python type, for messages.
  [[nodiscard]] std::string_view TypeName() const;

 private:
  ValueKind kind_ = ValueKind::kUndefined;
  Owner owner_ = kTemplateOwner;
  uint32_t depth_ = 0;
  int64_t integer_ = 0;
  double float_ = 0;
  std::shared_ptr<const OwnedText> text_;
  std::shared_ptr<const ValueList> list_;
  std::shared_ptr<Dict> dict_;
  std::shared_ptr<LoopState> loop_;
};

// Insertion-ordered, text keys.
struct Dict {
  std::vector<std::pair<OwnedText, Value>> members;
  [[nodiscard]] const Value* Find(std::string_view key) const;
  void Set(const OwnedText& key, Value value);
};

struct LoopState {
  const ValueList* items = nullptr;  // of the running loop
  size_t index0 = 0;
};

// str(value): what printing shows. Undefined prints nothing. Errors: UNSUPPORTED where a list or
// dict holds text outside ASCII, whose Python repr() depends on a Unicode table.
[[nodiscard]] Result<OwnedText> ToText(const Value& value);
// repr(value).
[[nodiscard]] Status AppendRepr(const Value& value, OwnedText* out);
// float.__repr__: shortest digits that read back.
[[nodiscard]] std::string FloatRepr(double value);

}  // namespace slm::chat

#endif  // SLM_CHAT_VALUE_H_
