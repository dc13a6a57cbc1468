#include "evidence/build_nodes.h"

#include <utility>

#include "evidence/receipt.h"

namespace slm::evidence {
namespace {

Node MakeNode(std::string type, cbor::Map metadata) {
  Node node;
  node.type = std::move(type);
  node.metadata = std::move(metadata);
  return node;
}

std::unexpected<Error> NoSuch(std::string_view type) {
  return Fail(MakeError(ErrorCode::kGraphSchema, "not a node of this type").Field(type));
}

}  // namespace

Node RuntimeBuildNode(const RuntimeBuild& build) {
  cbor::Map metadata = {{"schema", "slm.runtime-build.v1"},
                        {"executable_sha256", build.executable_sha256},
                        {"version", build.version},
                        {"compiler", build.compiler},
                        {"compiler_sha256", build.compiler_sha256},
                        {"linker", build.linker},
                        {"linker_sha256", build.linker_sha256},
                        {"flags", build.flags},
                        {"source_tree_sha256", build.source_tree_sha256}};
  if (build.text_module_sha256) metadata.Set("text_module_sha256", *build.text_module_sha256);
  return MakeNode("runtime-build", std::move(metadata));
}

Node BackendNode(const Backend& backend) {
  return MakeNode("backend-profile", {{"schema", "slm.backend-profile.v1"},
                                      {"name", backend.name},
                                      {"profile", backend.profile},
                                      {"kernel", backend.kernel},
                                      {"threads", backend.threads}});
}

Result<RuntimeBuild> RuntimeBuildOf(const Node& node) {
  RuntimeBuild build;
  build.executable_sha256 = HashOf(node, "executable_sha256");
  if (node.metadata.Find("text_module_sha256") != nullptr)
    build.text_module_sha256 = HashOf(node, "text_module_sha256");
  build.version = TextOf(node, "version");
  build.compiler = TextOf(node, "compiler");
  build.compiler_sha256 = HashOf(node, "compiler_sha256");
  build.linker = TextOf(node, "linker");
  build.linker_sha256 = HashOf(node, "linker_sha256");
  build.flags = TextOf(node, "flags");
  build.source_tree_sha256 = HashOf(node, "source_tree_sha256");
  if (NodeId(RuntimeBuildNode(build)) != NodeId(node)) return NoSuch("runtime-build");
  return build;
}

Result<Backend> BackendOf(const Node& node) {
  Backend backend;
  backend.name = TextOf(node, "name");
  backend.profile = TextOf(node, "profile");
  backend.kernel = TextOf(node, "kernel");
  const cbor::Value* threads = node.metadata.Find("threads");
  if (threads == nullptr || threads->AsUint() == nullptr) return NoSuch("backend-profile");
  backend.threads = *threads->AsUint();
  if (NodeId(BackendNode(backend)) != NodeId(node)) return NoSuch("backend-profile");
  return backend;
}

}  // namespace slm::evidence
