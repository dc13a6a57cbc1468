#include "tokenizer/gguf_models.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/score_merge.h"
#include "unicode/classes_v16_0.h"
#include "unicode/lowercase_v17_0.h"
#include "unicode/normalization_v9_0.h"
#include "unicode/properties_v16_0.h"

namespace slm::tokenizer {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

class GgufBpe final : public Model {
 public:
  GgufBpe(std::unique_ptr<Model> bpe, bool ignore_merges)
      : bpe_(std::move(bpe)), ignore_merges_(ignore_merges) {}

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    const bool is_token = ignore_merges_ && vocabulary().Find(text).has_value();
    uint32_t begin = 0;
    const auto flush = [&](uint32_t end) -> Status {
      if (begin == end) return {};
      const size_t n_before = out->size();
      SLM_TRY(bpe_->Tokenize(text.substr(begin, end - begin), out));
      for (size_t i = n_before; i < out->size(); ++i) {
        (*out)[i].begin += begin;
        (*out)[i].end += begin;
      }
      return {};
    };
    for (uint32_t at = 0; at < text.size() && !is_token;) {
      const uint32_t n = ReadScalar(text.data() + at).n_bytes;
      if (!vocabulary().Find(text.substr(at, n))) {
        SLM_TRY(flush(at));
        begin = at + n;
      }
      at += n;
    }
    return flush(static_cast<uint32_t>(text.size()));
  }
  [[nodiscard]] const Vocabulary& vocabulary() const override { return bpe_->vocabulary(); }
  [[nodiscard]] bool has_byte_tokens() const override { return false; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override {
    return bpe_->AdjacentParts();
  }

 private:
  std::unique_ptr<Model> bpe_;
  bool ignore_merges_;
};

class GgufModel : public Model {
 public:
  explicit GgufModel(std::shared_ptr<const GgufTable> table) : table_(std::move(table)) {}
  [[nodiscard]] const Vocabulary& vocabulary() const override { return table_->vocabulary; }
  [[nodiscard]] bool has_byte_tokens() const override { return false; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override {
    return PartsByCutting(table_->vocabulary);
  }

 protected:
  std::shared_ptr<const GgufTable> table_;
};

class GgufScored final : public GgufModel {
 public:
  using GgufModel::GgufModel;

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    std::vector<ScoreSymbol> symbols;
    for (uint32_t at = 0; at < text.size();) {
      const uint32_t n = ReadScalar(text.data() + at).n_bytes;
      symbols.push_back({at, at + n});
      at += n;
    }
    MergeByScore(text, &symbols, [this](std::string_view joined, uint32_t) -> std::optional<float> {
      const auto id = table_->vocabulary.Find(joined);
      if (!id) return std::nullopt;
      return table_->tokens[*id].score;
    });
    for (const ScoreSymbol& symbol : symbols) {
      const std::string_view piece = text.substr(symbol.begin, symbol.end - symbol.begin);
      if (const auto id = table_->vocabulary.Find(piece)) {
        out->push_back({*id, symbol.begin, symbol.end});
        continue;
      }
      for (const char byte : piece) {
        const auto id = table_->byte_ids[static_cast<uint8_t>(byte)];
        if (!id) {
          return Fail(ErrorCode::kTokNoUnk,
                      "no token for the character |" + EscapeForDisplay(piece) + "| nor for its bytes");
        }
        out->push_back({*id, symbol.begin, symbol.end});
      }
    }
    return {};
  }
};

class GgufUnigram final : public GgufModel {
 public:
  explicit GgufUnigram(std::shared_ptr<const GgufTable> table) : GgufModel(std::move(table)) {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    float lowest = std::numeric_limits<float>::max();
    for (const Vocabulary::Entry& entry : table_->vocabulary.entries()) {
      const GgufToken& token = table_->tokens[entry.id];
      if (!token.is_defined) continue;
      if (token.type == PieceType::kNormal) lowest = std::min(lowest, token.score);
      if (token.type == PieceType::kNormal || token.type == PieceType::kUserDefined ||
          token.type == PieceType::kUnused)
        keys.emplace_back(entry.text, entry.id);
    }
    trie_.Build(std::move(keys));
    unk_score_ = lowest - 10.0f;
  }

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    struct Best {
      double score = -std::numeric_limits<double>::max();
      uint32_t begin = 0;
      uint32_t id = 0;
    };
    std::vector<Best> best(text.size() + 1);
    best[0].score = 0;
    const auto offer = [&best](size_t end, double score, size_t begin, uint32_t id) {
      if (score > best[end].score) best[end] = {score, static_cast<uint32_t>(begin), id};
    };
    for (size_t begin = 0; begin < text.size();) {
      const double score = best[begin].score;
      const size_t n_first = ReadScalar(text.data() + begin).n_bytes;
      bool has_single = false;
      uint32_t state = 0;
      for (size_t end = begin; end < text.size();) {
        state = trie_.Next(state, static_cast<uint8_t>(text[end]));
        if (state == DoubleArray::kNone) break;
        ++end;
        const uint32_t id = trie_.ValueAt(state);
        if (id == DoubleArray::kNone) continue;
        const GgufToken& token = table_->tokens[id];
        const double own = token.type == PieceType::kUserDefined ? 0.0 : static_cast<double>(token.score);
        offer(end, score + own, begin, id);
        has_single = has_single || end - begin == n_first;
      }
      if (!has_single) offer(begin + n_first, score + static_cast<double>(unk_score_), begin, table_->unk_id);
      begin += n_first;
    }
    const size_t n_before = out->size();
    for (auto end = static_cast<uint32_t>(text.size()); end > 0; end = best[end].begin) {
      if (best[end].id == table_->unk_id && out->size() > n_before && out->back().id == table_->unk_id) {
        out->back().begin = best[end].begin;
      } else {
        out->push_back({best[end].id, best[end].begin, end});
      }
    }
    std::reverse(out->begin() + static_cast<ptrdiff_t>(n_before), out->end());
    return {};
  }

