#include "evidence/cases_file.h"

#include <gtest/gtest.h>

namespace slm::evidence {
namespace {

TEST(CasesFileTest, ReadsTheThreeKinds) {
  const auto cases = ParseCases(
      "{\"id\":\"short\",\"text\":\"Once upon a time\",\"max_new_tokens\":16}\n"
      "{\"id\":\"raw\",\"ids\":[1,403,4294967295],\"stop_at_eos\":false}\n"
      "{\"id\":\"chat\",\"messages\":[{\"role\":\"user\", \"content\":\"H\\u00e9 "
      "\\\"x\\\"\"}],\"max_new_tokens\":8,"
      "\"case_class\":\"private_behavior_commitment\"}\n");
  ASSERT_TRUE(cases.has_value()) << cases.error().ToString();
  ASSERT_EQ(cases->size(), 3u);
  EXPECT_EQ((*cases)[0].kind, golden::InputKind::kUtf8);
  EXPECT_TRUE((*cases)[0].add_special_tokens);
  EXPECT_FALSE((*cases)[0].add_generation_prompt);
  EXPECT_EQ((*cases)[0].max_new_tokens, 16u);
  EXPECT_EQ((*cases)[1].ids, (std::vector<uint32_t>{1, 403, 4294967295u}));
  EXPECT_EQ((*cases)[1].data.size(), 12u);
  EXPECT_FALSE((*cases)[1].stop_at_eos);
  EXPECT_TRUE((*cases)[2].add_generation_prompt);
  EXPECT_EQ((*cases)[2].case_class, golden::CaseClass::kPrivateBehaviorCommitment);
  // Blanks go, members keep their order, text is written unescaped: the oracle's canonical form.
  EXPECT_EQ(AsText(ByteSpan((*cases)[2].data)), "[{\"role\":\"user\",\"content\":\"H\xc3\xa9 \\\"x\\\"\"}]");
}

struct BadCase {
  const char* text;
  ErrorCode code;
  uint64_t byte_offset;
  const char* field;
};

TEST(CasesFileTest, RefusesEverythingElse) {
  const BadCase bad[] = {
      {"", ErrorCode::kCaseSchema, 0, ""},
      {"{\"id\":\"a\",\"text\":\"x\",\"stop\":[\"y\"]}\n", ErrorCode::kUnsupported, 28, "stop"},
      {"{\"id\":\"a\",\"text\":\"x\",\"stop_ids\":[3]}\n", ErrorCode::kUnsupported, 32, "stop_ids"},
      {"{\"id\":\"a\",\"text\":\"x\",\"sampling\":{\"seed\":1}}\n", ErrorCode::kUnsupported, 32, "sampling"},
      {"{\"id\":\"a\",\"text\":\"x\",\"special_tokens_as_text\":true}\n", ErrorCode::kUnsupported, 46,
       "special_tokens_as_text"},
      {"{\"id\":\"a\",\"messages\":[{}],\"tools\":[{}]}\n", ErrorCode::kUnsupported, 34, "tools"},
      {"{\"id\":\"a\",\"text\":\"x\"}\n\n", ErrorCode::kJsonSyntax, 22, ""},
      {"{\"id\":\"a\\u0085b\",\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":\"a\\nb\",\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":\"\",\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":1.0,\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":9223372036854775808,\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":null,\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 6, "id"},
      {"{\"id\":1,\"text\":\"x\"}\n{\"id\":\"1\",\"text\":\"y\"}\n", ErrorCode::kCaseSchema, 20, "id"},
      {"{\"text\":\"x\"}\n", ErrorCode::kCaseSchema, 0, "id"},
      {"{\"id\":\"a\",\"text\":\"x\",\"ids\":[1]}\n", ErrorCode::kCaseSchema, 0, "text"},
      {"{\"id\":\"a\"}\n", ErrorCode::kCaseSchema, 0, "text"},
      {"{\"id\":\"a\",\"ids\":[]}\n", ErrorCode::kCaseSchema, 16, "ids"},
      {"{\"id\":\"a\",\"ids\":[1,4294967296]}\n", ErrorCode::kCaseSchema, 19, "ids"},
      {"{\"id\":\"a\",\"ids\":[1.0]}\n", ErrorCode::kCaseSchema, 17, "ids"},
      {"{\"id\":\"a\",\"messages\":[1]}\n", ErrorCode::kCaseSchema, 22, "messages"},
      {"{\"id\":\"a\",\"text\":\"x\",\"temperature\":1}\n", ErrorCode::kCaseSchema, 35, "temperature"},
      {"{\"id\":\"a\",\"text\":\"x\",\"add_generation_prompt\":true}\n", ErrorCode::kCaseSchema, 45,
       "add_generation_prompt"},
      {"{\"id\":\"a\",\"ids\":[1],\"add_special_tokens\":true}\n", ErrorCode::kCaseSchema, 41,
       "add_special_tokens"},
      {"{\"id\":\"a\",\"text\":\"x\",\"max_new_tokens\":-1}\n", ErrorCode::kCaseSchema, 38, "max_new_tokens"},
      {"{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}\n", ErrorCode::kCaseSchema, 22, "id"},
  };
  for (const BadCase& one : bad) {
    const auto cases = ParseCases(one.text);
    ASSERT_FALSE(cases.has_value()) << one.text;
    EXPECT_EQ(cases.error().code, one.code) << one.text << cases.error().ToString();
    EXPECT_EQ(cases.error().byte_offset, one.byte_offset) << one.text;
    EXPECT_EQ(cases.error().field, one.field) << one.text;
  }
  EXPECT_EQ(ParseCases("{\"id\":\"a\",\"id\":\"a\",\"text\":\"x\"}\n").error().code, ErrorCode::kJsonDupKey);
}

// The last line may lack its LF, as printf and many editors write it; fields of a batch record may stand at
// their defaults.
TEST(CasesFileTest, AsPeopleWriteThem) {
  const auto cases = ParseCases(
      "{\"id\":\"a\",\"ids\":[1],\"stop\":[],\"stop_ids\":[],\"sampling\":{},\"logits\":\"last\"}\n"
      "{\"id\":\"b\",\"messages\":[{}],\"tools\":null,\"documents\":[],\"special_tokens_as_text\":false}");
  ASSERT_TRUE(cases.has_value()) << cases.error().ToString();
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ((*cases)[1].id, "b");
  EXPECT_EQ((*cases)[1].kind, golden::InputKind::kMessages);
  const auto named = ParseCases(
      "{\"id\":7,\"ids\":[1]}\n{\"id\":-0,\"ids\":[1]}\n{\"id\":\"a case/\xC3\xA9\",\"ids\":[1]}\n");
  ASSERT_TRUE(named.has_value()) << named.error().ToString();
  EXPECT_EQ((*named)[0].id, "7");
  EXPECT_EQ((*named)[1].id, "0");
  EXPECT_EQ((*named)[2].id, "a case/\xC3\xA9");
}

}  // namespace
}  // namespace slm::evidence
