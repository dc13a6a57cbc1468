// Tolerance policies (TOL-01, TOL-02, TOL-03, TOL-04): strict JSON files under profiles/tolerance/, frozen
// and content-addressed. docs/spec/tolerance.md describes the file and its ceilings.
//
// A limit never stands alone: the file also states what it was calibrated from, and parsing refuses a
// limit looser than that evidence allows (TOL-02) or above the ceiling that is compiled in here.
// A Policy is plain data, usable from any thread.
#ifndef SLM_COMPARE_POLICY_H_
#define SLM_COMPARE_POLICY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::compare {

enum class RuleKind : uint8_t {
  kExact,    // equal bits, -0 and +0 apart
  kUlp,      // at most max_ulp units in the last place
  kBounded,  // |c - r| <= atol + rtol * max(|c|, |r|), elementwise
};

struct Rule {
  RuleKind kind = RuleKind::kExact;
  double atol = 0;
  double rtol = 0;
  double relative_floor = 0;  // relative error is recorded where max(|c|, |r|) >= this
  uint64_t max_ulp = 0;
};

// What no policy may pass for one role.
struct Ceiling {
  double atol = 0;
  double rtol = 0;
  uint64_t max_ulp = 0;
};

struct Policy {
  std::string name;      // "exact-v1-f32"
  uint64_t version = 0;  // raised whenever a limit changes (TOL-03)
  std::string profile;   // evaluation profile of the candidate, "exact-v1"
  // What the limits were calibrated for (TOL-04): identities of sources (golden.md), and backends by name.
  bool any_source = false;  // a general policy: for sources that have none of their own
  std::vector<Hash256> sources;
  std::vector<std::string> backends;
  bool between_candidates = false;                 // the reference is another candidate, not an oracle
  std::string factor_reason;                       // why the factors of the bases are what they are
  std::map<std::string, Rule, std::less<>> rules;  // by role; one for each of NumericRoles()
  double margin_e = 0;            // TOL-04: bound on a candidate logit's distance from the oracle's
  uint64_t unstable_cap_ppm = 0;  // share of unstable tokens, parts per million
  Hash256 file_sha256{};          // of the file's bytes

  [[nodiscard]] bool IsForSource(const Hash256& source) const;
  [[nodiscard]] bool IsForBackend(std::string_view backend) const;

  // REQUIRES: role is one of NumericRoles().
  [[nodiscard]] const Rule& ForRole(std::string_view role) const;
};

// The policies under profiles/tolerance/ as this program carries them, in order of file name: the bytes of
// each file. They say what a name and version mean, wherever the program runs.
[[nodiscard]] std::span<const std::string_view> ShippedPolicies();
// The shipped policy for this source and backend: one that names the source before a general one; null if
// there is none. `between_candidates`: for a candidate against another one.
[[nodiscard]] std::optional<Policy> ShippedPolicyFor(const Hash256& source, std::string_view backend,
                                                     bool between_candidates = false);
// Of a shipped policy with this name and version; nothing if none has both.
[[nodiscard]] std::optional<Hash256> ShippedPolicyHash(std::string_view name, uint64_t version);

[[nodiscard]] Ceiling CeilingForRole(std::string_view role);
inline constexpr double kMarginCeiling = 1e-2;
inline constexpr uint64_t kUnstableCapCeilingPpm = 10000;  // 1 %
inline constexpr double kFactorCeiling = 16;

// Errors: JSON codes; POL-SCHEMA with the field for a file of the wrong form; POL-CEILING for a limit
// above its ceiling or looser than its own evidence.
[[nodiscard]] Result<Policy> ParsePolicy(std::string_view json_text);

}  // namespace slm::compare

#endif  // SLM_COMPARE_POLICY_H_
