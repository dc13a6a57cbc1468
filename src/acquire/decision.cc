#include "acquire/decision.h"

#include "acquire/read_file.h"
#include "base/utf8.h"

namespace slm::acquire {

Result<Decision> LoadDecision(const std::string& path) {
  const std::string display = EscapeForDisplay(path);
  SLM_ASSIGN(const Bytes text, ReadSmallFile(path, kMaxStatementBytes));
  return ParseDecision(text, display);
}

}  // namespace slm::acquire
