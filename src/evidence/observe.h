// A candidate over a whole suite (observer.h says what the container holds). One call, one thread.
#ifndef SLM_EVIDENCE_OBSERVE_H_
#define SLM_EVIDENCE_OBSERVE_H_

#include <vector>

#include "base/error.h"
#include "evidence/candidate.h"
#include "evidence/cases_file.h"
#include "evidence/observer.h"

namespace slm::evidence {

// Errors: those of TextHalf::TextOf and the session, at the case's record in the cases
// file, with the case id in the message (and in `field`, where nothing else stands there), and of the sink.
[[nodiscard]] Status Observe(const Candidate& candidate, const std::vector<CaseSpec>& cases,
                             const ObserveOptions& options, const golden::GoldenWriter::Sink& sink);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_OBSERVE_H_
