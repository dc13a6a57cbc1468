#include "evidence/self_check.h"

#include <cmath>

namespace slm::evidence {
namespace {

using golden::Case;
using golden::DType;
using golden::Golden;
using golden::Observation;

std::string PlaceOf(const Case& one, const Observation& observation) {
  return one.case_id + "." + observation.name;
}

std::unexpected<Error> Inconsistent(const Case& one, const Observation& observation, std::string what) {
  return Fail(MakeError(ErrorCode::kCmpShape, "case " + one.case_id + ": " + std::move(what))
                  .Field(PlaceOf(one, observation)));
}

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBf16;
}

Status CheckFinite(const Golden& container, const Case& one) {
  for (const Observation& observation : one.observations) {
    if (!IsFloat(observation.dtype)) continue;
    const golden::F64Values read(container, observation);
    const auto values = read.values();
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      return Fail(MakeError(ErrorCode::kNonfinite,
                            "case " + one.case_id + ": element " + std::to_string(i) + " is not finite")
                      .Field(PlaceOf(one, observation)));
    }
  }
  return {};
}

// The kept logit of `id` in row `row` of the list; nothing where it is not kept.
std::optional<double> LogitOf(const Observation& logits, std::span<const double> values, uint64_t row,
                              uint32_t id) {
  const uint64_t begin = logits.columns ? logits.columns->begin : 0;
  const uint64_t count = logits.shape[1];
  if (id < begin || id - begin >= count) return std::nullopt;
  return values[row * count + (id - begin)];
}

Status CheckTopK(const Golden& container, const Case& one) {
  const Observation* ids = one.Find("top_k.ids");
  const Observation* values = one.Find("top_k.values");
  if (ids == nullptr || values == nullptr) return {};
  if (ids->dtype != DType::kU32 || ids->shape.size() != 2 || ids->shape != values->shape ||
      ids->rows != values->rows) {
    return Inconsistent(one, *ids, "top-k ids and values have different shapes");
  }
  const std::vector<uint32_t> id_list = golden::U32Values(container, *ids);
  const golden::F64Values read(container, *values);
  const auto value_list = read.values();
  const Observation* logits = one.Find("logits");
  const bool same_rows =
      logits != nullptr && logits->shape.size() == 2 && logits->rows == ids->rows && IsFloat(logits->dtype);
  std::optional<golden::F64Values> logit_values;
  if (same_rows) logit_values.emplace(container, *logits);
  const uint64_t k = ids->shape[1];
  for (uint64_t at = 0; at < id_list.size(); ++at) {
    if (at % k > 0) {
      const bool in_order = value_list[at - 1] > value_list[at] ||
                            (value_list[at - 1] == value_list[at] && id_list[at - 1] < id_list[at]);
      if (!in_order) return Inconsistent(one, *values, "top-k values do not descend");
    }
    if (!same_rows) continue;
    const auto logit = LogitOf(*logits, logit_values->values(), at / k, id_list[at]);
    if (logit && *logit != value_list[at])
      return Inconsistent(one, *values, "a top-k value is not the logit of its id");
  }
  const bool has_last_row =
      !ids->rows || ids->rows->begin + ids->rows->count == one.positions.begin + one.positions.count;
  if (one.generation && !one.generation->tokens.empty() && has_last_row && k > 0) {
    const uint32_t best = id_list[id_list.size() - k];
    if (one.generation->tokens.front() != best)
      return Inconsistent(one, *ids, "the first greedy token is not the best of the prompt's last row");
  }
  return {};
}

}  // namespace

Status CheckSelfConsistent(const Golden& container) {
  for (const Case& one : container.cases()) {
    SLM_TRY(CheckFinite(container, one));
    SLM_TRY(CheckTopK(container, one));
  }
  return {};
}

}  // namespace slm::evidence
