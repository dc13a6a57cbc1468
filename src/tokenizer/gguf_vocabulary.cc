#include "tokenizer/gguf_vocabulary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "codec/json.h"
#include "gguf/metadata.h"
#include "tokenizer/bpe.h"
#include "tokenizer/gguf_models.h"
#include "tokenizer/gguf_pre.h"

namespace slm::tokenizer {
namespace {

using gguf::Pair;
using gguf::Type;

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kCharsmapKey = "tokenizer.ggml.precompiled_charsmap";
constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEosKey = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kUnkKey = "tokenizer.ggml.unknown_token_id";
constexpr std::string_view kSepKey = "tokenizer.ggml.seperator_token_id";

// Texts that make a token a control token, whatever its type says: those that may end a turn, and, where the
// file names no id for the role, those of fill-in-the-middle.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "[e~[",
                                          "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
struct Role {
  std::string_view key;
  std::string_view texts[8];
};
constexpr Role kFillRoles[] = {
    {"tokenizer.ggml.fim_pre_token_id",
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uFF5Cfim\u2581begin\uFF5C>", "<PRE>",
      "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    {"tokenizer.ggml.fim_suf_token_id",
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uFF5Cfim\u2581hole\uFF5C>", "<SUF>", "\u2581<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {"tokenizer.ggml.fim_mid_token_id",
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uFF5Cfim\u2581end\uFF5C>", "<MID>", "\u2581<MID>",
      "<|code_middle|>", "<|middle|>"}},
    {"tokenizer.ggml.fim_pad_token_id", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}},
};
// Always shown.
constexpr std::string_view kShownTexts[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

std::unexpected<Error> Bad(ErrorCode code, std::string_view key, uint64_t at, std::string message) {
  return Fail(MakeError(code, "GGUF vocabulary: " + std::move(message)).At(at).Field(std::string(key)));
}

std::string ItemOf(std::string_view key, uint64_t i) {
  return std::string(key) + "[" + std::to_string(i) + "]";
}

class Compiler {
 public:
  Compiler(const gguf::Metadata& metadata, const LoadOptions& options)
      : metadata_(metadata), options_(options), table_(std::make_shared<GgufTable>()) {}

  Result<Compiled> Run() {
    if (const Pair* whole = metadata_.Find("tokenizer.huggingface.json")) return FromJson(*whole);
    SLM_TRY(ReadKind());
    SLM_TRY(ReadTokens());
    SLM_TRY(ReadScores());
    SLM_TRY(ReadTypes());
    SLM_TRY(ReadFlags());
    SLM_TRY(ReadIds());
    SLM_TRY(AddSpecialTokens());
    SLM_TRY(MakePipeline());
    out_.decoder = MakeGgufDecoder(table_);
    SLM_TRY(MakePostProcessor());
    Describe();
    return std::move(out_);
  }

 private:
  Result<Compiled> FromJson(const Pair& whole) {
    if (whole.value.type != Type::kString)
      return Bad(ErrorCode::kTokSchema, whole.key, whole.byte_offset, "a tokenizer.json that is no text");
    auto compiled = Compile(std::string(AsText(whole.value.bytes)), options_);
    if (compiled) return compiled;
    Error error = std::move(compiled).error();
    if (error.byte_offset) error.byte_offset = *error.byte_offset + whole.value.byte_offset;
    return Fail(std::move(error));
  }

  Result<std::string_view> TextAt(std::string_view key, std::string_view fallback) {
    const Pair* pair = metadata_.Find(key);
    if (pair == nullptr) return fallback;
    if (pair->value.type != Type::kString)
      return Bad(ErrorCode::kTokSchema, key, pair->byte_offset, "a value that is no text");
    return AsText(pair->value.bytes);
  }
  Result<bool> FlagAt(std::string_view key, bool fallback) {
    const Pair* pair = metadata_.Find(key);
    if (pair == nullptr) return fallback;
    if (pair->value.type != Type::kBool || pair->value.bytes[0] > 1)
      return Bad(ErrorCode::kTokSchema, key, pair->byte_offset, "a value that is no flag");
    return pair->value.bytes[0] == 1;
  }

  Status ReadKind() {
    const Pair* pair = metadata_.Find(kModelKey);
    if (pair == nullptr)
      return Bad(ErrorCode::kTokSchema, kModelKey, 0, "the file holds no " + std::string(kModelKey));
    SLM_ASSIGN(model_, TextAt(kModelKey, ""));
    constexpr std::pair<std::string_view, GgufKind> kKinds[] = {{"gpt2", GgufKind::kBpe},
                                                                {"llama", GgufKind::kScored},
                                                                {"t5", GgufKind::kUnigram},
                                                                {"bert", GgufKind::kWordPiece}};
    for (const auto& [name, kind] : kKinds) {
      if (model_ != name) continue;
      table_->kind = kind;
      return {};
    }
    for (const std::string_view name :
         {"rwkv", "plamo2", "gemma4", "hybriddna", "whitespace", "none", "no_vocab"}) {
      if (model_ == name)
        return Bad(ErrorCode::kTokUnsupported, kModelKey, pair->byte_offset,
                   "vocabularies of the kind '" + std::string(name) + "' are not run by this version");
    }
    return Bad(ErrorCode::kTokUnknownType, kModelKey, pair->byte_offset,
               "an unknown kind of vocabulary, '" + EscapeForDisplay(model_) + "'");
  }

  Status ReadTokens() {
    const Pair* pair = metadata_.Find(kTokensKey);
    if (pair == nullptr)
      return Bad(ErrorCode::kTokSchema, kTokensKey, 0, "the file holds no " + std::string(kTokensKey));
    if (!pair->value.IsArrayOf(Type::kString))
      return Bad(ErrorCode::kTokSchema, kTokensKey, pair->byte_offset, "tokens that are no list of texts");
    if (pair->value.count == 0) return Bad(ErrorCode::kTokSchema, kTokensKey, pair->byte_offset, "no tokens");
    if (pair->value.count > kMaxTokens)
      return Bad(ErrorCode::kTokLimit, kTokensKey, pair->byte_offset, "more than 4194304 tokens");
    const auto n = static_cast<size_t>(pair->value.count);
    table_->tokens.resize(n);
    table_->vocabulary.Reserve(n, pair->value.bytes.size() + 24 * n);
    if (table_->kind == GgufKind::kBpe) bpe_vocabulary_.Reserve(n, pair->value.bytes.size() + 24 * n);
    uint32_t id = 0;
    return gguf::ForEachText(pair->value, [&](std::string_view text, uint64_t at) -> Status {
      const std::string empty = "[EMPTY_" + std::to_string(id) + "]";  // as the reference names it
      if (text.size() > kMaxTokenBytes)
        return Bad(ErrorCode::kTokLimit, ItemOf(kTokensKey, id), at, "a token longer than 64 KiB");
      if (const auto fault = FindUtf8Fault(text))
        return Bad(ErrorCode::kTokSchema, ItemOf(kTokensKey, id), at + fault->byte_offset,
                   "a token that is not UTF-8");
      const std::string_view used = text.empty() ? std::string_view(empty) : text;
      if (!table_->vocabulary.Add(used, id))
        return Bad(ErrorCode::kTokIdDup, ItemOf(kTokensKey, id), at, "a token that stands twice");
      if (table_->kind == GgufKind::kBpe) static_cast<void>(bpe_vocabulary_.Add(used, id));
      ++id;
      return {};
    });
  }

  [[nodiscard]] size_t n_tokens() const { return table_->tokens.size(); }

  Status ReadScores() {
    const Pair* pair = metadata_.Find(kScoresKey);
    if (pair == nullptr) {
      if (table_->kind == GgufKind::kScored || table_->kind == GgufKind::kUnigram)
        return Bad(ErrorCode::kTokSchema, kScoresKey, 0, "a vocabulary of this kind without scores");
      return {};
    }
    const bool is_int = pair->value.IsArrayOf(Type::kInt32);
    if (!is_int && !pair->value.IsArrayOf(Type::kFloat32))
      return Bad(ErrorCode::kTokSchema, kScoresKey, pair->byte_offset,
                 "scores that are no list of f32 or i32");
    if (pair->value.count < n_tokens())
      return Bad(ErrorCode::kTokSchema, kScoresKey, pair->byte_offset, "fewer scores than tokens");
    for (size_t i = 0; i < n_tokens(); ++i) {
      const auto bits = LoadLe<uint32_t>(pair->value.bytes.data() + 4 * i);
      const float score =
          is_int ? static_cast<float>(static_cast<int32_t>(bits)) : std::bit_cast<float>(bits);
      if (!std::isfinite(score))
        return Bad(ErrorCode::kTokScore, ItemOf(kScoresKey, i), pair->value.byte_offset + 4 * i,
                   "a score that is not finite");
      table_->tokens[i].score = score;
    }
    return {};
  }

  Status ReadTypes() {
    if (const Pair* pair = metadata_.Find(kTypesKey)) {
      if (!pair->value.IsArrayOf(Type::kInt32))
        return Bad(ErrorCode::kTokSchema, kTypesKey, pair->byte_offset,
                   "token types that are no list of i32");
      if (pair->value.count < n_tokens())
        return Bad(ErrorCode::kTokSchema, kTypesKey, pair->byte_offset, "fewer token types than tokens");
      for (size_t i = 0; i < n_tokens(); ++i) {
        const auto type = LoadLe<uint32_t>(pair->value.bytes.data() + 4 * i);
        GgufToken& token = table_->tokens[i];
        token.is_defined = type >= 1 && type <= 6;
        if (token.is_defined) token.type = static_cast<PieceType>(type);
        token.is_control = token.is_defined && token.type == PieceType::kControl;
        token.is_user_defined = token.is_defined && token.type == PieceType::kUserDefined;
      }
    }
    for (uint32_t byte = 0; byte < 256; ++byte)
      table_->byte_ids[byte] = table_->vocabulary.Find(ByteTokenText(byte));
    LookAtTexts();
    return {};
  }

  // What the reference makes of tokens by their texts.
  void LookAtTexts() {
    const auto make = [this](std::string_view text, bool control) {
      const auto id = table_->vocabulary.Find(text);
      if (!id) return false;
      GgufToken& token = table_->tokens[*id];
      if (!control) {
        token.is_control = false;
        token.is_user_defined = true;
      } else if (!token.is_control) {
        token.is_control = true;
        overridden_.emplace_back(text);
      }
      return true;
    };
    for (const std::string_view text : kEndTexts) static_cast<void>(make(text, true));
    for (const Role& role : kFillRoles) {
      if (metadata_.Find(role.key) != nullptr) continue;
      for (const std::string_view text : role.texts) {
        if (make(text, true)) break;
      }
    }
    for (const std::string_view text : kShownTexts) static_cast<void>(make(text, false));
    const auto has = [this](std::string_view text) { return table_->vocabulary.Find(text).has_value(); };
    const bool has_call = has("<|call|>") || has("<|calls|>");
    if (has("<|end|>") && has_call && (has("<|return|>") || has("<|flush|>")))
      static_cast<void>(make("<|end|>", false));
  }

  Status ReadFlags() {
    SLM_ASSIGN(pre_name_, TextAt(kPreKey, ""));
    const bool is_scored = table_->kind == GgufKind::kScored;
    const bool is_word = table_->kind == GgufKind::kWordPiece;
    const bool is_unigram = table_->kind == GgufKind::kUnigram;
    if (table_->kind == GgufKind::kBpe) {
      auto pre = FindGgufPre(pre_name_);
      if (!pre) {
        const Pair* pair = metadata_.Find(kPreKey);
        return Fail(std::move(pre).error().At(pair == nullptr ? 0 : pair->byte_offset));
      }
      pre_ = *pre;
    }
    table_->clean_spaces = is_word || (pre_ != nullptr && pre_->clean_spaces);
    SLM_ASSIGN(table_->add_space_prefix, FlagAt("tokenizer.ggml.add_space_prefix", is_scored));
    SLM_ASSIGN(remove_extra_, FlagAt("tokenizer.ggml.remove_extra_whitespaces", false));
    SLM_ASSIGN(table_->add_bos, FlagAt("tokenizer.ggml.add_bos_token",
                                       is_scored || is_word || (pre_ != nullptr && pre_->add_bos)));
    SLM_ASSIGN(table_->add_eos, FlagAt("tokenizer.ggml.add_eos_token", is_unigram));
    SLM_ASSIGN(lowercase_, FlagAt("tokenizer.ggml.normalizer.lowercase", true));
    SLM_ASSIGN(strip_accents_, FlagAt("tokenizer.ggml.normalizer.strip_accents", lowercase_));
    return {};
  }

  // The id that the file names for a role, else the reference's own for this kind.
  Result<std::optional<uint32_t>> IdAt(std::string_view key, std::optional<uint32_t> fallback) {
    const Pair* pair = metadata_.Find(key);
    if (pair == nullptr) {
      if (fallback && *fallback < n_tokens()) {
        assumed_.emplace_back(key, *fallback);
        return fallback;
      }
      return std::optional<uint32_t>();
    }
    const auto id = gguf::UintOf(pair->value);
    if (!id || pair->value.type != Type::kUint32)
      return Bad(ErrorCode::kTokSchema, key, pair->byte_offset, "the id of a token that is no u32");
    if (*id >= n_tokens()) return Bad(ErrorCode::kTokId, key, pair->byte_offset, "an id that names no token");
    return static_cast<uint32_t>(*id);
  }

  Status ReadIds() {
    std::optional<uint32_t> bos, eos, unk, sep;
    switch (table_->kind) {
      case GgufKind::kBpe:
        bos = eos = 11;
        break;
      case GgufKind::kScored:
        bos = 1;
        eos = 2;
        break;
      case GgufKind::kUnigram:
        eos = 1;
        unk = 2;
        break;
      case GgufKind::kWordPiece:
        bos = 101;
        unk = 100;
        sep = 102;
        break;
    }
    const bool is_word = table_->kind == GgufKind::kWordPiece;
    const bool needs_unk = is_word || table_->kind == GgufKind::kUnigram;
    // An id that nothing asks for is not assumed.
    SLM_ASSIGN(table_->bos_id, IdAt(kBosKey, table_->add_bos || is_word ? bos : std::nullopt));
    SLM_ASSIGN(table_->eos_id, IdAt(kEosKey, table_->add_eos ? eos : std::nullopt));
    SLM_ASSIGN(const std::optional<uint32_t> unk_id, IdAt(kUnkKey, needs_unk ? unk : std::nullopt));
    SLM_ASSIGN(sep_id_, IdAt(kSepKey, is_word ? sep : std::nullopt));
    const auto need = [](bool wanted, const std::optional<uint32_t>& id, std::string_view key) -> Status {
      if (!wanted || id) return {};
      return Bad(ErrorCode::kTokSchema, key, 0, "the file asks for a token that it does not name");
    };
    SLM_TRY(need(table_->add_bos || is_word, table_->bos_id, kBosKey));
    SLM_TRY(need(table_->add_eos && !is_word, table_->eos_id, kEosKey));
    SLM_TRY(need(is_word, sep_id_, kSepKey));
    SLM_TRY(need(needs_unk, unk_id, kUnkKey));
    if (unk_id) table_->unk_id = *unk_id;
    return {};
  }

  // By the model's name: flags that the file cannot hold.
  Status AddSpecialTokens() {
    SLM_ASSIGN(const std::string_view name_text, TextAt("general.name", ""));
    SLM_ASSIGN(const std::string_view architecture, TextAt("general.architecture", ""));
    std::string name(name_text);
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
    const auto in = [](std::string_view text, std::initializer_list<std::string_view> parts) {
      return std::any_of(parts.begin(), parts.end(),
                         [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
    };
    std::string_view mask;
    bool is_phi3 = false;
    if (in(pre_name_, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
        in(architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
      mask = "<mask>";
    } else if (in(name, {"phi-3", "phi3"})) {
      is_phi3 = true;
    } else if (in(name, {"modern-bert"})) {
      mask = "[MASK]";
    }
    out_.added.SearchLongestFirst();
    for (const Vocabulary::Entry& entry : table_->vocabulary.entries()) {
      const GgufToken& known = table_->tokens[entry.id];
      const bool is_unknown = known.is_defined && known.type == PieceType::kUnknown && !known.is_user_defined;
      const bool is_special = known.is_control || is_unknown;
      if (!is_special && !known.is_user_defined) continue;
      AddedToken token;
      token.content = std::string(entry.text);
      token.id = entry.id;
      token.special = is_special;
      token.lstrip = !mask.empty() && entry.text == mask;
      token.rstrip = is_phi3 && entry.text != "<unk>" && entry.text != "<s>" && entry.text != "<|endoftext|>";
      by_name_ = by_name_ || token.lstrip || token.rstrip;
      SLM_TRY(out_.added.Add(std::move(token), nullptr));
    }
    return out_.added.Build();
  }

  Status MakePipeline() {
    switch (table_->kind) {
      case GgufKind::kBpe:
        return MakeBpe();
      case GgufKind::kScored: {
        std::vector<std::unique_ptr<Normalizer>> parts;
        if (table_->add_space_prefix) parts.push_back(std::make_unique<PrependNormalizer>(" "));
        parts.push_back(std::make_unique<ReplaceNormalizer>(Pattern(std::string(" ")), "\u2581"));
        out_.normalizer = std::make_unique<SequenceNormalizer>(std::move(parts));
        out_.model = MakeGgufScored(table_);
        return {};
      }
      case GgufKind::kUnigram:
        return MakeUnigram();
      case GgufKind::kWordPiece: {
        out_.normalizer = MakeGgufWordNormalizer(lowercase_, strip_accents_);
        std::vector<std::unique_ptr<PreTokenizer>> parts;
        SLM_TRY(AddSplit(R"(\s+)", SplitBehavior::kRemoved, &parts));
        SLM_TRY(AddSplit(
            "[\\p{P}$+<=>^`|~\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"
            "\\x{2B740}-\\x{2B81F}\\x{2B920}-\\x{2CEAF}\\x{F900}-\\x{FAFF}\\x{2F800}-\\x{2FA1F}]",
            SplitBehavior::kIsolated, &parts));
        out_.pre_tokenizer = std::make_unique<SequencePreTokenizer>(std::move(parts));
        out_.model = MakeGgufWordPiece(table_);
        return {};
      }
    }
    return {};
  }

  static Status AddSplit(std::string_view pattern, SplitBehavior behavior,
                         std::vector<std::unique_ptr<PreTokenizer>>* parts) {
    SLM_ASSIGN(auto regex, Regex::Compile(pattern));
    parts->push_back(
        std::make_unique<SplitPreTokenizer>(Pattern(std::move(regex)), behavior, /*invert=*/false));
    return {};
  }

  Status MakeBpe() {
    const Pair* pair = metadata_.Find(kMergesKey);
    if (pair == nullptr)
      return Bad(ErrorCode::kTokSchema, kMergesKey, 0, "a vocabulary of this kind without merges");
    if (!pair->value.IsArrayOf(Type::kString))
      return Bad(ErrorCode::kTokSchema, kMergesKey, pair->byte_offset, "merges that are no list of texts");
    if (pair->value.count > kMaxMerges)
      return Bad(ErrorCode::kTokLimit, kMergesKey, pair->byte_offset, "more than 8388608 merges");
    std::vector<MergeRule> merges;
    MergeTable table;
    table.Reserve(static_cast<size_t>(pair->value.count));
    uint64_t i = 0;
    SLM_TRY(gguf::ForEachText(pair->value, [&](std::string_view text, uint64_t at) -> Status {
      const uint64_t index = i++;
      const size_t space = text.find(' ', 1);
      if (space == std::string_view::npos)
        return Bad(ErrorCode::kTokMerge, ItemOf(kMergesKey, index), at,
                   "a merge without a space between its parts");
      const std::string left_text(text.substr(0, space));
      const std::string right_text(text.substr(space + 1));
      const auto left = table_->vocabulary.Find(left_text);
      const auto right = table_->vocabulary.Find(right_text);
      const auto merged = table_->vocabulary.Find(left_text + right_text);
      if (!left || !right || !merged)
        return Bad(ErrorCode::kTokMerge, ItemOf(kMergesKey, index), at,
                   "a merge of, or into, a text that is no token: |" + EscapeForDisplay(text) + "|");
      if (table.Find(*left, *right) != nullptr) {
        if (options_.Takes(ErrorCode::kTokMergeDup)) return {};  // the first counts
        return Bad(ErrorCode::kTokMergeDup, ItemOf(kMergesKey, index), at, "a merge that stands twice");
      }
      static_cast<void>(table.Put(*left, *right, {static_cast<uint32_t>(merges.size()), *merged}));
      merges.push_back({*left, *right, *merged});
      return {};
    }));
    std::vector<std::unique_ptr<PreTokenizer>> parts;
    for (const char* const pattern : pre_->patterns)
      SLM_TRY(AddSplit(pattern, SplitBehavior::kIsolated, &parts));
    parts.push_back(std::make_unique<ByteLevelPreTokenizer>(/*add_prefix_space=*/false, /*use_regex=*/false));
    out_.pre_tokenizer = std::make_unique<SequencePreTokenizer>(std::move(parts));
    out_.is_byte_level = true;
    n_merges_ = merges.size();
    BpeOptions options;
    options.ignore_merges = pre_->ignore_merges;
    out_.model = MakeGgufBpe(std::make_unique<BpeModel>(std::move(options), std::move(bpe_vocabulary_),
                                                        std::move(merges), std::move(table)),
                             pre_->ignore_merges);
    return {};
  }

  Status MakeUnigram() {
    std::unique_ptr<PrecompiledNormalizer> charsmap;
    if (const Pair* pair = metadata_.Find(kCharsmapKey)) {
      if (!pair->value.IsArrayOf(Type::kUint8) && !pair->value.IsArrayOf(Type::kInt8))
        return Bad(ErrorCode::kTokSchema, kCharsmapKey, pair->byte_offset,
                   "a character map that is no list of bytes");
      auto made = PrecompiledNormalizer::Make(pair->value.bytes);
      if (!made)
        return Fail(std::move(made).error().At(pair->value.byte_offset).Field(std::string(kCharsmapKey)));
      charsmap = *std::move(made);
      has_charsmap_ = true;
    }
    out_.normalizer = MakeGgufUnigramNormalizer(table_, std::move(charsmap), remove_extra_);
    out_.model = MakeGgufUnigram(table_);
    return {};
  }

  Status MakePostProcessor() {
    using Element = TemplatePostProcessor::Element;
    std::vector<TemplatePostProcessor::Special> specials;
    std::vector<Element> single, pair;
    const auto put = [&](std::vector<Element>* list, uint32_t id) {
      list->push_back({.sequence = -1, .type_id = 0, .special = specials.size()});
      specials.push_back({{id}, {std::string(table_->vocabulary.TextOf(id).value_or(""))}});
    };
    const bool is_word = table_->kind == GgufKind::kWordPiece;
    for (std::vector<Element>* list : {&single, &pair}) {
      if (table_->add_bos || is_word) put(list, *table_->bos_id);
      list->push_back({.sequence = 0});
      if (list == &pair) list->push_back({.sequence = 1});
      if (is_word) {
        put(list, *sep_id_);
      } else if (table_->add_eos) {
        put(list, *table_->eos_id);
      }
    }
    out_.post_processor =
        std::make_unique<TemplatePostProcessor>(std::move(single), std::move(pair), std::move(specials));
    return {};
  }

  // TOK-07, and what a person who compares it with a tokenizer.json must know.
  void Describe() {
    json::Writer out;
    out.BeginObject()
        .Key("reference")
        .String("llama.cpp, src/llama-vocab.cpp")
        .Key("locale")
        .String("none")
        .Key("encode_bytes")
        .Bool(false);
    out.Key("model").String(model_).Key("tokens").Uint(n_tokens());
    if (pre_ != nullptr) {
      out.Key("merges")
          .Uint(n_merges_)
          .Key("equal_ranks")
          .String("none: a rank is a place in the list; then the leftmost");
      out.Key("pre").String(pre_name_).Key("patterns").BeginArray();
      for (const char* const pattern : pre_->patterns) out.String(pattern);
      out.EndArray().Key("ignore_merges").Bool(pre_->ignore_merges);
    }
    if (table_->kind == GgufKind::kScored) out.Key("equal_ranks").String("of equal scores the leftmost");
    if (table_->kind == GgufKind::kUnigram) {
      out.Key("arithmetic")
          .String("double, unknown penalty 10")
          .Key("ties")
          .String("the path that was there first");
      out.Key("charsmap").Bool(has_charsmap_).Key("charsmap_lookup").String("longest entry");
      out.Key("remove_extra_whitespaces").Bool(remove_extra_);
    }
    if (table_->kind == GgufKind::kWordPiece)
      out.Key("lowercase").Bool(lowercase_).Key("strip_accents").Bool(strip_accents_);
    out.Key("unicode").String("16.0, decompositions 9.0, lower case 17.0");
    out.Key("add_space_prefix").Bool(table_->add_space_prefix).Key("add_bos").Bool(table_->add_bos);
    out.Key("add_eos").Bool(table_->add_eos).Key("clean_up_tokenization_spaces").Bool(table_->clean_spaces);
    out.Key("special_tokens").Uint(out_.added.tokens().size());
    out.Key("added_token_matching").String("the longest text first, each from the left");
    out.Key("ids_assumed").BeginObject();
    for (const auto& [key, id] : assumed_) out.Key(key).Uint(id);
    out.EndObject().Key("control_by_text").BeginArray();
    for (const std::string_view text : overridden_) out.String(text);
    out.EndArray().Key("losses").BeginArray();
    const auto lose = [&out](std::string_view what, std::string_view instead) {
      out.BeginObject().Key("what").String(what).Key("instead").String(instead).EndObject();
    };
    lose("flags of added tokens: lstrip, rstrip, single_word, normalized",
         by_name_ ? "by the model's name: white space beside some tokens goes; the others have none"
                  : "none has any");
    lose("post-processor",
         "the flags add_bos_token and add_eos_token; no type ids, a pair is one text after the other");
    lose("truncation and padding", "none");
    lose("decoder", "the reference's own for this kind of vocabulary");
    switch (table_->kind) {
      case GgufKind::kBpe:
        lose("normalizer", "none: NFC and its kin are not run");
        lose("pre-tokenizer", "patterns that the reference keeps under the name in tokenizer.ggml.pre");
        lose("unk_token, byte_fallback, dropout", "a character without a token vanishes");
        break;
      case GgufKind::kScored:
        lose("normalizer", "spaces become U+2581, one is put before each segment by add_space_prefix");
        lose("list of merges", "the scores: any two neighbours that are a token together are joined");
        lose("unused tokens", "they are put out like any other");
        break;
      case GgufKind::kUnigram:
        lose("scores beyond float", "float");
        lose("byte_fallback", "unknown text is the unknown token");
        lose("unused tokens", "they are found like any other");
        break;
      case GgufKind::kWordPiece:
        lose("max_input_chars_per_word", "no limit");
        lose("continuing_subword_prefix", "U+2581 begins a word, what goes on has no mark");
        break;
    }
    out.EndArray().EndObject();
    out_.profile_json = out.Take();
  }

  const gguf::Metadata& metadata_;
  const LoadOptions& options_;
  std::shared_ptr<GgufTable> table_;
  Vocabulary bpe_vocabulary_;  // the model of BPE owns its own
  Compiled out_;
  std::string_view model_;
  std::string_view pre_name_;
  const GgufPre* pre_ = nullptr;
  std::optional<uint32_t> sep_id_;
  size_t n_merges_ = 0;
  bool remove_extra_ = false;
  bool lowercase_ = false;
  bool strip_accents_ = false;
  bool has_charsmap_ = false;
  bool by_name_ = false;
  std::vector<std::pair<std::string_view, uint32_t>> assumed_;
  std::vector<std::string_view> overridden_;
};

}  // namespace

Result<Compiled> CompileGguf(ByteSpan file, const LoadOptions& options) {
  SLM_ASSIGN(const gguf::Metadata metadata, gguf::Metadata::Read(file, ErrorCode::kTokSchema));
  return Compiler(metadata, options).Run();
}

}  // namespace slm::tokenizer
