// L7's stable top-k and L9's greedy tokens: both read the margin rule (TOL-04).
#include <algorithm>
#include <bit>

#include "base/utf8.h"
#include "compare/levels.h"

namespace slm::compare {
namespace {

using golden::Case;
using golden::Generation;
using golden::Golden;
using golden::Observation;

std::string SetText(std::vector<uint32_t> ids) {
  std::string out = "{";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(ids[i]);
  }
  return out + "}";
}

// One row of top-k. Ranks whose reference values follow each other within 2e form a group whose order
// nobody can promise: groups are compared as sets. The last group may go on past rank k and is left out.
struct RowFault {
  uint64_t rank;
  std::string reference, candidate;
};
std::optional<RowFault> CompareRow(const uint32_t* expected, const double* values, const uint32_t* actual,
                                   uint64_t k, double margin_e) {
  uint64_t begin = 0;
  for (uint64_t rank = 1; rank < k; ++rank) {
    if (!(values[rank - 1] - values[rank] > 2 * margin_e)) continue;
    std::vector<uint32_t> mine(expected + begin, expected + rank);
    std::vector<uint32_t> theirs(actual + begin, actual + rank);
    std::sort(mine.begin(), mine.end());
    std::sort(theirs.begin(), theirs.end());
    if (mine != theirs) return RowFault{begin, SetText(std::move(mine)), SetText(std::move(theirs))};
    begin = rank;
  }
  return std::nullopt;
}

Difference TokenDifference(const std::string& case_id, int64_t order, std::string place, std::string what) {
  Difference difference;
  difference.level = Level::kL9;
  difference.order = order;
  difference.case_id = case_id;
  difference.place = std::move(place);
  difference.what = std::move(what);
  return difference;
}

// A differing token where the oracle's gap is m: a contradiction if m > 2e, else nothing can be said.
Verdict MarginVerdict(double margin, double margin_e) {
  return margin > 2 * margin_e ? Verdict::kFail : Verdict::kUnstable;
}

void EnterDivergence(const Generation& expected, const Generation& actual, double margin_e,
                     TokenResult* result, Book* book) {
  const uint64_t i = *result->first_divergence;
  const bool both = i < expected.tokens.size() && i < actual.tokens.size();
  if (!both) {
    // One side stopped where the other went on, after equal tokens: the stop rule differs, not a logit.
    Difference difference =
        TokenDifference(result->case_id, Stage::kStop, "stop_reason",
                        i < actual.tokens.size() ? "the candidate goes on where the reference stopped"
                                                 : "the candidate stops where the reference goes on");
    difference.index = {i};
    difference.reference = expected.stop_reason;
    difference.candidate = actual.stop_reason;
    result->verdict = Verdict::kFail;
    book->Enter(Verdict::kFail, std::move(difference));
    return;
  }
  result->margin = expected.gaps[i];
  result->verdict = MarginVerdict(*result->margin, margin_e);
  if (result->verdict == Verdict::kUnstable) ++book->comparison().n_tokens_unstable;
  Difference difference =
      TokenDifference(result->case_id, Stage::kToken, "tokens",
                      "greedy token differs; the oracle's gap m = " + NumberText(*result->margin) +
                          (result->verdict == Verdict::kFail ? " is above" : " is not above") +
                          " 2e = " + NumberText(2 * margin_e));
  difference.index = {i};
  difference.flat_index = i;
  difference.reference = std::to_string(expected.tokens[i]);
  difference.candidate = std::to_string(actual.tokens[i]);
  book->Enter(result->verdict, std::move(difference));
}

void CompareBytesAndStop(const std::string& case_id, const Generation& expected, const Generation& actual,
                         Book* book) {
  if (expected.text == actual.text) {
    book->Pass(Level::kL9);
  } else {
    const auto [mine, theirs] =
        std::mismatch(expected.text.begin(), expected.text.end(), actual.text.begin(), actual.text.end());
    Difference difference =
        TokenDifference(case_id, Stage::kDecode, "text", "equal tokens decode to other bytes");
    difference.index = {static_cast<uint64_t>(mine - expected.text.begin())};
    difference.reference = EscapeForDisplay(AsText(ByteSpan(expected.text)));
    difference.candidate = EscapeForDisplay(AsText(ByteSpan(actual.text)));
    book->Enter(Verdict::kFail, std::move(difference));
  }
  if (expected.stop_reason == actual.stop_reason) {
    book->Pass(Level::kL9);
    return;
  }
  Difference difference = TokenDifference(case_id, Stage::kStop, "stop_reason", "stop reasons differ");
  difference.reference = expected.stop_reason;
  difference.candidate = actual.stop_reason;
  book->Enter(Verdict::kFail, std::move(difference));
}

void CompareGeneration(const Case& expected, const Case& actual, double margin_e, Book* book) {
  const Generation& mine = *expected.generation;
  const Generation& theirs = *actual.generation;
  TokenResult result;
  result.case_id = expected.case_id;
  result.n_reference = mine.tokens.size();
  result.n_candidate = theirs.tokens.size();
  result.stop_reference = mine.stop_reason;
  result.stop_candidate = theirs.stop_reason;
  uint64_t i = 0;
  while (i < mine.tokens.size() && i < theirs.tokens.size() && mine.tokens[i] == theirs.tokens[i]) ++i;
  const bool equal = i == mine.tokens.size() && i == theirs.tokens.size();
  const bool both_go_on = i < mine.tokens.size() && i < theirs.tokens.size();
  result.n_compared = both_go_on ? i + 1 : i;
  book->comparison().n_tokens_compared += result.n_compared;
  if (equal) {
    book->Pass(Level::kL9);
    CompareBytesAndStop(expected.case_id, mine, theirs, book);
    const bool same = mine.text == theirs.text && mine.stop_reason == theirs.stop_reason;
    result.verdict = same ? Verdict::kPass : Verdict::kFail;
  } else {
    result.first_divergence = i;
    EnterDivergence(mine, theirs, margin_e, &result, book);
  }
  book->comparison().tokens.push_back(std::move(result));
}

}  // namespace

