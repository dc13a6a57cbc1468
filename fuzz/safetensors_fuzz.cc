// safetensors header. Input: the file's first bytes; the last 4 bytes of the input say how long the data
// area is. An accepted header tiles the data area exactly, and a second reading gives the same.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "safetensors/header.h"

SLM_FUZZ_TARGET(data, size) {
  if (size < 4) return 0;
  const slm::ByteSpan bytes(data, size - 4);
  const uint64_t data_size = slm::LoadLe<uint32_t>(data + size - 4);
  const auto end = slm::safetensors::HeaderEnd(bytes, bytes.size() + data_size);
  if (!end || *end > bytes.size()) return 0;
  const uint64_t file_size = *end + data_size;
  const auto header = slm::safetensors::ParseHeader(bytes.first(*end), file_size);
  const auto again = slm::safetensors::ParseHeader(bytes.first(*end), file_size);
  slm::fuzz::Require(header.has_value() == again.has_value(), "the same input, the same verdict");
  if (!header) {
    slm::fuzz::Require(header.error().ToString() == again.error().ToString(), "the same refusal");
    slm::fuzz::RequireOffset(header.error(), file_size);
    return 0;
  }
  auto tensors = header->tensors;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t covered = 0;
  for (const auto& tensor : tensors) {
    slm::fuzz::Require(tensor.begin == covered && tensor.end >= tensor.begin, "no hole, no overlap");
    covered = tensor.end;
  }
  slm::fuzz::Require(covered == data_size, "every byte of the data area belongs to a tensor");
  return 0;
}
