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

enum class Verdict { kRight, kRefused, kOutOfScope };

bool IsRefusal(const Error& error) {
  return error.code == ErrorCode::kTokUnsupported || error.code == ErrorCode::kTokRegex;
}

// The reference failed: loading or encoding must be refused here as well.
Verdict CheckFailure(json::Value quirk, const std::string& tokenizer_text) {
  const auto loaded = Tokenizer::FromJson(tokenizer_text, {.lenient = true});
  if (!loaded) {
    if (IsRefusal(loaded.error())) return Verdict::kOutOfScope;
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
  if (!loaded) {
    EXPECT_TRUE(IsRefusal(loaded.error()))
        << quirk.Find("name")->string() << ": " << loaded.error().ToString();
    return Verdict::kOutOfScope;
  }
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
  if (!loaded) {
    EXPECT_TRUE(IsRefusal(loaded.error())) << loaded.error().ToString();
    return Verdict::kOutOfScope;
  }
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
  const auto loaded = LoadNormalizer(*tokenizer.Find("normalizer"), &profile);
  if (!loaded) {
    EXPECT_TRUE(IsRefusal(loaded.error())) << loaded.error().ToString();
    return Verdict::kOutOfScope;
  }
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
  if (!loaded) {
    EXPECT_TRUE(IsRefusal(loaded.error())) << loaded.error().ToString();
    return Verdict::kOutOfScope;
  }
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
  if (!loaded) return Verdict::kOutOfScope;
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

TEST(Reference, Tok01QuirksAreRightOrRefusedByName) {
  NEED_SHARED(lines, "notes/tokenizers-quirks.jsonl");
  std::map<Verdict, int> counts;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto document = json::Parse(line);
    ASSERT_TRUE(document.has_value());
    const json::Value quirk = document->root();
    const auto tokenizer = quirk.Find("tokenizer");
    if (!tokenizer || tokenizer->is_null()) {  // names a file with a Precompiled normalizer
      ++counts[Verdict::kOutOfScope];
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
  std::cout << "quirks: " << counts[Verdict::kRight] << " right, " << counts[Verdict::kRefused]
            << " refused where the reference fails, " << counts[Verdict::kOutOfScope] << " refused by name\n";
  EXPECT_EQ(counts[Verdict::kRight], 42);
  EXPECT_EQ(counts[Verdict::kRefused], 13);
  EXPECT_EQ(counts[Verdict::kOutOfScope], 76);
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

INSTANTIATE_TEST_SUITE_P(Models, ExpectedIds, testing::Values("gpt2", "llama2", "mistral01", "gpt_neox"));

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

TEST(Reference, Tok02OutOfScopeFilesAreRefusedByName) {
  for (const auto& [model, path] :
       std::map<std::string, std::string>{{"bert_base_cased", "$.normalizer.type"},
                                          {"clip_base", "$.normalizer.normalizers[1].pattern.Regex"},
                                          {"gte", "$.normalizer.type"},
                                          {"xlnet_base_cased", "$.normalizer.normalizers[2].type"}}) {
    NEED_SHARED(json_text, "vectors/tokenizers/models/" + model + ".tokenizer.json");
    const auto loaded = Tokenizer::FromJson(json_text);
    ASSERT_FALSE(loaded.has_value()) << model;
    EXPECT_EQ(loaded.error().code, ErrorCode::kTokUnsupported) << loaded.error().ToString();
    EXPECT_EQ(loaded.error().field, path);
    EXPECT_TRUE(loaded.error().byte_offset.has_value());
  }
}

}  // namespace
}  // namespace slm::tokenizer
