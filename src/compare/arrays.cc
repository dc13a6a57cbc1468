#include "compare/arrays.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"

namespace slm::compare {
namespace {

uint64_t ElementBits(const ArrayView& view, uint64_t flat_index) {
  switch (view.type) {
    case DType::kF32:
    case DType::kU32:
      return LoadLe<uint32_t>(view.bytes.data() + flat_index * 4);
    case DType::kF64:
      return LoadLe<uint64_t>(view.bytes.data() + flat_index * 8);
    case DType::kBf16:
      return LoadLe<uint16_t>(view.bytes.data() + flat_index * 2);
    case DType::kU8:
      return view.bytes[flat_index];
    case DType::kBits: {
      const uint64_t n_columns = view.shape.empty() ? 1 : view.shape.back();
      const uint64_t row = flat_index / n_columns;
      const uint64_t column = flat_index % n_columns;
      const uint64_t row_bytes = (n_columns + 7) / 8;
      return (view.bytes[row * row_bytes + column / 8] >> (column % 8)) & 1;
    }
  }
  return 0;
}

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBf16;
}

uint64_t ElementSize(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kBf16:
      return 2;
    case DType::kU8:
      return 1;
    default:
      return 4;
  }
}

std::vector<uint64_t> Coordinates(const std::vector<uint64_t>& shape, uint64_t flat_index) {
  std::vector<uint64_t> index(shape.size());
  for (size_t i = shape.size(); i > 0; --i) {
    index[i - 1] = flat_index % shape[i - 1];
    flat_index /= shape[i - 1];
  }
  return index;
}

ElementAt MakeElement(const ArrayView& reference, const ArrayView& candidate, uint64_t flat_index) {
  ElementAt at;
  at.flat_index = flat_index;
  at.index = Coordinates(reference.shape, flat_index);
  at.reference_bits = ElementBits(reference, flat_index);
  at.candidate_bits = ElementBits(candidate, flat_index);
  const auto value = [flat_index](const ArrayView& view, uint64_t bits) {
    return IsFloat(view.type) ? ElementAsDouble(view, flat_index) : static_cast<double>(bits);
  };
  at.reference = value(reference, at.reference_bits);
  at.candidate = value(candidate, at.candidate_bits);
  return at;
}

uint64_t ElementCount(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (uint64_t extent : shape) n *= extent;
  return n;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

// Shapes equal and bytes enough; the views are safe to read after this.
std::optional<ArrayOutcome> CheckShapes(const ArrayView& reference, const ArrayView& candidate) {
  ArrayOutcome outcome;
  outcome.code = ErrorCode::kCmpShape;
  if (reference.shape != candidate.shape) {
    outcome.what =
        "reference shape " + ShapeText(reference.shape) + ", candidate shape " + ShapeText(candidate.shape);
    return outcome;
  }
  for (const ArrayView* view : {&reference, &candidate}) {
    const auto n_bytes = ArrayBytes(view->type, view->shape);
    if (!n_bytes || *n_bytes != view->bytes.size()) {
      outcome.what = "array bytes do not fit shape " + ShapeText(view->shape);
      return outcome;
    }
  }
  return std::nullopt;
}

// First element that is not finite on either side.
std::optional<uint64_t> FirstNonfinite(const ArrayView& reference, const ArrayView& candidate, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    if (!std::isfinite(ElementAsDouble(reference, i)) || !std::isfinite(ElementAsDouble(candidate, i)))
      return i;
  }
  return std::nullopt;
}

bool WithinRule(const Rule& rule, double reference, double candidate, uint64_t ulp, bool same_bits) {
  switch (rule.kind) {
    case RuleKind::kExact:
      return same_bits;
    case RuleKind::kUlp:
      return ulp <= rule.max_ulp;
    case RuleKind::kBounded:
      break;
  }
  const double magnitude = std::max(std::fabs(candidate), std::fabs(reference));
  return std::fabs(candidate - reference) <= rule.atol + rule.rtol * magnitude;
}

}  // namespace

std::optional<uint64_t> ArrayBytes(DType type, const std::vector<uint64_t>& shape) {
  if (type == DType::kBits) {
    uint64_t n_rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) {
      const auto product = CheckedMul(n_rows, shape[i]);
      if (!product) return std::nullopt;
      n_rows = *product;
    }
    const uint64_t n_columns = shape.empty() ? 1 : shape.back();
    return CheckedMul(n_rows, n_columns / 8 + (n_columns % 8 != 0 ? 1 : 0));
  }
  uint64_t n_bytes = ElementSize(type);
  for (uint64_t extent : shape) {
    const auto product = CheckedMul(n_bytes, extent);
    if (!product) return std::nullopt;
    n_bytes = *product;
  }
  return n_bytes;
}

uint64_t UlpDistance(float a, float b) {
  // Maps the bits onto a line on which neighbouring floats are neighbouring integers.
  const auto position = [](float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const auto magnitude = static_cast<int64_t>(bits & 0x7fffffffu);
    return (bits >> 31) != 0 ? -magnitude : magnitude;
  };
  const int64_t distance = position(a) - position(b);
  return static_cast<uint64_t>(distance < 0 ? -distance : distance);
}

double ElementAsDouble(const ArrayView& view, uint64_t flat_index) {
  if (view.type == DType::kF64) {
    return std::bit_cast<double>(LoadLe<uint64_t>(view.bytes.data() + flat_index * 8));
  }
  if (view.type == DType::kBf16) {
    const auto bits = static_cast<uint32_t>(LoadLe<uint16_t>(view.bytes.data() + flat_index * 2)) << 16;
    return static_cast<double>(std::bit_cast<float>(bits));
  }
  return static_cast<double>(std::bit_cast<float>(LoadLe<uint32_t>(view.bytes.data() + flat_index * 4)));
}

