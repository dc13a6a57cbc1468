// Sessions under exact-v1: the same bits however a sequence is cut, in both kernels, in every
// storage type, with hostile padding; taps; refusals; nonfinite values.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/recorder.h"
#include "runtime/test_model.h"

namespace slm {
namespace {

using testing_model::Bind;
using testing_model::Config;
using testing_model::Random;
using testing_model::Weights;

std::vector<uint32_t> Prompt(size_t n) {
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<uint32_t>((i * 31 + i * i * 7 + 3) % 53));
  return ids;
}

std::unique_ptr<Session> NewSession(const std::shared_ptr<const Model>& model,
                                    Kernel kernel = Kernel::kScalar) {
  auto session = Session::Create(model, {.max_positions = 0, .kernel = kernel});
  EXPECT_TRUE(session.has_value());
  return *std::move(session);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// All logits of `ids`, fed in chunks of `chunk`.
std::vector<float> Logits(Session& session, const std::vector<uint32_t>& ids, size_t chunk) {
  std::vector<float> all;
  for (size_t i = 0; i < ids.size(); i += chunk) {
    std::vector<float> part;
    const auto status = session.Prefill(std::span(ids).subspan(i, std::min(chunk, ids.size() - i)),
                                        LogitRows::kAll, &part, nullptr);
    EXPECT_TRUE(status.has_value()) << status.error().ToString();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Session, AnyChunkingGivesTheSameBits) {  // exact-v1
  const auto model = *Bind(Random(Config(), 5));
  const std::vector<uint32_t> ids = Prompt(90);  // more than one inner chunk of 64
  const auto whole = NewSession(model);
  const std::vector<float> want = Logits(*whole, ids, ids.size());
  ASSERT_EQ(want.size(), 90 * 53u);
  for (const size_t chunk : {1u, 2u, 7u, 16u, 63u, 64u, 65u}) {
    const auto session = NewSession(model);
    EXPECT_TRUE(SameBits(Logits(*session, ids, chunk), want)) << chunk;
    EXPECT_EQ(session->KvHash(), whole->KvHash()) << chunk;
  }
  // Another sequence gives other bits: the comparison can fail.
  std::vector<uint32_t> other = ids;
  other[0] ^= 1;
  const auto session = NewSession(model);
  EXPECT_FALSE(SameBits(Logits(*session, other, 90), want));
  EXPECT_NE(session->KvHash(), whole->KvHash());
}

TEST(Session, RowsOfLogits) {
  const auto model = *Bind(Random(Config(), 5));
  const std::vector<uint32_t> ids = Prompt(70);
  const std::vector<float> all = Logits(*NewSession(model), ids, 70);
  std::vector<float> last = {1.0f};
  auto session = NewSession(model);
  ASSERT_TRUE(session->Prefill(ids, LogitRows::kLast, &last, nullptr).has_value());
  EXPECT_TRUE(SameBits(last, std::vector<float>(all.end() - 53, all.end())));
  session = NewSession(model);
  ASSERT_TRUE(session->Prefill(ids, LogitRows::kNone, &last, nullptr).has_value());
  EXPECT_TRUE(last.empty());
  ASSERT_TRUE(NewSession(model)->Prefill(ids, LogitRows::kNone, nullptr, nullptr).has_value());
}

TEST(Session, VectorKernelEqualsScalar) {  // BKD: native SIMD is bit-equal
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto model = *Bind(Random(Config(), 9, dtype));
    const auto vector = Session::Create(model, {.max_positions = 0, .kernel = Kernel::kVector});
    if (!vector.has_value()) {
      EXPECT_EQ(vector.error().code, ErrorCode::kUnsupported);
      printf("not-run: session: no AVX2 on this CPU\n");
      GTEST_SKIP() << "no AVX2 on this CPU";
    }
    EXPECT_EQ((*vector)->kernel_name(), "native-vector");
    const auto scalar = NewSession(model);
    EXPECT_EQ(scalar->kernel_name(), "native-scalar");
    EXPECT_TRUE(SameBits(Logits(**vector, Prompt(80), 33), Logits(*scalar, Prompt(80), 80)));
    EXPECT_EQ((*vector)->KvHash(), scalar->KvHash());
  }
}

TEST(Session, StoredTypesWidenExactly) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const auto half = *Bind(Random(Config(), 4, dtype));
    const auto wide = *Bind(Random(Config(), 4, DType::kF32, 0.0f, dtype));
    EXPECT_TRUE(
        SameBits(Logits(*NewSession(half), Prompt(20), 20), Logits(*NewSession(wide), Prompt(20), 20)));
    const auto exact = *Bind(Random(Config(), 4));
    EXPECT_FALSE(
        SameBits(Logits(*NewSession(half), Prompt(20), 20), Logits(*NewSession(exact), Prompt(20), 20)));
  }
}

