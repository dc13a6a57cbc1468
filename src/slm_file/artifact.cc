#include "slm_file/artifact.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "codec/sha256.h"
#include "slm_file/file_header.h"
#include "slm_file/manifest.h"

namespace slm {
namespace {

class OwnedBytes : public ByteSource {
 public:
  explicit OwnedBytes(Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] ByteSpan bytes() const override { return bytes_; }

 private:
  Bytes bytes_;
};

// Offset of the first byte that is not zero, from `begin` on; nothing if all are.
std::optional<uint64_t> FirstNonzero(ByteSpan file, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; ++at) {
    if (file[at] != 0) return at;
  }
  return std::nullopt;
}

Status CheckZeros(ByteSpan file, uint64_t begin, uint64_t end, const std::string& field) {
  const std::optional<uint64_t> at = FirstNonzero(file, begin, end);
  if (!at) return {};
  return Fail(MakeError(ErrorCode::kSlmPad, field + ": padding that is not zero").At(*at).Field(field));
}

class MappedArtifact : public Artifact {
 public:
  MappedArtifact(std::unique_ptr<ByteSource> source, FileHeader header, Manifest manifest,
                 const cbor::Map* config)
      : source_(std::move(source)),
        header_(header),
        manifest_(std::move(manifest)),
        root_(ArtifactRoot(source_->bytes())),
        verified_(header.table_size / sizeof(Hash256)) {
    config_ = *config;
  }

  [[nodiscard]] const Hash256& root() const override { return root_; }
  [[nodiscard]] const cbor::Map& manifest() const override { return manifest_.map; }
  [[nodiscard]] const cbor::Map& config() const override { return config_; }
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const override { return manifest_.tensors; }
  [[nodiscard]] const std::vector<BlobEntry>& blobs() const override { return manifest_.blobs; }

