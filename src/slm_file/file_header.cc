#include "slm_file/file_header.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "codec/crc32c.h"
#include "codec/sha256.h"

namespace slm {
namespace {

// 0x93 is not UTF-8, CR LF and 0x1A are changed or end a file in text transfers.
constexpr std::array<uint8_t, 8> kMagic = {0x93, 0x53, 0x4c, 0x4d, 0x0d, 0x0a, 0x1a, 0x0a};
constexpr std::array<uint8_t, 4> kEndMagic = {0x1a, 0x53, 0x4c, 0x4d};
constexpr uint8_t kChunkLog2 = 20;
constexpr uint8_t kAlignLog2 = 8;

// Offsets of the fields.
constexpr uint64_t kMajorAt = 8, kMinorAt = 10, kHeaderSizeAt = 12, kFileSizeAt = 16, kManifestOffsetAt = 24,
                   kManifestSizeAt = 32, kTableOffsetAt = 40, kTableSizeAt = 48, kDataOffsetAt = 56,
                   kDataSizeAt = 64, kChunkLog2At = 72, kAlignLog2At = 74, kFlagsAt = 76,
                   kManifestHashAt = 80, kTableHashAt = 112, kReservedAt = 144, kCrcAt = 184,
                   kEndMagicAt = 188;

Error HeaderError(ErrorCode code, uint64_t at, std::string message) {
  return MakeError(code, std::move(message)).At(at).Field("header");
}

// What people most often give in place of a .slm file.
std::string_view LooksLike(ByteSpan bytes) {
  const std::string_view text = AsText(bytes);
  if (text.empty()) return "the file is empty";
  if (text.starts_with("GGUF")) return "this is a GGUF file";
  if (text.starts_with("PK")) return "this is a ZIP archive or a PyTorch checkpoint";
  if (text.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer: fetch the file it stands for";
  if (text.size() > 8 && text[8] == '{') return "this looks like a safetensors file";
  if (text.front() == '<') return "this looks like an HTML page: was the download refused?";
  if (text.front() == '{') return "this looks like a JSON file";
  return "";
}

Status CheckFixed(ByteSpan bytes, uint64_t file_size) {
  if (bytes.size() < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    std::string message = "not a .slm file, or damaged by a text transfer";
    if (const std::string_view kind = LooksLike(bytes); !kind.empty()) message.append("; ").append(kind);
    return Fail(HeaderError(ErrorCode::kSlmMagic, 0, std::move(message)));
  }
  if (file_size < kSlmHeaderSize || bytes.size() < kSlmHeaderSize) {
    return Fail(HeaderError(ErrorCode::kSlmSize, file_size, "the file ends inside its header of 192 bytes"));
  }
  const auto major = LoadLe<uint16_t>(&bytes[kMajorAt]);
  if (major != kSlmMajor) {
    return Fail(HeaderError(ErrorCode::kSlmVersion, kMajorAt,
                            "major version " + std::to_string(major) + "; this program reads version 1"));
  }
  if (LoadLe<uint32_t>(&bytes[kHeaderSizeAt]) != kSlmHeaderSize) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kHeaderSizeAt, "header_size must be 192"));
  }
  const auto stated = LoadLe<uint64_t>(&bytes[kFileSizeAt]);
  if (stated != file_size) {
    return Fail(HeaderError(
        ErrorCode::kSlmSize, kFileSizeAt,
        "the header says " + std::to_string(stated) + " bytes, the file has " + std::to_string(file_size)));
  }
  for (uint64_t at = kReservedAt; at < kCrcAt; ++at) {
    if (bytes[at] != 0) return Fail(HeaderError(ErrorCode::kSlmReserved, at, "a reserved byte is not zero"));
  }
  if (LoadLe<uint32_t>(&bytes[kFlagsAt]) != 0) {
    return Fail(HeaderError(ErrorCode::kSlmFlag, kFlagsAt, "an unknown required flag is set"));
  }
  if (LoadLe<uint16_t>(&bytes[kChunkLog2At]) != kChunkLog2) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kChunkLog2At, "chunk_log2 must be 20"));
  }
  if (LoadLe<uint16_t>(&bytes[kAlignLog2At]) != kAlignLog2) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kAlignLog2At, "tensor_align_log2 must be 8"));
  }
  return {};
}

Status CheckRegion(ByteSpan bytes, uint64_t offset_at, uint64_t size_at, uint64_t alignment,
                   uint64_t file_size) {
  const auto offset = LoadLe<uint64_t>(&bytes[offset_at]);
  const auto size = LoadLe<uint64_t>(&bytes[size_at]);
  const std::optional<uint64_t> end = CheckedAdd(offset, size);
  if (!end || *end > file_size) {
    return Fail(HeaderError(ErrorCode::kSlmRange, offset_at, "the region does not lie inside the file"));
  }
  if (offset % alignment != 0) {
    return Fail(HeaderError(ErrorCode::kSlmAlign, offset_at,
                            "the region does not begin at a multiple of " + std::to_string(alignment)));
  }
  return {};
}

}  // namespace

