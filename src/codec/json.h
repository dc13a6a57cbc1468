// Strict JSON (RFC 8259) for files that others wrote: safetensors headers, config.json,
// tokenizer.json.
//
// Refused, with the byte offset of the offending token: duplicate keys (compared after
// unescaping), ill-formed UTF-8, a byte order mark, lone surrogate escapes, NaN and Infinity
// literals, trailing commas, comments, control characters in strings, nesting beyond the
// limit, bytes after the value. Numbers keep their text, so that no digit is lost.
//
// A Document owns its text and its values; a Value is a small handle into it, valid while the
// Document lives (moving the Document keeps handles valid). Reading is thread-safe.
#ifndef SLM_CODEC_JSON_H_
#define SLM_CODEC_JSON_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::json {

enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

struct Limits {
  uint64_t max_bytes = uint64_t{1} << 30;
  uint32_t max_depth = 64;
  uint64_t max_values = uint64_t{1} << 27;
  bool allow_trailing_spaces_only = false;  // after the value, only U+0020 (safetensors)
};

class Value;

// One parsed text.
class Document {
 public:
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();
  [[nodiscard]] Value root() const;
  [[nodiscard]] std::string_view text() const;

 private:
  friend class Value;
  friend class Parser;
  friend Result<Document> Parse(std::string text, const Limits& limits);
  Document();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Errors: JSON-SYNTAX, JSON-DUPKEY, JSON-UTF8, JSON-SURROGATE, JSON-DEPTH, JSON-LIMIT.
[[nodiscard]] Result<Document> Parse(std::string text, const Limits& limits = {});

class Value {
 public:
  Value() = default;
  [[nodiscard]] Kind kind() const;
  [[nodiscard]] bool is_null() const { return kind() == Kind::kNull; }
  [[nodiscard]] bool is_bool() const { return kind() == Kind::kTrue || kind() == Kind::kFalse; }
  [[nodiscard]] bool is_number() const { return kind() == Kind::kNumber; }
  [[nodiscard]] bool is_string() const { return kind() == Kind::kString; }
  [[nodiscard]] bool is_array() const { return kind() == Kind::kArray; }
  [[nodiscard]] bool is_object() const { return kind() == Kind::kObject; }
  // Of the value's first byte in the document's text.
  [[nodiscard]] uint64_t byte_offset() const;
  // One past its last byte.
  [[nodiscard]] uint64_t byte_end() const;
  // The value's own text, exactly as it stands in the file.
  [[nodiscard]] std::string_view source_text() const;

  // REQUIRES: is_bool / is_string / is_number.
  [[nodiscard]] bool boolean() const { return kind() == Kind::kTrue; }
  [[nodiscard]] std::string_view string() const;  // unescaped, may hold U+0000
  [[nodiscard]] std::string_view number_text() const;

  // Integers only where the text is an integer: no fraction, no exponent, no "-0".
  [[nodiscard]] std::optional<uint64_t> AsUint() const;
  [[nodiscard]] std::optional<int64_t> AsInt() const;
  // Correctly rounded double of any number; nothing if it overflows to infinity.
  [[nodiscard]] std::optional<double> AsDouble() const;
  [[nodiscard]] bool is_integer_text() const;

  // Arrays and objects. Members keep the order of the file.
  [[nodiscard]] size_t size() const;
  // First child; then Next() from child to child. Empty optional at the end.
  [[nodiscard]] std::optional<Value> First() const;
  [[nodiscard]] std::optional<Value> Next() const;  // following sibling
  // Of a value that is an object's member: its key, and where the key starts.
  [[nodiscard]] std::string_view key() const;
  [[nodiscard]] uint64_t key_byte_offset() const;
  // Linear in the object's size. REQUIRES: is_object.
  [[nodiscard]] std::optional<Value> Find(std::string_view key) const;
  // JSON path from the root for messages: $.rope_scaling.factor, $.merges[3].
  [[nodiscard]] std::string Path() const;

  // for (json::Value v : value.children())
  class Iterator;
  struct Range;
  [[nodiscard]] Range children() const;

 private:
  friend class Document;
  const Document::Impl* impl_ = nullptr;
  uint32_t index_ = 0;
  Value(const Document::Impl* impl, uint32_t index) : impl_(impl), index_(index) {}
};

class Value::Iterator {
 public:
  Iterator() = default;
  explicit Iterator(std::optional<Value> value) : value_(value) {}
  Value operator*() const { return *value_; }
  Iterator& operator++() {
    value_ = value_->Next();
    return *this;
  }
  bool operator!=(const Iterator& other) const { return value_.has_value() != other.value_.has_value(); }

 private:
  std::optional<Value> value_;
};
struct Value::Range {
  Iterator first;
  [[nodiscard]] Iterator begin() const { return first; }
  [[nodiscard]] Iterator end() const { return Iterator(); }
};
inline Value::Range Value::children() const {
  return Range{Iterator(First())};
}

// Appends `text` as a JSON string literal. Non-ASCII text is kept, control characters are
// escaped. REQUIRES: well-formed UTF-8.
void AppendQuoted(std::string* out, std::string_view text);

// Builds JSON text in the order of the calls, commas and indentation included.
class Writer {
 public:
  explicit Writer(bool indent = false) : indent_(indent) {}
  Writer& BeginObject();
  Writer& EndObject();
  Writer& BeginArray();
  Writer& EndArray();
  Writer& Key(std::string_view key);
  Writer& String(std::string_view text);
  Writer& Uint(uint64_t value);
  Writer& Int(int64_t value);
  // Shortest text that reads back as the same double. REQUIRES: finite.
  Writer& Double(double value);
  Writer& Bool(bool value);
  Writer& Null();
  // Whole arrays.
  Writer& Uints(std::span<const uint32_t> values);
  Writer& Strings(std::span<const std::string> texts);
  // Text that is already JSON.
  Writer& Raw(std::string_view json);
  [[nodiscard]] const std::string& text() const { return out_; }
  [[nodiscard]] std::string Take() { return std::move(out_); }

 private:
  void Separate();
  void NewLine();
  std::string out_;
  std::vector<bool> has_items_;
  bool after_key_ = false;
  bool indent_ = false;
};

}  // namespace slm::json

#endif  // SLM_CODEC_JSON_H_
