#include "compare/policy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "codec/sha256.h"
#include "compare/stages.h"

namespace slm::compare {
namespace {

std::string ReadPolicy(const std::string& name) {
  std::ifstream file(std::string(SLM_SOURCE_DIR) + "/profiles/tolerance/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// A policy in which every bounded role has one limit, so that the tests can edit it.
std::string SmallPolicy() {
  std::string rules;
  for (std::string_view role : NumericRoles()) {
    if (!rules.empty()) rules += ",";
    rules += "{\"role\":\"" + std::string(role) + "\",";
    if (role == "embed" || role == "attn.mask") {
      rules += "\"kind\":\"exact\"}";
    } else if (role == "rope.inv_freq") {
      rules += "\"kind\":\"ulp\",\"max_ulp\":1}";
    } else {
      rules +=
          "\"kind\":\"bounded\",\"atol\":2e-5,\"rtol\":1e-6,\"relative_floor\":1e-3,"
          "\"atol_basis\":{\"permitted\":0,\"oracle_variation\":0,\"observed\":1e-5,\"factor\":2},"
          "\"rtol_basis\":{\"permitted\":1e-6,\"oracle_variation\":0,\"observed\":0,\"factor\":0}}";
    }
  }
  return "{\"schema\":\"slm.tolerance-policy.v1\",\"name\":\"t\",\"version\":1,\"profile\":\"exact-v1\","
         "\"applies_to\":{\"sources\":\"any\",\"backends\":[\"native-scalar\"]},\"factor_reason\":\"test\","
         "\"margin_e\":1e-4,\"margin_e_basis\":{\"permitted\":0,\"oracle_variation\":0,\"observed\":5e-5,"
         "\"factor\":2},"
         "\"unstable_cap_ppm\":10000,\"rules\":[" +
         rules + "]}";
}

void ExpectRefused(const std::string& text, ErrorCode code, const std::string& field) {
  const auto policy = ParsePolicy(text);
  ASSERT_FALSE(policy.has_value()) << field;
  EXPECT_EQ(policy.error().code, code) << policy.error().ToString();
  EXPECT_EQ(policy.error().field, field);
  EXPECT_TRUE(policy.error().byte_offset.has_value());
}

TEST(PolicyTest, CommittedPoliciesParse_TOL_02) {
  for (const char* name : {"exact-v1-f32.json", "slm-demo.exact-v1-f32.json", "smollm2.exact-v1-f32.json",
                           "stories260k.exact-v1-f32.json"}) {
    const std::string text = ReadPolicy(name);
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.has_value()) << name << ": " << policy.error().ToString();
    EXPECT_EQ(policy->name + ".json", name);
    EXPECT_EQ(policy->file_sha256, Sha256Of(AsBytes(text)));
    for (std::string_view role : NumericRoles()) EXPECT_TRUE(policy->rules.contains(role)) << role;
    // Copies are never bounded, whatever the file says.
    EXPECT_EQ(policy->ForRole("embed").kind, RuleKind::kExact);
    EXPECT_EQ(policy->ForRole("attn.mask").kind, RuleKind::kExact);
    EXPECT_EQ(policy->ForRole("rope.inv_freq").max_ulp, 1u);
  }
}

TEST(PolicyTest, TheProgramCarriesThePoliciesByteForByte_TOL_03) {
  size_t n_general = 0;
  for (std::string_view text : ShippedPolicies()) {
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.has_value()) << policy.error().ToString();
    EXPECT_EQ(text, ReadPolicy(policy->name + ".json")) << policy->name;
    EXPECT_EQ(ShippedPolicyHash(policy->name, policy->version), policy->file_sha256);
    EXPECT_FALSE(ShippedPolicyHash(policy->name, policy->version + 1).has_value());
    n_general += policy->any_source && !policy->between_candidates ? 1u : 0u;
    for (const Hash256& source : policy->sources) {
      // The one that names the source is taken before the general one.
      const auto chosen = ShippedPolicyFor(source, "native-scalar");
      ASSERT_TRUE(chosen.has_value());
      EXPECT_EQ(chosen->name, policy->name);
    }
  }
  EXPECT_EQ(ShippedPolicies().size(), 5u);
  EXPECT_EQ(n_general, 1u);
  EXPECT_EQ(ShippedPolicyFor(Sha256Of(AsBytes("a stranger's")), "native-scalar")->name, "exact-v1-f32");
  EXPECT_FALSE(ShippedPolicyFor(Sha256Of(AsBytes("a stranger's")), "no-such-backend").has_value());
}

TEST(PolicyTest, BetweenCandidatesEveryBitCounts_OPS_05) {
  const Hash256 any = Sha256Of(AsBytes("any source"));
  for (const char* backend : {"native-scalar", "wasm-scalar@chromium", "wasm-scalar@firefox",
                              "wasm-scalar@webkitgtk", "wasm-scalar@node"}) {
    const auto policy = ShippedPolicyFor(any, backend, /*between_candidates=*/true);
    ASSERT_TRUE(policy.has_value()) << backend;
    EXPECT_EQ(policy->name, "bit-equal.exact-v1");
    for (std::string_view role : NumericRoles()) EXPECT_EQ(policy->ForRole(role).kind, RuleKind::kExact);
    EXPECT_EQ(policy->margin_e, 0);
    EXPECT_EQ(policy->unstable_cap_ppm, 0u);
    EXPECT_FALSE(ShippedPolicyFor(any, backend)->between_candidates) << "an oracle's limits";
  }
  ExpectRefused(Replace(SmallPolicy(), "[\"native-scalar\"]", "[\"native-scalar\"],\"reference\":\"oracle\""),
                ErrorCode::kPolSchema, "$.applies_to.reference");
}

TEST(PolicyTest, SaysWhatItIsFor_TOL_04) {
  const std::string any = "\"sources\":\"any\"";
  const std::string hash(64, 'a');
  const auto policy = ParsePolicy(Replace(SmallPolicy(), any, "\"sources\":[\"" + hash + "\"]"));
  ASSERT_TRUE(policy.has_value()) << policy.error().ToString();
  EXPECT_FALSE(policy->any_source);
  ASSERT_EQ(policy->sources.size(), 1u);
  EXPECT_EQ(ToHex(policy->sources[0]), hash);
  EXPECT_EQ(policy->backends, std::vector<std::string>{"native-scalar"});
  ExpectRefused(Replace(SmallPolicy(), any, "\"sources\":[]"), ErrorCode::kPolSchema, "$.applies_to.sources");
  ExpectRefused(Replace(SmallPolicy(), any, "\"sources\":[\"aa\"]"), ErrorCode::kPolSchema,
                "$.applies_to.sources[0]");
  ExpectRefused(Replace(SmallPolicy(), "[\"native-scalar\"]", "[]"), ErrorCode::kPolSchema,
                "$.applies_to.backends");
  ExpectRefused(Replace(SmallPolicy(), "\"factor_reason\":\"test\",", ""), ErrorCode::kPolSchema,
                "$.factor_reason");
}

TEST(PolicyTest, ReadsEveryField_TOL_01) {
  const auto policy = ParsePolicy(SmallPolicy());
  ASSERT_TRUE(policy.has_value()) << policy.error().ToString();
  EXPECT_EQ(policy->version, 1u);
  EXPECT_EQ(policy->profile, "exact-v1");
  EXPECT_EQ(policy->margin_e, 1e-4);
  EXPECT_EQ(policy->unstable_cap_ppm, 10000u);
  const Rule& rule = policy->ForRole("logits");
  EXPECT_EQ(rule.atol, 2e-5);
  EXPECT_EQ(rule.rtol, 1e-6);
  EXPECT_EQ(rule.relative_floor, 1e-3);
}

TEST(PolicyTest, CeilingsHold_TOL_02) {
  const std::string logits = "{\"role\":\"logits\",\"kind\":\"bounded\",\"atol\":2e-5";
  // 0.02 is above the ceiling of logits (0.01), whatever evidence stands beside it.
  std::string loose =
      Replace(SmallPolicy(), logits, "{\"role\":\"logits\",\"kind\":\"bounded\",\"atol\":0.02");
  ExpectRefused(loose, ErrorCode::kPolCeiling, "$.rules[21].atol");
  // Below the ceiling, but looser than observed * factor.
  loose = Replace(SmallPolicy(), logits, "{\"role\":\"logits\",\"kind\":\"bounded\",\"atol\":2.1e-5");
  ExpectRefused(loose, ErrorCode::kPolCeiling, "$.rules[21].atol");
  ExpectRefused(Replace(SmallPolicy(), "\"max_ulp\":1", "\"max_ulp\":2"), ErrorCode::kPolCeiling,
                "$.rules[0].max_ulp");
  ExpectRefused(Replace(SmallPolicy(), "\"unstable_cap_ppm\":10000", "\"unstable_cap_ppm\":10001"),
                ErrorCode::kPolCeiling, "$.unstable_cap_ppm");
  ExpectRefused(Replace(SmallPolicy(), "\"margin_e\":1e-4", "\"margin_e\":1.1e-4"), ErrorCode::kPolCeiling,
                "$.margin_e");
  ExpectRefused(Replace(SmallPolicy(), "\"margin_e\":1e-4", "\"margin_e\":0.1"), ErrorCode::kPolCeiling,
                "$.margin_e");
  ExpectRefused(Replace(SmallPolicy(), "\"observed\":5e-5,\"factor\":2", "\"observed\":5e-6,\"factor\":20"),
                ErrorCode::kPolCeiling, "$.margin_e_basis");
  // An embedding row is a copy: a bounded rule with any width is above its ceiling.
  ExpectRefused(
      Replace(SmallPolicy(), "{\"role\":\"embed\",\"kind\":\"exact\"}",
              "{\"role\":\"embed\",\"kind\":\"bounded\",\"atol\":1e-9,\"rtol\":0,\"relative_floor\":0,"
              "\"atol_basis\":{\"permitted\":1,\"oracle_variation\":0,\"observed\":0,\"factor\":0},"
              "\"rtol_basis\":{\"permitted\":0,\"oracle_variation\":0,\"observed\":0,\"factor\":0}}"),
      ErrorCode::kPolCeiling, "$.rules[1].atol");
}

TEST(PolicyTest, RefusesOtherForms) {
  ExpectRefused(Replace(SmallPolicy(), "policy.v1", "policy.v2"), ErrorCode::kPolSchema, "$.schema");
  ExpectRefused(Replace(SmallPolicy(), "\"version\":1", "\"version\":1.5"), ErrorCode::kPolSchema,
                "$.version");
  ExpectRefused(Replace(SmallPolicy(), "\"version\":1,", ""), ErrorCode::kPolSchema, "$.version");
  ExpectRefused(Replace(SmallPolicy(), "\"name\":\"t\"", "\"name\":\"t\",\"slack\":1"), ErrorCode::kPolSchema,
                "$.slack");
  ExpectRefused(Replace(SmallPolicy(), "{\"role\":\"embed\",\"kind\":\"exact\"},", ""), ErrorCode::kPolSchema,
                "$.rules");
  ExpectRefused(Replace(SmallPolicy(), "\"role\":\"embed\"", "\"role\":\"attn.mask\""), ErrorCode::kPolSchema,
                "$.rules[9]");
  ExpectRefused(Replace(SmallPolicy(), "\"role\":\"embed\"", "\"role\":\"emb\""), ErrorCode::kPolSchema,
                "$.rules[1].role");
  ExpectRefused(Replace(SmallPolicy(), "\"margin_e\":1e-4", "\"margin_e\":-1e-4"), ErrorCode::kPolSchema,
                "$.margin_e");
  ExpectRefused(Replace(SmallPolicy(), "\"margin_e\":1e-4", "\"margin_e\":1e999"), ErrorCode::kPolSchema,
                "$.margin_e");
  EXPECT_EQ(ParsePolicy(Replace(SmallPolicy(), "\"version\":1", "\"version\":1,\"version\":2")).error().code,
            ErrorCode::kJsonDupKey);
}

TEST(StagesTest, OrderOfTheChain_BIS_01) {
  const char* chain[] = {"rope.inv_freq",
                         "embed",
                         "layers.0.attn_norm",
                         "layers.0.attn.q",
                         "layers.0.attn.q_rope",
                         "layers.0.attn.scores",
                         "layers.0.attn.probs",
                         "layers.0.attn.av",
                         "layers.0.attn.out",
                         "layers.0.attn_residual",
                         "layers.0.mlp_norm",
                         "layers.0.mlp.gate",
                         "layers.0.mlp.act",
                         "layers.0.mlp.down",
                         "layers.0.output",
                         "layers.1.attn_norm",
                         "layers.29.output",
                         "final_norm",
                         "logits",
                         "top_k.ids"};
  for (size_t i = 1; i < std::size(chain); ++i) {
    const auto before = ParseStage(chain[i - 1]);
    const auto after = ParseStage(chain[i]);
    ASSERT_TRUE(before && after) << chain[i];
    EXPECT_LT(before->order, after->order) << chain[i - 1] << " " << chain[i];
  }
  EXPECT_EQ(ParseStage("layers.29.attn.q_rope")->layer, 29);
  EXPECT_EQ(ParseStage("layers.29.attn.q_rope")->role, "attn.q_rope");
  EXPECT_EQ(ParseStage("layers.3.output")->level, Level::kL6);
  EXPECT_EQ(ParseStage("layers.3.mlp.down")->level, Level::kL5);
  for (const char* bad : {"", "layers", "layers.", "layers.x.output", "layers.01.output", "layers.3",
                          "layers.3.", "layers.3.outputs", "layers.1234567.output", "logit"}) {
    EXPECT_FALSE(ParseStage(bad)) << bad;
  }
}

}  // namespace
}  // namespace slm::compare
