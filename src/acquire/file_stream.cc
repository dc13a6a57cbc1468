#include "acquire/file_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "acquire/lfs_pointer.h"
#include "codec/sha256.h"

namespace slm::acquire {
namespace {

constexpr std::array<std::string_view, 12> kParsedKinds = {
    "config",       "generation-config", "tokenizer",          "tokenizer-config", "special-tokens-map",
    "added-tokens", "chat-template",     "chat-template-json", "weights-index",    "model-card",
    "license-text", "processor-config"};
constexpr std::string_view kNamedTemplate = "named-template";
constexpr std::string_view kWeights = "weights";

// Validates a safetensors file as its bytes go by.
class WeightsReader {
 public:
  WeightsReader(uint64_t file_size, const safetensors::Limits& limits)
      : file_size_(file_size), limits_(limits) {}

  Status Append(ByteSpan bytes) {
    if (scanner_) return scanner_->Append(bytes);
    head_.insert(head_.end(), bytes.begin(), bytes.end());
    if (head_.size() < 8 && head_.size() < file_size_) return {};
    SLM_ASSIGN(const uint64_t header_end, safetensors::HeaderEnd(head_, file_size_, limits_));
    if (head_.size() < header_end) return {};
    SLM_ASSIGN(safetensors::Header header, safetensors::ParseHeader(head_, file_size_, limits_));
    scanner_.emplace(header);
    header_ = std::move(header);
    const Bytes head = std::move(head_);
    head_.clear();
    return scanner_->Append(head);
  }
  // The end of the file; an empty one is refused here.
  Status Finish(StreamedFile* file) {
    if (!scanner_) SLM_TRY(safetensors::HeaderEnd(head_, file_size_, limits_));
    file->census = scanner_->census();
    file->header = std::move(header_);
    return {};
  }

