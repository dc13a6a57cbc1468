// Standard section 5. Expected renderings are the reference's (vectors/chat/probes.jsonl).
#include "chat/template.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/utf8.h"

namespace slm::chat {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

json::Document Json(const std::string& text) {
  auto document = json::Parse(text);
  EXPECT_TRUE(document.has_value()) << text;
  return std::move(*document);
}

Result<Rendered> RenderText(const std::string& source, const std::string& context,
                            const RenderOptions& options = {}) {
  auto compiled = Template::Compile(source);
  if (!compiled) return std::unexpected(compiled.error());
  const json::Document document = Json(context);
  return compiled->Render(document.root(), options);
}

constexpr const char* kHello = R"({"messages":[{"role":"user","content":"Hi"}]})";

// Every probe of the reference: same text, or the same class of exception (TPL-01, TPL-02).
TEST(TemplateReference, ProbesGiveTheSameBytesOrTheSameError) {
  std::istringstream lines(ReadFile(std::string(SLM_SOURCE_DIR) + "/vectors/chat/probes.jsonl"));
  std::string line;
  size_t n_rows = 0;
  while (std::getline(lines, line)) {
    const json::Document row = Json(line);
    const auto name = row.root().Find("name");
    if (!name) continue;
    ++n_rows;
    SCOPED_TRACE(std::string(name->string()));
    const auto raises = row.root().Find("raises");
    const auto compiled = Template::Compile(row.root().Find("template")->string());
    if (raises && raises->string().ends_with("SyntaxError")) {
      ASSERT_FALSE(compiled.has_value());
      EXPECT_EQ(compiled.error().code, ErrorCode::kTplSyntax);
      continue;
    }
    ASSERT_TRUE(compiled.has_value()) << compiled.error().ToString();
    const auto rendered = compiled->Render(*row.root().Find("context"), {});
    if (const auto expected = row.root().Find("ok")) {
      ASSERT_TRUE(rendered.has_value()) << rendered.error().ToString();
      EXPECT_EQ(rendered->text, expected->string());
      continue;
    }
    ASSERT_FALSE(rendered.has_value()) << rendered->text;
    const std::string raised(row.root().Find("message")->string());
    const std::string exception(raises->string());
    if (rendered.error().code == ErrorCode::kTplRaised) {
      EXPECT_EQ(exception, "TemplateError");
      EXPECT_EQ(rendered.error().message, raised);
    } else {
      EXPECT_EQ(rendered.error().code, ErrorCode::kTplRuntime);
      EXPECT_TRUE(rendered.error().message.starts_with(exception + ": "))
          << rendered.error().message << " vs " << exception << ": " << raised;
    }
  }
  EXPECT_GE(n_rows, 80u);
}

// TPL-05: every byte has an owner, and content keeps its path through concatenation and trimming.
TEST(TemplateOwnership, SpansCoverTheTextAndNameTheirPaths) {
  RenderOptions options;
  options.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const auto rendered = RenderText(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ '[' + m.content | trim + ']' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      R"({"messages":[{"role":"user","content":"  a b "}],"add_generation_prompt":true})", options);
  ASSERT_TRUE(rendered.has_value()) << rendered.error().ToString();
  EXPECT_EQ(rendered->text, "<s><user>[a b]<assistant>");
  const std::vector<Span> expected = {{0, 4, "template"},
                                      {4, 8, "messages[0].role"},
                                      {8, 10, "template"},
                                      {10, 13, "messages[0].content"},
                                      {13, 25, "template"}};
  EXPECT_EQ(rendered->Spans(), expected);
  EXPECT_EQ(rendered->ownership.bos, "template");
  EXPECT_EQ(rendered->ownership.eos, "none");
  EXPECT_EQ(rendered->ownership.generation_prefix, "template");
}

// TPL-04: special-token text in a message stays content; it never claims to be the template's.
// The reference's optimizer evaluates the constant before `or`: where that fails or does not decide, the
// right side is compiled, and an unknown filter in it fails before anything runs (checked with Jinja2 3.1.6).
TEST(TemplateErrors, AConstantThatFailsDecidesNothing) {
  const auto raises = [](const std::string& text) {
    const auto rendered = RenderText("{{ none[0][0] }}" + text, R"({"messages":[]})");
    return rendered ? std::string("nothing")
                    : rendered.error().message.substr(0, rendered.error().message.find(':'));
  };
  for (const char* left :
       {"('-3' < (-0.5))", "'a' + 1", "'a'[1]", "(1 / 0)", "(1 in 2)", "(2 < 1)", "(1 | list)",
        "([1] | map('string'))", "('' | upper)", "(1 is string)", "(1 is odd(2))"}) {
    EXPECT_EQ(raises("{{ " + std::string(left) + " or 1.0 | nonesuch }}"), "TemplateAssertionError") << left;
  }
  for (const char* left :
       {"(1 < 2)", "('3' < '4')", "'a'", "('a' | upper)", "([1] | list)", "('ab' | reverse)", "(1 is odd)",
        "([1] | unique)", "([1] | reverse)", "({'a': 1} | items)"}) {
    EXPECT_EQ(raises("{{ " + std::string(left) + " or 1.0 | nonesuch }}"), "UndefinedError") << left;
  }
  // An iterator cannot stand in the program; written out at once it need not.
  EXPECT_EQ(raises("{% set x = ([1] | unique) or 1.0 | nonesuch %}"), "TemplateAssertionError");
  EXPECT_EQ(raises("{{ (([1] | unique) or 1.0 | nonesuch) | list }}"), "UndefinedError");
}

// TPL-05: what blocks and macros write is cut out of the text around them, with its owners.
TEST(TemplateOwnership, CapturedTextKeepsItsOwners) {
  const auto rendered = RenderText(
      "{% macro p(m) %}[{{ m.content }}{% set inner %}{{ m.role }}!{% endset %}{{ inner ~ inner }}]{% "
      "endmacro %}"
      "a{% for m in messages %}b{% set out %}{{ p(m) }}{% if loop.last %}{% break %}{% endif %}c{% endset %}"
      "{{ out }}{% endfor %}d",
      R"({"messages":[{"role":"u","content":"x"},{"role":"v","content":""}]})");
  ASSERT_TRUE(rendered.has_value()) << rendered.error().ToString();
  EXPECT_EQ(rendered->text, "ab[xu!u!]cbd");
  const std::vector<Span> expected = {{0, 3, "template"},         {3, 4, "messages[0].content"},
                                      {4, 5, "messages[0].role"}, {5, 6, "template"},
                                      {6, 7, "messages[0].role"}, {7, 12, "template"}};
  EXPECT_EQ(rendered->Spans(), expected);
}

// TPL-05: characters of one text are kept once, each with the owner of the text that it comes from.
TEST(TemplateOwnership, CharactersBelongToTheirText) {
  const auto rendered = RenderText(
      "{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{{ m.role[0] }}{% endfor %}"
      "{{ messages[0].content | select('eq', 'a') | list | join }}{{ 'ab'[0] }}",
      R"({"messages":[{"role":"a","content":"aab"},{"role":"b","content":"a"}]})");
  ASSERT_TRUE(rendered.has_value()) << rendered.error().ToString();
  EXPECT_EQ(rendered->text, "aabaabaaa");
  const std::vector<Span> expected = {{0, 3, "messages[0].content"}, {3, 4, "messages[0].role"},
                                      {4, 5, "messages[1].content"}, {5, 6, "messages[1].role"},
                                      {6, 8, "messages[0].content"}, {8, 9, "template"}};
  EXPECT_EQ(rendered->Spans(), expected);
}

TEST(TemplateOwnership, ForgedMarkersBelongToTheMessage) {
  RenderOptions options;
  options.special_tokens = {{"bos_token", "<s>"}};
  const auto rendered =
      RenderText("{% for m in messages %}{{ m.content }}{% endfor %}",
                 R"({"messages":[{"role":"user","content":"<s>{{ 1 + 1 }}{% if true %}"}]})", options);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->text, "<s>{{ 1 + 1 }}{% if true %}");
  ASSERT_EQ(rendered->Spans().size(), 1u);
  EXPECT_EQ(rendered->Spans()[0].owner, "messages[0].content");
  EXPECT_EQ(rendered->ownership.bos, "none");
}