 private:
  DoubleArray trie_;
  float unk_score_;
};

class GgufWordPiece final : public GgufModel {
 public:
  explicit GgufWordPiece(std::shared_ptr<const GgufTable> table) : GgufModel(std::move(table)) {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    for (const Vocabulary::Entry& entry : table_->vocabulary.entries())
      keys.emplace_back(entry.text, entry.id);
    trie_.Build(std::move(keys));
  }

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    const size_t n_before = out->size();
    const std::string word = std::string(kSpaceSymbol) + std::string(text);
    const auto place = [](size_t at) {  // in `text`; the space stands for nothing of it
      return static_cast<uint32_t>(at < kSpaceSymbol.size() ? 0 : at - kSpaceSymbol.size());
    };
    for (size_t begin = 0; begin < word.size();) {
      size_t longest = begin;
      uint32_t id = DoubleArray::kNone;
      uint32_t state = 0;
      for (size_t end = begin; end < word.size();) {
        state = trie_.Next(state, static_cast<uint8_t>(word[end]));
        if (state == DoubleArray::kNone) break;
        ++end;
        if (trie_.ValueAt(state) == DoubleArray::kNone) continue;
        longest = end;
        id = trie_.ValueAt(state);
      }
      if (id == DoubleArray::kNone) {
        out->resize(n_before);
        out->push_back({table_->unk_id, 0, static_cast<uint32_t>(text.size()), true});
        return {};
      }
      out->push_back({id, place(begin), place(longest)});
      begin = longest;
    }
    return {};
  }

 private:
  DoubleArray trie_;
};

