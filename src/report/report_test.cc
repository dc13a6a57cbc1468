#include "report/report.h"

#include <gtest/gtest.h>

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
