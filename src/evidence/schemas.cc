#include "evidence/schemas.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slm::evidence {
namespace {

enum class Kind : uint8_t { kText, kUint, kBool, kHash, kBytes, kArray, kMap, kAny };

struct Key {
  std::string_view name;
  Kind kind;
  bool required = true;
};
struct Role {
  std::string_view name;
  std::string_view child_type;
  uint64_t at_least = 1;
  uint64_t at_most = 1;
};
constexpr uint64_t kMany = uint64_t{1} << 20;

struct Form {
  std::string_view type;
  std::string_view schema;
  std::span<const Key> keys;
  std::span<const Role> roles;
};

// Written by acquisition.
constexpr Key kFileKeys[] = {{"path", Kind::kBytes},
                             {"kind", Kind::kText},
                             {"size", Kind::kUint},
                             {"blob", Kind::kHash},
                             {"weights", Kind::kMap, false}};
constexpr Key kTreeKeys[] = {{"files", Kind::kUint}, {"bytes", Kind::kUint}};
constexpr Role kTreeRoles[] = {{"file", "source-file", 1, kMany}};
constexpr Key kLicenseKeys[] = {{"spdx", Kind::kText},        {"redistribution", Kind::kText},
                                {"attribution", Kind::kBool}, {"duties", Kind::kText},
                                {"settled_by", Kind::kText},  {"evidence", Kind::kArray},
                                {"cards_table", Kind::kHash}, {"texts_table", Kind::kHash}};
constexpr Role kLicenseRoles[] = {{"evidence", "source-file", 0, kMany},
                                  {"conflict", "conflict", 0, kMany},
                                  {"decision", "decision", 0, kMany}};
constexpr Key kConflictKeys[] = {{"code", Kind::kText},          {"field", Kind::kText},
                                 {"declarations", Kind::kArray}, {"acceptable", Kind::kBool},
                                 {"input", Kind::kBytes, false}, {"effective_blob", Kind::kHash, false}};
constexpr Role kConflictRoles[] = {{"file", "source-file", 1, kMany}};
constexpr Key kDecisionKeys[] = {{"kind", Kind::kText},   {"reviewer", Kind::kText},
                                 {"reason", Kind::kText}, {"applies_to", Kind::kArray},
                                 {"choice", Kind::kAny},  {"statement", Kind::kHash}};
constexpr Role kDecisionRoles[] = {{"conflict", "conflict", 0, kMany}};
constexpr Key kAcquisitionKeys[] = {
    {"name", Kind::kText},    {"revision", Kind::kText},       {"transport", Kind::kText},
    {"binding", Kind::kText}, {"profile", Kind::kHash},        {"profile_name", Kind::kText},
    {"spdx", Kind::kText},    {"redistribution", Kind::kText}, {"weights", Kind::kArray},
    {"flags", Kind::kArray},  {"choices", Kind::kArray},       {"ignored_metadata", Kind::kArray}};
constexpr Role kAcquisitionRoles[] = {{"source-tree", "source-tree"},
                                      {"license", "license-decision"},
                                      {"conflict", "conflict", 0, kMany},
                                      {"decision", "decision", 0, kMany}};
// Written by conversion.
constexpr Key kFamilyKeys[] = {{"family", Kind::kText},
                               {"version", Kind::kUint},
                               {"sha256", Kind::kHash},
                               {"pinned_source", Kind::kText},
                               {"reviewer", Kind::kText}};
constexpr Key kConfigKeys[] = {{"config", Kind::kMap},
                               {"columns", Kind::kArray},
                               {"ignored_metadata", Kind::kArray},
                               {"sampling_declarations", Kind::kArray},
                               {"accepted_conflicts", Kind::kArray}};
constexpr Role kConfigRoles[] = {{"acquisition", "acquisition"}, {"family-profile", "family-profile"}};
constexpr Key kLedgerKeys[] = {{"blobs", Kind::kArray}, {"tensors", Kind::kArray}, {"omitted", Kind::kArray}};
constexpr Role kLedgerRoles[] = {{"acquisition", "acquisition"}, {"effective-config", "effective-config"}};
constexpr Role kOfAcquisition[] = {{"acquisition", "acquisition"}};
constexpr Key kTokenizerKeys[] = {{"blob", Kind::kHash}, {"reference", Kind::kText}};
constexpr Key kTemplateKeys[] = {{"source_blob", Kind::kHash}, {"ir_blob", Kind::kHash}};
constexpr Key kArtifactKeys[] = {{"root", Kind::kHash}, {"file_sha256", Kind::kHash}, {"size", Kind::kUint}};
constexpr Role kArtifactRoles[] = {
    {"acquisition", "acquisition"},     {"effective-config", "effective-config"},
    {"tensor-ledger", "tensor-ledger"}, {"family-profile", "family-profile"},
    {"tokenizer", "tokenizer", 0, 1},   {"template", "template", 0, 1}};
// Written by promotion.
constexpr Key kBuildKeys[] = {{"executable_sha256", Kind::kHash},
                              {"version", Kind::kText},
                              {"compiler", Kind::kText},
                              {"compiler_sha256", Kind::kHash},
                              {"linker", Kind::kText},
                              {"linker_sha256", Kind::kHash},
                              {"flags", Kind::kText},
                              {"source_tree_sha256", Kind::kHash},
                              {"text_module_sha256", Kind::kHash, false}};
constexpr Key kBackendKeys[] = {
    {"name", Kind::kText}, {"profile", Kind::kText}, {"kernel", Kind::kText}, {"threads", Kind::kUint}};
constexpr Key kPolicyKeys[] = {{"blob", Kind::kHash}, {"name", Kind::kText}, {"version", Kind::kUint}};
constexpr Key kSuiteKeys[] = {{"blob", Kind::kHash}, {"n_cases", Kind::kUint}};
constexpr Key kOracleKeys[] = {
    {"blob", Kind::kHash}, {"mode", Kind::kText}, {"envelope_sha256", Kind::kHash}};
constexpr Key kObservationKeys[] = {{"blob", Kind::kHash},
                                    {"artifact_blob", Kind::kHash},
                                    {"envelope_sha256", Kind::kHash},
                                    {"engine", Kind::kMap, false}};
constexpr Role kObservationRoles[] = {{"artifact", "artifact"},
                                      {"runtime-build", "runtime-build"},
                                      {"backend-profile", "backend-profile"},
                                      {"case-suite", "case-suite"}};
constexpr Key kComparisonKeys[] = {{"blob", Kind::kHash}, {"verdicts", Kind::kMap}};
constexpr Role kComparisonRoles[] = {{"tolerance-policy", "tolerance-policy"},
                                     {"observation", "observation"},
                                     {"oracle-run", "oracle-run", 1, 3}};
constexpr Key kPromotionKeys[] = {{"verdicts", Kind::kMap}, {"backend", Kind::kText}};
constexpr Role kPromotionRoles[] = {
    {"acquisition", "acquisition"},           {"license-decision", "license-decision"},
    {"tokenizer", "tokenizer", 0, 1},         {"template", "template", 0, 1},
    {"effective-config", "effective-config"}, {"tensor-ledger", "tensor-ledger"},
    {"family-profile", "family-profile"},     {"artifact", "artifact"},
    {"runtime-build", "runtime-build"},       {"backend-profile", "backend-profile"},
    {"tolerance-policy", "tolerance-policy"}, {"case-suite", "case-suite"},
    {"oracle-run", "oracle-run", 0, 3},       {"observation", "observation"},
    {"comparison", "comparison", 0, 1},       {"conflict", "conflict", 0, kMany},
    {"decision", "decision", 0, kMany}};

constexpr Form kForms[] = {
    {"source-file", "slm.source-file.v1", kFileKeys, {}},
    {"source-tree", "slm.source-tree.v1", kTreeKeys, kTreeRoles},
    {"license-decision", "slm.license-decision.v1", kLicenseKeys, kLicenseRoles},
    {"conflict", "slm.conflict.v1", kConflictKeys, kConflictRoles},
    {"decision", "slm.decision.v1", kDecisionKeys, kDecisionRoles},
    {"acquisition", "slm.acquisition.v1", kAcquisitionKeys, kAcquisitionRoles},
    {"family-profile", "slm.family-profile.v1", kFamilyKeys, {}},
    {"effective-config", "slm.effective-config-node.v1", kConfigKeys, kConfigRoles},
    {"tensor-ledger", "slm.tensor-ledger.v1", kLedgerKeys, kLedgerRoles},
    {"artifact", "slm.artifact.v1", kArtifactKeys, kArtifactRoles},
    {"tokenizer", "slm.tokenizer.v1", kTokenizerKeys, kOfAcquisition},
    {"template", "slm.template.v1", kTemplateKeys, kOfAcquisition},
    {"runtime-build", "slm.runtime-build.v1", kBuildKeys, {}},
    {"backend-profile", "slm.backend-profile.v1", kBackendKeys, {}},
    {"tolerance-policy", "slm.tolerance-policy-node.v1", kPolicyKeys, {}},
    {"case-suite", "slm.case-suite.v1", kSuiteKeys, {}},
    {"oracle-run", "slm.oracle-run.v1", kOracleKeys, {}},
    {"observation", "slm.observation.v1", kObservationKeys, kObservationRoles},
    {"comparison", "slm.comparison-node.v1", kComparisonKeys, kComparisonRoles},
    {"promotion", "slm.promotion.v1", kPromotionKeys, kPromotionRoles},
};

// A key that holds a hash says what it is the hash of: a blob (identity's table), something outside the
// store (`*sha256`), or the root of an artifact. A new key that says neither would escape fsck and verify.
constexpr bool HashKeysAreClassified() {
  for (const Form& form : kForms) {
    for (const Key& key : form.keys) {
      const bool is_other_hash = key.name.ends_with("sha256") || key.name == "root";
      if (key.kind == Kind::kHash && IsBlobKey(form.type, key.name) == is_other_hash) return false;
    }
  }
  return true;
}
static_assert(HashKeysAreClassified());

const Form* FindForm(std::string_view type) {
  for (const Form& form : kForms) {
    if (form.type == type) return &form;
  }
  return nullptr;
}

bool HasKind(const cbor::Value& value, Kind kind) {
  switch (kind) {
    case Kind::kText:
      return value.AsTextString() != nullptr;
    case Kind::kUint:
      return value.AsUint() != nullptr;
    case Kind::kBool:
      return value.AsBool() != nullptr;
    case Kind::kHash:
      return value.AsHash() != nullptr;
    case Kind::kBytes:
      return value.AsByteString() != nullptr;
    case Kind::kArray:
      return value.AsArray() != nullptr;
    case Kind::kMap:
      return value.AsMap() != nullptr;
    case Kind::kAny:
      return true;
  }
  return false;
}

std::unexpected<Error> BadForm(const Node& node, std::string_view field, std::string what) {
  return Fail(MakeError(ErrorCode::kGraphSchema, node.type + ": " + std::move(what)).Field(field));
}

Status CheckKeys(const Node& node, const Form& form) {
  const cbor::Value* schema = node.metadata.Find("schema");
  if (schema == nullptr || schema->AsTextString() == nullptr || *schema->AsTextString() != form.schema) {
    return BadForm(node, "schema", "expected schema " + std::string(form.schema));
  }
  for (const Key& key : form.keys) {
    const cbor::Value* value = node.metadata.Find(key.name);
    if (value == nullptr) {
      if (!key.required) continue;
      return BadForm(node, key.name, "a required key is absent");
    }
    if (!HasKind(*value, key.kind)) return BadForm(node, key.name, "a value of the wrong kind");
  }
  for (const auto& [name, value] : node.metadata) {
    if (name == "schema") continue;
    const auto known = [&name](const Key& key) { return key.name == name; };
    if (std::none_of(form.keys.begin(), form.keys.end(), known)) return BadForm(node, name, "an unknown key");
  }
  return {};
}

Status CheckRoles(const Node& node, const Form& form) {
  for (const Edge& edge : node.edges) {
    const auto known = [&edge](const Role& role) { return role.name == edge.role; };
    if (std::none_of(form.roles.begin(), form.roles.end(), known))
      return BadForm(node, edge.role, "an unknown role");
  }
  for (const Role& role : form.roles) {
    const uint64_t n = node.Children(role.name).size();
    if (n < role.at_least) {
      return Fail(
          MakeError(ErrorCode::kGraphMissingChild,
                    node.type + ": no child of role " + std::string(role.name) + ", the schema needs one")
              .Field(role.name));
    }
    if (n > role.at_most) return BadForm(node, role.name, "too many children of this role");
  }
  return {};
}

}  // namespace

Status CheckNodeForm(const Node& node) {
  const Form* form = FindForm(node.type);
  if (form == nullptr) return BadForm(node, "type", "this type has no place under a promotion");
  SLM_TRY(CheckKeys(node, *form));
  return CheckRoles(node, *form);
}

bool ChildTypeFits(const Node& node, std::string_view role, std::string_view child_type) {
  const Form* form = FindForm(node.type);
  if (form == nullptr) return false;
  for (const Role& known : form->roles) {
    if (known.name == role) return known.child_type == child_type;
  }
  return false;
}

}  // namespace slm::evidence
