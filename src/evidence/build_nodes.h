// What made observations: the build that ran and the backend's profile, and their nodes. Plain data, any
// thread.
#ifndef SLM_EVIDENCE_BUILD_NODES_H_
#define SLM_EVIDENCE_BUILD_NODES_H_

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "identity/node.h"

namespace slm::evidence {

// BKD-03: what made the observations.
struct RuntimeBuild {
  Hash256 executable_sha256{};                  // the command, or the WebAssembly module that has the model
  std::optional<Hash256> text_module_sha256{};  // the one that has its tokenizer and template
  std::string version;
  std::string compiler, linker, flags;
  Hash256 compiler_sha256{}, linker_sha256{}, source_tree_sha256{};
};
struct Backend {
  std::string name = "native-scalar";
  std::string profile = "exact-v1";
  std::string kernel = "native-scalar";  // as the session names it
  uint64_t threads = 1;
};

// Nodes that a run or an observation needs on its own.
[[nodiscard]] Node RuntimeBuildNode(const RuntimeBuild& build);
[[nodiscard]] Node BackendNode(const Backend& backend);

// What such a node says. Errors: GRAPH-SCHEMA for a node that is not exactly the one these values make.
[[nodiscard]] Result<RuntimeBuild> RuntimeBuildOf(const Node& node);
[[nodiscard]] Result<Backend> BackendOf(const Node& node);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_BUILD_NODES_H_