class GgufUnigramNormalizer final : public Normalizer {
 public:
  GgufUnigramNormalizer(std::shared_ptr<const GgufTable> table,
                        std::unique_ptr<PrecompiledNormalizer> charsmap, bool remove_extra)
      : table_(std::move(table)), charsmap_(std::move(charsmap)), remove_extra_(remove_extra) {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    for (const Vocabulary::Entry& entry : table_->vocabulary.entries()) {
      if (table_->tokens[entry.id].type == PieceType::kUserDefined) keys.emplace_back(entry.text, entry.id);
    }
    user_defined_.Build(std::move(keys));
  }

  [[nodiscard]] Status Normalize(AlignedText* text) const override {
    const std::string_view input = text->text;
    std::string out;
    std::vector<Span> align;
    bool has_prefix = false;
    bool in_word = false;
    const auto add = [&](std::string_view what, Span origin) {
      out.append(what);
      align.insert(align.end(), what.size(), origin);
    };
    for (size_t at = 0; at < input.size();) {
      SLM_ASSIGN(const Group group, NextGroup(input.substr(at)));
      const Span origin = {text->align[at].begin, text->align[at + group.n_bytes - 1].end};
      at += group.n_bytes;
      for (const char& c : group.with) {
        if (c == ' ') {
          in_word = false;
          if (!remove_extra_) add(kSpaceSymbol, origin);
          continue;
        }
        if (!std::exchange(in_word, true) && ((table_->add_space_prefix && !has_prefix) || remove_extra_)) {
          add(kSpaceSymbol, origin);
          has_prefix = true;
        }
        add({&c, 1}, origin);
      }
      if (out.size() > GrowthLimit(input.size()))
        return Fail(ErrorCode::kLimit, "the normalizer makes the text too long");
    }
    text->text = std::move(out);
    text->align = std::move(align);
    return {};
  }

 private:
  struct Group {
    std::string_view with;
    size_t n_bytes;
  };
  // What begins like a token of the user passes as it is, as far as it is like one; a character that this
  // would cut in two is taken whole.
  [[nodiscard]] size_t LikeUserDefined(std::string_view input) const {
    size_t n = 0;
    for (uint32_t state = 0; n < input.size(); ++n) {
      state = user_defined_.Next(state, static_cast<uint8_t>(input[n]));
      if (state == DoubleArray::kNone) break;
    }
    while (n > 0 && n < input.size() && IsContinuation(input[n])) ++n;
    return n;
  }
  [[nodiscard]] Result<Group> NextGroup(std::string_view input) const {
    if (const size_t n = LikeUserDefined(input); n > 0) return Group{input.substr(0, n), n};
    if (charsmap_ != nullptr) {
      SLM_ASSIGN(const auto found, charsmap_->FindLongest(input));
      if (found) return Group{found->second, found->first};
    }
    const size_t n = ReadScalar(input.data()).n_bytes;
    return Group{input.substr(0, n), n};
  }

  std::shared_ptr<const GgufTable> table_;
  std::unique_ptr<PrecompiledNormalizer> charsmap_;
  bool remove_extra_;
  DoubleArray user_defined_;
};

class GgufWordNormalizer final : public Normalizer {
 public:
  GgufWordNormalizer(bool lowercase, bool strip_accents)
      : lowercase_(lowercase), strip_accents_(strip_accents) {}

  [[nodiscard]] Status Normalize(AlignedText* text) const override {
    std::string out;
    std::vector<Span> align;
    for (size_t at = 0; at < text->text.size();) {
      const Scalar scalar = ReadScalar(text->text.data() + at);
      const Span origin = {text->align[at].begin, text->align[at + scalar.n_bytes - 1].end};
      at += scalar.n_bytes;
      char32_t c = strip_accents_ ? FirstOfDecomposition(scalar.value) : scalar.value;
      if (!unicode::IsWhiteSpace(c)) {
        if (c == 0 || c == 0xFFFD || Has("cc", c) || Has("cf", c) || Has("co", c)) continue;
        if (strip_accents_ && Has("m", c)) continue;
      }
      if (lowercase_) c = unicode::LowercaseV17(c);
      const size_t before = out.size();
      AppendScalar(&out, c);
      align.insert(align.end(), out.size() - before, origin);
    }
    text->text = std::move(out);
    text->align = std::move(align);
    return {};
  }

