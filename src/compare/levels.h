// Internal to src/compare: the book in which the checks of a comparison are entered.
// One thread at a time.
#ifndef SLM_COMPARE_LEVELS_H_
#define SLM_COMPARE_LEVELS_H_

#include <set>
#include <string>
#include <string_view>

#include "compare/compare.h"

namespace slm::compare {

// Collects outcomes of single checks into levels and remembers the first difference of each.
class Book {
 public:
  explicit Book(Comparison* comparison) : comparison_(comparison) {}

  void Pass(Level level);
  // A check that did not pass; `verdict` is kFail, kError or kUnstable.
  void Enter(Verdict verdict, Difference difference);
  void Skip(Level level);
  // Says why a level without checks has none.
  void NotClaimed(Level level, std::string_view reason);
  // A level that may not be claimed whatever its checks gave: the evidence lacks what the claim is about.
  // A failure or an error of the level still stands. The first reason is kept.
  void Incomplete(Level level, std::string reason);
  // Cases whose prompt already differed: their arrays and tokens have nothing to stand against.
  void MarkPromptDiffers(const std::string& case_id) { prompt_differs_.insert(case_id); }
  [[nodiscard]] bool PromptDiffers(const std::string& case_id) const {
    return prompt_differs_.contains(case_id);
  }

  [[nodiscard]] Comparison& comparison() { return *comparison_; }
  [[nodiscard]] LevelResult& level(Level level) { return comparison_->levels[static_cast<size_t>(level)]; }
  // Turns counts into verdicts and summaries.
  void Close(uint64_t unstable_cap_ppm);

 private:
  Comparison* comparison_;
  std::set<std::string> prompt_differs_;
  std::array<std::string, kLevelCount> reasons_;
  std::array<std::string, kLevelCount> incomplete_;
};

// L0 to L3: identities, ids and offsets, rendered bytes, tensors and configuration.
void CompareExactLevels(const Evidence& evidence, const golden::Golden& candidate, Book* book);

// Arrays of the model and of every case: L3 (frequencies), L5, L6, L7.
void CompareArrays(const Evidence& evidence, const golden::Golden& candidate, const Policy& policy,
                   Book* book);

// Stable top-k of one case (L7).
void CompareTopK(const golden::Golden& reference, const golden::Case& reference_case,
                 const golden::Golden& candidate, const golden::Case& candidate_case, double margin_e,
                 Book* book);

// Greedy tokens, bytes and stop reasons (L9).
void CompareGenerations(const Evidence& evidence, const golden::Golden& candidate, double margin_e,
                        Book* book);

// The truth rule over the logits of the whole set.
// Reads the distances that CompareArrays entered.
void CompareTruth(const Evidence& evidence, Book* book);

// What evidence must hold for L3, L5, L6 and L7 to be claimed (ORA-03): frequencies; every operator of the
// first, a middle and the last layer; logits and top-k of every case.
void CheckEvidenceComplete(const Evidence& evidence, Book* book);

// The part of `actual` that `expected` keeps: the same layout and axes, rows and columns that `actual` holds
// at least. Nothing if the two do not fit. `bytes` owns what had to be copied.
struct AlignedView {
  ArrayView view;
  Bytes bytes;
};
[[nodiscard]] std::optional<AlignedView> ViewLike(const golden::Observation& expected,
                                                  const golden::Golden& side,
                                                  const golden::Observation& actual);

[[nodiscard]] ArrayView ViewOf(const golden::Golden& golden, const golden::Observation& observation);
// Index in the whole array instead of the kept slice; [head, query, key] for packed_causal.
[[nodiscard]] std::vector<uint64_t> LogicalIndex(const golden::Observation& observation, uint64_t flat_index);

// Shortest text that reads back as the same double.
[[nodiscard]] std::string NumberText(double value);
// Three significant digits, for sentences.
[[nodiscard]] std::string RoundedText(double value);

}  // namespace slm::compare

#endif  // SLM_COMPARE_LEVELS_H_
