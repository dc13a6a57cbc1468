// Comparison of two numeric arrays under one rule (TOL-01, OPS-03).
//
// Order of the checks: shapes, then nonfinite values on either side, then the rule. NaN is never equal
// to anything. All sums run in index order in float64, so the numbers are the same on every machine.
// Pure functions, usable from any thread.
#ifndef SLM_COMPARE_ARRAYS_H_
#define SLM_COMPARE_ARRAYS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "compare/policy.h"
#include "golden/golden.h"

namespace slm::compare {

using golden::DType;

// Little-endian values in row-major order; `kBits` packs rows, lowest bit first, each row from a new
// byte. Does not own the bytes.
struct ArrayView {
  DType type = DType::kF32;
  std::vector<uint64_t> shape;
  ByteSpan bytes;
};

// One element, with its place and both values.
struct ElementAt {
  uint64_t flat_index = 0;
  std::vector<uint64_t> index;  // one coordinate for each dimension
  double reference = 0;
  double candidate = 0;
  uint64_t reference_bits = 0;
  uint64_t candidate_bits = 0;
  friend bool operator==(const ElementAt&, const ElementAt&) = default;
};

inline constexpr std::array<uint64_t, 5> kQuantilesPerMille = {500, 900, 990, 999, 1000};

struct ArrayStats {
  uint64_t n_elements = 0;
  uint64_t n_bits_differ = 0;
  uint64_t n_failing = 0;
  uint64_t n_zero_signs_differ = 0;  // -0 against +0
  double max_abs = 0;
  double max_rel = 0;  // over the rule's floor
  double rms = 0;
  std::array<double, 5> quantile_abs{};  // nearest rank, kQuantilesPerMille
  uint64_t max_ulp = 0;
  double cosine = 1;  // information only, never part of a verdict (LVL-06)
  std::optional<ElementAt> first_failing;
  std::optional<ElementAt> first_differing;  // first element whose bits differ, passing or not
  friend bool operator==(const ArrayStats&, const ArrayStats&) = default;
};

struct ArrayOutcome {
  bool pass = false;
  std::optional<ErrorCode> code;  // NONFINITE, CMP-SHAPE; nothing for a plain tolerance breach
  std::string what;               // one line for people; empty on a pass
  ArrayStats stats;
};

// Number of bytes that `shape` needs; nothing on overflow.
[[nodiscard]] std::optional<uint64_t> ArrayBytes(DType type, const std::vector<uint64_t>& shape);

// Float arrays. The candidate is float32; the reference float32 or float64 (then ulp counts from the
// reference rounded to float32, and bits are compared against that rounding).
[[nodiscard]] ArrayOutcome CompareFloats(const ArrayView& reference, const ArrayView& candidate,
                                         const Rule& rule);

// Integers and bits: equal or not.
[[nodiscard]] ArrayOutcome CompareExact(const ArrayView& reference, const ArrayView& candidate);

// Largest |candidate - reference| in float64, for the truth rule and the error curves. Error: NONFINITE.
[[nodiscard]] Result<double> MaxAbsError(const ArrayView& reference, const ArrayView& candidate);

// Units in the last place between two finite float32 values; +0 and -0 are 0 apart.
[[nodiscard]] uint64_t UlpDistance(float a, float b);

// Element `flat_index` as a float64. REQUIRES: a float type, index in range.
[[nodiscard]] double ElementAsDouble(const ArrayView& view, uint64_t flat_index);

}  // namespace slm::compare

#endif  // SLM_COMPARE_ARRAYS_H_
