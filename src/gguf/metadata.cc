#include "gguf/metadata.h"

#include <array>
#include <string>
#include <utility>

namespace slm::gguf {
namespace {

constexpr uint64_t kMaxPairs = 1u << 16;
constexpr uint64_t kMaxKeyBytes = (1u << 16) - 1;
constexpr uint32_t kMaxArrays = 4;  // inside each other

// Bytes of a value of fixed size; 0: of none.
uint64_t SizeOf(Type type) {
  constexpr std::array<uint8_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < kSizes.size() ? kSizes[index] : 0;
}

uint64_t LittleEndian(ByteSpan bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= uint64_t{bytes[i]} << (8 * i);
  return number;
}

class Reader {
 public:
  Reader(ByteSpan file, ErrorCode fault) : file_(file), fault_(fault) {}

  Result<std::vector<Pair>> Run() {
    if (file_.size() < 4 || AsText(file_.first(4)) != "GGUF") return Bad("no GGUF file", 0);
    at_ = 4;
    SLM_ASSIGN(const uint64_t version, Number(4));
    if (version != 2 && version != 3) {
      return Fail(
          MakeError(
              ErrorCode::kUnsupported,
              "a GGUF file of another version or byte order; give the source directory or another form of it")
              .At(4));
    }
    SLM_TRY(Number(8));
    SLM_ASSIGN(const uint64_t n_pairs, Number(8));
    if (n_pairs > kMaxPairs) return Bad("more than 65,536 pairs of metadata", 16);
    std::vector<Pair> pairs;
    for (uint64_t i = 0; i < n_pairs; ++i) {
      Pair pair{.key = {}, .byte_offset = at_, .value = {}};
      SLM_ASSIGN(pair.key, Text());
      if (pair.key.size() > kMaxKeyBytes) return Bad("a key that is too long", pair.byte_offset);
      SLM_ASSIGN(const uint64_t type, Number(4));
      SLM_ASSIGN(pair.value, Read(static_cast<Type>(type), 0));
      pairs.push_back(pair);
    }
    return pairs;
  }

  [[nodiscard]] std::unexpected<Error> Bad(const char* what, uint64_t at) const {
    return Fail(MakeError(fault_, std::string("the GGUF metadata: ") + what).At(at));
  }

 private:
  [[nodiscard]] uint64_t left() const { return file_.size() - at_; }

  Result<uint64_t> Number(uint64_t n_bytes) {
    if (left() < n_bytes) return Bad("it ends inside a number", at_);
    const uint64_t number = LittleEndian(file_.subspan(at_, n_bytes));
    at_ += n_bytes;
    return number;
  }
  Result<std::string_view> Text() {
    const uint64_t begin = at_;
    SLM_ASSIGN(const uint64_t size, Number(8));
    if (size > left()) return Bad("a text that reaches beyond the file", begin);
    const std::string_view text = AsText(file_.subspan(at_, size));
    at_ += size;
    return text;
  }

  Result<Value> Read(Type type, uint32_t n_outer) {
    const uint64_t begin = at_;
    Value value;
    value.type = type;
    if (type == Type::kString) {
      SLM_ASSIGN(const std::string_view text, Text());
      value.bytes = AsBytes(text);
      value.byte_offset = at_ - text.size();
      return value;
    }
    if (type != Type::kArray) {
      const uint64_t size = SizeOf(type);
      if (size == 0) return Bad("a value of an unknown type", begin);
      if (left() < size) return Bad("it ends inside a value", begin);
      value.byte_offset = begin;
      value.bytes = file_.subspan(at_, size);
      at_ += size;
      return value;
    }
    if (n_outer == kMaxArrays) return Bad("arrays nested too deep", begin);
    SLM_ASSIGN(const uint64_t item, Number(4));
    SLM_ASSIGN(value.count, Number(8));
    value.item = static_cast<Type>(item);
    value.byte_offset = at_;
    if (const uint64_t size = SizeOf(value.item); size != 0) {
      if (value.count > left() / size) return Bad("an array that reaches beyond the file", begin);
      at_ += value.count * size;
    } else {
      // Each item takes at least the 8 bytes of its length.
      if (value.count > left() / 8) return Bad("an array that reaches beyond the file", begin);
      for (uint64_t i = 0; i < value.count; ++i) SLM_TRY(Read(value.item, n_outer + 1));
    }
    value.bytes = file_.subspan(value.byte_offset, at_ - value.byte_offset);
    return value;
  }

  ByteSpan file_;
  ErrorCode fault_;
  uint64_t at_ = 0;
};

}  // namespace

Result<Metadata> Metadata::Read(ByteSpan file, ErrorCode fault) {
  Reader reader(file, fault);
  Metadata out;
  SLM_ASSIGN(out.pairs_, reader.Run());
  for (size_t i = 0; i < out.pairs_.size(); ++i) {
    if (!out.index_.emplace(out.pairs_[i].key, i).second)
      return reader.Bad("a key that stands twice", out.pairs_[i].byte_offset);
  }
  return out;
}

const Pair* Metadata::Find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &pairs_[found->second];
}

Status ForEachText(const Value& value, const std::function<Status(std::string_view, uint64_t)>& use) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    const uint64_t size = LittleEndian(value.bytes.subspan(at, 8));
    at += 8;
    SLM_TRY(use(AsText(value.bytes.subspan(at, size)), value.byte_offset + at));
    at += size;
  }
  return {};
}

std::optional<uint64_t> UintOf(const Value& value) {
  switch (value.type) {
    case Type::kUint8:
    case Type::kUint16:
    case Type::kUint32:
    case Type::kUint64:
      return LittleEndian(value.bytes);
    case Type::kInt8:
    case Type::kInt16:
    case Type::kInt32:
    case Type::kInt64:
      if (value.bytes.back() >= 0x80) return std::nullopt;
      return LittleEndian(value.bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace slm::gguf
