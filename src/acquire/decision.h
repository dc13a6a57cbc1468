// Reads statement files (identity/statement.h). The program reads them and never writes one.
#ifndef SLM_ACQUIRE_DECISION_H_
#define SLM_ACQUIRE_DECISION_H_

#include <string>

#include "base/error.h"
#include "identity/statement.h"

namespace slm::acquire {

using slm::Decision;
using slm::DecisionKinds;
using slm::DecisionNode;
using slm::ParseDecision;

// Reads the file (at most 1 MiB) and parses it. Errors: NOT-FOUND, IO, and those of ParseDecision.
[[nodiscard]] Result<Decision> LoadDecision(const std::string& path);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_DECISION_H_
