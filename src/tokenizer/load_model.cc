// From JSON to the model.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tokenizer/bpe.h"
#include "tokenizer/compiled.h"
#include "tokenizer/reference_number.h"
#include "tokenizer/schema.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_models.h"

namespace slm::tokenizer {
namespace {

std::string Show(std::string_view token) {
  constexpr size_t kMax = 60;
  if (token.size() <= kMax) return "'" + std::string(token) + "'";
  return "'" + std::string(token.substr(0, kMax)) + "...' (" + std::to_string(token.size()) + " bytes)";
}

std::unexpected<Error> VocabError(ErrorCode code, uint64_t offset, std::string message) {
  return Fail(MakeError(code, std::move(message)).At(offset).Field("$.model.vocab"));
}

// Ids are checked for gaps later, together with the added tokens.
Result<Vocabulary> LoadVocabulary(json::Value object) {
  SLM_ASSIGN(const json::Value vocab, Member(object, "vocab"));
  SLM_TRY(RequireObject(vocab));
  if (vocab.size() > kMaxTokens) {
    return VocabError(ErrorCode::kTokLimit, vocab.byte_offset(), "more than 4194304 tokens");
  }
  size_t n_bytes = 0;
  for (const json::Value item : vocab.children()) {
    if (item.key().size() > kMaxTokenBytes) {
      return VocabError(ErrorCode::kTokLimit, item.key_byte_offset(),
                        "token " + Show(item.key()) + " is longer than 64 KiB");
    }
    n_bytes += item.key().size();
  }
  Vocabulary out;
  out.Reserve(vocab.size(), n_bytes);
  for (const json::Value item : vocab.children()) {
    const auto id = item.is_number() ? item.AsUint() : std::nullopt;
    if (!id || *id > kMaxTokenId) {
      return VocabError(ErrorCode::kTokId, item.byte_offset(),
                        "the id of token " + Show(item.key()) + " is not an integer from 0 to " +
                            std::to_string(kMaxTokenId));
    }
    if (const auto other = out.TextOf(static_cast<uint32_t>(*id))) {
      return VocabError(
          ErrorCode::kTokIdDup, item.byte_offset(),
          "tokens " + Show(*other) + " and " + Show(item.key()) + " have the same id " + std::to_string(*id));
    }
    if (!out.Add(item.key(), static_cast<uint32_t>(*id))) {
      return VocabError(ErrorCode::kJsonDupKey, item.key_byte_offset(), "a token that stands twice");
    }
  }
  return out;
}

struct MergeText {
  std::string_view left;
  std::string_view right;
};

// A merge before its texts are looked up, with their hashes.
struct ReadRule {
  json::Value item;
  MergeText text;
  uint64_t left_hash;
  uint64_t right_hash;
  uint64_t merged_hash;
};

// "a b" or ["a", "b"]; only the second form can hold spaces.
Result<MergeText> ReadMerge(json::Value item) {
  const auto wrong = [&item](std::string message) -> std::unexpected<Error> {
    return Fail(ErrorAt(ErrorCode::kTokSchema, item, ShortPath(item) + " " + std::move(message)));
  };
  if (item.is_string()) {
    const std::string_view text = item.string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return wrong("is not two texts with one space between them");
    }
    return MergeText{text.substr(0, space), text.substr(space + 1)};
  }
  if (!item.is_array() || item.size() != 2) return wrong("is not a pair of texts");
  const json::Value left = *item.First();
  const json::Value right = *left.Next();
  if (!left.is_string() || !right.is_string()) return wrong("is not a pair of texts");
  return MergeText{left.string(), right.string()};
}

// The merged text: `right` without the prefix of a token that continues a word. Keeps *out's memory.
void JoinTexts(const MergeText& merge, size_t prefix_size, std::string* out) {
  out->assign(merge.left);
  out->append(merge.right.substr(std::min(prefix_size, merge.right.size())));
}

Result<MergeRule> ResolveMerge(const ReadRule& rule, size_t prefix_size, const Vocabulary& vocabulary,
                               std::string* joined) {
  const MergeText& merge = rule.text;
  const auto unknown = [&rule](std::string message) -> std::unexpected<Error> {
    return Fail(ErrorAt(ErrorCode::kTokMerge, rule.item, ShortPath(rule.item) + ": " + std::move(message)));
  };
  const auto left = vocabulary.Find(merge.left, rule.left_hash);
  if (!left) return unknown(Show(merge.left) + " is not in the vocabulary");
  const auto right = vocabulary.Find(merge.right, rule.right_hash);
  if (!right) return unknown(Show(merge.right) + " is not in the vocabulary");
  if (merge.right.size() < prefix_size) return unknown(Show(merge.right) + " is shorter than the prefix");
  JoinTexts(merge, prefix_size, joined);
  const auto merged = vocabulary.Find(*joined, rule.merged_hash);
  if (!merged) return unknown("the merged token " + Show(*joined) + " is not in the vocabulary");
  return MergeRule{*left, *right, *merged};
}

// The merges as they stand, up to the first that is of no known form, whose error is returned last.
Status ReadMerges(json::Value list, size_t prefix_size, std::vector<ReadRule>* out) {
  out->reserve(list.size());
  std::string joined;
  std::optional<bool> as_strings;
  for (const json::Value item : list.children()) {
    if (as_strings && *as_strings != item.is_string()) {
      return Fail(
          ErrorAt(ErrorCode::kTokSchema, item, ShortPath(item) + " is not of the form of the others"));
    }
    as_strings = item.is_string();
    // The reference leaves such lines of the old merges.txt out and counts on.
    if (item.is_string() && item.string().starts_with("#version")) continue;
    SLM_ASSIGN(const MergeText text, ReadMerge(item));
    JoinTexts(text, prefix_size, &joined);
    out->push_back({item, text, Vocabulary::HashOf(text.left), Vocabulary::HashOf(text.right),
                    Vocabulary::HashOf(joined)});
  }
  return {};
}

struct Merges {
  std::vector<MergeRule> rules;
  MergeTable table;  // the same by pair
};

Result<Merges> LoadMerges(json::Value object, const BpeOptions& bpe, const Vocabulary& vocabulary,
                          bool lenient) {
  SLM_ASSIGN(const json::Value list, ArrayMember(object, "merges"));
  if (list.size() > kMaxMerges) {
    return Fail(ErrorAt(ErrorCode::kTokLimit, list, "more than 8388608 merges"));
  }
  const size_t prefix_size = bpe.continuing_subword_prefix.size();
  std::vector<ReadRule> read;
  const Status was_read = ReadMerges(list, prefix_size, &read);
  Merges out;
  out.rules.reserve(read.size());
  out.table.Reserve(read.size());
  // Rules are resolved ahead of being put, and looked for ahead of being resolved: what each step touches
  // is in the processor's cache by then. The first fault in the order of the file is the one reported.
  std::string joined;
  constexpr size_t kAhead = 16;
  Status was_resolved;
  for (size_t i = 0; i < read.size() + kAhead; ++i) {
    if (i + kAhead < read.size()) {
      const ReadRule& later = read[i + kAhead];
      for (const uint64_t hash : {later.left_hash, later.right_hash, later.merged_hash})
        vocabulary.Prefetch(hash);
    }
    if (i < read.size() && was_resolved) {
      auto rule = ResolveMerge(read[i], prefix_size, vocabulary, &joined);
      if (rule) {
        out.rules.push_back(*rule);
        out.table.Prefetch(rule->left, rule->right);
      } else {
        was_resolved = Fail(std::move(rule).error());
      }
    }
    if (i < kAhead) continue;
    const size_t rank = i - kAhead;
    if (rank == out.rules.size()) break;
    const MergeRule& rule = out.rules[rank];
    if (!out.table.Put(rule.left, rule.right, {static_cast<uint32_t>(rank), rule.merged}) && !lenient) {
      return Fail(ErrorAt(ErrorCode::kTokMergeDup, read[rank].item,
                          ShortPath(read[rank].item) + ": the pair " + Show(read[rank].text.left) + ", " +
                              Show(read[rank].text.right) + " stands twice, so its rank is open"));
    }
  }
  SLM_TRY(was_resolved);
  SLM_TRY(was_read);
  return out;
}

Status CheckDropout(json::Value object) {
  const auto dropout = OptionalMember(object, "dropout");
  if (!dropout) return {};
  const auto value = dropout->is_number() ? dropout->AsDouble() : std::nullopt;
  if (!value || *value < 0 || *value > 1) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, *dropout, "dropout must be a number from 0 to 1"));
  }
  if (*value > 0) {
    return Fail(
        ErrorAt(ErrorCode::kTokDropout, *dropout, "dropout above 0 makes the ids random; set it to null"));
  }
  return {};
}

