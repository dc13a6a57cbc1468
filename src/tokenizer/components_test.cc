// Components by themselves: bounds, unknown words, and what fuzzing against the reference found.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "codec/json.h"
#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

std::string File(const std::string& normalizer, const std::string& pre_tokenizer, const std::string& model) {
  return R"({"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"model":)" + model +
         "}";
}

Result<Encoding> EncodeWith(const std::string& file, std::string_view text) {
  const auto loaded = Tokenizer::FromJson(file);
  EXPECT_TRUE(loaded.has_value()) << loaded.error().ToString();
  if (!loaded) return Fail(loaded.error());
  return (*loaded)->Encode(text);
}

constexpr const char* kLetters = R"({"type":"BPE","vocab":{"a":0},"merges":[]})";

// Each Replace doubles the text: two bytes would become gigabytes.
TEST(Components, Tok05NormalizersAreBounded) {
  std::string chain;
  for (int i = 0; i < 40; ++i) {
    chain += std::string(i > 0 ? "," : "") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  }
  const auto encoding =
      EncodeWith(File(R"({"type":"Sequence","normalizers":[)" + chain + "]}", "null", kLetters), "aa");
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kLimit);
  // What an ordinary file asks for goes through.
  const auto few = EncodeWith(
      File(R"({"type":"Replace","pattern":{"String":"b"},"content":"aaaaaaaa"})", "null", kLetters),
      std::string(1000, 'b'));
  ASSERT_TRUE(few.has_value());
  EXPECT_EQ(few->ids.size(), 8000u);
}

TEST(Components, Tok07UnknownWithoutATokenForIt) {
  for (
      const char* model :
      {R"({"type":"BPE","unk_token":"?","vocab":{"a":0},"merges":[]})",
       R"({"type":"WordLevel","unk_token":"?","vocab":{"a":0}})",
       R"({"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","max_input_chars_per_word":9,"vocab":{"a":0}})",
       R"({"type":"Unigram","unk_id":null,"vocab":[["a",-1]]})"}) {
    const auto known = EncodeWith(File("null", "null", model), "a");
    ASSERT_TRUE(known.has_value()) << model;
    EXPECT_EQ(known->ids, std::vector<uint32_t>{0}) << model;
    const auto unknown = EncodeWith(File("null", "null", model), "x");
    ASSERT_FALSE(unknown.has_value()) << model;
    EXPECT_EQ(unknown.error().code, ErrorCode::kTokNoUnk) << model;
    EXPECT_TRUE(unknown.error().field.starts_with("$.model.unk_")) << model;
  }
}

// Found by fuzz_components.py: after Strip the text no longer begins where the input does, so the
// scheme `first` puts nothing in front.
TEST(Components, Tok01MetaspaceFirstAfterStrip) {
  const std::string file =
      File(R"({"type":"Strip","strip_left":true,"strip_right":false})",
           R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true})",
           R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"_a":1}})");
  EXPECT_EQ(EncodeWith(file, " a")->ids, std::vector<uint32_t>{0});
  EXPECT_EQ(EncodeWith(file, "a")->ids, std::vector<uint32_t>{1});
}

// Found likewise: an empty prefix leaves characters of no origin at the start, and the next rewrite
// panics in the reference.
TEST(Components, Tok01RewriteAfterAnEmptyPrefixIsRefused) {
  const std::string file =
      File(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":""},{"type":"Lowercase"}]})",
           "null", kLetters);
  const auto encoding = EncodeWith(file, "aa");
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kTokSchema);
}

// Scores as doubles, strictly better only (TOK-10): a tie keeps the path whose last piece begins first.
TEST(Components, Tok10UnigramTies) {
  const std::string file = File(
      "null", "null", R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1],["ab",-2]]})");
  EXPECT_EQ(EncodeWith(file, "ab")->ids, std::vector<uint32_t>{3});
  const std::string close = File(
      "null", "null",
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1],["ab",-2.0000000000000004]]})");
  EXPECT_EQ(EncodeWith(close, "ab")->ids, (std::vector<uint32_t>{1, 2}));
}

