#include "chat/value.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/utf8.h"
#include "chat/number.h"

namespace slm::chat {

void TextBuilder::AppendScalar(char32_t scalar, Owner owner) {
  std::string bytes;
  AppendUtf8(&bytes, scalar);
  Append(bytes, owner);
}

void TextBuilder::Grow(size_t n) {
  // A long text is seldom much longer than what is reserved for it: the slack stays small.
  constexpr size_t kMaxSlack = size_t{1} << 19;
  const size_t least = size_ + n + std::min(size_ + 64, kMaxSlack);
  buffer_.resize_and_overwrite(least, [](char*, size_t room) { return room; });
}

void TextBuilder::Truncate(size_t size) {
  size_ = size;
  while (!segments_.empty() && (segments_.size() > 1 ? segments_[segments_.size() - 2].end : 0) >= size)
    segments_.pop_back();
  if (!segments_.empty()) segments_.back().end = size;
}

Owner Text::OwnerAt(uint64_t offset) const {
  if (segments == nullptr) return owner;
  for (uint32_t i = 0; i < n_segments; ++i) {
    if (offset < segments[i].end) return segments[i].owner;
  }
  return segments[n_segments - 1].owner;
}

uint64_t Text::CountedScalars() const {
  if (n_scalars < 0) {
    n_scalars = static_cast<int64_t>(CountScalars(view()));
  }
  return static_cast<uint64_t>(n_scalars);
}

Heap::~Heap() = default;

void* Heap::AllocateChunk(size_t n_bytes) {
  if (limit_ != nullptr && used_ > most_) *limit_ = 0;
  if (n_bytes > chunk_bytes_ / 4) {  // a block of its own; the open chunk stays in use
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(n_bytes));
    return chunks_.back().get();
  }
  chunks_.push_back(std::make_unique_for_overwrite<char[]>(chunk_bytes_));
  next_ = chunks_.back().get();
  end_ = next_ + chunk_bytes_;
  chunk_bytes_ = std::min<size_t>(chunk_bytes_ * 2, size_t{1} << 18);
  char* result = next_;
  next_ += n_bytes;
  return result;
}

Value Heap::Borrow(std::string_view text, Owner owner) {
  Text* object = New<Text>();
  object->data = text.data();
  object->size = text.size();
  object->owner = owner;
  return Value::Of(ValueKind::kString, object, owner);
}

Value Heap::String(std::string_view text, Owner owner) {
  char* bytes = static_cast<char*>(Allocate(text.size()));
  if (!text.empty()) std::memcpy(bytes, text.data(), text.size());
  return Borrow({bytes, text.size()}, owner);
}

Value Heap::String(const TextBuilder& builder, size_t begin) {
  const std::vector<Segment>& segments = builder.segments();
  const auto first = std::upper_bound(segments.begin(), segments.end(), begin,
                                      [](size_t at, const Segment& segment) { return at < segment.end; });
  const auto n = static_cast<uint32_t>(segments.end() - first);
  const Value result = String(builder.text().substr(begin), n == 0 ? kTemplateOwner : first->owner);
  if (n <= 1) return result;
  auto* kept = static_cast<Segment*>(Allocate(n * sizeof(Segment)));
  std::transform(first, segments.end(), kept,
                 [begin](const Segment& segment) { return Segment{segment.end - begin, segment.owner}; });
  result.text().segments = kept;
  result.text().n_segments = n;
  return result;
}

Value Heap::Slice(const Value& text, uint64_t begin, uint64_t end) {
  const Text& source = text.text();
  if (begin == 0 && end == source.size) return text.WithFlag(false);
  Value result = Borrow(source.view().substr(begin, end - begin), source.owner);
  if (source.segments == nullptr || begin >= end) return result;
  std::vector<Segment> segments;
  ForEachSegment(source, begin, end, [&segments](std::string_view part, Owner owner) {
    segments.push_back({(segments.empty() ? 0 : segments.back().end) + part.size(), owner});
  });
  const Text& made = result.text();
  const_cast<Text&>(made).owner = segments[0].owner;
  result.set_owner(segments[0].owner);
  if (segments.size() > 1) {
    auto* kept = static_cast<Segment*>(Allocate(segments.size() * sizeof(Segment)));
    std::copy(segments.begin(), segments.end(), kept);
    made.segments = kept;
    made.n_segments = static_cast<uint32_t>(segments.size());
  }
  return result;
}

Value Heap::Character(char character, Owner owner) {
  constexpr size_t kCharacters = 128;
  if (n_unkept_ != 0) return String({&character, 1}, owner);
  if (characters_ == nullptr) {
    characters_ = static_cast<Value*>(Allocate(kCharacters * sizeof(Value)));
    std::uninitialized_fill_n(characters_, kCharacters, Value());
  }
  Value& held = characters_[static_cast<unsigned char>(character)];
  if (held.is_missing() || held.owner() != owner) {
    held = String({&character, 1}, owner);
    held.text().n_scalars = 1;
  }
  return held;
}