// MAP-03, by two tests: files with such a fill are refused (SLM-PAD, slm_file/artifact_test.cc), and kernels
// do not read it (here, on models that no file holds).
TEST(Session, PaddingRowsReachNothing) {
  const std::vector<float> want = Logits(*NewSession(*Bind(Random(Config(), 6))), Prompt(40), 40);
  for (const float padding :
       {std::numeric_limits<float>::quiet_NaN(), 1e30f, std::numeric_limits<float>::infinity()}) {
    const auto model = *Bind(Random(Config(), 6, DType::kF32, padding));
    EXPECT_TRUE(SameBits(Logits(*NewSession(model), Prompt(40), 40), want)) << padding;
  }
}

TEST(Session, TruncateEqualsAFreshRun) {  // nothing stale survives
  const auto model = *Bind(Random(Config(), 5));
  const auto session = NewSession(model);
  const std::vector<uint32_t> first = Prompt(50);
  Logits(*session, first, 50);
  ASSERT_TRUE(session->Truncate(20).has_value());
  EXPECT_EQ(session->n_positions(), 20u);
  std::vector<uint32_t> ids(first.begin(), first.begin() + 20);
  for (uint32_t i = 0; i < 30; ++i) ids.push_back((i * 5 + 1) % 53);
  const std::vector<float> resumed = Logits(*session, {ids.begin() + 20, ids.end()}, 30);
  const auto fresh = NewSession(model);
  const std::vector<float> whole = Logits(*fresh, ids, 50);
  EXPECT_TRUE(SameBits(resumed, std::vector<float>(whole.end() - 30 * 53, whole.end())));
  EXPECT_EQ(session->KvHash(), fresh->KvHash());
  EXPECT_EQ(std::vector<uint32_t>(session->ids().begin(), session->ids().end()), ids);
  const auto status = session->Truncate(51);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCtxLength);
}

std::vector<RecordedArray> Record(const std::shared_ptr<const Model>& model, const std::vector<uint32_t>& ids,
                                  size_t chunk, std::vector<std::string> names) {
  const auto session = NewSession(model);
  ObservationRecorder recorder;
  TapSet taps{.all = names.empty(), .names = std::move(names), .tap = recorder.MakeTap()};
  for (size_t i = 0; i < ids.size(); i += chunk) {
    const auto part = std::span(ids).subspan(i, std::min(chunk, ids.size() - i));
    EXPECT_TRUE(session->Prefill(part, LogitRows::kLast, nullptr, &taps).has_value());
  }
  return recorder.Take();
}

