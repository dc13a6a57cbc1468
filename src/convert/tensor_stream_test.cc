// Layout rows16 and the gate for nonfinite values (MAP-03, OPS-03).
#include "convert/tensor_stream.h"

#include <gtest/gtest.h>

#include <limits>

#include "numeric/float_formats.h"

namespace slm::convert {
namespace {

Bytes Floats(const std::vector<float>& values) {
  Bytes bytes;
  for (const float value : values) AppendLe(&bytes, numeric::BitsOf(value));
  return bytes;
}

Result<Bytes> Streamed(ByteSpan bytes, const std::vector<uint64_t>& shape, DType dtype, Layout layout) {
  Bytes out;
  SLM_TRY(StreamTensor(bytes, shape, dtype, layout, [&](ByteSpan piece) -> Status {
    out.insert(out.end(), piece.begin(), piece.end());
    return {};
  }));
  return out;
}

TEST(TensorStream, Map03RowsInterleave) {
  // 18 rows of 70 columns: a whole group, a partial one, more than one tile of columns.
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const uint64_t rows = 18, cols = 70, element = DTypeSize(dtype);
    Bytes bytes;
    for (uint64_t i = 0; i < rows * cols; ++i) {
      dtype == DType::kF32 ? AppendLe<uint32_t>(&bytes, static_cast<uint32_t>(i + 1))
                           : AppendLe<uint16_t>(&bytes, static_cast<uint16_t>(i + 1));
    }
    const auto out = Streamed(bytes, {rows, cols}, dtype, Layout::kRows16);
    ASSERT_TRUE(out.has_value());
    ASSERT_EQ(out->size(), 2 * 16 * cols * element);
    size_t n_zero = 0;
    for (uint64_t row = 0; row < 32; ++row) {
      for (uint64_t k = 0; k < cols; ++k) {
        // The formula of docs/spec/slm.md.
        const uint64_t index = (row / 16) * 16 * cols + k * 16 + row % 16;
        uint64_t value = 0;
        for (uint64_t b = 0; b < element; ++b) value |= uint64_t{(*out)[index * element + b]} << (8 * b);
        EXPECT_EQ(value, row < rows ? row * cols + k + 1 : 0);
        n_zero += value == 0;
      }
    }
    EXPECT_EQ(n_zero, 14 * cols);
  }
}

TEST(TensorStream, Ops03NonfiniteNamesTheFirstIndex) {
  std::vector<float> values(40 * 8, 1.0f);
  values[37 * 8 + 3] = std::numeric_limits<float>::infinity();
  values[17 * 8 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Bytes bytes = Floats(values);
  for (const Layout layout : {Layout::kRows16, Layout::kRowMajor}) {
    const auto out = Streamed(bytes, {40, 8}, DType::kF32, layout);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, ErrorCode::kNonfinite);
    EXPECT_EQ(out.error().byte_offset, (17u * 8 + 5) * 4);
    EXPECT_NE(out.error().message.find("element 141 (row 17, column 5)"), std::string::npos)
        << out.error().message;
  }
}

TEST(TensorStream, FiniteEdges) {
  const Bytes extreme = Floats({std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::denorm_min(), -0.0f});
  EXPECT_FALSE(FirstNonfinite(extreme, DType::kF32).has_value());
  const Bytes half{0xff, 0x7b, 0x00, 0x7c};  // 65504, infinity
  EXPECT_EQ(FirstNonfinite(half, DType::kF16), 1u);
  EXPECT_FALSE(FirstNonfinite(half, DType::kBf16).has_value());  // 0x7c00 is a large bf16
  const Bytes brain{0x7f, 0x7f, 0x81, 0xff};                     // largest, NaN
  EXPECT_EQ(FirstNonfinite(brain, DType::kBf16), 1u);
  std::vector<float> many(10000, 0.5f);
  many[9999] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(FirstNonfinite(Floats(many), DType::kF32), 9999u);
}

}  // namespace
}  // namespace slm::convert
