#include "safetensors/header.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "base/checked.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "safetensors/header_scan.h"

namespace slm::safetensors {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kPrefixBytes = 8;

struct DtypeRow {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array<DtypeRow, 22> kDtypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

// Reads the entries of one parsed header. Holds references; lives for one call of ParseHeader.
class EntryReader {
 public:
  EntryReader(const Limits& limits, Header* header) : limits_(limits), header_(header) {}

  Status ReadAll(json::Value root) {
    for (json::Value entry : root.children()) {
      if (entry.key() == kMetadataKey) {
        SLM_TRY(ReadMetadata(entry));
      } else {
        SLM_TRY(ReadTensor(entry));
      }
    }
    return {};
  }
  // File offset of tensor i's data_offsets value.
  [[nodiscard]] uint64_t OffsetsAt(size_t i) const { return data_offsets_at_[i]; }

 private:
  static std::unexpected<Error> Refuse(ErrorCode code, uint64_t at, std::string_view name,
                                       std::string message) {
    return Fail(MakeError(code, std::move(message)).At(kPrefixBytes + at).Field(name));
  }

  Status ReadMetadata(json::Value entry) {
    if (!entry.is_object()) {
      return Refuse(ErrorCode::kSt007, entry.byte_offset(), kMetadataKey,
                    "__metadata__ must be an object of strings");
    }
    const auto shape = entry.Find("shape");
    const auto offsets = entry.Find("data_offsets");
    if ((shape && shape->is_array()) || (offsets && offsets->is_array())) {
      return Refuse(ErrorCode::kSt008, entry.key_byte_offset(), kMetadataKey,
                    "__metadata__ is a reserved name and cannot be a tensor");
    }
    uint64_t total_bytes = 0;
    for (json::Value member : entry.children()) {
      if (!member.is_string()) {
        return Refuse(ErrorCode::kSt007, member.byte_offset(), kMetadataKey,
                      "a value of __metadata__ is not a string");
      }
      total_bytes += member.key().size() + member.string().size();
      if (total_bytes > limits_.max_metadata_bytes) {
        return Refuse(ErrorCode::kSt007, member.byte_offset(), kMetadataKey,
                      "__metadata__ is longer than " + std::to_string(limits_.max_metadata_bytes) + " bytes");
      }
      header_->metadata.emplace_back(std::string(member.key()), std::string(member.string()));
    }
    return {};
  }

  Status ReadTensor(json::Value entry) {
    const uint64_t key_at = entry.key_byte_offset();
    const std::string name(entry.key());
    if (header_->tensors.size() == limits_.max_tensors) {
      return Refuse(ErrorCode::kSt019, key_at, name,
                    "more than " + std::to_string(limits_.max_tensors) + " tensors");
    }
    SLM_TRY(CheckName(name, key_at));
    SLM_TRY(CheckMembers(entry, name));
    TensorInfo tensor;
    tensor.name = name;
    tensor.header_offset = kPrefixBytes + key_at;

    const json::Value dtype = *entry.Find("dtype");
    const auto bits = dtype.is_string() ? DtypeBits(dtype.string()) : std::nullopt;
    if (!bits) {
      return Refuse(ErrorCode::kSt010, dtype.byte_offset(), name,
                    "dtype " + std::string(dtype.source_text().substr(0, 64)) + " is not one of the format");
    }
    tensor.dtype = dtype.string();
    const json::Value shape = *entry.Find("shape");
    SLM_ASSIGN(const uint64_t size_bytes, ReadShape(shape, *bits, &tensor));
    const json::Value offsets = *entry.Find("data_offsets");
    SLM_TRY(ReadOffsets(offsets, size_bytes, &tensor));
    data_offsets_at_.push_back(kPrefixBytes + offsets.byte_offset());
    header_->tensors.push_back(std::move(tensor));
    return {};
  }

