// From the whole tokenizer.json to its compiled form.
#include <algorithm>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/compiled.h"
#include "tokenizer/schema.h"

namespace slm::tokenizer {
namespace {

Result<Direction> LoadDirection(json::Value object, std::optional<Direction> fallback) {
  if (fallback && !object.Find("direction")) return *fallback;
  SLM_ASSIGN(const std::string name, StringMember(object, "direction"));
  if (name == "Left") return Direction::kLeft;
  if (name == "Right") return Direction::kRight;
  return Fail(ErrorAt(ErrorCode::kTokUnknownType, *object.Find("direction"), "a direction is Left or Right"));
}

Result<Truncation> LoadTruncation(json::Value object) {
  SLM_TRY(RequireObject(object));
  SLM_TRY(RequireKnownKeys(object, {"direction", "max_length", "strategy", "stride"}));
  Truncation out;
  SLM_ASSIGN(out.direction, LoadDirection(object, Direction::kRight));
  SLM_ASSIGN(out.max_length, UintMember(object, "max_length"));
  SLM_ASSIGN(out.stride, UintMember(object, "stride"));
  SLM_ASSIGN(const std::string strategy, StringMember(object, "strategy"));
  if (strategy == "LongestFirst") {
    out.strategy = Truncation::Strategy::kLongestFirst;
  } else if (strategy == "OnlyFirst") {
    out.strategy = Truncation::Strategy::kOnlyFirst;
  } else if (strategy == "OnlySecond") {
    out.strategy = Truncation::Strategy::kOnlySecond;
  } else {
    return Fail(ErrorAt(ErrorCode::kTokUnknownType, *object.Find("strategy"), "unknown truncation strategy"));
  }
  if (out.max_length > 0 && out.stride >= out.max_length) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, *object.Find("stride"), "stride must be below max_length"));
  }
  return out;
}

Result<Padding> LoadPadding(json::Value object) {
  SLM_TRY(RequireObject(object));
  SLM_TRY(RequireKnownKeys(
      object, {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"}));
  Padding out;
  SLM_ASSIGN(const json::Value strategy, Member(object, "strategy"));
  if (strategy.is_object()) {
    SLM_TRY(RequireKnownKeys(strategy, {"Fixed"}));
    SLM_ASSIGN(out.length, UintMember(strategy, "Fixed"));
    out.fixed = true;
  } else if (!strategy.is_string() || strategy.string() != "BatchLongest") {
    return Fail(ErrorAt(ErrorCode::kTokUnknownType, strategy, "a padding strategy is BatchLongest or Fixed"));
  }
  SLM_ASSIGN(out.direction, LoadDirection(object, std::nullopt));
  if (OptionalMember(object, "pad_to_multiple_of")) {
    SLM_ASSIGN(out.multiple_of, UintMember(object, "pad_to_multiple_of"));
  }
  if (out.length > kMaxPadding || out.multiple_of > kMaxPadding) {
    return Fail(ErrorAt(ErrorCode::kTokLimit, object, "padding to more than 16777216 tokens"));
  }
  SLM_ASSIGN(const json::Value id, Member(object, "pad_id"));
  SLM_ASSIGN(out.id, TokenId(id));
  SLM_ASSIGN(const uint64_t type_id, UintMember(object, "pad_type_id"));
  if (type_id > 0xFFFFFFFF) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, *object.Find("pad_type_id"), "a type id beyond 32 bits"));
  }
  out.type_id = static_cast<uint32_t>(type_id);
  SLM_ASSIGN(out.token, StringMember(object, "pad_token"));
  return out;
}

