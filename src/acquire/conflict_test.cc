// ACQ-12, LVL-03: each contradiction by code, place and both declarations.
#include "acquire/conflict.h"

#include <gtest/gtest.h>

#include "acquire/test_source.h"

namespace slm::acquire {
namespace {

class ConflictTest : public ::testing::Test {
 protected:
  void SetUp() override { profile_ = *LoadProfile(""); }

  // Conflicts of a source, from texts alone.
  std::vector<Conflict> Find(const TestSource& source) {
    documents_.clear();
    files_.clear();
    flags_.clear();
    SourceView view;
    view.config = Parse(source.config);
    if (!source.generation_config.empty()) view.generation_config = Parse(source.generation_config);
    view.tokenizer_config = Parse(source.tokenizer_config);
    view.tokenizer = Parse(source.tokenizer);
    for (const auto& [name, contents] : source.more) {
      if (name == "special_tokens_map.json") view.special_tokens_map = Parse(contents);
      if (name == "added_tokens.json") view.added_tokens = Parse(contents);
      if (name == "chat_template.json") view.chat_template_json = Parse(contents);
      if (name == "processor_config.json") view.processor_config = Parse(contents);
      if (name == "preprocessor_config.json") view.preprocessor_config = Parse(contents);
      if (name.ends_with(".jinja")) {
        files_.push_back(std::make_unique<StreamedFile>());
        files_.back()->path = name;
        files_.back()->kind = *profile_.KindOf(name);
        files_.back()->text = contents;
        view.templates.push_back(files_.back().get());
      }
    }
    files_.push_back(std::make_unique<StreamedFile>());
    files_.back()->path = "README.md";
    files_.back()->text = source.card;
    view.model_card = files_.back().get();
    const auto header = safetensors::ParseHeader(AsBytes(source.weights), source.weights.size());
    EXPECT_TRUE(header.has_value());
    files_.push_back(std::make_unique<StreamedFile>());
    files_.back()->path = "model.safetensors";
    files_.back()->header = *header;
    view.weights.push_back(files_.back().get());
    return FindConflicts(view, profile_, &flags_);
  }
  json::Value Parse(const std::string& text) {
    auto document = json::Parse(text);
    EXPECT_TRUE(document.has_value()) << text;
    documents_.push_back(*std::move(document));
    return documents_.back().root();
  }
  // Exactly one conflict: its code, and its declarations as ref and byte offset.
  void Expect(const TestSource& source, std::string_view code, std::string_view field,
              const std::vector<std::pair<std::string, uint64_t>>& declarations) {
    const std::vector<Conflict> conflicts = Find(source);
    ASSERT_EQ(conflicts.size(), 1u) << code;
    EXPECT_EQ(Info(conflicts[0].code).name, code) << conflicts[0].message;
    EXPECT_EQ(conflicts[0].field, field);
    std::vector<std::pair<std::string, uint64_t>> found;
    for (const Declaration& declaration : conflicts[0].declarations) {
      found.emplace_back(declaration.Ref(), declaration.byte_offset);
    }
    EXPECT_EQ(found, declarations) << conflicts[0].message;
    const Node node = ConflictNode(conflicts[0], [](const std::string&) { return Hash256{}; });
    const auto back = DecodeNode(EncodeNode(node));
    ASSERT_TRUE(back.has_value()) << back.error().ToString();
    EXPECT_EQ(*back, node);
  }

  // What a statement about the only conflict can choose.
  std::vector<std::string> Chosen(const TestSource& source) {
    const std::vector<Conflict> conflicts = Find(source);
    EXPECT_EQ(conflicts.size(), 1u);
    std::vector<std::string> refs;
    if (conflicts.size() != 1 || !conflicts[0].acceptable) return refs;
    for (const Declaration& declaration : conflicts[0].declarations) {
      if (declaration.can_hold) refs.push_back(declaration.Ref());
    }
    return refs;
  }