  Status CheckName(const std::string& name, uint64_t key_at) const {
    if (name.empty() || name.size() > limits_.max_name_bytes) {
      return Refuse(ErrorCode::kSt019, key_at, name,
                    "a tensor name has 1 to " + std::to_string(limits_.max_name_bytes) + " bytes");
    }
    for (size_t position = 0; position < name.size();) {
      const char32_t scalar = DecodeUtf8(name, &position);
      if (scalar < 0x20 || (scalar >= 0x7f && scalar <= 0x9f)) {
        return Refuse(ErrorCode::kSt019, key_at, name, "a tensor name holds a control character");
      }
    }
    return {};
  }

  static Status CheckMembers(json::Value entry, const std::string& name) {
    if (!entry.is_object()) {
      return Refuse(ErrorCode::kSt009, entry.byte_offset(), name, "a tensor entry must be an object");
    }
    for (json::Value member : entry.children()) {
      const std::string_view key = member.key();
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        return Refuse(ErrorCode::kSt009, member.key_byte_offset(), name,
                      "member " + std::string(key.substr(0, 64)) + " is not part of the format");
      }
    }
    if (entry.size() != 3) {
      return Refuse(ErrorCode::kSt009, entry.byte_offset(), name,
                    "a tensor entry has exactly dtype, shape, data_offsets");
    }
    return {};
  }

  // Fills tensor->shape; the result is the size in bytes.
  Result<uint64_t> ReadShape(json::Value shape, uint32_t bits, TensorInfo* tensor) const {
    if (!shape.is_array()) {
      return Refuse(ErrorCode::kSt011, shape.byte_offset(), tensor->name, "shape must be a list of integers");
    }
    if (shape.size() > limits_.max_rank) {
      return Refuse(ErrorCode::kSt011, shape.byte_offset(), tensor->name,
                    "rank above " + std::to_string(limits_.max_rank));
    }
    std::optional<uint64_t> elements = 1;
    std::optional<uint64_t> first_too_large_at;
    for (json::Value dimension : shape.children()) {
      const auto value = dimension.AsUint();
      if (!value) {
        return Refuse(ErrorCode::kSt011, dimension.byte_offset(), tensor->name,
                      "a dimension is not a plain non-negative integer");
      }
      if (*value > limits_.max_dimension && !first_too_large_at) first_too_large_at = dimension.byte_offset();
      tensor->shape.push_back(*value);
      if (elements) elements = CheckedMul(*elements, *value);
    }
    const auto total_bits = elements ? CheckedMul(*elements, bits) : std::nullopt;
    if (!total_bits) {
      return Refuse(ErrorCode::kSt012, shape.byte_offset(), tensor->name, "the size of this shape overflows");
    }
    if (first_too_large_at) {
      return Refuse(ErrorCode::kSt011, *first_too_large_at, tensor->name,
                    "a dimension above " + std::to_string(limits_.max_dimension));
    }
    if (*total_bits % 8 != 0) {
      return Refuse(ErrorCode::kSt013, shape.byte_offset(), tensor->name,
                    "the tensor is not a whole number of bytes");
    }
    if (tensor->shape.empty() && !limits_.allow_rank_0) {
      return Refuse(ErrorCode::kSt018, shape.byte_offset(), tensor->name,
                    "the profile allows no rank-0 tensor");
    }
    if (*elements == 0 && !limits_.allow_zero_size) {
      return Refuse(ErrorCode::kSt018, shape.byte_offset(), tensor->name,
                    "the profile allows no empty tensor");
    }
    return *total_bits / 8;
  }

