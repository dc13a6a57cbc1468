// Against vectors that the reference library gave: the quirks, the expected ids of real vocabularies,
// and the IREE corpus (TOK-01, TOK-12). Data in SLM_SHARED_DIR; not-run where it is absent.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "codec/json.h"
#include "tokenizer/compiled.h"
#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

std::optional<std::string> ReadShared(const std::string& name) {
  std::ifstream in(std::string(SLM_SHARED_DIR) + "/" + name, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

#define NEED_SHARED(var, name)                                        \
  const auto var##_file = ReadShared(name);                           \
  if (!var##_file) {                                                  \
    std::cout << "not-run: tokenizer: " << (name) << " is missing\n"; \
    GTEST_SKIP() << (name) << " is missing";                          \
  }                                                                   \
  const std::string& var = *var##_file

std::shared_ptr<const Tokenizer> Load(const std::string& text, bool lenient = false) {
  auto loaded = Tokenizer::FromJson(text, {.lenient = lenient});
  if (!loaded) ADD_FAILURE() << loaded.error().ToString();
  return loaded ? *loaded : nullptr;
}

// What the vector says, and what an encoding says, in the same words. Offsets of vectors are scalars.
std::string Show(json::Value result) {
  std::string out;
  for (const char* key : {"ids", "tokens", "offsets", "type_ids", "special_mask", "attention", "words"}) {
    out += std::string(key) + "=";
    for (const json::Value item : result.Find(key)->children()) {
      out += (item.is_string() ? std::string(item.string()) : std::string(item.source_text())) + " ";
    }
  }
  if (const auto overflowing = result.Find("overflowing")) {
    for (const json::Value part : overflowing->children()) out += "\n+" + Show(part);
  }
  return out;
}

std::string Show(const Encoding& encoding) {
  std::string out = "ids=";
  for (const uint32_t id : encoding.ids) out += std::to_string(id) + " ";
  out += "tokens=";
  for (const std::string& token : encoding.tokens) out += token + " ";
  out += "offsets=";
  for (const auto& [b, e] : encoding.scalar_offsets)
    out += "[" + std::to_string(b) + "," + std::to_string(e) + "] ";
  out += "type_ids=";
  for (const uint32_t type : encoding.type_ids) out += std::to_string(type) + " ";
  out += "special_mask=";
  for (const bool special : encoding.special_mask) out += special ? "1 " : "0 ";
  out += "attention=";
  for (const bool attention : encoding.attention_mask) out += attention ? "1 " : "0 ";
  out += "words=";
  for (const uint32_t word : encoding.word_ids)
    out += (word == kNoWord ? "null" : std::to_string(word)) + " ";
  for (const Encoding& part : encoding.overflowing) out += "\n+" + Show(part);
  return out;
}

enum class Verdict { kRight, kRefused };

// The reference failed: loading or encoding must be refused here as well.
Verdict CheckFailure(json::Value quirk, const std::string& tokenizer_text) {
  const auto loaded = Tokenizer::FromJson(tokenizer_text, {.lenient = true});
  if (!loaded) {
    EXPECT_FALSE(loaded.error().field.empty()) << quirk.Find("name")->string();
    return Verdict::kRefused;
  }
  EncodeOptions options;
  const std::string text(quirk.Find("input")->string());
  const auto pair = quirk.Find("pair");
  const auto encoding = pair && pair->is_string() ? (*loaded)->EncodePair(text, pair->string(), options)
                                                  : (*loaded)->Encode(text, options);
  EXPECT_FALSE(encoding.has_value()) << quirk.Find("name")->string() << ": the reference fails";
  return Verdict::kRefused;
}

Verdict CheckEncode(json::Value quirk, const std::string& tokenizer_text) {
  const auto loaded = Tokenizer::FromJson(tokenizer_text, {.lenient = true});
  EXPECT_TRUE(loaded.has_value()) << quirk.Find("name")->string() << ": " << loaded.error().ToString();
  if (!loaded) return Verdict::kRight;
  EncodeOptions options;
  options.token_texts = true;
  const std::string text(quirk.Find("input")->string());
  const auto pair = quirk.Find("pair");
  const auto encoding = pair && pair->is_string() ? (*loaded)->EncodePair(text, pair->string(), options)
                                                  : (*loaded)->Encode(text, options);
  EXPECT_TRUE(encoding.has_value()) << quirk.Find("name")->string() << ": " << encoding.error().ToString();
  if (encoding) {
    EXPECT_EQ(Show(*encoding), Show(*quirk.Find("result"))) << quirk.Find("name")->string();
  }
  return Verdict::kRight;
}

// One component by itself: the vectors put a model around it that has no part in it.
Verdict CheckPreTokenize(json::Value quirk, json::Value tokenizer) {
  json::Writer profile;
  bool is_byte_level = false;
  const auto loaded = LoadPreTokenizer(*tokenizer.Find("pre_tokenizer"), &profile, &is_byte_level);
  EXPECT_TRUE(loaded.has_value()) << quirk.Find("name")->string() << ": " << loaded.error().ToString();
  if (!loaded) return Verdict::kRight;
  const std::string text(quirk.Find("input")->string());
  PreTokenized pieces(text, {});
  EXPECT_TRUE((*loaded)->Run(&pieces).has_value());
  std::string got;
  for (const Piece& piece : pieces.pieces()) got += std::string(pieces.Text(piece)) + "|";
  std::string want;
  for (const json::Value item : quirk.Find("result")->children())
    want += std::string(item.First()->string()) + "|";
  EXPECT_EQ(got, want) << quirk.Find("name")->string();
  return Verdict::kRight;
}

Verdict CheckNormalize(json::Value quirk, json::Value tokenizer) {
  json::Writer profile;
  bool is_byte_level = false;
  const auto loaded = LoadNormalizer(*tokenizer.Find("normalizer"), &profile, &is_byte_level);
  EXPECT_TRUE(loaded.has_value()) << quirk.Find("name")->string() << ": " << loaded.error().ToString();
  if (!loaded) return Verdict::kRight;
  const std::string text(quirk.Find("input")->string());
  PreTokenized pieces(text, {});
  AlignedText aligned = pieces.Copy(pieces.pieces()[0]);
  EXPECT_TRUE((*loaded)->Normalize(&aligned).has_value());
  EXPECT_EQ(aligned.text, quirk.Find("result")->string()) << quirk.Find("name")->string();
  return Verdict::kRight;
}

Verdict CheckDecodeTokens(json::Value quirk, json::Value tokenizer) {
  json::Writer profile;
  const auto loaded = LoadDecoder(*tokenizer.Find("decoder"), &profile);
  EXPECT_TRUE(loaded.has_value()) << quirk.Find("name")->string() << ": " << loaded.error().ToString();
  if (!loaded) return Verdict::kRight;
  std::vector<std::string> tokens;
  for (const json::Value item : quirk.Find("input")->children()) tokens.emplace_back(item.string());
  const Status decoded = (*loaded)->Decode(&tokens);
  if (quirk.Find("panic")) {
    EXPECT_FALSE(decoded.has_value()) << quirk.Find("name")->string();
    return Verdict::kRefused;
  }
  std::string text;
  for (const std::string& token : tokens) text += token;
  EXPECT_EQ(text, quirk.Find("result")->string()) << quirk.Find("name")->string();
  return Verdict::kRight;
}

Verdict CheckDecodeIds(json::Value quirk, const std::string& tokenizer_text) {
  const auto loaded = Tokenizer::FromJson(tokenizer_text, {.lenient = true});
  EXPECT_TRUE(loaded.has_value()) << quirk.Find("name")->string() << ": " << loaded.error().ToString();
  if (!loaded) return Verdict::kRight;
  std::vector<uint32_t> ids;
  for (const json::Value item : quirk.Find("input")->children())
    ids.push_back(static_cast<uint32_t>(*item.AsUint()));
  // Unknown ids vanish in the reference; mode raw refuses them instead.
  const auto text = (*loaded)->Decode(ids, DecodeMode::kVisible);
  EXPECT_TRUE(text.has_value());
  if (text) {
    EXPECT_EQ(*text, quirk.Find("result")->string()) << quirk.Find("name")->string();
  }
  return Verdict::kRight;
}

// The Precompiled part of another file's normalizer.
Verdict CheckPrecompiled(json::Value quirk, const std::string& file) {
  const auto document = json::Parse(file);
  EXPECT_TRUE(document.has_value());
  if (!document) return Verdict::kRight;
  for (const json::Value part : document->root().Find("normalizer")->Find("normalizers")->children()) {
    if (part.Find("type")->string() != "Precompiled") continue;
    json::Writer profile;
    bool is_byte_level = false;
    const auto loaded = LoadNormalizer(part, &profile, &is_byte_level);
    EXPECT_TRUE(loaded.has_value());
    if (!loaded) return Verdict::kRight;
    const std::string text(quirk.Find("input")->string());
    PreTokenized pieces(text, {});
    AlignedText aligned = pieces.Copy(pieces.pieces()[0]);
    EXPECT_TRUE((*loaded)->Normalize(&aligned).has_value());
    EXPECT_EQ(aligned.text, quirk.Find("result")->string()) << quirk.Find("name")->string();
  }
  return Verdict::kRight;
}

TEST(Reference, Tok01AllQuirks) {
  NEED_SHARED(lines, "notes/tokenizers-quirks.jsonl");
  NEED_SHARED(xlnet, "vectors/tokenizers/models/xlnet_base_cased.tokenizer.json");
  std::map<Verdict, int> counts;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto document = json::Parse(line);
    ASSERT_TRUE(document.has_value());
    const json::Value quirk = document->root();
    const auto tokenizer = quirk.Find("tokenizer");
    if (!tokenizer || tokenizer->is_null()) {  // names a file with a Precompiled normalizer
      ASSERT_EQ(quirk.Find("precompiled_from")->string(), "xlnet_base_cased.json");
      ++counts[CheckPrecompiled(quirk, xlnet)];
      continue;
    }
    const std::string text(tokenizer->source_text());
    const std::string_view op = quirk.Find("op")->string();
    const bool fails = quirk.Find("error") || (quirk.Find("panic") && op != "decode_tokens");
    Verdict verdict = Verdict::kRight;
    if (fails) {
      verdict = CheckFailure(quirk, text);
    } else if (op == "encode") {
      verdict = CheckEncode(quirk, text);
    } else if (op == "pre_tokenize") {
      verdict = CheckPreTokenize(quirk, *tokenizer);
    } else if (op == "normalize") {
      verdict = CheckNormalize(quirk, *tokenizer);
    } else if (op == "decode_tokens") {
      verdict = CheckDecodeTokens(quirk, *tokenizer);
    } else if (op == "decode_ids") {
      verdict = CheckDecodeIds(quirk, text);
    } else {
      FAIL() << op;
    }
    ++counts[verdict];
  }
  EXPECT_EQ(counts[Verdict::kRight], 115);
  EXPECT_EQ(counts[Verdict::kRefused], 16);
}

std::string Unescape(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'n' || line[i + 1] == 's')) {
      out += line[++i] == 'n' ? '\n' : ' ';
    } else {
      out += line[i];
    }
  }
  return out;
}

