// Standard section 5. Expected renderings are the reference's (vectors/chat/probes.jsonl).
#include "chat/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

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
    const auto compiled = Template::Compile(row.root().Find("template")->string());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().ToString();
    const auto rendered = compiled->Render(*row.root().Find("context"), {});
    if (const auto expected = row.root().Find("ok")) {
      ASSERT_TRUE(rendered.has_value()) << rendered.error().ToString();
      EXPECT_EQ(rendered->text, expected->string());
      continue;
    }
    ASSERT_FALSE(rendered.has_value()) << rendered->text;
    const std::string raised(row.root().Find("message")->string());
    const std::string exception(row.root().Find("raises")->string());
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
  EXPECT_EQ(rendered->spans, expected);
  EXPECT_EQ(rendered->ownership.bos, "template");
  EXPECT_EQ(rendered->ownership.eos, "none");
  EXPECT_EQ(rendered->ownership.generation_prefix, "template");
}

// TPL-04: special-token text in a message stays content; it never claims to be the template's.
TEST(TemplateOwnership, ForgedMarkersBelongToTheMessage) {
  RenderOptions options;
  options.special_tokens = {{"bos_token", "<s>"}};
  const auto rendered =
      RenderText("{% for m in messages %}{{ m.content }}{% endfor %}",
                 R"({"messages":[{"role":"user","content":"<s>{{ 1 + 1 }}{% if true %}"}]})", options);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->text, "<s>{{ 1 + 1 }}{% if true %}");
  ASSERT_EQ(rendered->spans.size(), 1u);
  EXPECT_EQ(rendered->spans[0].owner, "messages[0].content");
  EXPECT_EQ(rendered->ownership.bos, "none");
}

TEST(TemplateOwnership, ToolsAreOwnersAsWholes) {
  const auto rendered = RenderText("{% for t in tools %}{{ t | tojson }}{% endfor %}",
                                   R"({"messages":[],"tools":[{"name":"f"},{"name":"g"}]})");
  ASSERT_TRUE(rendered.has_value());
  const std::vector<Span> expected = {{0, 13, "tools[0]"}, {13, 26, "tools[1]"}};
  EXPECT_EQ(rendered->spans, expected);
}

