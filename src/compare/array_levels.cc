// L3 (frequencies), L5, L6 and L7 over the arrays, and the truth rule.
#include <algorithm>
#include <set>

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
  const auto actual = ViewLike(*pair.expected, *pair.candidate, *pair.actual);
  if (!actual) {
    ArrayOutcome outcome;
    outcome.code = ErrorCode::kCmpShape;
    outcome.what = "the candidate lacks rows or columns that the reference keeps, or has another layout";
    return outcome;
  }
  if (IsFloatType(expected.type)) return CompareFloats(expected, actual->view, rule);
  return CompareExact(expected, actual->view);
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
  if (exact == nullptr) return std::nullopt;
  const auto aligned = ViewLike(*exact, *side, *observation);
  if (!aligned) return std::nullopt;
  const auto error = MaxAbsError(ViewOf(*truth, *exact), aligned->view);
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

namespace {

// Rows [begin, begin + count) of a list of rows that starts at `held`.
std::optional<golden::Interval> Within(const golden::Interval& wanted, const golden::Interval& held) {
  if (wanted.begin < held.begin || wanted.begin - held.begin > held.count ||
      wanted.count > held.count - (wanted.begin - held.begin)) {
    return std::nullopt;
  }
  return golden::Interval{wanted.begin - held.begin, wanted.count};
}

// Bytes of a run of `n` elements of the type; rows of bits fill whole bytes.
uint64_t RunBytes(golden::DType type, uint64_t n) {
  return *ArrayBytes(type, {1, n});
}

// Blocks of `stride` bytes, of each of which `take` bytes from `skip` on are kept.
void AppendPart(ByteSpan bytes, uint64_t stride, uint64_t skip, uint64_t take, Bytes* out) {
  if (stride == 0) return;
  for (uint64_t at = 0; at + stride <= bytes.size(); at += stride) {
    const ByteSpan part = bytes.subspan(at + skip, take);
    out->insert(out->end(), part.begin(), part.end());
  }
}

// [heads, n (n + 1) / 2]: row t of a head holds t + 1 values. The extent of whole rows in packed values.
std::optional<golden::Interval> PackedExtent(const Observation& observation) {
  constexpr uint64_t kMaxRow = uint64_t{1} << 31;
  const uint64_t n_packed = observation.shape.back();
  if (!observation.rows) return golden::Interval{0, n_packed};
  const auto start = [](uint64_t t) { return t * (t + 1) / 2; };
  const golden::Interval rows = *observation.rows;
  if (rows.begin > kMaxRow || rows.count > kMaxRow) return std::nullopt;
  const uint64_t begin = start(rows.begin);
  if (start(rows.begin + rows.count) - begin != n_packed) return std::nullopt;
  return golden::Interval{begin, n_packed};
}

std::optional<AlignedView> PackedLike(const Observation& expected, const Golden& side,
                                      const Observation& actual) {
  if (!expected.rows || expected.shape.size() != 2 || expected.shape[0] != actual.shape[0])
    return std::nullopt;  // all rows of one side are all rows of the other, or another prompt ran
  const auto wanted = PackedExtent(expected);
  const auto held = PackedExtent(actual);
  const auto part = wanted && held ? Within(*wanted, *held) : std::nullopt;
  if (!part) return std::nullopt;
  AlignedView out;
  AppendPart(side.BlobBytes(actual.blob), RunBytes(actual.dtype, held->count),
             RunBytes(actual.dtype, part->begin), RunBytes(actual.dtype, part->count), &out.bytes);
  return out;
}

std::optional<AlignedView> RowsLike(const Observation& expected, const Golden& side,
                                    const Observation& actual) {
  const size_t rank = expected.shape.size();
  // Axes between the first and the last are never cut.
  for (size_t axis = 1; axis + 1 < rank; ++axis) {
    if (expected.shape[axis] != actual.shape[axis]) return std::nullopt;
  }
  const auto columns_of = [](const Observation& o) {
    return o.columns.value_or(golden::Interval{0, o.shape.back()});
  };
  const auto width_of = [](const Observation& o) { return o.columns ? o.full_columns : o.shape.back(); };
  // Ranks are sorted: the first k of more are the k of the other side.
  const bool is_ranked = expected.name.starts_with("top_k.") && !expected.columns && !actual.columns;
  if (rank > 1 && !is_ranked && width_of(expected) != width_of(actual)) return std::nullopt;
  const auto rows_of = [](const Observation& o) {
    return o.rows.value_or(golden::Interval{0, o.shape.front()});
  };
  const auto rows = Within(rows_of(expected), rows_of(actual));
  const auto columns =
      rank > 1 ? Within(columns_of(expected), columns_of(actual)) : std::optional(golden::Interval{0, 1});
  if (!rows || !columns) return std::nullopt;
  if (!expected.rows && (actual.rows || expected.shape[0] != actual.shape[0])) return std::nullopt;
  if (actual.layout == golden::Layout::kPackedBits && (expected.columns || actual.columns)) {
    if (columns->begin != 0 || columns->count != actual.shape.back()) return std::nullopt;
  }
  const uint64_t line = rank > 1 ? RunBytes(actual.dtype, actual.shape.back()) : RunBytes(actual.dtype, 1);
  uint64_t n_lines = 1;  // of one row
  for (size_t axis = 1; axis + 1 < rank; ++axis) n_lines *= actual.shape[axis];
  const ByteSpan kept =
      side.BlobBytes(actual.blob).subspan(rows->begin * n_lines * line, rows->count * n_lines * line);
  AlignedView out;
  const bool whole_lines = rank == 1 || columns->count == actual.shape.back();
  AppendPart(kept, line, whole_lines ? 0 : RunBytes(actual.dtype, columns->begin),
             whole_lines ? line : RunBytes(actual.dtype, columns->count), &out.bytes);
  return out;
}

bool SameSlice(const Observation& a, const Observation& b) {
  return a.layout == b.layout && a.shape == b.shape && a.rows == b.rows && a.columns == b.columns &&
         a.full_columns == b.full_columns;
}

}  // namespace

