// ACQ-06: every case B01 to B34 of the malformed-input catalogue that concerns the header, by code,
// byte offset in the file and tensor. Offsets are found in the test's own text, not by the parser.
#include "safetensors/header.h"

#include <gtest/gtest.h>

namespace slm::safetensors {
namespace {

Bytes File(std::string_view json, size_t data_bytes) {
  Bytes file;
  AppendLe<uint64_t>(&file, json.size());
  file.insert(file.end(), json.begin(), json.end());
  file.insert(file.end(), data_bytes, uint8_t{0});
  return file;
}

Result<Header> Parse(const Bytes& file, const Limits& limits = {}) {
  return ParseHeader(file, file.size(), limits);
}

void ExpectRefused(const Bytes& file, ErrorCode code, uint64_t byte_offset, std::string_view field = "",
                   const Limits& limits = {}) {
  const auto header = Parse(file, limits);
  ASSERT_FALSE(header.has_value());
  EXPECT_EQ(header.error().CodeText(), Info(code).name) << header.error().message;
  EXPECT_EQ(header.error().byte_offset, byte_offset);
  EXPECT_EQ(header.error().field, field);
}

// The offending token is the `nth` occurrence of `token` in the JSON.
void ExpectRefusedAt(std::string_view json, size_t data_bytes, ErrorCode code, std::string_view token,
                     std::string_view field, int nth = 1, const Limits& limits = {}) {
  size_t at = json.find(token);
  while (--nth > 0) at = json.find(token, at + 1);
  ASSERT_NE(at, std::string_view::npos);
  ExpectRefused(File(json, data_bytes), code, 8 + at, field, limits);
}

std::string Tensor(std::string_view name, std::string_view dtype, std::string_view shape, uint64_t begin,
                   uint64_t end) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

TEST(SafetensorsHeaderTest, Acq06ReadsAPlainFile) {
  const std::string json = "{\"__metadata__\":{\"format\":\"pt\"}," + Tensor("b", "F32", "[2,3]", 4, 28) +
                           "," + Tensor("a", "BF16", "[2]", 0, 4) + "}";
  const auto header = Parse(File(json + std::string((8 - json.size() % 8) % 8, ' '), 28));
  ASSERT_TRUE(header.has_value()) << header.error().ToString();
  EXPECT_EQ(header->data_offset % 8, 0u);
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "b");  // order of the JSON
  EXPECT_EQ(header->tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(header->tensors[0].begin, 4u);
  EXPECT_EQ(header->tensors[0].end, 28u);
  EXPECT_EQ(header->tensors[0].header_offset, 8 + json.find("\"b\""));
  EXPECT_EQ(header->Find("a")->dtype, "BF16");
  EXPECT_EQ(header->Find("c"), nullptr);
  EXPECT_EQ(header->metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
  EXPECT_TRUE(header->flags.empty());
}

TEST(SafetensorsHeaderTest, St001B01FileShorterThanItsLength) {
  for (size_t size = 0; size < 8; ++size) ExpectRefused(Bytes(size, 1), ErrorCode::kSt001, size);
}

TEST(SafetensorsHeaderTest, St002B02B03LengthBeyondFileOrCap) {
  Bytes file = File("{}", 0);
  StoreLe<uint64_t>(file.data(), ~uint64_t{0});
  ExpectRefused(file, ErrorCode::kSt002, 0);
  StoreLe<uint64_t>(file.data(), 3);  // size - 8 + 1
  ExpectRefused(file, ErrorCode::kSt002, 0);
  // A cap is refused from the first 8 bytes alone, before anything is allocated.
  Bytes first(8);
  StoreLe<uint64_t>(first.data(), (uint64_t{16} << 20) + 1);
  const auto end = HeaderEnd(first, uint64_t{1} << 40);
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().CodeText(), "ST-002");
  StoreLe<uint64_t>(first.data(), uint64_t{16} << 20);
  EXPECT_TRUE(HeaderEnd(first, uint64_t{1} << 40).has_value());
}

TEST(SafetensorsHeaderTest, St003B04B05FirstByte) {
  ExpectRefused(File("", 0), ErrorCode::kSt003, 8);
  ExpectRefused(File("\n{}", 0), ErrorCode::kSt003, 8);
  ExpectRefused(File("[]", 0), ErrorCode::kSt003, 8);
  Limits lax;
  lax.allow_leading_blanks = true;
  const auto header = Parse(File("\n{}", 0), lax);
  ASSERT_TRUE(header.has_value());
  ASSERT_FALSE(header->flags.empty());
  EXPECT_TRUE(header->flags[0].starts_with("ST-003"));
  ExpectRefused(File("\n[]", 0), ErrorCode::kSt003, 9, "", lax);
}

TEST(SafetensorsHeaderTest, St004B06OnlySpacesAfterTheJson) {
  ExpectRefused(File("{}\t", 0), ErrorCode::kSt004, 10);
  ExpectRefused(File("{} \n", 0), ErrorCode::kSt004, 11);
  ExpectRefused(File("{}{}", 0), ErrorCode::kSt004, 10);
  ExpectRefused(File(std::string_view("{}\0", 3), 0), ErrorCode::kSt004, 10);
  EXPECT_TRUE(Parse(File("{}      ", 0)).has_value());
}

TEST(SafetensorsHeaderTest, St005B07B08B30NotStrictJson) {
  const std::string bad_name = "{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  ExpectRefused(File(bad_name, 4), ErrorCode::kSt005, 8 + bad_name.find('\xff'), "\"a\xff\"");
  ExpectRefusedAt("{\"a\":NaN}", 0, ErrorCode::kSt005, "NaN", "a");
  ExpectRefusedAt("{/* c */}", 0, ErrorCode::kSt005, "/*", "");
  const std::string trailing = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],}}";
  ExpectRefused(File(trailing, 4), ErrorCode::kSt005, 8 + trailing.find(",}") + 1, "a");
  const std::string control = "{\"a\nb\":1}";
  ExpectRefused(File(control, 0), ErrorCode::kSt005, 8 + control.find('\n'), "\"a\nb\"");
  EXPECT_EQ(Parse(File("{\"a\":\"\\ud800\"}", 0)).error().CodeText(), "ST-005");
  ExpectRefused(File("{", 0), ErrorCode::kSt005, 9);
  const std::string deep = "{\"__metadata__\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  const auto header = Parse(File(deep, 0));
  ASSERT_FALSE(header.has_value());
  EXPECT_EQ(header.error().CodeText(), "ST-005");
  EXPECT_EQ(header.error().field, "__metadata__");
}

