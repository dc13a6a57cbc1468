// Family profile: for each key of config.json and generation_config.json, what it means to this
// family (CFG-02). Frozen data: profiles/families/llama.json, compiled into the program.
//
// A key is consumed (it feeds a field of the effective configuration), a sampling declaration
// (recorded, not applied), or without effect: for every value (documentary) or for the listed values
// only. Keys outside the profile are refused. Immutable after parsing.
#ifndef SLM_MODEL_FAMILY_PROFILE_H_
#define SLM_MODEL_FAMILY_PROFILE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/json.h"

namespace slm {

struct KeyRule {
  enum class Class : uint8_t {
    kConsumed,     // feeds `field`
    kSampling,     // a sampling declaration: recorded
    kDocumentary,  // no effect, for `values` if there are any listed
    kUnsupported,  // affects behaviour; only `values` leave it without effect
  };
  std::string key;
  Class key_class = Class::kDocumentary;
  std::string field;                               // of the effective configuration; consumed keys
  std::string reason;                              // why it has no effect
  std::string source;                              // file:line in the pinned source, if it reads the key
  std::optional<std::vector<std::string>> values;  // JSON texts; nothing: any value
  // Of a documentary or sampling key, where the pinned source refuses others: null, bool, integer, fraction,
  // text, list, object, labels (an object whose keys are integers); and the bounds of a number, both inside.
  std::vector<std::string> types;
  std::optional<std::pair<double, double>> range;
};

using KeyRules = std::map<std::string, KeyRule, std::less<>>;

// A profile's list of keys. Errors: SCHEMA-* with the field.
[[nodiscard]] Result<KeyRules> ParseKeyRules(const json::Value& rows);

// Whether `value` has one of the rule's types and lies in its range; true where it lists none.
[[nodiscard]] bool HasTypeOf(const json::Value& value, const KeyRule& rule);

// Whether `value` is one of the JSON texts of a rule.
[[nodiscard]] bool IsOneOf(const json::Value& value, const std::vector<std::string>& texts);

// Whether a part of the name begins with one of `words`, or is one where the word ends with '$'; parts end at
// '_', '.' and '-'. Such a name says that the key changes behaviour.
[[nodiscard]] bool LooksBehavioural(std::string_view key, const std::vector<std::string>& words);

class FamilyProfile {
 public:
  // Errors: the JSON codes, SCHEMA-* with the field.
  [[nodiscard]] static Result<FamilyProfile> Parse(std::string json_text);
  // profiles/families/llama.json as it was when the program was built.
  [[nodiscard]] static const FamilyProfile& Llama();
  // Its version alone: what runs models needs no more of it.
  [[nodiscard]] static uint64_t LlamaVersion();

  [[nodiscard]] const std::string& family() const { return family_; }
  [[nodiscard]] uint64_t version() const { return version_; }
  [[nodiscard]] const std::string& pinned_source() const { return pinned_source_; }  // "transformers 5.24.0"
  [[nodiscard]] const std::string& reviewer() const { return reviewer_; }
  [[nodiscard]] const std::vector<std::string>& architectures() const { return architectures_; }
  [[nodiscard]] const std::vector<std::string>& model_types() const { return model_types_; }
  [[nodiscard]] const std::string& json_text() const { return json_text_; }
  [[nodiscard]] const Hash256& hash() const { return hash_; }  // SHA-256 of the text

  // Null for a key that the profile does not list.
  [[nodiscard]] const KeyRule* ConfigKey(std::string_view key) const;
  [[nodiscard]] const KeyRule* GenerationKey(std::string_view key) const;
  [[nodiscard]] const KeyRules& config_keys() const { return config_; }
  [[nodiscard]] const KeyRules& generation_keys() const { return generation_; }
  // True for a key that generate() alone reads, with a value that would change its choices: no logit depends
  // on it, and a person may decide to leave it out.
  [[nodiscard]] bool MayBeLeftOut(const KeyRule& rule, const json::Value& value) const;
  // True if the name of an unlisted key says that it changes what the model computes: such a key is
  // fatal (CFG-UNKNOWN-FIELD), no decision can wave it through.
  [[nodiscard]] bool LooksBehavioural(std::string_view key) const;

 private:
  std::string family_, pinned_source_, reviewer_, json_text_;
  uint64_t version_ = 0;
  Hash256 hash_{};
  std::vector<std::string> architectures_, model_types_, behaviour_words_;
  KeyRules config_, generation_;
};

}  // namespace slm

#endif  // SLM_MODEL_FAMILY_PROFILE_H_
