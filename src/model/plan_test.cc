// The plan: every observation of ORA-03 once, in the order of BIS-01, with its shape.
#include "model/plan.h"

#include <gtest/gtest.h>

#include <set>

namespace slm {
namespace {

EffectiveConfig SmallConfig() {
  EffectiveConfig config;
  config.family = "llama";
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = config.padded_vocab_size = 37;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 10;
  config.max_positions = 64;
  config.q_bias = true;
  config.rope.dim = 10;
  config.rope.inv_freq.assign(5, 1.0f);
  return config;
}

TEST(Plan, ObservationsAreThoseOfTheStandard) {  // ORA-03, BIS-01
  const auto plan = BuildPlan(SmallConfig());
  ASSERT_TRUE(plan.has_value());
  std::vector<std::string> names;
  for (const Step& step : plan->steps) {
    if (!step.observation.empty()) names.push_back(step.observation);
  }
  std::vector<std::string> want = {"rope.inv_freq", "embed"};
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const char* name : {"attn_norm", "attn.q", "attn.k", "attn.v", "attn.q_rope", "attn.k_rope",
                             "attn.scores", "attn.mask", "attn.probs", "attn.av", "attn.out", "attn_residual",
                             "mlp_norm", "mlp.gate", "mlp.up", "mlp.act", "mlp.down", "output"}) {
      want.push_back(std::string(layer) + name);
    }
  }
  want.emplace_back("final_norm");
  want.emplace_back("logits");
  EXPECT_EQ(names, want);
  EXPECT_EQ(plan->FindObservation("layers.1.attn.k_rope")->shape, (std::vector<uint64_t>{2, 10}));
  EXPECT_EQ(plan->FindObservation("layers.1.attn.k_rope")->layer, 1u);
  EXPECT_EQ(plan->FindObservation("layers.2.output"), nullptr);
  EXPECT_EQ(plan->FindObservation(""), nullptr);
}

TEST(Plan, StepsReadOnlyWhatAnEarlierStepWrote) {
  const auto plan = BuildPlan(SmallConfig());
  ASSERT_TRUE(plan.has_value());
  std::set<Slot> written;
  for (const Step& step : plan->steps) {
    for (const Slot slot : step.inputs) {
      EXPECT_TRUE(slot == Slot::kNone || written.contains(slot)) << OperatorName(step.op);
    }
    if (step.output != Slot::kNone) written.insert(step.output);
    if (step.output != Slot::kNone && step.output != Slot::kScores) {
      uint64_t width = 1;
      for (const uint64_t size : step.shape) width *= size;
      EXPECT_EQ(width, plan->slot_width[static_cast<size_t>(step.output)]);
    }
  }
}

TEST(Plan, TensorsWithShapesAndBiases) {  // MAP-01: what the converter must supply
  const auto plan = BuildPlan(SmallConfig());
  ASSERT_TRUE(plan.has_value());
  const std::vector<PlanTensor> tensors = PlanTensors(*plan);
  std::set<std::string> names;
  for (const PlanTensor& tensor : tensors) EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  EXPECT_EQ(tensors.size(), 2 + 2 * 10 + 1u);
  EXPECT_TRUE(names.contains("layers.0.attn.q.bias"));
  EXPECT_FALSE(names.contains("layers.0.attn.k.bias"));
  EXPECT_EQ(tensors[0].name, "embed.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{37, 24}));
  for (const PlanTensor& tensor : tensors) {
    if (tensor.name == "layers.1.attn.o.weight" || tensor.name == "layers.1.mlp.down.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{24, 40}));
    }
    EXPECT_EQ(tensor.layout, tensor.shape.size() == 2 ? Layout::kRows16 : Layout::kRowMajor);
  }
  EXPECT_EQ(tensors.back().name, "head.weight");
}

void ExpectRefused(EffectiveConfig config, ErrorCode code, std::string_view field) {
  const auto plan = BuildPlan(config);
  ASSERT_FALSE(plan.has_value()) << field;
  EXPECT_EQ(plan.error().code, code) << field;
  EXPECT_EQ(plan.error().field, field);
}

TEST(Plan, RefusesSizesThatDoNotFit) {  // CFG-01
  EffectiveConfig config = SmallConfig();
  config.family = "mamba";
  ExpectRefused(config, ErrorCode::kCfgArchitecture, "family");
  config = SmallConfig();
  config.n_kv_heads = 3;
  ExpectRefused(config, ErrorCode::kCfgShape, "n_kv_heads");
  config.n_kv_heads = 8;
  ExpectRefused(config, ErrorCode::kCfgShape, "n_kv_heads");
  config = SmallConfig();
  config.hidden_size = 0;
  ExpectRefused(config, ErrorCode::kCfgShape, "hidden_size");
  config = SmallConfig();
  config.n_heads = 1u << 16;
  config.head_dim = 1u << 16;
  ExpectRefused(config, ErrorCode::kCfgShape, "n_heads");
  config = SmallConfig();
  config.padded_vocab_size = 64;
  ExpectRefused(config, ErrorCode::kCfgShape, "padded_vocab_size");
  config = SmallConfig();
  config.rope.inv_freq.pop_back();
  ExpectRefused(config, ErrorCode::kCfgRope, "rope.dim");
  config = SmallConfig();
  config.max_positions = uint64_t{1} << 25;  // positions must be exact in float32
  ExpectRefused(config, ErrorCode::kCfgShape, "max_positions");
}

}  // namespace
}  // namespace slm