TEST(SafetensorsHeaderTest, St006B09ToB12DuplicateKeys) {
  const std::string a = Tensor("a", "F32", "[1]", 0, 4);
  const std::string a_elsewhere = Tensor("a", "F32", "[1]", 4, 8);
  ExpectRefusedAt("{" + a + "," + a_elsewhere + "}", 8, ErrorCode::kSt006, "\"a\"", "a", 2);
  ExpectRefusedAt("{" + a + "," + a + "}", 4, ErrorCode::kSt006, "\"a\"", "a", 2);
  ExpectRefusedAt("{" + a + "," + Tensor("\\u0061", "F32", "[1]", 4, 8) + "}", 8, ErrorCode::kSt006,
                  "\"\\u0061\"", "a");
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                  ErrorCode::kSt006, "\"dtype\"", "a", 2);
  ExpectRefusedAt("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, ErrorCode::kSt006, "\"k\"",
                  "__metadata__", 2);
}

TEST(SafetensorsHeaderTest, St007B13B14Metadata) {
  ExpectRefusedAt("{\"__metadata__\":{\"a\":1}}", 0, ErrorCode::kSt007, "1", "__metadata__");
  ExpectRefusedAt("{\"__metadata__\":null}", 0, ErrorCode::kSt007, "null", "__metadata__");
  ExpectRefusedAt("{\"__metadata__\":{\"a\":{}}}", 0, ErrorCode::kSt007, "{}", "__metadata__");
  EXPECT_TRUE(Parse(File("{\"__metadata__\":{}}", 0)).has_value());
  Limits small;
  small.max_metadata_bytes = 4;
  EXPECT_TRUE(Parse(File("{\"__metadata__\":{\"k\":\"123\"}}", 0), small).has_value());
  ExpectRefusedAt("{\"__metadata__\":{\"k\":\"1234\"}}", 0, ErrorCode::kSt007, "\"1234\"", "__metadata__", 1,
                  small);
}

TEST(SafetensorsHeaderTest, St008MetadataIsNoTensor) {
  ExpectRefusedAt("{" + Tensor("__metadata__", "F32", "[1]", 0, 4) + "}", 4, ErrorCode::kSt008,
                  "\"__metadata__\"", "__metadata__");
}

