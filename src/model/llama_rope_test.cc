// Rotary parameters: old and new spelling, contradictions, closed parameter sets (CFG-01, CFG-02).
#include <gtest/gtest.h>

#include "model/llama.h"

namespace slm {
namespace {

std::string Text(const std::string& members) {
  return R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, )"
         R"("num_attention_heads": 2, "max_position_embeddings": 1024)" +
         members + "}";
}

Result<ConfigResult> Build(const std::string& members) {
  const auto document = json::Parse(Text(members));
  EXPECT_TRUE(document.has_value()) << members;
  return BuildLlamaConfig(document->root(), nullptr, FamilyProfile::Llama());
}

void ExpectRefused(const std::string& members, ErrorCode code, const std::string& field,
                   const std::string& at) {
  const auto built = Build(members);
  ASSERT_FALSE(built.has_value()) << members;
  EXPECT_EQ(Info(built.error().code).name, Info(code).name) << built.error().ToString();
  EXPECT_EQ(built.error().field, field);
  ASSERT_TRUE(built.error().byte_offset.has_value());
  EXPECT_EQ(Text(members).substr(*built.error().byte_offset, at.size()), at);
}

RopeConfig Rope(const std::string& members) {
  const auto built = Build(members);
  EXPECT_TRUE(built.has_value()) << members << built.error().ToString();
  return built ? built->config.rope : RopeConfig{};
}

TEST(LlamaRope, OldAndNewSpellingAreAlike) {
  const std::string body = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, )"
                           R"("original_max_position_embeddings": 256)";
  const RopeConfig old_type =
      Rope(R"(, "rope_theta": 5e5, "rope_scaling": {"type": "llama3", )" + body + "}");
  EXPECT_EQ(old_type, Rope(R"(, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", )" + body + "}"));
  EXPECT_EQ(old_type,
            Rope(R"(, "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", )" + body + "}"));
  EXPECT_EQ(old_type,
            Rope(R"(, "rope_theta": 500000, "rope_scaling": {"type": "llama3", "rope_type": "llama3", )" +
                 body + R"(}, "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", )" + body + "}"));
  EXPECT_EQ(old_type.type, RopeType::kLlama3);
  EXPECT_EQ(old_type.theta, 500000.0);
  EXPECT_EQ(Rope(R"(, "rope_scaling": null)"), Rope(""));
  EXPECT_EQ(Rope(R"(, "rope_scaling": {}, "rope_parameters": null)"), Rope(""));
}

TEST(LlamaRope, ContradictionsNameBoth) {
  ExpectRefused(R"(, "rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4, "rope_type": "default"})",
                ErrorCode::kCfgRope, "rope_theta", "1e4");
  ExpectRefused(R"(, "rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2})",
                ErrorCode::kCfgRope, "rope_scaling.type", "\"linear\"");
  ExpectRefused(
      R"(, "rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"})",
      ErrorCode::kCfgRope, "rope_parameters", "{\"rope_type\"");
  // The source would drop this theta silently, since rope_scaling wins.
  ExpectRefused(R"(, "rope_scaling": {"type": "linear", "factor": 2}, )"
                R"("rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5})",
                ErrorCode::kCfgRope, "rope_parameters", "{\"rope_type\"");
  ExpectRefused(R"(, "original_max_position_embeddings": 128, "rope_scaling": {"type": "yarn", "factor": 2, )"
                R"("original_max_position_embeddings": 256})",
                ErrorCode::kCfgRope, "original_max_position_embeddings", "128");
  ExpectRefused(R"(, "original_max_position_embeddings": 128)", ErrorCode::kCfgRope,
                "original_max_position_embeddings", "128");
  EXPECT_EQ(Rope(R"(, "original_max_position_embeddings": 1024)"), Rope(""));
  const auto both = Build(R"(, "rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4})");
  EXPECT_NE(both.error().message.find("rope_theta = 1e4"), std::string::npos);
  EXPECT_NE(both.error().message.find("rope_parameters.rope_theta = 2e4"), std::string::npos);
}

