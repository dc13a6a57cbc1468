// What a tokenizer's profile states (TOK-07), ill-formed input at the text API (TOK-02), and that grapheme
// clusters play no part unless a file declares them (TOK-08).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/utf8.h"
#include "codec/json.h"
#include "tokenizer/tokenizer.h"
#include "unicode/grapheme_v17_0.h"

namespace slm::tokenizer {
namespace {

std::string ReadVectorFile(const std::string& name) {
  std::ifstream in(std::string(SLM_SOURCE_DIR) + "/vectors/tokenizer/" + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::shared_ptr<const Tokenizer> Load(const std::string& name) {
  auto loaded = Tokenizer::FromJson(ReadVectorFile(name + ".tokenizer.json"));
  if (!loaded) ADD_FAILURE() << loaded.error().ToString();
  return loaded ? *loaded : nullptr;
}

constexpr const char* kNames[] = {"byte_fallback_metaspace", "byte_fallback_normalizer", "byte_level_digits",
                                  "byte_level_nfc", "metaspace_split"};

TEST(Profile, Tok07StatesBytesEqualRanksAndCleanUp) {
  for (const char* name : kNames) {
    const auto tokenizer = Load(name);
    ASSERT_NE(tokenizer, nullptr) << name;
    const auto document = json::Parse(tokenizer->profile_json());
    ASSERT_TRUE(document.has_value()) << name;
    const json::Value profile = document->root();
    EXPECT_EQ(profile.Find("encode_bytes")->boolean(), tokenizer->can_encode_bytes()) << name;
    EXPECT_TRUE(profile.Find("clean_up_tokenization_spaces")->is_string()) << name;
    const json::Value model = *profile.Find("model");
    if (model.Find("type")->string() == "BPE") {
      EXPECT_EQ(model.Find("equal_ranks")->string(), "refused") << name;
    } else {
      EXPECT_TRUE(model.Find("ties").has_value()) << name;
    }
  }
}

// Each statement of the profile refuses what it says: bytes (here), equal ranks (here), clean-up
// (file_keys_test.cc, where the key is read).
TEST(Profile, Tok09EqualRanksAreRefusedUnlessSettled) {
  const std::string file =
      R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},)"
      R"("merges":["a b","a b"]}})";
  const auto refused = Tokenizer::FromJson(file);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kTokMergeDup);
  EXPECT_EQ(refused.error().byte_offset, file.rfind("\"a b\""));
  LoadOptions settled;
  settled.Accept("TOK-MERGE-DUP");
  const auto taken = Tokenizer::FromJson(file, settled);
  ASSERT_TRUE(taken.has_value());
  const auto document = json::Parse((*taken)->profile_json());
  EXPECT_EQ(document->root().Find("model")->Find("equal_ranks")->string(), "last one counts");
}

TEST(Profile, Tok03NoByteInputWhereTheProfileSaysSo) {
  for (const char* name : kNames) {
    const auto tokenizer = Load(name);
    const auto encoding = tokenizer->EncodeBytes(AsBytes("a\xff"));
    EXPECT_EQ(encoding.has_value(), tokenizer->can_encode_bytes()) << name;
    if (!encoding) {
      EXPECT_EQ(encoding.error().code, ErrorCode::kTokByteApi) << name;
    }
  }
}

// Every ill-formed part of Unicode's examples (tables 3-8 to 3-11) and of each class, as CPython's decoder
// tells them: where it begins and how long it is.
TEST(Profile, Tok02EveryClassOfIllFormedInput) {
  struct Case {
    const char* hex;
    std::vector<std::pair<uint64_t, uint64_t>> faults;
  };
  const Case cases[] = {
      {"61f18080e180c262806380bf64", {{1, 3}, {4, 2}, {6, 1}, {8, 1}, {10, 1}, {11, 1}}},
      {"c0afe080bff0818241", {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}},  // overlong
      {"eda080edbfbfedaf41", {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}},  // surrogates
      {"f4919293ff4180bf42", {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {6, 1}, {7, 1}}},  // beyond U+10FFFF
      {"e180e2f09192f1bf41", {{0, 2}, {2, 1}, {3, 3}, {6, 2}}},                          // truncated
      {"c241", {{0, 1}}},
      {"e0a0", {{0, 2}}},
      {"f09f98", {{0, 3}}},
      {"fe", {{0, 1}}},
      {"f5808080", {{0, 1}, {1, 1}, {2, 1}, {3, 1}}},
      {"c1bf", {{0, 1}, {1, 1}}},
      {"4180", {{1, 1}}},
      {"ed9f", {{0, 2}}},
      {"f48f", {{0, 2}}},
      {"f09f41", {{0, 2}}},
      {"efbfbe80", {{3, 1}}},
      {"00c3", {{1, 1}}},
  };
  for (const char* name : kNames) {
    const auto tokenizer = Load(name);
    for (const Case& one : cases) {
      Bytes bytes;
      ASSERT_TRUE(FromHex(one.hex, &bytes));
      const std::string_view text = AsText(bytes);
      uint64_t from = 0;
      for (const auto& [at, length] : one.faults) {
        const auto encoding = tokenizer->Encode(text.substr(from));
        ASSERT_FALSE(encoding.has_value()) << name << " " << one.hex << " from " << from;
        EXPECT_EQ(encoding.error().code, ErrorCode::kUtf8) << one.hex;
        EXPECT_EQ(from + encoding.error().byte_offset.value_or(UINT64_MAX), at) << one.hex;
        EXPECT_NE(encoding.error().message.find(": " + std::to_string(length) + " bad byte"),
                  std::string::npos)
            << encoding.error().message;
        from = at + length;
      }
      EXPECT_TRUE(tokenizer->Encode(text.substr(from)).has_value()) << name << " " << one.hex;
    }
  }
}

// Texts whose clusters are more than one character.
std::vector<std::u32string> Clusters() {
  return {U"e\u0301",
          U"\r\n",
          U"\u1112\u1161\u11AB",
          U"\U0001F468\u200D\U0001F469\u200D\U0001F467",
          U"\U0001F1E9\U0001F1EA",
          U"\u0915\u094D\u0937",
          U"\u0E01\u0E33",
          U"\U0001F44D\U0001F3FD",
          U"a\u0323\u0307"};
}

// None of these files declares clusters: what follows a character never changes the tokens of what stands
// before a cut that the pre-tokenizer makes inside a cluster, and each scalar value is its own unit of
// offsets. Standard: no cluster unless declared.
TEST(Profile, Tok08ClustersPlayNoPart) {
  for (const char* name : {"byte_fallback_metaspace", "byte_fallback_normalizer", "byte_level_digits"}) {
    const auto tokenizer = Load(name);
    EncodeOptions options;
    options.add_special_tokens = false;
    for (const std::u32string& cluster : Clusters()) {
      const std::vector<char32_t> scalars(cluster.begin(), cluster.end());
      ASSERT_EQ(unicode::GraphemeEndV17(scalars, 0), scalars.size());
      std::string text;
      for (const char32_t scalar : scalars) AppendUtf8(&text, scalar);
      const auto encoding = tokenizer->Encode(text, options);
      ASSERT_TRUE(encoding.has_value());
      // The raw bytes come back: nothing was composed, decomposed, or put in another order.
      const auto raw = tokenizer->Decode(encoding->ids, DecodeMode::kRaw);
      ASSERT_TRUE(raw.has_value());
      EXPECT_EQ(*raw, text) << name;
      // No token claims the cluster for being one: offsets count single scalar values.
      const auto bytes = tokenizer->EncodeBytes(AsBytes(text), options);
      ASSERT_TRUE(bytes.has_value()) << name;
      EXPECT_EQ(bytes->ids, encoding->ids) << name;
      EXPECT_EQ(encoding->scalar_offsets.back().second, scalars.size()) << name;
      uint64_t covered = 0;
      for (const auto& [begin, end] : encoding->scalar_offsets) {
        EXPECT_LE(begin, covered) << name;
        covered = std::max(covered, end);
      }
      EXPECT_EQ(covered, scalars.size()) << name;
    }
  }
}

// Declared, they do: Precompiled goes from cluster to cluster, and says so in the profile.
TEST(Profile, Tok08OnlyPrecompiledDeclaresThem) {
  for (const char* name : kNames) {
    EXPECT_EQ(Load(name)->profile_json().find("grapheme"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace slm::tokenizer