Result<AddedToken> LoadAddedToken(json::Value item, uint32_t* file_id) {
  SLM_TRY(RequireObject(item));
  SLM_TRY(
      RequireKnownKeys(item, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken out;
  SLM_ASSIGN(const json::Value id, Member(item, "id"));
  SLM_ASSIGN(*file_id, TokenId(id));
  SLM_ASSIGN(out.content, StringMember(item, "content"));
  SLM_ASSIGN(out.single_word, BoolMember(item, "single_word"));
  SLM_ASSIGN(out.lstrip, BoolMember(item, "lstrip"));
  SLM_ASSIGN(out.rstrip, BoolMember(item, "rstrip"));
  SLM_ASSIGN(out.normalized, BoolMember(item, "normalized"));
  SLM_ASSIGN(out.special, BoolMember(item, "special"));
  return out;
}

// The reference ignores the file's ids: a text that the model has keeps its id, others get the next
// free one. Where the file says otherwise, it is refused unless `lenient`.
Status LoadAddedTokens(json::Value list, const LoadOptions& options, Compiled* out) {
  if (!list.is_array()) return Fail(ErrorAt(ErrorCode::kTokSchema, list, "added_tokens must be an array"));
  const Vocabulary& vocabulary = out->model->vocabulary();
  auto next_id = static_cast<uint32_t>(vocabulary.size());
  for (const json::Value item : list.children()) {
    uint32_t file_id = 0;
    SLM_ASSIGN(AddedToken token, LoadAddedToken(item, &file_id));
    if (token.content.empty()) continue;  // the reference leaves it out
    const AddedToken* earlier = out->added.FindContent(token.content);
    const auto known = vocabulary.Find(token.content);
    if (earlier != nullptr && !options.Takes(ErrorCode::kTokAddedDup)) {
      return Fail(ErrorAt(ErrorCode::kTokAddedDup, item,
                          ShortPath(item) + ": '" + std::string(token.content) + "' stands twice"));
    }
    token.id = earlier != nullptr ? earlier->id : known ? *known : next_id++;
    if (token.id != file_id && !options.Takes(ErrorCode::kTokAddedId)) {
      return Fail(ErrorAt(ErrorCode::kTokAddedId, *item.Find("id"),
                          ShortPath(item) + ": '" + std::string(token.content) + "' has id " +
                              std::to_string(file_id) + " here, and " + std::to_string(token.id) +
                              " as the library numbers it"));
    }
    auto added = out->added.Add(std::move(token), out->normalizer.get());
    if (!added) return Fail(std::move(added).error().At(item.byte_offset()).Field(ShortPath(item)));
  }
  auto built = out->added.Build();
  if (!built) return Fail(std::move(built).error().At(list.byte_offset()));
  return {};
}

// Every id from 0 to the highest of the model's own tokens must name a token (TOK-ID-GAP). Added tokens may
// stand higher with free ids between, as in the published files of cl100k and o200k.
Status CheckGaps(json::Value model, const Compiled& compiled) {
  const Vocabulary& vocabulary = compiled.model->vocabulary();
  std::vector<bool> taken(size_t{vocabulary.max_id()} + 1 + compiled.added.tokens().size() + 1, false);
  uint32_t highest = 0;
  const auto take = [&taken](uint32_t id) {
    if (id >= taken.size()) taken.resize(size_t{id} + 1, false);
    taken[id] = true;
  };
  for (const Vocabulary::Entry& entry : vocabulary.entries()) {
    take(entry.id);
    if (compiled.added.FindId(entry.id) == nullptr) highest = std::max(highest, entry.id);
  }
  for (const AddedToken& token : compiled.added.tokens()) take(token.id);
  if (taken.empty()) return {};
  const auto end = taken.begin() + static_cast<ptrdiff_t>(highest);
  const auto gap = std::find(taken.begin(), end, false);
  if (gap == end) return {};
  const auto missing = static_cast<uint32_t>(gap - taken.begin());
  // The place that a person can look at: the lowest id above the gap.
  uint64_t offset = model.byte_offset();
  uint32_t above = kMaxTokenId;
  for (const json::Value item : model.Find("vocab")->children()) {
    if (!item.is_number()) continue;  // Unigram has no gaps: its ids are places
    const auto id = static_cast<uint32_t>(*item.AsUint());
    if (id <= missing || id > above) continue;
    above = id;
    offset = item.byte_offset();
  }
  return Fail(MakeError(ErrorCode::kTokIdGap, "no token has the id " + std::to_string(missing) +
                                                  ", though ids go up to " + std::to_string(highest))
                  .At(offset)
                  .Field("$.model.vocab"));
}

// Ids that the file puts in without their being tokens.
Status CheckPutIn(json::Value root, const Compiled& compiled) {
  const auto known = [&compiled](uint32_t id) {
    return compiled.added.FindId(id) != nullptr || compiled.model->vocabulary().TextOf(id).has_value();
  };
  if (compiled.post_processor != nullptr) {
    for (const bool before : {true, false}) {
      for (const uint32_t id : compiled.post_processor->added_ids(before)) {
        if (known(id)) continue;
        return Fail(
            ErrorAt(ErrorCode::kTokId, *root.Find("post_processor"),
                    "the post-processor puts in id " + std::to_string(id) + ", which names no token"));
      }
    }
  }
  if (compiled.padding && !known(compiled.padding->id)) {
    return Fail(
        ErrorAt(ErrorCode::kTokId, *root.Find("padding")->Find("pad_id"),
                "padding with id " + std::to_string(compiled.padding->id) + ", which names no token"));
  }
  return {};
}

// What the post-processor adds must leave room, or the reference's arithmetic wraps or panics.
Status CheckRoom(json::Value root, const Compiled& compiled) {
  if (!compiled.truncation || compiled.post_processor == nullptr) return {};
  const uint64_t n_added = compiled.post_processor->n_added(false);
  const uint64_t max_length = compiled.truncation->max_length;
  if (n_added == 0) return {};
  const bool fits = max_length >= n_added;
  if (fits && (max_length == n_added || compiled.truncation->stride < max_length - n_added)) return {};
  const json::Value truncation = *root.Find("truncation");
  return Fail(ErrorAt(ErrorCode::kTokSchema, *truncation.Find(fits ? "stride" : "max_length"),
                      "truncation leaves no room beside the " + std::to_string(n_added) +
                          " tokens that the post-processor adds"));
}

// Absent or null: nothing.
Status LoadParts(json::Value root, const LoadOptions& options, json::Writer* profile, Compiled* out) {
  const auto describe_none = [profile](std::string_view key) { profile->Key(key).Null(); };
  if (const auto value = OptionalMember(root, "normalizer")) {
    profile->Key("normalizer");
    SLM_ASSIGN(out->normalizer, LoadNormalizer(*value, profile, &out->is_byte_level));
  } else {
    describe_none("normalizer");
  }
  if (const auto value = OptionalMember(root, "pre_tokenizer")) {
    profile->Key("pre_tokenizer");
    SLM_ASSIGN(out->pre_tokenizer, LoadPreTokenizer(*value, profile, &out->is_byte_level));
  } else {
    describe_none("pre_tokenizer");
  }
  if (const auto value = OptionalMember(root, "post_processor")) {
    profile->Key("post_processor");
    SLM_ASSIGN(out->post_processor, LoadPostProcessor(*value, profile));
  } else {
    describe_none("post_processor");
  }
  if (const auto value = OptionalMember(root, "decoder")) {
    profile->Key("decoder");
    SLM_ASSIGN(out->decoder, LoadDecoder(*value, profile));
  } else {
    describe_none("decoder");
  }
  SLM_ASSIGN(const json::Value model, Member(root, "model"));
  profile->Key("model");
  SLM_ASSIGN(out->model, LoadModel(model, profile, options));
  return {};
}

}  // namespace

bool CanEncodeBytes(const Compiled& compiled) {
  if (!compiled.is_byte_level) return compiled.model->has_byte_tokens();
  const Vocabulary& vocabulary = compiled.model->vocabulary();
  return std::all_of(ByteAlphabet().begin(), ByteAlphabet().end(), [&vocabulary](char32_t scalar) {
    std::string text;
    AppendScalar(&text, scalar);
    return vocabulary.Find(text).has_value();
  });
}

Result<Compiled> Compile(std::string json_text, const LoadOptions& options) {
  if (json_text.size() > kMaxFileBytes)
    return Fail(ErrorCode::kTokLimit, "a tokenizer file larger than 256 MiB");
  SLM_ASSIGN(const json::Document document, json::Parse(std::move(json_text)));
  const json::Value root = document.root();
  SLM_TRY(RequireObject(root));
  SLM_TRY(RequireKnownKeys(root, {"version", "truncation", "padding", "added_tokens", "normalizer",
                                  "pre_tokenizer", "post_processor", "decoder", "model"}));
  if (const auto version = root.Find("version")) {
    if (!version->is_string() || version->string() != "1.0") {
      return Fail(ErrorAt(ErrorCode::kTokSchema, *version, "version must be \"1.0\""));
    }
  }
  Compiled out;
  json::Writer profile;
  profile.BeginObject().Key("reference").String(kReferenceVersion).Key("locale").String("none");
  if (const auto value = OptionalMember(root, "truncation")) {
    SLM_ASSIGN(out.truncation, LoadTruncation(*value));
  }
  if (const auto value = OptionalMember(root, "padding")) {
    SLM_ASSIGN(out.padding, LoadPadding(*value));
  }
  profile.Key("truncation").Raw(root.Find("truncation") ? root.Find("truncation")->source_text() : "null");
  profile.Key("padding").Raw(root.Find("padding") ? root.Find("padding")->source_text() : "null");
  SLM_TRY(LoadParts(root, options, &profile, &out));
  if (const auto list = OptionalMember(root, "added_tokens")) {
    SLM_TRY(LoadAddedTokens(*list, options, &out));
  }
  if (!options.Takes(ErrorCode::kTokIdGap)) SLM_TRY(CheckGaps(*root.Find("model"), out));
  if (!options.lenient) SLM_TRY(CheckPutIn(root, out));
  SLM_TRY(CheckRoom(root, out));
  profile.Key("added_tokens").Uint(out.added.tokens().size());
  profile.Key("added_token_passes")
      .String("not normalized in the input, then normalized after the normalizer");
  profile.Key("added_token_matching")
      .String("leftmost, longest")
      .Key("unicode_word_and_space")
      .String("16.0");
  profile.Key("encode_bytes").Bool(CanEncodeBytes(out));
  profile.Key("clean_up_tokenization_spaces").String("no part of tokenizer.json; refused where it would act");
  profile.EndObject();
  out.profile_json = profile.Take();
  out.fast_form = FindFastForm(root);
  return out;
}

}  // namespace slm::tokenizer
