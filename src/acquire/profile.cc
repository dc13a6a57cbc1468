#include "acquire/profile.h"

#include <algorithm>
#include <iterator>

#include "acquire/embedded.h"
#include "acquire/file_keys.h"
#include "acquire/read_file.h"
#include "codec/json.h"
#include "codec/sha256.h"

namespace slm::acquire {
namespace {

constexpr std::string_view kSchema = "slm.acquire-profile.v1";

Error Bad(ErrorCode code, json::Value at, std::string_view field, std::string message) {
  return MakeError(code, std::move(message)).At(at.byte_offset()).Field(field);
}

// Reads members by name and refuses those that nobody asked for.
class ObjectReader {
 public:
  ObjectReader(json::Value object, std::string_view where) : object_(object), where_(where) {}

  Result<json::Value> Require(std::string_view key) {
    known_.emplace_back(key);
    if (!object_.is_object())
      return Fail(Bad(ErrorCode::kSchemaType, object_, where_, "an object is expected"));
    const auto value = object_.Find(key);
    if (!value) return Fail(Bad(ErrorCode::kSchemaMissing, object_, key, "the key is absent"));
    return *value;
  }
  Status Text(std::string_view key, std::string* out) {
    SLM_ASSIGN(const json::Value value, Require(key));
    if (!value.is_string()) return Fail(Bad(ErrorCode::kSchemaType, value, key, "a text is expected"));
    *out = value.string();
    return {};
  }
  Status Uint(std::string_view key, uint64_t* out) {
    SLM_ASSIGN(const json::Value value, Require(key));
    const auto number = value.AsUint();
    if (!number) return Fail(Bad(ErrorCode::kSchemaType, value, key, "a non-negative integer is expected"));
    *out = *number;
    return {};
  }
  Status Bool(std::string_view key, bool* out) {
    SLM_ASSIGN(const json::Value value, Require(key));
    if (!value.is_bool()) return Fail(Bad(ErrorCode::kSchemaType, value, key, "true or false is expected"));
    *out = value.boolean();
    return {};
  }
  Status Texts(std::string_view key, std::vector<std::string>* out) {
    SLM_ASSIGN(const json::Value list, Require(key));
    if (!list.is_array()) return Fail(Bad(ErrorCode::kSchemaType, list, key, "a list is expected"));
    for (json::Value item : list.children()) {
      if (!item.is_string()) return Fail(Bad(ErrorCode::kSchemaType, item, key, "a text is expected"));
      out->emplace_back(item.string());
    }
    return {};
  }
  Status Rules(std::string_view key, std::string_view value_key, std::vector<PathRule>* out) {
    SLM_ASSIGN(const json::Value list, Require(key));
    if (!list.is_array()) return Fail(Bad(ErrorCode::kSchemaType, list, key, "a list is expected"));
    for (json::Value item : list.children()) {
      PathRule rule;
      ObjectReader row(item, key);
      SLM_TRY(row.Text("pattern", &rule.pattern));
      SLM_TRY(row.Text(value_key, &rule.value));
      if (item.Find("everywhere")) SLM_TRY(row.Bool("everywhere", &rule.is_everywhere));
      SLM_TRY(row.Finish());
      out->push_back(std::move(rule));
    }
    return {};
  }
  Status Finish() const {
    for (json::Value member : object_.children()) {
      if (std::find(known_.begin(), known_.end(), member.key()) != known_.end()) continue;
      return Fail(MakeError(ErrorCode::kSchemaUnknownKey, "a profile has no such key")
                      .At(member.key_byte_offset())
                      .Field(member.key()));
    }
    return {};
  }

