// From JSON to normalizers, pre-tokenizers, post-processors and decoders.
#include <algorithm>
#include <utility>

#include "tokenizer/compiled.h"
#include "tokenizer/schema.h"

namespace slm::tokenizer {
namespace {

// Nesting of Sequence in itself is bounded by the JSON depth limit.
template <typename Part, typename Load>
Result<std::vector<std::unique_ptr<Part>>> LoadParts(json::Value object, std::string_view key,
                                                     json::Writer* profile, Load load) {
  SLM_TRY(RequireKnownKeys(object, {"type", key}));
  SLM_ASSIGN(const json::Value list, ArrayMember(object, key));
  profile->Key(key).BeginArray();
  std::vector<std::unique_ptr<Part>> parts;
  for (const json::Value item : list.children()) {
    SLM_ASSIGN(std::unique_ptr<Part> part, load(item));
    parts.push_back(std::move(part));
  }
  profile->EndArray();
  return parts;
}

// {"String": s} as it is, {"Regex": r} compiled.
Result<Pattern> LoadPattern(json::Value object, json::Writer* profile) {
  SLM_ASSIGN(const json::Value pattern, Member(object, "pattern"));
  SLM_TRY(RequireObject(pattern));
  SLM_TRY(RequireKnownKeys(pattern, {"String", "Regex"}));
  if (pattern.size() != 1) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, pattern, "a pattern is either String or Regex"));
  }
  if (!pattern.Find("Regex")) {
    SLM_ASSIGN(std::string text, StringMember(pattern, "String"));
    profile->Key("pattern").String(text);
    return Pattern(std::move(text));
  }
  SLM_ASSIGN(const std::string source, StringMember(pattern, "Regex"));
  const auto regex = Regex::Compile(source);
  if (!regex) {
    return Fail(ErrorAt(regex.error().code, *pattern.Find("Regex"),
                        regex.error().message + " (byte " +
                            std::to_string(regex.error().byte_offset.value_or(0)) + " of the pattern)"));
  }
  profile->Key("regex").String(source).Key("syntax").String("oniguruma 6.9").Key("unicode").String("16.0");
  return Pattern(*regex);
}

struct ReplaceMembers {
  Pattern pattern;
  std::string content;
};

Result<ReplaceMembers> LoadReplace(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "pattern", "content"}));
  SLM_ASSIGN(Pattern pattern, LoadPattern(object, profile));
  SLM_ASSIGN(std::string content, StringMember(object, "content"));
  profile->Key("content").String(content);
  return ReplaceMembers{std::move(pattern), std::move(content)};
}

Result<SplitBehavior> BehaviorOf(json::Value object, json::Writer* profile) {
  SLM_ASSIGN(const std::string name, StringMember(object, "behavior"));
  constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    return Fail(ErrorAt(ErrorCode::kTokUnknownType, *object.Find("behavior"), "an unknown behavior"));
  }
  profile->Key("behavior").String(name);
  return static_cast<SplitBehavior>(found - std::begin(kNames));
}

Result<std::unique_ptr<Normalizer>> LoadBertNormalizer(json::Value object, json::Writer* profile) {
  SLM_TRY(
      RequireKnownKeys(object, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  BertNormalizer::Options options{};
  SLM_ASSIGN(options.clean_text, BoolMember(object, "clean_text"));
  SLM_ASSIGN(options.handle_chinese_chars, BoolMember(object, "handle_chinese_chars"));
  SLM_ASSIGN(options.lowercase, BoolMember(object, "lowercase"));
  SLM_ASSIGN(options.strip_accents, OptionalBool(object, "strip_accents", options.lowercase));
  profile->Key("clean_text").Bool(options.clean_text);
  profile->Key("handle_chinese_chars").Bool(options.handle_chinese_chars);
  profile->Key("strip_accents").Bool(options.strip_accents).Key("lowercase").Bool(options.lowercase);
  profile->Key("unicode").String("categories 8.0, decomposition 9.0, lower case 17.0");
  return std::unique_ptr<Normalizer>(std::make_unique<BertNormalizer>(options));
}

// base64 of a trie's size, the trie and its strings.
Result<std::unique_ptr<Normalizer>> LoadPrecompiled(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "precompiled_charsmap"}));
  SLM_ASSIGN(const json::Value map, Member(object, "precompiled_charsmap"));
  Bytes bytes;
  if (!map.is_string() || !FromBase64(map.string(), &bytes)) {
    return Fail(ErrorAt(ErrorCode::kTokCharsmap, map, "precompiled_charsmap is not base64"));
  }
  auto made = PrecompiledNormalizer::Make(bytes);
  if (!made) return Fail(std::move(made).error().At(map.byte_offset()).Field(ShortPath(map)));
  profile->Key("charsmap_bytes")
      .Uint(bytes.size())
      .Key("lookup")
      .String("grapheme clusters of Unicode 17.0, shortest entry");
  return std::unique_ptr<Normalizer>(*std::move(made));
}

