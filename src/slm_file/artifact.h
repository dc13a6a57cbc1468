// The .slm file, version 1: one content-addressed artifact (docs/spec/slm.md).
//
// A 192-byte header, a manifest in deterministic CBOR, a table of SHA-256 over 1 MiB chunks, and the
// data region: text blobs first, then tensors in execution order. Reading checks every rule of the
// specification before a byte is handed out; the code and the byte offset of a refusal are contract.
//
// An Artifact is immutable. It owns its bytes or the mapping of its file; spans it hands out are
// valid as long as it lives. Any thread may read.
#ifndef SLM_SLM_FILE_ARTIFACT_H_
#define SLM_SLM_FILE_ARTIFACT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"

namespace slm {

enum class DType : uint8_t { kF32, kBf16, kF16 };
enum class Layout : uint8_t {
  kRowMajor,
  // Rows in groups of 16, interleaved for each k: element (row, k) of a matrix with `cols` columns
  // stands at index (row / 16) * 16 * cols + k * 16 + row % 16. The last group is filled with zeros.
  kRows16,
};

inline constexpr uint64_t kRowsPerGroup = 16;

[[nodiscard]] inline constexpr uint64_t DTypeSize(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}
[[nodiscard]] std::string_view DTypeName(DType dtype);     // "f32", "bf16", "f16"
[[nodiscard]] std::string_view LayoutName(Layout layout);  // "row-major", "rows16"
[[nodiscard]] std::optional<DType> DTypeFromName(std::string_view name);
[[nodiscard]] std::optional<Layout> LayoutFromName(std::string_view name);

// Shape as it stands in the file: [groups, cols, 16] for a rows16 matrix, else unchanged. Nothing if
// a rows16 shape is not a matrix, or if a dimension is 0 or the number of elements exceeds 2^56.
[[nodiscard]] std::optional<std::vector<uint64_t>> PhysicalShape(const std::vector<uint64_t>& shape,
                                                                 Layout layout);

// One tensor of the artifact. `name` is the destination name (docs/spec/slm.md lists them),
// e.g. "layers.3.attn.q.weight"; for an alias, offset, size and hash are those of its target.
struct TensorEntry {
  std::string name;
  std::string role;                // e.g. "attn.q.weight"
  std::optional<uint32_t> layer;   // absent for embedding, final norm, head
  std::vector<uint64_t> shape;     // logical
  std::vector<uint64_t> physical;  // as stored
  Layout layout = Layout::kRowMajor;
  DType dtype = DType::kF32;
  uint64_t offset = 0;  // absolute, in the file
  uint64_t size = 0;    // bytes, without alignment padding
  Hash256 sha256{};
  std::optional<size_t> alias_of;  // index into Artifact::tensors()
};

// One blob of text or compiled data.
struct BlobEntry {
  std::string kind;  // "tokenizer-json", "template-source", "template-ir", "license", ...
  uint64_t offset = 0;
  uint64_t size = 0;
  Hash256 sha256{};
};

// How much of the file is read while opening.
enum class Verify : uint8_t {
  kAllChunks,   // every byte: chunk and blob hashes, zero padding, zero fill of the last row group
  kHeaderOnly,  // header, manifest, chunk table, and the zeros between them; data is hashed when first used
};

// Read access to the bytes of an artifact, kept alive by it (owned buffer, file mapping).
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  [[nodiscard]] virtual ByteSpan bytes() const = 0;
};

class Artifact {
 public:
  // Maps the file read-only. Native only (mapped_file.cc).
  [[nodiscard]] static Result<std::shared_ptr<const Artifact>> OpenFile(const std::string& path,
                                                                        Verify verify);
  [[nodiscard]] static Result<std::shared_ptr<const Artifact>> FromBytes(Bytes bytes, Verify verify);
  [[nodiscard]] static Result<std::shared_ptr<const Artifact>> FromSource(std::unique_ptr<ByteSource> source,
                                                                          Verify verify);
  // Of the first EndOfTexts() bytes of a file, or more of them: what reads texts needs no tensor's bytes.
  // Header, manifest, chunk table and zeros between them are checked as by kHeaderOnly. manifest(), config(),
  // blobs(), Find() and Blob() answer as of the whole file; REQUIRES: nothing asks for a tensor's bytes, or a
  // chunk. Errors: those of FromSource, SLM-SIZE where the last text is cut off.
  [[nodiscard]] static Result<std::shared_ptr<const Artifact>> FromTexts(Bytes bytes);
  virtual ~Artifact() = default;

  // SHA-256("slm-artifact-v1\n" || the 192 header bytes): fixes every byte of the file.
  [[nodiscard]] virtual const Hash256& root() const = 0;
  [[nodiscard]] virtual const cbor::Map& manifest() const = 0;
  // manifest().config: read it with model/effective_config.h's ConfigFromCbor.
  [[nodiscard]] virtual const cbor::Map& config() const = 0;
  [[nodiscard]] virtual const std::vector<TensorEntry>& tensors() const = 0;       // sorted by name
  [[nodiscard]] virtual const std::vector<BlobEntry>& blobs() const = 0;           // in order of offset
  [[nodiscard]] virtual const TensorEntry* Find(std::string_view name) const = 0;  // null if absent
  // Not verified: after kHeaderOnly, call VerifyTensor before the first use.
  [[nodiscard]] virtual ByteSpan TensorBytes(const TensorEntry& entry) const = 0;
  // Hashes the chunks that hold the tensor, each once in the life of this object, so that no byte
  // outside the hashed set is used. Error SLM-CHUNK, with the tensor's name in `field`. Any thread.
  [[nodiscard]] virtual Status VerifyTensor(const TensorEntry& entry) const = 0;
  // Bytes that equal the manifest's hash. Errors NOT-FOUND (field = kind) if the artifact has no such
  // blob, SLM-BLOB-HASH.
  [[nodiscard]] virtual Result<ByteSpan> Blob(std::string_view kind) const = 0;
  [[nodiscard]] virtual ByteSpan file() const = 0;  // the whole file
  [[nodiscard]] virtual uint64_t data_offset() const = 0;
  [[nodiscard]] virtual uint64_t n_chunks() const = 0;
  // Compares one chunk with the table, and remembers that it agrees. `sha256`: its hash where the caller has
  // computed it; null: it is computed here. Error SLM-CHUNK as VerifyAll. REQUIRES: chunk < n_chunks().
  [[nodiscard]] virtual Status CheckChunk(uint64_t chunk, const Hash256* sha256) const = 0;
  // What kAllChunks checks: SLM-CHUNK, SLM-BLOB-HASH, SLM-PAD, each with the byte offset in the file
  // and the chunk, blob or tensor in `field`.
  [[nodiscard]] virtual Status VerifyAll() const = 0;
};

// One past the last byte of the last blob that is no tensor, in the file: texts stand first.
[[nodiscard]] uint64_t EndOfTexts(const Artifact& artifact);

}  // namespace slm

#endif  // SLM_SLM_FILE_ARTIFACT_H_