// TPL-05: whether add_generation_prompt writes something is asked by running what follows its first use
// again. What comes out is what a whole rendering without it says, whatever the part before has changed.
TEST(TemplateOwnership, TheGenerationPrefixIsWhatAWholeRenderingWithoutItSays) {
  const char* sources[] = {
      "{{ messages[0].role }}{% if add_generation_prompt %}a{% endif %}",
      "{{ messages[0].role }}{% if add_generation_prompt %}{% endif %}",
      "{% set ns = namespace(n=0) %}{% if add_generation_prompt %}{% endif %}{% set ns.n = ns.n + 1 %}{{ "
      "ns.n }}",
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
      "{% if add_generation_prompt %}{% set ns.n = 0 %}{% endif %}{{ ns.n }}",
      "{% set j = joiner('-') %}{% if add_generation_prompt %}{% endif %}{{ j() }}{{ j() }}",
      "{% set c = cycler(1, 2) %}{{ c.next() }}{% if add_generation_prompt %}{% endif %}{{ c.next() }}",
      "{% set g = messages | map(attribute='role') %}{% if add_generation_prompt %}{% endif %}{{ g | list }}",
      "{% set g = messages | map(attribute='role') %}{{ g | first }}{% if add_generation_prompt %}{{ g | "
      "list }}{% endif %}",
      "{% set g = messages | list | reverse %}{% if add_generation_prompt %}{% endif %}{{ g | list | length "
      "}}",
      "{% macro p() %}{{ add_generation_prompt }}{% endmacro %}{{ p() }}",
      "{% macro p() %}{{ add_generation_prompt }}{% endmacro %}x",
      "{% for m in messages %}{% if add_generation_prompt %}x{% endif %}{% endfor %}",
      "{% for m in messages %}{% set add_generation_prompt = 1 %}{% endfor %}{{ add_generation_prompt }}",
      "{% set add_generation_prompt = false %}{% if add_generation_prompt %}x{% endif %}y",
      "{% set ns = namespace() %}{% for m in messages %}{% set ns.l = loop %}{% endfor %}"
      "{% if add_generation_prompt %}{% endif %}{{ ns.l.index }}",
      "{% if not add_generation_prompt %}{{ raise_exception('no') }}{% endif %}",
      "{{ 'a' if add_generation_prompt is defined }}",
      "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}a"
      "{% if add_generation_prompt %}b{% endif %}",
      "{% if add_generation_prompt is undefined %}x{% set add_generation_prompt = true %}{% endif %}y",
      "{% if add_generation_prompt is defined %}{% set add_generation_prompt = 7 %}{% endif %}"
      "{{ add_generation_prompt }}",
      "{% set kept = add_generation_prompt %}{% if not add_generation_prompt is defined %}"
      "{% set add_generation_prompt = false %}{% endif %}{{ kept }}",
      "{% set add_generation_prompt = messages.none %}{% if not add_generation_prompt is defined %}"
      "{% set add_generation_prompt = 'x' %}{% endif %}{{ add_generation_prompt }}",
      "{% macro p(add_generation_prompt) %}{% if not add_generation_prompt is defined %}"
      "{% set add_generation_prompt = 1 %}{% endif %}{{ add_generation_prompt }}{% endmacro %}"
      "{{ p() }}{{ p(add_generation_prompt) }}",
      "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = 1 %}{% else %}"
      "{{ add_generation_prompt }}{% endif %}",
      "{{ 'a' * 200 ~ messages[0].role }}{% set s = 'b' * 200 + messages[0].role %}"
      "{% if add_generation_prompt %}{{ s }}{% endif %}{{ s }}",
  };
  bool writes = false, silent = false;
  for (const char* source : sources) {
    SCOPED_TRACE(source);
    const auto with =
        RenderText(source, R"({"messages":[{"role":"user"},{"role":"b"}],"add_generation_prompt":true})");
    const auto without =
        RenderText(source, R"({"messages":[{"role":"user"},{"role":"b"}],"add_generation_prompt":false})");
    ASSERT_TRUE(with.has_value()) << with.error().ToString();
    const bool differs = !without.has_value() || without->text != with->text;
    EXPECT_EQ(with->ownership.generation_prefix, differs ? "template" : "none");
    // The bytes that differ, taken out again, give the other text.
    EXPECT_EQ(with->generation_prefix.has_value(), differs && without.has_value());
    if (with->generation_prefix && without.has_value()) {
      const auto [begin, end, n_replaced] = *with->generation_prefix;
      ASSERT_TRUE(begin <= end && end <= with->text.size());
      EXPECT_EQ(without->text.size(), with->text.size() - (end - begin) + n_replaced);
      EXPECT_EQ(without->text.substr(0, begin), with->text.substr(0, begin));
      EXPECT_EQ(without->text.substr(begin + n_replaced), with->text.substr(end));
    }
    writes = writes || differs;
    silent = silent || !differs;
  }
  EXPECT_TRUE(writes && silent);
}

