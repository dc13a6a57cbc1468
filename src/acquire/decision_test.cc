// ACQ-08, CFG-02: statement files are strict, and name what they apply to.
#include "acquire/decision.h"

#include <gtest/gtest.h>

#include "acquire/test_source.h"

namespace slm::acquire {
namespace {

const std::string kHash(64, 'a');

std::string Statement(std::string_view extra = "") {
  return R"({"schema":"slm.decision.v1","kind":"license","reviewer":"A. Person","reason":"read the text",)"
         R"("applies_to":[")" +
         kHash + R"("],"choice":"MIT")" + std::string(extra) + "}";
}

void ExpectBad(const std::string& text, std::string_view token, std::string_view field,
               std::string_view code = "DECISION-BAD") {
  const auto decision = ParseDecision(AsBytes(text), "d.json");
  ASSERT_FALSE(decision.has_value()) << text;
  EXPECT_EQ(decision.error().CodeText(), code) << decision.error().message;
  EXPECT_EQ(decision.error().byte_offset, text.find(token)) << text;
  EXPECT_EQ(decision.error().field, field);
  EXPECT_EQ(decision.error().file, "d.json");
}

TEST(DecisionTest, Acq08ReadsAStatement) {
  const std::string text = Statement();
  const auto decision = ParseDecision(AsBytes(text), "d.json");
  ASSERT_TRUE(decision.has_value()) << decision.error().ToString();
  EXPECT_EQ(decision->kind, "license");
  EXPECT_EQ(decision->ChoiceText(), "MIT");
  Hash256 hash{};
  hash.fill(0xaa);
  EXPECT_TRUE(decision->AppliesTo(hash));
  hash[31] = 0;
  EXPECT_FALSE(decision->AppliesTo(hash));
  const Node node = DecisionNode(*decision);
  EXPECT_EQ(node.type, "decision");
  const auto back = DecodeNode(EncodeNode(node));
  ASSERT_TRUE(back.has_value()) << back.error().ToString();
  EXPECT_EQ(*back, node);
  // The path it came from is no part of its identity; its bytes are.
  EXPECT_EQ(NodeId(node), NodeId(DecisionNode(*ParseDecision(AsBytes(text), "elsewhere.json"))));
  EXPECT_NE(NodeId(node), NodeId(DecisionNode(*ParseDecision(AsBytes(text + " "), "d.json"))));
}

TEST(DecisionTest, Acq08RefusesWhatIsNotAStatement) {
  ExpectBad(Statement(",\"extra\":1"), "\"extra\"", "extra");
  ExpectBad(Replaced(Statement(), "slm.decision.v1", "slm.decision.v2"), "\"slm.decision.v2\"", "schema");
  ExpectBad(Replaced(Statement(), "\"license\"", "\"licence\""), "\"licence\"", "kind");
  ExpectBad(Replaced(Statement(), "\"A. Person\"", "\"  \""), "\"  \"", "reviewer");
  ExpectBad(Replaced(Statement(), "\"read the text\"", "7"), "7", "reason");
  ExpectBad(Replaced(Statement(), "\"reason\":\"read the text\",", ""), "{", "reason");
  ExpectBad(Replaced(Statement(), kHash, kHash.substr(1)), "\"aaa", "applies_to");
  ExpectBad(Replaced(Statement(), kHash, std::string(64, 'A')), "\"AAA", "applies_to");
  ExpectBad(Replaced(Statement(), "[\"" + kHash + "\"]", "[]"), "[]", "applies_to");
  ExpectBad(Replaced(Statement(), "\"MIT\"", "1.5"), "1.5", "choice");
  ExpectBad(Replaced(Statement(), "\"MIT\"", "{\"Bad Key\":1}"), "\"Bad Key\"", "choice");
  ExpectBad("[]", "[", "");
  const std::string twice =
      Replaced(Statement(), "[\"" + kHash + "\"]", "[\"" + kHash + "\", \"" + kHash + "\"]");
  const auto decision = ParseDecision(AsBytes(twice), "d.json");
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().byte_offset, twice.rfind("\"" + kHash));
}

TEST(DecisionTest, Acq08DuplicateKeysAndMissingFile) {
  const std::string text = Statement(",\"choice\":\"BSD\"");
  const auto decision = ParseDecision(AsBytes(text), "d.json");
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().CodeText(), "JSON-DUPKEY");
  EXPECT_EQ(decision.error().byte_offset, text.rfind("\"choice\""));
  EXPECT_EQ(LoadDecision("no/such/statement.json").error().CodeText(), "NOT-FOUND");
}

TEST(DecisionTest, Cfg02ChoiceMayBeAnObject) {
  const std::string text = Replaced(Replaced(Statement(), "\"license\"", "\"config-field\""), "\"MIT\"",
                                    R"({"key":"x_y","values":[1,-2,true,null,"t"]})");
  const auto decision = ParseDecision(AsBytes(text), "d.json");
  ASSERT_TRUE(decision.has_value()) << decision.error().ToString();
  ASSERT_NE(decision->choice.AsMap(), nullptr);
  EXPECT_EQ(decision->ChoiceText(), "");
  EXPECT_TRUE(DecodeNode(EncodeNode(DecisionNode(*decision))).has_value());
}

}  // namespace
}  // namespace slm::acquire