TEST(SafetensorsHeaderTest, St009B15Members) {
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"strides\":[1],\"data_offsets\":[0,4]}}", 4,
                  ErrorCode::kSt009, "\"strides\"", "a");
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, ErrorCode::kSt009, "{\"dtype", "a");
  ExpectRefusedAt("{\"a\":[0,4]}", 4, ErrorCode::kSt009, "[0,4]", "a");
}

TEST(SafetensorsHeaderTest, St010B16Dtype) {
  for (const char* dtype : {"f32", "FP4", "E8M0", "UE8", "F128", ""}) {
    const std::string json = "{" + Tensor("a", dtype, "[8]", 0, 8) + "}";
    ExpectRefusedAt(json, 8, ErrorCode::kSt010, "\"" + std::string(dtype) + "\",\"shape", "a");
  }
  ExpectRefusedAt("{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ErrorCode::kSt010, "32",
                  "a");
  // The 22 dtypes of the format and the bits of each, from its documentation.
  const std::pair<const char*, uint32_t> known[] = {
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
      {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto& [dtype, bits] : known) {
    EXPECT_TRUE(Parse(File("{" + Tensor("a", dtype, "[8]", 0, bits) + "}", bits)).has_value()) << dtype;
  }
}

TEST(SafetensorsHeaderTest, St011B17Shape) {
  for (const char* bad : {"1.0", "-1", "01", "1e3", "-0", "007", "\"1\"", "null", "18446744073709551616"}) {
    const std::string json = "{" + Tensor("a", "F32", "[2," + std::string(bad) + "]", 0, 4) + "}";
    ExpectRefusedAt(json, 4, ErrorCode::kSt011, std::string(bad) + "],", "a");
  }
  ExpectRefusedAt("{" + Tensor("a", "F32", "7", 0, 4) + "}", 4, ErrorCode::kSt011, "7", "a");
  ExpectRefusedAt("{" + Tensor("a", "F32", "[281474976710656]", 0, 4) + "}", 4, ErrorCode::kSt011,
                  "281474976710656", "a");
  ExpectRefusedAt("{" + Tensor("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) + "}", 4, ErrorCode::kSt011, "[1,",
                  "a");
  EXPECT_TRUE(Parse(File("{" + Tensor("a", "F32", "[1,1,1,1,1,1,1,1]", 0, 4) + "}", 4)).has_value());
  // A leading zero elsewhere is a fault of the grammar.
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[00,4]}}", 4, ErrorCode::kSt005,
                  "00,4", "a");
}

TEST(SafetensorsHeaderTest, St012B18Overflow) {
  ExpectRefusedAt("{" + Tensor("a", "F32", "[2,9223372036854775808]", 0, 4) + "}", 4, ErrorCode::kSt012,
                  "[2,", "a");
  // The product fits, its bits do not.
  ExpectRefusedAt("{" + Tensor("a", "F64", "[281474976710655,65536]", 0, 4) + "}", 4, ErrorCode::kSt012,
                  "[281", "a");
}

TEST(SafetensorsHeaderTest, St013B19B20WholeBytes) {
  ExpectRefusedAt("{" + Tensor("a", "F4", "[3]", 0, 2) + "}", 2, ErrorCode::kSt013, "[3]", "a");
  ExpectRefusedAt("{" + Tensor("a", "F6_E2M3", "[3]", 0, 3) + "}", 3, ErrorCode::kSt013, "[3]", "a");
  ExpectRefusedAt("{" + Tensor("a", "F6_E3M2", "[2]", 0, 2) + "}", 2, ErrorCode::kSt013, "[2]", "a");
  EXPECT_TRUE(Parse(File("{" + Tensor("a", "F6_E2M3", "[4]", 0, 3) + "}", 3)).has_value());
}

TEST(SafetensorsHeaderTest, St014B21B22Offsets) {
  ExpectRefusedAt("{" + Tensor("a", "F32", "[1]", 4, 0) + "}", 4, ErrorCode::kSt014, "[4,0]", "a");
  ExpectRefusedAt("{" + Tensor("a", "F32", "[1]", 0, 8) + "}", 8, ErrorCode::kSt014, "[0,8]", "a");
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, ErrorCode::kSt014,
                  "[0,", "a");
  ExpectRefusedAt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4, ErrorCode::kSt014,
                  "4.0", "a");
}

