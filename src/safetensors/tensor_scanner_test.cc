// ST-020 and the census: found whatever the block sizes, with the element's index.
#include "safetensors/tensor_scanner.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace slm::safetensors {
namespace {

struct Part {
  std::string name;
  std::string dtype;
  uint64_t elements;
  Bytes bytes;
};

// A file with the parts in order, and its parsed header.
Bytes MakeFile(const std::vector<Part>& parts, Header* header) {
  std::string json = "{";
  uint64_t at = 0;
  for (const Part& part : parts) {
    if (at != 0) json += ",";
    json += "\"" + part.name + "\":{\"dtype\":\"" + part.dtype + "\",\"shape\":[" +
            std::to_string(part.elements) + "],\"data_offsets\":[" + std::to_string(at) + "," +
            std::to_string(at + part.bytes.size()) + "]}";
    at += part.bytes.size();
  }
  json += "}";
  Bytes file;
  AppendLe<uint64_t>(&file, json.size());
  file.insert(file.end(), json.begin(), json.end());
  for (const Part& part : parts) file.insert(file.end(), part.bytes.begin(), part.bytes.end());
  auto parsed = ParseHeader(file, file.size());
  EXPECT_TRUE(parsed.has_value()) << parsed.error().ToString();
  if (parsed) *header = *std::move(parsed);
  return file;
}

Status Feed(TensorScanner* scanner, const Bytes& file, size_t block) {
  for (size_t at = 0; at < file.size(); at += block) {
    SLM_TRY(scanner->Append(ByteSpan(file).subspan(at, std::min(block, file.size() - at))));
  }
  return {};
}

Bytes Floats(const std::vector<float>& values) {
  Bytes out;
  for (float value : values) AppendLe<uint32_t>(&out, std::bit_cast<uint32_t>(value));
  return out;
}

TEST(TensorScannerTest, St020CensusForAnyBlockSize) {
  const float inf = std::numeric_limits<float>::infinity();
  Bytes half;
  for (const uint16_t bits : std::initializer_list<uint16_t>{0x3c00, 0x7c00, 0xfc00, 0x7e01, 0x7bff})
    AppendLe<uint16_t>(&half, bits);
  Bytes brain;
  for (const uint16_t bits : std::initializer_list<uint16_t>{0x3f80, 0x7f7f, 0x7f80, 0x7f81, 0xffc0})
    AppendLe<uint16_t>(&brain, bits);
  Bytes wide;
  for (double value : {1.0, -std::numeric_limits<double>::infinity(), std::nan("")}) {
    AppendLe<uint64_t>(&wide, std::bit_cast<uint64_t>(value));
  }
  const std::vector<Part> parts = {
      {"byte", "U8", 3, {0xff, 0xff, 0xff}},  // shifts what follows off every boundary
      {"f32", "F32", 6, Floats({0.0f, -1.5f, std::nanf(""), inf, 3.4e38f, -inf})},
      {"f16", "F16", 5, half},
      {"bf16", "BF16", 5, brain},
      {"f64", "F64", 3, wide},
      {"c64", "C64", 3, Floats({0.0f, 1.0f, inf, std::nanf(""), 1.0f, inf})},
      {"e5m2", "F8_E5M2", 4, {0x7b, 0x7c, 0x7d, 0xfc}},
      {"e4m3", "F8_E4M3", 3, {0x7e, 0x7f, 0xff}},
      {"fnuz", "F8_E4M3FNUZ", 2, {0x7f, 0x80}},
      {"e8m0", "F8_E8M0", 2, {0xfe, 0xff}},
      {"good", "F32", 2, Floats({1.0f, 2.0f})},
  };
  Header header;
  const Bytes file = MakeFile(parts, &header);
  const std::vector<Census> expected = {{0, 0, {}}, {1, 2, 2}, {1, 2, 1}, {2, 1, 2}, {1, 1, 1}, {1, 1, 1},
                                        {1, 2, 1},  {2, 0, 1}, {1, 0, 1}, {1, 0, 1}, {0, 0, {}}};
  for (size_t block = 1; block <= 40; ++block) {
    TensorScanner scanner(header);
    ASSERT_TRUE(Feed(&scanner, file, block).has_value());
    EXPECT_EQ(scanner.census(), expected) << "blocks of " << block;
  }
  TensorScanner whole(header);
  ASSERT_TRUE(Feed(&whole, file, file.size()).has_value());
  EXPECT_EQ(whole.census(), expected);
}

TEST(TensorScannerTest, St020OneNanDeepInALargeTensor) {
  std::vector<float> values(100000, 0.25f);
  values[77777] = std::nanf("");
  Header header;
  const Bytes file = MakeFile({{"w", "F32", 100000, Floats(values)}}, &header);
  for (size_t block : {size_t{4093}, size_t{65536}, file.size()}) {
    TensorScanner scanner(header);
    ASSERT_TRUE(Feed(&scanner, file, block).has_value());
    EXPECT_EQ(scanner.census()[0], (Census{1, 0, 77777}));
  }
}

TEST(TensorScannerTest, St020B31BoolByte) {
  Header header;
  const Bytes file = MakeFile({{"pad", "U8", 1, {9}}, {"mask", "BOOL", 4, {0, 1, 2, 1}}}, &header);
  for (size_t block = 1; block <= file.size(); ++block) {
    TensorScanner scanner(header);
    const Status status = Feed(&scanner, file, block);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().CodeText(), "ST-020");
    EXPECT_EQ(status.error().byte_offset, header.data_offset + 3);
    EXPECT_EQ(status.error().field, "mask");
  }
}

}  // namespace
}  // namespace slm::safetensors