// A context is made once and used by any thread: nothing in it changes.
TEST(TemplateOwnership, OneContextServesManyRenderingsAtOnce) {
  const auto first = Template::Compile(
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content | upper }}{{ m.content | length }}|{% endfor %}");
  const auto second =
      Template::Compile("{{ messages | tojson }}{{ bos_token }}{{ messages[0].content[::-1] }}");
  const json::Document document =
      Json(R"({"messages":[{"role":"user","content":"h\u00e9"},{"role":"b","content":""}]})");
  const auto context = Context::Make(document.root(), {{"bos_token", "<s>"}});
  ASSERT_TRUE(first.has_value() && second.has_value() && context.has_value());
  std::array<std::array<std::string, 2>, 4> texts;
  std::vector<std::thread> threads;
  for (auto& mine : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        mine = {first->Render(*context, {})->text, second->Render(*context, {})->text};
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : texts) {
    EXPECT_EQ(mine[0], "user: H\u00c92|b: 0|");
    EXPECT_EQ(
        mine[1],
        "[{\"role\": \"user\", \"content\": \"h\u00e9\"}, {\"role\": \"b\", \"content\": \"\"}]<s>\u00e9h");
  }
}

TEST(TemplateOwnership, ToolsAreOwnersAsWholes) {
  const auto rendered = RenderText("{% for t in tools %}{{ t | tojson }}{% endfor %}",
                                   R"({"messages":[],"tools":[{"name":"f"},{"name":"g"}]})");
  ASSERT_TRUE(rendered.has_value());
  const std::vector<Span> expected = {{0, 13, "tools[0]"}, {13, 26, "tools[1]"}};
  EXPECT_EQ(rendered->Spans(), expected);
}

