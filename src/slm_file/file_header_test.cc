// Header of a .slm file: each field that can be wrong, with code and byte offset (appendix A, J).
#include "slm_file/file_header.h"

#include <gtest/gtest.h>

#include "tests/support/slm_forge.h"

namespace slm {
namespace {

class FileHeaderTest : public ::testing::Test {
 protected:
  FileHeaderTest() {
    header_ = *PlaceRegions(1000, 5000);
    const auto bytes = EncodeHeader(header_);
    bytes_.assign(bytes.begin(), bytes.end());
  }
  // Code and offset after writing `value` at `at`; the checksum is repaired, so that only the field is wrong.
  template <typename T>
  std::pair<ErrorCode, uint64_t> Broken(size_t at, T value, bool repair = true) {
    Bytes copy = bytes_;
    StoreLe<T>(&copy[at], value);
    if (repair) test::RepairCrc(&copy);
    const auto decoded = DecodeHeader(copy, header_.file_size);
    EXPECT_FALSE(decoded.has_value());
    if (decoded) return {};
    return {decoded.error().code, *decoded.error().byte_offset};
  }
  using Pair = std::pair<ErrorCode, uint64_t>;
  FileHeader header_;
  Bytes bytes_;
};

TEST_F(FileHeaderTest, RoundTrip) {
  const auto decoded = DecodeHeader(bytes_, header_.file_size);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().ToString();
  EXPECT_EQ(decoded->manifest_size, 1000u);
  EXPECT_EQ(decoded->table_offset, 1216u);  // 192 + 1000 rounded up to 64
  EXPECT_EQ(decoded->table_size, 32u);
  EXPECT_EQ(decoded->data_offset, 65536u);
  EXPECT_EQ(decoded->file_size, 70536u);
}

TEST_F(FileHeaderTest, J01Magic) {
  EXPECT_EQ(Broken<uint8_t>(4, 0x0a), (Pair{ErrorCode::kSlmMagic, 0}));  // CR LF became LF LF
  EXPECT_EQ(Broken<uint8_t>(188, 0), (Pair{ErrorCode::kSlmMagic, 188}));
}
TEST_F(FileHeaderTest, J02AndJ22Size) {
  EXPECT_EQ(Broken<uint64_t>(16, header_.file_size + 1), (Pair{ErrorCode::kSlmSize, 16}));
  const auto longer = DecodeHeader(bytes_, header_.file_size + 1);
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code, ErrorCode::kSlmSize);
  const auto cut = DecodeHeader(ByteSpan(bytes_).first(100), 100);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, ErrorCode::kSlmSize);
}
TEST_F(FileHeaderTest, J03ReservedByte) {
  EXPECT_EQ(Broken<uint8_t>(150, 1), (Pair{ErrorCode::kSlmReserved, 150}));
  EXPECT_EQ(Broken<uint8_t>(183, 1, false), (Pair{ErrorCode::kSlmReserved, 183}));
}
TEST_F(FileHeaderTest, J04RequiredFlag) {
  EXPECT_EQ(Broken<uint32_t>(76, 4), (Pair{ErrorCode::kSlmFlag, 76}));
}
TEST_F(FileHeaderTest, J05Crc) {
  EXPECT_EQ(Broken<uint32_t>(184, 0, false), (Pair{ErrorCode::kSlmCrc, 184}));
  EXPECT_EQ(Broken<uint8_t>(80, 0xff, false), (Pair{ErrorCode::kSlmCrc, 184}));
}
TEST_F(FileHeaderTest, J08TableSize) {
  EXPECT_EQ(Broken<uint64_t>(48, 64), (Pair{ErrorCode::kSlmTable, 48}));
}
TEST_F(FileHeaderTest, J12Regions) {
  EXPECT_EQ(Broken<uint64_t>(24, 65536), (Pair{ErrorCode::kSlmLayout, 24}));
  EXPECT_EQ(Broken<uint64_t>(40, 1280), (Pair{ErrorCode::kSlmLayout, 40}));
  EXPECT_EQ(Broken<uint64_t>(56, 0), (Pair{ErrorCode::kSlmLayout, 56}));
  EXPECT_EQ(Broken<uint64_t>(32, 0), (Pair{ErrorCode::kSlmLayout, 32}));
}
TEST_F(FileHeaderTest, J13Wrap) {
  EXPECT_EQ(Broken<uint64_t>(24, UINT64_MAX - 10), (Pair{ErrorCode::kSlmRange, 24}));
  EXPECT_EQ(Broken<uint64_t>(64, UINT64_MAX), (Pair{ErrorCode::kSlmRange, 56}));
}
TEST_F(FileHeaderTest, J14Alignment) {
  EXPECT_EQ(Broken<uint64_t>(40, 1217), (Pair{ErrorCode::kSlmAlign, 40}));
  EXPECT_EQ(Broken<uint64_t>(56, 65535), (Pair{ErrorCode::kSlmAlign, 56}));
}
TEST_F(FileHeaderTest, J23Major) {
  EXPECT_EQ(Broken<uint16_t>(8, 2), (Pair{ErrorCode::kSlmVersion, 8}));
}
TEST_F(FileHeaderTest, FixedFields) {
  EXPECT_EQ(Broken<uint32_t>(12, 256), (Pair{ErrorCode::kSlmLayout, 12}));
  EXPECT_EQ(Broken<uint16_t>(72, 21), (Pair{ErrorCode::kSlmLayout, 72}));
  EXPECT_EQ(Broken<uint16_t>(74, 6), (Pair{ErrorCode::kSlmLayout, 74}));
}
TEST_F(FileHeaderTest, EveryBitIsChecked) {
  // Without repair, no single flipped bit of the header passes.
  for (size_t bit = 0; bit < 8 * kSlmHeaderSize; ++bit) {
    Bytes copy = bytes_;
    copy[bit / 8] = static_cast<uint8_t>(copy[bit / 8] ^ (1u << (bit % 8)));
    EXPECT_FALSE(DecodeHeader(copy, header_.file_size).has_value()) << bit;
  }
}

}  // namespace
}  // namespace slm