  Status ReadOffsets(json::Value offsets, uint64_t size_bytes, TensorInfo* tensor) const {
    if (!offsets.is_array() || offsets.size() != 2) {
      return Refuse(ErrorCode::kSt014, offsets.byte_offset(), tensor->name,
                    "data_offsets must be a list of two integers");
    }
    for (json::Value offset : offsets.children()) {
      if (!offset.AsUint()) {
        return Refuse(ErrorCode::kSt014, offset.byte_offset(), tensor->name,
                      "a data offset is not a plain non-negative integer");
      }
    }
    const json::Value begin = *offsets.First();
    const json::Value end = *begin.Next();
    tensor->begin = *begin.AsUint();
    tensor->end = *end.AsUint();
    if (tensor->begin > tensor->end) {
      return Refuse(ErrorCode::kSt014, offsets.byte_offset(), tensor->name, "data_offsets are reversed");
    }
    if (tensor->end - tensor->begin != size_bytes) {
      return Refuse(ErrorCode::kSt014, offsets.byte_offset(), tensor->name,
                    "data_offsets span " + std::to_string(tensor->end - tensor->begin) +
                        " bytes, dtype and shape need " + std::to_string(size_bytes));
    }
    if (!CheckedAdd(header_->data_offset, tensor->end)) {
      return Refuse(ErrorCode::kSt022, end.byte_offset(), tensor->name,
                    "the tensor's place in the file overflows");
    }
    return {};
  }

  const Limits& limits_;
  Header* header_;
  std::vector<uint64_t> data_offsets_at_;
};

// ST-015, ST-016: the tensors tile the data area exactly.
Status CheckLayout(const Header& header, const EntryReader& reader, uint64_t file_size) {
  std::vector<size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TensorInfo& x = header.tensors[a];
    const TensorInfo& y = header.tensors[b];
    return std::tuple(x.begin, x.end, a) < std::tuple(y.begin, y.end, b);
  });
  uint64_t covered = 0;
  for (size_t i : order) {
    const TensorInfo& tensor = header.tensors[i];
    if (tensor.begin != covered) {
      const std::string what =
          tensor.begin < covered ? "overlaps the tensor before it" : "leaves a hole before it";
      return Fail(MakeError(ErrorCode::kSt015, "the tensor begins at data byte " +
                                                   std::to_string(tensor.begin) + ", expected " +
                                                   std::to_string(covered) + ": it " + what)
                      .At(reader.OffsetsAt(i))
                      .Field(tensor.name));
    }
    covered = tensor.end;
  }
  const uint64_t data_bytes = file_size - header.data_offset;
  if (covered == data_bytes) return {};
  const std::string last = order.empty() ? std::string() : header.tensors[order.back()].name;
  if (covered < data_bytes) {
    return Fail(MakeError(ErrorCode::kSt016, std::to_string(data_bytes - covered) +
                                                 " bytes follow the last tensor; they belong to nothing")
                    .At(header.data_offset + covered)
                    .Field(last));
  }
  return Fail(MakeError(ErrorCode::kSt016, "the file ends " + std::to_string(covered - data_bytes) +
                                               " bytes before the last tensor does; fetch it again")
                  .At(file_size)
                  .Field(last));
}

// ST-017: the reference writer aligns, its reader does not ask for it. Accepted and recorded.
void FlagAlignment(Header* header) {
  if (header->data_offset % 8 != 0) {
    header->flags.push_back("ST-017: the data area begins at byte " + std::to_string(header->data_offset) +
                            ", not at a multiple of 8");
  }
  uint64_t misaligned = 0;
  const TensorInfo* first = nullptr;
  for (const TensorInfo& tensor : header->tensors) {
    const uint64_t element_bytes = std::max<uint64_t>(1, *DtypeBits(tensor.dtype) / 8);
    if (tensor.begin % element_bytes == 0) continue;
    if (first == nullptr) first = &tensor;
    ++misaligned;
  }
  if (first != nullptr) {
    header->flags.push_back("ST-017: tensor " + EscapeForDisplay(first->name) + " begins at data byte " +
                            std::to_string(first->begin) + ", not a multiple of its element size (" +
                            std::to_string(misaligned) + " such tensors)");
  }
}

