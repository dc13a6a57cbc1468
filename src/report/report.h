// A promotion as one self-contained HTML page, and as JUnit XML.
//
// The page is written from what verification recomputed, never from stored verdicts. It loads nothing, runs
// no script, and holds no clock: the same receipt gives the same bytes. One call, one thread.
#ifndef SLM_REPORT_REPORT_H_
#define SLM_REPORT_REPORT_H_

#include <memory>
#include <string>

#include "base/error.h"
#include "evidence/objects.h"
#include "evidence/verify.h"
#include "golden/golden.h"
#include "tokenizer/tokenizer.h"

namespace slm::report {

// What the page is made from.
struct ReportData {
  evidence::Verification verification;
  std::shared_ptr<const golden::Golden> candidate;
  std::vector<std::shared_ptr<const golden::Golden>> evidence;  // in the order of the receipt
  std::shared_ptr<const golden::Golden> reference;              // null without evidence
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;        // null if there is none; names tokens
};

// Verifies the receipt and opens its containers. Errors: those of Verify. Containers that cannot be opened
// are left out; the page then says what failed.
[[nodiscard]] Result<ReportData> LoadReport(const evidence::ObjectSource& source, const Hash256& receipt,
                                            const evidence::SourceJudge& judge);

[[nodiscard]] std::string ReportHtml(const ReportData& data);

// One test suite for each level, one case for each claim and array.
[[nodiscard]] std::string ReportJunit(const ReportData& data);

}  // namespace slm::report

#endif  // SLM_REPORT_REPORT_H_
