// The metadata of a GGUF file: pairs of a key and a typed value (LVL-02, TPL-06).
//
// Layout (all little-endian): "GGUF", u32 version (2 or 3), u64 tensors, u64 pairs; each pair is a key (u64
// length, bytes), a u32 type and a value. Source: the format's specification in the ggml repository
// (docs/gguf.md). Values are views of the file: nothing is copied, and an array costs its bytes being walked
// over once. Immutable after Read, any thread; the file must outlive it.
#ifndef SLM_GGUF_METADATA_H_
#define SLM_GGUF_METADATA_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::gguf {

enum class Type : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

struct Value {
  Type type = Type::kUint8;
  Type item = Type::kUint8;  // of an array
  uint64_t count = 0;        // items of an array
  uint64_t byte_offset = 0;  // of `bytes` in the file
  ByteSpan bytes;            // the number, the text without its length, or the items of the array

  [[nodiscard]] bool IsArrayOf(Type of) const { return type == Type::kArray && item == of; }
};

struct Pair {
  std::string_view key;      // any bytes
  uint64_t byte_offset = 0;  // of the pair in the file
  Value value;
};

class Metadata {
 public:
  // `file` begins with the file's first byte and holds all of its metadata; tensor data is not read. Errors:
  // `fault` with the byte offset (damaged, cut short, a key twice, arrays nested more than four deep),
  // UNSUPPORTED (another version, or big-endian).
  [[nodiscard]] static Result<Metadata> Read(ByteSpan file, ErrorCode fault);

  [[nodiscard]] const std::vector<Pair>& pairs() const { return pairs_; }
  // Null where there is none.
  [[nodiscard]] const Pair* Find(std::string_view key) const;

 private:
  std::vector<Pair> pairs_;
  std::unordered_map<std::string_view, size_t> index_;
};

// The texts of an array of texts, in order, each with the byte offset of its first byte. Stops at the first
// failure of `use`. REQUIRES: value.IsArrayOf(Type::kString).
[[nodiscard]] Status ForEachText(
    const Value& value, const std::function<Status(std::string_view text, uint64_t byte_offset)>& use);

// An unsigned number of any width, or a signed one that is not negative; none for other types.
[[nodiscard]] std::optional<uint64_t> UintOf(const Value& value);

}  // namespace slm::gguf

#endif  // SLM_GGUF_METADATA_H_
