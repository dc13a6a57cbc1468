#include "model/family_profile.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "codec/sha256.h"
#include "model/llama_profile_text.h"

namespace slm {
namespace {

Error FieldError(ErrorCode code, const json::Value& value, std::string message) {
  return MakeError(code, std::move(message)).At(value.byte_offset()).Field(value.Path());
}

Result<std::string> TextOf(const json::Value& object, std::string_view key) {
  const std::optional<json::Value> value = object.Find(key);
  if (!value) {
    return Fail(FieldError(ErrorCode::kSchemaMissing, object, "family profile: no " + std::string(key)));
  }
  if (!value->is_string())
    return Fail(FieldError(ErrorCode::kSchemaType, *value, "family profile: not a text"));
  return std::string(value->string());
}

Result<std::vector<std::string>> TextsOf(const json::Value& object, std::string_view key) {
  const std::optional<json::Value> value = object.Find(key);
  if (!value || !value->is_array()) {
    return Fail(FieldError(ErrorCode::kSchemaType, object, "family profile: no list " + std::string(key)));
  }
  std::vector<std::string> texts;
  for (const json::Value item : value->children()) {
    if (!item.is_string())
      return Fail(FieldError(ErrorCode::kSchemaType, item, "family profile: not a text"));
    texts.emplace_back(item.string());
  }
  return texts;
}

Result<std::pair<double, double>> RangeOf(const json::Value& value) {
  std::vector<double> bounds;
  if (value.is_array()) {
    for (const json::Value item : value.children()) {
      if (const auto bound = item.is_number() ? item.AsDouble() : std::nullopt) bounds.push_back(*bound);
    }
  }
  if (bounds.size() != 2 || value.size() != 2)
    return Fail(FieldError(ErrorCode::kSchemaType, value, "keys of a profile: range is not two numbers"));
  return std::pair(bounds[0], bounds[1]);
}

std::string_view TypeOf(const json::Value& value) {
  switch (value.kind()) {
    case json::Kind::kNull:
      return "null";
    case json::Kind::kFalse:
    case json::Kind::kTrue:
      return "bool";
    case json::Kind::kNumber:
      return value.is_integer_text() ? "integer" : "fraction";
    case json::Kind::kString:
      return "text";
    case json::Kind::kArray:
      return "list";
    case json::Kind::kObject:
      return "object";
  }
  return "";
}

bool AreLabels(const json::Value& value) {
  for (const json::Value member : value.children()) {
    const std::string_view digits = member.key().substr(member.key().starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return false;
  }
  return true;
}

Result<KeyRule> RuleOf(const json::Value& row) {
  if (!row.is_object())
    return Fail(FieldError(ErrorCode::kSchemaType, row, "keys of a profile: not an object"));
  KeyRule rule;
  std::string class_name;
  for (const json::Value member : row.children()) {
    const std::string_view name = member.key();
    if (name == "values") {
      if (!member.is_array())
        return Fail(FieldError(ErrorCode::kSchemaType, member, "keys of a profile: values is not a list"));
      rule.values.emplace();
      for (const json::Value item : member.children()) rule.values->emplace_back(item.source_text());
      continue;
    }
    if (name == "type") {
      SLM_ASSIGN(rule.types, TextsOf(row, name));
      continue;
    }
    if (name == "range") {
      SLM_ASSIGN(rule.range, RangeOf(member));
      continue;
    }
    std::string* target = name == "key"      ? &rule.key
                          : name == "class"  ? &class_name
                          : name == "field"  ? &rule.field
                          : name == "reason" ? &rule.reason
                          : name == "source" ? &rule.source
                                             : nullptr;
    if (target == nullptr) {
      return Fail(FieldError(ErrorCode::kSchemaUnknownKey, member, "keys of a profile: unknown key"));
    }
    if (!member.is_string()) {
      return Fail(FieldError(ErrorCode::kSchemaType, member, "keys of a profile: not a text"));
    }
    *target = member.string();
  }
  const bool consumed = class_name == "consumed";
  if (consumed) {
    rule.key_class = KeyRule::Class::kConsumed;
  } else if (class_name == "sampling") {
    rule.key_class = KeyRule::Class::kSampling;
  } else if (class_name == "documentary") {
    rule.key_class = KeyRule::Class::kDocumentary;
  } else if (class_name == "unsupported") {
    rule.key_class = KeyRule::Class::kUnsupported;
  } else {
    return Fail(FieldError(ErrorCode::kSchemaValue, row, "keys of a profile: unknown class " + class_name));
  }
  const bool needs_values = rule.key_class == KeyRule::Class::kUnsupported;
  if (rule.key.empty() || consumed == rule.field.empty() || consumed != rule.reason.empty() ||
      (needs_values && !rule.values)) {
    return Fail(FieldError(ErrorCode::kSchemaValue, row,
                           "keys of a profile: a consumed key names its field, any other its reason, "
                           "an unsupported one its neutral values"));
  }
  return rule;
}

Result<KeyRules> RulesOf(const json::Value& root, std::string_view name) {
  const std::optional<json::Value> rows = root.Find(name);
  if (!rows) {
    return Fail(FieldError(ErrorCode::kSchemaType, root, "family profile: no list " + std::string(name)));
  }
  return ParseKeyRules(*rows);
}

}  // namespace

Result<KeyRules> ParseKeyRules(const json::Value& rows) {
  if (!rows.is_array())
    return Fail(FieldError(ErrorCode::kSchemaType, rows, "keys of a profile: not a list"));
  KeyRules rules;
  for (const json::Value row : rows.children()) {
    SLM_ASSIGN(KeyRule rule, RuleOf(row));
    const std::string key = rule.key;
    if (!rules.emplace(key, std::move(rule)).second) {
      return Fail(FieldError(ErrorCode::kSchemaValue, row, "keys of a profile: listed twice: " + key));
    }
  }
  return rules;
}

bool HasTypeOf(const json::Value& value, const KeyRule& rule) {
  if (rule.types.empty()) return true;
  const auto has = [&](std::string_view type) {
    return std::find(rule.types.begin(), rule.types.end(), type) != rule.types.end();
  };
  if (!has(TypeOf(value)) && !(value.is_object() && has("labels") && AreLabels(value))) return false;
  if (!rule.range || !value.is_number()) return true;
  const std::optional<double> number = value.AsDouble();
  return number && *number >= rule.range->first && *number <= rule.range->second;
}

bool IsOneOf(const json::Value& value, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text == value.source_text()) return true;
    const bool empty_container = (text == "{}" && value.is_object()) || (text == "[]" && value.is_array());
    if (empty_container && value.size() == 0) return true;
  }
  return false;
}