// A component of an old file, told by the members that it has.
struct LegacyForm {
  std::string_view type;
  std::initializer_list<std::string_view> members;
};

struct MetaspaceMembers {
  char32_t replacement = 0;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

Result<PrependScheme> SchemeOf(json::Value object) {
  if (!object.Find("prepend_scheme")) return PrependScheme::kAlways;
  SLM_ASSIGN(const std::string name, StringMember(object, "prepend_scheme"));
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  if (name == "always") return PrependScheme::kAlways;
  return Fail(ErrorAt(ErrorCode::kTokUnknownType, *object.Find("prepend_scheme"),
                      "unknown prepend_scheme: first, never and always are known"));
}

Result<MetaspaceMembers> LoadMetaspace(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(
      object, {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
  MetaspaceMembers out;
  SLM_ASSIGN(out.replacement, ScalarMember(object, "replacement"));
  SLM_ASSIGN(out.scheme, SchemeOf(object));
  SLM_ASSIGN(const bool add_prefix_space, OptionalBool(object, "add_prefix_space", true));
  SLM_ASSIGN(out.split, OptionalBool(object, "split", true));
  SLM_ASSIGN(const std::optional<std::string> legacy, OptionalString(object, "str_rep"));
  static_cast<void>(legacy);  // older files repeat the replacement here; the reference does not read it
  if (!add_prefix_space && out.scheme != PrependScheme::kNever) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, *object.Find("add_prefix_space"),
                        "add_prefix_space false contradicts prepend_scheme"));
  }
  std::string replacement;
  AppendScalar(&replacement, out.replacement);
  constexpr std::string_view kNames[] = {"first", "never", "always"};
  profile->Key("replacement").String(replacement);
  profile->Key("prepend_scheme").String(kNames[static_cast<size_t>(out.scheme)]).Key("split").Bool(out.split);
  return out;
}

struct ByteLevelMembers {
  bool add_prefix_space = true;
  bool trim_offsets = true;
  bool use_regex = true;
};

Result<ByteLevelMembers> LoadByteLevel(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  ByteLevelMembers out;
  SLM_ASSIGN(out.add_prefix_space, BoolMember(object, "add_prefix_space"));
  SLM_ASSIGN(out.trim_offsets, BoolMember(object, "trim_offsets"));
  if (object.Find("use_regex")) {
    SLM_ASSIGN(out.use_regex, BoolMember(object, "use_regex"));
  }
  profile->Key("add_prefix_space").Bool(out.add_prefix_space);
  profile->Key("trim_offsets").Bool(out.trim_offsets).Key("use_regex").Bool(out.use_regex);
  return out;
}

using Elements = std::vector<TemplatePostProcessor::Element>;