TEST(Session, TapsSeeEveryObservationInEveryChunking) {  // ORA-03, OPS-06
  const auto model = *Bind(Random(Config(), 5));
  const std::vector<uint32_t> ids = Prompt(19);
  const std::vector<RecordedArray> whole = Record(model, ids, 19, {});
  const Plan& plan = model->plan();
  size_t n_observations = 0;
  for (const Step& step : plan.steps) n_observations += step.observation.empty() ? 0u : 1u;
  ASSERT_EQ(whole.size(), n_observations);
  for (const size_t chunk : {1u, 4u, 18u}) {
    const std::vector<RecordedArray> parts = Record(model, ids, chunk, {});
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(parts[i].name, whole[i].name);
      EXPECT_EQ(parts[i].shape, whole[i].shape) << whole[i].name;
      EXPECT_TRUE(SameBits(parts[i].values, whole[i].values)) << whole[i].name << " in chunks of " << chunk;
      EXPECT_EQ(parts[i].mask_bits, whole[i].mask_bits) << whole[i].name;
    }
  }
  const auto find = [&](std::string_view name) {
    return *std::find_if(whole.begin(), whole.end(),
                         [&](const RecordedArray& array) { return array.name == name; });
  };
  EXPECT_EQ(find("rope.inv_freq").values, plan.rope.inv_freq);
  EXPECT_EQ(find("logits").shape, (std::vector<uint64_t>{19, 53}));
  EXPECT_EQ(find("layers.1.attn.k_rope").shape, (std::vector<uint64_t>{19, 2, 10}));
  EXPECT_EQ(find("layers.1.attn.k_rope").layer, 1);
  EXPECT_EQ(find("layers.2.attn.scores").shape, (std::vector<uint64_t>{6, 190}));
  // Each row of probabilities sums to 1; the first has one entry.
  const RecordedArray probs = find("layers.2.attn.probs");
  for (size_t head = 0; head < 6; ++head) {
    size_t at = head * 190;
    EXPECT_EQ(probs.values[at], 1.0f);
    for (size_t t = 0; t < 19; ++t) {
      float sum = 0.0f;
      for (size_t j = 0; j <= t; ++j) sum += probs.values[at++];
      EXPECT_NEAR(sum, 1.0f, 1e-5f);
    }
  }
  // 19 columns in 3 bytes a row, lowest bit first: row 8 sees columns 0 to 8.
  const RecordedArray mask = find("layers.0.attn.mask");
  EXPECT_EQ(mask.shape, (std::vector<uint64_t>{19, 19}));
  ASSERT_EQ(mask.mask_bits.size(), 57u);
  EXPECT_EQ(mask.mask_bits[8 * 3], 0xff);
  EXPECT_EQ(mask.mask_bits[8 * 3 + 1], 0x01);
  EXPECT_EQ(mask.mask_bits[18 * 3 + 2], 0x07);
}

TEST(Session, TapsByNameDoNotChangeTheRun) {
  const auto model = *Bind(Random(Config(), 5));
  const std::vector<RecordedArray> some = Record(model, Prompt(10), 10, {"embed", "layers.1.output"});
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[1].name, "layers.1.output");
  // The residual after layer 1 is what layer 2 reads: the difference of two taps is a third.
  const auto status = NewSession(model)->Prefill(
      Prompt(3), LogitRows::kNone, nullptr,
      std::make_unique<TapSet>(TapSet{.all = false, .names = {"layers.9.output"}, .tap = {}}).get());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kRunTap);
  EXPECT_EQ(status.error().field, "layers.9.output");
}

TEST(Session, RefusesBeforeRunning) {  // RUN: codes and fields
  const auto model = *Bind(Random(Config(), 5));
  const auto session = NewSession(model);
  auto status = session->Prefill({}, LogitRows::kNone, nullptr, nullptr);
  EXPECT_EQ(status.error().code, ErrorCode::kRunEmpty);
  status = session->Prefill(std::vector<uint32_t>{1, 2, 53}, LogitRows::kNone, nullptr, nullptr);
  EXPECT_EQ(status.error().code, ErrorCode::kRunTokenRange);
  EXPECT_EQ(status.error().field, "ids[2]");
  status = session->Prefill(Prompt(97), LogitRows::kNone, nullptr, nullptr);
  EXPECT_EQ(status.error().code, ErrorCode::kCtxLength);
  EXPECT_EQ(session->n_positions(), 0u);
  ASSERT_TRUE(session->Prefill(Prompt(96), LogitRows::kNone, nullptr, nullptr).has_value());
  status = session->Prefill(Prompt(1), LogitRows::kNone, nullptr, nullptr);
  EXPECT_EQ(status.error().code, ErrorCode::kCtxLength);
  const auto longer = Session::Create(model, {.max_positions = 97});
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code, ErrorCode::kCtxLength);
}