std::optional<AlignedView> ViewLike(const Observation& expected, const Golden& side,
                                    const Observation& actual) {
  if (SameSlice(expected, actual)) return AlignedView{ViewOf(side, actual), {}};
  if (expected.layout != actual.layout || expected.shape.size() != actual.shape.size() ||
      expected.shape.empty() || actual.shape.back() == 0) {
    return std::nullopt;
  }
  auto aligned = expected.layout == golden::Layout::kPackedCausal ? PackedLike(expected, side, actual)
                                                                  : RowsLike(expected, side, actual);
  if (!aligned) return std::nullopt;
  aligned->view = ArrayView{.type = actual.dtype, .shape = expected.shape, .bytes = aligned->bytes};
  return aligned;
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

namespace {

// Enters what the evidence should hold and does not; of two candidates, who chose what to keep, the level is
// not claimed instead.
class Completeness {
 public:
  Completeness(bool is_evidence, Book* book) : is_evidence_(is_evidence), book_(book) {}

  void Lacks(const std::string& name, const std::string& case_id) {
    const auto stage = ParseStage(name);
    const Level level = stage ? stage->level : Level::kL7;  // top-k
    if (!is_evidence_) {
      book_->Incomplete(level,
                        "the first container lacks " + name + (case_id.empty() ? "" : " of case " + case_id));
      return;
    }
    Difference difference;
    difference.level = level;
    difference.order = stage ? stage->order : Stage::kTopK;
    difference.case_id = case_id;
    difference.place = name;
    difference.code = "CMP-MISSING";
    difference.what = "the evidence lacks this observation; export it again";
    book_->Enter(Verdict::kError, std::move(difference));
  }
  void Require(const Case& one, const std::string& name) {
    if (one.Find(name) == nullptr) Lacks(name, one.case_id);
  }

 private:
  bool is_evidence_;
  Book* book_;
};

bool HoldsLayers(const Case& one) {
  return std::any_of(one.observations.begin(), one.observations.end(),
                     [](const Observation& o) { return o.layer.has_value(); });
}

// A layer between the first and the last of which the case holds something; n / 2 where there is none.
uint64_t MiddleLayer(const Case& one, uint64_t n_layers) {
  for (const Observation& observation : one.observations) {
    if (observation.layer && *observation.layer > 0 && *observation.layer + 1 < n_layers)
      return *observation.layer;
  }
  return n_layers / 2;
}

}  // namespace

void CheckEvidenceComplete(const Evidence& evidence, Book* book) {
  const golden::Content& content = evidence.reference->content();
  Completeness check(content.mode != golden::Mode::kCandidate, book);
  if (evidence.reference->FindModelObservation("rope.inv_freq") == nullptr) check.Lacks("rope.inv_freq", "");
  const golden::ConfigField* field = content.FindConfig("n_layers");
  const uint64_t* n_layers = field == nullptr ? nullptr : field->value.AsUint();
  bool any_layers = false;
  for (const Case& one : content.cases) {
    if (one.case_class != golden::CaseClass::kPublicMechanical) continue;
    for (const char* name : {"logits", "top_k.ids", "top_k.values"}) check.Require(one, name);
    if (!HoldsLayers(one)) continue;
    any_layers = true;
    for (const char* name : {"embed", "final_norm"}) check.Require(one, name);
    if (n_layers == nullptr || *n_layers == 0) continue;
    const std::set<uint64_t> layers = {0, MiddleLayer(one, *n_layers), *n_layers - 1};
    for (const uint64_t layer : layers) {
      for (const std::string_view role : LayerRoles())
        check.Require(one, "layers." + std::to_string(layer) + "." + std::string(role));
    }
  }
  for (const Level level : {Level::kL5, Level::kL6}) {
    if (!any_layers) book->Incomplete(level, "the evidence holds no operator inside a layer");
    if (n_layers == nullptr || *n_layers == 0)
      book->Incomplete(level, "the evidence does not state its number of layers");
  }
}

void CompareTruth(const Evidence& evidence, Book* book) {
  TruthResult& truth = book->comparison().truth;
  if (evidence.truth == nullptr || evidence.source == nullptr) {
    truth.summary = std::string("no evidence of mode ") + (evidence.truth == nullptr ? "truth" : "source") +
                    ", which a whole promotion has; export it with --mode " +
                    (evidence.truth == nullptr ? "truth" : "source");
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
