// Greedy generation and its stop rules (SMP-04).
#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/test_model.h"

namespace slm {
namespace {

using testing_model::Bind;
using testing_model::Config;
using testing_model::Random;

const std::vector<uint32_t> kPrompt = {3, 1, 4, 1, 5};

std::unique_ptr<Session> NewSession(uint64_t max_positions = 0, EffectiveConfig config = Config()) {
  return *Session::Create(*Bind(Random(config, 21)), {.max_positions = max_positions});
}

// What greedy means, by full recomputation of the whole sequence for every token.
std::vector<uint32_t> Recompute(size_t n) {
  std::vector<uint32_t> ids = kPrompt;
  for (size_t i = 0; i < n; ++i) {
    const auto session = NewSession();
    std::vector<float> logits;
    EXPECT_TRUE(session->Prefill(ids, LogitRows::kLast, &logits, nullptr).has_value());
    ids.push_back(static_cast<uint32_t>(ops::Argmax(logits)));
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(kPrompt.size()), ids.end()};
}

TEST(Generate, EqualsFullRecomputation) {
  const auto session = NewSession();
  std::vector<uint32_t> seen;
  std::vector<uint32_t> from_logits;
  GenerateOptions options{.max_new_tokens = 12, .stop_at_eos = false};
  options.on_logits = [&](uint64_t index, std::span<const float> logits, uint32_t id) {
    EXPECT_EQ(index, from_logits.size());
    EXPECT_EQ(ops::Argmax(logits), id);
    from_logits.push_back(id);
  };
  const auto result = Generate(*session, kPrompt, options, [&](uint32_t id) {
    seen.push_back(id);
    return AfterToken::kGoOn;
  });
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->ids, Recompute(12));
  EXPECT_EQ(seen, result->ids);
  EXPECT_EQ(from_logits, result->ids);
  EXPECT_EQ(result->stop_reason, StopReason::kLength);
  EXPECT_EQ(session->n_positions(), kPrompt.size() + 11);  // the last token is not fed
}

TEST(Generate, StopsInTheStatedOrder) {
  const std::vector<uint32_t> tokens = Recompute(6);
  // The end-of-sequence set, wherever it stands in the set.
  EffectiveConfig config = Config();
  config.eos_token_ids = {tokens[2], 60};
  size_t first = 0;
  while (tokens[first] != tokens[2]) ++first;
  auto session = NewSession(0, config);
  auto result = Generate(*session, kPrompt, {.max_new_tokens = 6}, {});
  EXPECT_EQ(result->stop_reason, StopReason::kEos);
  EXPECT_EQ(result->ids.size(), first + 1);  // the end token stands in the ids
  session = NewSession(0, config);
  result = Generate(*session, kPrompt, {.max_new_tokens = 6, .stop_at_eos = false}, {});
  EXPECT_EQ(result->stop_reason, StopReason::kLength);
  EXPECT_EQ(result->ids, tokens);
  // A stop id; eos comes first where one token is both; a stop rule comes before the length.
  session = NewSession();
  result = Generate(*session, kPrompt,
                    {.max_new_tokens = first + 1, .stop_at_eos = true, .stop_ids = {tokens[2]}}, {});
  EXPECT_EQ(result->stop_reason, StopReason::kStopId);
  session = NewSession(0, config);
  result =
      Generate(*session, kPrompt, {.max_new_tokens = 6, .stop_at_eos = true, .stop_ids = {tokens[2]}}, {});
  EXPECT_EQ(result->stop_reason, StopReason::kEos);
  // The caller.
  session = NewSession();
  result = Generate(*session, kPrompt, {.max_new_tokens = 6, .stop_at_eos = false},
                    [](uint32_t) { return AfterToken::kCancel; });
  EXPECT_EQ(result->stop_reason, StopReason::kCancelled);
  EXPECT_EQ(result->ids.size(), 1u);
}

TEST(Generate, AStopStringEndsTheRunBehindEosAndStopIds) {
  const std::vector<uint32_t> tokens = Recompute(2);
  const auto stop = [](uint32_t) { return AfterToken::kStopString; };
  GenerateOptions options{.max_new_tokens = 1, .stop_at_eos = false};
  EXPECT_EQ(Generate(*NewSession(), kPrompt, options, stop)->stop_reason, StopReason::kStopString);
  options.stop_ids = {tokens[0]};
  EXPECT_EQ(Generate(*NewSession(), kPrompt, options, stop)->stop_reason, StopReason::kStopId);
}

// SMP-01, SMP-02: the run draws with the sampler's numbers; step by step gives what the loop gives.
TEST(Generate, SamplesWithTheSeed) {
  GenerateOptions options{.max_new_tokens = 20, .stop_at_eos = false};
  options.sampling = {.temperature = 1.5, .top_k = 20, .top_p = 0.9, .repetition_penalty = 1.2f, .seed = 11};
  std::vector<SampleTrace> traces;
  options.on_trace = [&](const SampleTrace& trace) { traces.push_back(trace); };
  const std::vector<uint32_t> first = Generate(*NewSession(), kPrompt, options, {})->ids;
  ASSERT_EQ(traces.size(), 20u);
  for (size_t i = 0; i < traces.size(); ++i) {
    EXPECT_EQ(traces[i].token_index, i);
    EXPECT_EQ(traces[i].id, first[i]);
    EXPECT_TRUE(traces[i].drawn);
    // Prompt and new tokens, each once.
    std::vector<uint32_t> seen(kPrompt);
    seen.insert(seen.end(), first.begin(), first.begin() + static_cast<std::ptrdiff_t>(i));
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(traces[i].n_penalized,
              static_cast<uint64_t>(std::unique(seen.begin(), seen.end()) - seen.begin()));
  }
  EXPECT_NE(first, Recompute(20));
  options.on_trace = {};
  const auto session = NewSession();
  auto generator = Generator::Create(*session, options);
  ASSERT_TRUE(generator.has_value());
  ASSERT_TRUE(*generator->Begin(kPrompt));
  std::vector<uint32_t> stepped;
  while (true) {
    const auto step = generator->Next();
    ASSERT_TRUE(step.has_value());
    stepped.push_back(step->id);
    if (step->stop) break;
  }
  EXPECT_EQ(stepped, first);
  options.sampling.seed = 12;
  EXPECT_NE(Generate(*NewSession(), kPrompt, options, {})->ids, first);
  options.sampling.temperature = -1;
  EXPECT_EQ(Generate(*NewSession(), kPrompt, options, {}).error().code, ErrorCode::kSampleValue);
}

TEST(Generate, ContextEnd) {  // prompt and new tokens never exceed the positions
  for (const uint64_t room : {0u, 1u, 3u}) {
    const auto session = NewSession(kPrompt.size() + room);
    const auto result = Generate(*session, kPrompt, {.max_new_tokens = 10, .stop_at_eos = false}, {});
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->stop_reason, StopReason::kContext);
    EXPECT_EQ(result->ids.size(), room);
  }
  // Exactly enough room: the length is reached, not the end.
  const auto session = NewSession(kPrompt.size() + 3);
  const auto result = Generate(*session, kPrompt, {.max_new_tokens = 3, .stop_at_eos = false}, {});
  EXPECT_EQ(result->stop_reason, StopReason::kLength);
  const auto refused = Generate(*NewSession(4), kPrompt, {.max_new_tokens = 3}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCtxLength);
}

TEST(Generate, PromptLogits) {
  auto session = NewSession();
  auto result = Generate(*session, kPrompt, {.max_new_tokens = 0, .prompt_logits = LogitRows::kAll}, {});
  EXPECT_EQ(result->prompt_logits.size(), kPrompt.size() * 53);
  EXPECT_EQ(result->stop_reason, StopReason::kLength);
  EXPECT_TRUE(result->ids.empty());
  const std::vector<float> all = result->prompt_logits;
  session = NewSession();
  result = Generate(*session, kPrompt, {.max_new_tokens = 1, .prompt_logits = LogitRows::kLast}, {});
  EXPECT_EQ(result->prompt_logits, std::vector<float>(all.end() - 53, all.end()));
}

TEST(Generate, StopReasonNames) {
  EXPECT_EQ(StopReasonName(StopReason::kEos), "eos");
  EXPECT_EQ(StopReasonName(StopReason::kStopId), "stop_id");
  EXPECT_EQ(StopReasonName(StopReason::kStopString), "stop_string");
  EXPECT_EQ(StopReasonName(StopReason::kContext), "context");
  EXPECT_EQ(StopReasonName(StopReason::kError), "error");
}

}  // namespace
}  // namespace slm
