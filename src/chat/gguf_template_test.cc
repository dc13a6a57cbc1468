#include "chat/gguf_template.h"

#include <gtest/gtest.h>

#include <string>

#include "gguf/test_file.h"

namespace slm::chat {
namespace {

using gguf_testing::File;
using gguf_testing::IdPair;
using gguf_testing::Number;
using gguf_testing::Text;
using gguf_testing::TextPair;
using gguf_testing::TextsPair;

std::string Tokens(const std::vector<std::string>& tokens) {
  return TextsPair("tokenizer.ggml.tokens", tokens);
}
Result<GgufTemplate> Read(const std::string& file) {
  return ReadGgufTemplate(AsBytes(file));
}

// A file as the format's specification lays it out, with values of other types between.
std::string WholeFile() {
  const std::string floats = Text("a.floats") + Number(9, 4) + Number(6, 4) + Number(2, 8) + Number(0, 8);
  const std::string nested =
      Text("a.nested") + Number(9, 4) + Number(9, 4) + Number(1, 8) + Number(0, 4) + Number(3, 8) + "abc";
  const std::string flag = Text("a.flag") + Number(7, 4) + "\x01";
  return File({TextPair("general.architecture", "llama"), IdPair("tokenizer.ggml.bos_token_id", 1), floats,
               Tokens({"<unk>", "<s>", "</s>"}), nested,
               TextPair("tokenizer.chat_template", "{{ bos_token }}é"), flag,
               IdPair("tokenizer.ggml.eos_token_id", 2), IdPair("tokenizer.ggml.padding_token_id", 7)});
}

TEST(GgufTemplate, ReadsTemplateAndTokens) {  // TPL-06
  const auto read = Read(WholeFile() + "tensor data");
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  EXPECT_EQ(read->source, "{{ bos_token }}é");
  const std::vector<std::pair<std::string, std::string>> expected = {{"bos_token", "<s>"},
                                                                     {"eos_token", "</s>"}};
  EXPECT_EQ(read->special_tokens, expected);
}

TEST(GgufTemplate, MayHoldNone) {  // TPL-06
  const auto read = Read(File({TextPair("general.name", "x")}, 2));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->source.has_value());
  EXPECT_TRUE(read->special_tokens.empty());
}

TEST(GgufTemplate, RefusesEveryCut) {  // TPL-06, INP
  const std::string whole = WholeFile();
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto read = Read(whole.substr(0, n));
    ASSERT_FALSE(read.has_value()) << n;
    EXPECT_EQ(read.error().code, ErrorCode::kTplInput) << n;
    EXPECT_TRUE(read.error().byte_offset.has_value());
  }
}

TEST(GgufTemplate, RefusesBadInput) {  // TPL-06, INP
  const auto code = [](const std::string& file) {
    const auto read = Read(file);
    return read ? ErrorCode::kNotFound : read.error().code;
  };
  EXPECT_EQ(code(File({}, 1)), ErrorCode::kUnsupported);
  EXPECT_EQ(code("GGUF" + std::string("\0\0\0\3", 4) + Number(0, 16)), ErrorCode::kUnsupported);
  EXPECT_EQ(code("GGML" + Number(3, 20)), ErrorCode::kTplInput);
  const std::string once = TextPair("tokenizer.chat_template", "a");
  const std::string id = IdPair("tokenizer.ggml.bos_token_id", 0);
  EXPECT_EQ(code(File({once, once})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({id, id})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({Tokens({}), Tokens({})})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({TextPair("tokenizer.chat_template", "\xff")})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({TextPair("tokenizer.chat_template", std::string((1u << 20) + 1, 'a'))})),
            ErrorCode::kTplInput);
  EXPECT_EQ(code(File({IdPair("tokenizer.chat_template", 1)})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({TextPair("tokenizer.ggml.bos_token_id", "1")})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({Text("a") + Number(13, 4)})), ErrorCode::kTplInput);
  // Lengths that would overflow, and arrays without end.
  EXPECT_EQ(code(File({Number(UINT64_MAX, 8)})), ErrorCode::kTplInput);
  EXPECT_EQ(code(File({Text("a") + Number(9, 4) + Number(10, 4) + Number(UINT64_MAX / 4, 8)})),
            ErrorCode::kTplInput);
  std::string deep = Text("a");
  for (int i = 0; i < 1000; ++i) deep += Number(9, 4) + (i > 0 ? Number(1, 8) : "");
  EXPECT_EQ(code(File({deep})), ErrorCode::kTplInput);
  EXPECT_EQ(code("GGUF" + Number(3, 4) + Number(0, 8) + Number(UINT64_MAX, 8)), ErrorCode::kTplInput);
}

}  // namespace
}  // namespace slm::chat
