#include "acquire/weights_set.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "acquire/read_file.h"
#include "base/utf8.h"
#include "safetensors/shard_index.h"

namespace slm::acquire {
namespace {

const StreamedFile* FindFile(const std::vector<StreamedFile>& files, std::string_view path) {
  for (const StreamedFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

std::vector<const StreamedFile*> Shards(const std::vector<StreamedFile>& files) {
  std::vector<const StreamedFile*> shards;
  for (const StreamedFile& file : files) {
    if (file.kind == "weights" && file.path != kSingleWeights) shards.push_back(&file);
  }
  return shards;
}

Declaration WholeFile(std::string_view path) {
  return {std::string(path), "", 0, ""};
}

// A fault of the shards as a receipt: where it lies, and the other side of the contradiction.
Conflict FromShardError(const Error& error) {
  const bool in_index = error.file.empty();
  Conflict conflict{error.code, error.field, {}, error.message, false};
  conflict.declarations.push_back(
      {in_index ? std::string(kWeightsIndex) : error.file, "", error.byte_offset.value_or(0), error.field});
  if (!in_index) conflict.declarations.push_back(WholeFile(kWeightsIndex));
  return conflict;
}

// Bytes of one tensor in its blob, block by block.
class TensorReader {
 public:
  static Result<TensorReader> Open(const Store& store, const PlacedTensor& placed) {
    SLM_ASSIGN(const std::string path, store.BlobPath(placed.file->blob));
    TensorReader reader;
    reader.path_ = path;
    reader.file_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!reader.file_.valid()) return Fail(SystemError(errno, "open", path));
    reader.at_ = placed.file->header->data_offset + placed.tensor->begin;
    reader.left_ = placed.tensor->end - placed.tensor->begin;
    return reader;
  }
  // Empty at the end.
  Result<ByteSpan> Next() {
    block_.resize(static_cast<size_t>(std::min<uint64_t>(kStreamBlockBytes, left_)));
    for (size_t filled = 0; filled < block_.size();) {
      const ssize_t got = pread(file_.get(), block_.data() + filled, block_.size() - filled,
                                static_cast<off_t>(at_ + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return Fail(SystemError(got < 0 ? errno : EIO, "read", path_));
      filled += static_cast<size_t>(got);
    }
    at_ += block_.size();
    left_ -= block_.size();
    return ByteSpan(block_);
  }

 private:
  std::string path_;
  FileDescriptor file_;
  uint64_t at_ = 0;
  uint64_t left_ = 0;
  Bytes block_;
};

Result<bool> SameTensor(const Store& store, const PlacedTensor& a, const PlacedTensor& b) {
  if (a.tensor->shape != b.tensor->shape || a.tensor->dtype != b.tensor->dtype) return false;
  SLM_ASSIGN(TensorReader first, TensorReader::Open(store, a));
  SLM_ASSIGN(TensorReader second, TensorReader::Open(store, b));
  for (;;) {
    SLM_ASSIGN(const ByteSpan x, first.Next());
    SLM_ASSIGN(const ByteSpan y, second.Next());
    if (!std::ranges::equal(x, y)) return false;
    if (x.empty()) return true;
  }
}

}  // namespace

std::optional<Conflict> FindWeightsConflict(const std::vector<StreamedFile>& files) {
  const StreamedFile* single = FindFile(files, kSingleWeights);
  if (single == nullptr) return std::nullopt;
  if (FindFile(files, kWeightsIndex) != nullptr) {
    return Conflict{ErrorCode::kIxConflict,
                    "weights",
                    {WholeFile(kWeightsIndex), WholeFile(kSingleWeights)},
                    "a single file and an index stand side by side",
                    true};
  }
  const auto shards = Shards(files);
  if (shards.empty()) return std::nullopt;
  return Conflict{ErrorCode::kIxConflict,
                  "weights",
                  {WholeFile(shards[0]->path), WholeFile(kSingleWeights)},
                  "shards without an index stand beside a single file",
                  false};
}

Result<WeightsSet> SelectWeights(const std::vector<StreamedFile>& files, bool use_single,
                                 const Profile& profile, std::vector<std::string>* flags) {
  WeightsSet set;
  const StreamedFile* single = FindFile(files, kSingleWeights);
  const StreamedFile* index_file = FindFile(files, kWeightsIndex);
  const std::vector<const StreamedFile*> shards = Shards(files);
  if (single != nullptr && (use_single || index_file == nullptr)) {
    set.files.push_back(single);
    return set;
  }
  if (index_file == nullptr) {
    std::vector<std::string> names;
    for (const StreamedFile* shard : shards) names.push_back(shard->path);
    if (Status status = safetensors::CheckShardNumbers(names); !status) {
      set.problem = FromShardError(status.error());
      set.problem->declarations = {WholeFile(names[0])};
      return set;
    }
    const std::string_view missing = names.empty() ? kSingleWeights : kWeightsIndex;
    return Fail(MakeError(ErrorCode::kAcqMissing, "the source has no " + std::string(missing))
                    .In(missing)
                    .Field(missing));
  }
  auto index = safetensors::ParseShardIndex(index_file->text, profile.safetensors);
  if (!index) return Fail(std::move(index).error().In(kWeightsIndex));
  std::vector<safetensors::ShardHeader> headers;
  for (const StreamedFile* shard : shards) headers.push_back({shard->path, &*shard->header});
  if (Status status = safetensors::CheckShards(*index, headers, flags); !status) {
    set.problem = FromShardError(status.error());
    return set;
  }
  set.files = shards;
  return set;
}

Result<std::optional<Conflict>> FindTiedConflict(const Store& store, const SourceView& view,
                                                 const Profile& profile, std::vector<std::string>* flags) {
  const auto tied = view.config->Find("tie_word_embeddings");
  if (!tied || !tied->is_bool() || !tied->boolean()) return std::nullopt;
  const PlacedTensor embedding = FindTensor(view, profile.embedding_tensors);
  const PlacedTensor output = FindTensor(view, profile.output_tensors);
  if (embedding.tensor == nullptr || output.tensor == nullptr) return std::nullopt;
  SLM_ASSIGN(const bool same, SameTensor(store, embedding, output));
  if (same) {
    flags->push_back("tied tensors: " + EscapeForDisplay(output.tensor->name) + " repeats " +
                     EscapeForDisplay(embedding.tensor->name) + " bit for bit");
    return std::nullopt;
  }
  const auto declare = [](const PlacedTensor& placed, bool can_hold = true) {
    return Declaration{placed.file->path, placed.tensor->name, placed.tensor->header_offset,
                       placed.tensor->dtype, can_hold};
  };
  return Conflict{ErrorCode::kCfgTied,
                  "tie_word_embeddings",
                  {Declare("config.json", *tied), declare(output), declare(embedding, false)},
                  "tie_word_embeddings is true, but a separate output tensor holds other values",
                  true};
}

}  // namespace slm::acquire
