// ACQ-06: cases C01 to C08 and C10 of the malformed-input catalogue; C09 stands with the tree's tests.
#include "safetensors/shard_index.h"

#include <gtest/gtest.h>

namespace slm::safetensors {
namespace {

constexpr char kOne[] = "model-00001-of-00002.safetensors";
constexpr char kTwo[] = "model-00002-of-00002.safetensors";

Header HeaderOf(const std::vector<std::string>& tensors) {
  Header header;
  uint64_t at = 0;
  for (const std::string& name : tensors) {
    header.tensors.push_back({name, "F32", {1}, at, at + 4, 100 + at});
    at += 4;
  }
  return header;
}

std::string IndexText(std::string_view total, const std::vector<std::pair<std::string, std::string>>& map) {
  std::string text = "{\"metadata\":{\"total_size\":" + std::string(total) + "},\"weight_map\":{";
  for (size_t i = 0; i < map.size(); ++i) {
    text += std::string(i == 0 ? "" : ",") + "\"" + map[i].first + "\":\"" + map[i].second + "\"";
  }
  return text + "}}";
}

void ExpectRefused(const std::string& text, std::string_view code, std::string_view token,
                   std::string_view field, size_t skip = 0) {
  const auto index = ParseShardIndex(text);
  ASSERT_FALSE(index.has_value()) << text;
  EXPECT_EQ(index.error().CodeText(), code) << index.error().message;
  EXPECT_EQ(index.error().byte_offset, text.find(token, skip)) << text;
  EXPECT_EQ(index.error().field, field);
}

TEST(ShardIndexTest, Acq06ReadsAnIndex) {
  const auto index = ParseShardIndex(IndexText("8", {{"a", kOne}, {"b", kTwo}}));
  ASSERT_TRUE(index.has_value()) << index.error().ToString();
  EXPECT_EQ(index->total_size, 8u);
  EXPECT_EQ(index->Shards(), (std::vector<std::string>{kOne, kTwo}));
  const Header a = HeaderOf({"a"});
  const Header b = HeaderOf({"b"});
  std::vector<std::string> flags;
  EXPECT_TRUE(CheckShards(*index, std::vector<ShardHeader>{{kOne, &a}, {kTwo, &b}}, &flags).has_value());
  EXPECT_TRUE(flags.empty());
}

TEST(ShardIndexTest, IxPathC01C02) {
  for (const char* bad : {"../x.safetensors", "sub/x.safetensors", "/x.safetensors", "x", ".x.safetensors",
                          "", "a b.safetensors", "x.bin"}) {
    const std::string text = IndexText("4", {{"a", bad}});
    ExpectRefused(text, "IX-PATH", "\"" + std::string(bad) + "\"", "a", text.find("\"a\":") + 4);
  }
}

TEST(ShardIndexTest, IxSchemaAndDupKeyC10) {
  ExpectRefused("{\"weight_map\":{\"a\":\"x.safetensors\"},\"extra\":1}", "IX-SCHEMA", "\"extra\"", "extra");
  ExpectRefused("{\"metadata\":{}}", "IX-SCHEMA", "{", "weight_map");
  ExpectRefused("{\"weight_map\":{}}", "IX-SCHEMA", "{}", "weight_map");
  ExpectRefused("{\"weight_map\":{\"a\":7}}", "IX-SCHEMA", "7", "a");
  ExpectRefused("[]", "IX-SCHEMA", "[", "");
  ExpectRefused(IndexText("1.5", {{"a", kOne}}), "IX-SCHEMA", "1.5", "metadata.total_size");
  const std::string twice = "{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"x.safetensors\"}}";
  const auto index = ParseShardIndex(twice);
  ASSERT_FALSE(index.has_value());
  EXPECT_EQ(index.error().CodeText(), "IX-DUPKEY");
  EXPECT_EQ(index.error().byte_offset, twice.rfind("\"a\""));
  EXPECT_EQ(ParseShardIndex("{").error().CodeText(), "JSON-SYNTAX");
}

TEST(ShardIndexTest, IxIncompleteC04) {
  EXPECT_TRUE(CheckShardNumbers(std::vector<std::string>{kOne, kTwo}).has_value());
  EXPECT_TRUE(CheckShardNumbers(std::vector<std::string>{"weights.safetensors"}).has_value());
  const Status gap = CheckShardNumbers(
      std::vector<std::string>{"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors"});
  ASSERT_FALSE(gap.has_value());
  EXPECT_EQ(gap.error().CodeText(), "IX-INCOMPLETE");
  EXPECT_EQ(gap.error().field, "m-00003-of-00003.safetensors");
  for (const auto& bad :
       std::vector<std::vector<std::string>>{{"m-00001-of-00002.safetensors", "n-00002-of-00002.safetensors"},
                                             {"m-00001-of-00002.safetensors", "m-00002-of-00003.safetensors"},
                                             {"m-00000-of-00001.safetensors"},
                                             {"m-00002-of-00001.safetensors"}}) {
    const Status status = CheckShardNumbers(bad);
    ASSERT_FALSE(status.has_value()) << bad.back();
    EXPECT_EQ(status.error().CodeText(), "IX-INCOMPLETE");
  }
}

struct TreeCase {
  std::string code;
  std::vector<std::pair<std::string, std::string>> map;
  std::vector<std::string> in_one;
  std::vector<std::string> in_two;
  std::string field;
  std::string file;         // empty: the offset lies in the index
  std::string index_token;  // where it lies in the index
  uint64_t shard_offset = 0;
};

TEST(ShardIndexTest, IxTreeRulesC05C06C07) {
  const std::vector<TreeCase> cases = {
      {"IX-DUP", {{"a", kOne}, {"b", kTwo}}, {"a", "b"}, {"b"}, "b", kTwo, "", 100},
      {"IX-UNMAPPED", {{"a", kOne}, {"b", kTwo}}, {"a", "c"}, {"b"}, "c", kOne, "", 104},
      {"IX-ABSENT", {{"a", kOne}, {"b", kTwo}, {"c", kTwo}}, {"a"}, {"b"}, "c", "", "\"c\"", 0},
      {"IX-ABSENT", {{"a", kTwo}, {"b", kOne}}, {"a"}, {"b"}, "a", "", "\"a\"", 0},
  };
  for (const TreeCase& test : cases) {
    const std::string text = IndexText("8", test.map);
    const auto index = ParseShardIndex(text);
    ASSERT_TRUE(index.has_value());
    const Header one = HeaderOf(test.in_one);
    const Header two = HeaderOf(test.in_two);
    std::vector<std::string> flags;
    const Status status = CheckShards(*index, std::vector<ShardHeader>{{kOne, &one}, {kTwo, &two}}, &flags);
    ASSERT_FALSE(status.has_value()) << test.code;
    EXPECT_EQ(status.error().CodeText(), test.code) << status.error().message;
    EXPECT_EQ(status.error().field, test.field);
    EXPECT_EQ(status.error().file, test.file);
    EXPECT_EQ(status.error().byte_offset,
              test.file.empty() ? text.find(test.index_token) : test.shard_offset);
  }
}

TEST(ShardIndexTest, IxMissingC03) {
  const std::string text = IndexText("8", {{"a", kOne}, {"b", kTwo}});
  const auto index = ParseShardIndex(text);
  const Header one = HeaderOf({"a"});
  std::vector<std::string> flags;
  const Status status = CheckShards(*index, std::vector<ShardHeader>{{kOne, &one}}, &flags);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().CodeText(), "IX-MISSING");
  EXPECT_EQ(status.error().byte_offset, text.find("\"" + std::string(kTwo)));
  EXPECT_EQ(status.error().field, "b");
}

TEST(ShardIndexTest, IxTotalC08IsFlagged) {
  const auto index = ParseShardIndex(IndexText("9", {{"a", kOne}, {"b", kTwo}}));
  const Header one = HeaderOf({"a"});
  const Header two = HeaderOf({"b"});
  std::vector<std::string> flags;
  EXPECT_TRUE(CheckShards(*index, std::vector<ShardHeader>{{kOne, &one}, {kTwo, &two}}, &flags).has_value());
  ASSERT_EQ(flags.size(), 1u);
  EXPECT_TRUE(flags[0].starts_with("IX-TOTAL"));
}

}  // namespace
}  // namespace slm::safetensors