std::optional<FileHeader> PlaceRegions(uint64_t manifest_size, uint64_t data_size) {
  if (manifest_size == 0 || manifest_size > kSlmMaxManifest || data_size == 0 ||
      data_size > (uint64_t{1} << 52)) {
    return std::nullopt;
  }
  FileHeader header;
  header.manifest_size = manifest_size;
  header.table_offset = *CheckedAlignUp(kSlmHeaderSize + manifest_size, kSlmTableAlign);
  header.table_size = 32 * ((data_size + kSlmChunkSize - 1) / kSlmChunkSize);
  header.data_offset = *CheckedAlignUp(header.table_offset + header.table_size, kSlmDataAlign);
  header.data_size = data_size;
  header.file_size = header.data_offset + data_size;
  return header;
}

std::array<uint8_t, kSlmHeaderSize> EncodeHeader(const FileHeader& header) {
  std::array<uint8_t, kSlmHeaderSize> bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  StoreLe<uint16_t>(&bytes[kMajorAt], kSlmMajor);
  StoreLe<uint16_t>(&bytes[kMinorAt], header.minor);
  StoreLe<uint32_t>(&bytes[kHeaderSizeAt], kSlmHeaderSize);
  StoreLe<uint64_t>(&bytes[kFileSizeAt], header.file_size);
  StoreLe<uint64_t>(&bytes[kManifestOffsetAt], kSlmHeaderSize);
  StoreLe<uint64_t>(&bytes[kManifestSizeAt], header.manifest_size);
  StoreLe<uint64_t>(&bytes[kTableOffsetAt], header.table_offset);
  StoreLe<uint64_t>(&bytes[kTableSizeAt], header.table_size);
  StoreLe<uint64_t>(&bytes[kDataOffsetAt], header.data_offset);
  StoreLe<uint64_t>(&bytes[kDataSizeAt], header.data_size);
  StoreLe<uint16_t>(&bytes[kChunkLog2At], kChunkLog2);
  StoreLe<uint16_t>(&bytes[kAlignLog2At], kAlignLog2);
  std::copy(header.manifest_sha256.begin(), header.manifest_sha256.end(), &bytes[kManifestHashAt]);
  std::copy(header.table_sha256.begin(), header.table_sha256.end(), &bytes[kTableHashAt]);
  StoreLe<uint32_t>(&bytes[kCrcAt], Crc32c(ByteSpan(bytes).first(kCrcAt)));
  std::copy(kEndMagic.begin(), kEndMagic.end(), &bytes[kEndMagicAt]);
  return bytes;
}

Result<FileHeader> DecodeHeader(ByteSpan bytes, uint64_t file_size) {
  SLM_TRY(CheckFixed(bytes, file_size));
  SLM_TRY(CheckRegion(bytes, kManifestOffsetAt, kManifestSizeAt, 1, file_size));
  SLM_TRY(CheckRegion(bytes, kTableOffsetAt, kTableSizeAt, kSlmTableAlign, file_size));
  SLM_TRY(CheckRegion(bytes, kDataOffsetAt, kDataSizeAt, kSlmDataAlign, file_size));
  FileHeader header;
  header.minor = LoadLe<uint16_t>(&bytes[kMinorAt]);
  header.file_size = file_size;
  header.manifest_size = LoadLe<uint64_t>(&bytes[kManifestSizeAt]);
  header.table_offset = LoadLe<uint64_t>(&bytes[kTableOffsetAt]);
  header.table_size = LoadLe<uint64_t>(&bytes[kTableSizeAt]);
  header.data_offset = LoadLe<uint64_t>(&bytes[kDataOffsetAt]);
  header.data_size = LoadLe<uint64_t>(&bytes[kDataSizeAt]);
  const std::optional<FileHeader> placed = PlaceRegions(header.manifest_size, header.data_size);
  if (!placed) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kManifestSizeAt,
                            "manifest of 0 or more than 16777216 bytes, or data region empty or too large"));
  }
  if (header.table_size != placed->table_size) {
    return Fail(HeaderError(ErrorCode::kSlmTable, kTableSizeAt,
                            "the chunk table has " + std::to_string(header.table_size) + " bytes, " +
                                std::to_string(placed->table_size) + " follow from the data region"));
  }
  if (LoadLe<uint64_t>(&bytes[kManifestOffsetAt]) != kSlmHeaderSize) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kManifestOffsetAt, "the manifest must begin at byte 192"));
  }
  if (header.table_offset != placed->table_offset) {
    return Fail(
        HeaderError(ErrorCode::kSlmLayout, kTableOffsetAt, "the chunk table must follow the manifest"));
  }
  if (header.data_offset != placed->data_offset || header.file_size != placed->file_size) {
    return Fail(HeaderError(ErrorCode::kSlmLayout, kDataOffsetAt,
                            "the data region must follow the chunk table and end the file"));
  }
  if (LoadLe<uint32_t>(&bytes[kCrcAt]) != Crc32c(bytes.first(kCrcAt))) {
    return Fail(HeaderError(ErrorCode::kSlmCrc, kCrcAt, "the header's checksum differs"));
  }
  if (!std::equal(kEndMagic.begin(), kEndMagic.end(), &bytes[kEndMagicAt])) {
    return Fail(HeaderError(ErrorCode::kSlmMagic, kEndMagicAt, "the header does not end in its magic"));
  }
  std::copy_n(&bytes[kManifestHashAt], 32, header.manifest_sha256.begin());
  std::copy_n(&bytes[kTableHashAt], 32, header.table_sha256.begin());
  return header;
}

Hash256 ArtifactRoot(ByteSpan header) {
  Sha256 hash;
  hash.Update(AsBytes("slm-artifact-v1\n"));
  hash.Update(header.first(kSlmHeaderSize));
  return hash.Finish();
}

}  // namespace slm