Result<std::unique_ptr<Model>> LoadBpe(json::Value object, json::Writer* profile,
                                       const LoadOptions& options) {
  SLM_TRY(RequireKnownKeys(
      object, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"}));
  SLM_TRY(CheckDropout(object));
  BpeOptions bpe;
  SLM_ASSIGN(bpe.unk_token, OptionalString(object, "unk_token"));
  SLM_ASSIGN(const std::optional<std::string> prefix, OptionalString(object, "continuing_subword_prefix"));
  SLM_ASSIGN(const std::optional<std::string> suffix, OptionalString(object, "end_of_word_suffix"));
  bpe.continuing_subword_prefix = prefix.value_or("");
  bpe.end_of_word_suffix = suffix.value_or("");
  SLM_ASSIGN(bpe.fuse_unk, OptionalBool(object, "fuse_unk", false));
  SLM_ASSIGN(bpe.byte_fallback, OptionalBool(object, "byte_fallback", false));
  SLM_ASSIGN(bpe.ignore_merges, OptionalBool(object, "ignore_merges", false));
  SLM_ASSIGN(Vocabulary vocabulary, LoadVocabulary(object));
  SLM_ASSIGN(Merges merges, LoadMerges(object, bpe, vocabulary, options.Takes(ErrorCode::kTokMergeDup)));
  profile->Key("unk_token");
  if (bpe.unk_token) {
    profile->String(*bpe.unk_token);
  } else {
    profile->Null();
  }
  profile->Key("continuing_subword_prefix").String(bpe.continuing_subword_prefix);
  profile->Key("end_of_word_suffix").String(bpe.end_of_word_suffix);
  profile->Key("fuse_unk").Bool(bpe.fuse_unk).Key("byte_fallback").Bool(bpe.byte_fallback);
  profile->Key("ignore_merges").Bool(bpe.ignore_merges);
  profile->Key("order").String("lowest rank, then leftmost");
  profile->Key("equal_ranks").String(options.Takes(ErrorCode::kTokMergeDup) ? "last one counts" : "refused");
  profile->Key("tokens").Uint(vocabulary.size()).Key("merges").Uint(merges.rules.size());
  return std::unique_ptr<Model>(std::make_unique<BpeModel>(std::move(bpe), std::move(vocabulary),
                                                           std::move(merges.rules), std::move(merges.table)));
}

Result<std::unique_ptr<Model>> LoadWordPiece(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(
      object, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
  SLM_ASSIGN(std::string unk, StringMember(object, "unk_token"));
  SLM_ASSIGN(std::string prefix, StringMember(object, "continuing_subword_prefix"));
  SLM_ASSIGN(const uint64_t max_chars, UintMember(object, "max_input_chars_per_word"));
  SLM_ASSIGN(Vocabulary vocabulary, LoadVocabulary(object));
  profile->Key("unk_token").String(unk).Key("continuing_subword_prefix").String(prefix);
  profile->Key("max_input_chars_per_word")
      .Uint(max_chars)
      .Key("order")
      .String("longest piece, left to right");
  profile->Key("tokens").Uint(vocabulary.size());
  return std::unique_ptr<Model>(
      std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(unk), std::move(prefix), max_chars));
}

Result<std::unique_ptr<Model>> LoadWordLevel(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "unk_token", "vocab"}));
  SLM_ASSIGN(std::string unk, StringMember(object, "unk_token"));
  SLM_ASSIGN(Vocabulary vocabulary, LoadVocabulary(object));
  profile->Key("unk_token").String(unk).Key("tokens").Uint(vocabulary.size());
  return std::unique_ptr<Model>(std::make_unique<WordLevelModel>(std::move(vocabulary), std::move(unk)));
}