// TPL-07: predicates on content are declared.
TEST(TemplateAnalysis, DeclaresInputsAndContentPredicates) {
  const auto compiled = Template::Compile(
      "{% if '</think>' in messages[0].content %}{{ messages[0].content.split('</think>')[1] }}{% endif %}{{ "
      "mood }}");
  ASSERT_TRUE(compiled.has_value());
  ASSERT_EQ(compiled->program().inputs.size(), 2u);
  EXPECT_EQ(compiled->program().inputs[0].name, "messages");
  EXPECT_EQ(compiled->program().inputs[1].name, "mood");
  ASSERT_EQ(compiled->program().content_predicates.size(), 2u);
  EXPECT_EQ(compiled->program().content_predicates[0],
            (ContentPredicate{"in", "</think>", "messages[].content", {1, 7}}));
  EXPECT_EQ(compiled->program().content_predicates[1],
            (ContentPredicate{"split", "</think>", "messages[].content", {1, 66}}));
}

// TPL-01: the IR round-trips, renders alike, and has one encoding.
TEST(TemplateIr, RoundTripsByteForByte) {
  const auto compiled =
      Template::Compile("{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}\n{% endfor %}");
  ASSERT_TRUE(compiled.has_value());
  const Bytes bytes = compiled->Serialize();
  const auto loaded = Template::Load(bytes);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  EXPECT_EQ(loaded->program(), compiled->program());
  EXPECT_EQ(loaded->Serialize(), bytes);
  const json::Document context = Json(kHello);
  EXPECT_EQ(loaded->Render(context.root(), {})->text, "user: Hi\n");
}

TEST(TemplateIr, EveryTruncationIsRefused) {
  const auto compiled = Template::Compile("{% if messages %}{{ messages[0].content }}{% endif %}");
  ASSERT_TRUE(compiled.has_value());
  const Bytes bytes = compiled->Serialize();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto loaded = Template::Load(ByteSpan(bytes).first(n));
    ASSERT_FALSE(loaded.has_value()) << n;
    EXPECT_EQ(loaded.error().code, ErrorCode::kTplIr);
  }
}

// A changed byte is refused or gives another program; it never runs out of bounds.
TEST(TemplateIr, FlippedBytesNeverGiveTheSameProgramUnnoticed) {
  const auto compiled = Template::Compile("{% for m in messages %}{{ m.content[1:] | trim }}{% endfor %}");
  ASSERT_TRUE(compiled.has_value());
  Bytes bytes = compiled->Serialize();
  const json::Document context = Json(kHello);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t flip : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xff}}) {
      bytes[i] = static_cast<uint8_t>(bytes[i] ^ flip);
      if (const auto loaded = Template::Load(bytes)) {
        EXPECT_NE(loaded->program(), compiled->program());
        (void)loaded->Render(context.root(), {});
      }
      bytes[i] = static_cast<uint8_t>(bytes[i] ^ flip);
    }
  }
}

