// The fast path against the general one (TOK-01, TOK-09, TOK-12): the same ids, offsets and words. The
// general path is held to the reference library by reference_test.cc and vectors_test.cc; it runs here
// where a call asks for a trace.
#include "tokenizer/fast_path.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/test_sanitized.h"
#include "base/utf8.h"
#include "tokenizer/bpe_merger.h"
#include "tokenizer/corpus.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/regex.h"
#include "tokenizer/splitter.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"
#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // SplitMix64
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t n) { return Next() % n; }

 private:
  uint64_t state_;
};

constexpr std::string_view kPieces[] = {
    "a", "the", " the", "The", "ing", " ", "  ", "    ", "\n", "\r\n", "\n\n", " \n", "\t", "\t\t",
    "\xC2\xA0", "\xE3\x80\x80", "'s", "'S", "'re", "'LL", "'", "''", "'\xC5\xBF", "1", "12", "1234",
    "\xD9\xA3", "\xC2\xBD", ".", "...", "!?", "/", "<", ">", ">\xE2\x96\x81</", "\xE2\x96\x81",
    "\xE2\x96\x81\xE2\x96\x81", "\xC3\xA9", "e\xCC\x81", "\xCC\x81\xCC\xA3", "\xD0\x9F\xD1\x80\xD0\xB8",
    "\xE6\x97\xA5\xE6\x9C\xAC", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C",
    "\xE0\xA4\xB9\xE0\xA4\xBF", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7", "\xF0\x9F\x87\xA9",
    "\xEF\xB8\x8F", "\xE2\x84\xAB", "\xEF\xBF\xBD", "\x01", "\x04", "\x7F", "<0x0A>", "<s>", "</s>", "<unk>",
    "<|endoftext|>", "<|im_start|>", "[MASK]", "Hello", "antidisestablishmentarianism", "0x1F600", "_",
    "__init__", "====", "--------", "(foo)", "://", "\xE1\x9A\x80", "\xC2\x85", "\xF0\x91\xB7\xA0",
    // Of BERT: marks that move or stay, letters of two, Chinese that decomposes.
    "\xC4\xB0", "\xCD\x84", "\xE0\xBD\xB3", "\xE3\x80\xAE", "\xF0\x9D\x85\x9E", "\xEF\xA4\x80",
    "\xE1\xBE\x82", "\xE3\x80\x82", "\xE2\x80\x9C", "\xC3\x89t\xC3\xA9", std::string_view("\0", 1),
    // Of charsmaps and clusters: what vanishes, grows, or joins the character before or after it.
    "``", "`", "\xE2\x80\x8B", "\xE2\x80\x8D", " \xE2\x80\x8D", "\xC2\xAD", "\xEF\xAC\x81", "\xEF\xB7\xBA",
    "\xD8\x80", "\xE0\xB5\x8E", "\xE0\xB8\xB3", " \xE0\xB8\xB3", "\xF0\x9F\x8F\xBD", "\xEF\xBE\x9E",
    "\xC2\xA8", "A\xCC\x8A", "q", "Z"};

std::string RandomText(Random* random, size_t n_pieces) {
  std::string out;
  for (size_t i = 0; i < n_pieces; ++i) {
    const uint64_t kind = random->Below(20);
    if (kind == 0) {
      const auto scalar = static_cast<char32_t>(random->Below(0x110000));
      if (scalar < 0xD800 || scalar > 0xDFFF) AppendUtf8(&out, scalar);
    } else if (kind == 1) {
      AppendUtf8(&out, static_cast<char32_t>(random->Below(0x800)));
    } else if (kind == 2) {
      out.append(random->Below(70), static_cast<char>("a \n1'=."[random->Below(7)]));
    } else {
      out += kPieces[random->Below(std::size(kPieces))];
    }
  }
  return out;
}

std::string Repeat(std::string_view text, size_t n_bytes) {
  std::string out;
  while (out.size() < n_bytes) out += text;
  return out;
}

// Texts that hold one long word.
std::vector<std::string> LongWords(Random* random) {
  std::vector<std::string> out;
  for (const char* part : {"a", " ", "\n", "\xCC\x81", "=", "ab", "\xE6\x97\xA5", "\xD0\xBF\xD1\x80", "aab",
                           "\xE2\x96\x81", "e\xCC\x81"}) {
    for (const size_t n : {size_t{63}, size_t{64}, size_t{65}, size_t{200}, size_t{777}, size_t{3000}}) {
      out.push_back(Repeat(part, n));
      out.push_back("x" + Repeat(part, n) + "y");
    }
  }
  for (int i = 0; i < 12; ++i) {
    std::string letters, marks, others, chinese;
    const uint64_t n_kinds = 2 + random->Below(25);
    for (int k = 0; k < 1500; ++k) {
      letters += static_cast<char>('a' + random->Below(n_kinds));
      AppendUtf8(&marks, static_cast<char32_t>(0x300 + random->Below(0x70)));
      others += "!#$%&*+-./:;<=>?@^_|~"[random->Below(21)];
      AppendUtf8(&chinese, static_cast<char32_t>(0x4E00 + random->Below(0x500)));
    }
    out.insert(out.end(), {letters, marks, others, chinese});
  }
  return out;
}

