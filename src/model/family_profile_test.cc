// The family profile: frozen data, complete and well-formed (CFG-02).
#include "model/family_profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "model/llama.h"

namespace slm {
namespace {

TEST(FamilyProfileTest, IsTheCommittedFile) {
  std::ifstream in(SLM_SOURCE_DIR "/profiles/families/llama.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const FamilyProfile& profile = FamilyProfile::Llama();
  EXPECT_EQ(profile.json_text(), text);
  EXPECT_EQ(profile.family(), "llama");
  EXPECT_EQ(profile.pinned_source(), "transformers 5.24.0");
  EXPECT_GT(profile.config_keys().size(), 150u);
  EXPECT_GT(profile.generation_keys().size(), 70u);
}

TEST(FamilyProfileTest, LooksBehavioural) {
  const FamilyProfile& profile = FamilyProfile::Llama();
  EXPECT_TRUE(profile.LooksBehavioural("attn_magic"));
  EXPECT_TRUE(profile.LooksBehavioural("my_rope_base"));
  EXPECT_TRUE(profile.LooksBehavioural("custom.scaling"));
  EXPECT_FALSE(profile.LooksBehavioural("uploader_comment"));
  EXPECT_FALSE(profile.LooksBehavioural("compact_disc"));  // "act" inside a word does not count
  for (const char* key : {"n_head", "head.count", "heads_kv", "act_fn", "hidden_activation", "embed_dim",
                          "quant-bits", "quantization_bits", "attn_softcap", "norm_eps", "tie_all"}) {
    EXPECT_TRUE(profile.LooksBehavioural(key)) << key;
  }
  // Words that only begin as one of the model's does: a person's decision settles them (CFG-02).
  for (const char* key :
       {"software_version", "quantity", "header_text", "actual_author", "tier", "dimmed", "normandy"})
    EXPECT_FALSE(profile.LooksBehavioural(key)) << key;
}

std::string Profile(const std::string& row) {
  return R"({"schema":"slm.family-profile.v1","family":"f","version":1,"pinned_source":"s","reviewer":"r",)"
         R"("architectures":[],"model_types":[],"behaviour_words":[],"config":[)" +
         row + R"(],"generation_config":[]})";
}

TEST(FamilyProfileTest, RefusesBadRows) {
  EXPECT_TRUE(FamilyProfile::Parse(Profile("")).has_value());
  EXPECT_TRUE(FamilyProfile::Parse(Profile(R"({"key":"a","class":"consumed","field":"x"})")).has_value());
  for (const char* row :
       {R"({"key":"a","class":"consumed"})", R"({"key":"a","class":"documentary"})",
        R"({"key":"a","class":"odd","reason":"r"})", R"({"class":"documentary","reason":"r"})",
        R"({"key":"a","class":"unsupported","reason":"r"})",
        R"({"key":"a","class":"consumed","field":"x","reason":"r"})",
        R"({"key":"a","class":"documentary","reason":"r"},{"key":"a","class":"documentary","reason":"r"})"}) {
    EXPECT_EQ(FamilyProfile::Parse(Profile(row)).error().code, ErrorCode::kSchemaValue) << row;
  }
  EXPECT_EQ(
      FamilyProfile::Parse(Profile(R"({"key":"a","class":"consumed","field":"x","more":1})")).error().code,
      ErrorCode::kSchemaUnknownKey);
}

}  // namespace
}  // namespace slm