 private:
  json::Value object_;
  std::string_view where_;
  std::vector<std::string> known_;
};

Status ReadLimits(json::Value value, TreeLimits* limits) {
  ObjectReader reader(value, "limits");
  SLM_TRY(reader.Uint("max_files", &limits->max_files));
  SLM_TRY(reader.Uint("max_file_bytes", &limits->max_file_bytes));
  SLM_TRY(reader.Uint("max_total_bytes", &limits->max_total_bytes));
  SLM_TRY(reader.Uint("max_depth", &limits->max_depth));
  SLM_TRY(reader.Uint("max_path_bytes", &limits->max_path_bytes));
  SLM_TRY(reader.Uint("max_text_bytes", &limits->max_text_bytes));
  return reader.Finish();
}

Status ReadSafetensors(json::Value value, safetensors::Limits* limits) {
  ObjectReader reader(value, "safetensors");
  SLM_TRY(reader.Uint("max_header_bytes", &limits->max_header_bytes));
  SLM_TRY(reader.Uint("max_tensors", &limits->max_tensors));
  SLM_TRY(reader.Uint("max_name_bytes", &limits->max_name_bytes));
  SLM_TRY(reader.Uint("max_metadata_bytes", &limits->max_metadata_bytes));
  SLM_TRY(reader.Bool("allow_leading_blanks", &limits->allow_leading_blanks));
  SLM_TRY(reader.Bool("allow_zero_size", &limits->allow_zero_size));
  SLM_TRY(reader.Bool("allow_rank_0", &limits->allow_rank_0));
  return reader.Finish();
}

constexpr std::string_view kForms[] = {kFormToken,   kFormTokens,   kFormAddedTokens,
                                       kFormTokenId, kFormTemplate, kFormCleanUp};

Status ReadKeyLists(json::Value value, KeyLists* lists) {
  ObjectReader reader(value, "keys");
  std::string about;
  SLM_TRY(reader.Text("about", &about));
  SLM_TRY(reader.Text("pinned_source", &lists->pinned_source));
  SLM_TRY(reader.Text("reviewer", &lists->reviewer));
  SLM_TRY(reader.Texts("behaviour_words", &lists->behaviour_words));
  SLM_ASSIGN(const json::Value files, reader.Require("files"));
  if (!files.is_object())
    return Fail(Bad(ErrorCode::kSchemaType, files, "files", "an object of lists is expected"));
  for (json::Value rows : files.children()) {
    SLM_ASSIGN(KeyRules rules, ParseKeyRules(rows));
    for (const auto& [key, rule] : rules) {
      const bool is_consumed = rule.key_class == KeyRule::Class::kConsumed;
      const bool has_form = std::find(std::begin(kForms), std::end(kForms), rule.field) != std::end(kForms);
      if (is_consumed == has_form && rule.key_class != KeyRule::Class::kSampling) continue;
      return Fail(Bad(ErrorCode::kSchemaValue, rows, key,
                      "a key of the tokenizer's files is consumed in a known form, documentary or "
                      "unsupported"));
    }
    lists->of.emplace(std::string(rows.key()), std::move(rules));
  }
  return reader.Finish();
}

Status ReadProfile(json::Value root, Profile* profile) {
  ObjectReader reader(root, "");
  std::string schema;
  std::string about;
  SLM_TRY(reader.Text("schema", &schema));
  if (schema != kSchema) {
    return Fail(Bad(ErrorCode::kSchemaValue, *root.Find("schema"), "schema",
                    "the schema must be " + std::string(kSchema)));
  }
  SLM_TRY(reader.Text("name", &profile->name));
  SLM_TRY(reader.Text("about", &about));
  SLM_ASSIGN(const json::Value limits, reader.Require("limits"));
  SLM_TRY(ReadLimits(limits, &profile->limits));
  SLM_ASSIGN(const json::Value safetensors, reader.Require("safetensors"));
  SLM_TRY(ReadSafetensors(safetensors, &profile->safetensors));
  SLM_TRY(reader.Texts("required", &profile->required));
  SLM_ASSIGN(const json::Value architectures, reader.Require("architectures"));
  for (json::Value row : architectures.children()) {
    if (!architectures.is_object() || !row.is_string()) {
      return Fail(Bad(ErrorCode::kSchemaType, row, "architectures", "an object of texts is expected"));
    }
    profile->architectures.emplace_back(std::string(row.key()), std::string(row.string()));
  }
  SLM_TRY(reader.Texts("embedding_tensors", &profile->embedding_tensors));
  SLM_TRY(reader.Texts("output_tensors", &profile->output_tensors));
  SLM_TRY(reader.Rules("ignore", "reason", &profile->ignore));
  SLM_TRY(reader.Rules("forbid", "reason", &profile->forbid));
  SLM_TRY(reader.Rules("allow", "kind", &profile->allow));
  SLM_ASSIGN(const json::Value keys, reader.Require("keys"));
  SLM_TRY(ReadKeyLists(keys, &profile->keys));
  return reader.Finish();
}

bool StandsForStar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_' || c == '+' || c == ' ';
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

// Iterative: after a mismatch the latest star takes one character more. Linear in the product.
bool MatchesPattern(std::string_view pattern, std::string_view path) {
  size_t p = 0;
  size_t s = 0;
  size_t star = std::string_view::npos;
  size_t star_end = 0;
  while (s < path.size()) {
    if (p < pattern.size() && pattern[p] != '*' && pattern[p] == path[s]) {
      ++p;
      ++s;
      continue;
    }
    const bool at_name = s == 0 || path[s - 1] == '/';
    if (p < pattern.size() && pattern[p] == '*' && StandsForStar(path[s]) && !(at_name && path[s] == '.')) {
      star = p++;
      star_end = ++s;
      continue;
    }
    if (star == std::string_view::npos || !StandsForStar(path[star_end])) return false;
    p = star + 1;
    s = ++star_end;
  }
  return p == pattern.size();
}

const KeyRule* KeyLists::Find(std::string_view file, std::string_view key) const {
  const auto rules = of.find(file);
  if (rules == of.end()) return nullptr;
  if (const auto exact = rules->second.find(key); exact != rules->second.end()) return &exact->second;
  for (const auto& [pattern, rule] : rules->second) {
    if (pattern.starts_with('*') && key.ends_with(std::string_view(pattern).substr(1))) return &rule;
  }
  return nullptr;
}

const PathRule* Profile::IgnoreRule(std::string_view path) const {
  for (const PathRule& rule : ignore) {
    if (rule.pattern.size() == path.size() + 1 && rule.pattern.ends_with('/') &&
        rule.pattern.starts_with(path)) {
      return &rule;
    }
  }
  return nullptr;
}

namespace {

// As MatchesPattern for a pattern with a star at its begin, its end, or both, but the star stands for
// anything and case does not count: no allow list catches what an odd spelling lets through.
bool HasLooseMatch(std::string_view pattern, std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_open_left = pattern.starts_with('*');
  const bool is_open_right = pattern.size() > 1 && pattern.ends_with('*');
  if (is_open_left) pattern.remove_prefix(1);
  if (is_open_right) pattern.remove_suffix(1);
  if (is_open_left && is_open_right) return lower.find(pattern) != std::string::npos;
  if (is_open_left) return lower.ends_with(pattern);
  return is_open_right ? lower.starts_with(pattern) : lower == pattern;
}

}  // namespace

Status Profile::CheckIgnored(std::string_view path) const {
  for (const PathRule& rule : forbid) {
    if (!rule.is_everywhere || !HasLooseMatch(rule.pattern, BaseName(path))) continue;
    return Fail(MakeError(ErrorCode::kAcqForbidden,
                          "the profile " + name +
                              " forbids this file, in a folder that is not read too: " + rule.value)
                    .In(path)
                    .Field(path));
  }
  return {};
}

Result<std::string> Profile::KindOf(std::string_view path) const {
  for (const PathRule& rule : forbid) {
    if (!MatchesPattern(rule.pattern, path) && !MatchesPattern(rule.pattern, BaseName(path))) continue;
    return Fail(
        MakeError(ErrorCode::kAcqForbidden, "the profile " + name + " forbids this file: " + rule.value)
            .In(path)
            .Field(path));
  }
  for (const PathRule& rule : allow) {
    if (MatchesPattern(rule.pattern, path)) return rule.value;
  }
  return Fail(MakeError(ErrorCode::kAcqForbidden,
                        "the profile " + name +
                            " does not list this file; remove it from the copy, or review it "
                            "and give a profile that lists it with --profile")
                  .In(path)
                  .Field(path));
}

const std::string* Profile::ModelType(std::string_view architecture) const {
  for (const auto& [class_name, model_type] : architectures) {
    if (class_name == architecture) return &model_type;
  }
  return nullptr;
}

Result<Profile> ParseProfile(ByteSpan text, const std::string& display_path) {
  auto document = json::Parse(std::string(AsText(text)));
  if (!document) return Fail(std::move(document).error().In(display_path));
  Profile profile;
  if (Status status = ReadProfile(document->root(), &profile); !status) {
    return Fail(std::move(status).error().In(display_path));
  }
  profile.text.assign(text.begin(), text.end());
  profile.hash = Sha256Of(text);
  return profile;
}

Result<Profile> LoadProfile(const std::string& path) {
  if (path.empty()) return ParseProfile(AsBytes(EmbeddedDirectoryProfile()), "hf-directory-v2.json");
  SLM_ASSIGN(const Bytes text, ReadSmallFile(path, kMaxProfileBytes));
  return ParseProfile(text, std::string(path));
}

}  // namespace slm::acquire
