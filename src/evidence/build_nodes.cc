#include "evidence/build_nodes.h"

#include <utility>

namespace slm::evidence {
namespace {

Node MakeNode(std::string type, cbor::Map metadata) {
  Node node;
  node.type = std::move(type);
  node.metadata = std::move(metadata);
  return node;
}

}  // namespace

Node RuntimeBuildNode(const RuntimeBuild& build) {
  return MakeNode("runtime-build", {{"schema", "slm.runtime-build.v1"},
                                    {"executable_sha256", build.executable_sha256},
                                    {"version", build.version},
                                    {"compiler", build.compiler},
                                    {"compiler_sha256", build.compiler_sha256},
                                    {"linker", build.linker},
                                    {"linker_sha256", build.linker_sha256},
                                    {"flags", build.flags},
                                    {"source_tree_sha256", build.source_tree_sha256}});
}

Node BackendNode(const Backend& backend) {
  return MakeNode("backend-profile", {{"schema", "slm.backend-profile.v1"},
                                      {"name", backend.name},
                                      {"profile", backend.profile},
                                      {"kernel", backend.kernel},
                                      {"threads", backend.threads}});
}

}  // namespace slm::evidence
