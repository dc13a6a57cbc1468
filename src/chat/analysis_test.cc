// TPL-03: what a template declares, on templates written to have each property.
#include "chat/analysis.h"

#include <gtest/gtest.h>

namespace slm::chat {
namespace {

Analysis Of(const std::string& source) {
  const auto compiled = Template::Compile(source);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().ToString();
  return Analyze(*compiled);
}

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(TemplateAnalysis, ChatMlTakesEveryTurn) {
  const Analysis analysis = Of(kChatMl);
  for (const RoleReport& role : analysis.roles) {
    EXPECT_EQ(role.outcome, Outcome::kRendered) << role.role;
    EXPECT_EQ(role.alias_of, "") << role.role;
  }
  EXPECT_EQ(analysis.unknown_role, "copied");
  EXPECT_EQ(analysis.system, "optional");
  EXPECT_FALSE(analysis.synthesizes_system);
  EXPECT_EQ(analysis.two_users, Outcome::kRendered);
  EXPECT_EQ(analysis.generation_prefix, "<|im_start|>assistant\n");
  EXPECT_TRUE(analysis.extends_prefix);
  EXPECT_EQ(analysis.bos_count, 0u);
  EXPECT_TRUE(analysis.keeps_thinking);
  EXPECT_EQ(analysis.dead_inputs, (std::vector<std::string>{"tools", "documents", "bos_token", "eos_token"}));
}

TEST(TemplateAnalysis, RulesOfTurnsRolesAndTokensAreFound) {
  const Analysis analysis =
      Of("{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
         "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ "
         "raise_exception('alternate') }}"
         "{% endif %}{% if m.role == 'user' %}[{{ m.content | trim }}]{% elif m.role in ['assistant', "
         "'model'] %}"
         "{{ m.content.split('</think>')[-1] if not loop.last else m.content }}{{ eos_token }}{% endif %}{% "
         "endfor %}"
         "{{ strftime_now('%Y') if tools else '' }}");
  EXPECT_EQ(analysis.system, "forbidden");
  EXPECT_EQ(analysis.two_users, Outcome::kRaised);
  EXPECT_EQ(analysis.assistant_first, Outcome::kRaised);
  EXPECT_EQ(analysis.unknown_role, "dropped");
  EXPECT_EQ(analysis.bos_count, 1u);
  EXPECT_EQ(analysis.bos_offset, 0u);
  EXPECT_EQ(analysis.eos_count, 2u);
  EXPECT_TRUE(analysis.ends_with_eos);
  EXPECT_TRUE(analysis.trims_content);
  EXPECT_EQ(analysis.generation_prefix, "");
  EXPECT_FALSE(analysis.keeps_thinking);
  EXPECT_FALSE(analysis.extends_prefix);
  EXPECT_EQ(analysis.first_changed_byte, 16u);  // BOS of nine bytes, [qz0zq], then the thinking
  EXPECT_TRUE(analysis.uses_clock);
  EXPECT_EQ(analysis.null_content, Outcome::kRendered);  // the last turn prints None
  for (const RoleReport& role : analysis.roles) {
    if (role.role == "model") EXPECT_EQ(role.alias_of, "assistant");
    if (role.role == "system") EXPECT_EQ(role.outcome, Outcome::kDropped);
  }
}

TEST(TemplateAnalysis, SystemMayBeSynthesizedRequiredOrDropped) {
  EXPECT_TRUE(Of("{% if messages[0].role != 'system' %}<system>default{% endif %}" + std::string(kChatMl))
                  .synthesizes_system);
  EXPECT_EQ(
      Of("{% if messages[0].role != 'system' %}{{ raise_exception('x') }}{% endif %}" + std::string(kChatMl))
          .system,
      "required");
  EXPECT_EQ(Of("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}").system, "dropped");
}

TEST(TemplateAnalysis, ReportsAreDeterministic) {
  EXPECT_EQ(Of(kChatMl), Of(kChatMl));
  EXPECT_EQ(AnalysisJson(Of(kChatMl)), AnalysisJson(Of(kChatMl)));
  EXPECT_NE(AnalysisText(Of(kChatMl)).find("unknown roles"), std::string::npos);
}

}  // namespace
}  // namespace slm::chat
