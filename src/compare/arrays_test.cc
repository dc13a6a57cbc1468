#include "compare/arrays.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace slm::compare {
namespace {

struct Owned {
  Bytes bytes;
  ArrayView view;
};
Owned F32(const std::vector<float>& values, std::vector<uint64_t> shape) {
  Owned out;
  for (float value : values) AppendLe(&out.bytes, std::bit_cast<uint32_t>(value));
  out.view = {.type = DType::kF32, .shape = std::move(shape), .bytes = out.bytes};
  return out;
}
Owned F64(const std::vector<double>& values, std::vector<uint64_t> shape) {
  Owned out;
  for (double value : values) AppendLe(&out.bytes, std::bit_cast<uint64_t>(value));
  out.view = {.type = DType::kF64, .shape = std::move(shape), .bytes = out.bytes};
  return out;
}

Rule Bounded(double atol, double rtol, double floor = 0) {
  return {.kind = RuleKind::kBounded, .atol = atol, .rtol = rtol, .relative_floor = floor, .max_ulp = 0};
}

TEST(CompareFloatsTest, TheInequalityIsSharp_TOL_01) {
  // Powers of two make both sides exact: |c - r| = 0.25 = atol + rtol * max(|c|, |r|) = 0.125 + 2^-5 * 4.
  const Owned r = F32({3.75f}, {1});
  const Owned c = F32({4.0f}, {1});
  EXPECT_TRUE(CompareFloats(r.view, c.view, Bounded(0.125, 0.03125)).pass);
  EXPECT_TRUE(CompareFloats(c.view, r.view, Bounded(0.125, 0.03125)).pass) << "max(|c|, |r|) is symmetric";
  EXPECT_FALSE(CompareFloats(r.view, c.view, Bounded(0.125 - 0x1p-40, 0.03125)).pass);
  EXPECT_FALSE(CompareFloats(r.view, c.view, Bounded(0.125, 0.03125 - 0x1p-40)).pass);
}

TEST(CompareFloatsTest, RecordsWhatTheStandardNames_TOL_01) {
  // Errors 0, 1, 2, 4; relative 0, 1/2, 2/4, 4/12.
  const Owned r = F32({1, 1, 2, 8}, {2, 2});
  const Owned c = F32({1, 2, 4, 12}, {2, 2});
  const ArrayOutcome outcome = CompareFloats(r.view, c.view, Bounded(1.5, 0));
  EXPECT_FALSE(outcome.pass);
  EXPECT_FALSE(outcome.code.has_value());
  const ArrayStats& stats = outcome.stats;
  EXPECT_EQ(stats.n_elements, 4u);
  EXPECT_EQ(stats.n_failing, 2u);
  EXPECT_EQ(stats.n_bits_differ, 3u);
  EXPECT_EQ(stats.max_abs, 4);
  EXPECT_EQ(stats.max_rel, 0.5);
  EXPECT_EQ(stats.rms, std::sqrt(21.0 / 4));
  EXPECT_EQ(stats.quantile_abs, (std::array<double, 5>{1, 4, 4, 4, 4}));
  EXPECT_EQ(stats.max_ulp, uint64_t{1} << 23) << "1 to 2 is one binade";
  ASSERT_TRUE(stats.first_failing.has_value());
  EXPECT_EQ(stats.first_failing->flat_index, 2u);
  EXPECT_EQ(stats.first_failing->index, (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(stats.first_failing->reference, 2);
  EXPECT_EQ(stats.first_failing->candidate, 4);
  EXPECT_EQ(stats.first_failing->candidate_bits, 0x40800000u);
  EXPECT_EQ(stats.first_differing->flat_index, 1u);
}

TEST(CompareFloatsTest, RelativeErrorOnlyAboveTheFloor_TOL_01) {
  const Owned r = F32({1e-6f, 100}, {2});
  const Owned c = F32({2e-6f, 101}, {2});
  EXPECT_NEAR(CompareFloats(r.view, c.view, Bounded(1, 0, 1e-3)).stats.max_rel, 1.0 / 101, 1e-9);
  EXPECT_NEAR(CompareFloats(r.view, c.view, Bounded(1, 0, 0)).stats.max_rel, 0.5, 1e-6);
}

TEST(CompareFloatsTest, NearestRankQuantiles) {
  std::vector<float> zeros(1000, 0.0f);
  std::vector<float> ramp(1000);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(1000 - i);
  const ArrayOutcome outcome =
      CompareFloats(F32(zeros, {1000}).view, F32(ramp, {1000}).view, Bounded(1e9, 0));
  EXPECT_EQ(outcome.stats.quantile_abs, (std::array<double, 5>{500, 900, 990, 999, 1000}));
}

TEST(CompareFloatsTest, NonfiniteFailsBeforeAnyRule_OPS_03) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Rule everything = Bounded(std::numeric_limits<double>::max(), 1);
  for (const float bad : {nan, inf, -inf}) {
    const Owned good = F32({1, 2, 3, 4, 5, 6}, {2, 3});
    const Owned hurt = F32({9, 2, 3, 4, bad, 6}, {2, 3});
    for (const bool in_candidate : {true, false}) {
      const ArrayOutcome outcome = in_candidate ? CompareFloats(good.view, hurt.view, everything)
                                                : CompareFloats(hurt.view, good.view, everything);
      EXPECT_FALSE(outcome.pass);
      EXPECT_EQ(outcome.code, ErrorCode::kNonfinite);
      ASSERT_TRUE(outcome.stats.first_failing.has_value());
      EXPECT_EQ(outcome.stats.first_failing->index, (std::vector<uint64_t>{1, 1}));
      EXPECT_NE(outcome.what.find(in_candidate ? "candidate" : "reference"), std::string::npos);
    }
    // The same bits on both sides are no equality.
    EXPECT_EQ(CompareFloats(hurt.view, hurt.view, everything).code, ErrorCode::kNonfinite);
    EXPECT_EQ(MaxAbsError(hurt.view, hurt.view).error().code, ErrorCode::kNonfinite);
  }
}

TEST(CompareFloatsTest, ZeroSignsAreNotedAndOnlyExactRulesRefuseThem_OPS_03) {
  const Owned r = F32({0.0f, 1}, {2});
  const Owned c = F32({-0.0f, 1}, {2});
  const ArrayOutcome bounded = CompareFloats(r.view, c.view, Bounded(0, 0));
  EXPECT_TRUE(bounded.pass);
  EXPECT_EQ(bounded.stats.n_zero_signs_differ, 1u);
  EXPECT_EQ(bounded.stats.n_bits_differ, 1u);
  EXPECT_FALSE(CompareFloats(r.view, c.view, Rule{}).pass);
}

TEST(CompareFloatsTest, UlpRule) {
  const float next = std::nextafter(1.0f, 2.0f);
  const float after = std::nextafter(next, 2.0f);
  const Rule one = {.kind = RuleKind::kUlp, .atol = 0, .rtol = 0, .relative_floor = 0, .max_ulp = 1};
  EXPECT_TRUE(CompareFloats(F32({1}, {1}).view, F32({next}, {1}).view, one).pass);
  EXPECT_FALSE(CompareFloats(F32({1}, {1}).view, F32({after}, {1}).view, one).pass);
  EXPECT_EQ(UlpDistance(-std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::denorm_min()),
            2u);
  EXPECT_EQ(UlpDistance(0.0f, -0.0f), 0u);
  EXPECT_EQ(UlpDistance(-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()),
            2u * 0x7f7fffffu);
}

TEST(CompareFloatsTest, Float64ReferenceIsNotRoundedFirst) {
  // 1 + 2^-30 rounds to 1 in float32; the error is still there in float64.
  const double reference = 1 + std::ldexp(1.0, -30);
  const ArrayOutcome outcome = CompareFloats(F64({reference}, {1}).view, F32({1}, {1}).view, Bounded(0, 0));
  EXPECT_FALSE(outcome.pass);
  EXPECT_EQ(outcome.stats.max_abs, std::ldexp(1.0, -30));
  EXPECT_EQ(outcome.stats.max_ulp, 0u);
  // A rule on bits has no meaning there.
  EXPECT_EQ(CompareFloats(F64({1}, {1}).view, F32({1}, {1}).view, Rule{}).code, ErrorCode::kCmpShape);
}

TEST(CompareFloatsTest, ShapesMustMatch) {
  const Owned r = F32({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(CompareFloats(r.view, F32({1, 2, 3, 4}, {4}).view, Bounded(1, 1)).code, ErrorCode::kCmpShape);
  Owned cut = F32({1, 2, 3, 4}, {2, 2});
  cut.view.bytes = cut.view.bytes.first(12);
  EXPECT_EQ(CompareFloats(r.view, cut.view, Bounded(1, 1)).code, ErrorCode::kCmpShape);
  cut.view.shape = {uint64_t{1} << 63, 8};
  EXPECT_EQ(CompareFloats(cut.view, cut.view, Bounded(1, 1)).code, ErrorCode::kCmpShape);
}

TEST(CompareExactTest, BitsAndIntegers_OPS_06) {
  // A causal mask of three positions; row 2 has its last bit wrong.
  const Bytes mask = {0b001, 0b011, 0b111};
  const Bytes wrong = {0b001, 0b011, 0b011};
  const ArrayView reference = {.type = DType::kBits, .shape = {3, 3}, .bytes = mask};
  const ArrayView candidate = {.type = DType::kBits, .shape = {3, 3}, .bytes = wrong};
  EXPECT_TRUE(CompareExact(reference, reference).pass);
  const ArrayOutcome outcome = CompareExact(reference, candidate);
  EXPECT_FALSE(outcome.pass);
  EXPECT_EQ(outcome.stats.n_failing, 1u);
  EXPECT_EQ(outcome.stats.first_failing->index, (std::vector<uint64_t>{2, 2}));
  const Bytes ids = {1, 0, 0, 0, 2, 0, 0, 0};
  const ArrayView numbers = {.type = DType::kU32, .shape = {2}, .bytes = ids};
  EXPECT_TRUE(CompareExact(numbers, numbers).pass);
  EXPECT_EQ(CompareExact(numbers, reference).code, ErrorCode::kCmpShape);
}

}  // namespace
}  // namespace slm::compare
