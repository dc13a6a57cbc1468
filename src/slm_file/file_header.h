// The 192-byte header of a .slm file (docs/spec/slm.md, "Header"). Pure functions.
#ifndef SLM_SLM_FILE_FILE_HEADER_H_
#define SLM_SLM_FILE_FILE_HEADER_H_

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"

namespace slm {

inline constexpr uint64_t kSlmHeaderSize = 192;
inline constexpr uint16_t kSlmMajor = 1;
inline constexpr uint16_t kSlmMinor = 0;
inline constexpr uint64_t kSlmMaxManifest = uint64_t{16} << 20;
inline constexpr uint64_t kSlmChunkSize = uint64_t{1} << 20;
inline constexpr uint64_t kSlmTableAlign = 64;
inline constexpr uint64_t kSlmDataAlign = 65536;
inline constexpr uint64_t kSlmBlobAlign = 256;

struct FileHeader {
  uint16_t minor = kSlmMinor;
  uint64_t file_size = 0;
  uint64_t manifest_size = 0;
  uint64_t table_offset = 0;
  uint64_t table_size = 0;
  uint64_t data_offset = 0;
  uint64_t data_size = 0;
  Hash256 manifest_sha256{};
  Hash256 table_sha256{};
};

// Offsets and sizes that follow from the sizes of manifest and data region. Nothing on overflow, or
// beyond the limits.
[[nodiscard]] std::optional<FileHeader> PlaceRegions(uint64_t manifest_size, uint64_t data_size);

[[nodiscard]] std::array<uint8_t, kSlmHeaderSize> EncodeHeader(const FileHeader& header);

// Checks every field and the checksum. `first_bytes`: at least the first min(192, file_size) bytes.
// Errors: SLM-MAGIC, -SIZE, -VERSION, -RESERVED, -FLAG, -RANGE, -ALIGN, -TABLE, -LAYOUT, -CRC, each at
// the offset of the field.
[[nodiscard]] Result<FileHeader> DecodeHeader(ByteSpan first_bytes, uint64_t file_size);

// SHA-256("slm-artifact-v1\n" || header). REQUIRES: 192 bytes.
[[nodiscard]] Hash256 ArtifactRoot(ByteSpan header);

}  // namespace slm

#endif  // SLM_SLM_FILE_FILE_HEADER_H_
