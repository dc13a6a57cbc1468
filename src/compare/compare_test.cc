#include "compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compare/fake_suite.h"

namespace slm::compare {
namespace {

class CompareTest : public ::testing::Test {
 protected:
  CompareTest()
      : reference_(MakeFakeSuite(golden::Mode::kReference)),
        source_(MakeFakeSuite(golden::Mode::kSource)),
        truth_(MakeFakeSuite(golden::Mode::kTruth)),
        candidate_(MakeFakeSuite(golden::Mode::kCandidate)),
        policy_(*ParsePolicy(FakePolicyJson())) {}

  Comparison Run() {
    const auto reference = reference_.Open();
    const auto source = source_.Open();
    const auto truth = truth_.Open();
    const auto candidate = candidate_.Open();
    auto result = Compare({reference.get(), source.get(), truth.get()}, *candidate, policy_);
    EXPECT_TRUE(result.has_value()) << result.error().ToString();
    return *std::move(result);
  }
  static Verdict Of(const Comparison& comparison, Level level) {
    return comparison.levels[static_cast<size_t>(level)].verdict;
  }
  // Exactly these levels do not pass.
  static void ExpectOnly(const Comparison& comparison, Verdict verdict, std::vector<Level> levels) {
    for (Level level :
         {Level::kL0, Level::kL1, Level::kL2, Level::kL3, Level::kL5, Level::kL6, Level::kL7, Level::kL9}) {
      const bool named = std::find(levels.begin(), levels.end(), level) != levels.end();
      EXPECT_EQ(Of(comparison, level), named ? verdict : Verdict::kPass)
          << LevelName(level) << ": " << comparison.levels[static_cast<size_t>(level)].summary;
    }
  }

  FakeSuite reference_, source_, truth_, candidate_;
  Policy policy_;
};

TEST_F(CompareTest, EqualSidesPassEveryLevelThatHasChecks_LVL_01) {
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kPass, {});
  for (Level level : {Level::kL4, Level::kL8, Level::kL10, Level::kL11, Level::kL12}) {
    EXPECT_EQ(Of(comparison, level), Verdict::kNotClaimed);
    EXPECT_FALSE(comparison.levels[static_cast<size_t>(level)].summary.empty());
  }
  EXPECT_EQ(comparison.truth.verdict, Verdict::kPass);
  EXPECT_FALSE(comparison.first.has_value());
  EXPECT_EQ(comparison.n_tokens_compared, 12u);
  // The result is a function of the bytes.
  EXPECT_EQ(cbor::Encode(EncodeComparison(comparison)), cbor::Encode(EncodeComparison(Run())));
}

TEST_F(CompareTest, ABaseModelClaimsNoTemplate_LVL_01) {
  for (FakeSuite* suite : {&reference_, &source_, &truth_, &candidate_})
    suite->cases.erase(suite->cases.begin() + 1);
  EXPECT_EQ(Of(Run(), Level::kL2), Verdict::kNotClaimed);
}

TEST_F(CompareTest, OneValueOutOfToleranceFailsItsLevelOnly_TOL_01) {
  candidate_.Case("ids").Array("layers.1.attn.q_rope").values[7] += 1;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->place, "layers.1.attn.q_rope");
  EXPECT_EQ(comparison.first->case_id, "ids");
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1, 1, 1}));
  EXPECT_EQ(comparison.first->flat_index, 7u);
}

TEST_F(CompareTest, TheEarliestStageIsNamedFirst_BIS_01) {
  candidate_.Case("text").Array("layers.1.output").values[0] += 1;
  candidate_.Case("text").Array("logits").values[0] += 1;
  candidate_.Case("ids").Array("layers.0.mlp.act").values[3] += 1;
  candidate_.Case("ids").Array("layers.0.output").values[1] += 1;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5, Level::kL6, Level::kL7});
  EXPECT_EQ(comparison.first->place, "layers.0.mlp.act");
  EXPECT_EQ(comparison.levels[6].first->place, "layers.0.output");
}

