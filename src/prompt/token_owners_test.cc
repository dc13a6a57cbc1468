// TPL-05: who emits BOS and EOS, in both directions. Expected figures are Transformers' own, of published
// templates over published tokenizers (vectors/chat/token_owners.jsonl).
#include "prompt/token_owners.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "codec/json.h"

namespace slm::prompt {
namespace {

using tokenizer::Tokenizer;

const std::string kVectors = std::string(SLM_SHARED_DIR) + "/vectors";

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::shared_ptr<const Tokenizer> Published(const std::string& name) {
  auto tokenizer = Tokenizer::FromJson(ReadFile(kVectors + "/tokenizers/models/" + name + ".tokenizer.json"));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
  return tokenizer ? *tokenizer : nullptr;
}

chat::Rendered RenderText(const std::string& source, const std::string& context,
                          const SpecialTokens& special) {
  const auto compiled = chat::Template::Compile(source);
  EXPECT_TRUE(compiled.has_value());
  const auto document = json::Parse(context);
  const auto rendered =
      compiled->Render(document->root(), {.special_tokens = special, .clock = "2026-11-30T12:00:00"});
  EXPECT_TRUE(rendered.has_value()) << rendered.error().ToString();
  return *rendered;
}

TEST(TokenOwnersTest, PublishedTemplatesAndTokenizersAgreeWithTheReference) {
  if (!std::filesystem::exists(kVectors + "/templates"))
    GTEST_SKIP() << "shared/vectors is not beside this tree";
  std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers;
  std::istringstream lines(ReadFile(std::string(SLM_SOURCE_DIR) + "/vectors/chat/token_owners.jsonl"));
  std::string line;
  std::map<std::string, uint64_t> seen;
  while (std::getline(lines, line)) {
    const auto row = json::Parse(line);
    ASSERT_TRUE(row.has_value());
    const auto name = row->root().Find("tokenizer");
    if (!name) continue;
    const std::string file(row->root().Find("template")->string());
    SCOPED_TRACE(std::string(name->string()) + " " + file);
    auto& tokenizer = tokenizers[std::string(name->string())];
    if (tokenizer == nullptr) tokenizer = Published(std::string(name->string()));
    const SpecialTokens special = {
        {"bos_token", std::string(row->root().Find("bos")->Find("token")->string())},
        {"eos_token", std::string(row->root().Find("eos")->Find("token")->string())}};
    const chat::Rendered rendered =
        RenderText(ReadFile(kVectors + "/templates/files/" + file + ".jinja"),
                   R"({"messages":[{"role":"user","content":"Hello there"},)"
                   R"({"role":"assistant","content":"Good day"}],"add_generation_prompt":false})",
                   special);
    const TokenOwners owners = OwnersOf(*tokenizer, special, {rendered.text, rendered.Spans()});
    const TokenOwners of_text = OwnersOf(*tokenizer, special, {"Hello there", {}, true});
    for (const char* key : {"bos", "eos"}) {
      SCOPED_TRACE(key);
      const json::Value expected = *row->root().Find(key);
      const TokenOwner& owner = *key == 'b' ? owners.bos : owners.eos;
      const TokenOwner& plain = *key == 'b' ? of_text.bos : of_text.eos;
      const auto number = [&](const char* field) { return *expected.Find(field)->AsUint(); };
      const uint64_t in_prompt = number("in_prompt");
      const bool adds = number("added_to_text") > 0;
      EXPECT_EQ(owner.n_by_template, in_prompt);
      EXPECT_EQ(owner.n_by_tokenizer, 0u);
      EXPECT_EQ(owner.n_by_content, 0u);
      EXPECT_EQ(owner.first, expected.Find("at_edge")->boolean());
      EXPECT_EQ(owner.tokenizer_would_add, adds);
      EXPECT_EQ(owner.suppressed(), adds);
      EXPECT_EQ(owner.would_double(), expected.Find("would_double")->boolean());
      EXPECT_FALSE(owner.doubled());
      EXPECT_EQ(owner.emitted_by, in_prompt > 0 ? "template" : "none");
      EXPECT_EQ(owner.is_lost(), in_prompt == 0 && adds);
      EXPECT_EQ(plain.n_by_tokenizer, number("added_to_text"));
      EXPECT_EQ(plain.emitted_by, adds ? "tokenizer" : "none");
      EXPECT_FALSE(plain.suppressed());
      ++seen[owner.emitted_by + (owner.would_double() ? ", would double" : owner.is_lost() ? ", lost" : "")];
    }
  }
  // Every direction occurs.
  for (const char* kind : {"template", "template, would double", "none", "none, lost"})
    EXPECT_GE(seen[kind], 5u) << kind;
}

TEST(TokenOwnersTest, TextOfAMessageIsNotTheTemplates) {
  if (!std::filesystem::exists(kVectors + "/tokenizers"))
    GTEST_SKIP() << "shared/vectors is not beside this tree";
  const auto tokenizer = Published("llama2");
  const SpecialTokens special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const std::string context = R"({"messages":[{"role":"user","content":"<s> q </s>"}]})";
  const chat::Rendered rendered = RenderText("{{ messages[0].content }}", context, special);
  const TokenOwners owners = OwnersOf(*tokenizer, special, {rendered.text, rendered.Spans()});
  EXPECT_EQ(owners.bos.emitted_by, "content");
  EXPECT_EQ(owners.bos.n_by_template, 0u);
  EXPECT_EQ(owners.bos.n_by_content, 1u);
  EXPECT_TRUE(owners.bos.suppressed());
  EXPECT_FALSE(owners.bos.would_double());
  // A caller who writes the token into plain text gets two, as from the reference.
  const TokenOwners text = OwnersOf(*tokenizer, special, {"<s>q", {}, true});
  EXPECT_EQ(text.bos.emitted_by, "tokenizer");
  EXPECT_TRUE(text.bos.doubled());
  EXPECT_EQ(
      TokenOwnersText(text),
      "BOS |<s>|: the tokenizer, once; the input's own text, once; it stands twice\nEOS |</s>|: nobody\n");
}

TEST(TokenOwnersTest, WhatIsWrittenSaysWhoAndWhatWasSuppressed) {
  if (!std::filesystem::exists(kVectors + "/tokenizers"))
    GTEST_SKIP() << "shared/vectors is not beside this tree";
  const auto tokenizer = Published("llama2");
  const SpecialTokens special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const std::string context = R"({"messages":[{"role":"user","content":"q"}]})";
  const chat::Rendered rendered = RenderText("{{ bos_token }}{{ messages[0].content }}", context, special);
  const TokenOwners owners = OwnersOf(*tokenizer, special, {rendered.text, rendered.Spans()});
  EXPECT_EQ(
      TokenOwnersText(owners),
      "BOS |<s>|: the template, once; the tokenizer puts one around plain text and is told not to here\n"
      "EOS |</s>|: nobody\n");
  const chat::Rendered bare = RenderText("{{ messages[0].content }}", context, special);
  EXPECT_EQ(
      TokenOwnersText(OwnersOf(*tokenizer, special, {bare.text, bare.Spans()})),
      "BOS |<s>|: nobody; the tokenizer puts one around plain text and is told not to here: this prompt has "
      "none\nEOS |</s>|: nobody\n");
  json::Writer out;
  WriteTokenOwners(owners, out);
  const auto written = json::Parse(out.Take());
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->root().Find("bos")->Find("emitted_by")->string(), "template");
  EXPECT_TRUE(written->root().Find("bos")->Find("suppressed")->boolean());
  EXPECT_TRUE(written->root().Find("bos")->Find("would_double")->boolean());
  for (const json::Value token : written->root().Find("tokenizer")->Find("prefix")->children())
    EXPECT_EQ(token.string(), "<s>");
  EXPECT_FALSE(written->root().Find("tokenizer")->Find("adds")->boolean());
  const TokenOwners none = OwnersOf(*Published("gpt2"), {}, {"q", {}, true});
  EXPECT_EQ(TokenOwnersText(none), "BOS: the model has none\nEOS: the model has none\n");
}

}  // namespace
}  // namespace slm::prompt