Result<TemplatePostProcessor::Element> LoadElement(json::Value item, const std::vector<std::string>& names,
                                                   bool is_pair) {
  SLM_TRY(RequireObject(item));
  SLM_TRY(RequireKnownKeys(item, {"Sequence", "SpecialToken"}));
  if (item.size() != 1) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, item, "a template piece is either Sequence or SpecialToken"));
  }
  const json::Value body = *item.First();
  SLM_TRY(RequireObject(body));
  SLM_TRY(RequireKnownKeys(body, {"id", "type_id"}));
  SLM_ASSIGN(const std::string id, StringMember(body, "id"));
  SLM_ASSIGN(const uint64_t type_id, UintMember(body, "type_id"));
  if (type_id > 0xFFFFFFFF) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, *body.Find("type_id"), "a type id beyond 32 bits"));
  }
  TemplatePostProcessor::Element element = {.type_id = static_cast<uint32_t>(type_id)};
  if (body.key() == "Sequence") {
    if (id != "A" && id != "B") {
      return Fail(ErrorAt(ErrorCode::kTokSchema, *body.Find("id"), "a sequence is A or B"));
    }
    if (id == "B" && !is_pair) {
      return Fail(ErrorAt(ErrorCode::kTokSchema, *body.Find("id"), "the template for one sequence names B"));
    }
    element.sequence = id == "A" ? 0 : 1;
    return element;
  }
  const auto found = std::find(names.begin(), names.end(), id);
  if (found == names.end()) {
    return Fail(ErrorAt(ErrorCode::kTplToken, *body.Find("id"),
                        "the template names '" + id + "', which special_tokens does not define"));
  }
  element.special = static_cast<size_t>(found - names.begin());
  return element;
}

Result<Elements> LoadElements(json::Value object, std::string_view key,
                              const std::vector<std::string>& names) {
  SLM_ASSIGN(const json::Value list, ArrayMember(object, key));
  Elements out;
  for (const json::Value item : list.children()) {
    SLM_ASSIGN(const auto element, LoadElement(item, names, key == "pair"));
    out.push_back(element);
  }
  return out;
}

Result<TemplatePostProcessor::Special> LoadSpecial(json::Value value) {
  SLM_TRY(RequireObject(value));
  SLM_TRY(RequireKnownKeys(value, {"id", "ids", "tokens"}));
  SLM_ASSIGN(const std::string id, StringMember(value, "id"));
  static_cast<void>(id);  // the reference looks tokens up by the map's key
  SLM_ASSIGN(const json::Value ids, ArrayMember(value, "ids"));
  SLM_ASSIGN(const json::Value tokens, ArrayMember(value, "tokens"));
  if (ids.size() != tokens.size()) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, value, "ids and tokens differ in number"));
  }
  TemplatePostProcessor::Special out;
  for (const json::Value item : ids.children()) {
    SLM_ASSIGN(const uint32_t token_id, TokenId(item));
    out.ids.push_back(token_id);
  }
  for (const json::Value item : tokens.children()) {
    if (!item.is_string()) return Fail(ErrorAt(ErrorCode::kTokSchema, item, "a token must be a string"));
    out.tokens.emplace_back(item.string());
  }
  return out;
}

Result<std::unique_ptr<PostProcessor>> LoadTemplate(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "single", "pair", "special_tokens"}));
  SLM_ASSIGN(const json::Value map, Member(object, "special_tokens"));
  SLM_TRY(RequireObject(map));
  std::vector<std::string> names;
  std::vector<TemplatePostProcessor::Special> specials;
  for (const json::Value item : map.children()) {
    SLM_ASSIGN(auto special, LoadSpecial(item));
    names.emplace_back(item.key());
    specials.push_back(std::move(special));
  }
  SLM_ASSIGN(Elements single, LoadElements(object, "single", names));
  SLM_ASSIGN(Elements pair, LoadElements(object, "pair", names));
  const auto describe = [&](std::string_view key, const Elements& elements) {
    profile->Key(key).BeginArray();
    for (const auto& element : elements) {
      profile->String(element.sequence >= 0 ? (element.sequence == 0 ? "$A" : "$B") : names[element.special]);
    }
    profile->EndArray();
  };
  describe("single", single);
  describe("pair", pair);
  return std::unique_ptr<PostProcessor>(
      std::make_unique<TemplatePostProcessor>(std::move(single), std::move(pair), std::move(specials)));
}

void BeginComponent(json::Writer* profile, std::string_view type) {
  profile->BeginObject().Key("type").String(type);
}

