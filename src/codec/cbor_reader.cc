#include <algorithm>
#include <limits>

#include "codec/cbor.h"

namespace slm::cbor {

Reader::Reader(const Map& map, std::string_view path) : map_(&map), path_(path) {}

std::string Reader::Name(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const Value* Reader::Optional(std::string_view key) {
  if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) seen_.emplace_back(key);
  return map_->Find(key);
}

Result<const Value*> Reader::Require(std::string_view key) {
  const Value* value = Optional(key);
  if (value == nullptr) {
    return Fail(MakeError(ErrorCode::kSchemaMissing, "the key is required").Field(Name(key)));
  }
  if (value->is_null()) {
    return Fail(MakeError(ErrorCode::kSchemaNull, "null is not allowed here").Field(Name(key)));
  }
  return value;
}

namespace {

std::unexpected<Error> WrongKind(std::string_view name, std::string_view wanted) {
  return Fail(MakeError(ErrorCode::kSchemaType, std::string(wanted) + " is needed here").Field(name));
}

}  // namespace

Result<uint64_t> Reader::Uint(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const uint64_t* number = value->AsUint()) return *number;
  return WrongKind(Name(key), "an unsigned integer");
}

Result<int64_t> Reader::Int(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const Negative* negative = value->AsNegative()) return -1 - static_cast<int64_t>(negative->magnitude);
  const uint64_t* number = value->AsUint();
  if (number == nullptr) return WrongKind(Name(key), "an integer");
  if (*number > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return Fail(MakeError(ErrorCode::kSchemaValue, "the integer is above 2^63-1").Field(Name(key)));
  }
  return static_cast<int64_t>(*number);
}

Result<bool> Reader::Bool(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const bool* boolean = value->AsBool()) return *boolean;
  return WrongKind(Name(key), "true or false");
}

Result<std::string> Reader::Text(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const std::string* text = value->AsTextString()) return *text;
  return WrongKind(Name(key), "text");
}

Result<Bytes> Reader::ByteString(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const Bytes* bytes = value->AsByteString()) return *bytes;
  return WrongKind(Name(key), "a byte string");
}

Result<Hash256> Reader::Hash(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  const uint8_t* bytes = value->AsHash();
  if (bytes == nullptr) return WrongKind(Name(key), "a byte string of 32 bytes");
  Hash256 hash;
  std::copy_n(bytes, hash.size(), hash.begin());
  return hash;
}

Result<const Array*> Reader::ArrayOf(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const Array* array = value->AsArray()) return array;
  return WrongKind(Name(key), "an array");
}

Result<const Map*> Reader::MapOf(std::string_view key) {
  SLM_ASSIGN(const Value* value, Require(key));
  if (const Map* map = value->AsMap()) return map;
  return WrongKind(Name(key), "a map");
}

Status Reader::Finish() const {
  for (const auto& [key, value] : *map_) {
    if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
      return Fail(MakeError(ErrorCode::kSchemaUnknownKey, "the schema has no such key").Field(Name(key)));
    }
  }
  return {};
}

}  // namespace slm::cbor
