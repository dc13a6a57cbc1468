// The manifest of a .slm file: closed schema v1 (docs/spec/slm.md, "Manifest").
//
// Decoding checks the form and every rule that needs no data bytes: placement of the blobs, sizes
// against shape and layout, aliases, lineage. Values are plain data.
#ifndef SLM_SLM_FILE_MANIFEST_H_
#define SLM_SLM_FILE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "slm_file/artifact.h"
#include "slm_file/file_header.h"

namespace slm {

inline constexpr std::string_view kManifestSchema = "slm.manifest.v1";
inline constexpr std::string_view kTensorBlobKind = "tensor";

struct Manifest {
  cbor::Map map;
  std::vector<BlobEntry> blobs;      // text blobs only; offsets absolute
  std::vector<BlobEntry> regions;    // every blob, tensors included, in order of offset
  std::vector<TensorEntry> tensors;  // sorted by name
};

// Errors: SLM-MANIFEST-P0/<code> with the byte offset, SLM-SCHEMA/<code> with the field, SLM-FEATURE,
// SLM-EXT, SLM-RANGE, SLM-ALIGN, SLM-BLOB-OVERLAP, SLM-LAYOUT, SLM-TENSOR-SIZE, SLM-ALIAS, SLM-DUP,
// SLM-LINEAGE, SLM-BLOB-ORPHAN, each at the item's byte offset in the file.
[[nodiscard]] Result<Manifest> DecodeManifest(ByteSpan bytes, const FileHeader& header);

// `error` of a check of the manifest's values: SCHEMA-* goes under SLM-SCHEMA, and the byte offset
// becomes that of the item that `error.field` names ("tensors[3].layer"), in the file.
[[nodiscard]] Error ManifestError(Error error, ByteSpan manifest);

// Bytes of a tensor as stored. Nothing on overflow or for an impossible shape.
[[nodiscard]] std::optional<uint64_t> StoredSize(const std::vector<uint64_t>& shape, Layout layout,
                                                 DType dtype);

}  // namespace slm

#endif  // SLM_SLM_FILE_MANIFEST_H_
