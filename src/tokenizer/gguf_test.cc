// Vocabularies in GGUF files: what is refused and where (TOK-01, TOK-09, INP), what a file cannot say
// (TOK-07), the three ways to decode (TOK-11), and the ids and bytes of llama.cpp (TOK-12).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "base/bytes.h"
#include "codec/json.h"
#include "gguf/test_file.h"
#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

using gguf_testing::File;
using gguf_testing::IdPair;
using gguf_testing::Number;
using gguf_testing::Text;
using gguf_testing::TextPair;
using gguf_testing::TextsPair;

std::string FlagPair(const std::string& key, int value) {
  return Text(key) + Number(7, 4) + static_cast<char>(value);
}
std::string NumbersPair(const std::string& key, uint64_t type, const std::vector<uint32_t>& values) {
  std::string bytes = Text(key) + Number(9, 4) + Number(type, 4) + Number(values.size(), 8);
  for (const uint32_t value : values) bytes += Number(value, 4);
  return bytes;
}
std::string ScoresPair(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return NumbersPair("tokenizer.ggml.scores", 6, bits);
}

const std::string kModel = "tokenizer.ggml.model";
const std::string kTokens = "tokenizer.ggml.tokens";
const std::string kMerges = "tokenizer.ggml.merges";
const std::string kTypes = "tokenizer.ggml.token_type";
const std::string kPre = "tokenizer.ggml.pre";

// "a", "b", a space, "ab", a control token.
std::vector<std::string> Bpe() {
  return {TextPair(kModel, "gpt2"), TextPair(kPre, "gpt-2"),
          TextsPair(kTokens, {"a", "b", "\xC4\xA0", "ab", "<|end|>"}),
          NumbersPair(kTypes, 5, {1, 1, 1, 1, 3}), TextsPair(kMerges, {"a b"})};
}
std::vector<std::string> Scored() {
  return {TextPair(kModel, "llama"),
          TextsPair(kTokens, {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a",
                              "\xE2\x96\x81"
                              "a"}),
          ScoresPair({0, 0, 0, -1, -2, -3}), NumbersPair(kTypes, 5, {2, 3, 3, 1, 1, 1})};
}
std::vector<std::string> With(std::vector<std::string> pairs, const std::string& more) {
  pairs.push_back(more);
  return pairs;
}
std::vector<std::string> Instead(std::vector<std::string> pairs, size_t index, const std::string& pair) {
  pairs[index] = pair;
  return pairs;
}
std::vector<std::string> Without(std::vector<std::string> pairs, size_t index) {
  pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(index));
  return pairs;
}