TEST_F(CompareTest, IndicesAreLogical_BIS_02) {
  // Packed scores: head 1, row 2 starts at 1 + 2; logits keep positions 1 and 2 only.
  candidate_.Case("ids").Array("layers.0.attn.scores").values[6 + 3 + 1] += 1;
  Comparison comparison = Run();
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1, 2, 1}));
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.Case("ids").Array("logits").values[13] += 1;
  comparison = Run();
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{2, 3}));
}

TEST_F(CompareTest, NonfiniteIsNamedWithItsIndex_OPS_03) {
  candidate_.Case("text").Array("layers.0.attn_norm").values[5] = std::numeric_limits<double>::quiet_NaN();
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  EXPECT_EQ(comparison.first->code, "NONFINITE");
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1, 1}));
}

TEST_F(CompareTest, MaskIsComparedAsBits_OPS_06) {
  candidate_.Case("ids").Array("layers.0.attn.mask").values[1] = 1;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  EXPECT_EQ(comparison.first->place, "layers.0.attn.mask");
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{0, 1}));
}

TEST_F(CompareTest, MissingAndReshapedObservationsAreErrors) {
  auto& arrays = candidate_.Case("ids").arrays;
  arrays.erase(arrays.begin());  // embed
  Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kError, {Level::kL5});
  EXPECT_EQ(comparison.first->code, "CMP-MISSING");
  EXPECT_EQ(comparison.first->place, "embed");
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.Case("ids").Array("logits").rows = golden::Interval{0, 2};
  comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL7), Verdict::kError);
  EXPECT_EQ(comparison.first->code, "CMP-SHAPE");
}

TEST_F(CompareTest, AMissingCaseIsAnErrorOfL0) {
  candidate_.cases.pop_back();
  const Comparison comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL0), Verdict::kError);
  EXPECT_EQ(comparison.first->case_id, "ids");
}

TEST_F(CompareTest, AnotherSourceFailsL0) {
  candidate_.content.identities["source"][0] ^= 1;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL0});
  EXPECT_EQ(comparison.first->place, "identities.source");
}

TEST_F(CompareTest, AnotherInputUnderTheSameIdIsRefused) {
  (*candidate_.Case("text").meta.input)[0] = 'H';
  const Comparison comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL0), Verdict::kFail);
  EXPECT_EQ(comparison.first->place, "input");
}

TEST_F(CompareTest, IdsThatDifferDoNotSpoilTokenIdCases_INV) {
  golden::Case& meta = candidate_.Case("text").meta;
  meta.ids = {3, 9, 5};
  meta.tokenizations[0].ids = meta.ids;
  // What the model computed from them is something else altogether.
  for (FakeArray& array : candidate_.Case("text").arrays) {
    if (array.dtype == golden::DType::kF32) array.values[0] += 5;
  }
  const Comparison comparison = Run();
  // L1 fails; L9 of that case too, since it is end to end. L5 to L7 stand on the other cases.
  ExpectOnly(comparison, Verdict::kFail, {Level::kL1, Level::kL9});
  EXPECT_EQ(comparison.levels[1].first->index, (std::vector<uint64_t>{1}));
  EXPECT_EQ(comparison.levels[1].first->reference, "4");
  EXPECT_EQ(comparison.levels[1].first->candidate, "9");
  EXPECT_GT(comparison.levels[5].n_skipped, 0u);
}

TEST_F(CompareTest, OffsetsAreComparedToo_TOK_12) {
  candidate_.Case("text").meta.tokenizations[0].byte_offsets[2] = {1, 3};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL1});
  EXPECT_EQ(comparison.first->place, "tokenization.input.byte_offsets");
  EXPECT_EQ(comparison.first->candidate, "[1,3)");
}

TEST_F(CompareTest, RenderedBytes_TPL_05) {
  (*candidate_.Case("chat").meta.rendered)[1] = ';';
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL2, Level::kL9});
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1}));
  EXPECT_EQ(comparison.first->reference, ":i");
}

TEST_F(CompareTest, DecodedBytesAreComparedAtL1_LVL_01) {
  candidate_.Case("text").meta.tokenizations[0].decoded = Bytes{'h', ' ', 'j'};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL1});
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->place, "tokenization.input.decoded");
  EXPECT_EQ(comparison.first->index, std::vector<uint64_t>{2});
}