ArrayOutcome CompareFloats(const ArrayView& reference, const ArrayView& candidate, const Rule& rule) {
  if (!IsFloat(reference.type) || !IsFloat(candidate.type)) {
    ArrayOutcome outcome;
    outcome.code = ErrorCode::kCmpShape;
    outcome.what = "an array of floats stands against an array of another kind";
    return outcome;
  }
  if (auto refused = CheckShapes(reference, candidate)) return *refused;
  ArrayOutcome outcome;
  ArrayStats& stats = outcome.stats;
  const uint64_t n = ElementCount(reference.shape);
  stats.n_elements = n;
  if (const auto at = FirstNonfinite(reference, candidate, n)) {
    outcome.code = ErrorCode::kNonfinite;
    stats.first_failing = MakeElement(reference, candidate, *at);
    stats.n_failing = 1;
    const bool in_candidate = !std::isfinite(stats.first_failing->candidate);
    outcome.what =
        std::string("a value that is not finite in the ") + (in_candidate ? "candidate" : "reference");
    return outcome;
  }
  if (rule.kind != RuleKind::kBounded && reference.type == DType::kF64) {
    // Bits of two formats are never equal by accident; a rule on bits needs float32 on both sides.
    outcome.code = ErrorCode::kCmpShape;
    outcome.what = "a rule on bits against a float64 reference";
    return outcome;
  }
  std::vector<double> errors(n);
  double sum_squares = 0;
  double dot = 0;
  double norm_reference = 0;
  double norm_candidate = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double r = ElementAsDouble(reference, i);
    const double c = ElementAsDouble(candidate, i);
    const auto r32 = static_cast<float>(r);
    const auto c32 = static_cast<float>(c);
    const bool same_bits = std::bit_cast<uint32_t>(r32) == std::bit_cast<uint32_t>(c32);
    const uint64_t ulp = UlpDistance(r32, c32);
    const double error = std::fabs(c - r);
    errors[i] = error;
    sum_squares += error * error;
    dot += c * r;
    norm_reference += r * r;
    norm_candidate += c * c;
    stats.max_abs = std::max(stats.max_abs, error);
    const double magnitude = std::max(std::fabs(c), std::fabs(r));
    if (magnitude > 0 && magnitude >= rule.relative_floor)
      stats.max_rel = std::max(stats.max_rel, error / magnitude);
    stats.max_ulp = std::max(stats.max_ulp, ulp);
    if (!same_bits) {
      ++stats.n_bits_differ;
      if (r == 0 && c == 0) ++stats.n_zero_signs_differ;
      if (!stats.first_differing) stats.first_differing = MakeElement(reference, candidate, i);
    }
    if (!WithinRule(rule, r, c, ulp, same_bits)) {
      ++stats.n_failing;
      if (!stats.first_failing) stats.first_failing = MakeElement(reference, candidate, i);
    }
  }
  if (n > 0) {
    stats.rms = std::sqrt(sum_squares / static_cast<double>(n));
    std::sort(errors.begin(), errors.end());
    for (size_t q = 0; q < kQuantilesPerMille.size(); ++q) {
      const uint64_t rank = (kQuantilesPerMille[q] * n + 999) / 1000;  // ceil, at least 1
      stats.quantile_abs[q] = errors[rank - 1];
    }
  }
  const double norms = std::sqrt(norm_reference) * std::sqrt(norm_candidate);
  if (norms > 0) stats.cosine = dot / norms;
  outcome.pass = stats.n_failing == 0;
  if (!outcome.pass)
    outcome.what = std::to_string(stats.n_failing) + " of " + std::to_string(n) + " values out of tolerance";
  return outcome;
}

ArrayOutcome CompareExact(const ArrayView& reference, const ArrayView& candidate) {
  if (reference.type != candidate.type) {
    ArrayOutcome outcome;
    outcome.code = ErrorCode::kCmpShape;
    outcome.what = "element types differ";
    return outcome;
  }
  if (auto refused = CheckShapes(reference, candidate)) return *refused;
  ArrayOutcome outcome;
  const uint64_t n = ElementCount(reference.shape);
  outcome.stats.n_elements = n;
  for (uint64_t i = 0; i < n; ++i) {
    if (ElementBits(reference, i) == ElementBits(candidate, i)) continue;
    if (outcome.stats.n_failing++ == 0) {
      outcome.stats.first_failing = MakeElement(reference, candidate, i);
      outcome.stats.first_differing = outcome.stats.first_failing;
    }
  }
  outcome.stats.n_bits_differ = outcome.stats.n_failing;
  outcome.pass = outcome.stats.n_failing == 0;
  if (!outcome.pass) {
    outcome.what = std::to_string(outcome.stats.n_failing) + " of " + std::to_string(n) + " values differ";
  }
  return outcome;
}

Result<double> MaxAbsError(const ArrayView& reference, const ArrayView& candidate) {
  if (!IsFloat(reference.type) || !IsFloat(candidate.type)) return Fail(ErrorCode::kCmpShape, "not floats");
  if (auto refused = CheckShapes(reference, candidate)) return Fail(*refused->code, refused->what);
  const uint64_t n = ElementCount(reference.shape);
  double largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double error = std::fabs(ElementAsDouble(candidate, i) - ElementAsDouble(reference, i));
    if (!std::isfinite(error)) {
      return Fail(MakeError(ErrorCode::kNonfinite, "a value that is not finite").At(i));
    }
    largest = std::max(largest, error);
  }
  return largest;
}

}  // namespace slm::compare