  [[nodiscard]] const TensorEntry* Find(std::string_view name) const override {
    const auto found = std::lower_bound(
        manifest_.tensors.begin(), manifest_.tensors.end(), name,
        [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
    return found == manifest_.tensors.end() || found->name != name ? nullptr : &*found;
  }

  [[nodiscard]] ByteSpan TensorBytes(const TensorEntry& entry) const override {
    return file().subspan(entry.offset, entry.size);
  }

  [[nodiscard]] Result<ByteSpan> Blob(std::string_view kind) const override {
    for (const BlobEntry& blob : manifest_.blobs) {
      if (blob.kind != kind) continue;
      SLM_TRY(CheckHash(blob));
      return file().subspan(blob.offset, blob.size);
    }
    return Fail(
        MakeError(ErrorCode::kNotFound, "the artifact has no blob of kind " + std::string(kind)).Field(kind));
  }

  [[nodiscard]] ByteSpan file() const override { return source_->bytes(); }
  [[nodiscard]] uint64_t data_offset() const override { return header_.data_offset; }

  [[nodiscard]] Status VerifyTensor(const TensorEntry& entry) const override {
    const uint64_t end = entry.offset + entry.size - header_.data_offset;
    for (uint64_t chunk = (entry.offset - header_.data_offset) / kSlmChunkSize; chunk * kSlmChunkSize < end;
         ++chunk) {
      if (verified_[chunk].load(std::memory_order_relaxed)) continue;
      Status status = CheckChunk(chunk, nullptr);
      if (!status) return Fail(std::move(status).error().Field(entry.name));
    }
    return {};
  }

  [[nodiscard]] uint64_t n_chunks() const override { return verified_.size(); }

  [[nodiscard]] Status CheckChunk(uint64_t chunk, const Hash256* sha256) const override {
    const ByteSpan data = file().subspan(header_.data_offset, header_.data_size);
    const ByteSpan table = file().subspan(header_.table_offset, header_.table_size);
    const uint64_t begin = chunk * kSlmChunkSize;
    const uint64_t size = std::min<uint64_t>(kSlmChunkSize, data.size() - begin);
    const Hash256 hash = sha256 != nullptr ? *sha256 : Sha256Of(data.subspan(begin, size));
    if (std::equal(hash.begin(), hash.end(),
                   table.begin() + static_cast<ptrdiff_t>(sizeof(Hash256) * chunk))) {
      verified_[chunk].store(true, std::memory_order_relaxed);
      return {};
    }
    return Fail(MakeError(ErrorCode::kSlmChunk, "chunk " + std::to_string(chunk) + ", bytes " +
                                                    std::to_string(header_.data_offset + begin) + " to " +
                                                    std::to_string(header_.data_offset + begin + size - 1) +
                                                    ", differs from its hash")
                    .At(header_.data_offset + begin)
                    .Field("chunk " + std::to_string(chunk)));
  }

  [[nodiscard]] Status VerifyAll() const override {
    for (uint64_t chunk = 0; chunk < verified_.size(); ++chunk) {
      SLM_TRY(CheckChunk(chunk, nullptr));
    }
    uint64_t previous_end = header_.data_offset;
    for (const BlobEntry& blob : manifest_.regions) {
      SLM_TRY(CheckZeros(file(), previous_end, blob.offset, "data region"));
      previous_end = blob.offset + blob.size;
      SLM_TRY(CheckHash(blob));
    }
    for (const TensorEntry& entry : manifest_.tensors) {
      SLM_TRY(CheckFill(entry));
    }
    return {};
  }

 private:
  [[nodiscard]] std::string NameOf(const BlobEntry& blob) const {
    for (const TensorEntry& entry : manifest_.tensors) {
      if (entry.offset == blob.offset) return entry.name;
    }
    return blob.kind;
  }

  [[nodiscard]] Status CheckHash(const BlobEntry& blob) const {
    if (Sha256Of(file().subspan(blob.offset, blob.size)) == blob.sha256) return {};
    return Fail(
        MakeError(ErrorCode::kSlmBlobHash, "the hash of a blob (" + blob.kind + ") differs from the manifest")
            .At(blob.offset)
            .Field(NameOf(blob)));
  }

  // The lanes of the last group that hold no row are zero.
  [[nodiscard]] Status CheckFill(const TensorEntry& entry) const {
    if (entry.alias_of || entry.layout != Layout::kRows16 || entry.shape[0] % kRowsPerGroup == 0) return {};
    const uint64_t element = DTypeSize(entry.dtype);
    const uint64_t cols = entry.shape[1];
    const uint64_t used = entry.shape[0] % kRowsPerGroup;
    const uint64_t group_begin =
        entry.offset + (entry.shape[0] / kRowsPerGroup) * kRowsPerGroup * cols * element;
    for (uint64_t k = 0; k < cols; ++k) {
      const uint64_t lane_begin = group_begin + k * kRowsPerGroup * element;
      SLM_TRY(
          CheckZeros(file(), lane_begin + used * element, lane_begin + kRowsPerGroup * element, entry.name));
    }
    return {};
  }

  std::unique_ptr<ByteSource> source_;
  FileHeader header_;
  Manifest manifest_;
  cbor::Map config_;
  Hash256 root_;
  mutable std::vector<std::atomic<bool>>
      verified_;  // of each chunk; relaxed: a chunk hashed twice is no harm
};

// `file_size`: as the header has to say; the source may hold fewer bytes of it, from data_offset on.
Result<std::shared_ptr<const Artifact>> OpenHead(std::unique_ptr<ByteSource> source, uint64_t file_size) {
  const ByteSpan file = source->bytes();
  SLM_ASSIGN(const FileHeader header, DecodeHeader(file, file_size));
  if (file.size() < header.data_offset) {
    return Fail(MakeError(ErrorCode::kSlmSize, "the bytes end before the data region").At(file.size()));
  }
  const ByteSpan manifest_bytes = file.subspan(kSlmHeaderSize, header.manifest_size);
  if (Sha256Of(manifest_bytes) != header.manifest_sha256) {
    return Fail(
        MakeError(ErrorCode::kSlmManifest, "the manifest's hash differs from the header").At(kSlmHeaderSize));
  }
  if (Sha256Of(file.subspan(header.table_offset, header.table_size)) != header.table_sha256) {
    return Fail(MakeError(ErrorCode::kSlmTable, "the chunk table's hash differs from the header")
                    .At(header.table_offset));
  }
  SLM_TRY(CheckZeros(file, kSlmHeaderSize + header.manifest_size, header.table_offset, "manifest"));
  SLM_TRY(CheckZeros(file, header.table_offset + header.table_size, header.data_offset, "chunk table"));
  SLM_ASSIGN(Manifest manifest, DecodeManifest(manifest_bytes, header));
  const cbor::Map* config = manifest.map.Find("config")->AsMap();
  return std::make_shared<MappedArtifact>(std::move(source), header, std::move(manifest), config);
}

}  // namespace

Result<std::shared_ptr<const Artifact>> Artifact::FromBytes(Bytes bytes, Verify verify) {
  return FromSource(std::make_unique<OwnedBytes>(std::move(bytes)), verify);
}

Result<std::shared_ptr<const Artifact>> Artifact::FromSource(std::unique_ptr<ByteSource> source,
                                                             Verify verify) {
  const uint64_t file_size = source->bytes().size();
  SLM_ASSIGN(std::shared_ptr<const Artifact> artifact, OpenHead(std::move(source), file_size));
  if (verify == Verify::kAllChunks) {
    SLM_TRY(artifact->VerifyAll());
  }
  return artifact;
}

Result<std::shared_ptr<const Artifact>> Artifact::FromTexts(Bytes bytes) {
  // The header's own word for the size: its checksum covers it.
  const uint64_t file_size =
      bytes.size() < kSlmHeaderSize ? bytes.size() : LoadLe<uint64_t>(bytes.data() + 16);
  SLM_ASSIGN(std::shared_ptr<const Artifact> artifact,
             OpenHead(std::make_unique<OwnedBytes>(std::move(bytes)), file_size));
  if (artifact->file().size() < EndOfTexts(*artifact)) {
    return Fail(
        MakeError(ErrorCode::kSlmSize, "the bytes end before the last text").At(artifact->file().size()));
  }
  return artifact;
}

uint64_t EndOfTexts(const Artifact& artifact) {
  uint64_t end = artifact.data_offset();
  for (const BlobEntry& blob : artifact.blobs()) end = std::max(end, blob.offset + blob.size);
  return end;
}

}  // namespace slm