Result<std::unique_ptr<PostProcessor>> LoadPair(json::Value object, bool is_roberta, json::Writer* profile) {
  if (is_roberta) {
    SLM_TRY(RequireKnownKeys(object, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}));
  } else {
    SLM_TRY(RequireKnownKeys(object, {"type", "sep", "cls"}));
  }
  const auto load = [&object](std::string_view key) -> Result<PairPostProcessor::Token> {
    SLM_ASSIGN(const json::Value pair, ArrayMember(object, key));
    if (pair.size() != 2 || !pair.First()->is_string()) {
      return Fail(ErrorAt(ErrorCode::kTokSchema, pair, ShortPath(pair) + " must be a token and its id"));
    }
    SLM_ASSIGN(const uint32_t id, TokenId(*pair.First()->Next()));
    return PairPostProcessor::Token{std::string(pair.First()->string()), id};
  };
  SLM_ASSIGN(PairPostProcessor::Token sep, load("sep"));
  SLM_ASSIGN(PairPostProcessor::Token cls, load("cls"));
  profile->Key("cls").Uint(cls.id).Key("sep").Uint(sep.id);
  std::unique_ptr<ByteLevelPostProcessor> trim;
  if (is_roberta) {
    SLM_ASSIGN(const bool trim_offsets, BoolMember(object, "trim_offsets"));
    SLM_ASSIGN(const bool add_prefix_space, BoolMember(object, "add_prefix_space"));
    profile->Key("trim_offsets").Bool(trim_offsets).Key("add_prefix_space").Bool(add_prefix_space);
    if (trim_offsets) trim = std::make_unique<ByteLevelPostProcessor>(add_prefix_space, true);
  }
  return std::unique_ptr<PostProcessor>(
      std::make_unique<PairPostProcessor>(std::move(cls), std::move(sep), is_roberta, std::move(trim)));
}

Result<std::unique_ptr<Normalizer>> MakeNormalizer(json::Value value, std::string_view name,
                                                   json::Writer* profile, bool* is_byte_level) {
  using Pointer = std::unique_ptr<Normalizer>;
  if (name == "Sequence") {
    const auto load = [profile, is_byte_level](json::Value item) {
      return LoadNormalizer(item, profile, is_byte_level);
    };
    SLM_ASSIGN(auto parts, LoadParts<Normalizer>(value, "normalizers", profile, load));
    return Pointer(std::make_unique<SequenceNormalizer>(std::move(parts)));
  }
  if (name == "Prepend") {
    SLM_TRY(RequireKnownKeys(value, {"type", "prepend"}));
    SLM_ASSIGN(std::string prefix, StringMember(value, "prepend"));
    profile->Key("prepend").String(prefix);
    return Pointer(std::make_unique<PrependNormalizer>(std::move(prefix)));
  }
  if (name == "Replace") {
    SLM_ASSIGN(ReplaceMembers members, LoadReplace(value, profile));
    return Pointer(
        std::make_unique<ReplaceNormalizer>(std::move(members.pattern), std::move(members.content)));
  }
  if (name == "BertNormalizer") return LoadBertNormalizer(value, profile);
  if (name == "Precompiled") return LoadPrecompiled(value, profile);
  if (name == "Strip") {
    SLM_TRY(RequireKnownKeys(value, {"type", "strip_left", "strip_right"}));
    SLM_ASSIGN(const bool left, BoolMember(value, "strip_left"));
    SLM_ASSIGN(const bool right, BoolMember(value, "strip_right"));
    profile->Key("strip_left").Bool(left).Key("strip_right").Bool(right);
    return Pointer(std::make_unique<StripNormalizer>(left, right));
  }
  SLM_TRY(RequireKnownKeys(value, {"type"}));
  if (name == "NFC" || name == "NFD" || name == "NFKC" || name == "NFKD") {
    profile->Key("unicode").String("9.0");
    return Pointer(std::make_unique<UnicodeNormalizer>(name.starts_with("NFK"), name.ends_with("C")));
  }
  if (name == "StripAccents") {
    profile->Key("unicode").String("9.0");
    return Pointer(std::make_unique<StripAccentsNormalizer>());
  }
  if (name == "Lowercase") {
    profile->Key("unicode").String("17.0");
    return Pointer(std::make_unique<LowercaseNormalizer>());
  }
  if (name == "Nmt") return Pointer(std::make_unique<NmtNormalizer>());
  *is_byte_level = true;
  return Pointer(std::make_unique<ByteLevelNormalizer>());
}

