// A promotion as one self-contained HTML page, and as JUnit XML.
//
// The page is written from what verification recomputed, never from stored verdicts. It loads nothing, runs
// no script, and holds no clock: the same receipt gives the same bytes. One call, one thread.
#ifndef SLM_REPORT_REPORT_H_
#define SLM_REPORT_REPORT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "evidence/objects.h"
#include "evidence/verify.h"
#include "golden/golden.h"
#include "tokenizer/tokenizer.h"

namespace slm::report {

// One backend beside the receipt's own, with its own receipt and claims.
struct BackendRun {
  std::string backend;  // "wasm-scalar@firefox"
  evidence::Verification verification;
};

// What the page is made from.
struct ReportData {
  evidence::Verification verification;
  std::shared_ptr<const golden::Golden> candidate;
  std::vector<std::shared_ptr<const golden::Golden>> evidence;  // in the order of the receipt
  std::shared_ptr<const golden::Golden> reference;              // null without evidence
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;        // null if there is none; names tokens
  std::vector<BackendRun> others;  // of the same artifact, suite, policy, evidence
  // Nothing of any backend fails or is unstable.
  [[nodiscard]] bool Holds() const;
};

// The backends that every report has a column for; what was not run is not claimed there.
inline constexpr std::string_view kBackends[] = {"native-scalar", "wasm-scalar@chromium",
                                                 "wasm-scalar@firefox", "wasm-scalar@webkitgtk"};

// The columns, kBackends first, others by name. Null for a backend that was not run.
struct BackendColumn {
  std::string backend;
  const evidence::Verification* verification;
};
[[nodiscard]] std::vector<BackendColumn> ColumnsOf(const ReportData& data);
// Every claim that some backend makes, in the order of the receipt's own.
[[nodiscard]] std::vector<std::string> ClaimsOf(const ReportData& data);
// A claim that the verification does not have, or a null one, is not claimed.
[[nodiscard]] evidence::ClaimState StateOf(const evidence::Verification* verification,
                                           std::string_view claim);

// Verifies the receipt and opens its containers. `runs` are what other backends made of the same artifact and
// suite: promotions, which are verified, or observations, which are compared by the receipt's policy with its
// evidence and verified as the promotion that this gives; nothing is written. Errors: those of Verify and
// WritePromotion; NODE-TYPE for a run of another type; GRAPH-SCHEMA, field = the role, for one of another
// acquisition, artifact, suite, policy or evidence; USAGE for two of one backend. Containers of the receipt
// that cannot be opened are left out; the page then says what failed.
[[nodiscard]] Result<ReportData> LoadReport(const evidence::ObjectSource& source, const Hash256& receipt,
                                            const std::vector<Hash256>& runs,
                                            const evidence::SourceJudge& judge);

[[nodiscard]] std::string ReportHtml(const ReportData& data);

// One test suite for the claims of each backend and one for each level, one case for each claim and array.
[[nodiscard]] std::string ReportJunit(const ReportData& data);

}  // namespace slm::report

#endif  // SLM_REPORT_REPORT_H_