// A refusal of the JSON reader, in this format's codes and the file's offsets.
Error FromJsonError(const Error& inner, std::string_view json_text) {
  const uint64_t at = inner.byte_offset.value_or(0);
  ErrorCode code = ErrorCode::kSt005;
  uint64_t offset = at;
  if (inner.code == ErrorCode::kJsonDupKey) {
    code = ErrorCode::kSt006;
  } else if (const auto number_at = LeadingZeroDimension(json_text, at)) {
    code = ErrorCode::kSt011;
    offset = *number_at;
  }
  std::string message = "the header is not strict JSON: " + inner.message;
  if (code == ErrorCode::kSt006) message = "a key stands twice: " + inner.message;
  if (code == ErrorCode::kSt011) message = "a dimension is written with a leading zero";
  return MakeError(code, std::move(message)).At(kPrefixBytes + offset).Field(TopLevelKeyAt(json_text, at));
}

}  // namespace

const TensorInfo* Header::Find(std::string_view name) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::optional<uint32_t> DtypeBits(std::string_view dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == dtype) return row.bits;
  }
  return std::nullopt;
}

Result<uint64_t> HeaderEnd(ByteSpan first_bytes, uint64_t file_size, const Limits& limits) {
  if (file_size < kPrefixBytes || first_bytes.size() < kPrefixBytes) {
    return Fail(
        MakeError(ErrorCode::kSt001, "a safetensors file begins with an 8-byte length; this one has " +
                                         std::to_string(file_size) + " bytes")
            .At(std::min<uint64_t>(file_size, first_bytes.size())));
  }
  const uint64_t header_bytes = LoadLe<uint64_t>(first_bytes.data());
  if (header_bytes > file_size - kPrefixBytes) {
    return Fail(MakeError(ErrorCode::kSt002, "the header length " + std::to_string(header_bytes) +
                                                 " reaches beyond the file of " + std::to_string(file_size) +
                                                 " bytes")
                    .At(0));
  }
  if (header_bytes > limits.max_header_bytes) {
    return Fail(MakeError(ErrorCode::kSt002, "the header length " + std::to_string(header_bytes) +
                                                 " is above the limit of " +
                                                 std::to_string(limits.max_header_bytes) + " bytes")
                    .At(0));
  }
  return kPrefixBytes + header_bytes;
}

Result<Header> ParseHeader(ByteSpan first_bytes, uint64_t file_size, const Limits& limits) {
  SLM_ASSIGN(const uint64_t header_end, HeaderEnd(first_bytes, file_size, limits));
  if (first_bytes.size() < header_end) {
    return Fail(ErrorCode::kInternal, "ParseHeader was given fewer bytes than the header has");
  }
  std::string_view text = AsText(first_bytes.subspan(kPrefixBytes, header_end - kPrefixBytes));
  Header header;
  header.data_offset = header_end;
  size_t blanks = 0;
  if (limits.allow_leading_blanks) {
    blanks = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    if (blanks != 0) header.flags.emplace_back("ST-003: blanks before the header's JSON");
  }
  if (blanks == text.size() || text[blanks] != '{') {
    return Fail(
        MakeError(ErrorCode::kSt003, "the header's JSON must begin with {").At(kPrefixBytes + blanks));
  }
  // The JSON ends at its closing brace; after it stand spaces only. A fault inside comes first.
  const size_t json_end = RootObjectEnd(text.substr(blanks)) + blanks;
  json::Limits json_limits;
  json_limits.max_bytes = limits.max_header_bytes;
  json_limits.max_depth = 16;
  auto document = json::Parse(std::string(text.substr(0, json_end)), json_limits);
  if (!document) return Fail(FromJsonError(document.error(), text.substr(0, json_end)));
  const size_t stray = text.find_first_not_of(' ', json_end);
  if (stray != std::string_view::npos) {
    return Fail(MakeError(ErrorCode::kSt004, "after the header's JSON only spaces may stand")
                    .At(kPrefixBytes + stray));
  }
  EntryReader reader(limits, &header);
  SLM_TRY(reader.ReadAll(document->root()));
  SLM_TRY(CheckLayout(header, reader, file_size));
  FlagAlignment(&header);
  return header;
}

}  // namespace slm::safetensors