// Operands point backwards, have one user each, are of the right kind, and slots lie in their unit.
TEST(TemplateIr, MalformedProgramsAreRefused) {
  const auto refused = [](std::vector<ProgramNode> nodes, uint32_t root) {
    Program program;
    program.strings = {"x"};
    program.nodes = std::move(nodes);
    program.root = root;
    const auto loaded = LoadProgram(SerializeProgram(program));
    return !loaded && loaded.error().code == ErrorCode::kTplIr;
  };
  const ProgramNode text{Op::kText, {1, 1}, {0}};
  const ProgramNode one{Op::kTrue, {1, 1}, {}};
  EXPECT_FALSE(refused({text, {Op::kUnit, {1, 1}, {0, 0}}}, 1));
  EXPECT_TRUE(refused({text}, 0));                                                   // no unit
  EXPECT_TRUE(refused({text, {Op::kUnit, {1, 1}, {0, 1}}}, 1));                      // itself
  EXPECT_TRUE(refused({{Op::kText, {1, 1}, {7}}, {Op::kUnit, {1, 1}, {0, 0}}}, 1));  // no such string
  EXPECT_TRUE(refused({text, text, {Op::kUnit, {1, 1}, {0, 0}}}, 2));                // a node without a user
  EXPECT_TRUE(refused({text, {Op::kSequence, {1, 1}, {0, 0}}, {Op::kUnit, {1, 1}, {0, 1}}}, 2));  // two users
  EXPECT_TRUE(
      refused({text, {Op::kOutput, {1, 1}, {0}}, {Op::kUnit, {1, 1}, {0, 1}}}, 2));  // a statement as a value
  EXPECT_TRUE(refused({one, {Op::kUnit, {1, 1}, {0, 0}}}, 1));                       // a value as a statement
  EXPECT_TRUE(
      refused({{Op::kResolve, {1, 1}, {0, 0}}, {Op::kUnit, {1, 1}, {0, 0}}}, 1));  // slot beyond the unit
  EXPECT_TRUE(
      refused({{Op::kLoad, {1, 1}, {1, 0, 0}}, {Op::kOutput, {1, 1}, {0}}, {Op::kUnit, {1, 1}, {1, 1}}},
              2));  // unit beyond
  EXPECT_TRUE(refused(
      {one, one, {Op::kBinary, {1, 1}, {9, 0, 1}}, {Op::kOutput, {1, 1}, {2}}, {Op::kUnit, {1, 1}, {0, 3}}},
      4));
  EXPECT_TRUE(refused({one,
                       {Op::kCall, {1, 1}, {0, 4'000'000'000, 0}},
                       {Op::kOutput, {1, 1}, {1}},
                       {Op::kUnit, {1, 1}, {0, 2}}},
                      3));
  EXPECT_TRUE(
      refused({{Op::kFloat, {1, 1}, {0}}, {Op::kOutput, {1, 1}, {0}}, {Op::kUnit, {1, 1}, {0, 1}}}, 2) ||
      !Template::Load(SerializeProgram([&] {
         Program program;
         program.strings = {"x"};
         program.nodes = {{Op::kFloat, {1, 1}, {0}}, {Op::kOutput, {1, 1}, {0}}, {Op::kUnit, {1, 1}, {0, 1}}};
         program.root = 2;
         return program;
       }()))
           .has_value());  // a literal that is no number
}

TEST(TemplateIr, BudgetsMayShrinkNotGrow) {
  const auto compiled = Template::Compile("{% for i in range(100) %}{{ i }}{% endfor %}");
  ASSERT_TRUE(compiled.has_value());
  Program program = compiled->program();
  program.budgets.max_steps = 50;
  const auto small = Template::Load(SerializeProgram(program));
  ASSERT_TRUE(small.has_value());
  const json::Document context = Json(kHello);
  EXPECT_EQ(small->Render(context.root(), {}).error().code, ErrorCode::kTplBudget);
  program.budgets.max_steps = UINT64_MAX;
  EXPECT_EQ(Template::Load(SerializeProgram(program)).error().code, ErrorCode::kTplIr);
}

struct Refusal {
  const char* source;
  ErrorCode code;
  uint64_t byte_offset;
};

// G18 of the catalogue, and its kin (G17 is in decisions/0004): refused at conversion, with the place.
TEST(TemplateRefusal, NamesConstructAndPlace) {
  const Refusal refusals[] = {
      {"{% include 'x' %}", ErrorCode::kTplForbidden, 3},
      {"{% import 'x' as y %}", ErrorCode::kTplForbidden, 3},
      {"{% from 'x' import y %}", ErrorCode::kTplForbidden, 3},
      {"{% extends 'x' %}", ErrorCode::kTplForbidden, 3},
      {"{% block a %}{% endblock %}", ErrorCode::kTplForbidden, 3},
      {"{% autoescape true %}{% endautoescape %}", ErrorCode::kTplForbidden, 3},
      {"{{ ''|attr('__class__') }}", ErrorCode::kTplForbidden, 6},
      {"{{ [1]|random }}", ErrorCode::kTplForbidden, 7},
      {"{{ messages.__class__ }}", ErrorCode::kTplForbidden, 12},
      {"{{ messages['__class__'] }}", ErrorCode::kTplForbidden, 12},
      {"{{ ''.__class__.__mro__[1].__subclasses__() }}", ErrorCode::kTplForbidden, 27},
      {"{{ x|map('upper')|list }}{{ cycler.__init__.__globals__ }}", ErrorCode::kTplForbidden, 44},
      {"{{ self.__init__ }}", ErrorCode::kTplForbidden, 8},
      {"{{ lipsum() }}", ErrorCode::kTplForbidden, 3},
      {"{{ 1", ErrorCode::kTplSyntax, 0},
      {"{# open", ErrorCode::kTplSyntax, 0},
      {"{% raw %} {{", ErrorCode::kTplSyntax, 0},
      {"{% if x %}", ErrorCode::kTplSyntax, 10},
      {"{% endif %}", ErrorCode::kTplSyntax, 3},
      {"{{ 'abc }}", ErrorCode::kTplSyntax, 3},
      {"{{ a b }}", ErrorCode::kTplSyntax, 5},
      {"{{ ) }}", ErrorCode::kTplSyntax, 3},
      {"{% do x %}", ErrorCode::kTplSyntax, 3},
      {"{{ f(a=1, a=2) }}", ErrorCode::kTplSyntax, 4},
      {"{% set 1 = 2 %}", ErrorCode::kTplSyntax, 7},
      {"\r\n{% break %}", ErrorCode::kTplSyntax, 5},
      {"{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", ErrorCode::kTplSyntax, 34},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.source);
    const auto compiled = Template::Compile(refusal.source);
    ASSERT_FALSE(compiled.has_value());
    EXPECT_EQ(compiled.error().code, refusal.code) << compiled.error().ToString();
    EXPECT_EQ(compiled.error().byte_offset, refusal.byte_offset) << compiled.error().ToString();
  }
}

// What the reference itself refuses is an instruction that raises the same class of exception where it would.
TEST(TemplateRefusal, WhatTheReferenceRefusesRaisesWhenItRuns) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ [].append(1) }}", "SecurityError: "},
      {"{{ {}.update({}) }}", "SecurityError: "},
      {"{% if true %}{{ 1 | from_json }}{% endif %}", "TemplateRuntimeError: "},
      {"{{ 1 | from_json }}", "TemplateAssertionError: "},
      {"{{ 1 is unheard_of }}", "TemplateAssertionError: "},
      {"{{ 'a'['__cl' ~ 'ass__'].x }}", "SecurityError: "},
      {"{{ ['a'] | map(attribute='__cl' ~ 'ass__') | map(attribute='x') | list }}", "SecurityError: "},
      {"{{ '{0.__class__.__mro__}'.format(1) }}", "SecurityError: "},
      {"{{ ('{0.__cl' ~ 'ass__.x}').format(messages) }}", "SecurityError: "},
      {"{% set d = namespace() %}{% set d._x = 1 %}", "SecurityError: "},
      {"{{ range(10**9) }}", "OverflowError: "},
  };
  for (const auto& [source, message] : cases) {
    SCOPED_TRACE(source);
    const auto rendered = RenderText(source, kHello);
    ASSERT_FALSE(rendered.has_value());
    EXPECT_EQ(rendered.error().code, ErrorCode::kTplRuntime);
    EXPECT_TRUE(rendered.error().message.starts_with(message)) << rendered.error().message;
  }
  EXPECT_EQ(RenderText("{% if false %}{{ 1 | from_json }}{% endif %}ok", kHello)->text, "ok");
  // By a filter's name that only shows at run time.
  EXPECT_EQ(RenderText("{{ ['a'] | map('attr', '__class__') | list }}", kHello).error().code,
            ErrorCode::kTplForbidden);
}