  Profile profile_;
  std::vector<json::Document> documents_;
  std::vector<std::unique_ptr<StreamedFile>> files_;
  std::vector<std::string> flags_;
};

TEST_F(ConflictTest, Acq12AnOrdinarySourceHasNone) {
  EXPECT_TRUE(Find(TestSource()).empty());
  EXPECT_TRUE(flags_.empty());
}

TEST_F(ConflictTest, Acq12G02EosOutsideTheGoverningSet) {
  TestSource source;
  source.generation_config = R"({"eos_token_id":[3]})";
  // config.json and the tokenizer both lie outside.
  Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
         {{"config.json#$.eos_token_id", source.config.find("2}")},
          {"tokenizer_config.json#$.eos_token.content", source.tokenizer_config.find("\"</s>\"")},
          {"generation_config.json#$.eos_token_id", source.generation_config.find("[3]")}});
}

TEST_F(ConflictTest, Acq12EosInsideTheGoverningSetIsRecorded) {
  TestSource source;
  source.generation_config = R"({"eos_token_id":[2,3]})";
  EXPECT_TRUE(Find(source).empty());
  ASSERT_EQ(flags_.size(), 2u);
  EXPECT_TRUE(flags_[0].starts_with("eos: config.json#$.eos_token_id says 2")) << flags_[0];
  // A list in config.json with an id outside is one, though another id agrees.
  source.config = Replaced(source.config, "\"eos_token_id\":2", "\"eos_token_id\":[2,1]");
  Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
         {{"config.json#$.eos_token_id", source.config.find("[2,1]")},
          {"generation_config.json#$.eos_token_id", source.generation_config.find("[2,3]")}});
}

TEST_F(ConflictTest, Acq12WithoutGenerationConfigConfigGoverns) {
  TestSource source;
  source.generation_config = "";  // no such file
  EXPECT_TRUE(Find(source).empty());
  source.tokenizer_config = Replaced(source.tokenizer_config, "</s>", "a");
  Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
         {{"tokenizer_config.json#$.eos_token.content", source.tokenizer_config.find("\"a\"")},
          {"config.json#$.eos_token_id", source.config.find("2}")}});
}

// The pinned source stops nowhere then (docs/spec/family-llama.md, the measured table).
TEST_F(ConflictTest, Acq12AGenerationConfigThatNamesNoEosGoverns) {
  TestSource source;
  source.tokenizer_config =
      Replaced(source.tokenizer_config, "\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false},", "");
  for (const char* none : {R"({"eos_token_id":[]})", R"({"eos_token_id":null})"}) {
    source.generation_config = none;
    Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
           {{"config.json#$.eos_token_id", source.config.find("2}")},
            {"generation_config.json#$.eos_token_id", 16}});
    EXPECT_EQ(Chosen(source), (std::vector<std::string>{"config.json#$.eos_token_id",
                                                        "generation_config.json#$.eos_token_id"}));
  }
  source.generation_config = "{}";
  Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
         {{"config.json#$.eos_token_id", source.config.find("2}")}, {"generation_config.json", 0}});
  source.config = Replaced(source.config, ",\"eos_token_id\":2", "");
  EXPECT_TRUE(Find(source).empty());  // then nobody names one
}

// LVL-03: only what an artifact can hold can be chosen.
TEST_F(ConflictTest, Lvl03ChoicesThatAnArtifactCanHold) {
  TestSource source;
  source.config = Replaced(source.config, "\"vocab_size\":4", "\"vocab_size\":5");
  EXPECT_TRUE(Chosen(source).empty());
  source = TestSource();
  source.tokenizer = Replaced(source.tokenizer, "\"a\":3", "\"a\":3,\"b\":4");
  EXPECT_TRUE(Chosen(source).empty());
  source = TestSource();  // a token that the tokenizer does not have
  source.tokenizer_config = Replaced(source.tokenizer_config, "</s>", "<end>");
  EXPECT_EQ(Chosen(source), std::vector<std::string>{"generation_config.json#$.eos_token_id"});
  source = TestSource();  // the tokenizer's own unknown token works, whatever other files say
  source.tokenizer = Replaced(source.tokenizer, "\"unk_token\":\"<unk>\"", "\"unk_token\":\"a\"");
  EXPECT_EQ(Chosen(source), std::vector<std::string>{"tokenizer.json#$.model.unk_token"});
  source = TestSource();  // templates read tokenizer_config.json first
  source.more = {{"special_tokens_map.json", R"({"bos_token":"a"})"}};
  EXPECT_EQ(Chosen(source), std::vector<std::string>{"generation_config.json#$.bos_token_id"});
  source = TestSource();
  source.more = {{"added_tokens.json", R"({"<s>":1,"<new>":9})"}};
  EXPECT_EQ(Chosen(source), std::vector<std::string>{"tokenizer.json#$"});
}