struct Loaded {
  std::string name;
  bool is_committed;
  std::shared_ptr<const Tokenizer> tokenizer;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// WordPiece after BERT's normalizer (or none), with words of at most 20 characters.
std::string WordPieceFile(std::string_view normalizer) {
  std::string vocabulary = R"("[UNK]": 0, "[MASK]": 1, "the": 2, "##ing": 3, "hello": 4)";
  uint32_t n = 5;
  const auto add = [&](std::string_view token) {
    vocabulary += ", \"" + std::string(token) + "\": " + std::to_string(n++);
  };
  std::vector<std::string> characters = {"\xC3\xA9",     "\xC4\xB0",     "\xCC\x81",     "\xCC\xA3",
                                         "\xE6\x97\xA5", "\xE6\x9C\xAC", "\xE8\xB1\x88", "\xE3\x80\x82",
                                         "\xD0\xBF",     "\xE1\x84\x92", "\xE1\x85\xA1", "\xE1\x86\xAB"};
  for (char c = '!'; c <= '~'; ++c) {
    if (c != '"' && c != '\\') characters.emplace_back(1, c);
  }
  for (const std::string& character : characters) {
    add(character);
    if (character != "#") add("##" + character);
  }
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{"id": 1, "content": "[MASK]",
      "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}],
      "normalizer": )" +
         std::string(normalizer) +
         R"(, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 20, "vocab": {)" +
         vocabulary + "}}}";
}

std::string ToBase64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

// A precompiled charsmap: each state's children lie in 256 places of their own, its value in the first.
std::string Charsmap(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::map<std::string, uint32_t> places = {{"", 0}};
  std::vector<uint32_t> trie(256);
  std::string strings;
  const auto block_of = [&trie](uint32_t place) {  // of the children of a state, made where there is none
    if (trie[place] >> 10 == 0) {
      trie[place] |= (place ^ static_cast<uint32_t>(trie.size())) << 10;
      trie.resize(trie.size() + 256);
    }
    return place ^ trie[place] >> 10;
  };
  for (const auto& [key, value] : entries) {
    for (size_t n = 1; n <= key.size(); ++n) {
      const uint32_t block = block_of(places.at(key.substr(0, n - 1)));
      const auto byte = static_cast<uint8_t>(key[n - 1]);
      if (places.emplace(key.substr(0, n), block + byte).second) trie[block + byte] = byte;
    }
    const uint32_t place = places.at(key);
    const uint32_t block = block_of(place);
    trie[place] |= 0x100;
    trie[block] = 0x80000000u | static_cast<uint32_t>(strings.size());
    strings += value + '\0';
  }
  std::string out;
  const auto put = [&out](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      out += static_cast<char>(static_cast<uint8_t>(value >> shift));
  };
  put(static_cast<uint32_t>(4 * trie.size()));
  for (const uint32_t unit : trie) put(unit);
  return ToBase64(out + strings);
}

// As the maps of SentencePiece: white space, what vanishes, grows, shrinks and is composed.
std::string SmallCharsmap() {
  return R"({"type": "Precompiled", "precompiled_charsmap": ")" +
         Charsmap({{"\t", " "},
                   {"\n", " "},
                   {"\r", " "},
                   {"\xC2\xA0", " "},
                   {"\xE3\x80\x80", " "},
                   {"\x01", ""},
                   {"\x7F", ""},
                   {"\xC2\xAD", ""},
                   {"\xE2\x80\x8B", ""},
                   {"\xEF\xAC\x81", "fi"},
                   {"e\xCC\x81", "\xC3\xA9"},
                   {"A\xCC\x8A", "\xC3\x85"},
                   {"\xE2\x84\xAB", "\xC3\x85"},
                   {"\xE0\xB8\xB3", "\xE0\xB9\x8D\xE0\xB8\xB2"},
                   {"\xEF\xB7\xBA", "a b \xE2\x96\x81 c"},
                   {"q", "kw"},
                   {"Z", "\xE6\x97\xA5"},
                   {"\xC2\xA8", " \xCC\x88"},
                   {"\xEF\xBE\x9E", "\xE3\x82\x99"},
                   {"\xF0\x9F\x91\xA9", "w"}}) +
         "\"}";
}