Result<std::unique_ptr<PreTokenizer>> MakePreTokenizer(json::Value value, std::string_view name,
                                                       json::Writer* profile, bool* is_byte_level) {
  using Pointer = std::unique_ptr<PreTokenizer>;
  if (name == "Sequence") {
    const auto load = [profile, is_byte_level](json::Value item) {
      return LoadPreTokenizer(item, profile, is_byte_level);
    };
    SLM_ASSIGN(auto parts, LoadParts<PreTokenizer>(value, "pretokenizers", profile, load));
    return Pointer(std::make_unique<SequencePreTokenizer>(std::move(parts)));
  }
  if (name == "ByteLevel") {
    SLM_ASSIGN(const ByteLevelMembers members, LoadByteLevel(value, profile));
    profile->Key("pattern").String("gpt2, hand-written").Key("unicode").String("16.0");
    *is_byte_level = true;
    return Pointer(std::make_unique<ByteLevelPreTokenizer>(members.add_prefix_space, members.use_regex));
  }
  if (name == "Digits") {
    SLM_TRY(RequireKnownKeys(value, {"type", "individual_digits"}));
    SLM_ASSIGN(const bool individual, BoolMember(value, "individual_digits"));
    profile->Key("individual_digits").Bool(individual).Key("unicode").String("17.0");
    return Pointer(std::make_unique<DigitsPreTokenizer>(individual));
  }
  if (name == "Metaspace") {
    SLM_ASSIGN(const MetaspaceMembers members, LoadMetaspace(value, profile));
    return Pointer(
        std::make_unique<MetaspacePreTokenizer>(members.replacement, members.scheme, members.split));
  }
  if (name == "Split") {
    SLM_TRY(RequireKnownKeys(value, {"type", "pattern", "behavior", "invert"}));
    SLM_ASSIGN(Pattern pattern, LoadPattern(value, profile));
    SLM_ASSIGN(const SplitBehavior behavior, BehaviorOf(value, profile));
    SLM_ASSIGN(const bool invert, BoolMember(value, "invert"));
    profile->Key("invert").Bool(invert);
    return Pointer(std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert));
  }
  if (name == "Punctuation") {
    SLM_TRY(RequireKnownKeys(value, {"type", "behavior"}));
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (value.Find("behavior")) {
      SLM_ASSIGN(behavior, BehaviorOf(value, profile));
    }
    profile->Key("unicode").String("8.0");
    return Pointer(std::make_unique<PunctuationPreTokenizer>(behavior));
  }
  if (name == "CharDelimiterSplit") {
    SLM_TRY(RequireKnownKeys(value, {"type", "delimiter"}));
    SLM_ASSIGN(const char32_t delimiter, ScalarMember(value, "delimiter"));
    profile->Key("delimiter").Uint(delimiter);
    return Pointer(std::make_unique<DelimiterPreTokenizer>(delimiter));
  }
  if (name == "FixedLength") {
    SLM_TRY(RequireKnownKeys(value, {"type", "length"}));
    uint64_t length = 5;
    if (value.Find("length")) {
      SLM_ASSIGN(length, UintMember(value, "length"));
    }
    if (length == 0)
      return Fail(ErrorAt(ErrorCode::kTokSchema, *value.Find("length"), "length must be above 0"));
    profile->Key("length").Uint(length);
    return Pointer(std::make_unique<FixedLengthPreTokenizer>(length));
  }
  SLM_TRY(RequireKnownKeys(value, {"type"}));
  if (name == "BertPreTokenizer") {
    profile->Key("unicode").String("8.0");
    return Pointer(std::make_unique<BertPreTokenizer>());
  }
  if (name == "UnicodeScripts") {
    profile->Key("unicode").String("9.0");
    return Pointer(std::make_unique<UnicodeScriptsPreTokenizer>());
  }
  if (name == "Whitespace") {
    profile->Key("unicode").String("16.0");
    return Pointer(std::make_unique<WhitespacePreTokenizer>());
  }
  return Pointer(std::make_unique<WhitespaceSplitPreTokenizer>());
}