bool LooksBehavioural(std::string_view key, const std::vector<std::string>& words) {
  const auto is_edge = [key](size_t at) {
    return at == key.size() || std::string_view("_.-").find(key[at]) != std::string_view::npos;
  };
  for (std::string_view word : words) {
    const bool whole = word.ends_with('$');
    if (whole) word.remove_suffix(1);
    for (size_t at = key.find(word); at != std::string_view::npos; at = key.find(word, at + 1)) {
      if ((at == 0 || is_edge(at - 1)) && (!whole || is_edge(at + word.size()))) return true;
    }
  }
  return false;
}

Result<FamilyProfile> FamilyProfile::Parse(std::string json_text) {
  FamilyProfile profile;
  profile.json_text_ = json_text;
  profile.hash_ = Sha256Of(AsBytes(json_text));
  SLM_ASSIGN(const json::Document document, json::Parse(std::move(json_text)));
  const json::Value root = document.root();
  if (!root.is_object())
    return Fail(FieldError(ErrorCode::kSchemaType, root, "family profile: not an object"));
  SLM_ASSIGN(const std::string schema, TextOf(root, "schema"));
  if (schema != "slm.family-profile.v1") {
    return Fail(FieldError(ErrorCode::kSchemaValue, root, "family profile: unknown schema " + schema));
  }
  SLM_ASSIGN(profile.family_, TextOf(root, "family"));
  SLM_ASSIGN(profile.pinned_source_, TextOf(root, "pinned_source"));
  SLM_ASSIGN(profile.reviewer_, TextOf(root, "reviewer"));
  const std::optional<json::Value> version = root.Find("version");
  if (!version || !version->is_number() || !version->AsUint()) {
    return Fail(FieldError(ErrorCode::kSchemaType, root, "family profile: no version"));
  }
  profile.version_ = *version->AsUint();
  SLM_ASSIGN(profile.architectures_, TextsOf(root, "architectures"));
  SLM_ASSIGN(profile.model_types_, TextsOf(root, "model_types"));
  SLM_ASSIGN(profile.behaviour_words_, TextsOf(root, "behaviour_words"));
  SLM_ASSIGN(profile.config_, RulesOf(root, "config"));
  SLM_ASSIGN(profile.generation_, RulesOf(root, "generation_config"));
  return profile;
}

const FamilyProfile& FamilyProfile::Llama() {
  static const FamilyProfile* const profile = [] {
    Result<FamilyProfile> parsed = Parse(std::string(kLlamaProfileText));
    if (!parsed) std::abort();  // the text is compiled in, and a test parses it
    return new FamilyProfile(*std::move(parsed));
  }();
  return *profile;
}

uint64_t FamilyProfile::LlamaVersion() {
  return kLlamaProfileVersion;
}

const KeyRule* FamilyProfile::ConfigKey(std::string_view key) const {
  const auto found = config_.find(key);
  return found == config_.end() ? nullptr : &found->second;
}

const KeyRule* FamilyProfile::GenerationKey(std::string_view key) const {
  const auto found = generation_.find(key);
  return found == generation_.end() ? nullptr : &found->second;
}

bool FamilyProfile::MayBeLeftOut(const KeyRule& rule, const json::Value& value) const {
  return rule.key_class != KeyRule::Class::kConsumed && GenerationKey(rule.key) != nullptr && rule.values &&
         !IsOneOf(value, *rule.values);
}

bool FamilyProfile::LooksBehavioural(std::string_view key) const {
  return slm::LooksBehavioural(key, behaviour_words_);
}

}  // namespace slm