// Unigram after some normalizers, cut at white space, with few scores so that paths tie.
std::string UnigramFile(std::string_view normalizer, std::string_view unk_id, bool byte_fallback) {
  std::string vocabulary = R"(["<unk>", 0], ["<s>", 0])";
  int n = 0;
  const auto add = [&vocabulary, &n](std::string_view piece, bool in_bytes = false) {
    vocabulary +=
        ", [\"" + std::string(piece) + "\", -" + std::to_string(in_bytes ? 20 : 3 + n++ * 7 % 5) + ".5]";
  };
  for (const std::string_view piece : {"\xE2\x96\x81",
                                       "\xE2\x96\x81the",
                                       "\xE2\x96\x81The",
                                       "\xE2\x96\x81t",
                                       "he",
                                       "th",
                                       "ing",
                                       "in",
                                       "ng",
                                       "aa",
                                       "aaa",
                                       "aaaaaaa",
                                       "\u2581aa",
                                       "ab",
                                       "ba",
                                       "aab",
                                       "\xC3\xA9",
                                       "\xD0\xBF\xD1\x80",
                                       "\xD0\xB8",
                                       "\xE6\x97\xA5",
                                       "\xE6\x97\xA5\xE6\x9C\xAC",
                                       "\xE1\x84\x92\xE1\x85\xA1",
                                       "\xE0\xB9\x8D",
                                       "...",
                                       "fi",
                                       "kw",
                                       "==",
                                       "1",
                                       "12",
                                       "\xE1\x86\xAB\xED\x95\x9C",
                                       "\xF0\x9F\x87\xA9\xEF\xB8\x8F"}) {
    add(piece);
  }
  for (char c = '!'; c <= '~'; ++c) {
    if (c != '"' && c != '\\' && c != '#' && c != '1' && c != '|') add(std::string(1, c));
  }
  for (int byte = 0; byte_fallback && byte < 256; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    add({"<0x" + std::string(1, kHex[static_cast<size_t>(byte >> 4)]) + kHex[static_cast<size_t>(byte & 15)] +
         ">"},
        true);
  }
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{"id": 1, "content": "<s>",
      "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}],
      "normalizer": )" +
         std::string(normalizer) +
         R"(, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace",
      "replacement": "\u2581", "prepend_scheme": "always", "split": true}]}, "post_processor": null, "decoder": null,
      "model": {"type": "Unigram", "unk_id": )" +
         std::string(unk_id) + R"(, "byte_fallback": )" + (byte_fallback ? "true" : "false") +
         R"(, "vocab": [)" + vocabulary + "]}}";
}

constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kDeepSeek[] = {
    R"(\p{N}{1,3})", "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
    kDeepSeekWords};

// The committed byte-level tokenizer with its cuts at these expressions.
std::string WithSplits(std::string json, std::span<const char* const> expressions) {
  std::string splits;
  for (const std::string_view expression : expressions) {
    splits += R"({"type":"Split","pattern":{"Regex":")";
    for (const char c : expression) {
      if (c == '\r' || c == '\n') {
        splits += c == '\r' ? "\\r" : "\\n";
        continue;
      }
      if (c == '\\' || c == '"') splits += '\\';
      splits += c;
    }
    splits += R"("},"behavior":"Isolated","invert":false},)";
  }
  const std::string wanted = R"({"type":"Digits","individual_digits":true},)";
  const size_t at = json.find(wanted);
  if (at == std::string::npos) return "";
  json.replace(at, wanted.size(), splits);
  const size_t regex = json.find(R"("use_regex":true)", at);
  if (regex == std::string::npos) return "";
  return json.replace(regex, std::string_view(R"("use_regex":true)").size(), R"("use_regex":false)");
}