TEST_F(CompareTest, TheOwnerOfEachByteAndTokenIsComparedAtL2_LVL_01) {
  candidate_.Case("chat").meta.ownership = {{0, 1, "template"}, {1, 3, "messages[0].content"}};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL2});
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->place, "ownership");
  EXPECT_EQ(comparison.first->index, std::vector<uint64_t>{1});
  EXPECT_EQ(comparison.first->reference, "template");
  EXPECT_EQ(comparison.first->candidate, "messages[0].content");
  // Of the bytes, and of the token that they are.
  EXPECT_EQ(comparison.levels[static_cast<size_t>(Level::kL2)].n_fail, 2u);
}

TEST_F(CompareTest, AnotherOwnerOfTheSameBytesIsADifference_LVL_01) {
  candidate_.Case("chat").meta.ownership = {{0, 2, "template"}, {2, 3, "messages[0].role"}};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL2});
  EXPECT_EQ(comparison.first->index, std::vector<uint64_t>{2});
}

// What the evidence does not hold cannot have been compared: an error of its level, never a pass.
TEST_F(CompareTest, AbsentEvidenceIsAnErrorOfItsLevel_LVL_01) {
  struct Absence {
    const char* what;
    std::function<void(FakeSuite*)> remove;
    Level level;
  };
  const Absence absences[] = {
      {"decoded bytes", [](FakeSuite* s) { s->Case("text").meta.tokenizations[0].decoded.reset(); },
       Level::kL1},
      {"owners", [](FakeSuite* s) { s->Case("chat").meta.ownership.reset(); }, Level::kL2},
      {"tokenizer", [](FakeSuite* s) { s->content.identities.erase("tokenizer"); }, Level::kL0},
      {"source",
       [](FakeSuite* s) {
         s->content.identities.erase("source");
         s->content.source_files.clear();
       },
       Level::kL0},
      {"configuration",
       [](FakeSuite* s) {
         s->content.effective_config.clear();
         s->content.identities["config"] = Sha256Of(cbor::Encode(cbor::Array{}));
       },
       Level::kL3},
  };
  const auto source = source_.Open();
  for (const Absence& absence : absences) {
    for (const bool of_reference : {true, false}) {
      FakeSuite reference = reference_;
      FakeSuite candidate = candidate_;
      absence.remove(of_reference ? &reference : &candidate);
      const auto opened = reference.Open();
      const auto other = candidate.Open();
      auto result = Compare({opened.get(), nullptr, nullptr}, *other, policy_);
      ASSERT_TRUE(result.has_value()) << absence.what << result.error().ToString();
      const Verdict verdict = Of(*result, absence.level);
      EXPECT_TRUE(verdict == Verdict::kError || verdict == Verdict::kFail) << absence.what << of_reference;
      ASSERT_TRUE(result->first.has_value()) << absence.what;
      EXPECT_EQ(result->first->code, "CMP-MISSING") << absence.what;
    }
  }
  FakeSuite without_tensors = reference_;
  without_tensors.content.tensors.clear();
  const auto opened = without_tensors.Open();
  const auto other = candidate_.Open();
  EXPECT_EQ(Of(*Compare({opened.get(), nullptr, nullptr}, *other, policy_), Level::kL3), Verdict::kError);
}

TEST_F(CompareTest, TruthOrSourceWithoutLogitsIsAnErrorOfTheTruthRule_ORA_02) {
  for (FakeSuite* suite : {&truth_, &source_}) {
    const FakeSuite whole = *suite;
    std::erase_if(suite->Case("ids").arrays, [](const FakeArray& array) { return array.name == "logits"; });
    const Comparison comparison = Run();
    EXPECT_EQ(comparison.truth.verdict, Verdict::kError);
    EXPECT_NE(comparison.truth.summary.find("case ids"), std::string::npos) << comparison.truth.summary;
    for (FakeCase& one : suite->cases) {
      std::erase_if(one.arrays, [](const FakeArray& array) { return array.name == "logits"; });
    }
    EXPECT_EQ(Run().truth.verdict, Verdict::kError);
    *suite = whole;
  }
}

