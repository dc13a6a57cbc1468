// Compares a candidate's observations with an oracle's, level by level (LVL-01, TOL, BIS-01).
//
// Input is golden containers and a policy, nothing else: what produced them is unknown here. The result
// is a pure function of the bytes, so whoever holds the raw arrays gets the same verdicts again.
// Levels never repair or average each other. Golden containers outlive the call, not the result.
#ifndef SLM_COMPARE_COMPARE_H_
#define SLM_COMPARE_COMPARE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compare/arrays.h"
#include "compare/policy.h"
#include "compare/stages.h"
#include "golden/golden.h"

namespace slm::compare {

enum class Verdict : uint8_t { kPass, kFail, kError, kUnstable, kNotClaimed };
[[nodiscard]] std::string_view VerdictName(Verdict verdict);  // "pass", ..., "not-claimed"

// The oracle's containers; `reference` is required, the others feed the truth rule and the curves.
struct Evidence {
  const golden::Golden* reference = nullptr;
  const golden::Golden* source = nullptr;
  const golden::Golden* truth = nullptr;
};

// One place where candidate and reference differ by more than the rule allows.
struct Difference {
  int64_t order = 0;  // BIS-01; smaller comes first
  Level level = Level::kL0;
  std::string case_id;                 // empty outside the cases
  std::string place;                   // "layers.3.attn.q_rope", "tokens", "config.rms_norm_eps"
  std::vector<uint64_t> index;         // logical: positions and columns of the whole, not of the slice
  std::optional<uint64_t> flat_index;  // in the stored array
  std::string reference;               // value as text
  std::string candidate;
  std::string reference_bits;  // hexadecimal; empty where there are none
  std::string candidate_bits;
  std::string code;  // "NONFINITE", "CMP-SHAPE"; empty for a plain breach
  std::string what;
};

// One float or bit array against the reference.
struct ArrayResult {
  std::string case_id;  // empty outside the cases
  std::string name;
  Stage stage;
  Verdict verdict = Verdict::kPass;
  std::string code;
  ArrayStats stats;
  std::vector<uint64_t> first_failing_index;  // logical
  // Largest distance from truth, where truth has the same array.
  std::optional<double> truth_error_candidate;
  std::optional<double> truth_error_reference;
  std::optional<double> truth_error_source;
};

// Greedy tokens of one case against the reference's (TOL-04).
struct TokenResult {
  std::string case_id;
  Verdict verdict = Verdict::kPass;
  uint64_t n_reference = 0;
  uint64_t n_candidate = 0;
  uint64_t n_compared = 0;                   // up to and including the first divergence
  std::optional<uint64_t> first_divergence;  // token index
  std::optional<double> margin;              // the oracle's gap there
  std::string stop_reference;
  std::string stop_candidate;
};

struct LevelResult {
  Level level = Level::kL0;
  Verdict verdict = Verdict::kNotClaimed;
  uint64_t n_checks = 0;
  uint64_t n_pass = 0;
  uint64_t n_fail = 0;
  uint64_t n_error = 0;
  uint64_t n_unstable = 0;
  uint64_t n_skipped = 0;  // cases whose prompt already differed at L1 or L2
  uint64_t n_bit_equal = 0;
  double worst_abs = 0;  // largest |c - r| of the level's arrays
  std::string summary;   // one line
  std::optional<Difference> first;
};

// ORA-02: the candidate may be no farther from truth than the publisher's own way of running it.
struct TruthResult {
  Verdict verdict = Verdict::kNotClaimed;
  uint64_t n_arrays = 0;
  double candidate = 0;  // largest error of the logits over the whole set
  double reference = 0;
  double source = 0;
  std::string summary;
};

struct Comparison {
  std::string policy_name;
  uint64_t policy_version = 0;
  Hash256 policy_sha256{};
  double margin_e = 0;
  std::array<LevelResult, kLevelCount> levels;
  TruthResult truth;
  std::vector<ArrayResult> arrays;  // in the order of the chain within each case
  std::vector<TokenResult> tokens;
  uint64_t n_tokens_compared = 0;
  uint64_t n_tokens_unstable = 0;
  std::optional<Difference> first;  // of all levels, in the order of BIS-01
};

// The reference may be another candidate, alone: two backends against each other.
// Errors: USAGE if there is no reference, a container stands in the place of another mode, or two containers
// of the evidence are not of one source; GLD-SCHEMA for arrays of another precision than the mode's;
// POL-SCOPE for a policy of another source, backend or profile.
[[nodiscard]] Result<Comparison> Compare(const Evidence& evidence, const golden::Golden& candidate,
                                         const Policy& policy);

// The shipped policy for this comparison: by the reference's source, the candidate's backend, and whether the
// reference is another candidate. Error: USAGE if there is none.
[[nodiscard]] Result<Policy> PolicyFor(const Evidence& evidence, const golden::Golden& candidate);

// What a candidate must be, known without an oracle: from the artifact and the cases file.
struct Subject {
  std::map<std::string, Hash256, std::less<>> identities;  // "source", "artifact", "tokenizer", "template"
  std::vector<std::string> case_ids;                       // of the suite
};
// Without evidence: L0 is computed, every other level is not claimed and says what it would need.
[[nodiscard]] Comparison CompareWithoutEvidence(const Subject& subject, const golden::Golden& candidate,
                                                const Policy& policy);

// Sorts `containers` into the roles of Evidence by their mode. Error: USAGE for two of one mode, or a
// candidate's container.
[[nodiscard]] Result<Evidence> SortEvidence(const std::vector<const golden::Golden*>& containers);

// The whole result as deterministic CBOR (docs/spec/comparison.md). Doubles are 8-byte strings, IEEE 754
// little-endian.
[[nodiscard]] cbor::Value EncodeComparison(const Comparison& comparison);

// "L5 at layers.0.attn.q[3, 1, 7] of case c1: ..." on one line.
[[nodiscard]] std::string DifferenceText(const Difference& difference);

// For --json.
[[nodiscard]] std::string ComparisonToJson(const Comparison& comparison);
// For people: the level table, the first difference, the truth line.
[[nodiscard]] std::string ComparisonToText(const Comparison& comparison);

}  // namespace slm::compare

#endif  // SLM_COMPARE_COMPARE_H_
