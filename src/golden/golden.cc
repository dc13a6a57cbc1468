#include "golden/golden.h"

#include <bit>
#include <cstring>

#include "codec/sha256.h"
#include "golden/golden_internal.h"

namespace slm::golden {
namespace {

// Names in the order of the enumerators.
constexpr std::array<std::string_view, 5> kModes = {"source", "reference", "truth", "mixed", "candidate"};
constexpr std::array<std::string_view, 6> kDTypes = {"f32", "f64", "bf16", "u32", "u8", "bits"};
constexpr std::array<std::string_view, 3> kLayouts = {"row_major", "packed_causal", "packed_bits"};
constexpr std::array<std::string_view, 4> kInputKinds = {"utf8", "bytes", "token_ids", "messages"};
constexpr std::array<std::string_view, 2> kCaseClasses = {"public_mechanical", "private_behavior_commitment"};

template <typename Enum, size_t N>
std::optional<Enum> FindName(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// True if `bytes` can be read in place as an array of T.
template <typename T>
bool IsViewable(ByteSpan bytes) {
  return std::endian::native == std::endian::little &&
         std::bit_cast<uintptr_t>(bytes.data()) % alignof(T) == 0;
}

template <typename T>
std::span<const T> View(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

float F32At(ByteSpan bytes, size_t index) {
  return std::bit_cast<float>(LoadLe<uint32_t>(bytes.data() + 4 * index));
}

float Bf16At(ByteSpan bytes, size_t index) {
  return std::bit_cast<float>(static_cast<uint32_t>(LoadLe<uint16_t>(bytes.data() + 2 * index)) << 16);
}

}  // namespace

std::string_view ModeName(Mode mode) {
  return kModes[static_cast<size_t>(mode)];
}
std::string_view DTypeName(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}
std::string_view LayoutName(Layout layout) {
  return kLayouts[static_cast<size_t>(layout)];
}
std::string_view InputKindName(InputKind kind) {
  return kInputKinds[static_cast<size_t>(kind)];
}
std::string_view CaseClassName(CaseClass c) {
  return kCaseClasses[static_cast<size_t>(c)];
}
std::optional<Mode> ModeOf(std::string_view name) {
  return FindName<Mode>(kModes, name);
}
std::optional<DType> DTypeOf(std::string_view name) {
  return FindName<DType>(kDTypes, name);
}
std::optional<Layout> LayoutOf(std::string_view name) {
  return FindName<Layout>(kLayouts, name);
}
std::optional<InputKind> InputKindOf(std::string_view name) {
  return FindName<InputKind>(kInputKinds, name);
}
std::optional<CaseClass> CaseClassOf(std::string_view name) {
  return FindName<CaseClass>(kCaseClasses, name);
}

const Observation* Case::Find(std::string_view name) const {
  for (const Observation& observation : observations) {
    if (observation.name == name) return &observation;
  }
  return nullptr;
}

const Case* Content::FindCase(std::string_view case_id) const {
  for (const Case& one : cases) {
    if (one.case_id == case_id) return &one;
  }
  return nullptr;
}

const ConfigField* Content::FindConfig(std::string_view name) const {
  for (const ConfigField& field : effective_config) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

ByteSpan Golden::BlobBytes(uint64_t index) const {
  const Blob& blob = blobs_[static_cast<size_t>(index)];
  return bytes_.subspan(static_cast<size_t>(blob.offset), static_cast<size_t>(blob.size));
}

const Attachment* Golden::FindAttachment(std::string_view name) const {
  for (const Attachment& attachment : content_.attachments) {
    if (attachment.name == name) return &attachment;
  }
  return nullptr;
}

const Observation* Golden::FindModelObservation(std::string_view name) const {
  for (const Observation& observation : content_.model_observations) {
    if (observation.name == name) return &observation;
  }
  return nullptr;
}

F32Values::F32Values(const Golden& golden, const Observation& observation) {
  const ByteSpan bytes = golden.BlobBytes(observation.blob);
  if (observation.dtype == DType::kF32 && IsViewable<float>(bytes)) {
    view_ = View<float>(bytes);
    return;
  }
  const bool is_bf16 = observation.dtype == DType::kBf16;
  copy_.resize(bytes.size() / (is_bf16 ? 2 : 4));
  for (size_t i = 0; i < copy_.size(); ++i) copy_[i] = is_bf16 ? Bf16At(bytes, i) : F32At(bytes, i);
  view_ = copy_;
}

F64Values::F64Values(const Golden& golden, const Observation& observation) {
  const ByteSpan bytes = golden.BlobBytes(observation.blob);
  if (observation.dtype == DType::kF64 && IsViewable<double>(bytes)) {
    view_ = View<double>(bytes);
    return;
  }
  switch (observation.dtype) {
    case DType::kF64:
      copy_.resize(bytes.size() / 8);
      for (size_t i = 0; i < copy_.size(); ++i) {
        copy_[i] = std::bit_cast<double>(LoadLe<uint64_t>(bytes.data() + 8 * i));
      }
      break;
    case DType::kBf16:
      copy_.resize(bytes.size() / 2);
      for (size_t i = 0; i < copy_.size(); ++i) copy_[i] = static_cast<double>(Bf16At(bytes, i));
      break;
    default:
      copy_.resize(bytes.size() / 4);
      for (size_t i = 0; i < copy_.size(); ++i) copy_[i] = static_cast<double>(F32At(bytes, i));
      break;
  }
  view_ = copy_;
}

std::vector<uint32_t> U32Values(const Golden& golden, const Observation& observation) {
  const ByteSpan bytes = golden.BlobBytes(observation.blob);
  std::vector<uint32_t> values(bytes.size() / 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = LoadLe<uint32_t>(bytes.data() + 4 * i);
  return values;
}

Bytes PackU32(std::span<const uint32_t> values) {
  Bytes bytes;
  bytes.reserve(values.size() * 4);
  for (const uint32_t value : values) AppendLe(&bytes, value);
  return bytes;
}

Hash256 RawOutputCommitment(const Generation& generation) {
  return Sha256Of(cbor::Encode(cbor::Map{{"stop_reason", generation.stop_reason},
                                         {"text", generation.text},
                                         {"tokens", PackU32(generation.tokens)}}));
}

}  // namespace slm::golden
