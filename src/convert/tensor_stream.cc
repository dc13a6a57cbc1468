#include "convert/tensor_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace slm::convert {
namespace {

// The exponent bits, all set in a value that is not finite.
uint32_t ExponentMask(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0x7f800000u;
    case DType::kBf16:
      return 0x7f80u;
    case DType::kF16:
      return 0x7c00u;
  }
  return 0;
}

template <typename Word>
Word LoadWord(const uint8_t* from) {
  // Unaligned and little-endian; one load on little-endian machines.
  return LoadLe<Word>(from);
}

template <typename Word>
std::optional<uint64_t> FirstNonfiniteOf(ByteSpan bytes, Word mask) {
  constexpr size_t kBlock = 4096;
  const size_t n = bytes.size() / sizeof(Word);
  for (size_t begin = 0; begin < n; begin += kBlock) {
    const size_t end = std::min(n, begin + kBlock);
    Word largest = 0;
    for (size_t i = begin; i < end; ++i) {
      largest = std::max<Word>(largest, LoadWord<Word>(bytes.data() + i * sizeof(Word)) & mask);
    }
    if (largest != mask) continue;
    for (size_t i = begin; i < end; ++i) {
      if ((LoadWord<Word>(bytes.data() + i * sizeof(Word)) & mask) == mask) return i;
    }
  }
  return std::nullopt;
}

// out[(k * 16 + lane)] = rows[lane * cols + k]. Tiles of columns keep the 16 rows in the cache.
template <typename Word>
void Interleave(const uint8_t* rows, uint64_t n_rows, uint64_t cols, uint8_t* out) {
  constexpr uint64_t kTile = 64;
  for (uint64_t first = 0; first < cols; first += kTile) {
    const uint64_t last = std::min(cols, first + kTile);
    for (uint64_t lane = 0; lane < n_rows; ++lane) {
      const uint8_t* row = rows + lane * cols * sizeof(Word);
      for (uint64_t k = first; k < last; ++k) {
        std::memcpy(out + (k * kRowsPerGroup + lane) * sizeof(Word), row + k * sizeof(Word), sizeof(Word));
      }
    }
  }
}

Error NonfiniteError(uint64_t index, const std::vector<uint64_t>& shape, DType dtype) {
  std::string where = "element " + std::to_string(index);
  if (shape.size() == 2) {
    where +=
        " (row " + std::to_string(index / shape[1]) + ", column " + std::to_string(index % shape[1]) + ")";
  }
  return MakeError(ErrorCode::kNonfinite, where + " is NaN or infinite").At(index * DTypeSize(dtype));
}

}  // namespace

std::optional<uint64_t> FirstNonfinite(ByteSpan bytes, DType dtype) {
  if (dtype == DType::kF32) return FirstNonfiniteOf<uint32_t>(bytes, ExponentMask(dtype));
  return FirstNonfiniteOf<uint16_t>(bytes, static_cast<uint16_t>(ExponentMask(dtype)));
}

Status StreamTensor(ByteSpan bytes, const std::vector<uint64_t>& shape, DType dtype, Layout layout,
                    const BlobSink& sink) {
  if (layout == Layout::kRowMajor) {
    const std::optional<uint64_t> index = FirstNonfinite(bytes, dtype);
    if (index) return Fail(NonfiniteError(*index, shape, dtype));
    return sink(bytes);
  }
  const uint64_t cols = shape[1];
  const uint64_t row_size = cols * DTypeSize(dtype);
  Bytes group(kRowsPerGroup * row_size);
  for (uint64_t first_row = 0; first_row < shape[0]; first_row += kRowsPerGroup) {
    const uint64_t n_rows = std::min(kRowsPerGroup, shape[0] - first_row);
    const ByteSpan rows = bytes.subspan(first_row * row_size, n_rows * row_size);
    const std::optional<uint64_t> index = FirstNonfinite(rows, dtype);
    if (index) return Fail(NonfiniteError(first_row * cols + *index, shape, dtype));
    if (n_rows < kRowsPerGroup) std::fill(group.begin(), group.end(), uint8_t{0});
    if (dtype == DType::kF32) {
      Interleave<uint32_t>(rows.data(), n_rows, cols, group.data());
    } else {
      Interleave<uint16_t>(rows.data(), n_rows, cols, group.data());
    }
    SLM_TRY(sink(group));
  }
  return {};
}

}  // namespace slm::convert
