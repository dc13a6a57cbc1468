// CFG-02, TOK-07: the closed lists of keys of the tokenizer's files. What each key does in the pinned source
// was read from transformers 5.24.0 and tried with it; its line stands in the profile.
#include "acquire/file_keys.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace slm::acquire {
namespace {

class FileKeysTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto profile = LoadProfile("");
    ASSERT_TRUE(profile.has_value()) << profile.error().ToString();
    profile_ = *profile;
    Set(&SourceView::tokenizer, R"({"model":{"type":"BPE","vocab":{},"merges":[]}})");
  }

  void Set(std::optional<json::Value> SourceView::* file, std::string text) {
    auto document = json::Parse(std::move(text));
    ASSERT_TRUE(document.has_value()) << document.error().ToString();
    documents_.push_back(std::make_unique<json::Document>(*std::move(document)));
    view_.*file = documents_.back()->root();
  }

  Status Check(const std::vector<DocumentaryKey>& decided = {}) {
    ignored_.clear();
    return CheckFileKeys(view_, profile_.keys, decided, &ignored_);
  }

  void ExpectPasses(const std::string& tokenizer_config) {
    Set(&SourceView::tokenizer_config, tokenizer_config);
    const Status status = Check();
    EXPECT_TRUE(status.has_value()) << status.error().ToString() << "\n" << tokenizer_config;
  }

  // `at` is the text whose first byte the error names.
  void ExpectRefused(std::optional<json::Value> SourceView::* file, const std::string& text,
                     std::string_view code, std::string_view at, std::string_view field) {
    Set(file, text);
    const Status status = Check();
    view_.*file = std::nullopt;
    ASSERT_FALSE(status.has_value()) << text;
    EXPECT_EQ(status.error().CodeText(), code) << text;
    EXPECT_EQ(status.error().byte_offset, text.find(at)) << text;
    EXPECT_EQ(status.error().field, field) << text;
  }
  void ExpectRefused(const std::string& text, std::string_view code, std::string_view at,
                     std::string_view field) {
    ExpectRefused(&SourceView::tokenizer_config, text, code, at, field);
  }

  Profile profile_;
  SourceView view_;
  std::vector<std::unique_ptr<json::Document>> documents_;
  std::vector<IgnoredKey> ignored_;
};

// Forms that publishers of this family really write: Llama 2, Llama 3, SmolLM2, files saved by version 5, and
// what tools for fine-tuning leave behind.
TEST_F(FileKeysTest, Cfg02PublishedFilesNeedNoDecision) {
  ExpectPasses(
      R"({"add_bos_token":true,"add_eos_token":false,"bos_token":{"__type":"AddedToken","content":"<s>",)"
      R"("lstrip":false,"normalized":true,"rstrip":false,"single_word":false},)"
      R"("clean_up_tokenization_spaces":false,"legacy":false,"model_max_length":1000000000000000019884624838656,)"
      R"("pad_token":null,"padding_side":"right","sp_model_kwargs":{},"tokenizer_class":"LlamaTokenizer"})");
  ExpectPasses(
      R"({"added_tokens_decoder":{"128000":{"content":"<|begin_of_text|>","lstrip":false,"normalized":false,)"
      R"("rstrip":false,"single_word":false,"special":true}},"bos_token":"<|begin_of_text|>",)"
      R"("chat_template":"{{ bos_token }}","clean_up_tokenization_spaces":true,)"
      R"("model_input_names":["input_ids","attention_mask"],"model_max_length":131072,)"
      R"("tokenizer_class":"PreTrainedTokenizerFast"})");
  ExpectPasses(R"({"add_prefix_space":false,"additional_special_tokens":["<|im_start|>","<|im_end|>"],)"
               R"("bos_token":"<|im_start|>","model_max_length":8192,"tokenizer_class":"GPT2Tokenizer",)"
               R"("unk_token":"<|endoftext|>","vocab_size":49152})");
  ExpectPasses(
      R"({"backend":"tokenizers","extra_special_tokens":["<s>"],"is_local":true,"local_files_only":false,)"
      R"("tokenizer_class":"TokenizersBackend","use_default_system_prompt":false})");
  ExpectPasses(R"({"max_length":512,"pad_to_multiple_of":null,"pad_token_type_id":0,"stride":0,)"
               R"("truncation_side":"right","truncation_strategy":"longest_first","tokenizer_file":null,)"
               R"("name_or_path":"x","special_tokens_map_file":"y","spaces_between_special_tokens":false,)"
               R"("processor_class":null,"use_fast":true,"image_token":"<image>","auto_map":{}})");
  ExpectPasses(R"({"chat_template":[{"name":"default","template":"a"},{"name":"tool_use","template":"b"}]})");
  Set(&SourceView::special_tokens_map,
      R"({"bos_token":{"content":"<s>","lstrip":false},"additional_special_tokens":["<a>"]})");
  Set(&SourceView::added_tokens, R"({"<a>":4,"anything":5})");
  Set(&SourceView::chat_template_json, R"({"chat_template":"x"})");
  Set(&SourceView::processor_config, R"({"processor_class":"P","image_seq_len":64,"chat_template":"x"})");
  const Status status = Check();
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
}