TEST(Gguf, Tok01RefusesWithCodeKeyAndPlace) {
  struct Case {
    const char* what;
    std::vector<std::string> pairs;
    ErrorCode code;
    std::string field;
  };
  const std::vector<Case> cases = {
      {"no kind", Without(Bpe(), 0), ErrorCode::kTokSchema, kModel},
      {"an unknown kind", Instead(Bpe(), 0, TextPair(kModel, "nothing")), ErrorCode::kTokUnknownType, kModel},
      {"a kind that is not run", Instead(Bpe(), 0, TextPair(kModel, "rwkv")), ErrorCode::kTokUnsupported,
       kModel},
      {"a kind that is no text", Instead(Bpe(), 0, IdPair(kModel, 1)), ErrorCode::kTokSchema, kModel},
      {"an unknown pre", Instead(Bpe(), 1, TextPair(kPre, "nothing")), ErrorCode::kTokUnknownType, kPre},
      {"a pre that is not run", Instead(Bpe(), 1, TextPair(kPre, "kimi-k2")), ErrorCode::kTokUnsupported,
       kPre},
      {"no tokens", Without(Bpe(), 2), ErrorCode::kTokSchema, kTokens},
      {"an empty list of tokens", Instead(Bpe(), 2, TextsPair(kTokens, {})), ErrorCode::kTokSchema, kTokens},
      {"tokens that are numbers", Instead(Bpe(), 2, NumbersPair(kTokens, 5, {1})), ErrorCode::kTokSchema,
       kTokens},
      {"a token twice", Instead(Bpe(), 2, TextsPair(kTokens, {"a", "b", "a", "ab", "c"})),
       ErrorCode::kTokIdDup, kTokens + "[2]"},
      {"a token that is no UTF-8", Instead(Bpe(), 2, TextsPair(kTokens, {"a", "b", "\xff", "ab", "c"})),
       ErrorCode::kTokSchema, kTokens + "[2]"},
      {"a token of 64 KiB and one",
       Instead(Bpe(), 2, TextsPair(kTokens, {"a", "b", std::string(65537, 'x'), "ab", "c"})),
       ErrorCode::kTokLimit, kTokens + "[2]"},
      {"no merges", Without(Bpe(), 4), ErrorCode::kTokSchema, kMerges},
      {"merges that are numbers", Instead(Bpe(), 4, NumbersPair(kMerges, 5, {1})), ErrorCode::kTokSchema,
       kMerges},
      {"a merge without a space", Instead(Bpe(), 4, TextsPair(kMerges, {"a b", "ab"})), ErrorCode::kTokMerge,
       kMerges + "[1]"},
      {"a merge of a text that is no token", Instead(Bpe(), 4, TextsPair(kMerges, {"a c"})),
       ErrorCode::kTokMerge, kMerges + "[0]"},
      {"a merge into a text that is no token", Instead(Bpe(), 4, TextsPair(kMerges, {"b a"})),
       ErrorCode::kTokMerge, kMerges + "[0]"},
      {"a merge twice", Instead(Bpe(), 4, TextsPair(kMerges, {"a b", "a b"})), ErrorCode::kTokMergeDup,
       kMerges + "[1]"},
      {"fewer types than tokens", Instead(Bpe(), 3, NumbersPair(kTypes, 5, {1, 1})), ErrorCode::kTokSchema,
       kTypes},
      {"types of another width", Instead(Bpe(), 3, NumbersPair(kTypes, 4, {1, 1, 1, 1, 3})),
       ErrorCode::kTokSchema, kTypes},
      {"an id beyond the tokens", With(Bpe(), IdPair("tokenizer.ggml.bos_token_id", 5)), ErrorCode::kTokId,
       "tokenizer.ggml.bos_token_id"},
      {"an id that is a text", With(Bpe(), TextPair("tokenizer.ggml.eos_token_id", "1")),
       ErrorCode::kTokSchema, "tokenizer.ggml.eos_token_id"},
      {"a flag that is a number", With(Bpe(), IdPair("tokenizer.ggml.add_bos_token", 1)),
       ErrorCode::kTokSchema, "tokenizer.ggml.add_bos_token"},
      {"a flag of 2", With(Bpe(), FlagPair("tokenizer.ggml.add_bos_token", 2)), ErrorCode::kTokSchema,
       "tokenizer.ggml.add_bos_token"},
      {"a token asked for and not named", With(Bpe(), FlagPair("tokenizer.ggml.add_bos_token", 1)),
       ErrorCode::kTokSchema, "tokenizer.ggml.bos_token_id"},
      {"no scores", Without(Scored(), 2), ErrorCode::kTokSchema, "tokenizer.ggml.scores"},
      {"fewer scores than tokens", Instead(Scored(), 2, ScoresPair({0, 0})), ErrorCode::kTokSchema,
       "tokenizer.ggml.scores"},
      {"a score that is no number", Instead(Scored(), 2, ScoresPair({0, 0, 0, NAN, 0, 0})),
       ErrorCode::kTokScore, "tokenizer.ggml.scores[3]"},
      {"a score without end", Instead(Scored(), 2, ScoresPair({0, 0, 0, 0, INFINITY, 0})),
       ErrorCode::kTokScore, "tokenizer.ggml.scores[4]"},
      {"a map that is damaged",
       {TextPair(kModel, "t5"), TextsPair(kTokens, {"<pad>", "</s>", "<unk>", "a"}),
        ScoresPair({0, 0, 0, -1}), NumbersPair(kTypes, 5, {3, 3, 2, 1}),
        NumbersPair("tokenizer.ggml.precompiled_charsmap", 0, {})},
       ErrorCode::kTokCharsmap,
       "tokenizer.ggml.precompiled_charsmap"},
      {"an embedded tokenizer.json that is none",
       {TextPair("tokenizer.huggingface.json", "{}")},
       ErrorCode::kTokSchema,
       "$.model"},
  };
  for (const Case& one : cases) {
    const std::string file = File(one.pairs);
    const auto loaded = Tokenizer::FromGguf(AsBytes(file));
    ASSERT_FALSE(loaded.has_value()) << one.what;
    EXPECT_EQ(Info(loaded.error().code).name, Info(one.code).name)
        << one.what << ": " << loaded.error().ToString();
    EXPECT_EQ(loaded.error().field, one.field) << one.what << ": " << loaded.error().ToString();
    ASSERT_TRUE(loaded.error().byte_offset.has_value()) << one.what;
    EXPECT_LE(*loaded.error().byte_offset, file.size()) << one.what;
  }
  // The place is that of the item itself.
  const std::string file = File(Instead(Bpe(), 2, TextsPair(kTokens, {"a", "b", "x\xff", "ab", "c"})));
  const auto loaded = Tokenizer::FromGguf(AsBytes(file));
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().byte_offset, file.find("x\xff") + 1);
}

