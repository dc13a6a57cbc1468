// The JSON document of `slm inspect --json` (docs/spec/slm.md, "Inspection"). An independent program
// prints the same bytes.
#ifndef SLM_SLM_FILE_INSPECTION_H_
#define SLM_SLM_FILE_INSPECTION_H_

#include <string>

#include "slm_file/artifact.h"

namespace slm {

// {"root", "header", "chunks", "manifest"} without blanks; byte strings as {"hex":"..."}.
[[nodiscard]] std::string InspectionJson(const Artifact& artifact);

}  // namespace slm

#endif  // SLM_SLM_FILE_INSPECTION_H_
