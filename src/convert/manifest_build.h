// Builds the manifest of docs/spec/slm.md from ledger and configuration. Internal to src/convert.
#ifndef SLM_CONVERT_MANIFEST_BUILD_H_
#define SLM_CONVERT_MANIFEST_BUILD_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/cbor.h"
#include "convert/convert.h"
#include "convert/ledger.h"
#include "convert/weights.h"
#include "model/family_profile.h"

namespace slm::convert {

// `blobs`: text blobs first, then one tensor blob for each stored row of the ledger, in its order.
[[nodiscard]] cbor::Map BuildManifest(const Source& source, const SourceTree& tree,
                                      const FamilyProfile& profile, const ConfigResult& config,
                                      const Ledger& ledger, std::span<const BlobEntry> blobs);

// What was written, and the template if the source has one.
struct Outputs {
  Hash256 root{}, file_sha256{};
  uint64_t file_size = 0;
  const cbor::Map* manifest = nullptr;
  Hash256 tokenizer_blob{};  // of tokenizer.json
  std::string tokenizer_reference;
  std::optional<Hash256> template_source_blob, template_ir_blob;
  std::string template_report;  // chat::AnalysisJson
};

// Nodes for the identity graph; see ConvertResult::nodes.
[[nodiscard]] std::vector<Node> BuildNodes(const Source& source, const FamilyProfile& profile,
                                           const ConfigResult& config, const Outputs& outputs);

}  // namespace slm::convert

#endif  // SLM_CONVERT_MANIFEST_BUILD_H_