TEST(TemplateRefusal, IllFormedSourceIsRefusedAtItsFirstByte) {
  const auto compiled = Template::Compile("ab\xc3(");
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kUtf8);
  EXPECT_EQ(compiled.error().byte_offset, 2u);
}

TEST(TemplateRefusal, DeepNestingIsBounded) {
  std::string deep = "{{ ";
  for (int i = 0; i < 10000; ++i) deep += "(";
  std::string lists = "{{ ";
  for (int i = 0; i < 10000; ++i) lists += "[";
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if 1 %}";
  std::string nots = "{{ ";
  for (int i = 0; i < 10000; ++i) nots += "not ";
  std::string macros;
  for (int i = 0; i < 10000; ++i) macros += "{% macro f() %}";
  for (const std::string& source : {deep + "1" + std::string(10000, ')') + " }}",
                                    lists + std::string(10000, ']') + " }}", blocks, nots + "1 }}", macros}) {
    SCOPED_TRACE(source.substr(0, 20));
    const auto compiled = Template::Compile(source);
    ASSERT_FALSE(compiled.has_value());
    EXPECT_EQ(compiled.error().code, ErrorCode::kTplBound);
    // Where the limit was passed, not where the source ends.
    EXPECT_GT(compiled.error().byte_offset.value_or(0), 30u);
    EXPECT_LT(compiled.error().byte_offset.value_or(UINT64_MAX), 2000u);
    EXPECT_TRUE(compiled.error().message.starts_with("line 1, column ")) << compiled.error().message;
  }
}