Value Heap::Concatenate(const Value& left, const Value& right) {
  const Text& a = left.text();
  const Text& b = right.text();
  if (b.size == 0) return left.WithFlag(false);
  if (a.size == 0) return right.WithFlag(false);
  Text* object = New<Text>();
  object->size = a.size + b.size;
  object->left = &a;
  object->right = &b;
  object->owner = a.owner;
  if (a.n_scalars >= 0 && b.n_scalars >= 0) object->n_scalars = a.n_scalars + b.n_scalars;
  if (object->size <= 128) Flatten(*object);
  return Value::Of(ValueKind::kString, object, left.owner());
}

void Heap::FlattenParts(const Text& text) {
  char* bytes = static_cast<char*>(Allocate(text.size));
  uint64_t at = text.size;
  // From its end: a text that grew piece by piece is deep on its left, which needs no stack then.
  std::vector<Segment> more;
  std::array<Segment, 8> few;
  size_t n = 0;  // in reverse; `end` is where a part begins
  const auto own = [&](uint64_t begin, Owner owner) {
    Segment* last = n == 0 ? nullptr : n <= few.size() ? &few[n - 1] : &more.back();
    if (last != nullptr && last->owner == owner) {
      last->end = begin;
    } else if (n++ < few.size()) {
      few[n - 1] = {begin, owner};
    } else {
      more.push_back({begin, owner});
    }
  };
  const auto write = [&](const Text& piece) {
    at -= piece.size;
    if (piece.size > 0) std::memcpy(bytes + at, piece.data, piece.size);
    if (piece.segments == nullptr) {
      if (piece.size > 0) own(at, piece.owner);
    } else {
      for (uint32_t i = piece.n_segments; i-- > 0;)
        own(at + (i > 0 ? piece.segments[i - 1].end : 0), piece.segments[i].owner);
    }
  };
  std::vector<const Text*> pending;
  const Text* part = &text;
  for (;;) {
    if (part->data == nullptr && part->left != nullptr) {
      if (part->right->data != nullptr || part->right->left == nullptr) {
        write(*part->right);
        part = part->left;
      } else {
        pending.push_back(part->left);
        part = part->right;
      }
      continue;
    }
    write(*part);
    if (pending.empty()) break;
    part = pending.back();
    pending.pop_back();
  }
  text.data = bytes;
  text.left = nullptr;
  text.right = nullptr;
  const auto nth = [&](size_t i) { return i < few.size() ? few[i] : more[i - few.size()]; };
  const_cast<Text&>(text).owner = nth(n - 1).owner;
  if (n <= 1) return;
  auto* kept = static_cast<Segment*>(Allocate(n * sizeof(Segment)));
  for (size_t i = 0; i < n; ++i) kept[i] = {i + 1 < n ? nth(n - 2 - i).end : text.size, nth(n - 1 - i).owner};
  text.segments = kept;
  text.n_segments = static_cast<uint32_t>(n);
}

Value Heap::List(const Value* items, size_t n, Owner owner) {
  auto* kept = static_cast<Value*>(Allocate(n * sizeof(Value)));
  uint32_t depth = 1;
  for (size_t i = 0; i < n; ++i) {
    ::new (kept + i) Value(items[i]);
    depth = std::max(depth, Depth(items[i]) + 1);
  }
  return Value::Of(ValueKind::kList, New<ListObject>(kept, n, depth), owner);
}

Value Heap::List(const std::vector<Value>& items, Owner owner) {
  return List(items.data(), items.size(), owner);
}

Value Heap::Tuple(const std::vector<Value>& items) {
  return Value::Of(ValueKind::kTuple, List(items).address());
}

Value Heap::Dict(const std::vector<DictEntry>& entries, Owner owner) {
  return Dict(entries.data(), entries.size(), owner);
}

Value Heap::Dict(const DictEntry* entries, size_t n, Owner owner) {
  DictObject* dict = New<DictObject>();
  auto* kept = static_cast<DictEntry*>(Allocate(n * sizeof(DictEntry)));
  for (size_t i = 0; i < n; ++i) {
    ::new (kept + i) DictEntry(entries[i]);
    dict->depth = std::max({dict->depth, Depth(entries[i].value) + 1, Depth(entries[i].key) + 1});
  }
  dict->entries = kept;
  dict->size = n;
  if (n > 8) {
    dict->n_slots = std::bit_ceil(static_cast<uint32_t>(n) * 2);
    auto* index = static_cast<uint32_t*>(Allocate(dict->n_slots * sizeof(uint32_t)));
    std::fill(index, index + dict->n_slots, 0u);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t slot = static_cast<uint32_t>(Hash(kept[i].key)) & (dict->n_slots - 1);
      while (index[slot] != 0) slot = (slot + 1) & (dict->n_slots - 1);
      index[slot] = i + 1;
    }
    dict->index = index;
  }
  return Value::Of(ValueKind::kDict, dict, owner);
}

