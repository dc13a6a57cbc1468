// The worked examples of docs/spec/identity.md, read out of the page itself (ID-01).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "codec/sha256.h"
#include "identity/node.h"

namespace slm {
namespace {

struct Example {
  std::string id;
  Bytes preimage;
};

std::vector<Example> ReadExamples() {
  std::ifstream page(SLM_SOURCE_DIR "/docs/spec/identity.md");
  std::vector<Example> examples;
  std::string line;
  std::string hex;
  bool is_inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with("id `")) examples.push_back({line.substr(4, 64), {}});
    if (line == "```" && is_inside) {
      EXPECT_TRUE(FromHex(hex, &examples.back().preimage));
      is_inside = false;
    } else if (is_inside) {
      hex += line;
    } else if (line == "```hex") {
      is_inside = true;
      hex.clear();
    }
  }
  return examples;
}

TEST(IdentityPage, ThreeExamplesHashToTheirIds) {
  const std::vector<Example> examples = ReadExamples();
  ASSERT_EQ(examples.size(), 3u);
  for (const Example& example : examples) {
    EXPECT_EQ(ToHex(Sha256Of(example.preimage)), example.id);
    const auto node = DecodeNode(example.preimage);
    ASSERT_TRUE(node.has_value()) << node.error().ToString();
    EXPECT_EQ(EncodeNode(*node), example.preimage);
  }
}

TEST(IdentityPage, ExamplesSayWhatThePageSays) {
  const std::vector<Example> examples = ReadExamples();
  ASSERT_EQ(examples.size(), 3u);
  const auto parent = DecodeNode(examples[2].preimage);
  ASSERT_TRUE(parent.has_value());
  Hash256 first;
  Hash256 second;
  ASSERT_TRUE(HashFromHex(examples[0].id, &first) && HashFromHex(examples[1].id, &second));
  EXPECT_EQ(*parent,
            (Node{"acquisition",
                  {{"schema", "slm.example.v1"}, {"name", "example"}, {"parts", cbor::Array{1000, -1, true}}},
                  {{"file", first}, {"file", second}}}));
  const Bytes path{'R', 'E', 'A', 'D', 'M', 'E', '.', 'm', 'd'};
  EXPECT_EQ(
      *DecodeNode(examples[0].preimage),
      (Node{
          "source-file",
          {{"schema", "slm.example.v1"}, {"path", path}, {"size", 6}, {"blob", Sha256Of(AsBytes("hello\n"))}},
          {}}));
  EXPECT_EQ(
      *DecodeNode(examples[1].preimage),
      (Node{"source-file",
            {{"schema", "slm.example.v1"}, {"path", Bytes{0xFF, 0}}, {"size", 0}, {"blob", Sha256Of({})}},
            {}}));
}

}  // namespace
}  // namespace slm
