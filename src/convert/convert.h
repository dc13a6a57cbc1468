// The converter: one pinned source in, one .slm artifact out (MAP-01, MAP-02, MAP-03, MAP-04).
//
// Every source tensor is accounted for in a ledger: stored, an alias, or omitted for a stated reason.
// Weights keep their dtype; matrices are laid out in rows16. Memory stays flat: weights are mapped
// and streamed, each once. The same source gives the same bytes. No clock, no host name.
#ifndef SLM_CONVERT_CONVERT_H_
#define SLM_CONVERT_CONVERT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "identity/node.h"
#include "model/effective_config.h"
#include "model/llama.h"
#include "slm_file/artifact.h"
#include "slm_file/output_file.h"

namespace slm::convert {

struct SourceFile {
  std::string path;  // exact bytes, as in the source tree
  uint64_t size = 0;
  Hash256 blob{};  // SHA-256 of the contents
};

// An acquired source. The caller fills it from an acquisition; conversion needs no store.
struct Source {
  std::string name, revision;
  Hash256 acquisition{};
  std::string spdx;
  std::vector<SourceFile> files;
  // Paths of the weights where a person chose between a single file and an index; empty: what is there.
  std::vector<std::string> weights;
  // Bytes of a file, kept alive by the result. Hashed again: weights beside the conversion, before the
  // artifact appears; everything else before use.
  std::function<Result<std::unique_ptr<ByteSource>>(const SourceFile&)> open;
};

// What a person chose where the source contradicts itself.
struct Choice {
  std::string code;      // "CFG-CONFLICT-EOS"
  std::string field;     // "eos_token_id"
  std::string ref;       // the declaration that holds: "config.json#$.eos_token_id"
  std::string conflict;  // hexadecimal id of the conflict
};

struct Options {
  // Each is honoured: the artifact holds the chosen declaration. Error: DECISION-BAD for one that cannot be.
  std::vector<Choice> choices;
  ConfigPolicy policy;                                             // what a person has decided
  std::function<void(uint64_t done, uint64_t total)> on_progress;  // bytes written; may be empty
};

struct ConvertResult {
  Hash256 root{};
  uint64_t file_size = 0;
  ConfigResult config;
  cbor::Map manifest;
  uint64_t n_stored = 0;  // tensors with bytes of their own
  uint64_t n_aliases = 0;
  uint64_t n_omitted = 0;  // source tensors left out, with a reason each
  Hash256 file_sha256{};
  // family-profile, effective-config, tensor-ledger, tokenizer, template and its analysis (if there is one),
  // artifact: children before parents. The artifact's children are the acquisition and the others, but for
  // the analysis, which is a node on the template (TPL-03).
  std::vector<Node> nodes;
  // Blobs that the nodes name and the acquisition does not hold: template source and IR.
  std::vector<Bytes> blobs;
  Hash256 artifact_node{};
};

// Writes the artifact to `out_path`. Errors: ACQ-MISSING, FSCK-HASH, ST-*, IX-*, CFG-*, MAP-*, TOK-*,
// TPL-*, NONFINITE, and those of writing; `file` is the source's path, `field` the key or tensor.
[[nodiscard]] Result<ConvertResult> Convert(const Source& source, const Options& options,
                                            const std::string& out_path);
// Into a file that the caller made and nothing was written to.
[[nodiscard]] Result<ConvertResult> Convert(const Source& source, const Options& options, OutputFile* out);

}  // namespace slm::convert

#endif  // SLM_CONVERT_CONVERT_H_