// A chain nests in the IR, not in the source: it is bounded all the same, and what compiles also loads.
TEST(TemplateRefusal, LongChainsAreBounded) {
  for (const char* link : {"+1", "|upper", ".a", "[0]", " and 1", " if 1"}) {
    SCOPED_TRACE(link);
    for (const int n_links : {20, 150, 197, 250, 5000}) {
      std::string source = "{{ x";
      for (int i = 0; i < n_links; ++i) source += link;
      const auto compiled = Template::Compile(source + " }}");
      if (compiled) {
        EXPECT_TRUE(Template::Load(compiled->Serialize()).has_value()) << n_links;
      } else {
        EXPECT_EQ(compiled.error().code, ErrorCode::kTplBound);
        EXPECT_GT(n_links, 150);
      }
    }
  }
}

// Exceeding a budget is an error, never a truncation.
TEST(TemplateBudget, StepsDepthTextOutputAndMemoryAreCounted) {
  const char* sources[] = {
      "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
      "{{ 'a' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}{{ ns.s }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == "
      "ns.l }}",
      "{% for i in range(9999) %}{{ 'x' * 60000 }}{% endfor %}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 'a'.ljust(1000000000) }}",
      "{{ 'a'.center(10**15) }}",
      "{{ ('a' * 10000) | replace('a', 'b' * 100000) }}",
      "{{ ('a\n' * 10000) | indent(100000) }}",
      "{{ [[1]] | tojson(indent=1000000000) }}",
      "{{ 10 ** (10 ** 10) }}",
      "{{ '\t'.expandtabs(2000000000) }}",
      "{{ ('x' * 1000000).zfill(10**12) }}",
      "{{ ('xy' * 1000000) | join(',' * 1000) }}",
      "{{ range(100000) | batch(1000000000, 1) | list }}",
  };
  for (const char* source : sources) {
    SCOPED_TRACE(source);
    // An eighth of what may be used, so that all of it is soon used up; one source for each of the whole
    // budgets follows.
    const auto compiled = Template::Compile(source);
    ASSERT_TRUE(compiled.has_value());
    Program program = compiled->program();
    program.budgets.max_steps /= 8;
    program.budgets.max_heap_bytes /= 8;
    program.budgets.max_output_bytes /= 8;
    const auto small = Template::Load(SerializeProgram(program));
    ASSERT_TRUE(small.has_value());
    const json::Document context = Json(kHello);
    SourcePlace fault;
    RenderOptions options;
    options.fault = &fault;
    const auto rendered = small->Render(context.root(), options);
    ASSERT_FALSE(rendered.has_value());
    EXPECT_EQ(rendered.error().code, ErrorCode::kTplBudget) << rendered.error().ToString();
    EXPECT_GE(fault.line, 1u);
    EXPECT_GE(fault.column, 4u);
  }
  for (const size_t i : {size_t{0}, size_t{3}, size_t{5}, size_t{6}}) {
    const auto rendered = RenderText(sources[i], kHello);
    ASSERT_FALSE(rendered.has_value());
    EXPECT_EQ(rendered.error().code, ErrorCode::kTplBudget) << rendered.error().ToString();
  }
}

// Where a rendering fails, in the template's source: raised errors too, whose message is the template's own.
TEST(TemplateInput, ARenderingThatFailsHasItsPlace) {
  const auto fault_of = [](const std::string& source) {
    SourcePlace fault;
    RenderOptions options;
    options.fault = &fault;
    EXPECT_FALSE(RenderText(source, kHello, options).has_value());
    return fault;
  };
  EXPECT_EQ(fault_of("a\nb {{ raise_exception('no') }}"), (SourcePlace{2, 21}));  // of the call
  EXPECT_EQ(fault_of("é {{ none + 1 }}"), (SourcePlace{1, 6}));
  EXPECT_EQ(
      fault_of("\n\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}").line,
      3u);
}