Value Heap::Undefined(UndefinedInfo info) {
  return Value::Of(ValueKind::kUndefined, New<UndefinedInfo>(info));
}

Value Heap::NoMember(const Value& object, std::string_view name) {
  const auto bits = reinterpret_cast<uintptr_t>(object.address()) ^ reinterpret_cast<uintptr_t>(name.data());
  Value& held = absent_[(bits >> 4U) % absent_.size()];
  if (held.is_undefined()) {
    const UndefinedInfo& info = *held.undefined();
    if (info.text.data() == name.data() && info.text.size() == name.size() &&
        info.object.kind() == object.kind() && info.object.address() == object.address()) {
      return held;
    }
  }
  const Value made = Undefined({UndefinedInfo::Kind::kAttribute, false, name, object, {}});
  if (n_unkept_ == 0) held = made;
  return made;
}

Value Heap::NewNamespace() {
  namespaces_.push_back(std::make_unique<std::vector<std::pair<Value, Value>>>());
  return Value::Of(ValueKind::kNamespace, New<NamespaceObject>(namespaces_.back().get()));
}

Heap::Namespaces Heap::SaveNamespaces() const {
  Namespaces saved;
  saved.reserve(namespaces_.size());
  for (const auto& members : namespaces_) saved.push_back(*members);
  return saved;
}

void Heap::RestoreNamespaces(const Namespaces& saved) {
  for (size_t i = 0; i < saved.size(); ++i) *namespaces_[i] = saved[i];
}

bool TruthOf(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kError:
    case ValueKind::kMissing:
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
    case ValueKind::kInteger:
      return value.integer() != 0;
    case ValueKind::kFloat:
      return value.real() != 0;
    case ValueKind::kString:
      return value.text().size != 0;
    case ValueKind::kList:
    case ValueKind::kTuple:
      return value.list().size != 0;
    case ValueKind::kDict:
    case ValueKind::kDictKeys:
    case ValueKind::kDictValues:
    case ValueKind::kDictItems:
      return value.dict().size != 0;
    case ValueKind::kRange:
      return value.range().length != 0;
    default:
      return true;
  }
}

namespace {

bool SameItems(const ListObject& a, const ListObject& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), Equal);
}

bool SameMembers(const DictObject& a, const DictObject& b) {
  if (a.size != b.size) return false;
  return std::all_of(a.begin(), a.end(), [&b](const DictEntry& entry) {
    const Value* other = Find(b, entry.key);
    return other != nullptr && Equal(entry.value, *other);
  });
}

bool SameRange(const RangeObject& a, const RangeObject& b) {
  if (a.length != b.length || a.length == 0) return a.length == b.length;
  return a.start == b.start && (a.length == 1 || a.step == b.step);
}

bool SameUndefined(const Value& a, const Value& b) {
  return a.is_undefined() && b.is_undefined();
}

uint64_t Mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  return value;
}

uint64_t HashBytes(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return Mix(hash);
}

}  // namespace

bool Equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right) == Ordering::kEqual;
  if (left.kind() != right.kind()) {
    // The views of keys and items compare as sets.
    if ((left.kind() == ValueKind::kDictKeys || left.kind() == ValueKind::kDictItems) &&
        (right.kind() == ValueKind::kDictKeys || right.kind() == ValueKind::kDictItems)) {
      return left.dict().size == 0 && right.dict().size == 0;
    }
    return false;
  }
  switch (left.kind()) {
    case ValueKind::kUndefined:
      return SameUndefined(left, right);
    case ValueKind::kNone:
      return true;
    case ValueKind::kString:
      return SameBytes(left.view(), right.view());
    case ValueKind::kList:
    case ValueKind::kTuple:
      return left.address() == right.address() || SameItems(left.list(), right.list());
    case ValueKind::kDict:
      return left.address() == right.address() || SameMembers(left.dict(), right.dict());
    case ValueKind::kDictKeys: {
      const DictObject& other = right.dict();
      return left.dict().size == other.size &&
             std::all_of(left.dict().begin(), left.dict().end(),
                         [&other](const DictEntry& entry) { return Find(other, entry.key) != nullptr; });
    }
    case ValueKind::kDictItems:
      return SameMembers(left.dict(), right.dict());
    case ValueKind::kRange:
      return SameRange(left.range(), right.range());
    case ValueKind::kFunction:
      return left.integer() == right.integer();
    case ValueKind::kMethod:
      return left.object<MethodObject>().id == right.object<MethodObject>().id &&
             left.object<MethodObject>().receiver.address() ==
                 right.object<MethodObject>().receiver.address();
    default:
      return left.address() == right.address();
  }
}