TEST(Session, DynamicScalingStopsAtTheTrainedContext) {  // architecture.md: position-dependent scaling
  EffectiveConfig config = Config();
  config.rope.type = RopeType::kDynamic;
  config.max_positions = 32;
  const auto model = *Bind(Random(config, 5));
  EXPECT_FALSE(Session::Create(model, {.max_positions = 33}).has_value());
  const auto session = NewSession(model);
  const auto status = session->Prefill(Prompt(33), LogitRows::kNone, nullptr, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCtxLength);
}

TEST(Session, NonfiniteStopsWithNameAndIndex) {  // OPS-03
  Weights weights = Random(Config(), 5);
  testing_model::Tensor& up = weights.tensors["layers.1.mlp.up.weight"];
  testing_model::Put(&up, testing_model::StoredIndex(up, 37, 4), std::numeric_limits<float>::quiet_NaN());
  auto session = NewSession(*Bind(weights));
  auto status = session->Prefill(Prompt(5), LogitRows::kLast, nullptr, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kNonfinite);
  EXPECT_EQ(status.error().field, "layers.1.mlp.up");
  EXPECT_NE(status.error().message.find("NaN at position 0, index [37]"), std::string::npos)
      << status.error().message;
  EXPECT_EQ(session->n_positions(), 0u);

  // An embedding so large that its square overflows: the norm's zeros must not hide it.
  weights = Random(Config(), 5);
  testing_model::Tensor& embed = weights.tensors["embed.weight"];
  const std::vector<uint32_t> ids = Prompt(5);
  testing_model::Put(&embed, testing_model::StoredIndex(embed, ids[3], 0), 3e38f);
  session = NewSession(*Bind(weights));
  status = session->Prefill(ids, LogitRows::kLast, nullptr, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kNonfinite);
  EXPECT_EQ(status.error().field, "layers.0.attn_norm");
  EXPECT_NE(status.error().message.find("infinite mean square at position 3"), std::string::npos)
      << status.error().message;

  // Scores: queries and keys of 1e25 are finite, their products are not.
  weights = Random(Config(), 5);
  for (const char* name : {"layers.0.attn.q.weight", "layers.0.attn.k.weight"}) {
    testing_model::Tensor& tensor = weights.tensors[name];
    testing_model::Put(&tensor, testing_model::StoredIndex(tensor, 0, 0), 1e25f);
  }
  session = NewSession(*Bind(weights));
  status = session->Prefill(ids, LogitRows::kLast, nullptr, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().field, "layers.0.attn.scores");
  EXPECT_NE(status.error().message.find("infinite at position 0, index [0, 0]"), std::string::npos)
      << status.error().message;

  // A failed call leaves earlier positions usable.
  weights = Random(Config(), 5);
  testing_model::Tensor& table = weights.tensors["embed.weight"];
  testing_model::Put(&table, testing_model::StoredIndex(table, 52, 39),
                     std::numeric_limits<float>::infinity());
  session = NewSession(*Bind(weights));
  ASSERT_TRUE(session->Prefill(std::vector<uint32_t>{1, 2}, LogitRows::kNone, nullptr, nullptr).has_value());
  const Hash256 before = session->KvHash();
  status = session->Prefill(std::vector<uint32_t>{3, 52}, LogitRows::kNone, nullptr, nullptr);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().field, "embed");
  EXPECT_NE(status.error().message.find("infinite at position 3, index [39]"), std::string::npos)
      << status.error().message;
  EXPECT_EQ(session->n_positions(), 2u);
  EXPECT_EQ(session->KvHash(), before);
}

}  // namespace
}  // namespace slm