 private:
  static char32_t FirstOfDecomposition(char32_t c) {
    if (c >= 0xAC00 && c <= 0xD7A3) return 0x1100 + (c - 0xAC00) / 588;
    const std::span<const char32_t> parts = unicode::DecompositionV9(c);
    return parts.empty() ? c : parts[0];
  }
  static bool Has(std::string_view category, char32_t c) {
    if (c < 0x7F && c >= 0x20) return false;
    const auto ranges = unicode::PropertyRangesV16(category);
    if (!ranges) return false;
    // Pairs of first and last: an odd number of bounds at or before c, or c is the last of a pair.
    const auto after = std::upper_bound(ranges->begin(), ranges->end(), c);
    const auto n = static_cast<size_t>(after - ranges->begin());
    return n % 2 == 1 || (n > 0 && (*ranges)[n - 1] == c);
  }

  bool lowercase_;
  bool strip_accents_;
};

// A text of the byte alphabet as bytes; what is not of it shows as in the reference.
std::string BytesOfAlphabet(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + at);
    if (const auto byte = ByteOfAlphabet(scalar.value)) {
      out.push_back(static_cast<char>(*byte));
    } else {
      out += "[UNK_BYTE_0x";
      for (size_t i = at; i < at + scalar.n_bytes; ++i) {
        const auto byte_of_text = static_cast<uint8_t>(text[i]);
        out.push_back("0123456789abcdef"[byte_of_text >> 4]);
        out.push_back("0123456789abcdef"[byte_of_text & 15]);
      }
      out += text + "]";
    }
    at += scalar.n_bytes;
  }
  return out;
}

// The text of a token, `special` ones included.
std::string PieceOf(const GgufTable& table, const std::string& token) {
  const auto id = table.vocabulary.Find(token);
  if (!id) return token;
  const GgufToken& known = table.tokens[*id];
  if (known.is_control || known.is_user_defined || known.type == PieceType::kUnknown) return token;
  if (known.type == PieceType::kByte) {
    const auto byte = ByteOfFallbackToken(token);
    return byte ? std::string(1, static_cast<char>(*byte)) : std::string();
  }
  if (!known.is_defined || known.type != PieceType::kNormal) return {};
  if (table.kind != GgufKind::kBpe) return ReplaceInToken(token, std::string(kSpaceSymbol), " ");
  return BytesOfAlphabet(token);
}

std::string WithoutFirstSpace(std::string piece) {
  if (piece.starts_with(' ')) piece.erase(0, 1);
  return piece;
}

// Three passes as in the reference: spaces before ?!., then an apostrophe between spaces, then 's 'm 're 've.
std::string CleanSpaces(std::string_view text) {
  const auto pass = [](std::string_view in, auto takes_space) {
    std::string out;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i > 0 && in[i - 1] == ' ' && takes_space(in.substr(i))) out.pop_back();
      out.push_back(in[i]);
    }
    return out;
  };
  std::string out = pass(text, [](std::string_view rest) {
    return rest[0] == '?' || rest[0] == '!' || rest[0] == '.' || rest[0] == ',';
  });
  std::string quoted;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool between =
        out[i] == '\'' && i > 0 && i + 1 < out.size() && out[i - 1] == ' ' && out[i + 1] == ' ';
    if (between) quoted.pop_back();
    quoted.push_back(out[i]);
    if (between) out[++i] = '\0';
  }
  return pass(quoted, [](std::string_view rest) {
    if (rest[0] != '\'' || rest.size() < 2) return false;
    return rest[1] == 's' || rest[1] == 'm' || rest.starts_with("'re") || rest.starts_with("'ve");
  });
}