TEST_F(ConflictTest, Acq12BosPadUnk) {
  TestSource source;
  source.generation_config = R"({"bos_token_id":3,"eos_token_id":2})";
  source.tokenizer_config = Replaced(source.tokenizer_config, "\"bos_token\":\"<s>\"", "\"bos_token\":null");
  Expect(source, "CFG-CONFLICT-BOS", "bos_token_id",
         {{"config.json#$.bos_token_id", source.config.find("1,\"eos")},
          {"generation_config.json#$.bos_token_id", source.generation_config.find("3")}});
  source = TestSource();
  source.config = Replaced(source.config, "\"eos_token_id\":2", "\"eos_token_id\":2,\"pad_token_id\":0");
  source.more = {{"special_tokens_map.json", R"({"pad_token":"</s>"})"}};
  Expect(source, "CFG-CONFLICT-PAD", "pad_token_id",
         {{"special_tokens_map.json#$.pad_token", source.more[0].second.find("\"</s>\"")},
          {"config.json#$.pad_token_id", source.config.find("0}")}});
  source = TestSource();
  source.tokenizer = Replaced(source.tokenizer, "\"unk_token\":\"<unk>\"", "\"unk_token\":\"a\"");
  Expect(source, "CFG-CONFLICT-UNK", "unk_token_id",
         {{"tokenizer.json#$.model.unk_token", source.tokenizer.find("\"a\",\"vocab")},
          {"tokenizer_config.json#$.unk_token", source.tokenizer_config.find("\"<unk>\"")}});
}

TEST_F(ConflictTest, Acq12ATokenThatTheTokenizerDoesNotHave) {
  TestSource source;
  source.tokenizer_config = Replaced(source.tokenizer_config, "</s>", "<end>");
  Expect(source, "CFG-CONFLICT-EOS", "eos_token_id",
         {{"tokenizer_config.json#$.eos_token.content", source.tokenizer_config.find("\"<end>\"")},
          {"generation_config.json#$.eos_token_id", source.generation_config.find("2}")}});
}

TEST_F(ConflictTest, Acq12G03EosOutsideTheVocabulary) {
  TestSource source;
  source.generation_config = R"({"eos_token_id":[2,4]})";
  Expect(source, "CFG-EOS-RANGE", "eos_token_id",
         {{"generation_config.json#$.eos_token_id[1]", source.generation_config.find("4]")},
          {"config.json#$.vocab_size", source.config.find("4,\"hidden")}});
  EXPECT_FALSE(Find(source)[0].acceptable);
  source.generation_config = R"({"eos_token_id":2,"pad_token_id":-1})";
  Expect(source, "CFG-EOS-RANGE", "pad_token_id",
         {{"generation_config.json#$.pad_token_id", source.generation_config.find("-1")},
          {"config.json#$.vocab_size", source.config.find("4,\"hidden")}});
}

TEST_F(ConflictTest, Acq12G04VocabularyAgainstEmbedding) {
  TestSource source;
  source.config = Replaced(source.config, "\"vocab_size\":4", "\"vocab_size\":5");
  Expect(source, "CFG-VOCAB-SHAPE", "vocab_size",
         {{"config.json#$.vocab_size", source.config.find("5,")},
          {"model.safetensors#model.embed_tokens.weight", source.weights.find("\"model.embed")}});
  source = TestSource();
  source.tokenizer = Replaced(source.tokenizer, "\"a\":3", "\"a\":3,\"b\":4");
  Expect(source, "CFG-VOCAB-SHAPE", "tokenizer",
         {{"tokenizer.json#$.model.vocab.b", source.tokenizer.find("4}")},
          {"model.safetensors#model.embed_tokens.weight", source.weights.find("\"model.embed")}});
  source = TestSource();  // G07: past every vocabulary
  source.tokenizer = Replaced(source.tokenizer, "\"a\":3", "\"a\":3,\"b\":1099511627776");
  Expect(source, "TOK-ID", "tokenizer",
         {{"tokenizer.json#$.model.vocab.b", source.tokenizer.find("1099511627776}")},
          {"model.safetensors#model.embed_tokens.weight", source.weights.find("\"model.embed")}});
  source = TestSource();
  source.tokenizer = Replaced(source.tokenizer, ",\"a\":3", "");
  EXPECT_TRUE(Find(source).empty());
  ASSERT_EQ(flags_.size(), 1u);
  EXPECT_TRUE(flags_[0].starts_with("padded vocabulary: 4 rows"));
}

