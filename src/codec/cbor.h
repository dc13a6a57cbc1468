// Deterministic CBOR: RFC 8949 section 4.2.1, narrowed until nobody can disagree.
//
// Profile: unsigned and negative integers (-2^63 .. 2^64-1), byte strings, UTF-8 text,
// definite arrays, maps whose keys are 1 to 64 bytes of [a-z0-9_] in strictly increasing
// order of their encoding, true, false, null. No floats, no tags, nothing indefinite.
// Rules: docs/spec/cbor.md. Values own their contents; a Value may be read from any thread.
#ifndef SLM_CODEC_CBOR_H_
#define SLM_CODEC_CBOR_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::cbor {

class Value;
using Array = std::vector<Value>;
// Kept sorted in encoded order by Map::Set, whatever the order of the calls.
class Map {
 public:
  Map() = default;
  Map(std::initializer_list<std::pair<std::string_view, Value>> members);
  // Adds or replaces.
  void Set(std::string_view key, Value value);
  [[nodiscard]] const Value* Find(std::string_view key) const;  // null if absent
  [[nodiscard]] size_t size() const;
  // Members as pairs {key, value}.
  [[nodiscard]] std::vector<std::pair<std::string, Value>>::const_iterator begin() const;
  [[nodiscard]] std::vector<std::pair<std::string, Value>>::const_iterator end() const;
  friend bool operator==(const Map& a, const Map& b);

 private:
  std::vector<std::pair<std::string, Value>> members_;  // Value is still incomplete here
};

struct Negative {  // the integer -1 - magnitude
  uint64_t magnitude;
  friend bool operator==(const Negative&, const Negative&) = default;
};
struct Null {
  friend bool operator==(const Null&, const Null&) = default;
};

class Value {
 public:
  Value() : data_(Null{}) {}
  // NOLINTBEGIN(google-explicit-constructor): maps read better with implicit values.
  // Integers of any width, text (std::string, string_view, literals), Bytes, Hash256,
  // bool, Array, Map.
  template <typename T>
    requires std::is_integral_v<T>
  Value(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      data_ = value;
    } else if (value < 0) {
      data_ = Negative{static_cast<uint64_t>(-(static_cast<int64_t>(value) + 1))};
    } else {
      data_ = static_cast<uint64_t>(value);
    }
  }
  Value(std::string text) : data_(std::move(text)) {}
  Value(std::string_view text) : data_(std::string(text)) {}
  Value(const char* text) : data_(std::string(text)) {}
  Value(Bytes bytes) : data_(std::move(bytes)) {}
  Value(const Hash256& hash) : data_(Bytes(hash.begin(), hash.end())) {}
  Value(Array array);
  Value(Map map);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool is_null() const { return std::holds_alternative<Null>(data_); }
  // Null pointers (or empty optionals' equivalents) if the value is of another kind.
  [[nodiscard]] const uint64_t* AsUint() const { return std::get_if<uint64_t>(&data_); }
  [[nodiscard]] const Negative* AsNegative() const { return std::get_if<Negative>(&data_); }
  [[nodiscard]] const bool* AsBool() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::string* AsTextString() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const Bytes* AsByteString() const { return std::get_if<Bytes>(&data_); }
  [[nodiscard]] const Array* AsArray() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const Map* AsMap() const { return std::get_if<Map>(&data_); }
  // The 32-byte string, or nothing.
  [[nodiscard]] const uint8_t* AsHash() const;  // pointer to 32 bytes

  friend bool operator==(const Value&, const Value&) = default;

 private:
  std::variant<Null, bool, uint64_t, Negative, std::string, Bytes, Array, Map> data_;
};

inline size_t Map::size() const {
  return members_.size();
}
inline std::vector<std::pair<std::string, Value>>::const_iterator Map::begin() const {
  return members_.begin();
}
inline std::vector<std::pair<std::string, Value>>::const_iterator Map::end() const {
  return members_.end();
}

struct Limits {
  uint64_t max_bytes = 16u << 20;
  uint32_t max_depth = 16;
  uint64_t max_items = 1u << 20;
  uint64_t max_string_bytes = 4u << 20;
};

// The only encoding of `value`. REQUIRES: keys in the profile's charset, text well-formed
// (checked by assertion; callers build keys from literals).
[[nodiscard]] Bytes Encode(const Value& value);

// Whether Encode may be called on a value that came from outside. Errors: KEY_CHARSET, BAD_UTF8,
// INT_RANGE, with the key in `field`.
[[nodiscard]] Status CheckEncodable(const Value& value);

// Strict inverse: refuses every byte string that Encode would not write, with the code
// (TRUNCATED, NON_SHORTEST, KEY_ORDER, ...) and the byte offset of the offending item.
[[nodiscard]] Result<Value> Decode(ByteSpan bytes, const Limits& limits = {});

// Like Decode, but the value may be followed by further bytes; `*consumed` receives its length.
[[nodiscard]] Result<Value> DecodePrefix(ByteSpan bytes, size_t* consumed, const Limits& limits = {});

// Byte offset of the item that `path` names, such as "tensors[3].layer": where a schema's error points.
// Where the path leaves the value, the offset of the last item on it; an unknown key, like every member,
// is at its value. REQUIRES: `bytes` were accepted by Decode.
[[nodiscard]] uint64_t OffsetOf(ByteSpan bytes, std::string_view path);

// Diagnostic JSON text of a value: byte strings as {"hex": "..."}; for people and for the
// independent readers, never hashed.
[[nodiscard]] std::string ToJson(const Value& value, bool indent);

// Checked field access for schemas. Errors: SCHEMA-MISSING, SCHEMA-TYPE, SCHEMA-NULL with the
// key in `field`. Reader also finds keys that no Get asked for (SCHEMA-UNKNOWN-KEY).
class Reader {
 public:
  explicit Reader(const Map& map, std::string_view path = "");
  [[nodiscard]] Result<uint64_t> Uint(std::string_view key);
  [[nodiscard]] Result<int64_t> Int(std::string_view key);
  [[nodiscard]] Result<bool> Bool(std::string_view key);
  [[nodiscard]] Result<std::string> Text(std::string_view key);
  [[nodiscard]] Result<Bytes> ByteString(std::string_view key);
  [[nodiscard]] Result<Hash256> Hash(std::string_view key);
  [[nodiscard]] Result<const Array*> ArrayOf(std::string_view key);
  [[nodiscard]] Result<const Map*> MapOf(std::string_view key);
  // Null if absent; marks the key as known.
  [[nodiscard]] const Value* Optional(std::string_view key);
  // Fails if a key of the map was never asked for.
  [[nodiscard]] Status Finish() const;

 private:
  [[nodiscard]] Result<const Value*> Require(std::string_view key);
  [[nodiscard]] std::string Name(std::string_view key) const;
  const Map* map_;
  std::string path_;
  std::vector<std::string> seen_;
};

}  // namespace slm::cbor

#endif  // SLM_CODEC_CBOR_H_