// TPL-07: predicates on content are declared.
TEST(TemplateAnalysis, DeclaresInputsAndContentPredicates) {
  const auto compiled = Template::Compile(
      "{% if '</think>' in messages[0].content %}{{ messages[0].content.split('</think>')[1] }}{% endif %}{{ "
      "mood }}");
  ASSERT_TRUE(compiled.has_value());
  EXPECT_EQ(compiled->program().inputs, (std::vector<std::string>{"messages", "mood"}));
  ASSERT_EQ(compiled->program().content_predicates.size(), 2u);
  EXPECT_EQ(compiled->program().content_predicates[0], (ContentPredicate{"in", "</think>", 1}));
  EXPECT_EQ(compiled->program().content_predicates[1], (ContentPredicate{"split", "</think>", 1}));
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

TEST(TemplateIr, OperandsMustPointBackwards) {
  Program program;
  program.strings = {"x"};
  program.nodes = {{Op::kSequence, 1, {0}}};
  EXPECT_EQ(LoadProgram(SerializeProgram(program)).error().code, ErrorCode::kTplIr);
  program.nodes = {{Op::kText, 1, {0}}, {Op::kNot, 1, {0}}, {Op::kOutput, 1, {1}}};  // a statement as a value
  program.root = 2;
  EXPECT_EQ(LoadProgram(SerializeProgram(program)).error().code, ErrorCode::kTplIr);
  program.root = 0;
  program.nodes = {{Op::kText, 1, {7}}};
  EXPECT_EQ(LoadProgram(SerializeProgram(program)).error().code, ErrorCode::kTplIr);
}

struct Refusal {
  const char* source;
  ErrorCode code;
  uint64_t byte_offset;
};

// G17, G18 of the catalogue, and their kin: refused at conversion, with the place.
TEST(TemplateRefusal, NamesConstructAndPlace) {
  const Refusal refusals[] = {
      {"{% include 'x' %}", ErrorCode::kTplForbidden, 3},
      {"{% import 'x' as y %}", ErrorCode::kTplForbidden, 3},
      {"a{% macro f() %}{% endmacro %}", ErrorCode::kTplForbidden, 4},
      {"{{ ''|attr('__class__') }}", ErrorCode::kTplForbidden, 6},
      {"{{ messages.__class__ }}", ErrorCode::kTplForbidden, 12},
      {"{{ lipsum() }}", ErrorCode::kTplForbidden, 3},
      {"{{ self }}", ErrorCode::kTplForbidden, 3},
      {"{{ f(*x) }}", ErrorCode::kTplForbidden, 3},
      {"{{ 'a'.format(1) }}", ErrorCode::kTplForbidden, 7},
      {"{{ 1 / 2 }}", ErrorCode::kTplForbidden, 5},
      {"{{ 1 < 2 < 3 }}", ErrorCode::kTplForbidden, 9},
      {"{% for x in y recursive %}{% endfor %}", ErrorCode::kTplForbidden, 14},
      {"{{ 1", ErrorCode::kTplSyntax, 0},
      {"{# open", ErrorCode::kTplSyntax, 0},
      {"{% if x %}", ErrorCode::kTplSyntax, 10},
      {"{% endif %}", ErrorCode::kTplSyntax, 3},
      {"{{ 'abc }}", ErrorCode::kTplSyntax, 3},
      {"{{ a b }}", ErrorCode::kTplSyntax, 5},
      {"{{ ) }}", ErrorCode::kTplSyntax, 3},
      {"\r\n{% break %}", ErrorCode::kTplSyntax, 5},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.source);
    const auto compiled = Template::Compile(refusal.source);
    ASSERT_FALSE(compiled.has_value());
    EXPECT_EQ(compiled.error().code, refusal.code) << compiled.error().ToString();
    EXPECT_EQ(compiled.error().byte_offset, refusal.byte_offset) << compiled.error().ToString();
  }
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
  const auto compiled = Template::Compile(deep + "1" + std::string(10000, ')') + " }}");
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kTplBound);
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if 1 %}";
  EXPECT_EQ(Template::Compile(blocks).error().code, ErrorCode::kTplBound);
  std::string nots = "{{ ";
  for (int i = 0; i < 10000; ++i) nots += "not ";
  EXPECT_EQ(Template::Compile(nots + "1 }}").error().code, ErrorCode::kTplBound);
}

// A chain nests in the IR, not in the source: it is bounded all the same, and what compiles also loads.
TEST(TemplateRefusal, LongChainsAreBounded) {
  for (const char* link : {"+1", "|upper", " is defined", ".a", "[0]", " and 1", " if 1"}) {
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
TEST(TemplateBudget, LoopsStringsAndOutputAreCounted) {
  const char* loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(RenderText(loops, kHello).error().code, ErrorCode::kTplBudget);
  EXPECT_EQ(RenderText("{{ range(10**9) }}", kHello).error().code, ErrorCode::kTplForbidden);
  EXPECT_EQ(RenderText("{{ range(1000000000) | length }}", kHello).error().code, ErrorCode::kTplBudget);
  EXPECT_EQ(RenderText("{{ 'a' * 1000000000000 }}", kHello).error().code, ErrorCode::kTplBudget);
  const char* doubling =
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}";
  EXPECT_EQ(RenderText(doubling, kHello).error().code, ErrorCode::kTplBudget);
  const char* nesting =
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == "
      "ns.l }}";
  EXPECT_EQ(RenderText(nesting, kHello).error().code, ErrorCode::kTplBudget);
  const char* output = "{% for i in range(9999) %}{{ 'x' * 60000 }}{% endfor %}";
  EXPECT_EQ(RenderText(output, kHello).error().code, ErrorCode::kTplBudget);
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
  EXPECT_EQ(RenderText("{{ strftime_now('%H') }}", kHello, options).error().code, ErrorCode::kTplForbidden);
}

// What this version cannot print as Python would is refused by name, never guessed.
TEST(TemplateInput, UnsupportedValuesAreNamed) {
  EXPECT_EQ(RenderText("{{ messages }}", R"({"messages":[{"role":"é"}]})").error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(RenderText("{{ 'é' | upper }}", kHello).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(RenderText("{{ x }}", R"({"messages":[],"x":123456789012345678901234567890})").error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(
      RenderText("{% for k in d.items %}{% endfor %}", R"({"messages":[],"d":{"items":[]}})").error().code,
      ErrorCode::kTplForbidden);
}

}  // namespace
}  // namespace slm::chat
