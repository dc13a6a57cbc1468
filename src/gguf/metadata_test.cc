#include "gguf/metadata.h"

#include <gtest/gtest.h>

#include <string>

#include "gguf/test_file.h"

namespace slm::gguf {
namespace {

using gguf_testing::File;
using gguf_testing::Number;
using gguf_testing::Text;

Result<Metadata> Read(const std::string& file) {
  return Metadata::Read(AsBytes(file), ErrorCode::kTokSchema);
}

TEST(GgufMetadata, GivesEveryType) {
  const std::string file = File(
      {Text("u8") + Number(0, 4) + Number(200, 1), Text("i16") + Number(3, 4) + Number(0xFFFE, 2),
       Text("u64") + Number(10, 4) + Number(1ull << 40, 8), Text("text") + Number(8, 4) + Text("abc"),
       Text("texts") + Number(9, 4) + Number(8, 4) + Number(2, 8) + Text("x") + Text("yz"),
       Text("flags") + Number(9, 4) + Number(7, 4) + Number(3, 8) + "\x01" + std::string(1, '\0') + "\x01"});
  const std::string whole = file + "tensor data";
  const auto read = Read(whole);
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  EXPECT_EQ(read->pairs().size(), 6u);
  EXPECT_EQ(UintOf(read->Find("u8")->value), 200u);
  EXPECT_EQ(UintOf(read->Find("i16")->value), std::nullopt);
  EXPECT_EQ(UintOf(read->Find("u64")->value), 1ull << 40);
  EXPECT_EQ(AsText(read->Find("text")->value.bytes), "abc");
  EXPECT_EQ(file.substr(read->Find("text")->value.byte_offset, 3), "abc");
  EXPECT_EQ(read->Find("flags")->value.count, 3u);
  EXPECT_EQ(read->Find("nothing"), nullptr);
  std::string joined;
  ASSERT_TRUE(ForEachText(read->Find("texts")->value, [&](std::string_view text, uint64_t at) -> Status {
                EXPECT_EQ(file.substr(at, text.size()), text);
                joined += text;
                return {};
              }).has_value());
  EXPECT_EQ(joined, "xyz");
}

TEST(GgufMetadata, RefusesWithCodeAndPlace) {
  struct Case {
    const char* what;
    std::string file;
    ErrorCode code;
    uint64_t at;
  };
  std::string deep = Text("a");
  for (int i = 0; i < 1000; ++i) deep += Number(9, 4) + (i > 0 ? Number(1, 8) : "");
  const std::string pair = Text("a") + Number(0, 4) + Number(1, 1);
  const Case cases[] = {
      {"no magic", "GGML" + Number(3, 20), ErrorCode::kTokSchema, 0},
      {"empty", "", ErrorCode::kTokSchema, 0},
      {"version 1", File({}, 1), ErrorCode::kUnsupported, 4},
      {"big-endian", "GGUF" + std::string("\0\0\0\3", 4) + Number(0, 16), ErrorCode::kUnsupported, 4},
      {"too many pairs", "GGUF" + Number(3, 4) + Number(0, 8) + Number(UINT64_MAX, 8), ErrorCode::kTokSchema,
       16},
      {"a key twice", File({pair, pair}), ErrorCode::kTokSchema, 24 + pair.size()},
      {"a key without end", File({Number(UINT64_MAX, 8)}), ErrorCode::kTokSchema, 24},
      {"an unknown type", File({Text("a") + Number(13, 4)}), ErrorCode::kTokSchema, 37},
      {"an array without end", File({Text("a") + Number(9, 4) + Number(10, 4) + Number(UINT64_MAX / 4, 8)}),
       ErrorCode::kTokSchema, 37},
      {"texts without end", File({Text("a") + Number(9, 4) + Number(8, 4) + Number(UINT64_MAX, 8)}),
       ErrorCode::kTokSchema, 37},
      {"arrays in arrays", File({deep}), ErrorCode::kTokSchema, 37 + 4 * 12},
  };
  for (const Case& one : cases) {
    const auto read = Read(one.file);
    ASSERT_FALSE(read.has_value()) << one.what;
    EXPECT_EQ(read.error().code, one.code) << one.what;
    EXPECT_EQ(read.error().byte_offset, one.at) << one.what;
  }
  const std::string whole =
      File({pair, Text("texts") + Number(9, 4) + Number(8, 4) + Number(1, 8) + Text("x")});
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto read = Read(whole.substr(0, n));
    ASSERT_FALSE(read.has_value()) << n;
    EXPECT_EQ(read.error().code, ErrorCode::kTokSchema) << n;
    EXPECT_LE(read.error().byte_offset.value_or(UINT64_MAX), n);
  }
}

}  // namespace
}  // namespace slm::gguf
