// The committed vectors of vectors/tokenizer (TOK-12, TOK-13), made from the reference library by
// tools/gen_tokenizer_vectors.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

std::string ReadRepositoryFile(const std::string& name) {
  std::ifstream in(std::string(SLM_SOURCE_DIR) + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string ListOf(json::Value list) {
  std::string out;
  for (const json::Value item : list.children()) out += std::string(item.source_text()) + " ";
  return out;
}

// The SplitMix64 texts of the generator script.
std::string RandomText(uint64_t state, size_t n_bytes) {
  std::string out;
  while (out.size() < n_bytes) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    const auto scalar = static_cast<char32_t>(z % 0x110000);
    if (scalar < 0xD800 || scalar > 0xDFFF) AppendUtf8(&out, scalar);
  }
  return out;
}

void CheckLarge(const Tokenizer& tokenizer, json::Value item) {
  const json::Value rule = *item.Find("large");
  const uint64_t n = *rule.Find("n")->AsUint();
  std::string text;
  if (const auto repeat = rule.Find("repeat")) {
    for (uint64_t i = 0; i < n; ++i) text += repeat->string();
  } else {
    text = RandomText(*rule.Find("random")->AsUint(), n);
  }
  EncodeOptions options;
  options.add_special_tokens = false;
  const auto encoding = tokenizer.Encode(text, options);
  ASSERT_TRUE(encoding.has_value());
  EXPECT_EQ(encoding->ids.size(), *item.Find("n_ids")->AsUint());
  Bytes bytes;
  for (const uint32_t id : encoding->ids) AppendLe(&bytes, id);
  EXPECT_EQ(ToHex(Sha256Of(bytes)), item.Find("ids_sha256")->string()) << rule.source_text();
}

void CheckIllFormed(const Tokenizer& tokenizer, json::Value item) {
  Bytes bytes;
  ASSERT_TRUE(FromBase64(item.Find("bytes")->string(), &bytes));
  const auto encoding = tokenizer.Encode(AsText(bytes));
  ASSERT_FALSE(encoding.has_value());
  EXPECT_EQ(encoding.error().code, ErrorCode::kUtf8);
  EXPECT_EQ(encoding.error().byte_offset, *item.Find("byte_offset")->AsUint());
}

void CheckCase(const Tokenizer& tokenizer, json::Value item) {
  const std::string text(item.Find("text")->string());
  EncodeOptions options;
  options.add_special_tokens = item.Find("add_special_tokens")->boolean();
  options.special_tokens_as_text = item.Find("special_tokens_as_text")->boolean();
  const auto encoding = tokenizer.Encode(text, options);
  ASSERT_TRUE(encoding.has_value()) << text;
  std::string ids, offsets, words, special;
  std::vector<uint64_t> starts;
  for (size_t i = 0; i < text.size();) {
    starts.push_back(i);
    static_cast<void>(DecodeUtf8(text, &i));
  }
  starts.push_back(text.size());
  for (size_t i = 0; i < encoding->ids.size(); ++i) {
    ids += std::to_string(encoding->ids[i]) + " ";
    const auto [begin, end] = encoding->scalar_offsets[i];
    offsets += std::to_string(begin) + " " + std::to_string(end) + " ";
    words += (encoding->word_ids[i] == UINT32_MAX ? "-1" : std::to_string(encoding->word_ids[i])) + " ";
    special += encoding->special_mask[i] ? "1 " : "0 ";
    EXPECT_EQ(encoding->byte_offsets[i], std::make_pair(starts[begin], starts[end])) << text;
  }
  EXPECT_EQ(ids, ListOf(*item.Find("ids"))) << text;
  EXPECT_EQ(offsets, ListOf(*item.Find("offsets"))) << text;
  EXPECT_EQ(words, ListOf(*item.Find("words"))) << text;
  EXPECT_EQ(special, ListOf(*item.Find("special"))) << text;
  EXPECT_EQ(tokenizer.Decode(encoding->ids, DecodeMode::kVisible).value_or("?"),
            item.Find("visible")->string());
  const auto raw = tokenizer.Decode(encoding->ids, DecodeMode::kRaw);
  ASSERT_TRUE(raw.has_value());
  if (!FindUtf8Fault(*raw)) {
    EXPECT_EQ(*raw, item.Find("raw")->string());
  }
}

TEST(Vectors, Tok13CommittedCorpus) {
  const std::string folder = std::string(SLM_SOURCE_DIR) + "/vectors/tokenizer";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") names.push_back(entry.path().filename().string());
  }
  ASSERT_GE(names.size(), 5u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    std::istringstream lines(ReadRepositoryFile("vectors/tokenizer/" + name));
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto header = json::Parse(line);
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->root().Find("reference")->string(), kReferenceVersion);
    const std::string text = ReadRepositoryFile(std::string(header->root().Find("tokenizer")->string()));
    ASSERT_EQ(ToHex(Sha256Of(AsBytes(text))), header->root().Find("tokenizer_sha256")->string());
    const auto tokenizer = Tokenizer::FromJson(text);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
    int n_cases = 0;
    while (std::getline(lines, line)) {
      const auto item = json::Parse(line);
      ASSERT_TRUE(item.has_value());
      if (item->root().Find("large")) {
        CheckLarge(**tokenizer, item->root());
      } else if (item->root().Find("error")) {
        CheckIllFormed(**tokenizer, item->root());
      } else {
        CheckCase(**tokenizer, item->root());
      }
      ++n_cases;
    }
    EXPECT_GE(n_cases, 150);
  }
}

}  // namespace
}  // namespace slm::tokenizer
