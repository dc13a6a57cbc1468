#include "store/layout.h"

#include <algorithm>

namespace slm::store {
namespace {

std::string ParentOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

void CollectBlob(const cbor::Value& value, std::vector<Hash256>* blobs) {
  const uint8_t* bytes = value.AsHash();
  if (bytes == nullptr) return;
  Hash256 hash;
  std::copy_n(bytes, hash.size(), hash.begin());
  blobs->push_back(hash);
}

// Recursion is bounded by the depth of CBOR.
void CollectBlobs(const cbor::Value& value, std::vector<Hash256>* blobs) {
  if (const cbor::Array* array = value.AsArray()) {
    for (const cbor::Value& element : *array) CollectBlobs(element, blobs);
  }
  const cbor::Map* map = value.AsMap();
  if (map == nullptr) return;
  for (const auto& [key, member] : *map) {
    if (key == "blob" || key.ends_with("_blob")) CollectBlob(member, blobs);
    const cbor::Array* array = member.AsArray();
    if (array != nullptr && (key == "blobs" || key.ends_with("_blobs"))) {
      for (const cbor::Value& element : *array) CollectBlob(element, blobs);
    }
    CollectBlobs(member, blobs);
  }
}

}  // namespace

std::string Layout::Sharded(const std::string& directory, const Hash256& hash) {
  const std::string hex = ToHex(hash);
  return directory + "/" + hex.substr(0, 2) + "/" + hex;
}

std::vector<std::string> Layout::Directories() const {
  return {root, root + "/objects", Objects(), Nodes(), LogDirectory(), Refs(), Staging()};
}

std::string Layout::Relative(const std::string& path) const {
  return path.starts_with(root + "/") ? path.substr(root.size() + 1) : path;
}

Result<bool> CheckVersion(Vfs& vfs, const Layout& layout) {
  SLM_ASSIGN(const FileInfo root, vfs.Stat(layout.root));
  if (root.kind == FileKind::kNone) return false;
  if (root.kind != FileKind::kDirectory) {
    return Fail(MakeError(ErrorCode::kStoreVersion, "not a directory").In(layout.root));
  }
  SLM_ASSIGN(const FileInfo version, vfs.Stat(layout.Version()));
  if (version.kind == FileKind::kFile) {
    SLM_ASSIGN(const Bytes text, ReadWholeFile(vfs, layout.Version(), 256));
    if (AsText(text) == kVersionText) return true;
    return Fail(
        MakeError(ErrorCode::kStoreVersion, "this program reads slm-store-v1 only").In(layout.Version()));
  }
  // A crash while the store was made leaves some of these names and no version.
  SLM_ASSIGN(const std::vector<std::string> names, vfs.List(layout.root));
  for (const std::string& name : names) {
    if (name != "objects" && name != "nodes" && name != "log" && name != "refs" && name != "staging" &&
        name != "lock") {
      return Fail(MakeError(ErrorCode::kStoreVersion,
                            "a directory that holds other files; name an empty one with --store")
                      .In(layout.root + "/" + name));
    }
  }
  return false;
}

Status CreateStore(Vfs& vfs, const Layout& layout) {
  for (const std::string& directory : layout.Directories()) SLM_TRY(vfs.MakeDirectory(directory));
  SLM_ASSIGN(const auto lock, vfs.Lock(layout.Lock()));
  SLM_ASSIGN(const bool is_there, CheckVersion(vfs, layout));
  if (is_there) return {};
  Publisher publisher(vfs, layout);
  for (const std::string& directory : layout.Directories()) SLM_TRY(publisher.SyncDirectory(directory));
  SLM_TRY(publisher.ReplaceFile(layout.Version(), AsBytes(kVersionText)));
  const size_t slash = layout.root.rfind('/');
  return publisher.SyncDirectory(
      slash == std::string::npos ? "." : layout.root.substr(0, std::max<size_t>(slash, 1)));
}

Status Publisher::CheckUsable() const {
  if (!sync_failed_) return {};
  return Fail(
      MakeError(ErrorCode::kIo, "an fsync failed before; start again, and run `slm fsck`").In(layout_.root));
}

Status Publisher::Remember(Status status) {
  if (!status.has_value()) sync_failed_ = true;
  return status;
}

Status Publisher::Sync(WriteFile& file) {
  SLM_TRY(CheckUsable());
  return Remember(file.Sync());
}

Status Publisher::SyncDirectory(const std::string& directory) {
  SLM_TRY(CheckUsable());
  return Remember(vfs_.SyncDirectory(directory));
}

Status Publisher::SyncParent(const std::string& path) {
  return SyncDirectory(ParentOf(path));
}

Status Publisher::Truncate(const std::string& path, uint64_t size) {
  SLM_TRY(CheckUsable());
  return Remember(vfs_.Truncate(path, size));
}

Result<std::unique_ptr<WriteFile>> Publisher::NewStagingFile(std::string* path) {
  SLM_TRY(CheckUsable());
  while (true) {
    *path = layout_.Staging() + "/" + vfs_.UniqueTag();
    SLM_ASSIGN(auto file, vfs_.CreateNew(*path));
    if (file != nullptr) return file;  // a name that a crashed process left is passed over
  }
}

Result<std::string> Publisher::StageWhole(ByteSpan bytes) {
  std::string path;
  SLM_ASSIGN(auto file, NewStagingFile(&path));
  Status status = WriteAll(*file, bytes);
  if (status.has_value()) status = file->MakeReadOnly();
  if (status.has_value()) status = Sync(*file);
  if (status.has_value()) return path;
  static_cast<void>(vfs_.Remove(path));  // garbage in staging is harmless; the first error counts
  return Fail(std::move(status).error());
}

Status Publisher::EnsureDirectory(const std::string& directory) {
  if (durable_directories_.contains(directory)) return {};
  SLM_TRY(vfs_.MakeDirectory(directory));
  SLM_TRY(SyncParent(directory));
  durable_directories_.insert(directory);
  return {};
}

Status Publisher::Publish(const std::string& staging_path, const std::string& to, const Hash256& hash) {
  SLM_TRY(CheckUsable());
  SLM_TRY(EnsureDirectory(ParentOf(to)));
  SLM_ASSIGN(const bool is_new, vfs_.Publish(staging_path, to));
  if (is_new) return {};
  SLM_ASSIGN(const Hash256 found, HashFile(vfs_, to));
  if (found != hash) {
    return Fail(MakeError(ErrorCode::kFsckHash,
                          "the object that is there is damaged; move it away by hand, nothing replaces it")
                    .In(to));
  }
  return vfs_.Remove(staging_path);
}

Status Publisher::ReplaceFile(const std::string& to, ByteSpan bytes) {
  SLM_ASSIGN(const std::string path, StageWhole(bytes));
  SLM_TRY(vfs_.Replace(path, to));
  return SyncParent(to);
}

std::vector<Hash256> BlobsOf(const slm::Node& node) {
  std::vector<Hash256> blobs;
  CollectBlobs(node.metadata, &blobs);
  return blobs;
}

}  // namespace slm::store
