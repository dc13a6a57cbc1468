// What a container of observations can be held to without any reference.
#ifndef SLM_EVIDENCE_SELF_CHECK_H_
#define SLM_EVIDENCE_SELF_CHECK_H_

#include "base/error.h"
#include "golden/golden.h"

namespace slm::evidence {

// Every float of every array is finite; the top-k lists descend, ties by ascending id, and hold the values
// of the logits that are kept; the first greedy token is the best of the prompt's last row. Errors:
// NONFINITE, CMP-SHAPE; the field names case and observation.
[[nodiscard]] Status CheckSelfConsistent(const golden::Golden& container);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_SELF_CHECK_H_