TEST_F(ConflictTest, Acq12Architecture) {
  TestSource source;
  source.config = Replaced(source.config, "[\"LlamaForCausalLM\"]", "[]");
  Expect(source, "CFG-ARCHITECTURE", "architectures",
         {{"config.json#$.architectures", source.config.find("[]")}});
  source = TestSource();
  source.config = Replaced(source.config, "\"architectures\":[\"LlamaForCausalLM\"],", "");
  Expect(source, "CFG-ARCHITECTURE", "architectures", {{"config.json#$", 0}});
  source = TestSource();
  source.config = Replaced(source.config, "LlamaForCausalLM", "OtherForCausalLM");
  Expect(source, "CFG-ARCHITECTURE", "architectures",
         {{"config.json#$.architectures[0]", source.config.find("\"OtherFor")}});
  source = TestSource();
  source.config = Replaced(source.config, "\"model_type\":\"llama\"", "\"model_type\":\"gemma\"");
  Expect(source, "CFG-ARCHITECTURE", "architectures",
         {{"config.json#$.model_type", source.config.find("\"gemma\"")},
          {"config.json#$.architectures[0]", source.config.find("\"LlamaFor")}});
}

TEST_F(ConflictTest, Acq12G19Templates) {
  TestSource source;
  source.more = {{"chat_template.jinja", "{{ x }}\n"}};
  EXPECT_TRUE(Find(source).empty());  // the engine drops the last newline itself
  ASSERT_EQ(flags_.size(), 1u);
  source.more = {{"chat_template.jinja", "{{ y }}"}};
  Expect(source, "TPL-AMBIGUOUS", "chat_template",
         {{"chat_template.jinja", 0},
          {"tokenizer_config.json#$.chat_template", source.tokenizer_config.find("\"{{ x }}\"")}});
  source.more = {{"chat_template.json", R"({"chat_template":"{{ z }}"})"}};
  Expect(source, "TPL-AMBIGUOUS", "chat_template",
         {{"chat_template.json#$.chat_template", 17},
          {"tokenizer_config.json#$.chat_template", source.tokenizer_config.find("\"{{ x }}\"")}});
  source.more.clear();
  source.tokenizer_config = Replaced(source.tokenizer_config, "\"{{ x }}\"",
                                     R"([{"name":"a","template":"A"},{"name":"b","template":"B"}])");
  Expect(source, "TPL-AMBIGUOUS", "chat_template",
         {{"tokenizer_config.json#$.chat_template[0].template", source.tokenizer_config.find("\"A\"")},
          {"tokenizer_config.json#$.chat_template[1].template", source.tokenizer_config.find("\"B\"")}});
  // With a default one too: the pinned source picks by name at each call, an artifact carries one.
  source.tokenizer_config = Replaced(source.tokenizer_config, "\"name\":\"a\"", "\"name\":\"default\"");
  Expect(source, "TPL-AMBIGUOUS", "chat_template",
         {{"tokenizer_config.json#$.chat_template[0].template", source.tokenizer_config.find("\"A\"")},
          {"tokenizer_config.json#$.chat_template[1].template", source.tokenizer_config.find("\"B\"")}});
  source = TestSource();
  source.more = {{"additional_chat_templates/tool_use.jinja", "other"}};
  Expect(source, "TPL-AMBIGUOUS", "chat_template",
         {{"tokenizer_config.json#$.chat_template", source.tokenizer_config.find("\"{{ x }}\"")},
          {"additional_chat_templates/tool_use.jinja", 0}});
}

// TPL-06: processor configs and the model card speak of the template too.
TEST_F(ConflictTest, Tpl06ProcessorConfigsAndTheCard) {
  for (const char* file : {"processor_config.json", "preprocessor_config.json"}) {
    TestSource source;
    source.more = {{file, R"({"chat_template":"{{ x }}"})"}};
    EXPECT_TRUE(Find(source).empty()) << file;
    source.more = {{file, R"({"chat_template":"{{ z }}"})"}};
    Expect(source, "TPL-AMBIGUOUS", "chat_template",
           {{std::string(file) + "#$.chat_template", 17},
            {"tokenizer_config.json#$.chat_template", source.tokenizer_config.find("\"{{ x }}\"")}});
  }
}