TEST_F(CompareTest, EachContainerStandsInThePlaceOfItsMode_ORA_02) {
  const auto reference = reference_.Open();
  const auto source = source_.Open();
  const auto truth = truth_.Open();
  const auto candidate = candidate_.Open();
  const auto code = [this](Evidence evidence, const golden::Golden& other) -> std::string {
    const auto result = Compare(evidence, other, policy_);
    return result.has_value() ? "" : result.error().CodeText();
  };
  EXPECT_EQ(code({truth.get(), nullptr, nullptr}, *truth), "USAGE");
  EXPECT_EQ(code({reference.get(), nullptr, nullptr}, *reference), "USAGE");
  EXPECT_EQ(code({source.get(), nullptr, nullptr}, *candidate), "USAGE");
  EXPECT_EQ(code({reference.get(), reference.get(), truth.get()}, *candidate), "USAGE");
  EXPECT_EQ(code({reference.get(), source.get(), source.get()}, *candidate), "USAGE");
  EXPECT_EQ(code({candidate.get(), source.get(), truth.get()}, *candidate), "USAGE");
  // Two backends against each other.
  EXPECT_EQ(code({candidate.get(), nullptr, nullptr}, *candidate), "");
}

TEST_F(CompareTest, ATruthThatIsNotFloat64IsNone_ORA_02) {
  FakeSuite disguised = reference_;
  disguised.content.mode = golden::Mode::kTruth;
  const auto truth = disguised.Open();
  const auto reference = reference_.Open();
  const auto source = source_.Open();
  const auto candidate = candidate_.Open();
  const auto result = Compare({reference.get(), source.get(), truth.get()}, *candidate, policy_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kGldSchema);
  FakeSuite other_mode = truth_;
  other_mode.content.generator.Set("mode", "reference");
  const auto opened = other_mode.Open();
  const auto again = Compare({reference.get(), source.get(), opened.get()}, *candidate, policy_);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().field, "generator.mode");
}

TEST_F(CompareTest, APolicyIsForItsSourceBackendAndProfile_TOL_04) {
  const auto reference = reference_.Open();
  const auto candidate = candidate_.Open();
  const auto field = [&](const Policy& policy) -> std::string {
    const auto result = Compare({reference.get(), nullptr, nullptr}, *candidate, policy);
    if (result.has_value()) return "";
    EXPECT_EQ(result.error().code, ErrorCode::kPolScope);
    return result.error().field;
  };
  Policy policy = policy_;
  EXPECT_EQ(field(policy), "");
  policy.any_source = false;
  policy.sources = {Sha256Of(AsBytes("another source"))};
  EXPECT_EQ(field(policy), "applies_to.sources");
  policy.sources.push_back(reference->content().identities.at("source"));
  EXPECT_EQ(field(policy), "");
  policy.backends = {"wasm-scalar"};
  EXPECT_EQ(field(policy), "applies_to.backends");
  policy = policy_;
  policy.profile = "fast-v1";
  EXPECT_EQ(field(policy), "profile");
}

// LVL-06: the cosine of these two arrays is 1 to fifteen digits, their average distance far below the limit.
TEST_F(CompareTest, NoAverageOrCosineChangesAVerdict_LVL_06) {
  reference_.Case("ids").Array("final_norm").values.assign(12, 1000.0);
  candidate_.Case("ids").Array("final_norm").values.assign(12, 1000.0);
  candidate_.Case("ids").Array("final_norm").values[7] += 0.0005;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  for (const ArrayResult& result : comparison.arrays) {
    if (result.verdict != Verdict::kFail) continue;
    EXPECT_GT(result.stats.cosine, 1 - 1e-12);
    EXPECT_EQ(result.stats.quantile_abs[0], 0.0);
    EXPECT_EQ(result.stats.n_failing, 1u);
  }
}

// LVL-06: where the profile permits variation, other bits within the limit pass.
TEST_F(CompareTest, NoBitIdentityIsDemandedWhereVariationIsPermitted_LVL_06) {
  candidate_.Case("ids").Array("logits").values[0] += 0.00003;
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kPass, {});
  const LevelResult& level = comparison.levels[static_cast<size_t>(Level::kL7)];
  EXPECT_GT(level.worst_abs, 0.0);
}

