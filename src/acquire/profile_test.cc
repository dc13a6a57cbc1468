// ACQ-02, ACQ-03: the profile as data.
#include "acquire/profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "acquire/embedded.h"

namespace slm::acquire {
namespace {

TEST(ProfileTest, Acq02BuiltInEqualsTheFile) {
  std::ifstream file(std::string(SLM_SOURCE_DIR) + "/profiles/acquire/hf-directory-v2.json",
                     std::ios::binary);
  ASSERT_TRUE(file);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, EmbeddedDirectoryProfile());
  const auto profile = LoadProfile("");
  ASSERT_TRUE(profile.has_value()) << profile.error().ToString();
  EXPECT_EQ(profile->limits.max_files, 512u);
  EXPECT_EQ(profile->limits.max_file_bytes, uint64_t{8} << 30);
  EXPECT_EQ(profile->limits.max_total_bytes, uint64_t{16} << 30);
  EXPECT_EQ(profile->limits.max_depth, 6u);
  EXPECT_EQ(profile->limits.max_path_bytes, 512u);
}

TEST(ProfileTest, Acq02A11Kinds) {
  const auto profile = LoadProfile("");
  ASSERT_TRUE(profile.has_value());
  const std::pair<const char*, const char*> allowed[] = {
      {"config.json", "config"},
      {"model.safetensors", "weights"},
      {"model-00001-of-00002.safetensors", "weights"},
      {"README.md", "model-card"},
      {"LICENSE", "license-text"},
      {"additional_chat_templates/tool_use.jinja", "named-template"},
      {".gitattributes", "document"}};
  for (const auto& [path, kind] : allowed) {
    const auto found = profile->KindOf(path);
    ASSERT_TRUE(found.has_value()) << path;
    EXPECT_EQ(*found, kind);
  }
  for (const char* path :
       {"pytorch_model.bin", "x.pkl", "modeling_x.py", "sub/deep/run.py", "a.zip", "lib.so", "lib.so.1",
        "adapter_model.safetensors", "other.safetensors", "strange.json", "noextension", ".hidden",
        "sub/config.json", "model.safetensors.bak"}) {
    const auto found = profile->KindOf(path);
    ASSERT_FALSE(found.has_value()) << path;
    EXPECT_EQ(found.error().CodeText(), "ACQ-FORBIDDEN");
    EXPECT_EQ(found.error().field, path);
    EXPECT_EQ(found.error().file, path);
  }
  EXPECT_NE(profile->IgnoreRule(".git"), nullptr);
  EXPECT_EQ(profile->IgnoreRule(".gi"), nullptr);
  EXPECT_EQ(profile->IgnoreRule("x/.git"), nullptr);
  EXPECT_NE(profile->IgnoreRule(".cache/huggingface"), nullptr);
  EXPECT_EQ(profile->IgnoreRule(".cache"), nullptr);
}

TEST(ProfileTest, Acq02Patterns) {
  EXPECT_TRUE(MatchesPattern("*.md", "a.b.md"));
  EXPECT_TRUE(MatchesPattern("m-*-of-*.s", "m-1-of-2-of-3.s"));
  EXPECT_FALSE(MatchesPattern("*.md", "a/b.md"));
  EXPECT_FALSE(MatchesPattern("*.md", ".md"));
  EXPECT_FALSE(MatchesPattern("*.md", "\xc3\xa9.md"));
  EXPECT_FALSE(MatchesPattern("LICENSE-*", "LICENSE-"));
  EXPECT_FALSE(MatchesPattern("a*", "b"));
  EXPECT_TRUE(MatchesPattern("", ""));
  EXPECT_FALSE(MatchesPattern("*a*a*a*a*a*b", std::string(500, 'a')));
}

TEST(ProfileTest, Acq02MalformedProfiles) {
  const std::string good(EmbeddedDirectoryProfile());
  const auto expect = [](const std::string& text, std::string_view code, std::string_view field) {
    const auto profile = ParseProfile(AsBytes(text), "p.json");
    ASSERT_FALSE(profile.has_value());
    EXPECT_EQ(profile.error().CodeText(), code);
    EXPECT_EQ(profile.error().field, field);
    EXPECT_EQ(profile.error().file, "p.json");
    EXPECT_TRUE(profile.error().byte_offset.has_value());
  };
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  expect(replaced("acquire-profile.v1", "acquire-profile.v2"), "SCHEMA-VALUE", "schema");
  expect(replaced("\"max_files\": 512", "\"max_files\": -1"), "SCHEMA-TYPE", "max_files");
  expect(replaced("\"max_files\": 512, ", ""), "SCHEMA-MISSING", "max_files");
  expect(replaced("\"max_files\"", "\"extra\": 1, \"max_files\""), "SCHEMA-UNKNOWN-KEY", "extra");
  expect(replaced("\"required\": [", "\"required\": [1, "), "SCHEMA-TYPE", "required");
  expect(replaced("\"field\": \"clean-up\"", "\"field\": \"magic\""), "SCHEMA-VALUE",
         "clean_up_tokenization_spaces");
  expect(replaced("\"keys\"", "\"kees\""), "SCHEMA-MISSING", "keys");
  EXPECT_EQ(ParseProfile(AsBytes(std::string_view("{")), "p.json").error().CodeText(), "JSON-SYNTAX");
}

}  // namespace
}  // namespace slm::acquire