// [text, score]: ids are places, scores doubles as the reference reads them.
Result<std::vector<UnigramModel::Piece>> LoadPieces(json::Value object, bool lenient) {
  SLM_ASSIGN(const json::Value vocab, ArrayMember(object, "vocab"));
  if (vocab.size() > kMaxTokens) {
    return VocabError(ErrorCode::kTokLimit, vocab.byte_offset(), "more than 4194304 tokens");
  }
  std::vector<UnigramModel::Piece> out;
  out.reserve(vocab.size());
  std::unordered_map<std::string_view, size_t> seen;
  for (const json::Value item : vocab.children()) {
    if (!item.is_array() || item.size() != 2 || !item.First()->is_string()) {
      return Fail(ErrorAt(ErrorCode::kTokSchema, item, ShortPath(item) + " must be a text and its score"));
    }
    const std::string_view text = item.First()->string();
    if (text.size() > kMaxTokenBytes) {
      return VocabError(ErrorCode::kTokLimit, item.First()->byte_offset(),
                        "token " + Show(text) + " is longer than 64 KiB");
    }
    const json::Value score = *item.First()->Next();
    const auto number = score.is_number() ? ReadAsReference(score.source_text()) : std::nullopt;
    if (!number) return Fail(ErrorAt(ErrorCode::kTokScore, score, "a score must be a finite number"));
    if (!seen.emplace(text, out.size()).second && !lenient) {
      return VocabError(ErrorCode::kTokIdDup, item.byte_offset(),
                        "the piece " + Show(text) + " stands twice, so its id is open");
    }
    out.push_back({std::string(text), *number});
  }
  return out;
}