TEST_F(CompareTest, TensorsAndConfiguration_MAP_04_CFG_03) {
  candidate_.content.tensors[1].sha256[0] ^= 1;
  Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL3});
  EXPECT_EQ(comparison.first->place, "tensor.model.embed_tokens.weight");
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.content.tensors.pop_back();
  EXPECT_EQ(Run().first->code, "CMP-MISSING");
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.content.effective_config[1].value = FakeDouble(1e-6);
  cbor::Array fields;
  for (const auto& field : candidate_.content.effective_config)
    fields.emplace_back(cbor::Array{field.name, field.value});
  candidate_.content.identities["config"] = Sha256Of(cbor::Encode(fields));
  comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL3});
  EXPECT_EQ(comparison.first->place, "config.rms_norm_eps");
  EXPECT_EQ(std::stod(comparison.first->reference), 1e-5);
  EXPECT_EQ(std::stod(comparison.first->candidate), 1e-6);
}

TEST_F(CompareTest, TheConfiguredFrequenciesMayDifferByOneUnitToo_CFG_03) {
  const auto set_field = [](FakeSuite* suite, uint32_t low_bits) {
    golden::ConfigField field = suite->content.effective_config[1];
    field.name = "rope_inv_freq";
    Bytes bits;
    AppendLe<uint32_t>(&bits, 0x3f800000u);
    AppendLe<uint32_t>(&bits, 0x3c000000u + low_bits);
    field.value = bits;
    suite->content.effective_config.push_back(field);
    cbor::Array fields;
    for (const auto& f : suite->content.effective_config) fields.emplace_back(cbor::Array{f.name, f.value});
    suite->content.identities["config"] = Sha256Of(cbor::Encode(fields));
  };
  set_field(&reference_, 0);
  set_field(&candidate_, 1);
  ExpectOnly(Run(), Verdict::kPass, {});
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  set_field(&candidate_, 2);
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL3});
  EXPECT_EQ(comparison.first->place, "config.rope_inv_freq");
}

TEST_F(CompareTest, FrequenciesMayDifferByOneUnit) {
  double& frequency = candidate_.model_arrays[0].values[1];
  frequency = std::nextafter(static_cast<float>(frequency), 1.0f);
  const Comparison one = Run();
  ExpectOnly(one, Verdict::kPass, {});
  EXPECT_EQ(one.arrays[0].stats.max_ulp, 1u);
  frequency = std::nextafter(static_cast<float>(frequency), 1.0f);
  const Comparison two = Run();
  ExpectOnly(two, Verdict::kFail, {Level::kL3});
  EXPECT_EQ(two.first->place, "rope.inv_freq");
}

TEST_F(CompareTest, TopKGroupsWithinTwoEMaySwap_TOL_04) {
  std::swap(candidate_.Case("ids").Array("top_k.ids").values[1],
            candidate_.Case("ids").Array("top_k.ids").values[2]);
  ExpectOnly(Run(), Verdict::kPass, {});
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  std::swap(candidate_.Case("ids").Array("top_k.ids").values[4],
            candidate_.Case("ids").Array("top_k.ids").values[5]);
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL7});
  EXPECT_EQ(comparison.first->place, "top_k");
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{2, 0}));
}

TEST_F(CompareTest, ATokenAboveTheMarginIsAContradiction_TOL_04) {
  // m = 0.25 > 2e = 2e-4.
  candidate_.Case("ids").meta.generation->tokens = {7, 1, 1, 1};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL9});
  EXPECT_EQ(comparison.tokens[2].first_divergence, 1u);
  EXPECT_EQ(comparison.tokens[2].n_compared, 2u) << "later tokens are not compared";
  EXPECT_EQ(comparison.tokens[2].margin, 0.25);
  EXPECT_EQ(comparison.n_tokens_compared, 10u);
}

