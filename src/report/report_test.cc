#include "report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "compare/fake_suite.h"
#include "compare/policy.h"
#include "report/charts.h"
#include "report/html_text.h"

namespace slm::report {
namespace {

constexpr std::string_view kHostile = "<script>alert(1)</script>&\"' \xe2\x80\xae evil \x1b[31m \xff\n end";

// A verification as Verify would return it, around a comparison of two made-up suites.
ReportData MakeData() {
  compare::FakeSuite reference = compare::MakeFakeSuite(golden::Mode::kReference);
  compare::FakeSuite source = compare::MakeFakeSuite(golden::Mode::kSource);
  compare::FakeSuite truth = compare::MakeFakeSuite(golden::Mode::kTruth);
  compare::FakeSuite candidate = compare::MakeFakeSuite(golden::Mode::kCandidate);
  candidate.Case("ids").Array("layers.1.output").values[0] += 0.5;
  for (compare::FakeSuite* suite : {&reference, &source, &truth, &candidate}) {
    suite->Case("text").meta.generation->text = Bytes(kHostile.begin(), kHostile.end());
  }
  ReportData data;
  data.reference = reference.Open();
  data.candidate = candidate.Open();
  const auto source_golden = source.Open();
  const auto truth_golden = truth.Open();
  data.evidence = {data.reference, source_golden, truth_golden};
  const auto policy = compare::ParsePolicy(compare::FakePolicyJson());
  EXPECT_TRUE(policy.has_value());
  auto comparison = compare::Compare({data.reference.get(), source_golden.get(), truth_golden.get()},
                                     *data.candidate, *policy);
  EXPECT_TRUE(comparison.has_value());
  evidence::Verification& verification = data.verification;
  Node acquisition;
  acquisition.type = "acquisition";
  acquisition.metadata = cbor::Map{{"schema", "s"}, {"name", kHostile.substr(0, 25)}, {"revision", "r1"}};
  const Hash256 acquisition_id = NodeId(acquisition);
  Node promotion;
  promotion.type = "promotion";
  promotion.metadata = cbor::Map{{"schema", "s"}, {"backend", "native-scalar"}};
  promotion.edges = {{"acquisition", acquisition_id}};
  verification.receipt = NodeId(promotion);
  verification.nodes.emplace(acquisition_id, acquisition);
  verification.nodes.emplace(verification.receipt, promotion);
  for (const compare::LevelResult& level : comparison->levels) {
    const auto state = level.verdict == compare::Verdict::kPass         ? evidence::ClaimState::kHolds
                       : level.verdict == compare::Verdict::kNotClaimed ? evidence::ClaimState::kNotClaimed
                                                                        : evidence::ClaimState::kFails;
    verification.claims.push_back(
        {std::string(compare::LevelName(level.level)), state, level.summary, "", ""});
  }
  verification.claims.push_back({"truth", evidence::ClaimState::kHolds, comparison->truth.summary, "", ""});
  verification.comparison = *std::move(comparison);
  return data;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(HtmlTextTest, HostileTextBecomesVisible_ID_04) {
  EXPECT_EQ(Escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  const std::string escaped = EscapeMultiline(kHostile);
  EXPECT_EQ(escaped.find("<script"), std::string::npos);
  EXPECT_EQ(escaped.find("\xe2\x80\xae"), std::string::npos) << "right-to-left override";
  EXPECT_EQ(escaped.find('\x1b'), std::string::npos);
  EXPECT_EQ(escaped.find('\xff'), std::string::npos);
  EXPECT_NE(escaped.find("&#8629;</span>\n"), std::string::npos);
  EXPECT_EQ(Grouped(1), "1");
  EXPECT_EQ(Grouped(538090408), "538,090,408");
  EXPECT_EQ(ShortNumber(5.43e-5), "5.43e-05");
  EXPECT_EQ(ShortNumber(0), "0");
}

TEST(ReportTest, ThePageIsSelfContainedAndHarmless) {
  const ReportData data = MakeData();
  const std::string html = ReportHtml(data);
  EXPECT_EQ(html, ReportHtml(data)) << "no clock, no order by address";
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_EQ(html.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(html.find("name=\"viewport\""), std::string::npos);
}

// TPL-05: a prompt of messages, whose BOS the template wrote, and two texts around which the tokenizer puts
// its own, or does not.
TEST(ReportTest, ThePageSaysWhoEmitsBosAndEos) {
  const std::string file = std::string(SLM_SHARED_DIR) + "/vectors/tokenizers/models/llama2.tokenizer.json";
  std::ifstream in(file, std::ios::binary);
  if (!in) GTEST_SKIP() << "shared/vectors/tokenizers is not beside this tree";
  const std::string json((std::istreambuf_iterator<char>(in)), {});
  ReportData data = MakeData();
  auto tokenizer = tokenizer::Tokenizer::FromJson(json);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
  data.tokenizer = *tokenizer;
  compare::FakeSuite candidate = compare::MakeFakeSuite(golden::Mode::kCandidate);
  golden::Case& text = candidate.Case("text").meta;
  ASSERT_FALSE(text.tokenizations.empty());
  for (golden::Tokenization& one : text.tokenizations) one.add_special_tokens = true;
  data.candidate = candidate.Open();
  const std::string adds = ReportHtml(data);
  EXPECT_NE(adds.find("<td><code>&lt;s&gt;</code> the tokenizer, once</td><td>the model has none</td>"),
            std::string::npos);
  for (golden::Tokenization& one : text.tokenizations) one.add_special_tokens = false;
  data.candidate = candidate.Open();
  EXPECT_NE(ReportHtml(data).find("nobody; the tokenizer puts one around plain text and is told not to here"),
            std::string::npos);
  const std::string rendered = "<s>[INST] q [/INST]";
  text.rendered = Bytes(rendered.begin(), rendered.end());
  text.ownership = {
      {{0, 10, "template"}, {10, 11, "messages[0].content"}, {11, rendered.size(), "template"}}};
  data.candidate = candidate.Open();
  EXPECT_NE(ReportHtml(data).find("the template, once; the tokenizer puts one around plain text"),
            std::string::npos);
}

TEST(ReportTest, ThePageShowsEveryLevelAndTheFirstDifference_LVL_01) {
  const ReportData data = MakeData();
  const std::string html = ReportHtml(data);
  for (int level = 0; level <= 12; ++level) {
    EXPECT_NE(html.find("<th scope=\"row\">L" + std::to_string(level) + "</th>"), std::string::npos) << level;
  }
  EXPECT_NE(html.find("L6 at layers.1.output[0, 0] of case ids"), std::string::npos);
  EXPECT_NE(html.find("Open items"), std::string::npos);
  EXPECT_NE(html.find("badge not claimed"), std::string::npos);
  EXPECT_EQ(Count(html, "<svg class=\"chart"), 2u);
  EXPECT_EQ(Count(html, "role=\"img\" aria-labelledby"), 2u);
  for (const char* tag :
       {"table", "section", "figure", "details", "ul", "svg", "pre", "div", "main", "body"}) {
    EXPECT_EQ(Count(html, "<" + std::string(tag) + ">") + Count(html, "<" + std::string(tag) + " "),
              Count(html, "</" + std::string(tag) + ">"))
        << tag;
  }
}

// The columns of a table row, in order: what each badge says.
std::vector<std::string> BadgesOf(const std::string& html, const std::string& claim) {
  const size_t table = html.find("<table class=\"backends\">");
  const size_t begin = html.find("<th scope=\"row\">" + claim + "</th>", table);
  const std::string row = html.substr(begin, html.find("</tr>", begin) - begin);
  std::vector<std::string> badges;
  for (size_t at = row.find("badge "); at != std::string::npos; at = row.find("badge ", at + 1)) {
    const size_t text = row.find('>', at) + 1;
    badges.push_back(row.substr(text, row.find('<', text) - text));
  }
  return badges;
}

TEST(ReportTest, OneColumnPerBackendWithItsOwnClaims_LVL_01) {
  ReportData data = MakeData();
  // The receipt is of native-scalar; its L6 fails. What was not run is not claimed, whatever others show.
  using Badges = std::vector<std::string>;
  EXPECT_EQ(BadgesOf(ReportHtml(data), "L5"), (Badges{"holds", "not claimed", "not claimed", "not claimed"}));
  EXPECT_EQ(BadgesOf(ReportHtml(data), "L6"), (Badges{"fails", "not claimed", "not claimed", "not claimed"}));
  const size_t n_native = BadgesOf(ReportHtml(data), "truth").size();
  EXPECT_EQ(n_native, std::size(kBackends));

  // Firefox has L6 and lacks truth; a backend that is not in the list stands at the end.
  evidence::Verification firefox;
  firefox.receipt = Hash256{7};
  firefox.claims = {{"L5", evidence::ClaimState::kUnstable, "", "", ""},
                    {"L6", evidence::ClaimState::kHolds, "", "", ""},
                    {"rerun build", evidence::ClaimState::kHolds, "", "", ""}};
  evidence::Verification other;
  other.claims = {{"L5", evidence::ClaimState::kHolds, "", "", ""}};
  data.others = {{"wasm-scalar@firefox", firefox}, {"<b>another", other}};
  const std::string html = ReportHtml(data);
  EXPECT_EQ(BadgesOf(html, "L5"), (Badges{"holds", "not claimed", "unstable", "not claimed", "holds"}));
  EXPECT_EQ(BadgesOf(html, "L6"), (Badges{"fails", "not claimed", "holds", "not claimed", "not claimed"}));
  EXPECT_EQ(BadgesOf(html, "truth"),
            (Badges{"holds", "not claimed", "not claimed", "not claimed", "not claimed"}));
  EXPECT_EQ(BadgesOf(html, "rerun build"),
            (Badges{"not claimed", "not claimed", "holds", "not claimed", "not claimed"}));
  EXPECT_EQ(html.find("<b>another"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;another"), std::string::npos);
  const std::string xml = ReportJunit(data);
  EXPECT_NE(xml.find("<testsuite name=\"claims of wasm-scalar@firefox\""), std::string::npos);
  EXPECT_NE(xml.find("<testsuite name=\"claims of wasm-scalar@chromium\""), std::string::npos);
  EXPECT_NE(xml.find("classname=\"claims of wasm-scalar@firefox\" name=\"L6\"/>"), std::string::npos);
  EXPECT_NE(
      xml.find("classname=\"claims of wasm-scalar@chromium\" name=\"L6\"><skipped message=\"not run\"/>"),
      std::string::npos);

  // One backend that fails is enough.
  ReportData holds = MakeData();
  for (evidence::Claim& claim : holds.verification.claims) claim.state = evidence::ClaimState::kHolds;
  EXPECT_TRUE(holds.Holds());
  holds.others = {{"wasm-scalar@firefox", firefox}};
  EXPECT_FALSE(holds.Holds());
}

TEST(ReportTest, JunitCountsFailures) {
  const std::string xml = ReportJunit(MakeData());
  // Three cases of two layers, each with its two residual outputs.
  EXPECT_NE(xml.find("<testsuite name=\"L6\" tests=\"12\" failures=\"1\" errors=\"0\" skipped=\"0\">"),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("name=\"ids: layers.1.output\"><failure"), std::string::npos);
  EXPECT_NE(xml.find("<skipped message="), std::string::npos);
}

TEST(ChartsTest, ZerosStandOnTheirOwnLine) {
  ChartSpec spec{"c", "t", "d", {"a", "b"}, {{"one", 0, {0.0, 1e-5}}, {"two", 1, {std::nullopt, 1e-3}}}};
  const std::string chart = LineChart(spec);
  EXPECT_NE(chart.find(">0</text>"), std::string::npos);
  EXPECT_NE(chart.find("1e-5"), std::string::npos);
  EXPECT_EQ(chart.find("nan"), std::string::npos);
  EXPECT_EQ(chart.find("inf"), std::string::npos);
  spec.series = {{"none", 0, {std::nullopt, std::nullopt}}};
  EXPECT_EQ(DotChart(spec).find("nan"), std::string::npos);
  spec.series = {{"all zero", 0, {0.0, 0.0}}};
  EXPECT_EQ(LineChart(spec).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace slm::report