TEST_F(FileKeysTest, Cfg02WhatHasNoEffectIsRecordedWithItsReason) {
  Set(&SourceView::tokenizer_config, R"({"legacy":true,"eos_token":"x","add_bos_token":true})");
  Set(&SourceView::processor_config, R"({"a":1,"b":2})");
  ASSERT_TRUE(Check().has_value());
  ASSERT_EQ(ignored_.size(), 3u);
  EXPECT_EQ(ignored_[0].file, "processor_config.json");
  EXPECT_EQ(ignored_[0].key, "*");
  EXPECT_EQ(ignored_[1].key, "legacy");
  EXPECT_EQ(ignored_[1].value, "true");
  EXPECT_EQ(ignored_[2].key, "add_bos_token");
  EXPECT_NE(ignored_[2].reason.find("post-processor"), std::string::npos);
}

TEST_F(FileKeysTest, Cfg02UnlistedKeysNeedADecision) {
  ExpectRefused(R"({"eos_token":"x","house_style":1})", "CFG-UNCLASSIFIED", "\"house_style\"", "house_style");
  ExpectRefused(&SourceView::special_tokens_map, R"({"house_style":1})", "CFG-UNCLASSIFIED",
                "\"house_style\"", "house_style");
  ExpectRefused(&SourceView::chat_template_json, R"({"house_style":1})", "CFG-UNCLASSIFIED",
                "\"house_style\"", "house_style");
  Set(&SourceView::tokenizer_config, R"({"house_style":1})");
  EXPECT_TRUE(Check({{"tokenizer_config.json:house_style", "abc"}}).has_value());
  ASSERT_EQ(ignored_.size(), 1u);
  EXPECT_NE(ignored_[0].reason.find("abc"), std::string::npos);
  EXPECT_FALSE(Check({{"special_tokens_map.json:house_style", "abc"}}).has_value());
}

TEST_F(FileKeysTest, Cfg02NamesThatSpeakOfBehaviourAreFatal) {
  for (const std::string key :
       {"split_digits", "lowercase", "normalizer", "pre_tokenizer", "add_dummy_prefix", "decoder_type",
        "bos_id", "byte_fallback", "chat_templates", "add_special_tokens"}) {
    const std::string text = "{\"" + key + "\":true}";
    Set(&SourceView::tokenizer_config, text);
    const Status status = Check({{"tokenizer_config.json:" + key, "abc"}});
    ASSERT_FALSE(status.has_value()) << key;
    EXPECT_EQ(status.error().CodeText(), "CFG-UNKNOWN-FIELD") << key;
    EXPECT_EQ(status.error().byte_offset, 1u) << key;
  }
}

