#include "acquire/decision.h"

#include "acquire/read_file.h"

namespace slm::acquire {

Result<Decision> LoadDecision(const std::string& path) {
  SLM_ASSIGN(const Bytes text, ReadSmallFile(path, kMaxStatementBytes));
  return ParseDecision(text, path);
}

}  // namespace slm::acquire