 private:
  uint64_t file_size_;
  const safetensors::Limits& limits_;
  Bytes head_;  // until the header is whole
  std::optional<safetensors::Header> header_;
  std::optional<safetensors::TensorScanner> scanner_;
};

Error Changed(std::string_view kind, const std::string& path) {
  return MakeError(kind == kWeights ? ErrorCode::kSt021 : ErrorCode::kAcqChanged,
                   "the file changed while it was read; run the acquisition again when nothing writes to it")
      .In(path);
}

Status RefusePointer(ByteSpan whole_file, const std::string& path) {
  if (!LooksLikeLfsPointer(whole_file)) return {};
  const auto pointer = ParseLfsPointer(whole_file);
  const std::string what =
      pointer ? "sha256 " + ToHex(pointer->oid) + ", " + std::to_string(pointer->size) + " bytes"
              : "not canonical: " + pointer.error().message;
  return Fail(MakeError(ErrorCode::kLfsUnresolved, "a Git LFS pointer stands where data was expected (" +
                                                       what + "); fetch it with git lfs pull")
                  .At(0)
                  .In(path)
                  .Field(path));
}

// Reads up to a whole block; fewer bytes only at the end of the file.
Result<size_t> ReadBlock(const FileDescriptor& file, Bytes* block, const std::string& path) {
  size_t filled = 0;
  while (filled < block->size()) {
    const ssize_t got = read(file.get(), block->data() + filled, block->size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(SystemError(errno, "read", path));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

// What happens to the bytes of one file beside being looked at.
struct ByteSink {
  std::function<Status(ByteSpan block, bool is_whole_file)> take;
  std::function<Status()> at_end;  // before the weights are judged
  Error (*other_size)(std::string_view kind, const std::string& path);
};

// One read of a file of `file->size` bytes, in blocks; text and weights go into `file`. Errors do not carry
// the path yet.
Status ReadInto(const FileDescriptor& source, const Profile& profile, const ByteSink& sink,
                StreamedFile* file) {
  const bool keep_text = IsParsedKind(file->kind);
  if (keep_text && file->size > profile.limits.max_text_bytes) {
    return Fail(MakeError(ErrorCode::kAcqLimit, "a file that must be parsed is larger than " +
                                                    std::to_string(profile.limits.max_text_bytes) + " bytes")
                    .Field(file->path));
  }
  WeightsReader weights(file->size, profile.safetensors);
  Bytes block(kStreamBlockBytes);
  uint64_t n_read = 0;
  for (bool is_first = true;; is_first = false) {
    SLM_ASSIGN(const size_t got, ReadBlock(source, &block, file->path));
    const ByteSpan bytes = ByteSpan(block).first(got);
    n_read += got;
    if (n_read > file->size) return Fail(sink.other_size(file->kind, file->path));
    SLM_TRY(sink.take(bytes, is_first && got < block.size()));
    if (file->kind == kWeights && got != 0) SLM_TRY(weights.Append(bytes));
    if (keep_text) file->text.append(AsText(bytes));
    if (got < block.size()) break;
  }
  if (n_read != file->size) return Fail(sink.other_size(file->kind, file->path));
  SLM_TRY(sink.at_end());
  return file->kind == kWeights ? weights.Finish(file) : Status{};
}

Error UnlikeItsNode(std::string_view, const std::string&) {
  return MakeError(ErrorCode::kFsckHash, "the file has another size or hash than its node says");
}

}  // namespace

bool IsParsedKind(std::string_view kind) {
  return kind == kNamedTemplate ||
         std::find(kParsedKinds.begin(), kParsedKinds.end(), kind) != kParsedKinds.end();
}

Result<StreamedFile> StreamFile(Store& store, const FileDescriptor& root, const TreeEntry& entry,
                                const Profile& profile, const std::function<void(uint64_t)>& on_bytes) {
  SLM_ASSIGN(const FileDescriptor source, OpenEntry(root, entry));
  SLM_ASSIGN(const FileIdentity before, IdentityOf(source, entry.path));
  if (before != entry.identity) return Fail(Changed(entry.kind, entry.path));
  (void)posix_fadvise(source.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // a hint; no result depends on it
  StreamedFile file;
  file.path = entry.path;
  file.kind = entry.kind;
  file.size = entry.identity.size;
  SLM_ASSIGN(const std::unique_ptr<Store::BlobWriter> writer, store.NewBlob());
  const ByteSink sink{.take = [&](ByteSpan block, bool is_whole_file) -> Status {
                        if (is_whole_file) SLM_TRY(RefusePointer(block, entry.path));
                        SLM_TRY(writer->Append(block));
                        if (on_bytes) on_bytes(block.size());
                        return {};
                      },
                      .at_end = [&]() -> Status {
                        SLM_ASSIGN(const FileIdentity after, IdentityOf(source, entry.path));
                        if (after != entry.identity) return Fail(Changed(entry.kind, entry.path));
                        return {};
                      },
                      .other_size = Changed};
  if (Status status = ReadInto(source, profile, sink, &file); !status)
    return Fail(std::move(status).error().In(entry.path));
  SLM_ASSIGN(file.blob, writer->Commit());
  return file;
}

Result<StreamedFile> StreamStored(const Store& store, const std::string& path, const std::string& kind,
                                  const Hash256& blob, uint64_t size, const Profile& profile) {
  StreamedFile file;
  file.path = path;
  file.kind = kind;
  file.size = size;
  file.blob = blob;
  SLM_ASSIGN(const std::string stored, store.BlobPath(blob));
  const FileDescriptor source(open(stored.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid()) return Fail(SystemError(errno, "open", stored));
  Sha256 hash;
  const ByteSink sink{.take = [&](ByteSpan block, bool) -> Status {
                        hash.Update(block);
                        return {};
                      },
                      .at_end = [&]() -> Status {
                        if (hash.Finish() != blob) return Fail(UnlikeItsNode(kind, path));
                        return {};
                      },
                      .other_size = UnlikeItsNode};
  if (Status status = ReadInto(source, profile, sink, &file); !status)
    return Fail(std::move(status).error().In(path));
  return file;
}

}  // namespace slm::acquire