TEST_F(CompareTest, ATokenWithinTheMarginIsUnstableAndCapped_TOL_04) {
  // m = 1e-5 <= 2e: unstable. One of 11 tokens is above the cap of 1 %, so the level fails.
  candidate_.Case("ids").meta.generation->tokens = {7, 8, 1, 1};
  Comparison comparison = Run();
  EXPECT_EQ(comparison.tokens[2].verdict, Verdict::kUnstable);
  EXPECT_EQ(comparison.n_tokens_unstable, 1u);
  EXPECT_EQ(Of(comparison, Level::kL9), Verdict::kFail);
  EXPECT_NE(comparison.first->what.find("1e-05"), std::string::npos) << comparison.first->what;
  // The same token among 100 others stays unstable: not accepted, and no failure.
  for (FakeSuite* suite : {&reference_, &candidate_}) {
    golden::Case& meta = suite->Case("text").meta;
    meta.generation->tokens.insert(meta.generation->tokens.begin(), 200, 6);
    meta.generation->gaps.insert(meta.generation->gaps.begin(), 200, 1.0);
    meta.max_new_tokens = 300;
  }
  for (FakeSuite* suite : {&source_, &truth_}) suite->Case("text").meta.max_new_tokens = 300;
  comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL9), Verdict::kUnstable);
  // With a smaller e the same tokens are a contradiction: e comes from the policy, not from the run.
  policy_ = *ParsePolicy(FakePolicyJson("4e-6"));
  EXPECT_EQ(Of(Run(), Level::kL9), Verdict::kFail);
}

TEST_F(CompareTest, TheMarginIsSharp_TOL_04) {
  candidate_.Case("ids").meta.generation->tokens = {7, 1, 1, 1};
  reference_.Case("ids").meta.generation->gaps[1] = 2 * policy_.margin_e;
  EXPECT_EQ(Run().tokens[2].verdict, Verdict::kUnstable) << "m = 2e is unstable";
  reference_.Case("ids").meta.generation->gaps[1] = std::nextafter(2 * policy_.margin_e, 1.0);
  EXPECT_EQ(Run().tokens[2].verdict, Verdict::kFail);
}

TEST_F(CompareTest, WrongStopIsNamed_SMP_04) {
  for (FakeSuite* suite : {&reference_, &source_, &truth_, &candidate_})
    suite->Case("ids").meta.max_new_tokens = 5;
  candidate_.Case("ids").meta.generation->tokens = {7, 8, 9, 2, 4};
  candidate_.Case("ids").meta.generation->gaps = {1, 1, 1, 1, 1};
  candidate_.Case("ids").meta.generation->stop_reason = "length";
  Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL9});
  EXPECT_EQ(comparison.first->place, "stop_reason");
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{4}));
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.Case("ids").meta.max_new_tokens = 5;
  candidate_.Case("ids").meta.generation->text = {'a', 'b', 'd'};
  comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL9});
  EXPECT_EQ(comparison.first->place, "text");
}

TEST_F(CompareTest, TruthRule_ORA_02) {
  // The candidate is 2^-20 from truth, source-faithful 2^-18 and reference 2^-22.
  candidate_.Case("ids").Array("logits").values[0] += std::ldexp(1.0, -20);
  source_.Case("text").Array("logits").values[0] += std::ldexp(1.0, -18);
  reference_.Case("chat").Array("logits").values[0] += std::ldexp(1.0, -22);
  Comparison comparison = Run();
  EXPECT_EQ(comparison.truth.verdict, Verdict::kPass);
  EXPECT_EQ(comparison.truth.candidate, std::ldexp(1.0, -20));
  EXPECT_EQ(comparison.truth.source, std::ldexp(1.0, -18));
  EXPECT_EQ(comparison.truth.reference, std::ldexp(1.0, -22));
  ExpectOnly(comparison, Verdict::kPass, {});
  candidate_.Case("ids").Array("logits").values[0] += std::ldexp(1.0, -17);
  comparison = Run();
  EXPECT_EQ(comparison.truth.verdict, Verdict::kFail);
  ExpectOnly(comparison, Verdict::kPass, {});
  // A nonfinite logit has no distance: the rule does not pass by leaving the case out.
  candidate_.Case("ids").Array("logits").values[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Run().truth.verdict, Verdict::kError);
}

