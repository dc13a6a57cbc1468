#include "compare/policy.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "codec/json.h"
#include "codec/sha256.h"
#include "compare/stages.h"

namespace slm::compare {
namespace {

constexpr uint64_t kMaxPolicyBytes = uint64_t{1} << 20;

std::unexpected<Error> Bad(const json::Value& at, std::string message) {
  return Fail(MakeError(ErrorCode::kPolSchema, std::move(message)).At(at.byte_offset()).Field(at.Path()));
}
std::unexpected<Error> TooLoose(const json::Value& at, std::string message) {
  return Fail(MakeError(ErrorCode::kPolCeiling, std::move(message)).At(at.byte_offset()).Field(at.Path()));
}

Status OnlyKeys(const json::Value& object, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return Bad(object, "expected an object");
  for (json::Value member : object.children()) {
    if (std::find(known.begin(), known.end(), member.key()) == known.end()) {
      return Bad(member, "a key that the policy schema does not have; remove it");
    }
  }
  return {};
}

Result<json::Value> Require(const json::Value& object, std::string_view key) {
  if (auto member = object.Find(key)) return *member;
  return Fail(MakeError(ErrorCode::kPolSchema, "missing key \"" + std::string(key) + "\"")
                  .At(object.byte_offset())
                  .Field(object.Path() + "." + std::string(key)));
}

Result<std::string> Text(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(json::Value member, Require(object, key));
  if (!member.is_string() || member.string().empty()) return Bad(member, "expected text");
  return std::string(member.string());
}

Result<uint64_t> Uint(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(json::Value member, Require(object, key));
  if (!member.is_number() || !member.AsUint()) return Bad(member, "expected an integer of at least 0");
  return *member.AsUint();
}

// A finite number of at least zero.
Result<double> Limit(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(json::Value member, Require(object, key));
  if (!member.is_number() || !member.AsDouble() || !(*member.AsDouble() >= 0)) {
    return Bad(member, "expected a finite number of at least 0");
  }
  return *member.AsDouble();
}

// The three grounds of TOL-02 for one limit; the limit may not pass the largest.
struct Basis {
  double permitted = 0;         // the governing spec's permitted error
  double oracle_variation = 0;  // reproducible variation of the oracle
  double observed = 0;          // error of the intended algorithm
  double factor = 0;            // declared factor on it