TEST(SafetensorsHeaderTest, St015B23ToB26Tiling) {
  const std::string a = Tensor("a", "F32", "[1]", 0, 4);
  ExpectRefusedAt("{" + a + "," + Tensor("b", "U8", "[4]", 5, 9) + "}", 9, ErrorCode::kSt015, "[5,9]", "b");
  ExpectRefusedAt("{" + a + "," + Tensor("b", "U8", "[4]", 3, 7) + "}", 7, ErrorCode::kSt015, "[3,7]", "b");
  std::string ten = "{" + Tensor("t0", "U8", "[16]", 0, 16);
  for (int i = 1; i < 10; ++i) ten += "," + Tensor("t" + std::to_string(i), "U8", "[16]", 0, 16);
  ExpectRefusedAt(ten + "}", 16, ErrorCode::kSt015, "[0,16]", "t1", 2);
  ExpectRefusedAt("{" + Tensor("a", "F32", "[1]", 8, 12) + "}", 12, ErrorCode::kSt015, "[8,12]", "a");
}

TEST(SafetensorsHeaderTest, St016B27B28EndOfFile) {
  const std::string json = "{" + Tensor("a", "F32", "[2]", 0, 8) + "}";
  Bytes polyglot = File(json, 8);
  polyglot.insert(polyglot.end(), {'P', 'K', 3, 4});
  ExpectRefused(polyglot, ErrorCode::kSt016, 8 + json.size() + 8, "a");
  ExpectRefused(File(json, 6), ErrorCode::kSt016, 8 + json.size() + 6, "a");
  ExpectRefused(File("{}", 1), ErrorCode::kSt016, 10);
}

TEST(SafetensorsHeaderTest, St017B34AlignmentIsFlagged) {
  const std::string json = "{" + Tensor("a", "U8", "[1]", 0, 1) + "," + Tensor("b", "I64", "[1]", 1, 9) + "}";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  const auto header = Parse(File(padded, 9));
  ASSERT_TRUE(header.has_value());
  ASSERT_EQ(header->flags.size(), 1u);
  EXPECT_TRUE(header->flags[0].starts_with("ST-017: tensor b begins at data byte 1"));
  const auto unpadded = Parse(File(padded + " ", 9));
  ASSERT_TRUE(unpadded.has_value());
  EXPECT_EQ(unpadded->flags.size(), 2u);
}

TEST(SafetensorsHeaderTest, St018ProfileDecidesAboutEmptyAndScalar) {
  const std::string empty = "{" + Tensor("a", "F32", "[4,0]", 0, 0) + "}";
  const std::string scalar = "{" + Tensor("a", "F32", "[]", 0, 4) + "}";
  EXPECT_TRUE(Parse(File(empty, 0)).has_value());
  EXPECT_TRUE(Parse(File(scalar, 4)).has_value());
  Limits strict;
  strict.allow_zero_size = false;
  strict.allow_rank_0 = false;
  ExpectRefusedAt(empty, 0, ErrorCode::kSt018, "[4,0]", "a", 1, strict);
  ExpectRefusedAt(scalar, 4, ErrorCode::kSt018, "[]", "a", 1, strict);
}

TEST(SafetensorsHeaderTest, St019B29CountAndNames) {
  std::string many = "{";
  for (int i = 0; i < 100001; ++i)
    many += (i == 0 ? "" : ",") + Tensor("t" + std::to_string(i), "U8", "[0]", 0, 0);
  many += "}";
  ExpectRefusedAt(many, 0, ErrorCode::kSt019, "\"t65536\"", "t65536");
  ExpectRefusedAt("{" + Tensor("", "U8", "[0]", 0, 0) + "}", 0, ErrorCode::kSt019, "\"\"", "");
  const std::string long_name(513, 'n');
  ExpectRefusedAt("{" + Tensor(long_name, "U8", "[0]", 0, 0) + "}", 0, ErrorCode::kSt019, "\"n", long_name);
  EXPECT_TRUE(Parse(File("{" + Tensor(std::string(512, 'n'), "U8", "[0]", 0, 0) + "}", 0)).has_value());
  ExpectRefusedAt("{" + Tensor("a\\u0000", "U8", "[0]", 0, 0) + "}", 0, ErrorCode::kSt019, "\"a\\u0000\"",
                  std::string_view("a\0", 2));
  ExpectRefusedAt("{" + Tensor("a\\u0085", "U8", "[0]", 0, 0) + "}", 0, ErrorCode::kSt019, "\"a\\u0085\"",
                  "a\xc2\x85");
}

TEST(SafetensorsHeaderTest, St022FileArithmetic) {
  ExpectRefusedAt("{" + Tensor("a", "U8", "[1]", ~uint64_t{0} - 1, ~uint64_t{0}) + "}", 1, ErrorCode::kSt022,
                  "18446744073709551615", "a");
}

}  // namespace
}  // namespace slm::safetensors