std::vector<uint32_t> ParseIds(const std::string& line) {
  std::vector<uint32_t> ids;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, ',');) ids.push_back(static_cast<uint32_t>(std::stoul(word)));
  return ids;
}

class ExpectedIds : public testing::TestWithParam<const char*> {};

TEST_P(ExpectedIds, Tok01RealVocabularies) {
  const std::string model = GetParam();
  NEED_SHARED(json_text, "vectors/tokenizers/models/" + model + ".tokenizer.json");
  const auto tokenizer = Load(json_text);
  ASSERT_NE(tokenizer, nullptr);
  EncodeOptions options;
  options.add_special_tokens = false;
  int n_lines = 0;
  for (const char* set : {"small", "mixed", "utf8"}) {
    NEED_SHARED(inputs, std::string("vectors/tokenizers/expected/") + set + "_input.txt");
    NEED_SHARED(ids, std::string("vectors/tokenizers/expected/") + set + "_tokens_" + model + ".txt");
    std::vector<std::pair<std::string, std::string>> cases;
    if (std::string(set) == "utf8") {
      cases.emplace_back(inputs, ids);
    } else {
      std::istringstream in(inputs);
      std::istringstream expected(ids);
      for (std::string text, line; std::getline(in, text) && std::getline(expected, line);) {
        cases.emplace_back(Unescape(text), line);
      }
    }
    for (const auto& [text, line] : cases) {
      const auto encoding = tokenizer->Encode(text, options);
      ASSERT_TRUE(encoding.has_value());
      EXPECT_EQ(encoding->ids, ParseIds(line)) << set << ": " << text.substr(0, 80);
      ++n_lines;
    }
  }
  EXPECT_EQ(n_lines, 141);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpectedIds,
                         testing::Values("gpt2", "llama2", "mistral01", "gpt_neox", "bert_base_cased",
                                         "clip_base", "gte", "xlnet_base_cased"));