namespace {

std::vector<uint32_t> U32Of(ByteSpan bytes) {
  std::vector<uint32_t> out(bytes.size() / 4);
  for (size_t i = 0; i < out.size(); ++i) out[i] = LoadLe<uint32_t>(bytes.data() + 4 * i);
  return out;
}

}  // namespace

void CompareTopK(const Golden& reference, const Case& reference_case, const Golden& candidate,
                 const Case& candidate_case, double margin_e, Book* book) {
  const Observation* expected = reference_case.Find("top_k.ids");
  const Observation* values = reference_case.Find("top_k.values");
  if (expected == nullptr || values == nullptr) return;
  Difference difference;
  difference.level = Level::kL7;
  difference.order = Stage::kTopK;
  difference.case_id = reference_case.case_id;
  difference.place = "top_k";
  const Observation* actual = candidate_case.Find("top_k.ids");
  const auto aligned = actual == nullptr ? std::nullopt : ViewLike(*expected, candidate, *actual);
  if (!aligned || expected->shape != values->shape || expected->shape.size() != 2 ||
      actual->dtype != golden::DType::kU32 || expected->dtype != golden::DType::kU32) {
    difference.code = actual == nullptr ? "CMP-MISSING" : "CMP-SHAPE";
    difference.what =
        actual == nullptr ? "the candidate lacks this observation" : "the two sides keep other rows or ranks";
    book->Enter(Verdict::kError, std::move(difference));
    return;
  }
  const std::vector<uint32_t> expected_ids = golden::U32Values(reference, *expected);
  const std::vector<uint32_t> actual_ids = U32Of(aligned->view.bytes);
  const golden::F64Values reference_values(reference, *values);
  const uint64_t k = expected->shape[1];
  const uint64_t first_row = expected->rows ? expected->rows->begin : 0;
  for (uint64_t row = 0; row < expected->shape[0]; ++row) {
    const auto fault = CompareRow(expected_ids.data() + row * k, reference_values.values().data() + row * k,
                                  actual_ids.data() + row * k, k, margin_e);
    if (!fault) continue;
    difference.index = {first_row + row, fault->rank};
    difference.flat_index = row * k + fault->rank;
    difference.reference = fault->reference;
    difference.candidate = fault->candidate;
    difference.what = "top-k ids differ where the oracle's gaps are above 2e";
    book->Enter(Verdict::kFail, std::move(difference));
    return;
  }
  book->Pass(Level::kL7);
}

void CompareGenerations(const Evidence& evidence, const Golden& candidate, double margin_e, Book* book) {
  for (const Case& expected : evidence.reference->cases()) {
    if (!expected.generation || expected.max_new_tokens == 0) continue;
    const Case* actual = candidate.content().FindCase(expected.case_id);
    if (actual == nullptr) continue;  // an error of L0 already
    if (book->PromptDiffers(expected.case_id)) {
      // End to end means from the text: another prompt is another generation, whatever its tokens.
      book->Enter(Verdict::kFail, TokenDifference(expected.case_id, Stage::kToken, "tokens",
                                                  "generated from another prompt (see L1 and L2)"));
      continue;
    }
    if (!actual->generation) {
      Difference difference =
          TokenDifference(expected.case_id, Stage::kToken, "tokens", "the candidate generated nothing");
      difference.code = "CMP-MISSING";
      book->Enter(Verdict::kError, std::move(difference));
      continue;
    }
    CompareGeneration(expected, *actual, margin_e, book);
  }
}

}  // namespace slm::compare
