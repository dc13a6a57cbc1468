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

struct Pattern {
  std::string text;
  std::string content;
};

// Look-behind and back-references are outside what the regex engine to come will take.
bool IsOutsideRegexSubset(std::string_view regex) {
  if (regex.find("(?<=") != std::string_view::npos || regex.find("(?<!") != std::string_view::npos)
    return true;
  for (size_t i = 0; i + 1 < regex.size(); ++i) {
    if (regex[i] != '\\') continue;
    const char next = regex[i + 1];
    if ((next >= '1' && next <= '9') || next == 'k') return true;
    ++i;
  }
  return false;
}

// {"String": s} as it is; {"Regex": r} is not run yet.
Result<std::string> LiteralPattern(json::Value object) {
  SLM_ASSIGN(const json::Value pattern, Member(object, "pattern"));
  SLM_TRY(RequireObject(pattern));
  SLM_TRY(RequireKnownKeys(pattern, {"String", "Regex"}));
  if (pattern.size() != 1) {
    return Fail(ErrorAt(ErrorCode::kTokSchema, pattern, "a pattern is either String or Regex"));
  }
  if (pattern.Find("Regex")) {
    SLM_ASSIGN(const std::string regex, StringMember(pattern, "Regex"));
    const bool outside = IsOutsideRegexSubset(regex);
    return Fail(ErrorAt(outside ? ErrorCode::kTokRegex : ErrorCode::kTokUnsupported, *pattern.Find("Regex"),
                        outside ? "a regular expression with look-behind or back-reference"
                                : "patterns that are regular expressions are not run by this version"));
  }
  return StringMember(pattern, "String");
}

Result<Pattern> ReplaceMembers(json::Value object, json::Writer* profile) {
  SLM_TRY(RequireKnownKeys(object, {"type", "pattern", "content"}));
  SLM_ASSIGN(std::string text, LiteralPattern(object));
  SLM_ASSIGN(std::string content, StringMember(object, "content"));
  profile->Key("pattern").String(text).Key("content").String(content);
  return Pattern{std::move(text), std::move(content)};
}

// The charsmap of Precompiled: base64 of a trie's size, the trie and its strings. What is damaged is
// named as such, although the component itself is not run yet.
Status CheckCharsmap(json::Value object) {
  const auto map = OptionalMember(object, "precompiled_charsmap");
  if (!map) return {};
  const auto damaged = [&map](std::string message) {
    return Fail(ErrorAt(ErrorCode::kTokCharsmap, *map, "precompiled_charsmap " + std::move(message)));
  };
  Bytes bytes;
  if (!map->is_string() || !FromBase64(map->string(), &bytes)) return damaged("is not base64");
  if (bytes.size() < 4) return damaged("is shorter than its header");
  const auto trie_size = LoadLe<uint32_t>(bytes.data());
  if (trie_size % 4 != 0 || trie_size < 4 || trie_size > bytes.size() - 4)
    return damaged("has a bad trie size");
  const auto root = LoadLe<uint32_t>(bytes.data() + 4);
  const uint64_t offset = static_cast<uint64_t>(root >> 10) << ((root & 0x200) >> 6);
  if (offset >= trie_size / 4) return damaged("has a root outside the trie");
  return {};
}

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

Result<std::unique_ptr<Normalizer>> MakeNormalizer(json::Value value, std::string_view name, json::Value type,
                                                   json::Writer* profile) {
  using Pointer = std::unique_ptr<Normalizer>;
  if (name == "Sequence") {
    const auto load = [profile](json::Value item) { return LoadNormalizer(item, profile); };
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
    SLM_ASSIGN(Pattern pattern, ReplaceMembers(value, profile));
    return Pointer(std::make_unique<ReplaceNormalizer>(std::move(pattern.text), std::move(pattern.content)));
  }
  if (name == "NFC") {
    SLM_TRY(RequireKnownKeys(value, {"type"}));
    profile->Key("unicode").String("9.0");
    return Pointer(std::make_unique<NfcNormalizer>());
  }
  if (name == "Precompiled") SLM_TRY(CheckCharsmap(value));
  return Fail(RefuseType(type, "normalizer",
                         {"Bert", "BertNormalizer", "Strip", "StripAccents", "NFD", "NFKC", "NFKD",
                          "Lowercase", "Nmt", "Precompiled", "ByteLevel"}));
}