TEST_F(CompareTest, EvidenceMustBelongTogether) {
  const auto reference = reference_.Open();
  const auto candidate = candidate_.Open();
  EXPECT_EQ(Compare({}, *candidate, policy_).error().code, ErrorCode::kUsage);
  truth_.content.source_files[0].sha256[0] ^= 1;
  cbor::Map encoded;
  encoded.Set("path", truth_.content.source_files[0].path);
  encoded.Set("sha256", truth_.content.source_files[0].sha256);
  encoded.Set("size", truth_.content.source_files[0].size);
  truth_.content.identities["source"] = Sha256Of(cbor::Encode(cbor::Array{encoded}));
  const auto truth = truth_.Open();
  const auto result = Compare({reference.get(), nullptr, truth.get()}, *candidate, policy_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().field, "identities.source");
  EXPECT_EQ(SortEvidence({reference.get(), reference.get()}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(SortEvidence({candidate.get()}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(SortEvidence({truth.get(), reference.get()})->truth, truth.get());
}

// L5 and L6 speak of every operator of the first, a middle and the last layer, L7 of every case's logits.
TEST_F(CompareTest, EvidenceThatLacksOperatorsIsAnError_ORA_03) {
  const std::vector<std::pair<std::string, Level>> gone = {{"layers.1.attn.q_rope", Level::kL5},
                                                           {"layers.0.attn.mask", Level::kL5},
                                                           {"embed", Level::kL5},
                                                           {"final_norm", Level::kL5},
                                                           {"layers.1.output", Level::kL6},
                                                           {"logits", Level::kL7},
                                                           {"top_k.ids", Level::kL7},
                                                           {"top_k.values", Level::kL7}};
  for (const auto& [name, level] : gone) {
    reference_ = MakeFakeSuite(golden::Mode::kReference);
    std::erase_if(reference_.Case("ids").arrays, [&](const FakeArray& array) { return array.name == name; });
    const Comparison comparison = Run();
    ExpectOnly(comparison, Verdict::kError, {level});
    EXPECT_EQ(comparison.first->code, "CMP-MISSING") << name;
    EXPECT_EQ(comparison.first->place, name);
  }
  reference_ = MakeFakeSuite(golden::Mode::kReference);
  reference_.model_arrays.clear();
  ExpectOnly(Run(), Verdict::kError, {Level::kL3});
}

TEST_F(CompareTest, EvidenceWithoutALayerClaimsNoOperator_ORA_03) {
  const auto cut = [](FakeSuite* suite, auto goes) {
    for (FakeCase& one : suite->cases) std::erase_if(one.arrays, goes);
  };
  // The layers after the first left out of every case.
  cut(&reference_, [](const FakeArray& array) { return array.name.starts_with("layers.1."); });
  ExpectOnly(Run(), Verdict::kError, {Level::kL5, Level::kL6});
  // No layer at all: the embedding alone is no operator's proof.
  reference_ = MakeFakeSuite(golden::Mode::kReference);
  cut(&reference_, [](const FakeArray& array) { return array.name.starts_with("layers."); });
  Comparison comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL5), Verdict::kNotClaimed);
  EXPECT_EQ(Of(comparison, Level::kL6), Verdict::kNotClaimed);
  EXPECT_NE(comparison.levels[5].summary.find("no operator inside a layer"), std::string::npos);
  EXPECT_EQ(Of(comparison, Level::kL7), Verdict::kPass);
  // A failure is not hidden by it.
  candidate_.Case("ids").Array("embed").values[0] += 1;
  comparison = Run();
  EXPECT_EQ(Of(comparison, Level::kL5), Verdict::kFail);
}

// A candidate may keep more than the reference does; the declared slice is compared.
TEST_F(CompareTest, ACandidateThatKeepsMoreIsCutToTheReferencesSlice_GLD_05) {
  const auto cut = [](FakeSuite* suite) {
    for (FakeCase& one : suite->cases) {
      for (FakeArray& array : one.arrays) {
        if (array.rows) continue;
        if (array.layout == golden::Layout::kPackedCausal) {  // [2, 1 + 2 + 3], rows 1 and 2 are kept
          array.values = {array.values[1],  array.values[2], array.values[3], array.values[4],
                          array.values[5],  array.values[7], array.values[8], array.values[9],
                          array.values[10], array.values[11]};
          array.shape = {2, 5};
        } else {
          const auto width = static_cast<ptrdiff_t>(array.values.size() / 3);
          array.values.erase(array.values.begin(), array.values.begin() + width);
          array.shape[0] = 2;
        }
        array.rows = golden::Interval{1, 2};
      }
    }
  };
  for (FakeSuite* suite : {&reference_, &source_, &truth_}) cut(suite);
  // More ranks than the reference keeps, too.
  for (FakeSuite* suite : {&reference_, &source_, &truth_}) {
    for (FakeCase& one : suite->cases) {
      for (const char* name : {"top_k.ids", "top_k.values"}) {
        FakeArray& array = one.Array(name);
        array.shape = {2, 3};
        array.values.erase(array.values.begin() + 7);
        array.values.erase(array.values.begin() + 3);
      }
    }
  }
  ExpectOnly(Run(), Verdict::kPass, {});
  candidate_.Case("ids").Array("layers.0.attn.scores").values[6 + 3 + 1] += 1;
  Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1, 2, 1}));
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.Case("ids").Array("layers.1.attn.q").values[5] += 1;
  comparison = Run();
  ExpectOnly(comparison, Verdict::kFail, {Level::kL5});
  EXPECT_EQ(comparison.first->index, (std::vector<uint64_t>{1, 1}));
  // What the reference does not keep decides nothing.
  candidate_ = MakeFakeSuite(golden::Mode::kCandidate);
  candidate_.Case("ids").Array("layers.1.attn.q").values[1] += 1;
  ExpectOnly(Run(), Verdict::kPass, {});
}