Result<std::unique_ptr<Decoder>> MakeDecoder(json::Value value, std::string_view name,
                                             json::Writer* profile) {
  using Pointer = std::unique_ptr<Decoder>;
  if (name == "Sequence") {
    const auto load = [profile](json::Value item) { return LoadDecoder(item, profile); };
    SLM_ASSIGN(auto parts, LoadParts<Decoder>(value, "decoders", profile, load));
    return Pointer(std::make_unique<SequenceDecoder>(std::move(parts)));
  }
  if (name == "ByteLevel") {
    SLM_ASSIGN(const ByteLevelMembers members, LoadByteLevel(value, profile));
    static_cast<void>(members);  // required, and without effect on decoding
    return Pointer(std::make_unique<ByteLevelDecoder>());
  }
  if (name == "Metaspace") {
    SLM_ASSIGN(const MetaspaceMembers members, LoadMetaspace(value, profile));
    return Pointer(std::make_unique<MetaspaceDecoder>(members.replacement, members.scheme));
  }
  if (name == "Replace") {
    SLM_ASSIGN(ReplaceMembers members, LoadReplace(value, profile));
    return Pointer(std::make_unique<ReplaceDecoder>(std::move(members.pattern), std::move(members.content)));
  }
  if (name == "Strip") {
    SLM_TRY(RequireKnownKeys(value, {"type", "content", "start", "stop"}));
    SLM_ASSIGN(const char32_t content, ScalarMember(value, "content"));
    SLM_ASSIGN(const uint64_t start, UintMember(value, "start"));
    SLM_ASSIGN(const uint64_t stop, UintMember(value, "stop"));
    profile->Key("start").Uint(start).Key("stop").Uint(stop);
    return Pointer(std::make_unique<StripDecoder>(content, start, stop));
  }
  if (name == "BPEDecoder") {
    SLM_TRY(RequireKnownKeys(value, {"type", "suffix"}));
    SLM_ASSIGN(std::string suffix, StringMember(value, "suffix"));
    profile->Key("suffix").String(suffix);
    return Pointer(std::make_unique<BpeDecoder>(std::move(suffix)));
  }
  if (name == "WordPiece") {
    SLM_TRY(RequireKnownKeys(value, {"type", "prefix", "cleanup"}));
    SLM_ASSIGN(std::string prefix, StringMember(value, "prefix"));
    SLM_ASSIGN(const bool cleanup, BoolMember(value, "cleanup"));
    profile->Key("prefix").String(prefix).Key("cleanup").Bool(cleanup);
    return Pointer(std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup));
  }
  if (name == "CTC") {
    SLM_TRY(RequireKnownKeys(value, {"type", "pad_token", "word_delimiter_token", "cleanup"}));
    SLM_ASSIGN(std::string pad, StringMember(value, "pad_token"));
    SLM_ASSIGN(std::string delimiter, StringMember(value, "word_delimiter_token"));
    SLM_ASSIGN(const bool cleanup, BoolMember(value, "cleanup"));
    profile->Key("pad_token")
        .String(pad)
        .Key("word_delimiter_token")
        .String(delimiter)
        .Key("cleanup")
        .Bool(cleanup);
    return Pointer(std::make_unique<CtcDecoder>(std::move(pad), std::move(delimiter), cleanup));
  }
  SLM_TRY(RequireKnownKeys(value, {"type"}));
  if (name == "Fuse") return Pointer(std::make_unique<FuseDecoder>());
  return Pointer(std::make_unique<ByteFallbackDecoder>());
}

Result<std::unique_ptr<PostProcessor>> MakePostProcessor(json::Value value, std::string_view name,
                                                         json::Writer* profile) {
  using Pointer = std::unique_ptr<PostProcessor>;
  if (name == "Sequence") {
    const auto load = [profile](json::Value item) { return LoadPostProcessor(item, profile); };
    SLM_ASSIGN(auto parts, LoadParts<PostProcessor>(value, "processors", profile, load));
    return Pointer(std::make_unique<SequencePostProcessor>(std::move(parts)));
  }
  if (name == "ByteLevel") {
    SLM_ASSIGN(const ByteLevelMembers members, LoadByteLevel(value, profile));
    return Pointer(std::make_unique<ByteLevelPostProcessor>(members.add_prefix_space, members.trim_offsets));
  }
  if (name == "BertProcessing" || name == "RobertaProcessing") {
    return LoadPair(value, name == "RobertaProcessing", profile);
  }
  return LoadTemplate(value, profile);
}

