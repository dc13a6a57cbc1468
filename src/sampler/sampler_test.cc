#include "sampler/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slm {
namespace {

Sampler Make(SamplingOptions options, uint64_t vocab_size, std::vector<uint32_t> eos = {}) {
  Result<Sampler> made = Sampler::Create(std::move(options), vocab_size, eos);
  EXPECT_TRUE(made.has_value());
  return *std::move(made);
}

void ExpectRefused(SamplingOptions options, std::string_view field) {
  const Result<Sampler> made = Sampler::Create(std::move(options), 10, {});
  ASSERT_FALSE(made.has_value()) << field;
  EXPECT_EQ(made.error().code, ErrorCode::kSampleValue);
  EXPECT_EQ(made.error().field, field);
}

// SMP-02: each option outside its range is refused by name.
TEST(SamplerTest, RefusesOptionsOutsideTheirRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {-1.0, -1e-300, nan, HUGE_VAL, 0x1p-127})
    ExpectRefused({.temperature = value}, "temperature");
  for (const double value : {-0.1, 1.0000000000000002, nan}) {
    ExpectRefused({.top_p = value}, "top_p");
    ExpectRefused({.min_p = value}, "min_p");
  }
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), HUGE_VALF})
    ExpectRefused({.repetition_penalty = value}, "repetition_penalty");
  ExpectRefused({.bans = {1, 10}}, "bans");
}

// SMP-03: a row with a NaN or an infinity is refused even where that token is banned.
TEST(SamplerTest, RefusesARowThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF}) {
    Sampler sampler = Make({.temperature = 1.0, .bans = {2}}, 4);
    const std::vector<float> row = {0.0f, 1.0f, bad, 2.0f};
    const Result<uint32_t> id = sampler.Next(row, {});
    ASSERT_FALSE(id.has_value());
    EXPECT_EQ(id.error().code, ErrorCode::kNonfinite);
    EXPECT_EQ(id.error().field, "logits[2]");
    EXPECT_EQ(sampler.token_index(), 0u);
  }
}

// SMP-03: a fully masked row is an error, and the sampler stays as it was: the next row goes on.
TEST(SamplerTest, RefusesARowThatIsMaskedWhole) {
  Sampler sampler = Make({.temperature = 1.0, .min_new_tokens = 1, .bans = {0}, .seed = 5}, 3, {1});
  const std::vector<float> row = {3.0f, 2.0f, 1.0f};
  const std::vector<uint32_t> forbidden = {2, 2};
  const Result<uint32_t> none = sampler.Next(row, {}, forbidden);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kSampleMasked);
  SampleTrace trace;
  EXPECT_EQ(sampler.Next(row, {}, {}, &trace).value(), 2u);  // the EOS is masked before the first token
  EXPECT_EQ(trace.token_index, 0u);
  EXPECT_EQ(trace.n_masked, 2u);
  EXPECT_EQ(sampler.Next(row, {}, forbidden, &trace).value(), 1u);  // and not before the second
  EXPECT_EQ(trace.n_masked, 2u);
}

// SMP-02: temperature 0 takes the lowest id among the largest, both zeros alike, and draws nothing.
TEST(SamplerTest, GreedyTiesGoToTheLowestId) {
  Sampler sampler = Make({}, 4);
  SampleTrace trace;
  EXPECT_EQ(sampler.Next(std::vector<float>{-1.0f, -0.0f, 0.0f, -2.0f}, {}, {}, &trace).value(), 1u);
  EXPECT_FALSE(trace.drawn);
}

// SMP-01: one draw a token, also when one token survives; its place alone decides it.
TEST(SamplerTest, DrawsDependOnThePlaceOfTheToken) {
  const std::vector<float> flat(1000, 0.0f);
  Sampler one = Make({.temperature = 1.0, .top_k = 1, .seed = 77, .stream = 3, .turn = 2}, 1000);
  Sampler all = Make({.temperature = 1.0, .seed = 77, .stream = 3, .turn = 2}, 1000);
  for (uint32_t index = 0; index < 5; ++index) {
    SampleTrace narrow;
    SampleTrace wide;
    ASSERT_TRUE(one.Next(flat, {}, {}, &narrow).has_value());
    ASSERT_TRUE(all.Next(flat, {}, {}, &wide).has_value());
    EXPECT_EQ(narrow.counter, (numeric::PhiloxCounter{0, index, 2, 3}));
    EXPECT_EQ(narrow.key, (numeric::PhiloxKey{77, 0}));
    EXPECT_EQ(narrow.draw, wide.draw);
    EXPECT_EQ(narrow.id, 0u);
    EXPECT_EQ(wide.id, static_cast<uint32_t>(wide.uniform * 1000));
  }
}

}  // namespace
}  // namespace slm