// Every tokenizer.json that is here and of a form with a fast path, one with normal form C, WordPiece, and
// Unigram.
const std::vector<Loaded>& FastTokenizers() {
  static const std::vector<Loaded> kAll = [] {
    const std::string source = SLM_SOURCE_DIR;
    std::vector<Loaded> out;
    const auto add = [&out](const std::string& name, bool is_committed, std::string json) {
      auto tokenizer = Tokenizer::FromJson(std::move(json), {.lenient = true});
      if (tokenizer && (*tokenizer)->has_fast_path()) out.push_back({name, is_committed, *tokenizer});
    };
    for (const std::string& folder :
         {source + "/vectors/tokenizer", source + "/models/slm-demo", source + "/build/tokenizers",
          std::string(SLM_SHARED_DIR) + "/vectors/tokenizers/models"}) {
      if (!std::filesystem::exists(folder)) continue;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with("tokenizer.json")) {
          add(name, folder.find("vectors/tokenizer") == source.size() + 1, ReadFile(entry.path()));
        }
      }
    }
    std::string nfc = ReadFile(source + "/vectors/tokenizer/byte_level_digits.tokenizer.json");
    constexpr std::string_view kNone = "\"normalizer\":null";
    const size_t at = nfc.find(kNone);
    if (at != std::string::npos) nfc.replace(at, kNone.size(), R"("normalizer":{"type":"NFC"})");
    add("normal form C", true, at == std::string::npos ? "" : nfc);
    const std::string bytes = ReadFile(source + "/vectors/tokenizer/byte_level_digits.tokenizer.json");
    add("o200k", true, WithSplits(bytes, std::array{kO200k}));
    add("Tekken", true, WithSplits(bytes, std::array{kTekken}));
    add("DeepSeek", true, WithSplits(bytes, kDeepSeek));
    add("WordPiece", true, WordPieceFile("null"));
    add("WordPiece, cased", true, WordPieceFile(R"({"type": "BertNormalizer", "clean_text": true,
        "handle_chinese_chars": true, "strip_accents": null, "lowercase": false})"));
    add("WordPiece, uncased", true, WordPieceFile(R"({"type": "Sequence", "normalizers": [{"type":
        "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true}]})"));
    add("WordPiece, accents", true, WordPieceFile(R"({"type": "BertNormalizer", "clean_text": false,
        "handle_chinese_chars": false, "strip_accents": true, "lowercase": false})"));
    add("WordPiece, lower case", true, WordPieceFile(R"({"type": "BertNormalizer", "clean_text": false,
        "handle_chinese_chars": true, "strip_accents": false, "lowercase": true})"));
    const std::string quotes =
        R"({"type": "Replace", "pattern": {"String": "``"}, "content": "$"}, {"type": "Replace", "pattern": {"String":
        "''"}, "content": "$"}, )";
    const std::string decomposed = R"({"type": "NFKD"}, {"type": "StripAccents"})";
    const std::string lowercase = R"({"type": "Lowercase"})";
    const auto sequence = [](const std::string& parts) {
      return R"({"type": "Sequence", "normalizers": [)" + parts + "]}";
    };
    add("Unigram", false, UnigramFile("null", "0", false));
    add("Unigram without an unknown token", false, UnigramFile("null", "null", false));
    add("Unigram, charsmap", true, UnigramFile(SmallCharsmap(), "0", false));
    add("Unigram, charsmap and bytes", false, UnigramFile(sequence(SmallCharsmap()), "0", true));
    add("Unigram, quotes, accents and charsmap", true,
        UnigramFile(sequence(quotes + decomposed + ", " + SmallCharsmap()), "0", false));
    add("Unigram, all", true,
        UnigramFile(sequence(quotes + decomposed + ", " + lowercase + ", " + SmallCharsmap()), "0", true));
    add("Unigram, lower case and charsmap", false,
        UnigramFile(sequence(lowercase + ", " + SmallCharsmap()), "0", false));
    return out;
  }();
  return kAll;
}

void ExpectSame(const Loaded& loaded, const std::string& text, const EncodeOptions& options) {
  Trace trace;
  const auto general = loaded.tokenizer->Encode(text, options, &trace);
  const auto fast = loaded.tokenizer->Encode(text, options);
  ASSERT_EQ(general.has_value(), fast.has_value()) << loaded.name << ": " << EscapeForDisplay(text);
  if (!general) {
    EXPECT_EQ(general.error().code, fast.error().code);
    return;
  }
  const auto where = [&] { return loaded.name + ": " + EscapeForDisplay(text.substr(0, 300)); };
  ASSERT_EQ(general->ids, fast->ids) << where();
  ASSERT_EQ(general->byte_offsets, fast->byte_offsets) << where();
  ASSERT_EQ(general->scalar_offsets, fast->scalar_offsets) << where();
  ASSERT_EQ(general->word_ids, fast->word_ids) << where();
  ASSERT_EQ(general->special_mask, fast->special_mask) << where();
  ASSERT_EQ(general->attention_mask, fast->attention_mask) << where();
  ASSERT_EQ(general->tokens, fast->tokens) << where();
  ASSERT_EQ(general->overflowing.size(), fast->overflowing.size()) << where();
  for (size_t i = 0; i < general->overflowing.size(); ++i) {
    ASSERT_EQ(general->overflowing[i].ids, fast->overflowing[i].ids) << where();
  }
  std::vector<uint32_t> ids = {7};
  ASSERT_TRUE(loaded.tokenizer->EncodeIds(text, options, &ids).has_value());
  ids.erase(ids.begin());
  ASSERT_EQ(general->ids, ids) << where();
  ids.clear();
  std::vector<std::pair<uint64_t, uint64_t>> offsets;
  ASSERT_TRUE(loaded.tokenizer->EncodeIds(text, options, &ids, &offsets).has_value());
  ASSERT_EQ(general->ids, ids) << where();
  ASSERT_EQ(general->byte_offsets, offsets) << where();
}

EncodeOptions RandomOptions(Random* random) {
  return {.add_special_tokens = random->Below(2) == 0,
          .special_tokens_as_text = random->Below(4) == 0,
          .markers_as_text = random->Below(8) == 0,
          .truncation = random->Below(2) == 0,
          .padding = random->Below(2) == 0,
          .token_texts = random->Below(2) == 0};
}

TEST(FastPath, Tok09ThereIsOneForTheCommittedTokenizers) {
  size_t n_committed = 0;
  for (const Loaded& loaded : FastTokenizers()) {
    for (const char* name : {"byte_level_digits", "byte_fallback_metaspace", "byte_fallback_normalizer"}) {
      if (loaded.name == std::string(name) + ".tokenizer.json") ++n_committed;
    }
    for (const char* name : {"tokenizer.json", "normal form C", "o200k", "Tekken", "DeepSeek"}) {
      if (loaded.name == name) ++n_committed;
    }
    if (loaded.name.starts_with("WordPiece") || loaded.name.starts_with("Unigram")) ++n_committed;
  }
  EXPECT_EQ(n_committed, 20u);
}