std::optional<std::string> ReadShared(const std::string& name) {
  std::ifstream in(std::string(SLM_SHARED_DIR) + "/" + name, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
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

class SentencePieceIds : public testing::TestWithParam<const char*> {};

// Ids that SentencePiece itself gave for real models.
TEST_P(SentencePieceIds, Tok10RealModels) {
  const std::string model = GetParam();
  const auto file = ReadShared("vectors/tokenizers/models/" + model + ".model");
  if (!file) {
    std::cout << "not-run: tokenizer: " << model << ".model is missing\n";
    GTEST_SKIP();
  }
  const auto loaded = Tokenizer::FromSentencePiece(AsBytes(*file));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  int n_lines = 0;
  for (const std::string set : {"small", "mixed", "utf8"}) {
    const auto inputs = ReadShared("vectors/tokenizers/expected/" + set + "_input.txt");
    const auto ids = ReadShared("vectors/tokenizers/expected/spm_" + set + "_tokens_" + model + ".txt");
    ASSERT_TRUE(inputs && ids);
    std::vector<std::pair<std::string, std::string>> cases;
    if (set == "utf8") {
      cases.emplace_back(*inputs, *ids);
    } else {
      std::istringstream in(*inputs);
      std::istringstream expected(*ids);
      for (std::string text, line; std::getline(in, text) && std::getline(expected, line);) {
        cases.emplace_back(Unescape(text), line);
      }
    }
    for (const auto& [text, line] : cases) {
      const auto encoding = (*loaded)->Encode(text);
      ASSERT_TRUE(encoding.has_value());
      std::string got;
      for (const uint32_t id : encoding->ids) got += (got.empty() ? "" : ",") + std::to_string(id);
      std::string want = line;
      std::erase_if(want, [](char c) { return c == ' ' || c == '\n' || c == '\r'; });
      EXPECT_EQ(got, want) << set << ": " << text.substr(0, 80);
      ++n_lines;
    }
  }
  EXPECT_EQ(n_lines, 141);
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceIds,
                         testing::Values("llama2", "mistral01", "nai-t5", "xlnet_base_cased"));

TEST(Components, Tok07DamagedSentencePieceFiles) {
  const struct {
    std::string bytes;
    ErrorCode code;
  } cases[] = {
      {"", ErrorCode::kTokSchema},                                      // no pieces
      {"\x0a\x7f", ErrorCode::kTokSchema},                              // longer than the file
      {"\x0a\x02\x0a\x05", ErrorCode::kTokSchema},                      // longer than its message
      {std::string("\x0a\x03\x0a\x01\xff", 5), ErrorCode::kTokSchema},  // not UTF-8
      {std::string("\x0a\x08\x0a\x01"
                   "a"
                   "\x15\x00\x00\xc0\x7f",
                   10),
       ErrorCode::kTokScore},  // NaN
      {std::string("\x0a\x05\x0a\x01"
                   "a"
                   "\x18\x09",
                   7),
       ErrorCode::kTokUnknownType},
      {std::string("\x0a\x05\x0a\x01"
                   "a"
                   "\x18\x02\x0a\x03\x0a\x01"
                   "a",
                   12),
       ErrorCode::kTokIdDup},
      {std::string("\x0a\x05\x0a\x01"
                   "a"
                   "\x18\x02\x12\x02\x18\x04",
                   11),
       ErrorCode::kTokUnsupported},
      {std::string(11, '\xff'), ErrorCode::kTokSchema},  // an endless number
  };
  for (const auto& one : cases) {
    const auto loaded = Tokenizer::FromSentencePiece(AsBytes(one.bytes));
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code, one.code) << loaded.error().ToString();
  }
}

}  // namespace
}  // namespace slm::tokenizer
