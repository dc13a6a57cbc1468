// The API itself: refusals, bytes, decode modes, streams, traces, differences, and worst cases.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/difference.h"
#include "tokenizer/matcher.h"

namespace slm::tokenizer {
namespace {

std::string ReadVectorFile(const std::string& name) {
  std::ifstream in(std::string(SLM_SOURCE_DIR) + "/vectors/tokenizer/" + name + ".tokenizer.json",
                   std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::shared_ptr<const Tokenizer> Load(const std::string& name) {
  auto loaded = Tokenizer::FromJson(ReadVectorFile(name));
  EXPECT_TRUE(loaded.has_value()) << loaded.error().ToString();
  return loaded ? *loaded : nullptr;
}

constexpr const char* kNames[] = {"byte_level_digits", "byte_level_nfc", "byte_fallback_normalizer",
                                  "byte_fallback_metaspace"};

uint64_t Next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

TEST(Api, Tok02IllFormedTextIsRefusedWithItsFirstByte) {
  const auto tokenizer = Load("byte_level_digits");
  for (const auto& [text, offset] : {std::pair<std::string, uint64_t>{"\x80", 0},
                                     {"ab\xC0\xAF", 2},
                                     {"a\xED\xA0\x80", 1},
                                     {"\xF4\x90\x80\x80", 0},
                                     {"xyz\xE2\x82", 3},
                                     {std::string("\0\xFF", 2), 1}}) {
    const auto encoding = tokenizer->Encode(text);
    ASSERT_FALSE(encoding.has_value());
    EXPECT_EQ(encoding.error().code, ErrorCode::kUtf8);
    EXPECT_EQ(encoding.error().byte_offset, offset);
  }
}

TEST(Api, Tok04NulIsOrdinaryText) {
  for (const char* name : kNames) {
    const auto tokenizer = Load(name);
    const std::string text("a\0b", 3);
    const auto encoding = tokenizer->Encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(encoding.has_value());
    EXPECT_NE(tokenizer->Decode(encoding->ids, DecodeMode::kRaw).value_or("").find(text), std::string::npos)
        << name;
  }
}

TEST(Api, Tok03BytesOnlyWhereDeclared) {
  const auto refused = Load("metaspace_split");
  EXPECT_FALSE(refused->can_encode_bytes());
  const Bytes some = {'a', 0xFF};
  const auto encoding = refused->EncodeBytes(some);
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kTokByteApi);
}

// Any bytes come back, with offsets that cover each ill-formed byte by itself.
TEST(Api, Tok03BytesComeBack) {
  uint64_t state = 5;
  for (const char* name : kNames) {
    if (std::string(name) == "byte_level_nfc") continue;  // NFC and the prefix space change text
    const auto tokenizer = Load(name);
    ASSERT_TRUE(tokenizer->can_encode_bytes()) << name;
    for (int round = 0; round < 400; ++round) {
      Bytes bytes(Next(&state) % 24);
      for (uint8_t& byte : bytes)
        byte = static_cast<uint8_t>(Next(&state) % 3 == 0 ? 'a' + Next(&state) % 4 : Next(&state));
      const auto encoding = tokenizer->EncodeBytes(bytes, {.add_special_tokens = false});
      ASSERT_TRUE(encoding.has_value());
      EXPECT_EQ(tokenizer->Decode(encoding->ids, DecodeMode::kRaw).value_or("?"), AsText(bytes)) << name;
      for (const auto& [begin, end] : encoding->byte_offsets) EXPECT_LE(end, bytes.size());
      if (!FindUtf8Fault(AsText(bytes))) {
        EXPECT_EQ(encoding->ids, tokenizer->Encode(AsText(bytes), {.add_special_tokens = false})->ids);
      }
    }
  }
}

TEST(Api, Tok11UnknownIds) {
  const auto tokenizer = Load("byte_level_digits");
  const auto raw = tokenizer->Decode({5, 99999}, DecodeMode::kRaw);
  ASSERT_FALSE(raw.has_value());
  EXPECT_EQ(raw.error().code, ErrorCode::kTokUnknownId);
  EXPECT_EQ(tokenizer->Decode({5, 99999}, DecodeMode::kVisible).value_or("?"),
            tokenizer->Decode({5}, DecodeMode::kVisible).value_or("!"));
  EXPECT_FALSE(tokenizer->IdToToken(99999).has_value());
}

// Raw bytes need not be characters when a pattern comes after them: it sees none in those, and they stay.
TEST(Api, Tok11APatternPassesOverBytesOfNoCharacter) {
  const auto loaded = Tokenizer::FromJson(
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
      R"("post_processor":null,"decoder":{"type":"Sequence","decoders":[{"type":"ByteLevel","add_prefix_space":true,)"
      R"("trim_offsets":true,"use_regex":true},{"type":"Replace","pattern":{"Regex":"[^1]"},"content":"_"}]},)"
      R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
      R"("fuse_unk":false,"byte_fallback":false,"vocab":{"a":0,"\u00c3":1,"\u00a9":2,"\u00f0":3},"merges":[]}})");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  const auto decoded = [&](const std::vector<uint32_t>& ids) {
    return (*loaded)->Decode(ids, DecodeMode::kRaw).value_or("?");
  };
  EXPECT_EQ(decoded({0, 1, 2, 0}), "___");                   // one letter after another
  EXPECT_EQ(decoded({0, 1}), "_\xC3");                       // the character is cut short
  EXPECT_EQ(decoded({0, 3}), "_\xF0");                       // by three bytes
  EXPECT_EQ(decoded({2, 0, 3, 1, 2, 1}), "\xA9_\xF0_\xC3");  // and in the middle
  EXPECT_EQ((*loaded)->Decode({0, 3}, DecodeMode::kVisible).value_or("?"), "__");  // U+FFFD is a character
}

TEST(Api, Tok11Modes) {
  const auto tokenizer = Load("byte_level_digits");
  const auto encoding = tokenizer->Encode("a\xC3\xA9\n");
  ASSERT_TRUE(encoding.has_value());
  ASSERT_EQ(encoding->ids.front(), 0u);
  EXPECT_EQ(*tokenizer->Decode(encoding->ids, DecodeMode::kRaw), "<|bos|>a\xC3\xA9\n");
  EXPECT_EQ(*tokenizer->Decode(encoding->ids, DecodeMode::kVisible), "a\xC3\xA9\n");
  EXPECT_EQ(*tokenizer->Decode(encoding->ids, DecodeMode::kDiagnostic),
            EscapeForDisplay("<|bos|>a\xC3\xA9\n"));
  // Half a character: raw gives its byte, visible the reference's U+FFFD.
  const auto half = tokenizer->TokenToId("\xC3\x83");  // the alphabet's character for byte C3
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(*tokenizer->Decode({*half}, DecodeMode::kRaw), "\xC3");
  EXPECT_EQ(*tokenizer->Decode({*half}, DecodeMode::kVisible), "\xEF\xBF\xBD");
}

// After every token all whole characters are out and only a part of one waits (a part that what
// follows shows to be ill-formed goes out as it is); together the pieces are what Decode gives.
TEST(Stream, Tok11PiecesAreWholeCharactersAndComplete) {
  uint64_t state = 9;
  for (const char* name : {"byte_level_digits", "byte_level_nfc", "byte_fallback_normalizer",
                           "byte_fallback_metaspace", "metaspace_split"}) {
    const auto tokenizer = Load(name);
    for (int round = 0; round < 300; ++round) {
      std::vector<uint32_t> ids(Next(&state) % 20);
      for (uint32_t& id : ids) id = static_cast<uint32_t>(Next(&state) % tokenizer->vocab_size());
      DecodeStream stream(tokenizer, false);
      std::string all;
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto piece = stream.Push(ids[i]);
        ASSERT_TRUE(piece.has_value());
        all += *piece;
        const std::vector<uint32_t> until(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i) + 1);
        const std::string so_far = *tokenizer->Decode(until, DecodeMode::kRaw);
        EXPECT_EQ(all, so_far.substr(0, so_far.size() - IncompleteUtf8Suffix(so_far))) << name;
      }
      all += *stream.Finish();
      EXPECT_EQ(all, *tokenizer->Decode(ids, DecodeMode::kRaw)) << name;
    }
  }
}

TEST(Trace, Tok12NamesEveryStage) {
  const auto tokenizer = Load("byte_level_nfc");
  Trace trace;
  const std::string text = "e\xCC\x81 12<|end|>  x";
  const auto encoding = tokenizer->Encode(text, {.token_texts = true}, &trace);
  ASSERT_TRUE(encoding.has_value());
  ASSERT_EQ(trace.cuts.size(), 2u);
  EXPECT_EQ(trace.cuts[0].text, "<|end|>");
  EXPECT_FALSE(trace.cuts[0].after_normalizer);
  EXPECT_EQ(trace.cuts[1].text, "  ");
  EXPECT_TRUE(trace.cuts[1].after_normalizer);
  ASSERT_EQ(trace.segments.size(), 2u);
  EXPECT_EQ(trace.segments[0].text, "\xC3\xA9 12");
  EXPECT_EQ(trace.segments[0].begin, 0u);
  EXPECT_EQ(trace.segments[0].end, 6u);
  EXPECT_EQ(trace.pre_tokens.size(), 6u);
  EXPECT_FALSE(trace.model_pieces.empty());
  EXPECT_EQ(encoding->tokens.size(), encoding->ids.size());
}

TEST(Difference, FindsTwoSpacesBeforeADigit) {
  // The same file without the Digits step, which is what Transformers makes of SmolLM2's.
  std::string published = ReadVectorFile("byte_level_digits");
  const auto insert = [&published](const std::string& after, const std::string& what) {
    const size_t at = published.find(after);
    ASSERT_NE(at, std::string::npos);
    published.insert(at + after.size(), what);
  };
  const std::string space = "\\u0120";  // the alphabet's space, joined with itself
  insert("\"vocab\":{",
         "\"" + space + space + "\":" + std::to_string(Load("byte_level_digits")->vocab_size()) + ",");
  insert("\"merges\":[", "[\"" + space + "\",\"" + space + "\"],");
  std::string exported = published;
  const std::string digits = R"({"type":"Digits","individual_digits":true},)";
  const size_t at = exported.find(digits);
  ASSERT_NE(at, std::string::npos);
  exported.erase(at, digits.size());
  const auto first = Tokenizer::FromJson(published);
  const auto second = Tokenizer::FromJson(exported);
  ASSERT_TRUE(first.has_value() && second.has_value());
  const DifferenceReport report = FindShortestDifference(**first, **second);
  ASSERT_TRUE(report.difference.has_value());
  EXPECT_EQ(report.difference->phase, "corpus");
  EXPECT_EQ(report.difference->text, "  0");
  EXPECT_NE(report.difference->first_ids, report.difference->second_ids);
  const DifferenceReport same = FindShortestDifference(**first, **first, {.n_generated = 200});
  EXPECT_FALSE(same.difference.has_value());
  EXPECT_GT(same.n_tried, 1000u);
}

TEST(Matcher, Tok07LeftmostLongestAgainstPlainSearch) {
  uint64_t state = 3;
  for (int round = 0; round < 300; ++round) {
    Matcher matcher;
    std::vector<std::string> patterns;
    for (uint64_t n = 1 + Next(&state) % 6; n > 0; --n) {
      std::string pattern(1 + Next(&state) % 5, 'a');
      for (char& c : pattern) c = static_cast<char>('a' + Next(&state) % 2);
      if (matcher.Add(pattern, static_cast<uint32_t>(patterns.size()))) patterns.push_back(pattern);
    }
    matcher.Build();
    std::string text(Next(&state) % 30, 'a');
    for (char& c : text) c = static_cast<char>('a' + Next(&state) % 3);
    for (size_t from = 0; from <= text.size(); ++from) {
      size_t begin = std::string::npos;
      size_t length = 0;
      for (size_t at = from; at < text.size() && begin == std::string::npos; ++at) {
        for (const std::string& pattern : patterns) {
          if (text.compare(at, pattern.size(), pattern) == 0 && pattern.size() > length) {
            begin = at;
            length = pattern.size();
          }
        }
      }
      const auto found = matcher.Find(text, from);
      ASSERT_EQ(found.has_value(), begin != std::string::npos);
      if (found) {
        EXPECT_EQ(found->begin, begin);
        EXPECT_EQ(found->end, begin + length);
        EXPECT_EQ(patterns[found->value], text.substr(begin, length));
      }
    }
  }
}

// The two merge loops give the same tokens: a long word equals its short pieces put together where
// nothing merges across, and both orders of a tie are the leftmost.
TEST(Bpe, Tok09ShortAndLongWordsAgree) {
  const std::vector<std::pair<std::string, uint32_t>> tokens = {{"a", 0},  {"b", 1},   {"ab", 2},   {"ba", 3},
                                                                {"aa", 4}, {"aba", 5}, {"abab", 6}, {"-", 7}};
  Vocabulary vocabulary;
  vocabulary.Reserve(tokens.size(), 64);
  for (const auto& [text, id] : tokens) ASSERT_TRUE(vocabulary.Add(text, id));
  const BpeModel model({}, std::move(vocabulary), {{1, 0, 3}, {0, 0, 4}, {0, 1, 2}, {2, 0, 5}, {2, 2, 6}});
  uint64_t state = 11;
  for (int round = 0; round < 500; ++round) {
    std::string word(1 + Next(&state) % (BpeModel::kHeapFrom - 2), 'a');
    for (char& c : word) c = static_cast<char>('a' + Next(&state) % 2);
    std::vector<ModelToken> short_tokens;
    std::vector<ModelToken> long_tokens;
    ASSERT_TRUE(model.Tokenize(word, &short_tokens).has_value());
    ASSERT_TRUE(model.Tokenize(word + std::string(60, '-'), &long_tokens).has_value());
    ASSERT_EQ(long_tokens.size(), short_tokens.size() + 60);
    for (size_t i = 0; i < short_tokens.size(); ++i) {
      EXPECT_EQ(short_tokens[i].id, long_tokens[i].id) << word;
      EXPECT_EQ(short_tokens[i].end, long_tokens[i].end);
    }
  }
}

TEST(Api, Tok05LongestInputIsBounded) {
  const auto tokenizer = Load("metaspace_split");
  const std::string text((size_t{256} << 20) + 1, 'a');
  const auto encoding = tokenizer->Encode(text);
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace slm::tokenizer