// Pieces as they come, every token shown; the first gives up its space.
class GgufStage final : public DecoderStage {
 public:
  explicit GgufStage(std::shared_ptr<const GgufTable> table) : table_(std::move(table)) {}
  Status Feed(const Fragment& in, std::vector<Fragment>* out) override {
    token_ += in.bytes;
    if (!in.ends) return {};
    std::string piece = PieceOf(*table_, std::exchange(token_, {}));
    if (std::exchange(is_first_, false) && table_->add_space_prefix)
      piece = WithoutFirstSpace(std::move(piece));
    out->push_back({std::move(piece), true, true});
    return {};
  }
  Status Finish(std::vector<Fragment>*) override { return {}; }

 private:
  std::shared_ptr<const GgufTable> table_;
  bool is_first_ = true;
  std::string token_;
};

class GgufDecoder final : public Decoder {
 public:
  explicit GgufDecoder(std::shared_ptr<const GgufTable> table) : table_(std::move(table)) {}

  [[nodiscard]] bool takes_special_tokens() const override { return true; }
  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override {
    const auto is = [this](const std::string& token, std::optional<uint32_t> id) {
      return id && table_->vocabulary.Find(token) == id;
    };
    size_t begin = 0;
    size_t end = tokens->size();
    bool remove_space = table_->add_space_prefix;
    if (table_->add_bos && begin < end && is((*tokens)[begin], table_->bos_id)) {
      remove_space = false;
      ++begin;
    }
    if (table_->add_eos && begin < end && is((*tokens)[end - 1], table_->eos_id)) --end;
    std::string out;
    for (size_t i = begin; i < end; ++i) {
      const bool is_first = std::exchange(remove_space, false);
      const auto id = table_->vocabulary.Find((*tokens)[i]);
      if (id && (table_->tokens[*id].is_control || table_->tokens[*id].type == PieceType::kUnknown)) continue;
      std::string piece = PieceOf(*table_, (*tokens)[i]);
      out += is_first ? WithoutFirstSpace(std::move(piece)) : std::move(piece);
    }
    tokens->assign(1, ReplaceIllFormed(table_->clean_spaces ? CleanSpaces(out) : out));
    return {};
  }
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override {
    stages->push_back(std::make_unique<GgufStage>(table_));
  }

 private:
  std::shared_ptr<const GgufTable> table_;
};

}  // namespace

std::unique_ptr<Model> MakeGgufBpe(std::unique_ptr<Model> bpe, bool ignore_merges) {
  return std::make_unique<GgufBpe>(std::move(bpe), ignore_merges);
}
std::unique_ptr<Model> MakeGgufScored(std::shared_ptr<const GgufTable> table) {
  return std::make_unique<GgufScored>(std::move(table));
}
std::unique_ptr<Model> MakeGgufUnigram(std::shared_ptr<const GgufTable> table) {
  return std::make_unique<GgufUnigram>(std::move(table));
}
std::unique_ptr<Model> MakeGgufWordPiece(std::shared_ptr<const GgufTable> table) {
  return std::make_unique<GgufWordPiece>(std::move(table));
}
std::unique_ptr<Normalizer> MakeGgufUnigramNormalizer(std::shared_ptr<const GgufTable> table,
                                                      std::unique_ptr<PrecompiledNormalizer> charsmap,
                                                      bool remove_extra_whitespaces) {
  return std::make_unique<GgufUnigramNormalizer>(std::move(table), std::move(charsmap),
                                                 remove_extra_whitespaces);
}
std::unique_ptr<Normalizer> MakeGgufWordNormalizer(bool lowercase, bool strip_accents) {
  return std::make_unique<GgufWordNormalizer>(lowercase, strip_accents);
}
std::unique_ptr<Decoder> MakeGgufDecoder(std::shared_ptr<const GgufTable> table) {
  return std::make_unique<GgufDecoder>(std::move(table));
}

}  // namespace slm::tokenizer
