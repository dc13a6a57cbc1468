#include "slm_file/artifact_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "codec/sha256.h"
#include "slm_file/file_header.h"

namespace slm {
namespace {

// A temporary file beside its final name; removed unless it was published.
class OutputFile {
 public:
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path) {
    std::string temporary = path + ".partial";
    const int file = open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return Fail(MakeError(ErrorCode::kIo, "the file cannot be created").In(path));
    return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), file));
  }
  ~OutputFile() {
    if (file_ >= 0) close(file_);
    if (!published_) unlink(temporary_.c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status WriteAt(uint64_t offset, ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return IoError("cannot be written");
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return {};
  }

  // SHA-256 of the file as the system gives it back.
  Result<Hash256> HashBack(uint64_t size) {
    Sha256 hash;
    Bytes buffer(kSlmChunkSize);
    for (uint64_t offset = 0; offset < size;) {
      const ssize_t got = pread(file_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::unexpected(IoError("cannot be read back").error());
      hash.Update(ByteSpan(buffer).first(static_cast<size_t>(got)));
      offset += static_cast<uint64_t>(got);
    }
    return hash.Finish();
  }

  // Asks the system to begin writing back what was written, so that the final fsync is short.
  void StartWriteback(uint64_t offset, uint64_t size) {
#ifdef __linux__
    sync_file_range(file_, static_cast<off64_t>(offset), static_cast<off64_t>(size), SYNC_FILE_RANGE_WRITE);
#endif
  }

  Status Publish() {
    if (fsync(file_) != 0) return IoError("cannot be written to disk");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return IoError("cannot be renamed into place");
    published_ = true;
    const size_t slash = path_.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int handle = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return IoError("its directory cannot be opened");
    const int synced = fsync(handle);
    close(handle);
    return synced == 0 ? Status() : IoError("its directory cannot be written to disk");
  }

 private:
  OutputFile(std::string path, std::string temporary, int file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

  [[nodiscard]] Status IoError(const char* what) const {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return Fail(
        MakeError(full ? ErrorCode::kDiskFull : ErrorCode::kIo, std::string("the file ") + what).In(path_));
  }

  std::string path_, temporary_;
  int file_;
  bool published_ = false;
};

// The data region: one buffer of a chunk, hashed and written when full.
class DataStream {
 public:
  DataStream(OutputFile* file, uint64_t data_offset) : file_(*file), data_offset_(data_offset) {
    buffer_.reserve(kSlmChunkSize);
  }

  Status Append(ByteSpan bytes) {
    while (!bytes.empty()) {
      const size_t take = std::min<size_t>(bytes.size(), kSlmChunkSize - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      position_ += take;
      if (buffer_.size() == kSlmChunkSize) {
        SLM_TRY(Flush());
      }
    }
    return {};
  }

  Status AppendZeros(uint64_t count) {
    const Bytes zeros(count);
    return Append(zeros);
  }

  Status Flush() {
    if (buffer_.empty()) return {};
    const Hash256 hash = Sha256Of(buffer_);
    table_.insert(table_.end(), hash.begin(), hash.end());
    const uint64_t offset = data_offset_ + position_ - buffer_.size();
    SLM_TRY(file_.WriteAt(offset, buffer_));
    file_.StartWriteback(offset, buffer_.size());
    buffer_.clear();
    return {};
  }

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] const Bytes& table() const { return table_; }

 private:
  OutputFile& file_;
  uint64_t data_offset_;
  uint64_t position_ = 0;
  Bytes buffer_, table_;
};

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
    return Fail(
        MakeError(ErrorCode::kLimit, "manifest above 16 MiB, or data region empty or too large").In(path));
  }
  SLM_ASSIGN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  DataStream stream(file.get(), header->data_offset);
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
  SLM_ASSIGN(result.file_sha256, file->HashBack(header->file_size));
  SLM_TRY(file->Publish());
  result.root = ArtifactRoot(header_bytes);
  result.file_size = header->file_size;
  return result;
}

}  // namespace slm
