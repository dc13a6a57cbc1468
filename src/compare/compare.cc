#include "compare/compare.h"

#include <algorithm>

#include "compare/levels.h"

namespace slm::compare {
namespace {

bool ComesBefore(const Difference& a, const std::optional<Difference>& b) {
  return !b || a.order < b->order;
}

// A hard failure is named before an unstable token, whatever the order (see Close).
void Count(LevelResult* level, Verdict verdict) {
  ++level->n_checks;
  switch (verdict) {
    case Verdict::kPass:
      ++level->n_pass;
      return;
    case Verdict::kFail:
      ++level->n_fail;
      return;
    case Verdict::kError:
      ++level->n_error;
      return;
    case Verdict::kUnstable:
      ++level->n_unstable;
      return;
    case Verdict::kNotClaimed:
      return;
  }
}

std::string CountText(uint64_t n, uint64_t of, std::string_view what) {
  return std::to_string(n) + "/" + std::to_string(of) + " " + std::string(what);
}

Verdict VerdictOf(const LevelResult& level) {
  if (level.n_checks == 0) return Verdict::kNotClaimed;
  if (level.n_fail > 0) return Verdict::kFail;
  if (level.n_error > 0) return Verdict::kError;
  if (level.n_unstable > 0) return Verdict::kUnstable;
  return Verdict::kPass;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kError:
      return "error";
    case Verdict::kUnstable:
      return "unstable";
    case Verdict::kNotClaimed:
      return "not-claimed";
  }
  return "not-claimed";
}

void Book::Pass(Level level) {
  Count(&this->level(level), Verdict::kPass);
}

void Book::Enter(Verdict verdict, Difference difference) {
  LevelResult& level = this->level(difference.level);
  Count(&level, verdict);
  if (ComesBefore(difference, level.first)) level.first = difference;
  if (ComesBefore(difference, comparison_->first)) comparison_->first = std::move(difference);
}

void Book::Skip(Level level) {
  ++this->level(level).n_skipped;
}

void Book::NotClaimed(Level level, std::string_view reason) {
  reasons_[static_cast<size_t>(level)] = std::string(reason);
}

void Book::Incomplete(Level level, std::string reason) {
  std::string& held = incomplete_[static_cast<size_t>(level)];
  if (held.empty()) held = std::move(reason);
}

void Book::Close(uint64_t unstable_cap_ppm) {
  for (LevelResult& level : comparison_->levels) {
    level.verdict = VerdictOf(level);
    if (level.level == Level::kL9 && level.verdict == Verdict::kUnstable) {
      // Above the cap the level fails (TOL-04). Compared without division: n_unstable / n > cap / 1e6.
      const uint64_t n = comparison_->n_tokens_compared;
      if (comparison_->n_tokens_unstable * 1000000 > unstable_cap_ppm * n) level.verdict = Verdict::kFail;
    }
    const std::string& incomplete = incomplete_[static_cast<size_t>(level.level)];
    if (!incomplete.empty() && (level.verdict == Verdict::kPass || level.verdict == Verdict::kUnstable)) {
      level.verdict = Verdict::kNotClaimed;
      level.summary = incomplete + "; " + CountText(level.n_pass, level.n_checks, "checks hold");
      continue;
    }
    if (level.verdict == Verdict::kNotClaimed) {
      level.summary = reasons_[static_cast<size_t>(level.level)];
      if (level.n_skipped > 0) level.summary = "every case of this level had another prompt already";
      continue;
    }
    level.summary = CountText(level.n_pass, level.n_checks, "checks hold");
    if (level.n_unstable > 0) level.summary += ", " + std::to_string(level.n_unstable) + " unstable";
    if (level.n_skipped > 0) {
      level.summary += ", " + std::to_string(level.n_skipped) + " not compared (prompt differs already)";
    }
  }
}

namespace {

// A container is what its mode says: arrays of that precision, made by an exporter in that mode.
Status CheckPrecision(const golden::Golden& container) {
  const bool is_truth = container.mode() == golden::Mode::kTruth;
  const cbor::Value* recorded = container.content().generator.Find("mode");
  if (recorded != nullptr && *recorded != cbor::Value(golden::ModeName(container.mode()))) {
    return Fail(MakeError(ErrorCode::kGldSchema, "the exporter ran in another mode than the container says")
                    .Field("generator.mode"));
  }
  for (const golden::Case& one : container.cases()) {
    for (const golden::Observation& observation : one.observations) {
      const bool is_f64 = observation.dtype == golden::DType::kF64;
      const bool is_float =
          is_f64 || observation.dtype == golden::DType::kF32 || observation.dtype == golden::DType::kBf16;
      if (!is_float || is_f64 == is_truth) continue;
      return Fail(MakeError(ErrorCode::kGldSchema, "case " + one.case_id + ": an array of mode " +
                                                       std::string(golden::ModeName(container.mode())) +
                                                       (is_truth ? " is not float64" : " is float64"))
                      .Field(observation.name));
    }
  }
  return {};
}

Status CheckModes(const Evidence& evidence, const golden::Golden& candidate) {
  const auto require = [](const golden::Golden* container, golden::Mode mode,
                          std::string_view place) -> Status {
    if (container == nullptr) return {};
    if (container->mode() != mode) {
      return Fail(ErrorCode::kUsage, "the " + std::string(place) + " is a container of mode " +
                                         std::string(golden::ModeName(mode)) + ", this one is of mode " +
                                         std::string(golden::ModeName(container->mode())));
    }
    return CheckPrecision(*container);
  };
  // Two candidates may stand against each other: the first takes the reference's place.
  const bool two_candidates = evidence.reference->mode() == golden::Mode::kCandidate &&
                              evidence.source == nullptr && evidence.truth == nullptr;
  SLM_TRY(require(evidence.reference, two_candidates ? golden::Mode::kCandidate : golden::Mode::kReference,
                  "reference"));
  SLM_TRY(require(evidence.source, golden::Mode::kSource, "source"));
  SLM_TRY(require(evidence.truth, golden::Mode::kTruth, "truth"));
  return require(&candidate, golden::Mode::kCandidate, "candidate");
}

// The limits were calibrated for a source and a backend; elsewhere they say nothing (TOL-04).
Status CheckScope(const Policy& policy, const golden::Golden& reference, const golden::Golden& candidate) {
  const auto out_of_scope = [&policy](std::string what, std::string_view field) -> std::unexpected<Error> {
    return Fail(
        MakeError(ErrorCode::kPolScope, "policy " + policy.name + " " + std::move(what)).Field(field));
  };
  const auto& ids = reference.content().identities;
  const auto source = ids.find("source");
  if (source == ids.end() ? !policy.any_source : !policy.IsForSource(source->second)) {
    return out_of_scope("is not for this source; use one that names it, or a general one",
                        "applies_to.sources");
  }
  if (policy.between_candidates && reference.mode() != golden::Mode::kCandidate) {
    return out_of_scope("is for two candidates against each other, not for an oracle",
                        "applies_to.reference");
  }
  const auto text_of = [&candidate](std::string_view key) {
    const cbor::Value* value = candidate.content().generator.Find(key);
    return value != nullptr && value->AsTextString() != nullptr ? *value->AsTextString() : std::string();
  };
  if (const std::string backend = text_of("backend"); !policy.IsForBackend(backend)) {
    return out_of_scope("is not for backend \"" + backend + "\"", "applies_to.backends");
  }
  if (const std::string profile = text_of("profile"); profile != policy.profile) {
    return out_of_scope("is for profile " + policy.profile + ", the candidate ran \"" + profile + "\"",
                        "profile");
  }
  return {};
}

// Levels that nothing of this version runs.
void ReasonsOfThisVersion(Book* book) {
  book->NotClaimed(Level::kL4, "float weights: nothing was quantized");
  book->NotClaimed(Level::kL8, "greedy decoding only: no sampler ran");
  book->NotClaimed(Level::kL10, "no conversation ran");
  book->NotClaimed(Level::kL11, "no statistical plan is registered");
  book->NotClaimed(Level::kL12, "no sealed cases");
}

Comparison Blank(const Policy& policy) {
  Comparison comparison;
  comparison.policy_name = policy.name;
  comparison.policy_version = policy.version;
  comparison.policy_sha256 = policy.file_sha256;
  comparison.margin_e = policy.margin_e;
  for (size_t i = 0; i < comparison.levels.size(); ++i) comparison.levels[i].level = static_cast<Level>(i);
  return comparison;
}

}  // namespace

Comparison CompareWithoutEvidence(const Subject& subject, const golden::Golden& candidate,
                                  const Policy& policy) {
  Comparison comparison = Blank(policy);
  Book book(&comparison);
  const auto enter = [&book](Verdict verdict, std::string case_id, std::string place, std::string what) {
    Difference difference;
    difference.order = Stage::kIdentity;
    difference.case_id = std::move(case_id);
    difference.place = std::move(place);
    difference.code = verdict == Verdict::kError ? "CMP-MISSING" : "";
    difference.what = std::move(what);
    book.Enter(verdict, std::move(difference));
  };
  const auto& held = candidate.content().identities;
  for (const auto& [role, hash] : subject.identities) {
    const auto found = held.find(role);
    if (found == held.end()) {
      enter(Verdict::kError, "", "identities." + role,
            "the candidate does not say which one it is made from");
    } else if (found->second != hash) {
      enter(Verdict::kFail, "", "identities." + role, "the candidate is made from another " + role);
    } else {
      book.Pass(Level::kL0);
    }
  }
  for (const std::string& id : subject.case_ids) {
    if (candidate.content().FindCase(id) != nullptr) {
      book.Pass(Level::kL0);
    } else {
      enter(Verdict::kError, id, "case", "the candidate did not run this case");
    }
  }
  constexpr std::string_view kReference = "needs evidence: a container of mode reference";
  for (Level level : {Level::kL1, Level::kL2, Level::kL3, Level::kL5, Level::kL6, Level::kL7, Level::kL9})
    book.NotClaimed(level, kReference);
  ReasonsOfThisVersion(&book);
  comparison.truth.summary = "needs evidence: containers of mode reference, source and truth";
  book.Close(policy.unstable_cap_ppm);
  return comparison;
}

Result<Evidence> SortEvidence(const std::vector<const golden::Golden*>& containers) {
  Evidence evidence;
  for (const golden::Golden* container : containers) {
    const golden::Golden** place = nullptr;
    switch (container->mode()) {
      case golden::Mode::kReference:
        place = &evidence.reference;
        break;
      case golden::Mode::kSource:
        place = &evidence.source;
        break;
      case golden::Mode::kTruth:
        place = &evidence.truth;
        break;
      case golden::Mode::kMixed:
      case golden::Mode::kCandidate:
        return Fail(ErrorCode::kUsage,
                    "evidence is a container of mode source, reference or truth, this one is " +
                        std::string(golden::ModeName(container->mode())));
    }
    if (*place != nullptr) {
      return Fail(ErrorCode::kUsage, "two evidence containers of mode " +
                                         std::string(golden::ModeName(container->mode())) +
                                         "; give one of each");
    }
    *place = container;
  }
  return evidence;
}

Result<Policy> PolicyFor(const Evidence& evidence, const golden::Golden& candidate) {
  if (evidence.reference == nullptr)
    return Fail(ErrorCode::kUsage, "compare needs a container of mode reference, or another candidate");
  const auto& ids = evidence.reference->content().identities;
  const auto source = ids.find("source");
  const cbor::Value* backend = candidate.content().generator.Find("backend");
  const bool named = backend != nullptr && backend->AsTextString() != nullptr;
  auto policy = ShippedPolicyFor(source == ids.end() ? Hash256{} : source->second,
                                 named ? *backend->AsTextString() : "",
                                 evidence.reference->mode() == golden::Mode::kCandidate);
  if (!policy) return Fail(ErrorCode::kUsage, "no policy ships for this backend; give one with --policy");
  return *std::move(policy);
}

Result<Comparison> Compare(const Evidence& evidence, const golden::Golden& candidate, const Policy& policy) {
  if (evidence.reference == nullptr) {
    return Fail(ErrorCode::kUsage, "a comparison needs evidence of mode reference");
  }
  SLM_TRY(CheckModes(evidence, candidate));
  SLM_TRY(CheckScope(policy, *evidence.reference, candidate));
  const auto& reference_ids = evidence.reference->content().identities;
  for (const golden::Golden* other : {evidence.source, evidence.truth}) {
    if (other == nullptr) continue;
    const auto& ids = other->content().identities;
    const auto mine = reference_ids.find("source");
    const auto theirs = ids.find("source");
    if (mine == reference_ids.end() || theirs == ids.end() || mine->second != theirs->second) {
      return Fail(
          MakeError(ErrorCode::kUsage, "evidence of mode " + std::string(golden::ModeName(other->mode())) +
                                           " is of another source than the reference; export it again")
              .Field("identities.source"));
    }
  }
  Comparison comparison = Blank(policy);
  Book book(&comparison);
  book.NotClaimed(Level::kL0, "the containers share no identity");
  book.NotClaimed(Level::kL1, "no case with text");
  book.NotClaimed(Level::kL2, "no case with messages: the suite claims no template");
  book.NotClaimed(Level::kL3, "the evidence holds neither tensors nor a configuration");
  book.NotClaimed(Level::kL5, "the evidence holds no operator observations");
  book.NotClaimed(Level::kL6, "the evidence holds no residual streams");
  book.NotClaimed(Level::kL7, "the evidence holds no logits");
  book.NotClaimed(Level::kL9, "no case with generated tokens");
  ReasonsOfThisVersion(&book);
  CheckEvidenceComplete(evidence, &book);
  CompareExactLevels(evidence, candidate, &book);
  CompareArrays(evidence, candidate, policy, &book);
  CompareGenerations(evidence, candidate, policy.margin_e, &book);
  CompareTruth(evidence, &book);
  book.Close(policy.unstable_cap_ppm);
  return comparison;
}

}  // namespace slm::compare