uint64_t Hash(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kBool:
    case ValueKind::kInteger:
      return Mix(static_cast<uint64_t>(value.integer()));
    case ValueKind::kFloat: {
      const double number = value.real();
      if (std::trunc(number) == number && number >= -9.2e18 && number <= 9.2e18) {
        return Mix(static_cast<uint64_t>(static_cast<int64_t>(number)));
      }
      return std::isfinite(number) && std::trunc(number) == number ? 17
                                                                   : Mix(std::bit_cast<uint64_t>(number));
    }
    case ValueKind::kBigInteger:
      return 17;  // an integral double beyond 64 bits has the same
    case ValueKind::kString:
      return HashBytes(value.view());
    case ValueKind::kTuple: {
      uint64_t hash = 0x345678;
      for (const Value& item : value.list()) hash = Mix(hash ^ Hash(item)) + 97531;
      return hash;
    }
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return static_cast<uint64_t>(value.kind());
    case ValueKind::kRange:
      return Mix(static_cast<uint64_t>(value.range().length));
    case ValueKind::kFunction:
      return Mix(static_cast<uint64_t>(value.integer()) + 31);
    case ValueKind::kMethod:
      return Mix(value.object<MethodObject>().id);
    default:
      return Mix(reinterpret_cast<uintptr_t>(value.address()));
  }
}

const char* FindUnhashable(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kList:
      return "list";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kDictKeys:
      return "dict_keys";
    case ValueKind::kDictItems:
      return "dict_items";
    case ValueKind::kTuple:
      for (const Value& item : value.list()) {
        if (const char* name = FindUnhashable(item)) return name;
      }
      return nullptr;
    default:
      return nullptr;
  }
}

const Value* FindByHash(const DictObject& dict, std::string_view key) {
  uint32_t slot = static_cast<uint32_t>(HashBytes(key)) & (dict.n_slots - 1);
  for (; dict.index[slot] != 0; slot = (slot + 1) & (dict.n_slots - 1)) {
    const DictEntry& entry = dict.entries[dict.index[slot] - 1];
    if (entry.key.is_string() && SameBytes(entry.key.view(), key)) return &entry.value;
  }
  return nullptr;
}

const Value* Find(const DictObject& dict, const Value& key) {
  if (key.is_string()) return Find(dict, key.view());
  if (dict.index == nullptr) {
    for (const DictEntry& entry : dict) {
      if (Equal(entry.key, key)) return &entry.value;
    }
    return nullptr;
  }
  uint32_t slot = static_cast<uint32_t>(Hash(key)) & (dict.n_slots - 1);
  for (; dict.index[slot] != 0; slot = (slot + 1) & (dict.n_slots - 1)) {
    const DictEntry& entry = dict.entries[dict.index[slot] - 1];
    if (Equal(entry.key, key)) return &entry.value;
  }
  return nullptr;
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kError:
    case ValueKind::kMissing:
      return "object";
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInteger:
    case ValueKind::kBigInteger:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kString:
      return value.is_markup() ? "Markup" : "str";
    case ValueKind::kList:
      return "list";
    case ValueKind::kTuple:
      return value.is_group() ? "_GroupTuple" : "tuple";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kRange:
      return "range";
    case ValueKind::kDictKeys:
      return "dict_keys";
    case ValueKind::kDictValues:
      return "dict_values";
    case ValueKind::kDictItems:
      return "dict_items";
    case ValueKind::kIterator:
      return value.object<IteratorObject>().TypeName();
    case ValueKind::kNamespace:
      return "TemplateNamespace";
    case ValueKind::kLoop:
      return "LoopContext";
    case ValueKind::kMacro:
      return "Macro";
    case ValueKind::kMethod:
      return "builtin_function_or_method";
    case ValueKind::kFunction:
      return value.integer() == 7 ? "TemplateReference" : value.integer() == 0 ? "TemplateDict" : "function";
    case ValueKind::kCycler:
      return "Cycler";
    case ValueKind::kJoiner:
      return "Joiner";
  }
  return "object";
}

uint32_t Depth(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kList:
    case ValueKind::kTuple:
      return value.list().depth;
    case ValueKind::kDict:
    case ValueKind::kDictKeys:
    case ValueKind::kDictValues:
    case ValueKind::kDictItems:
      return value.dict().depth;
    case ValueKind::kNamespace:
      return value.object<NamespaceObject>().depth;
    default:
      return 0;
  }
}

}  // namespace slm::chat
