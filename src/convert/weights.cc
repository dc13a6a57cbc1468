#include "convert/weights.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "codec/sha256.h"
#include "safetensors/header.h"
#include "safetensors/shard_index.h"

namespace slm::convert {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

Result<safetensors::Header> HeaderOf(SourceTree* tree, const std::string& path) {
  SLM_ASSIGN(const ByteSpan bytes, tree->Map(path));
  Result<safetensors::Header> header = safetensors::ParseHeader(bytes, bytes.size());
  if (!header) return Fail(std::move(header).error().In(path));
  return header;
}

Status AddFile(SourceTree* tree, const std::string& path, const safetensors::Header& header,
               Weights* weights) {
  SLM_ASSIGN(const ByteSpan bytes, tree->Map(path));
  std::vector<const safetensors::TensorInfo*> ordered;
  for (const safetensors::TensorInfo& info : header.tensors) ordered.push_back(&info);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return std::tie(a->begin, a->name) < std::tie(b->begin, b->name);
  });
  for (const safetensors::TensorInfo* info : ordered) {
    SourceTensor tensor;
    tensor.file = *tree->Index(path);
    tensor.name = info->name;
    tensor.dtype = info->dtype;
    tensor.shape = info->shape;
    tensor.begin = header.data_offset + info->begin;
    tensor.end = header.data_offset + info->end;
    tensor.bytes = bytes.subspan(tensor.begin, tensor.end - tensor.begin);
    if (!weights->first_dtype) weights->first_dtype = DTypeOfSafetensors(info->dtype);
    weights->tensors.emplace(info->name, std::move(tensor));
  }
  return {};
}

Status LoadShards(SourceTree* tree, Weights* weights) {
  SLM_ASSIGN(const ByteSpan text, tree->Read(kIndexFile));
  Result<safetensors::ShardIndex> index = safetensors::ParseShardIndex(std::string(AsText(text)));
  if (!index) return Fail(std::move(index).error().In(kIndexFile));
  std::vector<std::pair<std::string, safetensors::Header>> headers;
  for (const std::string& shard : index->Shards()) {
    if (!tree->Has(shard)) {
      return Fail(MakeError(ErrorCode::kIxMissing, "the index names a shard that is not in the tree")
                      .In(kIndexFile)
                      .Field(shard));
    }
    SLM_ASSIGN(safetensors::Header header, HeaderOf(tree, shard));
    headers.emplace_back(shard, std::move(header));
  }
  std::vector<safetensors::ShardHeader> views;
  for (const auto& [name, header] : headers) views.push_back({name, &header});
  std::vector<std::string> flags;
  Status checked = safetensors::CheckShards(*index, views, &flags);
  if (!checked) return Fail(std::move(checked).error().In(kIndexFile));
  for (const auto& [name, header] : headers) {
    SLM_TRY(AddFile(tree, name, header, weights));
  }
  return {};
}

}  // namespace

SourceTree::SourceTree(const Source& source) : source_(source), files_(source.files) {
  std::sort(files_.begin(), files_.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  open_.resize(files_.size());
  is_checked_.resize(files_.size());
}

std::optional<size_t> SourceTree::Index(std::string_view path) const {
  const auto found =
      std::lower_bound(files_.begin(), files_.end(), path,
                       [](const SourceFile& file, std::string_view wanted) { return file.path < wanted; });
  if (found == files_.end() || found->path != path) return std::nullopt;
  return static_cast<size_t>(found - files_.begin());
}

Result<size_t> SourceTree::Open(std::string_view path) {
  const std::optional<size_t> index = Index(path);
  if (!index) {
    return Fail(MakeError(ErrorCode::kAcqMissing, "the source has no file " + std::string(path)).Field(path));
  }
  if (open_[*index] == nullptr) {
    SLM_ASSIGN(open_[*index], source_.open(files_[*index]));
  }
  return *index;
}

Status SourceTree::CheckHash(size_t index) const {
  const SourceFile& file = files_[index];
  const ByteSpan bytes = open_[index]->bytes();
  if (bytes.size() == file.size && Sha256Of(bytes) == file.blob) return {};
  return Fail(MakeError(ErrorCode::kFsckHash, "the stored file differs from the acquisition's hash")
                  .In(file.path)
                  .Field(file.path));
}

Result<ByteSpan> SourceTree::Read(std::string_view path) {
  SLM_ASSIGN(const size_t index, Open(path));
  if (!is_checked_[index]) {
    SLM_TRY(CheckHash(index));
    is_checked_[index] = true;
  }
  return open_[index]->bytes();
}

Result<ByteSpan> SourceTree::Map(std::string_view path) {
  SLM_ASSIGN(const size_t index, Open(path));
  if (open_[index]->bytes().size() != files_[index].size) return Read(path);
  if (!is_checked_[index]) unchecked_.push_back(index);
  is_checked_[index] = true;
  return open_[index]->bytes();
}

Status SourceTree::StartChecks() {
  for (const size_t index : unchecked_) {
    SLM_TRY(checker_.Start([this, index] { return CheckHash(index); }));
  }
  unchecked_.clear();
  return {};
}

Status SourceTree::FinishChecks() {
  SLM_TRY(StartChecks());
  return checker_.Wait();
}

std::optional<DType> DTypeOfSafetensors(std::string_view dtype) {
  if (dtype == "F32") return DType::kF32;
  if (dtype == "BF16") return DType::kBf16;
  if (dtype == "F16") return DType::kF16;
  return std::nullopt;
}

Result<Weights> LoadWeights(SourceTree* tree, const std::vector<std::string>& chosen) {
  Weights weights;
  const bool single = chosen.size() == 1 && chosen.front() == kSingleFile;
  if (tree->Has(kIndexFile) && !single) {
    if (tree->Has(kSingleFile) && chosen.empty()) {
      return Fail(MakeError(ErrorCode::kIxConflict, "model.safetensors and an index stand side by side")
                      .In(kIndexFile)
                      .Field(kSingleFile));
    }
    SLM_TRY(LoadShards(tree, &weights));
    return weights;
  }
  const std::string path(kSingleFile);
  SLM_ASSIGN(const safetensors::Header header, HeaderOf(tree, path));
  SLM_TRY(AddFile(tree, path, header, &weights));
  return weights;
}

}  // namespace slm::convert