// The gate bites: ids of another vocabulary are not accepted.
TEST(Reference, Tok01OtherVocabularyFails) {
  NEED_SHARED(json_text, "vectors/tokenizers/models/gpt2.tokenizer.json");
  NEED_SHARED(ids, "vectors/tokenizers/expected/small_tokens_llama2.txt");
  const auto tokenizer = Load(json_text);
  ASSERT_NE(tokenizer, nullptr);
  const auto encoding = tokenizer->Encode("Hello\nmy love!");
  ASSERT_TRUE(encoding.has_value());
  EXPECT_NE(encoding->ids, ParseIds(ids.substr(0, ids.find('\n'))));
}

// The IREE corpus, for the tokenizers that are here.
TEST(Reference, Tok01IreeCorpus) {
  NEED_SHARED(corpus, "vectors/tokenizers/iree_corpus.json");
  const auto document = json::Parse(corpus);
  ASSERT_TRUE(document.has_value());
  // Some files here lack the post-processor of the file that the corpus was made with: the ids that it
  // puts before and after the text are left out of the comparison.
  struct File {
    const char* name;
    std::vector<uint32_t> before;
    std::vector<uint32_t> after;
  };
  const std::map<std::string_view, File> files = {
      {"gpt2", {"gpt2", {}, {}}},
      {"NousResearch/Llama-2-7b-hf", {"llama2", {1}, {}}},
      {"mistralai/Mistral-7B-v0.1", {"mistral01", {1}, {}}},
      {"google-bert/bert-base-cased", {"bert_base_cased", {101}, {102}}},
      {"openai/clip-vit-base-patch32", {"clip_base", {49406}, {49407}}},
      {"thenlper/gte-base", {"gte", {101}, {102}}},
      {"xlnet-base-cased", {"xlnet_base_cased", {}, {4, 3}}},
      {"EleutherAI/gpt-neox-20b", {"gpt_neox", {}, {}}}};
  size_t n_cases = 0;
  for (const json::Value model : document->root().Find("models")->children()) {
    const auto file = files.find(model.key());
    if (file == files.end()) continue;
    NEED_SHARED(json_text, std::string("vectors/tokenizers/models/") + file->second.name + ".tokenizer.json");
    const auto tokenizer = Load(json_text, true);
    ASSERT_NE(tokenizer, nullptr);
    for (const json::Value test : model.Find("tests")->children()) {
      EncodeOptions options;
      options.add_special_tokens = false;
      options.padding = false;
      const auto encoding = tokenizer->Encode(test.Find("input")->string(), options);
      ASSERT_TRUE(encoding.has_value());
      std::vector<uint32_t> want;
      for (const json::Value id : test.Find("golden_ids")->children()) {
        want.push_back(static_cast<uint32_t>(*id.AsUint()));
      }
      const auto& [name, put_before, put_after] = file->second;
      if (want.size() >= put_before.size() + put_after.size() &&
          std::equal(put_before.begin(), put_before.end(), want.begin()) &&
          std::equal(put_after.rbegin(), put_after.rend(), want.rbegin())) {
        want.erase(want.begin(), want.begin() + static_cast<ptrdiff_t>(put_before.size()));
        want.resize(want.size() - put_after.size());
      }
      EXPECT_EQ(encoding->ids, want) << model.key() << ": " << test.Find("input")->string();
      ++n_cases;
    }
  }
  EXPECT_GE(n_cases, 1u);
}

}  // namespace
}  // namespace slm::tokenizer