Result<std::unique_ptr<Model>> LoadUnigram(json::Value object, json::Writer* profile,
                                           const LoadOptions& options) {
  SLM_TRY(RequireKnownKeys(object, {"type", "unk_id", "vocab", "byte_fallback", "fuse_unk"}));
  SLM_ASSIGN(const bool fuse_unk, OptionalBool(object, "fuse_unk", true));
  if (!fuse_unk) {
    return Fail(ErrorAt(ErrorCode::kTokUnknownType, *object.Find("fuse_unk"),
                        "fuse_unk false has no effect in the reference, which always fuses"));
  }
  SLM_ASSIGN(const bool byte_fallback, OptionalBool(object, "byte_fallback", false));
  SLM_ASSIGN(std::vector<UnigramModel::Piece> pieces, LoadPieces(object, options.lenient));
  std::optional<uint32_t> unk_id;
  if (OptionalMember(object, "unk_id")) {
    SLM_ASSIGN(const uint64_t id, UintMember(object, "unk_id"));
    if (id >= pieces.size()) {
      return Fail(ErrorAt(ErrorCode::kTokId, *object.Find("unk_id"), "unk_id lies outside the vocabulary"));
    }
    unk_id = static_cast<uint32_t>(id);
  }
  profile->Key("unk_id");
  if (unk_id) {
    profile->Uint(*unk_id);
  } else {
    profile->Null();
  }
  profile->Key("byte_fallback").Bool(byte_fallback).Key("fuse_unk").Bool(true);
  profile->Key("arithmetic").String("double, unknown penalty 10");
  profile->Key("ties").String("the path whose last piece begins first");
  profile->Key("tokens").Uint(pieces.size());
  return std::unique_ptr<Model>(std::make_unique<UnigramModel>(std::move(pieces), unk_id, byte_fallback));
}

// Files of the old form have no type: the reference tries BPE, WordPiece, WordLevel and Unigram.
std::string_view GuessType(json::Value object) {
  const auto vocab = object.Find("vocab");
  if (vocab && vocab->is_object() && object.Find("merges")) return "BPE";
  if (object.Find("continuing_subword_prefix") && object.Find("max_input_chars_per_word")) return "WordPiece";
  if (vocab && vocab->is_object() && object.Find("unk_token")) return "WordLevel";
  if (vocab && vocab->is_array()) return "Unigram";
  return "";
}

}  // namespace

Result<std::unique_ptr<Model>> LoadModel(json::Value value, json::Writer* profile,
                                         const LoadOptions& options) {
  SLM_TRY(RequireObject(value));
  const auto type = value.Find("type");
  if (type && !type->is_string()) return Fail(ErrorAt(ErrorCode::kTokSchema, *type, "type must be a string"));
  const std::string name(type ? type->string() : GuessType(value));
  if (name.empty()) return Fail(ErrorAt(ErrorCode::kTokSchema, value, "a model of no known form"));
  profile->BeginObject().Key("type").String(name);
  Result<std::unique_ptr<Model>> made;
  if (name == "BPE") {
    made = LoadBpe(value, profile, options);
  } else if (name == "Unigram") {
    made = LoadUnigram(value, profile, options);
  } else if (name == "WordPiece") {
    made = LoadWordPiece(value, profile);
  } else if (name == "WordLevel") {
    made = LoadWordLevel(value, profile);
  } else {
    return Fail(ErrorAt(ErrorCode::kTokUnknownType, *type,
                        ShortPath(*type) + ": unknown model '" + std::string(name) + "'"));
  }
  if (made) profile->EndObject();
  return made;
}

}  // namespace slm::tokenizer
