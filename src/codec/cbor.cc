#include "codec/cbor.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <limits>

#include "base/utf8.h"
#include "codec/json.h"

namespace slm::cbor {
namespace {

constexpr uint32_t kMaxDepthOfAnyLimits = 64;

enum Major : uint8_t { kUnsigned, kNegative, kByteString, kText, kArray, kMap, kTag, kOther };

// Encoded order of two keys. Heads of short text grow with the length, so a shorter key comes
// first and keys of one length compare by their bytes.
bool KeyBefore(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool IsKey(std::string_view key) {
  return !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void AppendHead(Bytes* out, Major major, uint64_t argument) {
  const auto base = static_cast<uint8_t>(major << 5);
  if (argument < 24) {
    out->push_back(static_cast<uint8_t>(base | argument));
    return;
  }
  const unsigned log2_bytes = argument <= 0xFF ? 0 : argument <= 0xFFFF ? 1 : argument <= 0xFFFFFFFF ? 2 : 3;
  out->push_back(static_cast<uint8_t>(base | (24 + log2_bytes)));
  for (int shift = (8 << log2_bytes) - 8; shift >= 0; shift -= 8) {
    out->push_back(static_cast<uint8_t>(argument >> shift));
  }
}

void AppendText(Bytes* out, std::string_view text) {
  assert(!FindUtf8Fault(text));
  AppendHead(out, kText, text.size());
  const ByteSpan bytes = AsBytes(text);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

void AppendValue(Bytes* out, const Value& value) {
  if (const uint64_t* number = value.AsUint()) {
    AppendHead(out, kUnsigned, *number);
  } else if (const Negative* negative = value.AsNegative()) {
    assert(negative->magnitude <= uint64_t{std::numeric_limits<int64_t>::max()});
    AppendHead(out, kNegative, negative->magnitude);
  } else if (const bool* boolean = value.AsBool()) {
    out->push_back(*boolean ? 0xF5 : 0xF4);
  } else if (const std::string* text = value.AsTextString()) {
    AppendText(out, *text);
  } else if (const Bytes* bytes = value.AsByteString()) {
    AppendHead(out, kByteString, bytes->size());
    out->insert(out->end(), bytes->begin(), bytes->end());
  } else if (const Array* array = value.AsArray()) {
    AppendHead(out, kArray, array->size());
    for (const Value& element : *array) AppendValue(out, element);
  } else if (const Map* map = value.AsMap()) {
    AppendHead(out, kMap, map->size());
    for (const auto& [key, member] : *map) {
      assert(IsKey(key));
      AppendText(out, key);
      AppendValue(out, member);
    }
  } else {
    out->push_back(0xF6);
  }
}

struct Head {
  Major major;
  uint8_t info;       // additional information
  uint64_t argument;  // or the low byte of a simple value
  size_t size;        // bytes of the head itself
};

// Checks one item without allocating; a container stands on a fixed stack while it is open.
class Validator {
 public:
  Validator(ByteSpan bytes, const Limits& limits)
      : bytes_(bytes), limits_(limits), max_depth_(std::min(limits.max_depth, kMaxDepthOfAnyLimits)) {}

  // The length of the item, or why it is refused.
  Result<size_t> Run() {
    do {
      SLM_TRY(Item());
      CloseFinished();
    } while (n_open_ > 0);
    return position_;
  }

 private:
  struct Open {
    uint64_t n_left;  // items still to come, keys and values both counted
    bool is_map;
    std::string_view last_key;
  };

  std::unexpected<Error> Refuse(ErrorCode code, size_t offset, std::string message) const {
    return Fail(MakeError(code, std::move(message)).At(offset));
  }
  bool IsKeyNext() const {
    return n_open_ > 0 && open_[n_open_ - 1].is_map && open_[n_open_ - 1].n_left % 2 == 0;
  }

  void CloseFinished() {
    while (n_open_ > 0 && open_[n_open_ - 1].n_left == 0) --n_open_;
  }

  Result<Head> ReadHead() const {
    if (position_ >= bytes_.size()) return Refuse(ErrorCode::kCborTruncated, position_, "an item is missing");
    const uint8_t first = bytes_[position_];
    Head head{static_cast<Major>(first >> 5), static_cast<uint8_t>(first & 31), 0, 1};
    if (IsKeyNext() && head.major != kText) {
      return Refuse(ErrorCode::kCborKeyType, position_, "a map key must be text");
    }
    if (head.info >= 28 && head.info <= 30) {
      return Refuse(ErrorCode::kCborReservedAi, position_, "additional information 28 to 30 is reserved");
    }
    if (head.info == 31) {
      if (head.major == kUnsigned || head.major == kNegative || head.major == kTag) {
        return Refuse(ErrorCode::kCborReservedAi, position_, "additional information 31 has no meaning here");
      }
      return Refuse(ErrorCode::kCborIndefinite, position_, "indefinite lengths are not deterministic");
    }
    if (head.major == kTag) return Refuse(ErrorCode::kCborTag, position_, "tags are not in the profile");
    if (head.major == kOther) {
      if (head.info >= 25) return Refuse(ErrorCode::kCborFloat, position_, "floats are not in the profile");
      if (head.info < 20 || head.info > 22) {
        return Refuse(ErrorCode::kCborSimple, position_, "the only simple values are true, false and null");
      }
      return head;
    }
    if (head.info < 24) {
      head.argument = head.info;
      return head;
    }
    return ReadArgument(head);
  }

  Result<Head> ReadArgument(Head head) const {
    const size_t n_bytes = size_t{1} << (head.info - 24);
    if (bytes_.size() - position_ - 1 < n_bytes) {
      return Refuse(ErrorCode::kCborTruncated, position_, "the input ends inside a head");
    }
    for (size_t i = 0; i < n_bytes; ++i) head.argument = (head.argument << 8) | bytes_[position_ + 1 + i];
    const uint64_t smallest = head.info == 24 ? 24 : uint64_t{1} << (n_bytes * 4);
    if (head.argument < smallest) {
      return Refuse(ErrorCode::kCborNonShortest, position_, "a shorter head holds this number");
    }
    head.size = 1 + n_bytes;
    return head;
  }

  Status Item() {
    SLM_ASSIGN(const Head head, ReadHead());
    if (++n_items_ > limits_.max_items) {
      return Refuse(ErrorCode::kCborItems, position_, "more items than the limit");
    }
    const bool is_key = IsKeyNext();
    if (n_open_ > 0) --open_[n_open_ - 1].n_left;
    if (head.major == kNegative && head.argument > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Refuse(ErrorCode::kCborIntRange, position_, "integers end at -2^63");
    }
    if (head.major == kByteString || head.major == kText) return String(head, is_key);
    if (head.major == kArray || head.major == kMap) return OpenContainer(head);
    position_ += head.size;
    return {};
  }

  Status String(const Head& head, bool is_key) {
    if (head.argument > bytes_.size() - position_ - head.size) {
      return Refuse(ErrorCode::kCborTruncated, position_, "the input ends inside a string");
    }
    if (head.argument > limits_.max_string_bytes) {
      return Refuse(ErrorCode::kCborSize, position_, "a string is longer than the limit");
    }
    const size_t begin = position_ + head.size;
    const std::string_view text = AsText(bytes_.subspan(begin, static_cast<size_t>(head.argument)));
    if (is_key) {
      SLM_TRY(Key(text));
    } else if (head.major == kText) {
      if (const auto fault = FindUtf8Fault(text)) {
        return Refuse(ErrorCode::kCborBadUtf8, begin + fault->byte_offset, "text is not well-formed UTF-8");
      }
    }
    position_ = begin + text.size();
    return {};
  }

  Status Key(std::string_view key) {
    if (!IsKey(key)) {
      return Refuse(ErrorCode::kCborKeyCharset, position_, "a key is 1 to 64 characters of [a-z0-9_]");
    }
    std::string_view& last = open_[n_open_ - 1].last_key;
    if (key == last) return Refuse(ErrorCode::kCborDuplicateKey, position_, "the key stands twice");
    if (!last.empty() && !KeyBefore(last, key)) {
      return Refuse(ErrorCode::kCborKeyOrder, position_, "keys must stand in order of their encoding");
    }
    last = key;
    return {};
  }

  Status OpenContainer(const Head& head) {
    if (n_open_ == max_depth_)
      return Refuse(ErrorCode::kCborDepth, position_, "nested deeper than the limit");
    // Each item takes a byte at least, so a count beyond the rest of the input cannot be true.
    const size_t rest = bytes_.size() - position_ - head.size;
    const bool is_map = head.major == kMap;
    if (head.argument > (is_map ? rest / 2 : rest)) {
      return Refuse(ErrorCode::kCborTruncated, position_, "the input is too short for the items declared");
    }
    const uint64_t n_children = is_map ? head.argument * 2 : head.argument;
    if (n_children > limits_.max_items - n_items_) {
      return Refuse(ErrorCode::kCborItems, position_, "more items than the limit");
    }
    open_[n_open_++] = Open{n_children, is_map, {}};
    position_ += head.size;
    return {};
  }

  ByteSpan bytes_;
  const Limits& limits_;
  const uint32_t max_depth_;
  size_t position_ = 0;
  uint64_t n_items_ = 0;
  uint32_t n_open_ = 0;
  std::array<Open, kMaxDepthOfAnyLimits> open_;
};

// Builds values from bytes that the validator has passed, so it checks nothing. Recursion is
// bounded by the validator's depth.
class Builder {
 public:
  explicit Builder(ByteSpan bytes) : bytes_(bytes) {}

  Value Build() {
    const uint8_t first = bytes_[position_++];
    const auto major = static_cast<Major>(first >> 5);
    const auto info = static_cast<uint8_t>(first & 31);
    if (major == kOther) return info == 22 ? Value() : Value(info == 21);
    const uint64_t argument = Argument(info);
    switch (major) {
      case kUnsigned:
        return Value(argument);
      case kNegative:
        return Value(-1 - static_cast<int64_t>(argument));
      case kByteString: {
        const ByteSpan bytes = Take(argument);
        return Value(Bytes(bytes.begin(), bytes.end()));
      }
      case kText:
        return Value(std::string(AsText(Take(argument))));
      case kArray: {
        Array array;
        array.reserve(static_cast<size_t>(argument));
        for (uint64_t i = 0; i < argument; ++i) array.push_back(Build());
        return Value(std::move(array));
      }
      default: {
        Map map;
        for (uint64_t i = 0; i < argument; ++i) {
          const std::string_view key = AsText(Take(Argument(bytes_[position_++] & 31)));
          map.Set(key, Build());
        }
        return Value(std::move(map));
      }
    }
  }

 private:
  uint64_t Argument(uint8_t info) {
    if (info < 24) return info;
    uint64_t argument = 0;
    for (size_t n = size_t{1} << (info - 24); n > 0; --n) argument = (argument << 8) | bytes_[position_++];
    return argument;
  }
  ByteSpan Take(uint64_t n_bytes) {
    const ByteSpan taken = bytes_.subspan(position_, static_cast<size_t>(n_bytes));
    position_ += taken.size();
    return taken;
  }

  ByteSpan bytes_;
  size_t position_ = 0;
};

// Steps through an encoding that is known to be well-formed.
class PathWalker {
 public:
  explicit PathWalker(ByteSpan bytes) : bytes_(bytes) {}
  [[nodiscard]] uint64_t offset() const { return at_; }

  bool EnterMember(std::string_view key) {
    size_t at = at_;
    const Item map = Read(&at);
    for (uint64_t i = 0; map.major == 5 && i < map.argument; ++i) {
      const Item name = Read(&at);
      const std::string_view text = AsText(bytes_.subspan(at, name.argument));
      at += name.argument;
      if (text == key) {
        at_ = at;
        return true;
      }
      Skip(&at);
    }
    return false;
  }

  bool EnterElement(std::string_view index) {
    uint64_t wanted = 0;
    const auto parsed = std::from_chars(index.data(), index.data() + index.size(), wanted);
    size_t at = at_;
    const Item array = Read(&at);
    if (parsed.ec != std::errc() || array.major != 4 || wanted >= array.argument) return false;
    for (uint64_t i = 0; i < wanted; ++i) Skip(&at);
    at_ = at;
    return true;
  }

 private:
  struct Item {
    uint8_t major = 0;
    uint64_t argument = 0;
  };

  Item Read(size_t* at) const {
    const uint8_t head = bytes_[(*at)++];
    const uint8_t info = head & 31;
    Item item{static_cast<uint8_t>(head >> 5), info};
    if (info < 24) return item;
    item.argument = 0;
    for (unsigned left = 1u << (info - 24); left > 0; --left)
      item.argument = item.argument << 8 | bytes_[(*at)++];
    return item;
  }

  void Skip(size_t* at) const {
    for (uint64_t left = 1; left > 0; --left) {
      const Item item = Read(at);
      if (item.major == 2 || item.major == 3) *at += item.argument;
      if (item.major == 4) left += item.argument;
      if (item.major == 5) left += 2 * item.argument;
    }
  }

  ByteSpan bytes_;
  size_t at_ = 0;
};

void WriteJson(json::Writer* out, const Value& value) {
  if (const uint64_t* number = value.AsUint()) {
    out->Uint(*number);
  } else if (const Negative* negative = value.AsNegative()) {
    out->Int(-1 - static_cast<int64_t>(negative->magnitude));
  } else if (const bool* boolean = value.AsBool()) {
    out->Bool(*boolean);
  } else if (const std::string* text = value.AsTextString()) {
    out->String(*text);
  } else if (const Bytes* bytes = value.AsByteString()) {
    out->BeginObject().Key("hex").String(ToHex(*bytes)).EndObject();
  } else if (const Array* array = value.AsArray()) {
    out->BeginArray();
    for (const Value& element : *array) WriteJson(out, element);
    out->EndArray();
  } else if (const Map* map = value.AsMap()) {
    out->BeginObject();
    for (const auto& [key, member] : *map) {
      out->Key(key);
      WriteJson(out, member);
    }
    out->EndObject();
  } else {
    out->Null();
  }
}

}  // namespace

Value::Value(Array array) : data_(std::move(array)) {}
Value::Value(Map map) : data_(std::move(map)) {}

bool operator==(const Map& a, const Map& b) {
  return a.members_ == b.members_;
}

const uint8_t* Value::AsHash() const {
  const Bytes* bytes = AsByteString();
  return bytes != nullptr && bytes->size() == std::tuple_size_v<Hash256> ? bytes->data() : nullptr;
}

Map::Map(std::initializer_list<std::pair<std::string_view, Value>> members) {
  for (const auto& [key, value] : members) Set(key, value);
}

void Map::Set(std::string_view key, Value value) {
  const auto place =
      std::lower_bound(members_.begin(), members_.end(), key,
                       [](const auto& member, std::string_view k) { return KeyBefore(member.first, k); });
  if (place != members_.end() && place->first == key) {
    place->second = std::move(value);
  } else {
    members_.insert(place, {std::string(key), std::move(value)});
  }
}

const Value* Map::Find(std::string_view key) const {
  const auto place =
      std::lower_bound(members_.begin(), members_.end(), key,
                       [](const auto& member, std::string_view k) { return KeyBefore(member.first, k); });
  return place != members_.end() && place->first == key ? &place->second : nullptr;
}

Bytes Encode(const Value& value) {
  Bytes out;
  AppendValue(&out, value);
  return out;
}

Status CheckEncodable(const Value& value) {
  if (const Negative* negative = value.AsNegative()) {
    if (negative->magnitude > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Fail(ErrorCode::kCborIntRange, "integers end at -2^63");
    }
  } else if (const std::string* text = value.AsTextString()) {
    if (FindUtf8Fault(*text)) return Fail(ErrorCode::kCborBadUtf8, "text is not well-formed UTF-8");
  } else if (const Array* array = value.AsArray()) {
    for (const Value& element : *array) SLM_TRY(CheckEncodable(element));
  } else if (const Map* map = value.AsMap()) {
    for (const auto& [key, member] : *map) {
      if (!IsKey(key)) {
        return Fail(
            MakeError(ErrorCode::kCborKeyCharset, "a key is 1 to 64 characters of [a-z0-9_]").Field(key));
      }
      Status status = CheckEncodable(member);
      if (!status.has_value()) {
        Error error = std::move(status).error();
        error.field = error.field.empty() ? key : key + "." + error.field;
        return Fail(std::move(error));
      }
    }
  }
  return {};
}

Result<Value> Decode(ByteSpan bytes, const Limits& limits) {
  if (bytes.size() > limits.max_bytes) {
    return Fail(MakeError(ErrorCode::kCborSize, "the input is longer than the limit").At(limits.max_bytes));
  }
  SLM_ASSIGN(const size_t size, Validator(bytes, limits).Run());
  if (size != bytes.size()) {
    return Fail(MakeError(ErrorCode::kCborTrailing, "bytes follow the item").At(size));
  }
  return Builder(bytes).Build();
}

Result<Value> DecodePrefix(ByteSpan bytes, size_t* consumed, const Limits& limits) {
  const bool is_cut = bytes.size() > limits.max_bytes;
  const ByteSpan allowed = is_cut ? bytes.first(static_cast<size_t>(limits.max_bytes)) : bytes;
  auto size = Validator(allowed, limits).Run();
  if (!size.has_value()) {
    if (is_cut && size.error().code == ErrorCode::kCborTruncated) size.error().code = ErrorCode::kCborSize;
    return Fail(std::move(size).error());
  }
  *consumed = *size;
  return Builder(allowed).Build();
}

uint64_t OffsetOf(ByteSpan bytes, std::string_view path) {
  PathWalker walker(bytes);
  while (!path.empty()) {
    const bool is_index = path.front() == '[';
    if (is_index || path.front() == '.') path.remove_prefix(1);
    const size_t size = std::min(path.find_first_of(is_index ? "]" : ".["), path.size());
    const std::string_view step = path.substr(0, size);
    path.remove_prefix(size);
    if (is_index && !path.empty()) path.remove_prefix(1);
    if (!(is_index ? walker.EnterElement(step) : walker.EnterMember(step))) break;
  }
  return walker.offset();
}

std::string ToJson(const Value& value, bool indent) {
  json::Writer out(indent);
  WriteJson(&out, value);
  return out.Take();
}

}  // namespace slm::cbor