// The type of a component, named or, in files of the old form, told by its members. TOK-SCHEMA for an
// object that is neither, TOK-UNKNOWN-TYPE for a name that is not in `known`.
Result<std::string> TypeName(json::Value value, std::string_view family,
                             std::initializer_list<std::string_view> known,
                             std::initializer_list<LegacyForm> legacy) {
  SLM_TRY(RequireObject(value));
  const auto type = value.Find("type");
  if (type) {
    if (!type->is_string())
      return Fail(ErrorAt(ErrorCode::kTokSchema, *type, ShortPath(*type) + " must be a string"));
    if (std::find(known.begin(), known.end(), type->string()) == known.end()) {
      return Fail(ErrorAt(
          ErrorCode::kTokUnknownType, *type,
          ShortPath(*type) + ": unknown " + std::string(family) + " '" + std::string(type->string()) + "'"));
    }
    return std::string(type->string());
  }
  for (const LegacyForm& form : legacy) {
    const bool fits = std::all_of(form.members.begin(), form.members.end(),
                                  [&value](std::string_view key) { return value.Find(key).has_value(); });
    if (fits) return std::string(form.type);
  }
  return Fail(ErrorAt(ErrorCode::kTokSchema, value,
                      ShortPath(value) + ": a " + std::string(family) + " without \"type\""));
}

}  // namespace

Result<std::unique_ptr<Normalizer>> LoadNormalizer(json::Value value, json::Writer* profile,
                                                   bool* is_byte_level) {
  SLM_ASSIGN(std::string name,
             TypeName(value, "normalizer",
                      {"Sequence", "Prepend", "Replace", "Bert", "BertNormalizer", "Precompiled", "Strip",
                       "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Nmt", "ByteLevel"},
                      {{"BertNormalizer", {"clean_text", "handle_chinese_chars", "lowercase"}},
                       {"Strip", {"strip_left", "strip_right"}},
                       {"Sequence", {"normalizers"}},
                       {"Replace", {"pattern", "content"}},
                       {"Prepend", {"prepend"}}}));
  if (name == "Bert") name = "BertNormalizer";
  BeginComponent(profile, name);
  auto made = MakeNormalizer(value, name, profile, is_byte_level);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<PreTokenizer>> LoadPreTokenizer(json::Value value, json::Writer* profile,
                                                       bool* is_byte_level) {
  SLM_ASSIGN(
      const std::string name,
      TypeName(value, "pre-tokenizer",
               {"Sequence", "ByteLevel", "Digits", "Metaspace", "Split", "Punctuation", "CharDelimiterSplit",
                "FixedLength", "BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"},
               {}));
  BeginComponent(profile, name);
  auto made = MakePreTokenizer(value, name, profile, is_byte_level);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<PostProcessor>> LoadPostProcessor(json::Value value, json::Writer* profile) {
  SLM_ASSIGN(const std::string name,
             TypeName(value, "post-processor",
                      {"Sequence", "ByteLevel", "BertProcessing", "RobertaProcessing", "TemplateProcessing"},
                      {{"RobertaProcessing", {"sep", "cls", "trim_offsets", "add_prefix_space"}},
                       {"BertProcessing", {"sep", "cls"}},
                       {"TemplateProcessing", {"single", "pair", "special_tokens"}}}));
  BeginComponent(profile, name);
  auto made = MakePostProcessor(value, name, profile);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<Decoder>> LoadDecoder(json::Value value, json::Writer* profile) {
  SLM_ASSIGN(const std::string name, TypeName(value, "decoder",
                                              {"Sequence", "ByteLevel", "Metaspace", "Replace", "Strip",
                                               "BPEDecoder", "WordPiece", "CTC", "Fuse", "ByteFallback"},
                                              {{"BPEDecoder", {"suffix"}},
                                               {"WordPiece", {"prefix", "cleanup"}},
                                               {"CTC", {"pad_token", "word_delimiter_token", "cleanup"}},
                                               {"Strip", {"content", "start", "stop"}},
                                               {"Replace", {"pattern", "content"}}}));
  BeginComponent(profile, name);
  auto made = MakeDecoder(value, name, profile);
  if (made) profile->EndObject();
  return made;
}

}  // namespace slm::tokenizer