Result<std::unique_ptr<PreTokenizer>> MakePreTokenizer(json::Value value, std::string_view name,
                                                       json::Value type, json::Writer* profile,
                                                       bool* is_byte_level) {
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
    SLM_ASSIGN(const std::string pattern, LiteralPattern(value));
    static_cast<void>(pattern);  // a malformed pattern is named before the missing component
  }
  return Fail(RefuseType(type, "pre-tokenizer",
                         {"BertPreTokenizer", "CharDelimiterSplit", "Delimiter", "Whitespace",
                          "WhitespaceSplit", "Punctuation", "Split", "UnicodeScripts", "FixedLength"}));
}

Result<std::unique_ptr<Decoder>> MakeDecoder(json::Value value, std::string_view name, json::Value type,
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
    SLM_ASSIGN(Pattern pattern, ReplaceMembers(value, profile));
    return Pointer(std::make_unique<ReplaceDecoder>(std::move(pattern.text), std::move(pattern.content)));
  }
  if (name == "Strip") {
    SLM_TRY(RequireKnownKeys(value, {"type", "content", "start", "stop"}));
    SLM_ASSIGN(const char32_t content, ScalarMember(value, "content"));
    SLM_ASSIGN(const uint64_t start, UintMember(value, "start"));
    SLM_ASSIGN(const uint64_t stop, UintMember(value, "stop"));
    profile->Key("start").Uint(start).Key("stop").Uint(stop);
    return Pointer(std::make_unique<StripDecoder>(content, start, stop));
  }
  if (name == "ByteFallback" || name == "Fuse") {
    SLM_TRY(RequireKnownKeys(value, {"type"}));
    if (name == "Fuse") return Pointer(std::make_unique<FuseDecoder>());
    return Pointer(std::make_unique<ByteFallbackDecoder>());
  }
  return Fail(RefuseType(type, "decoder", {"BPEDecoder", "WordPiece", "CTC"}));
}

Result<std::unique_ptr<PostProcessor>> MakePostProcessor(json::Value value, std::string_view name,
                                                         json::Value type, json::Writer* profile) {
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
  if (name == "TemplateProcessing") return LoadTemplate(value, profile);
  return Fail(RefuseType(type, "post-processor", {"BertProcessing", "RobertaProcessing"}));
}

}  // namespace

Result<std::unique_ptr<Normalizer>> LoadNormalizer(json::Value value, json::Writer* profile) {
  SLM_ASSIGN(const json::Value type, TypeOf(value));
  BeginComponent(profile, type.string());
  auto made = MakeNormalizer(value, type.string(), type, profile);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<PreTokenizer>> LoadPreTokenizer(json::Value value, json::Writer* profile,
                                                       bool* is_byte_level) {
  SLM_ASSIGN(const json::Value type, TypeOf(value));
  BeginComponent(profile, type.string());
  auto made = MakePreTokenizer(value, type.string(), type, profile, is_byte_level);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<PostProcessor>> LoadPostProcessor(json::Value value, json::Writer* profile) {
  SLM_ASSIGN(const json::Value type, TypeOf(value));
  BeginComponent(profile, type.string());
  auto made = MakePostProcessor(value, type.string(), type, profile);
  if (made) profile->EndObject();
  return made;
}

Result<std::unique_ptr<Decoder>> LoadDecoder(json::Value value, json::Writer* profile) {
  SLM_ASSIGN(const json::Value type, TypeOf(value));
  BeginComponent(profile, type.string());
  auto made = MakeDecoder(value, type.string(), type, profile);
  if (made) profile->EndObject();
  return made;
}

}  // namespace slm::tokenizer
