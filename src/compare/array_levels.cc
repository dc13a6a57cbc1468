// L3 (frequencies), L5, L6 and L7 over the arrays, and the truth rule.
#include <algorithm>

#include "compare/levels.h"

namespace slm::compare {
namespace {

using golden::Case;
using golden::Golden;
using golden::Observation;

std::string BitsText(uint64_t bits, golden::DType type) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const int n_digits = type == golden::DType::kF64 ? 16 : type == golden::DType::kBf16 ? 4 : 8;
  std::string out(static_cast<size_t>(n_digits), '0');
  for (int i = n_digits - 1; i >= 0; --i) {
    out[static_cast<size_t>(i)] = kDigits[bits & 15];
    bits >>= 4;
  }
  return out;
}

bool IsFloatType(golden::DType type) {
  return type == golden::DType::kF32 || type == golden::DType::kF64 || type == golden::DType::kBf16;
}

// What a comparison of two observations of one name needs; `case_id` is empty outside the cases.
struct Pair {
  const Golden* reference;
  const Observation* expected;
  const Golden* candidate;
  const Observation* actual;
  std::string case_id;
};

ArrayOutcome ComparePair(const Pair& pair, const Rule& rule) {
  const ArrayView expected = ViewOf(*pair.reference, *pair.expected);
  const ArrayView actual = ViewOf(*pair.candidate, *pair.actual);
  if (!SameSlice(*pair.expected, *pair.actual)) {
    ArrayOutcome outcome;
    outcome.code = ErrorCode::kCmpShape;
    outcome.what = "the two sides keep other rows, columns or layouts";
    return outcome;
  }
  if (IsFloatType(expected.type)) return CompareFloats(expected, actual, rule);
  return CompareExact(expected, actual);
}

Difference DescribeFailure(const ArrayResult& result, const ArrayOutcome& outcome, const Pair& pair) {
  Difference difference;
  difference.level = result.stage.level;
  difference.order = result.stage.order;
  difference.case_id = result.case_id;
  difference.place = result.name;
  difference.code = result.code;
  difference.what = outcome.what;
  if (const auto& at = outcome.stats.first_failing) {
    difference.index = result.first_failing_index;
    difference.flat_index = at->flat_index;
    difference.reference = NumberText(at->reference);
    difference.candidate = NumberText(at->candidate);
    difference.reference_bits = BitsText(at->reference_bits, pair.expected->dtype);
    difference.candidate_bits = BitsText(at->candidate_bits, pair.actual->dtype);
  }
  return difference;
}

std::optional<double> TruthError(const Golden* truth, const Case* truth_case, const Golden* side,
                                 const Observation* observation) {
  if (truth == nullptr || truth_case == nullptr || side == nullptr || observation == nullptr)
    return std::nullopt;
  const Observation* exact = truth_case->Find(observation->name);
  if (exact == nullptr || !SameSlice(*exact, *observation)) return std::nullopt;
  const auto error = MaxAbsError(ViewOf(*truth, *exact), ViewOf(*side, *observation));
  if (!error.has_value()) return std::nullopt;
  return *error;
}

void ComparePlaces(const Pair& pair, const Stage& stage, const Policy& policy, ArrayResult* result,
                   Book* book) {
  const ArrayOutcome outcome = ComparePair(pair, policy.ForRole(stage.role));
  result->stats = outcome.stats;
  if (outcome.stats.first_failing) {
    result->first_failing_index = LogicalIndex(*pair.expected, outcome.stats.first_failing->flat_index);
  }
  LevelResult& level = book->level(stage.level);
  level.worst_abs = std::max(level.worst_abs, outcome.stats.max_abs);
  if (outcome.stats.n_bits_differ == 0 && outcome.pass) ++level.n_bit_equal;
  if (outcome.pass) {
    result->verdict = Verdict::kPass;
    book->Pass(stage.level);
    return;
  }
  if (outcome.code) result->code = std::string(Info(*outcome.code).name);
  // A nonfinite value is a failure of the run; a shape that does not fit could not be compared at all.
  result->verdict = outcome.code == ErrorCode::kCmpShape ? Verdict::kError : Verdict::kFail;
  book->Enter(result->verdict, DescribeFailure(*result, outcome, pair));
}

void EnterMissing(const Observation& expected, const Stage& stage, const std::string& case_id, Book* book) {
  Difference difference;
  difference.level = stage.level;
  difference.order = stage.order;
  difference.case_id = case_id;
  difference.place = expected.name;
  difference.code = "CMP-MISSING";
  difference.what = "the candidate lacks this observation";
  book->Enter(Verdict::kError, std::move(difference));
}

bool IsTopK(std::string_view name) {
  return name.starts_with("top_k.");
}

// Observations of one case in the order of the chain.
std::vector<std::pair<Stage, const Observation*>> InOrder(const std::vector<Observation>& observations) {
  std::vector<std::pair<Stage, const Observation*>> ordered;
  for (const Observation& observation : observations) {
    if (IsTopK(observation.name)) continue;
    if (auto stage = ParseStage(observation.name)) ordered.emplace_back(*std::move(stage), &observation);
  }
  // Names are distinct and stages are one to one with them, so the order is total.
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return ordered;
}

void CompareCase(const Evidence& evidence, const Golden& candidate, const Policy& policy,
                 const Case& expected, const Case& actual, Book* book) {
  const auto find_case = [&expected](const Golden* golden) {
    return golden == nullptr ? nullptr : golden->content().FindCase(expected.case_id);
  };
  const Case* truth_case = find_case(evidence.truth);
  const Case* source_case = find_case(evidence.source);
  for (const auto& [stage, observation] : InOrder(expected.observations)) {
    if (book->PromptDiffers(expected.case_id)) {
      book->Skip(stage.level);
      continue;
    }
    const Observation* other = actual.Find(observation->name);
    if (other == nullptr) {
      EnterMissing(*observation, stage, expected.case_id, book);
      continue;
    }
    ArrayResult result;
    result.case_id = expected.case_id;
    result.name = observation->name;
    result.stage = stage;
    const Pair pair = {evidence.reference, observation, &candidate, other, expected.case_id};
    ComparePlaces(pair, stage, policy, &result, book);
    if (IsFloatType(observation->dtype)) {
      result.truth_error_candidate = TruthError(evidence.truth, truth_case, &candidate, other);
      result.truth_error_reference = TruthError(evidence.truth, truth_case, evidence.reference, observation);
      const Observation* source = source_case == nullptr ? nullptr : source_case->Find(observation->name);
      result.truth_error_source = TruthError(evidence.truth, truth_case, evidence.source, source);
    }
    book->comparison().arrays.push_back(std::move(result));
  }
  if (!book->PromptDiffers(expected.case_id)) {
    CompareTopK(*evidence.reference, expected, candidate, actual, policy.margin_e, book);
  }
}

void CompareModelArrays(const Evidence& evidence, const Golden& candidate, const Policy& policy, Book* book) {
  for (const auto& [stage, observation] : InOrder(evidence.reference->content().model_observations)) {
    const Observation* other = candidate.FindModelObservation(observation->name);
    if (other == nullptr) {
      EnterMissing(*observation, stage, "", book);
      continue;
    }
    ArrayResult result;
    result.name = observation->name;
    result.stage = stage;
    const Pair pair = {evidence.reference, observation, &candidate, other, ""};
    ComparePlaces(pair, stage, policy, &result, book);
    book->comparison().arrays.push_back(std::move(result));
  }
}

}  // namespace