TEST_F(ConflictTest, Tpl06TheCardShowsATemplate) {
  TestSource source;
  const std::string config = source.tokenizer_config;
  source.tokenizer_config =
      Replaced(config, "\"{{ x }}\"", "\"{% for m in messages %}<|a|>{{ m.content }}{% endfor %}\"");
  const std::string card(source.card);
  source.card = card + "\n```jinja\n{% for m in messages %}<|a|>{{ m.content }}{% endfor %}\n```\n";
  EXPECT_TRUE(Find(source).empty());
  source.card = card + "\n```jinja\n{% for m in messages %}<|b|>{{ m.content }}{% endfor %}\n```\n";
  const auto conflicts = Find(source);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].declarations[0].file, "README.md");
  EXPECT_EQ(conflicts[0].declarations[0].byte_offset, source.card.find("{% for"));
  EXPECT_NE(conflicts[0].message.find("they part at byte 25 (line 1)"), std::string::npos)
      << conflicts[0].message;
  // The card supplies no template, so no statement can choose its own; the file's can be chosen.
  ASSERT_EQ(conflicts[0].declarations.size(), 2u);
  EXPECT_FALSE(conflicts[0].declarations[0].can_hold);
  EXPECT_TRUE(conflicts[0].declarations[1].can_hold);
  EXPECT_NE(conflicts[0].message.find("not among the choices"), std::string::npos) << conflicts[0].message;
  // An example, as prompts are shown: its markers must be the template's.
  source.card = card + "\n```\n<|a|>Hello\n```\n```python\nprint('<|b|>')\n```\n";
  EXPECT_TRUE(Find(source).empty());
  source.card = card + "\n```\n<|b|>Hello\n```\n";
  const auto example = Find(source);
  ASSERT_EQ(example.size(), 1u);
  EXPECT_EQ(example[0].code, ErrorCode::kTplAmbiguous);
  EXPECT_EQ(example[0].declarations[0].byte_offset, source.card.find("<|b|>"));
  EXPECT_FALSE(example[0].declarations[0].can_hold);
  // All examples stand in one conflict, so that a statement settles what it names.
  source.card = card + "\n```\n<|b|>Hello\n```\n```\n<|a|>\n```\n```\n<|a|><|c|>\n```\n";
  const auto examples = Find(source);
  ASSERT_EQ(examples.size(), 1u);
  ASSERT_EQ(examples[0].declarations.size(), 3u);
  EXPECT_EQ(examples[0].declarations[1].byte_offset, source.card.find("<|c|>"));
}

// Work grows with the size of the files, not with its square; what no person would read is no choice.
TEST_F(ConflictTest, Acq12ManyDeclarationsAreRefusedAsAWhole) {
  TestSource source;
  std::string list;
  for (int i = 0; i < 50000; ++i)
    list += (i == 0 ? "" : ",") + ("{\"name\":\"n" + std::to_string(i)) + "\",\"template\":\"x\"}";
  source.tokenizer_config = R"({"chat_template":[)" + list + "]}";
  const auto templates = Find(source);
  ASSERT_EQ(templates.size(), 1u);
  EXPECT_EQ(templates[0].code, ErrorCode::kTplAmbiguous);
  EXPECT_FALSE(templates[0].acceptable);
  EXPECT_LE(templates[0].declarations.size(), 65u);
  source = TestSource();
  for (int i = 0; i < 50000; ++i) source.card += "```\n<|m" + std::to_string(i) + "|>\n```\n";
  const auto examples = Find(source);
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_FALSE(examples[0].acceptable);
  EXPECT_LE(examples[0].declarations.size(), 65u);
  source = TestSource();
  std::string tokens;
  for (int i = 0; i < 50000; ++i) tokens += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\"";
  source.tokenizer_config =
      Replaced(source.tokenizer_config, "{\"bos", "{\"extra_special_tokens\":[" + tokens + "],\"bos");
  const auto added = Find(source);
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added[0].code, ErrorCode::kTokAddedId);
  EXPECT_FALSE(added[0].acceptable);
  EXPECT_LE(added[0].declarations.size(), 65u);
  source = TestSource();
  std::string ids;
  for (int i = 0; i < 50000; ++i) ids += "," + std::to_string(9 + i);
  source.generation_config = R"({"bos_token_id":1,"eos_token_id":[2)" + ids + "]}";
  const auto range = Find(source);
  ASSERT_EQ(range.size(), 1u);
  EXPECT_EQ(range[0].code, ErrorCode::kCfgEosRange);
}