TEST(Gguf, Tok09TheFirstOfTwoEqualMergesCountsWhereLenient) {
  const auto loaded = Tokenizer::FromGguf(
      AsBytes(File(Instead(Bpe(), 4, TextsPair(kMerges, {"a b", "a b"})))), {.lenient = true});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
}

TEST(Gguf, Inp01EveryCutIsRefused) {
  const std::string whole = File(Bpe());
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto loaded = Tokenizer::FromGguf(AsBytes(whole.substr(0, n)));
    ASSERT_FALSE(loaded.has_value()) << n;
    EXPECT_TRUE(loaded.error().byte_offset.has_value()) << n;
  }
}

TEST(Gguf, Tok07LossesStandInTheProfile) {
  const auto bpe = Tokenizer::FromGguf(AsBytes(File(Bpe())));
  ASSERT_TRUE(bpe.has_value()) << bpe.error().ToString();
  for (const char* part : {"\"losses\":[", "lstrip, rstrip, single_word, normalized", "post-processor", "NFC",
                           "\"pre\":\"gpt-2\"", "\"encode_bytes\":false", "\"equal_ranks\":",
                           "\"control_by_text\":[]", "\"clean_up_tokenization_spaces\":true"}) {
    EXPECT_NE((*bpe)->profile_json().find(part), std::string::npos) << part << "\n" << (*bpe)->profile_json();
  }
  const auto scored = Tokenizer::FromGguf(AsBytes(File(Scored())));
  ASSERT_TRUE(scored.has_value()) << scored.error().ToString();
  // Ids that the file does not name and the reference assumes.
  EXPECT_NE((*scored)->profile_json().find(R"("ids_assumed":{"tokenizer.ggml.bos_token_id":1})"),
            std::string::npos)
      << (*scored)->profile_json();
}

TEST(Gguf, Tok03HasNoByteInput) {
  const auto loaded = Tokenizer::FromGguf(AsBytes(File(Bpe())));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_FALSE((*loaded)->can_encode_bytes());
  const auto encoded = (*loaded)->EncodeBytes(AsBytes("\xff"));
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code, ErrorCode::kTokByteApi);
}

TEST(Gguf, Tok12TraceAndOffsetsCountTheInput) {
  const auto loaded = Tokenizer::FromGguf(AsBytes(File(Scored())));
  ASSERT_TRUE(loaded.has_value());
  Trace trace;
  EncodeOptions options;
  options.token_texts = true;
  const auto encoding = (*loaded)->Encode("a</s>a", options, &trace);
  ASSERT_TRUE(encoding.has_value()) << encoding.error().ToString();
  EXPECT_EQ(encoding->ids, (std::vector<uint32_t>{1, 5, 2, 5}));
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {{0, 0}, {0, 1}, {1, 5}, {5, 6}};
  EXPECT_EQ(encoding->byte_offsets, expected);
  EXPECT_EQ(encoding->special_mask, (std::vector<bool>{true, false, false, false}));
  ASSERT_EQ(trace.cuts.size(), 1u);
  EXPECT_EQ(trace.cuts[0].id, 2u);
  ASSERT_EQ(trace.segments.size(), 2u);
  EXPECT_EQ(trace.segments[0].text,
            "\xE2\x96\x81"
            "a");
  EXPECT_EQ(trace.model_pieces.size(), 2u);
}

TEST(Gguf, Tok02NoTokenForACharacterNorItsBytes) {
  const auto loaded = Tokenizer::FromGguf(AsBytes(File(Scored())));
  ASSERT_TRUE(loaded.has_value());
  const auto encoding = (*loaded)->Encode("b");
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kTokNoUnk);
  // Byte-level: it vanishes, and its neighbours are not joined.
  const auto bpe = Tokenizer::FromGguf(AsBytes(File(Bpe())));
  const auto split = (*bpe)->Encode("aXb");
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->ids, (std::vector<uint32_t>{0, 1}));
}

