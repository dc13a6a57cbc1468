// The header of a safetensors file, read strictly (ACQ-06; rules ST-001 to ST-022 in
// docs/spec/acquisition.md).
//
// A file is: u64 little-endian N, N bytes of JSON padded with spaces, the data area. Nothing here
// reads files: callers hand over the first 8 + N bytes and the file's size. Every refusal carries
// the byte offset of the offending token in the FILE and the tensor's name in `field`.
// Sizes are uint64_t also where size_t is 32 bits (ST-022). Pure functions, any thread.
//
// Sources: the format's README and reference reader (safetensors/src/tensor.rs, May 2026); where
// the reader is laxer than its README (leading blanks, other trailing blanks, duplicate keys,
// extra members, null metadata) the README or the stricter rule holds.
#ifndef SLM_SAFETENSORS_HEADER_H_
#define SLM_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::safetensors {

struct Limits {
  uint64_t max_header_bytes = uint64_t{16} << 20;
  uint64_t max_tensors = 65536;
  uint64_t max_name_bytes = 512;
  uint64_t max_rank = 8;
  uint64_t max_dimension = (uint64_t{1} << 48) - 1;
  uint64_t max_metadata_bytes = uint64_t{1} << 20;
  bool allow_leading_blanks = false;  // ST-003; accepted ones are flagged
  bool allow_zero_size = true;        // ST-018: a dimension of 0
  bool allow_rank_0 = true;           // ST-018: shape []
};

struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // in the data area
  uint64_t end = 0;
  uint64_t header_offset = 0;  // of the entry's key in the file
};

struct Header {
  uint64_t data_offset = 0;         // 8 + N
  std::vector<TensorInfo> tensors;  // in the order of the JSON
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> flags;  // accepted, but worth a record: "ST-017: ..."

  // Null if there is none. Linear.
  [[nodiscard]] const TensorInfo* Find(std::string_view name) const;
};

// Bits of one element, or nothing for a dtype that the format does not have (ST-010).
[[nodiscard]] std::optional<uint32_t> DtypeBits(std::string_view dtype);

// 8 + N, checked before anything is allocated. Errors: ST-001, ST-002.
// REQUIRES: first_bytes holds the first min(8, file_size) bytes.
[[nodiscard]] Result<uint64_t> HeaderEnd(ByteSpan first_bytes, uint64_t file_size, const Limits& limits = {});

// REQUIRES: first_bytes holds at least HeaderEnd() bytes where that succeeds; further bytes are
// not looked at.
[[nodiscard]] Result<Header> ParseHeader(ByteSpan first_bytes, uint64_t file_size, const Limits& limits = {});

}  // namespace slm::safetensors

#endif  // SLM_SAFETENSORS_HEADER_H_
