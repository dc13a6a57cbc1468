// Writes a .slm file in one pass over the data (docs/spec/slm.md). Native only.
//
// Memory stays flat: blobs are streamed through a few buffers of one chunk, hashed on the way, and
// written in order by a second thread; manifest and header go in front at the end. The file appears under its
// name only when it is whole (output_file.h). The same specification gives the same bytes.
#ifndef SLM_SLM_FILE_ARTIFACT_WRITER_H_
#define SLM_SLM_FILE_ARTIFACT_WRITER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"
#include "slm_file/artifact.h"
#include "slm_file/output_file.h"

namespace slm {

// Receives the bytes of one blob, in order.
using BlobSink = std::function<Status(ByteSpan)>;

struct BlobSpec {
  std::string kind;
  uint64_t size = 0;
  // Hands exactly `size` bytes to the sink, in any pieces.
  std::function<Status(const BlobSink& sink)> write;
};

struct ArtifactSpec {
  std::vector<BlobSpec> blobs;  // in order of the data region
  // Manifest for these blobs; offsets relative to the data region. Called twice: before writing, with
  // zero hashes, to learn its size, and after. Its encoded size must not depend on the hashes.
  std::function<cbor::Map(std::span<const BlobEntry> blobs)> manifest;
  std::function<void(uint64_t done, uint64_t total)> on_progress;  // may be empty
  // Called when the file is whole and durable, before it appears under its name; an error keeps it from
  // appearing. May be empty.
  std::function<Status()> before_publish;
};

struct WrittenArtifact {
  Hash256 root{};
  uint64_t file_size = 0;
  Hash256 file_sha256{};         // of the whole file, read back
  std::vector<BlobEntry> blobs;  // offsets relative to the data region
  cbor::Map manifest;
};

// Errors: IO, DISK-FULL, LIMIT (manifest above 16 MiB), and those of the blobs' writers. On an error
// no file of this name is made or changed.
[[nodiscard]] Result<WrittenArtifact> WriteArtifact(const std::string& path, const ArtifactSpec& spec);
// Into a file that the caller made and nothing was written to.
[[nodiscard]] Result<WrittenArtifact> WriteArtifact(OutputFile* file, const ArtifactSpec& spec);

}  // namespace slm

#endif  // SLM_SLM_FILE_ARTIFACT_WRITER_H_