TEST(Gguf, Tok11ThreeModesAndTheStream) {
  const auto loaded = Tokenizer::FromGguf(AsBytes(File(Scored())));
  ASSERT_TRUE(loaded.has_value());
  const std::vector<uint32_t> ids = {1, 5, 3, 5, 2};
  EXPECT_EQ((*loaded)->Decode(ids, DecodeMode::kRaw), "<s> a  a</s>");
  EXPECT_EQ((*loaded)->Decode(ids, DecodeMode::kVisible), " a  a");
  EXPECT_EQ((*loaded)->Decode({5, 4}, DecodeMode::kVisible), "aa");
  EXPECT_EQ((*loaded)->Decode({4, 99}, DecodeMode::kDiagnostic), "a\\x1A99\\x1A");
  EXPECT_FALSE((*loaded)->Decode({99}, DecodeMode::kRaw).has_value());
  DecodeStream stream(*loaded, false);
  std::string streamed;
  for (const uint32_t id : ids) streamed += stream.Push(id).value_or("?");
  streamed += stream.Finish().value_or("?");
  EXPECT_EQ(streamed, "<s> a  a</s>");
}

// Ids and decoded bytes as llama.cpp gives them (tools/gen_gguf_vectors.py), one small vocabulary of each
// kind and flag.
TEST(Gguf, Tok12VectorsOfTheReference) {
  std::ifstream in(std::string(SLM_SOURCE_DIR) + "/vectors/gguf/vocabularies.jsonl", std::ios::binary);
  const auto ids_of = [](json::Value list) {
    std::vector<uint32_t> ids;
    for (const json::Value id : list.children()) ids.push_back(static_cast<uint32_t>(*id.AsUint()));
    return ids;
  };
  size_t n_vocabularies = 0;
  size_t n_texts = 0;
  for (std::string line; std::getline(in, line); ++n_vocabularies) {
    const auto document = json::Parse(line);
    ASSERT_TRUE(document.has_value());
    const json::Value vector = document->root();
    const std::string name(vector.Find("name")->string());
    Bytes file;
    ASSERT_TRUE(FromBase64(vector.Find("gguf")->string(), &file));
    const auto loaded = Tokenizer::FromGguf(file);
    ASSERT_TRUE(loaded.has_value()) << name << ": " << loaded.error().ToString();
    const Tokenizer& tokenizer = **loaded;
    for (const json::Value one : vector.Find("texts")->children()) {
      EncodeOptions options;
      options.add_special_tokens = one.Find("add_special_tokens")->boolean();
      options.special_tokens_as_text = one.Find("special_tokens_as_text")->boolean();
      const std::string text(one.Find("text")->string());
      const auto encoding = tokenizer.Encode(text, options);
      ASSERT_TRUE(encoding.has_value()) << name << " |" << text << "|: " << encoding.error().ToString();
      EXPECT_EQ(encoding->ids, ids_of(*one.Find("ids"))) << name << " |" << text << "|";
      for (const auto& [begin, end] : encoding->byte_offsets) {
        EXPECT_LE(begin, end) << name << " |" << text << "|";
        EXPECT_LE(end, text.size()) << name << " |" << text << "|";
      }
      ++n_texts;
    }
    const auto profile = json::Parse(tokenizer.profile_json());
    const bool cleans = profile->root().Find("clean_up_tokenization_spaces")->boolean();
    for (const json::Value one : vector.Find("decoded")->children()) {
      const std::vector<uint32_t> ids = ids_of(*one.Find("ids"));
      EXPECT_EQ(tokenizer.Decode(ids, DecodeMode::kVisible).value_or("?"), one.Find("visible")->string())
          << name;
      if (cleans) continue;  // the reference cleans up here too, raw never does
      Bytes raw;
      ASSERT_TRUE(FromBase64(one.Find("raw")->string(), &raw));
      EXPECT_EQ(tokenizer.Decode(ids, DecodeMode::kRaw).value_or("?"), AsText(raw)) << name;
    }
  }
  EXPECT_EQ(n_vocabularies, 20u);
  EXPECT_EQ(n_texts, n_vocabularies * 72);
}

TEST(Gguf, Tpl04SpecialTokensAsText) {
  const auto loaded = Tokenizer::FromGguf(AsBytes(File(Bpe())));
  ASSERT_TRUE(loaded.has_value());
  EncodeOptions options;
  EXPECT_EQ((*loaded)->Encode("a<|end|>b", options)->ids, (std::vector<uint32_t>{0, 4, 1}));
  options.special_tokens_as_text = true;
  EXPECT_EQ((*loaded)->Encode("a<|end|>b", options)->ids, (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace slm::tokenizer