  [[nodiscard]] double Bound() const { return std::max({permitted, oracle_variation, observed * factor}); }
};

Result<Basis> ParseBasis(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(json::Value member, Require(object, key));
  SLM_TRY(OnlyKeys(member, {"permitted", "oracle_variation", "observed", "factor"}));
  Basis basis;
  SLM_ASSIGN(basis.permitted, Limit(member, "permitted"));
  SLM_ASSIGN(basis.oracle_variation, Limit(member, "oracle_variation"));
  SLM_ASSIGN(basis.observed, Limit(member, "observed"));
  SLM_ASSIGN(basis.factor, Limit(member, "factor"));
  if (basis.factor > kFactorCeiling) return TooLoose(member, "the factor on the observed error is above 16");
  return basis;
}

Result<double> GroundedLimit(const json::Value& object, std::string_view key, std::string_view basis_key,
                             double ceiling) {
  SLM_ASSIGN(double limit, Limit(object, key));
  SLM_ASSIGN(Basis basis, ParseBasis(object, basis_key));
  const json::Value at = *object.Find(key);
  if (limit > ceiling) return TooLoose(at, "the limit is above the ceiling that no policy may pass");
  if (limit > basis.Bound()) {
    return TooLoose(
        at, "the limit is looser than the largest of permitted, oracle_variation, and observed * factor");
  }
  return limit;
}

Result<Rule> ParseRule(const json::Value& object, std::string_view role) {
  const Ceiling ceiling = CeilingForRole(role);
  SLM_ASSIGN(std::string kind, Text(object, "kind"));
  Rule rule;
  if (kind == "exact") {
    SLM_TRY(OnlyKeys(object, {"role", "kind"}));
    rule.kind = RuleKind::kExact;
    return rule;
  }
  if (kind == "ulp") {
    SLM_TRY(OnlyKeys(object, {"role", "kind", "max_ulp"}));
    rule.kind = RuleKind::kUlp;
    SLM_ASSIGN(rule.max_ulp, Uint(object, "max_ulp"));
    if (rule.max_ulp > ceiling.max_ulp) {
      return TooLoose(*object.Find("max_ulp"), "the limit is above the ceiling that no policy may pass");
    }
    return rule;
  }
  if (kind == "bounded") {
    SLM_TRY(OnlyKeys(object, {"role", "kind", "atol", "rtol", "relative_floor", "atol_basis", "rtol_basis"}));
    rule.kind = RuleKind::kBounded;
    SLM_ASSIGN(rule.atol, GroundedLimit(object, "atol", "atol_basis", ceiling.atol));
    SLM_ASSIGN(rule.rtol, GroundedLimit(object, "rtol", "rtol_basis", ceiling.rtol));
    SLM_ASSIGN(rule.relative_floor, Limit(object, "relative_floor"));
    return rule;
  }
  return Bad(*object.Find("kind"), "kind is one of exact, ulp, bounded");
}

// {"sources": "any" or hashes, "backends": names; optional "reference": "candidate"}
Status ParseScope(const json::Value& root, Policy* policy) {
  SLM_ASSIGN(json::Value scope, Require(root, "applies_to"));
  SLM_TRY(OnlyKeys(scope, {"sources", "backends", "reference"}));
  SLM_ASSIGN(json::Value sources, Require(scope, "sources"));
  if (sources.is_string() && sources.string() == "any") {
    policy->any_source = true;
  } else {
    if (!sources.is_array())
      return Bad(sources, "expected \"any\", or an array of at least one source identity");
    for (json::Value source : sources.children()) {
      Hash256 hash{};
      if (!source.is_string() || !HashFromHex(source.string(), &hash))
        return Bad(source, "expected 64 hexadecimal digits");
      policy->sources.push_back(hash);
    }
    if (policy->sources.empty()) return Bad(sources, "a policy for no source; name one, or say \"any\"");
  }
  SLM_ASSIGN(json::Value backends, Require(scope, "backends"));
  if (!backends.is_array()) return Bad(backends, "expected an array of backends");
  for (json::Value backend : backends.children()) {
    if (!backend.is_string() || backend.string().empty()) return Bad(backend, "expected text");
    policy->backends.emplace_back(backend.string());
  }
  if (policy->backends.empty()) return Bad(backends, "a policy for no backend; name one");
  if (const auto reference = scope.Find("reference")) {
    if (!reference->is_string() || reference->string() != "candidate")
      return Bad(*reference, "reference is \"candidate\", or absent: an oracle");
    policy->between_candidates = true;
  }
  return {};
}

}  // namespace

bool Policy::IsForSource(const Hash256& source) const {
  return any_source || std::find(sources.begin(), sources.end(), source) != sources.end();
}

bool Policy::IsForBackend(std::string_view backend) const {
  return std::find(backends.begin(), backends.end(), backend) != backends.end();
}

std::optional<Policy> ShippedPolicyFor(const Hash256& source, std::string_view backend,
                                       bool between_candidates) {
  std::optional<Policy> general;
  for (std::string_view text : ShippedPolicies()) {
    auto policy = ParsePolicy(text);
    if (!policy.has_value() || !policy->IsForSource(source) || !policy->IsForBackend(backend)) continue;
    if (policy->between_candidates != between_candidates) continue;
    if (!policy->any_source) return *std::move(policy);
    general = *std::move(policy);
  }
  return general;
}

std::optional<Hash256> ShippedPolicyHash(std::string_view name, uint64_t version) {
  for (std::string_view text : ShippedPolicies()) {
    const auto policy = ParsePolicy(text);
    if (policy.has_value() && policy->name == name && policy->version == version) return policy->file_sha256;
  }
  return std::nullopt;
}

const Rule& Policy::ForRole(std::string_view role) const {
  return rules.find(role)->second;
}

Ceiling CeilingForRole(std::string_view role) {
  // Ids, masks and the embedding rows are copies: nothing may widen them. The frequencies of one base
  // differ by one unit between processors in the source itself.
  if (role == "embed" || role == "attn.mask") return {};
  if (role == "rope.inv_freq") return {.atol = 0, .rtol = 0, .max_ulp = 1};
  // A probability lies in [0, 1]. 1e-4 is far below what a masked or shifted position changes.
  if (role == "attn.probs") return {.atol = 1e-4, .rtol = 1e-3, .max_ulp = 4};
  // GELU and its tanh form differ by up to 4.7e-4: the activated product may never hide that.
  if (role == "mlp.act") return {.atol = 2e-3, .rtol = 1e-4, .max_ulp = 4};
  if (role == "logits") return {.atol = 1e-2, .rtol = 1e-4, .max_ulp = 4};
  // Residual streams of trained models carry single channels in the thousands, whose rounding reaches
  // every product that follows.
  if (role == "attn_residual" || role == "output" || role == "mlp.down") {
    return {.atol = 2e-2, .rtol = 1e-4, .max_ulp = 4};
  }
  return {.atol = 5e-3, .rtol = 1e-4, .max_ulp = 4};
}

Result<Policy> ParsePolicy(std::string_view json_text) {
  SLM_ASSIGN(json::Document document,
             json::Parse(std::string(json_text), {.max_bytes = kMaxPolicyBytes, .max_depth = 8}));
  const json::Value root = document.root();
  SLM_TRY(OnlyKeys(root, {"schema", "name", "version", "profile", "applies_to", "note", "factor_reason",
                          "margin_e", "margin_e_basis", "unstable_cap_ppm", "rules"}));
  SLM_ASSIGN(std::string schema, Text(root, "schema"));
  if (schema != "slm.tolerance-policy.v1") return Bad(*root.Find("schema"), "not slm.tolerance-policy.v1");
  Policy policy;
  SLM_ASSIGN(policy.name, Text(root, "name"));
  SLM_ASSIGN(policy.version, Uint(root, "version"));
  SLM_ASSIGN(policy.profile, Text(root, "profile"));
  SLM_TRY(ParseScope(root, &policy));
  SLM_ASSIGN(policy.factor_reason, Text(root, "factor_reason"));
  SLM_ASSIGN(policy.margin_e, GroundedLimit(root, "margin_e", "margin_e_basis", kMarginCeiling));
  SLM_ASSIGN(policy.unstable_cap_ppm, Uint(root, "unstable_cap_ppm"));
  if (policy.unstable_cap_ppm > kUnstableCapCeilingPpm) {
    return TooLoose(*root.Find("unstable_cap_ppm"),
                    "the share of unstable tokens is capped at 10000 ppm (1 %)");
  }
  SLM_ASSIGN(json::Value rules, Require(root, "rules"));
  if (!rules.is_array()) return Bad(rules, "expected an array");
  const std::vector<std::string_view>& roles = NumericRoles();
  for (json::Value entry : rules.children()) {
    if (!entry.is_object()) return Bad(entry, "expected an object");
    SLM_ASSIGN(std::string role, Text(entry, "role"));
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      return Bad(*entry.Find("role"), "not a role of docs/spec/tolerance.md");
    }
    SLM_ASSIGN(Rule rule, ParseRule(entry, role));
    if (!policy.rules.emplace(role, rule).second) return Bad(entry, "a second rule for this role");
  }
  for (std::string_view role : roles) {
    if (!policy.rules.contains(role)) {
      return Bad(rules, "no rule for role \"" + std::string(role) + "\"; every role needs one");
    }
  }
  policy.file_sha256 = Sha256Of(AsBytes(json_text));
  return policy;
}

}  // namespace slm::compare