// Each of these changes ids or text in the pinned source, or runs the publisher's code.
TEST_F(FileKeysTest, Cfg02ValuesThatChangeTheTokenizerAreFatal) {
  const std::pair<const char*, const char*> rows[] = {
      {"auto_map", R"({"AutoTokenizer":["a.B",null]})"},
      {"auto_map", "null"},
      {"split_special_tokens", "true"},
      {"trust_remote_code", "true"},
      {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", "true"},
      {"init_inputs", "[1]"},
      {"tokenizer_truncation", R"({"max_length":1})"},
      {"tokenizer_padding", "{}"},
      {"post_processor", "{}"},
      {"tokenizer_object", "1"},
      {"vocab", R"({"a":0})"},
      {"merges", "[]"},
      {"fast_tokenizer_files", R"(["tokenizer.5.0.0.json"])"},
      {"sp_model_kwargs", R"({"enable_sampling":true})"},
      {"padding_side", "\"middle\""},
      {"tokenizer_class", "\"HouseTokenizer\""},
      {"tokenizer_class", "\"ByT5Tokenizer\""},
      {"tokenizer_class", "7"},
      {"clean_up_tokenization_spaces", "1"},
      {"eos_token", "2"},
      {"eos_token", "[\"</s>\"]"},
      {"house_token", "true"},
      {"added_tokens_decoder", "[]"},
      {"extra_special_tokens", "\"<a>\""},
      {"chat_template", R"({"default":"x"})"}};
  for (const auto& [key, value] : rows) {
    ExpectRefused("{\"" + std::string(key) + "\": " + value + "}", "CFG-VALUE", value, key);
  }
}

TEST_F(FileKeysTest, Cfg02TokensHaveAClosedForm) {
  ExpectRefused(R"({"eos_token":{"lstrip":false}})", "CFG-VALUE", R"({"lstrip)", "eos_token");
  ExpectRefused(R"({"eos_token":{"content":"x","weight": 2}})", "CFG-VALUE", "2}", "eos_token.weight");
  ExpectRefused(R"({"eos_token":{"content":"x","lstrip": 0}})", "CFG-VALUE", "0}", "eos_token.lstrip");
  ExpectRefused(R"({"eos_token":{"content":"x","__type":"Other"}})", "CFG-VALUE", "\"Other",
                "eos_token.__type");
  ExpectRefused(R"({"added_tokens_decoder":{"01":{"content":"x"}}})", "CFG-VALUE", R"({"content)",
                "added_tokens_decoder.01");
  ExpectRefused(R"({"added_tokens_decoder":{"-1":{"content":"x"}}})", "CFG-VALUE", R"({"content)",
                "added_tokens_decoder.-1");
  ExpectRefused(R"({"added_tokens_decoder":{"1":"x"}})", "CFG-VALUE", "\"x\"", "added_tokens_decoder.1");
  ExpectRefused(R"({"additional_special_tokens":["a",3]})", "CFG-VALUE", "3", "additional_special_tokens[1]");
  ExpectRefused(R"({"chat_template":[{"name":"default"}]})", "CFG-VALUE", R"({"name)", "chat_template[0]");
  ExpectRefused(&SourceView::added_tokens, R"({"<a>":"4"})", "CFG-VALUE", "\"4\"", "<a>");
  ExpectRefused(&SourceView::added_tokens, R"({"<a>":-4})", "CFG-VALUE", "-4", "<a>");
  ExpectRefused(&SourceView::processor_config, R"({"auto_map":{"AutoProcessor":"a.B"}})", "CFG-VALUE",
                R"({"AutoP)", "auto_map");
}

// special_tokens_map.json reaches the pinned class as arguments, so it may name tokens and nothing else.
TEST_F(FileKeysTest, Cfg02SpecialTokensMapHoldsTokensOnly) {
  ExpectRefused(&SourceView::special_tokens_map, R"({"add_bos_token":true})", "CFG-VALUE", "true",
                "add_bos_token");
  ExpectRefused(&SourceView::special_tokens_map, R"({"split_special_tokens":true})", "CFG-UNKNOWN-FIELD",
                "\"split", "split_special_tokens");
  ExpectRefused(&SourceView::special_tokens_map, R"({"auto_map":{}})", "CFG-UNCLASSIFIED", "\"auto_map",
                "auto_map");
}

// The pinned source leaves decoded text alone under a BPE model only.
TEST_F(FileKeysTest, Tok07CleanUpOfDecodedTextNeedsABpe) {
  ExpectPasses(R"({"clean_up_tokenization_spaces":true})");
  Set(&SourceView::tokenizer, R"({"model":{"type":"Unigram","vocab":[]}})");
  ExpectPasses(R"({"clean_up_tokenization_spaces":false})");
  ExpectRefused(R"({"clean_up_tokenization_spaces": true})", "CFG-VALUE", "true",
                "clean_up_tokenization_spaces");
}

}  // namespace
}  // namespace slm::acquire