TEST(LlamaRope, ParametersAreClosed) {
  ExpectRefused(R"(, "rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 32})",
                ErrorCode::kCfgUnknownField, "rope_scaling.beta_fast", "\"beta_fast\"");
  ExpectRefused(R"(, "rope_scaling": {"rope_type": "default", "factor": 2})", ErrorCode::kCfgUnknownField,
                "rope_scaling.factor", "\"factor\"");
  ExpectRefused(R"(, "rope_parameters": {"full_attention": {"rope_type": "default"}})",
                ErrorCode::kCfgUnknownField, "rope_parameters.full_attention", "\"full_attention\"");
  ExpectRefused(R"(, "rope_scaling": {"type": "longrope", "factor": 2})", ErrorCode::kCfgValue,
                "rope_scaling.type", "\"longrope\"");
  ExpectRefused(R"(, "rope_parameters": {"partial_rotary_factor": 0.5})", ErrorCode::kCfgValue,
                "rope_parameters.partial_rotary_factor", "0.5");
  ExpectRefused(R"(, "rope_scaling": [1])", ErrorCode::kCfgType, "rope_scaling", "[1]");
  ExpectRefused(R"(, "rope_theta": "1e4")", ErrorCode::kCfgType, "rope_theta", "\"1e4\"");
  ExpectRefused(R"(, "rope_theta": null)", ErrorCode::kCfgType, "rope_theta", "null");
}

TEST(LlamaRope, RequiredParameters) {
  ExpectRefused(R"(, "rope_scaling": {"type": "linear"})", ErrorCode::kCfgMissing, "rope_scaling",
                "{\"type\"");
  ExpectRefused(R"(, "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1})",
                ErrorCode::kCfgMissing, "rope_scaling", "{\"type\"");
  ExpectRefused(R"(, "rope_scaling": {"type": "linear", "factor": 0})", ErrorCode::kCfgValue,
                "rope_scaling.factor", "0");
  ExpectRefused(R"(, "rope_scaling": {"type": "linear", "factor": 1e999})", ErrorCode::kCfgValue,
                "rope_scaling.factor", "1e999");
  for (const char* key : {"beta_fast", "beta_slow", "attention_factor"}) {
    ExpectRefused(std::string(R"(, "rope_scaling": {"type": "yarn", "factor": 2.0, ")") + key + R"(": -1.5})",
                  ErrorCode::kCfgValue, std::string("rope_scaling.") + key, "-1.5");
  }
  ExpectRefused(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 0.0})", ErrorCode::kCfgValue,
                "rope_parameters.rope_theta", "0.0");
  ExpectRefused(
      R"(, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})",
      ErrorCode::kCfgRope, "rope_high_freq_factor", "{\"type\"");
}

// Fault kind 2: each parameter of each type changes the effective configuration.
TEST(LlamaRope, EveryParameterIsRead) {
  const auto scaling = [](const std::string& body) { return Rope(R"(, "rope_scaling": {)" + body + "}"); };
  const std::string yarn = R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256)";
  const RopeConfig base = scaling(yarn);
  for (const char* change : {R"("attention_factor": 1.5)", R"("beta_fast": 8)", R"("beta_slow": 2)",
                             R"("mscale": 0.5, "mscale_all_dim": 0.9)", R"("truncate": false)",
                             R"("truncate": null)", R"("rope_theta": 2e4)"}) {
    EXPECT_FALSE(scaling(yarn + ", " + change) == base) << change;
  }
  EXPECT_FALSE(scaling(R"("rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 256)") ==
               base);
  EXPECT_FALSE(scaling(R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128)") ==
               base);
  EXPECT_EQ(
      scaling(yarn + R"(, "beta_fast": null, "beta_slow": 0, "attention_factor": null, "truncate": true)"),
      base);
  EXPECT_EQ(scaling(R"("rope_type": "yarn", "factor": null, "original_max_position_embeddings": 256)"), base);
  const auto llama3 = [&](const char* factor, const char* low, const char* high, const char* length) {
    return scaling(std::string(R"("rope_type": "llama3", "factor": )") + factor + R"(, "low_freq_factor": )" +
                   low + R"(, "high_freq_factor": )" + high + R"(, "original_max_position_embeddings": )" +
                   length);
  };
  const RopeConfig base3 = llama3("8", "1", "4", "256");
  EXPECT_FALSE(llama3("9", "1", "4", "256").inv_freq == base3.inv_freq);
  EXPECT_FALSE(llama3("8", "0.5", "4", "256").inv_freq == base3.inv_freq);
  EXPECT_FALSE(llama3("8", "1", "6", "256").inv_freq == base3.inv_freq);
  EXPECT_FALSE(llama3("8", "1", "4", "128").inv_freq == base3.inv_freq);
}

// Dynamic scaling equals default up to max_position_embeddings, which is all that is admitted.
TEST(LlamaRope, DynamicEqualsDefaultInsideTheContext) {
  const RopeConfig dynamic = Rope(R"(, "rope_scaling": {"type": "dynamic", "factor": 2.0})");
  EXPECT_EQ(dynamic.type, RopeType::kDynamic);
  EXPECT_EQ(dynamic.inv_freq, Rope("").inv_freq);
}

}  // namespace
}  // namespace slm