TEST_F(CompareTest, ACandidateThatKeepsLessIsAnError_GLD_05) {
  FakeArray& array = candidate_.Case("ids").Array("layers.1.attn.q");
  array.shape[0] = 2;
  array.values.erase(array.values.begin(), array.values.begin() + 4);
  array.rows = golden::Interval{1, 2};
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kError, {Level::kL5});
  EXPECT_EQ(comparison.first->code, "CMP-SHAPE");
}

// float32 holds every bf16 value: the hashes of one model differ, and say nothing without mode source.
TEST_F(CompareTest, AWidenedReferenceNeedsModeSourceForL3_MAP_04) {
  for (FakeSuite* suite : {&source_, &candidate_}) {
    for (golden::TensorHash& tensor : suite->content.tensors) {
      tensor.dtype = "bf16";
      tensor.sha256[0] ^= 1;
    }
  }
  ExpectOnly(Run(), Verdict::kPass, {});
  const auto reference = reference_.Open();
  const auto compare_alone = [&] {
    const auto candidate = candidate_.Open();
    auto result = Compare({.reference = reference.get()}, *candidate, policy_);
    EXPECT_TRUE(result.has_value());
    return *std::move(result);
  };
  Comparison comparison = compare_alone();
  EXPECT_EQ(Of(comparison, Level::kL3), Verdict::kNotClaimed);
  EXPECT_NE(comparison.levels[3].summary.find("mode source"), std::string::npos);
  EXPECT_FALSE(comparison.first.has_value());
  // Another shape, a tensor left out, or another field of the configuration still fails.
  candidate_.content.tensors[0].shape = {4, 10};
  EXPECT_EQ(Of(compare_alone(), Level::kL3), Verdict::kFail);
  candidate_.content.tensors.pop_back();
  EXPECT_EQ(Of(compare_alone(), Level::kL3), Verdict::kFail);
}

// What is absent is named; "another prompt" is said of another prompt alone.
TEST_F(CompareTest, AbsentTokenizationsAreNamed_LVL_01) {
  for (const char* id : {"text", "chat"}) reference_.Case(id).meta.tokenizations.clear();
  const Comparison comparison = Run();
  ExpectOnly(comparison, Verdict::kError, {Level::kL1, Level::kL2});
  EXPECT_EQ(comparison.levels[2].n_skipped, 0u);
  EXPECT_NE(comparison.levels[1].first->what.find("does not state"), std::string::npos);
  EXPECT_NE(comparison.levels[2].first->what.find("does not state the tokens"), std::string::npos);
}

}  // namespace
}  // namespace slm::compare