// Contexts that are no strict JSON: a code and the byte, before a template sees anything.
TEST(TemplateInput, BadJsonIsRefusedAtItsByte) {
  const struct {
    std::string text;
    ErrorCode code;
    uint64_t byte_offset;
  } cases[] = {
      {R"({"messages":[{"content":"\ud800"}]})", ErrorCode::kJsonSurrogate, 25},
      {R"({"messages":[],"messages":[]})", ErrorCode::kJsonDupKey, 15},
      {R"({"messages":[],"x":NaN})", ErrorCode::kJsonSyntax, 19},
      {R"({"messages":[],"x":1e999})", ErrorCode::kTplInput, 19},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto document = json::Parse(c.text);
    if (!document) {
      EXPECT_EQ(document.error().code, c.code) << document.error().ToString();
      EXPECT_EQ(document.error().byte_offset, c.byte_offset);
      continue;
    }
    const auto rendered = Template::Compile("{{ x }}")->Render(document->root(), {});
    ASSERT_FALSE(rendered.has_value());
    EXPECT_EQ(rendered.error().code, c.code);
    EXPECT_EQ(rendered.error().byte_offset, c.byte_offset);
  }
  const auto deep = json::Parse("{\"messages\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}");
  ASSERT_FALSE(deep.has_value());
  EXPECT_EQ(deep.error().code, ErrorCode::kJsonDepth);
  EXPECT_TRUE(deep.error().byte_offset.has_value());
}

TEST(TemplateRefusal, ALiteralOf100MegabytesIsRefused) {
  const auto compiled = Template::Compile("{{ '" + std::string(100u << 20, 'x') + "' }}");
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kTplBound);
  EXPECT_TRUE(compiled.error().byte_offset.has_value());
}

TEST(TemplateInput, NeedsMessagesAndAnObject) {
  EXPECT_EQ(RenderText("x", "[]").error().code, ErrorCode::kTplInput);
  const auto rendered = RenderText("x", "{}");
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().code, ErrorCode::kTplInput);
  EXPECT_EQ(rendered.error().field, "messages");
}

// TPL-02: the clock is a declared input.
TEST(TemplateInput, DatesNeedADeclaredClock) {
  EXPECT_EQ(RenderText("{{ strftime_now('%Y-%m-%d') }}", kHello).error().code, ErrorCode::kTplInput);
  RenderOptions options;
  options.clock = "2026-11-30T12:00:00";
  EXPECT_EQ(RenderText("{{ strftime_now('%d %b %Y, %B') }}", kHello, options)->text, "30 Nov 2026, November");
  EXPECT_EQ(RenderText("{{ strftime_now('%A %H:%M:%S|%j %p|%-d') }}", kHello, options)->text,
            "Monday 12:00:00|334 PM|30");
  EXPECT_EQ(RenderText("{{ strftime_now('%Q') }}", kHello, options).error().code, ErrorCode::kTplForbidden);
  options.clock = "2026-13-30";
  EXPECT_EQ(RenderText("{{ strftime_now('%Y') }}", kHello, options).error().code, ErrorCode::kTplInput);
}

// What only shows an address in memory, or is no JSON value, is refused by name, never guessed.
TEST(TemplateInput, UnsupportedValuesAreNamed) {
  for (const char* source : {"{{ messages.append.x }}", "{{ {}.items }}", "{{ messages | map('length') }}",
                             "{{ (-8) ** 0.5 }}", "{{ 'a'.encode() }}"}) {
    SCOPED_TRACE(source);
    const auto rendered = RenderText(source, kHello);
    ASSERT_FALSE(rendered.has_value());
    EXPECT_TRUE(rendered.error().code == ErrorCode::kUnsupported ||
                rendered.error().code == ErrorCode::kTplRuntime);
  }
  EXPECT_EQ(RenderText("{{ messages }}", R"({"messages":[{"role":"é\u0301\u200b"}]})")->text,
            "[{'role': 'é\u0301\\u200b'}]");
  EXPECT_EQ(RenderText("{{ 'straße' | upper }}", kHello)->text, "STRASSE");
  EXPECT_EQ(RenderText("{{ x + 1 }}", R"({"messages":[],"x":123456789012345678901234567890})")->text,
            "123456789012345678901234567891");
  EXPECT_EQ(
      RenderText("{% for k in d['items'] %}{{ k }}{% endfor %}{% for k in d.items() %}{{ k[0] }}{% endfor %}",
                 R"({"messages":[],"d":{"items":[1],"keys":2,"values":3}})")
          ->text,
      "1itemskeysvalues");
  const std::string digits(5000, '7');
  EXPECT_EQ(RenderText("{{ x }}", "{\"messages\":[],\"x\":" + digits + "}").error().code,
            ErrorCode::kTplInput);
  EXPECT_EQ(RenderText("{{ x }}", "{\"messages\":[],\"x\":" + digits.substr(0, 1000) + "}")->text,
            digits.substr(0, 1000));
}

}  // namespace
}  // namespace slm::chat
