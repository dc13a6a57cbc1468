// TPL-07: text of a context decides what a template does only where the template's IR says so.
#include "chat/predicates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/template.h"

namespace slm::chat {
namespace {

// "construct 'literal' subject line:column", in order.
std::vector<std::string> Of(const std::string& source) {
  const auto compiled = Template::Compile(source);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().ToString();
  std::vector<std::string> found;
  if (!compiled) return found;
  for (const ContentPredicate& p : compiled->program().content_predicates) {
    found.push_back(p.construct + " '" + p.literal + "' " + p.subject + " " + std::to_string(p.place.line) +
                    ":" + std::to_string(p.place.column));
  }
  return found;
}
using List = std::vector<std::string>;
constexpr const char* kLoop = "{% for m in messages %}";
std::string Loop(const std::string& body) {
  return kLoop + body + "{% endfor %}";
}

TEST(ContentPredicates, EachWayToAskIsDeclaredWithLiteralSubjectAndPlace) {
  EXPECT_EQ(Of(Loop("{% if '</t>' in m.content %}{% endif %}")), List{"in '</t>' messages[].content 1:30"});
  EXPECT_EQ(Of(Loop("{% if m['content'] == 'x' %}{% endif %}")), List{"== 'x' messages[].content 1:30"});
  EXPECT_EQ(Of(Loop("\n{% if m.content.startswith('<q>') %}{% endif %}")),
            List{"startswith '<q>' messages[].content 2:17"});
  EXPECT_EQ(Of(Loop("{{ m.content.split('</t>')[-1] }}")), List{"split '</t>' messages[].content 1:37"});
  EXPECT_EQ(Of(Loop("{{ m.content | replace('a', 'b') }}")), List{"replace 'a' messages[].content 1:39"});
  EXPECT_EQ(Of(Loop("{% if m.content %}{% endif %}")), List{"truth '' messages[].content 1:32"});
  EXPECT_EQ(Of(Loop("{% for part in m.content %}{% endfor %}")), List{"for '' messages[].content 1:27"});
  EXPECT_EQ(Of(Loop("{{ m.content | length }}")), List{"length '' messages[].content 1:39"});
  EXPECT_EQ(Of(Loop("{{ {'a': 1}[m.content] }}")), List{"item '' messages[].content 1:35"});
  EXPECT_EQ(Of(Loop("{{ m.content.isdigit() }}")), List{"isdigit '' messages[].content 1:37"});
  EXPECT_EQ(Of(Loop("{{ m.content is lower }}")), List{"lower '' messages[].content 1:40"});
  EXPECT_EQ(Of(Loop("{{ 'a' if m.content is eq('q') }}")), List{"eq 'q' messages[].content 1:47"});
}

TEST(ContentPredicates, WritingTextAndAskingForShapeIsNone) {
  EXPECT_EQ(Of(Loop("{% if m.role == 'user' %}{{ m.role + m.content | trim }}{% endif %}")), List{});
  EXPECT_EQ(Of(Loop("{% if m.content is string %}{{ m.content[:9] ~ m | tojson }}{% endif %}")), List{});
  EXPECT_EQ(Of("{% if messages and messages | length > 1 and messages[0].role in ['a'] %}{% endif %}"),
            List{});
  EXPECT_EQ(Of(Loop("{% if 'tool_calls' in m and m.x is defined and loop.first %}{% endif %}")), List{});
  EXPECT_EQ(Of("{% if think %}{% endif %}{% if mood == 'x' %}{% endif %}{% if not tools %}{% endif %}"),
            List{});
  EXPECT_EQ(Of(Loop("{{ m.content.strip('\\n').upper() }}{% if loop.index0 == 1 %}{% endif %}")), List{});
}

TEST(ContentPredicates, VariablesNamespacesLoopsAndBlocksHideNothing) {
  EXPECT_EQ(Of(Loop("{% set c = m.content %}{% set d = c ~ '' %}{% if 'K' in d %}{% endif %}")),
            List{"in 'K' messages[].content 1:73"});
  EXPECT_EQ(Of("{% set k = '<k' + '>' %}" + Loop("{% if k in m.content %}{% endif %}")),
            List{"in '<k>' messages[].content 1:54"});
  EXPECT_EQ(Of("{% set ns = namespace(t='') %}" + Loop("{% set ns.t = m.content %}") +
               "{% if ns.t == 'K' %}{% endif %}"),
            List{"== 'K' messages[].content 1:98"});
  EXPECT_EQ(Of("{% set ns = namespace(t=messages[0]) %}{% if ns.t.content.endswith('K') %}{% endif %}"),
            List{"endswith 'K' messages[].content 1:59"});
  EXPECT_EQ(Of("{% set c %}" + Loop("{{ m.content }}") + "{% endset %}{% if 'K' in c %}{% endif %}"),
            List{"in 'K' messages[].content 1:80"});
  EXPECT_EQ(Of("{% filter replace('K', '') %}" + Loop("{{ m.content }}") + "{% endfilter %}"),
            List{"replace 'K' messages[].content 1:11"});
  EXPECT_EQ(Of(Loop("{% if loop.previtem and loop.previtem.content == 'K' %}{% endif %}")),
            List{"== 'K' messages[].content 1:48"});
  EXPECT_EQ(Of("{% set all = [] %}{% for m in messages[::-1] %}{% set all = all + [m.content] %}{% if 'K' in "
               "all %}{% endif "
               "%}{% endfor %}"),
            List{"in 'K' messages[].content 1:87"});
  EXPECT_EQ(Of(Loop("{% for k, v in m.items() %}{% if v == 'K' %}{% endif %}{% endfor %}")),
            List{"== 'K' messages[].* 1:57"});
  EXPECT_EQ(Of("{% for k in ['<a>', '<b>'] %}{% if k in messages[-1].content %}{% endif %}{% endfor %}"),
            (List{"in '<a>' messages[].content 1:36", "in '<b>' messages[].content 1:36"}));
  EXPECT_EQ(Of("{% for m in messages if 'K' in m.content %}{% endfor %}"),
            List{"in 'K' messages[].content 1:25"});
  EXPECT_EQ(Of("{% with c = messages[0].content %}{% if c < 'K' %}{% endif %}{% endwith %}"),
            List{"< 'K' messages[].content 1:41"});
}

TEST(ContentPredicates, MacrosCallersAndRecursiveLoopsHideNothing) {
  EXPECT_EQ(
      Of("{% macro f(a, b='K') %}{% if b in a %}{% endif %}{% endmacro %}" + Loop("{{ f(m.content) }}")),
      List{"in 'K' messages[].content 1:30"});
  EXPECT_EQ(
      Of("{% macro f(a) %}{{ a }}{% endmacro %}{% if f(a=messages[0].content) | trim == 'K' %}{% endif %}"),
      List{"== 'K' messages[].content 1:44"});
  EXPECT_EQ(Of("{% macro f() %}{{ 1 if varargs[0] == 'K' }}{% endmacro %}" + Loop("{{ f(m.content) }}")),
            List{"== 'K' messages[].content 1:24"});
  EXPECT_EQ(Of("{% macro f(x) %}{{ caller(x) }}{% endmacro %}{% call(y) f(messages[0].content) %}{% if y == "
               "'K' %}{% "
               "endif %}{% endcall %}"),
            List{"== 'K' messages[].content 1:88"});
  EXPECT_EQ(Of("{% for m in messages recursive %}{% if m.content == 'K' %}{% endif %}{{ loop(m.kids) if "
               "m.kids is defined "
               "}}{% endfor %}"),
            (List{"for '' messages[].kids 1:4", "for '' messages[].kids[].kids 1:4",
                  "for '' messages[].kids[].kids[].kids 1:4", "== 'K' messages[].content 1:40",
                  "== 'K' messages[].kids[].content 1:40", "== 'K' messages[].kids[].kids[].content 1:40",
                  "== 'K' messages[].kids[].kids[].kids 1:40"}));
}

TEST(ContentPredicates, FiltersCarryContentAndAskAboutIt) {
  EXPECT_EQ(Of("{% if 'K' in (messages | map(attribute='content') | join(' ')) %}{% endif %}"),
            List{"in 'K' messages[].content 1:7"});
  EXPECT_EQ(Of("{% if 'K' in (messages | tojson) %}{% endif %}"), List{"in 'K' messages.* 1:7"});
  EXPECT_EQ(Of("{{ messages | selectattr('content', 'equalto', 'K') | list }}"),
            List{"equalto 'K' messages[].content 1:15"});
  EXPECT_EQ(Of("{{ messages | selectattr('role', 'equalto', 'user') | list }}"), List{});
  EXPECT_EQ(Of("{{ messages | rejectattr('content') | list }}"), List{"truth '' messages[].content 1:15"});
  EXPECT_EQ(Of("{{ messages | sort(attribute='content') }}"), List{"sort '' messages[].content 1:15"});
  EXPECT_EQ(Of("{{ messages[0].content | default('d', true) }}"), List{"truth '' messages[].content 1:26"});
  EXPECT_EQ(Of("{{ range(messages[0].content | int) | list }}"), List{"range '' messages[].content 1:9"});
  EXPECT_EQ(Of("{% if messages[0].get('content', '').rstrip('K') %}{% endif %}"),
            (List{"rstrip 'K' messages[].content 1:38", "truth '' messages[].content 1:44"}));
  EXPECT_EQ(Of("{% if messages[0] == messages[-1] %}{% endif %}"), List{"== '' messages[].* 1:7"});
}

TEST(ContentPredicates, SettingsAreContentWhereTheyAreSearched) {
  EXPECT_EQ(Of("{% if '/x' in preamble %}{% endif %}"), List{"in '/x' preamble 1:7"});
  EXPECT_EQ(Of("{% for t in tools %}{% if t.type == 'f' %}{% endif %}{% endfor %}"),
            List{"== 'f' tools[].type 1:27"});
}

TEST(ContentPredicates, AnIrThatDeclaresOthersIsRefused) {
  const auto compiled = Template::Compile(Loop("{% if 'K' in m.content %}{% endif %}"));
  ASSERT_TRUE(compiled.has_value());
  Program program = compiled->program();
  EXPECT_TRUE(LoadProgram(SerializeProgram(program)).has_value());
  program.content_predicates.clear();
  const auto stripped = LoadProgram(SerializeProgram(program));
  ASSERT_FALSE(stripped.has_value());
  EXPECT_EQ(stripped.error().code, ErrorCode::kTplIr);
}

TEST(ContentPredicates, AChainTooLongToFollowIsABound) {
  // Each pass follows one link: the variables stand in the wrong order, inside a loop.
  std::string source = "{% for m in messages %}";
  for (int i = 0; i < 6000; ++i)
    source += "{% set v" + std::to_string(i) + " = v" + std::to_string(i + 1) + " %}";
  source += "{% set v6000 = m.content %}{% endfor %}";
  const auto compiled = Template::Compile(source);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kTplBound);
}

}  // namespace
}  // namespace slm::chat
