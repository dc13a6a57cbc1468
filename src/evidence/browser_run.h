// Observations that a browser made (BKD-02): what the engine said of itself, the module's build, and the node
// that binds them to a container. The facts are the browser's own word; the container's arrays are what a
// comparison reads. Plain functions, any thread.
#ifndef SLM_EVIDENCE_BROWSER_RUN_H_
#define SLM_EVIDENCE_BROWSER_RUN_H_

#include <string>
#include <string_view>

#include "base/error.h"
#include "codec/cbor.h"
#include "evidence/build_nodes.h"
#include "evidence/objects.h"

namespace slm::evidence {

struct BrowserRun {
  RuntimeBuild build;  // of the WebAssembly modules
  Backend backend;     // "wasm-scalar@chromium", kernel "wasm-scalar"
  cbor::Map engine;    // "name", "version", "javascript", "user_agent", "features": {name: bool}
};

// {"build":
// {"executable_sha256","text_module_sha256","version","compiler","compiler_sha256","linker","linker_sha256","flags",
// "source_tree_sha256"}, "identity": what the package's identity() says}. Errors: JSON codes; CASE-SCHEMA
// with the member's path for one that is missing, unknown or of the wrong kind, or where the identity names
// another module or engine than the rest.
[[nodiscard]] Result<BrowserRun> ParseBrowserRun(std::string text);

// Writes the observation node, and the nodes and blobs below it, and returns its id. `artifact_node` is in
// `source`. Errors: SLM-ROOT, GRAPH-SCHEMA where the container was made with another artifact, backend or
// cases file; those of containers and cases.
[[nodiscard]] Result<Hash256> RecordBrowserRun(const ObjectSource& source, const ObjectSink& sink,
                                               const Hash256& artifact_node, std::string_view cases,
                                               ByteSpan container, const BrowserRun& run);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_BROWSER_RUN_H_