// The pinned source adds a special token that tokenizer.json does not have: ids past the vocabulary.
TEST_F(ConflictTest, Acq12SpecialTokensThatTheTokenizerLacks) {
  for (const std::string member :
       {R"("sep_token":"<new>")", R"("mask_token":{"content":"<new>"})", R"("image_token":"<new>")",
        R"("extra_special_tokens":["a","<new>"])", R"("additional_special_tokens":[{"content":"<new>"}])",
        R"("extra_special_tokens":{"x_token":"<new>"})",
        R"("model_specific_special_tokens":{"x":"<new>"})"}) {
    TestSource source;
    source.tokenizer_config = Replaced(source.tokenizer_config, "{\"bos", "{" + member + ",\"bos");
    const auto conflicts = Find(source);
    ASSERT_EQ(conflicts.size(), 1u) << member;
    EXPECT_EQ(conflicts[0].code, ErrorCode::kTokAddedId) << member;
    EXPECT_EQ(conflicts[0].field, "<new>");
    EXPECT_EQ(conflicts[0].declarations[0].byte_offset, source.tokenizer_config.find("\"<new>\"")) << member;
    EXPECT_TRUE(conflicts[0].acceptable);
    source = TestSource();
    source.more = {{"special_tokens_map.json", "{" + member + "}"}};
    EXPECT_EQ(Find(source).size(), 1u) << member;
  }
  TestSource source;
  source.tokenizer_config =
      Replaced(source.tokenizer_config, "{\"bos",
               R"({"sep_token":"a","extra_special_tokens":["<s>"],"cls_token":null,"bos)");
  EXPECT_TRUE(Find(source).empty());
}

TEST_F(ConflictTest, Acq12AddedTokens) {
  TestSource source;
  source.tokenizer_config =
      Replaced(source.tokenizer_config, "{\"bos", R"({"added_tokens_decoder":{"3":{"content":"</s>"}},"bos)");
  Expect(
      source, "TOK-ADDED-ID", "</s>",
      {{"tokenizer_config.json#$.added_tokens_decoder.3.content", source.tokenizer_config.find("\"</s>\"")},
       {"tokenizer.json#$", 0}});
  source = TestSource();
  source.more = {{"added_tokens.json", R"({"<s>":1,"<new>":9})"}};
  Expect(source, "TOK-ADDED-ID", "<new>", {{"added_tokens.json#$.<new>", 17}, {"tokenizer.json#$", 0}});
  // All of them stand in one conflict, flags too.
  source.more = {{"added_tokens.json", R"({"<s>":2,"<new>":9})"}};
  source.tokenizer =
      Replaced(source.tokenizer, "\"content\":\"</s>\"", "\"content\":\"</s>\",\"lstrip\":false");
  source.tokenizer_config =
      Replaced(source.tokenizer_config, "{\"bos",
               R"({"added_tokens_decoder":{"2":{"content":"</s>","lstrip":true}},"bos)");
  Expect(source, "TOK-ADDED-ID", "</s>",
         {{"tokenizer_config.json#$.added_tokens_decoder.2.lstrip", source.tokenizer_config.find("true}}")},
          {"added_tokens.json#$.<s>", 7},
          {"added_tokens.json#$.<new>", 17},
          {"tokenizer.json#$", 0}});
}

// TOK-09: what the pinned library passes over in silence, inside tokenizer.json itself. The library's own
// reading is the one that an artifact can hold.
class TokenizerConflictTest : public ConflictTest {
 protected:
  static std::string Added(int id, const std::string& content, bool normalized = false) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + content +
           R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":)" +
           (normalized ? "true" : "false") + R"(,"special":true})";
  }
  static TestSource With(const std::string& added, const std::string& vocab, const std::string& merges) {
    TestSource source;
    source.tokenizer = R"({"version":"1.0","added_tokens":[)" + added +
                       R"(],"model":{"type":"BPE","unk_token":"<unk>","vocab":{)" + vocab +
                       R"(},"merges":[)" + merges + "]}}";
    return source;
  }
  const std::string added_ = Added(0, "<unk>") + "," + Added(1, "<s>") + "," + Added(2, "</s>");
  const std::string vocab_ = R"("<unk>":0,"<s>":1,"</s>":2,"a":3)";
};