TEST(FastPath, Tok13SameAsTheGeneralPathOnTheCorpus) {
  for (const Loaded& loaded : FastTokenizers()) {
    for (const std::string& text : MechanicalCorpus()) {
      ExpectSame(loaded, text, {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(FastPath, Tok01SameAsTheGeneralPathOnGeneratedTexts) {
  for (const Loaded& loaded : FastTokenizers()) {
    Random random(20261130);
    for (int i = 0; i < 1500; ++i) {
      ExpectSame(loaded, RandomText(&random, 1 + random.Below(24)), RandomOptions(&random));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(FastPath, Tok09LongWordsAreMergedAsByTheGeneralPath) {
  for (const Loaded& loaded : FastTokenizers()) {
    Random random(7);
    for (const std::string& text : LongWords(&random)) {
      ExpectSame(loaded, text, {});
      if (HasFatalFailure()) return;
    }
  }
}

// Every code point below U+30000, and each 61st of the others, which are all alike; with sanitizers, which
// are to see each path and not each character, fewer.
constexpr char32_t kStep = kSanitized ? 13 : 1;
char32_t NextCodePoint(char32_t c) {
  const char32_t next = c < 0x30000 ? c + kStep : c + 61 * kStep;
  return next >= 0xD800 && next < 0xE000 ? 0xE000 : next;
}

// A code point beside a letter, a number, a space, a newline and itself.
std::string Surrounded(char32_t c) {
  std::string one;
  AppendUtf8(&one, c);
  return "a" + one + "1" + one + " " + one + one + "\n" + one + "  ";
}

TEST(FastPath, Tok09EveryCodePointAsByTheGeneralPath) {
  for (const Loaded& loaded : FastTokenizers()) {
    if (!loaded.is_committed) continue;
    std::string text;
    for (char32_t c = 0; c < 0x110000; c = NextCodePoint(c)) {
      text += Surrounded(c);
      if (text.size() < 60000 && NextCodePoint(c) < 0x110000) continue;
      EncodeOptions options = {.truncation = false, .padding = false};
      Trace trace;
      const auto general = loaded.tokenizer->Encode(text, options, &trace);
      std::vector<uint32_t> ids;
      std::vector<std::pair<uint64_t, uint64_t>> offsets;
      const auto fast = loaded.tokenizer->EncodeIds(text, options, &ids, &offsets);
      ASSERT_EQ(general.has_value(), fast.has_value()) << loaded.name;
      if (!general) {
        text.clear();
        continue;
      }
      ASSERT_EQ(general->ids, ids) << loaded.name << " before " << std::hex << static_cast<uint32_t>(c);
      ASSERT_EQ(general->byte_offsets, offsets) << loaded.name;
      text.clear();
    }
  }
}

TEST(FastPath, Tok01WordsOfAsManyCharactersAsWordPieceTakes) {
  for (const Loaded& loaded : FastTokenizers()) {
    for (const size_t n :
         {size_t{19}, size_t{20}, size_t{21}, size_t{99}, size_t{100}, size_t{101}, size_t{700}}) {
      for (const std::string_view part : {"a", "A", "\xC3\xA9", "e\xCC\x81", "\xED\x95\x9C", "\xE6\x97\xA5",
                                          "\xE3\x80\xAE", "\xD0\x9F", "a\x01", "\xC4\xB0"}) {
        std::string word;
        for (size_t i = 0; i < n; ++i) word += part;
        ExpectSame(loaded, "the " + word + "! " + word + word.substr(0, part.size()), {});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// BertNormalizer in one step against its stages, which the reference's vectors hold: texts and origins.
void ExpectInOrder(const BertNormalizer& normalizer, const std::string& text, uint64_t* n_done) {
  AlignedText one_step;
  if (!normalizer.NormalizeInOrder(text, &one_step)) return;
  ++*n_done;
  AlignedText stages = {.text = text, .align = {}, .original = {0, static_cast<uint32_t>(text.size())}};
  for (uint32_t i = 0; i < text.size();) {
    const uint32_t n = ReadScalar(text.data() + i).n_bytes;
    stages.align.insert(stages.align.end(), n, Span{i, i + n});
    i += n;
  }
  ASSERT_TRUE(normalizer.Normalize(&stages).has_value());
  ASSERT_EQ(stages.text, one_step.text) << EscapeForDisplay(text);
  ASSERT_EQ(stages.align, one_step.align) << EscapeForDisplay(text);
}

TEST(BertNormalizer, Tok12SameInOneStepAsInStages) {
  for (const uint32_t flags : {0u, 3u, 4u, 11u, 15u}) {
    const BertNormalizer normalizer({.clean_text = (flags & 1) != 0,
                                     .handle_chinese_chars = (flags & 2) != 0,
                                     .strip_accents = (flags & 4) != 0,
                                     .lowercase = (flags & 8) != 0});
    uint64_t n_done = 0;
    for (char32_t c = 0; c < 0x110000; c = NextCodePoint(c)) {
      ExpectInOrder(normalizer, Surrounded(c), &n_done);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(n_done, 170000u / kStep);
    Random random(5);
    for (int i = 0; i < 3000; ++i) {
      ExpectInOrder(normalizer, RandomText(&random, 1 + random.Below(6)), &n_done);
      if (HasFatalFailure()) return;
    }
  }
}

// Runs of marks, short and long, against a container that keeps equal classes as they came.
TEST(UnicodeNormalizer, Tok07MarksInTheirOrder) {
  const UnicodeNormalizer decomposed(false, false);
  Random random(11);
  for (size_t n = 0; n < 60; ++n) {
    std::multimap<uint8_t, char32_t> by_class;
    std::string text = "x";
    while (by_class.size() < n) {
      const auto c = static_cast<char32_t>(0x300 + random.Below(0x400));
      const uint8_t combining_class = unicode::CombiningClassV9(c);
      if (combining_class == 0 || !unicode::DecompositionV9(c).empty()) continue;
      by_class.emplace(combining_class, c);
      AppendUtf8(&text, c);
    }
    std::string wanted = "x";
    for (const auto& [combining_class, c] : by_class) AppendUtf8(&wanted, c);
    EXPECT_EQ(decomposed.NormalizeText(text), wanted) << n;
  }
}

// What the spec's section 13 says of marks at the start of a part.
TEST(BertNormalizer, Tok12TheFirstPartOfADecompositionSortsFirst) {
  uint64_t n_decomposed = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    const auto parts = unicode::DecompositionV9(c);
    n_decomposed += parts.empty() ? 0u : 1u;
    for (const char32_t part : parts) {
      ASSERT_GE(unicode::CombiningClassV9(part), unicode::CombiningClassV9(parts[0]))
          << std::hex << uint32_t{c};
      if (BertNormalizer::IsChinese(c)) ASSERT_EQ(unicode::CombiningClassV9(part), 0);
    }
  }
  EXPECT_GT(n_decomposed, 2000u);
}

// What UnigramWords takes for granted: the order of marks is of no matter once they are gone, and the limit.
TEST(UnigramWords, Tok07WhatHasAClassIsAMarkAndDecompositionGrowsElevenfold) {
  uint64_t n_marks = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (unicode::CombiningClassV9(c) != 0) {
      ++n_marks;
      ASSERT_TRUE(unicode::IsMarkV9(c)) << std::hex << uint32_t{c};
    }
    const auto parts = unicode::CompatibleDecompositionV9(c);
    if (parts.empty()) continue;
    std::string before, after;
    AppendUtf8(&before, c);
    for (const char32_t part : parts) AppendUtf8(&after, part);
    ASSERT_LE(after.size(), 11 * before.size()) << std::hex << uint32_t{c};
  }
  EXPECT_GT(n_marks, 700u);
}

// Where a charsmap can make a text very large, it is measured as it is encoded, and its words are not kept.
TEST(FastPath, Tok05TextsThatMightGrowAreMeasured) {
  const std::string charsmap = R"({"type": "Precompiled", "precompiled_charsmap": ")" +
                               Charsmap({{"\xEF\xB7\xBB", std::string(20000, 'a')}}) + "\"}";
  const auto tokenizer = Tokenizer::FromJson(UnigramFile(charsmap, "0", false));
  ASSERT_TRUE(tokenizer.has_value());
  const Loaded loaded = {"charsmap of a long text", false, *tokenizer};
  EXPECT_TRUE((*tokenizer)->has_fast_path());
  ExpectSame(loaded, Repeat("\xD0\xBF\xD1\x80\xD0\xB8 the ", 60000) + "\xEF\xB7\xBB", {});
}

TEST(FastPath, Tok06OtherUnigramFilesTakeTheGeneralPath) {
  const auto has_fast_path = [](const std::string& file) {
    const auto tokenizer = Tokenizer::FromJson(file, {});
    EXPECT_TRUE(tokenizer.has_value());
    return tokenizer.has_value() && (*tokenizer)->has_fast_path();
  };
  const auto with = [](const std::string& normalizer) { return UnigramFile(normalizer, "0", false); };
  EXPECT_TRUE(has_fast_path(with("null")));
  EXPECT_TRUE(has_fast_path(with(R"({"type": "Replace", "pattern": {"String": "ab"}, "content": "c"})")));
  for (const char* content : {"", "abc", "\u0301", " "}) {
    EXPECT_FALSE(has_fast_path(with(R"({"type": "Replace", "pattern": {"String": "ab"}, "content": ")" +
                                    std::string(content) + "\"}")));
  }
  EXPECT_FALSE(has_fast_path(with(R"({"type": "Replace", "pattern": {"String": "a b"}, "content": "c"})")));
  EXPECT_FALSE(has_fast_path(with(R"({"type": "Replace", "pattern": {"Regex": "ab"}, "content": "c"})")));
  EXPECT_FALSE(has_fast_path(with(R"({"type": "NFKD"})")));
  EXPECT_FALSE(has_fast_path(with(R"({"type": "StripAccents"})")));
  const std::vector<std::vector<std::pair<std::string, std::string>>> maps = {
      {{"\n", "x"}}, {{" ", ""}}, {{"\t", "  "}}, {{"\r\n", "x"}}, {{"\r\n", ""}}};
  for (const auto& map : maps) {
    EXPECT_FALSE(
        has_fast_path(with(R"({"type": "Precompiled", "precompiled_charsmap": ")" + Charsmap(map) + "\"}")));
  }
  std::string file = with("null");
  for (const auto& [from, to] :
       {std::pair("\"always\"", "\"first\""), std::pair("\"split\": true", "\"split\": false"),
        std::pair("\\u2581", "_")}) {
    std::string changed = file;
    changed.replace(changed.find(from), std::string_view(from).size(), to);
    EXPECT_FALSE(has_fast_path(changed)) << to;
  }
}

// What one Split after another leaves, by the general engine: matches, and what is between them.
std::vector<Word> SplitByRegexes(const std::vector<std::shared_ptr<const Regex>>& regexes,
                                 const std::string& text) {
  std::vector<Word> words = {{0, static_cast<uint32_t>(text.size())}};
  for (const auto& regex : regexes) {
    std::vector<Word> next;
    for (const Word& word : words) {
      const std::string_view part = std::string_view(text).substr(word.begin, word.end - word.begin);
      RegexSearch search(*regex, part);
      uint32_t at = word.begin;
      while (true) {
        const auto match = search.Next();
        if (!match.has_value() || !*match) break;
        const auto begin = word.begin + static_cast<uint32_t>((*match)->begin);
        if (begin > at) next.push_back({at, begin});
        at = word.begin + static_cast<uint32_t>((*match)->end);
        next.push_back({begin, at});
      }
      if (at < word.end) next.push_back({at, word.end});
    }
    words = std::move(next);
  }
  return words;
}

void ExpectSplit(SplitPattern pattern, const std::vector<std::shared_ptr<const Regex>>& regexes,
                 const std::string& text) {
  const std::vector<Word> wanted = SplitByRegexes(regexes, text);
  std::array<Word, 3> words;
  size_t n_seen = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t n = SplitWords(pattern, text, &at, words.data(), words.size());
    for (size_t i = 0; i < n; ++i, ++n_seen) {
      ASSERT_LT(n_seen, wanted.size()) << EscapeForDisplay(text);
      ASSERT_EQ(wanted[n_seen].begin, words[i].begin) << EscapeForDisplay(text);
      ASSERT_EQ(wanted[n_seen].end, words[i].end) << EscapeForDisplay(text);
    }
  }
  ASSERT_EQ(n_seen, text.empty() ? 0 : wanted.size());
}

// What the patterns tell apart: letters of each case and of none, marks, punctuation, symbols, numbers,
// white space, East Asian characters of each kind, controls and characters that are not assigned.
constexpr std::string_view kCases[] = {"a",
                                       "b",
                                       "A",
                                       "B",
                                       "aB",
                                       "Ab",
                                       "\xC7\x85",
                                       "\xC2\xAA",
                                       "\xCA\xB0",
                                       "\xD7\x90",
                                       "\xE6\x97\xA5",
                                       "\xE9\xBE\xA5",
                                       "\xE9\xBE\xA6",
                                       "\xE3\x81\x82",
                                       "\xE3\x82\x99",
                                       "\xE3\x82\x9B",
                                       "\xE3\x82\xA0",
                                       "\xE3\x83\xBB",
                                       "\xE3\x83\xBC",
                                       "\xE3\x81\x80",
                                       "\xE3\x84\x80",
                                       "\xE3\x80\xBF",
                                       "\xCC\x81",
                                       "\xD2\x88",
                                       "\xE0\xA4\xBE",
                                       "'",
                                       "'s",
                                       "'S",
                                       "'\xC5\xBF",
                                       "'ll",
                                       "'VE",
                                       "'v",
                                       "\xE2\x80\x99s",
                                       "/",
                                       "\n",
                                       "\r",
                                       "\r\n",
                                       " ",
                                       "  ",
                                       "\t",
                                       "\xC2\xA0",
                                       "\xE2\x80\xA8",
                                       "\xC2\x85",
                                       "1",
                                       "22",
                                       "4444",
                                       "\xC2\xBD",
                                       "\xD9\xA3",
                                       ".",
                                       "!",
                                       "~",
                                       "$",
                                       "+",
                                       "_",
                                       "\xE2\x82\xAC",
                                       "\xC2\xA7",
                                       "\x01",
                                       "\x7F",
                                       "\xE2\x80\x8B",
                                       "\xEF\xBF\xBF",
                                       "\xEE\x80\x80",
                                       "\xF0\x9F\x98\x80",
                                       "\xC3\x9F",
                                       "\xC3\x89",
                                       "abcdefghij",
                                       "ABCDEFGHIJ"};

TEST(Splitter, Tok07SameAsTheRegexEngine) {
  const std::vector<std::vector<std::string_view>> families = {
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {kO200k},
      {kTekken},
      {std::begin(kDeepSeek), std::end(kDeepSeek)}};
  for (const std::vector<std::string_view>& family : families) {
    const auto pattern = FindSplitPattern(family);
    ASSERT_TRUE(pattern.has_value());
    std::vector<std::shared_ptr<const Regex>> regexes;
    for (const std::string_view expression : family) {
      const auto regex = Regex::Compile(expression);
      ASSERT_TRUE(regex.has_value());
      regexes.push_back(*regex);
    }
    for (char32_t c = 0; c < 0x110000; c = NextCodePoint(c)) {
      ExpectSplit(*pattern, regexes, Surrounded(c));
      if (HasFatalFailure()) return;
    }
    // Each row of three, and longer ones at random.
    for (const std::string_view a : kCases) {
      for (const std::string_view b : kCases) {
        for (const std::string_view c : kCases) {
          if (kSanitized && (a.size() + b.size() * 3 + c.size()) % 5 != 0) continue;
          ExpectSplit(*pattern, regexes, std::string(a) + std::string(b) + std::string(c));
          if (HasFatalFailure()) return;
        }
      }
    }
    Random random(3);
    for (int i = 0; i < 20000; ++i) {
      ExpectSplit(*pattern, regexes, RandomText(&random, 1 + random.Below(12)));
      std::string kinds;
      for (uint64_t n = 1 + random.Below(10); n > 0; --n) kinds += kCases[random.Below(std::size(kCases))];
      ExpectSplit(*pattern, regexes, kinds);
      if (HasFatalFailure()) return;
    }
  }
  const auto is_known = [](std::vector<std::string_view> expressions) {
    return FindSplitPattern(expressions).has_value();
  };
  EXPECT_FALSE(is_known({}));
  EXPECT_FALSE(is_known({R"(\p{L}+)"}));
  EXPECT_FALSE(is_known({kTekken, kTekken}));
  EXPECT_FALSE(is_known({kDeepSeek[0]}));
  EXPECT_FALSE(is_known({kDeepSeek[0], kDeepSeek[1]}));
  EXPECT_FALSE(is_known({kDeepSeek[1], kDeepSeek[0], kDeepSeek[2]}));
  EXPECT_FALSE(is_known(
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}));
}

// Rows on which an expression backtracks as far as it can take time in proportion to their length.
TEST(Splitter, Tok07LongRowsAreCutInOneGo) {
  for (const char* expression : {kO200k, kTekken}) {
    const auto pattern = FindSplitPattern(std::vector<std::string_view>{expression});
    ASSERT_TRUE(pattern.has_value());
    const std::string capitals(1 << 20, 'A');
    for (const std::string& text :
         {capitals, "\xE6\x97\xA5" + capitals, "\xCC\x81" + capitals, capitals + "a"}) {
      std::vector<size_t> ends;
      std::array<Word, 8> words;
      for (size_t at = 0; at < text.size();) {
        const size_t n = SplitWords(*pattern, text, &at, words.data(), words.size());
        for (size_t i = 0; i < n; ++i) ends.push_back(words[i].end);
      }
      std::vector<size_t> wanted = {text.size()};
      if (text[0] != 'A') wanted.insert(wanted.begin(), text.size() - capitals.size());
      EXPECT_EQ(ends, wanted);
    }
  }
}

TEST(WordCache, KeepsWordsWhileItGrowsAndBeginsAnewWhenFull) {
  WordCache cache;
  const auto word_of = [](uint32_t i) {
    std::string out = "w" + std::to_string(i);
    if (i % 3 == 0) out += std::string(20 + i % 40, 'x');
    return out;
  };
  const auto ids_of = [](uint32_t i) { return std::vector<uint32_t>(1 + i % 6, i); };
  const auto find = [&cache](const std::string& word, WordCache::Kind kind) {
    const auto ids = cache.Find(WordCache::KeyOf(word.data(), word.size(), word.size(), kind), word);
    return std::vector<uint32_t>(ids.begin(), ids.end());
  };
  uint64_t n_found = 0;
  constexpr uint32_t kN = 900000;
  for (uint32_t i = 0; i < kN; ++i) {
    const std::string word = word_of(i);
    ASSERT_TRUE(find(word, WordCache::Kind::kWord).empty());
    cache.Insert(WordCache::KeyOf(word.data(), word.size(), word.size(), WordCache::Kind::kWord), word,
                 ids_of(i));
    ASSERT_EQ(find(word, WordCache::Kind::kWord), ids_of(i));
    ASSERT_TRUE(find(word, WordCache::Kind::kWindow).empty());
    const auto before = static_cast<uint32_t>(uint64_t{i} * 7919 % (i + 1));
    const auto again = find(word_of(before), WordCache::Kind::kWord);
    if (again.empty()) continue;
    ASSERT_EQ(again, ids_of(before));
    ++n_found;
  }
  EXPECT_GT(n_found, kN / 2);
}

}  // namespace
}  // namespace slm::tokenizer
