// JUnit XML, as CI systems read it.
#include "base/utf8.h"
#include "report/html_text.h"
#include "report/report.h"

namespace slm::report {
namespace {

struct Case {
  std::string name;
  std::string kind;  // "", "failure", "error", "skipped"
  std::string message;
};

void AppendSuite(const std::string& name, const std::vector<Case>& cases, std::string* out) {
  uint64_t n_failures = 0;
  uint64_t n_errors = 0;
  uint64_t n_skipped = 0;
  for (const Case& one : cases) {
    n_failures += one.kind == "failure";
    n_errors += one.kind == "error";
    n_skipped += one.kind == "skipped";
  }
  *out += "  <testsuite name=\"" + Escape(name) + "\" tests=\"" + std::to_string(cases.size()) +
          "\" failures=\"" + std::to_string(n_failures) + "\" errors=\"" + std::to_string(n_errors) +
          "\" skipped=\"" + std::to_string(n_skipped) + "\">\n";
  for (const Case& one : cases) {
    *out += "    <testcase classname=\"" + Escape(name) + "\" name=\"" + Escape(one.name) + "\"";
    *out += one.kind.empty() ? "/>\n"
                             : "><" + one.kind + " message=\"" + Escape(one.message) + "\"/></testcase>\n";
  }
  *out += "  </testsuite>\n";
}

Case CaseOf(const std::string& name, compare::Verdict verdict, const std::string& message) {
  switch (verdict) {
    case compare::Verdict::kPass:
      return {name, "", ""};
    case compare::Verdict::kFail:
    case compare::Verdict::kUnstable:
      return {name, "failure", message};
    case compare::Verdict::kError:
      return {name, "error", message};
    case compare::Verdict::kNotClaimed:
      break;
  }
  return {name, "skipped", message};
}

}  // namespace

std::string ReportJunit(const ReportData& data) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"slm promotion " +
                    ToHex(data.verification.receipt) + "\">\n";
  const auto claims_of = [&data](const evidence::Verification* verification) {
    std::vector<Case> cases;
    for (const std::string& name : ClaimsOf(data)) {
      const evidence::ClaimState state = StateOf(verification, name);
      const std::string kind = state == evidence::ClaimState::kHolds        ? ""
                               : state == evidence::ClaimState::kNotClaimed ? "skipped"
                                                                            : "failure";
      const evidence::Claim* claim = verification == nullptr ? nullptr : verification->Find(name);
      cases.push_back({name, kind, claim == nullptr ? "not run" : claim->detail});
    }
    return cases;
  };
  AppendSuite("claims", claims_of(&data.verification), &out);
  for (const BackendColumn& column : ColumnsOf(data)) {
    if (column.verification != &data.verification)
      AppendSuite("claims of " + column.backend, claims_of(column.verification), &out);
  }
  if (data.verification.comparison) {
    const compare::Comparison& comparison = *data.verification.comparison;
    for (const compare::LevelResult& level : comparison.levels) {
      std::vector<Case> cases;
      for (const compare::ArrayResult& array : comparison.arrays) {
        if (array.stage.level != level.level) continue;
        const std::string name = array.case_id.empty() ? array.name : array.case_id + ": " + array.name;
        cases.push_back(CaseOf(name, array.verdict, array.code.empty() ? "out of tolerance" : array.code));
      }
      if (level.level == compare::Level::kL9) {
        for (const compare::TokenResult& tokens : comparison.tokens) {
          cases.push_back(CaseOf(tokens.case_id + ": tokens", tokens.verdict,
                                 std::string(compare::VerdictName(tokens.verdict))));
        }
      }
      if (!cases.empty()) AppendSuite(std::string(compare::LevelName(level.level)), cases, &out);
    }
  }
  return out + "</testsuites>\n";
}

}  // namespace slm::report
