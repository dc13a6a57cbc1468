// Conversion of a template that nobody trusts: in a child process without files, network or much memory
// (TPL-01). Native only: WebAssembly runs programs that were converted before.
#ifndef SLM_CHAT_ISOLATED_H_
#define SLM_CHAT_ISOLATED_H_

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "chat/template.h"

namespace slm::chat {

struct IsolationLimits {
  uint64_t address_space_bytes = uint64_t{1} << 30;  // beyond what the process holds when it forks
  uint64_t cpu_seconds = 20;
  uint64_t ir_bytes = uint64_t{64} << 20;
};

// Compiles in a child and loads the child's IR here, with all checks of Template::Load. The child cannot open
// anything: its limit of open files is zero. Errors: those of Template::Compile; TPL-BOUND if the child died
// or used up a limit; OS if no process could be made. The caller's process is never harmed.
[[nodiscard]] Result<Template> CompileIsolated(std::string_view source, const IsolationLimits& limits = {});

}  // namespace slm::chat

#endif  // SLM_CHAT_ISOLATED_H_