ArrayView ViewOf(const Golden& golden, const Observation& observation) {
  return ArrayView{
      .type = observation.dtype, .shape = observation.shape, .bytes = golden.BlobBytes(observation.blob)};
}

bool SameSlice(const Observation& a, const Observation& b) {
  return a.layout == b.layout && a.shape == b.shape && a.rows == b.rows && a.columns == b.columns &&
         a.full_columns == b.full_columns;
}

std::vector<uint64_t> LogicalIndex(const Observation& observation, uint64_t flat_index) {
  const uint64_t first_row = observation.rows ? observation.rows->begin : 0;
  if (observation.layout == golden::Layout::kPackedCausal) {
    const uint64_t n_packed = observation.shape.back();
    uint64_t rest = flat_index % n_packed;
    uint64_t query = first_row;
    while (rest > query) {  // row `query` holds query + 1 values
      rest -= query + 1;
      ++query;
    }
    return {flat_index / n_packed, query, rest};
  }
  std::vector<uint64_t> index(observation.shape.size());
  for (size_t i = index.size(); i > 0; --i) {
    index[i - 1] = flat_index % observation.shape[i - 1];
    flat_index /= observation.shape[i - 1];
  }
  index.front() += first_row;
  if (observation.columns) index.back() += observation.columns->begin;
  return index;
}

void CompareArrays(const Evidence& evidence, const Golden& candidate, const Policy& policy, Book* book) {
  CompareModelArrays(evidence, candidate, policy, book);
  for (const Case& expected : evidence.reference->cases()) {
    if (expected.case_class != golden::CaseClass::kPublicMechanical) continue;
    const Case* actual = candidate.content().FindCase(expected.case_id);
    if (actual == nullptr) continue;  // an error of L0 already
    CompareCase(evidence, candidate, policy, expected, *actual, book);
  }
}

void CompareTruth(const Evidence& evidence, Book* book) {
  TruthResult& truth = book->comparison().truth;
  if (evidence.truth == nullptr || evidence.source == nullptr) {
    truth.summary = evidence.truth == nullptr ? "no evidence of mode truth" : "no evidence of mode source";
    return;
  }
  for (const ArrayResult& result : book->comparison().arrays) {
    if (result.name != "logits") continue;
    if (!result.truth_error_candidate || !result.truth_error_reference || !result.truth_error_source) {
      // Neither a nonfinite candidate nor a container without these logits leaves a case out of the maximum.
      truth.verdict = Verdict::kError;
      if (truth.summary.empty()) {
        truth.summary = "the logits of case " + result.case_id + " have no distance from truth of " +
                        (!result.truth_error_reference ? "the reference"
                         : !result.truth_error_source  ? "the source"
                                                       : "the candidate");
      }
      continue;
    }
    ++truth.n_arrays;
    truth.candidate = std::max(truth.candidate, *result.truth_error_candidate);
    truth.reference = std::max(truth.reference, *result.truth_error_reference);
    truth.source = std::max(truth.source, *result.truth_error_source);
  }
  if (truth.verdict == Verdict::kError) return;
  if (truth.n_arrays == 0) {
    truth.verdict = Verdict::kError;
    truth.summary = "truth and source were given, and no case has logits that can be compared";
    return;
  }
  truth.verdict = truth.candidate <= truth.source ? Verdict::kPass : Verdict::kFail;
  truth.summary = "largest error of the logits against truth: candidate " + RoundedText(truth.candidate) +
                  ", source-faithful " + RoundedText(truth.source) + ", reference " +
                  RoundedText(truth.reference);
}

}  // namespace slm::compare