TEST_F(TokenizerConflictTest, Acq12TheLibrarysReadingCanHold) {
  const auto at = [](const TestSource& source, std::string_view text, size_t skip = 0) {
    return source.tokenizer.rfind(text) + skip;
  };
  EXPECT_TRUE(Find(With(added_, vocab_, "")).empty());
  TestSource source = With(
      Added(0, "<unk>") + "," + Added(1, "<s>") + "," + Added(2, "</s>") + "," + Added(2, "a"), vocab_, "");
  Expect(source, "TOK-ADDED-ID", "a",
         {{"tokenizer.json#$.added_tokens[3].id", at(source, R"("id":2)", 5)},
          {"tokenizer.json#$.model.vocab.a", at(source, R"("a":3)", 4)}});
  EXPECT_FALSE(Find(source)[0].declarations[0].can_hold);
  EXPECT_TRUE(Find(source)[0].declarations[1].can_hold);
  source = With(added_ + "," + Added(1, "<s>"), vocab_, "");
  Expect(source, "TOK-ADDED-DUP", "<s>",
         {{"tokenizer.json#$.added_tokens[3]", at(source, R"({"id":1)")},
          {"tokenizer.json#$.added_tokens[1]", source.tokenizer.find(R"({"id":1)")}});
  source = With(added_, R"("<unk>":0,"<s>":1,"</s>":2,"aa":3,"a":4)", R"("a a",["a","a"])");
  source.weights = Safetensors({{"model.embed_tokens.weight", "F32", {5, 2}, Zeros(10)}});
  source.config = Replaced(source.config, "\"vocab_size\":4", "\"vocab_size\":5");
  EXPECT_TRUE(Find(source).empty())
      << "one form in a list";  // merges of two forms are the loader's to refuse
  source.tokenizer = Replaced(source.tokenizer, R"("a a",["a","a"])", R"(["a","a"],["a","a"])");
  Expect(source, "TOK-MERGE-DUP", "merges",
         {{"tokenizer.json#$.model.merges[0]", source.tokenizer.find(R"(["a","a"])")},
          {"tokenizer.json#$.model.merges[1]", at(source, R"(["a","a"])")}});
  source.tokenizer = Replaced(With(added_, vocab_, "").tokenizer, R"("a":3)", R"("a":4)");
  Expect(source, "TOK-ID-GAP", "vocab",
         {{"tokenizer.json#$.model.vocab.a", at(source, R"("a":4)", 4)},
          {"tokenizer.json#$.model.vocab", at(source, R"({"<unk>":0)")}});
}

TEST_F(TokenizerConflictTest, Acq12EveryKindIsItsOwnConflict) {
  TestSource source = With(added_ + "," + Added(1, "<s>") + "," + Added(2, "a"), vocab_, "");
  const auto conflicts = Find(source);
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_EQ(conflicts[0].code, ErrorCode::kTokAddedDup);
  EXPECT_EQ(conflicts[1].code, ErrorCode::kTokAddedId);
}

TEST_F(TokenizerConflictTest, Acq12WhatNothingCanSettle) {
  const auto ids = Find(With(added_, R"("<unk>":0,"<s>":1,"</s>":2,"a":2)", ""));
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids[0].code, ErrorCode::kTokIdDup);
  EXPECT_FALSE(ids[0].acceptable);
  EXPECT_EQ(ids[0].declarations[0].Ref(), "tokenizer.json#$.model.vocab.</s>");
  EXPECT_EQ(ids[0].declarations[1].Ref(), "tokenizer.json#$.model.vocab.a");
  // Two normalized tokens of one normalized form: which one the library finds depends on its hash map.
  TestSource source =
      With(Added(3, "A", true) + "," + Added(4, "a", true), R"("<unk>":0,"<s>":1,"</s>":2)", "");
  source.tokenizer = Replaced(source.tokenizer, "\"model\"", R"("normalizer":{"type":"Lowercase"},"model")");
  source.weights = Safetensors({{"model.embed_tokens.weight", "F32", {5, 2}, Zeros(10)}});
  source.config = Replaced(source.config, "\"vocab_size\":4", "\"vocab_size\":5");
  const auto forms = Find(source);
  ASSERT_EQ(forms.size(), 1u);
  EXPECT_EQ(forms[0].code, ErrorCode::kTokAddedDup);
  EXPECT_FALSE(forms[0].acceptable);
  EXPECT_EQ(forms[0].declarations.size(), 2u);
}

}  // namespace
}  // namespace slm::acquire
