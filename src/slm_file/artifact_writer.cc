#include "slm_file/artifact_writer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/side_thread.h"
#include "codec/sha256.h"
#include "slm_file/file_header.h"

namespace slm {
namespace {

// The data region: a chunk is filled while those before are hashed and written on a thread beside it.
class DataStream {
 public:
  DataStream(OutputFile* file, uint64_t data_offset) : file_(*file), data_offset_(data_offset) {
    for (Bytes& chunk : chunks_) chunk.reserve(kSlmChunkSize);
  }

  Status Append(ByteSpan bytes) {
    while (!bytes.empty()) {
      Bytes& chunk = chunks_[filling_];
      const size_t take = std::min<size_t>(bytes.size(), kSlmChunkSize - chunk.size());
      chunk.insert(chunk.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      position_ += take;
      if (chunk.size() == kSlmChunkSize) {
        SLM_TRY(HandOver());
      }
    }
    return {};
  }

  Status AppendZeros(uint64_t count) {
    const Bytes zeros(count);
    return Append(zeros);
  }

  Status Flush() {
    if (!chunks_[filling_].empty()) SLM_TRY(HandOver());
    return writer_.Wait();
  }

  [[nodiscard]] uint64_t position() const { return position_; }
  // REQUIRES: flushed.
  [[nodiscard]] const Bytes& table() const { return table_; }

 private:
  Status HandOver() {
    const Bytes& chunk = chunks_[filling_];
    const uint64_t offset = data_offset_ + position_ - chunk.size();
    SLM_TRY(writer_.Start([this, &chunk, offset] { return WriteChunk(chunk, offset); }));
    filling_ = (filling_ + 1) % chunks_.size();
    SLM_TRY(writer_.Wait(chunks_.size() - 1));
    chunks_[filling_].clear();
    return {};
  }

  Status WriteChunk(const Bytes& chunk, uint64_t offset) {
    const Hash256 hash = Sha256Of(chunk);
    table_.insert(table_.end(), hash.begin(), hash.end());
    SLM_TRY(file_.WriteAt(offset, chunk));
    file_.StartWriteback(offset, chunk.size());
    return {};
  }

  OutputFile& file_;
  uint64_t data_offset_;
  uint64_t position_ = 0;
  std::array<Bytes, 8> chunks_;  // all but the one being filled may be the writer's
  size_t filling_ = 0;
  Bytes table_;        // the writer's while it runs
  SideThread writer_;  // the last member, so that it ends before what it uses
};

// The whole file is read back and hashed while the disk takes it in.
Result<Hash256> SyncAndHashBack(OutputFile* file, uint64_t size) {
  Hash256 hash{};
  SideThread hasher;
  SLM_TRY(hasher.Start([&hash, file, size]() -> Status {
    SLM_ASSIGN(hash, file->HashBack(size));
    return {};
  }));
  SLM_TRY(file->Sync());
  SLM_TRY(hasher.Wait());
  return hash;
}

Status StreamBlob(const BlobSpec& spec, BlobEntry* entry, DataStream* stream,
                  const std::function<void(uint64_t)>& on_progress) {
  SLM_TRY(stream->AppendZeros(entry->offset - stream->position()));
  Sha256 hash;
  uint64_t size = 0;
  SLM_TRY(spec.write([&](ByteSpan bytes) -> Status {
    hash.Update(bytes);
    size += bytes.size();
    if (size > spec.size) return Fail(ErrorCode::kInternal, "a blob is longer than declared: " + spec.kind);
    SLM_TRY(stream->Append(bytes));
    on_progress(stream->position());
    return {};
  }));
  if (size != spec.size) return Fail(ErrorCode::kInternal, "a blob is shorter than declared: " + spec.kind);
  entry->sha256 = hash.Finish();
  return {};
}

}  // namespace

Result<WrittenArtifact> WriteArtifact(const std::string& path, const ArtifactSpec& spec) {
  SLM_ASSIGN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  return WriteArtifact(file.get(), spec);
}

Result<WrittenArtifact> WriteArtifact(OutputFile* file, const ArtifactSpec& spec) {
  WrittenArtifact result;
  uint64_t end = 0;
  for (const BlobSpec& blob : spec.blobs) {
    const std::optional<uint64_t> offset = CheckedAlignUp(end, kSlmBlobAlign);
    const std::optional<uint64_t> blob_end = offset ? CheckedAdd(*offset, blob.size) : std::nullopt;
    if (!blob_end) return Fail(ErrorCode::kLimit, "the data region is too large");
    result.blobs.push_back({blob.kind, *offset, blob.size, Hash256{}});
    end = *blob_end;
  }
  const uint64_t manifest_size = cbor::Encode(spec.manifest(result.blobs)).size();
  std::optional<FileHeader> header = PlaceRegions(manifest_size, end);
  if (!header) {
    return Fail(MakeError(ErrorCode::kLimit, "manifest above 16 MiB, or data region empty or too large")
                    .In(file->name()));
  }
  DataStream stream(file, header->data_offset);
  const std::function<void(uint64_t)> on_progress = [&](uint64_t done) {
    if (spec.on_progress) spec.on_progress(done, end);
  };
  for (size_t i = 0; i < spec.blobs.size(); ++i) {
    SLM_TRY(StreamBlob(spec.blobs[i], &result.blobs[i], &stream, on_progress));
  }
  SLM_TRY(stream.Flush());

  result.manifest = spec.manifest(result.blobs);
  const Bytes manifest = cbor::Encode(result.manifest);
  if (manifest.size() != manifest_size || stream.table().size() != header->table_size) {
    return Fail(ErrorCode::kInternal, "the manifest's size depends on the hashes");
  }
  header->manifest_sha256 = Sha256Of(manifest);
  header->table_sha256 = Sha256Of(stream.table());
  const std::array<uint8_t, kSlmHeaderSize> header_bytes = EncodeHeader(*header);
  Bytes front(header->data_offset);
  std::copy(header_bytes.begin(), header_bytes.end(), front.begin());
  std::copy(manifest.begin(), manifest.end(), front.begin() + static_cast<ptrdiff_t>(kSlmHeaderSize));
  std::copy(stream.table().begin(), stream.table().end(),
            front.begin() + static_cast<ptrdiff_t>(header->table_offset));
  SLM_TRY(file->WriteAt(0, front));
  SLM_ASSIGN(result.file_sha256, SyncAndHashBack(file, header->file_size));
  if (spec.before_publish) SLM_TRY(spec.before_publish());
  SLM_TRY(file->Publish());
  result.root = ArtifactRoot(header_bytes);
  result.file_size = header->file_size;
  return result;
}

}  // namespace slm
