#include "store/layout.h"

#include <algorithm>
#include <filesystem>

namespace slm::store {
namespace {

std::string ParentOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// A link in place of a directory would lead every write out of the store. What is absent is left to
// fsck, or to the first use.
Status CheckDirectories(Vfs& vfs, const Layout& layout) {
  for (const std::string& directory : layout.Directories()) {
    SLM_ASSIGN(const FileInfo info, vfs.Stat(directory));
    if (info.kind == FileKind::kDirectory || info.kind == FileKind::kNone) continue;
    return Fail(
        MakeError(ErrorCode::kFsckLayout, "not a directory; no link in a store is followed").In(directory));
  }
  return {};
}

}  // namespace

std::string WithoutSlashes(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  return directory;
}

std::string FollowLink(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_symlink(WithoutSlashes(directory), error)) return directory;
  const std::filesystem::path target = std::filesystem::canonical(directory, error);
  return error ? directory : target.string();
}

std::string Layout::Sharded(const std::string& directory, const Hash256& hash) {
  const std::string hex = ToHex(hash);
  return directory + "/" + hex.substr(0, 2) + "/" + hex;
}

std::vector<std::string> Layout::Directories() const {
  return {root, root + "/objects", Objects(), Nodes(), LogDirectory(), Refs(), Staging()};
}

std::optional<std::vector<std::string_view>> Layout::NamesIn(const std::string& directory) const {
  using Names = std::vector<std::string_view>;
  if (directory == root) return Names{"version", "objects", "nodes", "log", "refs", "staging", "lock"};
  if (directory == root + "/objects") return Names{"sha256"};
  if (directory == LogDirectory()) return Names{"000001.slog"};
  if (directory == Refs()) return Names{"head"};
  return std::nullopt;
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
    if (AsText(text) != kVersionText) {
      return Fail(
          MakeError(ErrorCode::kStoreVersion, "this program reads slm-store-v1 only").In(layout.Version()));
    }
    SLM_TRY(CheckDirectories(vfs, layout));
    return true;
  }
  if (version.kind != FileKind::kNone)
    return Fail(MakeError(ErrorCode::kStoreVersion, "not a file").In(layout.Version()));
  // A crash while the store was made leaves some of these names and no version.
  const auto known = layout.NamesIn(layout.root);
  SLM_ASSIGN(const std::vector<std::string> names, vfs.List(layout.root));
  for (const std::string& name : names) {
    if (std::find(known->begin(), known->end(), name) != known->end()) continue;
    return Fail(MakeError(ErrorCode::kStoreVersion,
                          "a directory that holds other files; name an empty one with --store")
                    .In(layout.root + "/" + name));
  }
  SLM_TRY(CheckDirectories(vfs, layout));
  SLM_ASSIGN(const bool has_content, HasContent(vfs, layout));
  if (!has_content) return false;
  // Another process may have made the store since the look above.
  SLM_ASSIGN(const FileInfo now, vfs.Stat(layout.Version()));
  if (now.kind != FileKind::kNone) return CheckVersion(vfs, layout);
  return Fail(
      MakeError(ErrorCode::kFsckLayout, "the version file is lost; `slm fsck --repair` writes it anew")
          .In(layout.Version()));
}

Result<bool> HasContent(Vfs& vfs, const Layout& layout) {
  for (const std::string& file : {layout.Log(), layout.Head()}) {
    SLM_ASSIGN(const FileInfo info, vfs.Stat(file));
    if (info.kind != FileKind::kNone) return true;
  }
  for (const std::string& directory : {layout.Objects(), layout.Nodes()}) {
    SLM_ASSIGN(const FileInfo info, vfs.Stat(directory));
    if (info.kind != FileKind::kDirectory) continue;
    SLM_ASSIGN(const std::vector<std::string> names, vfs.List(directory));
    if (!names.empty()) return true;
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

}  // namespace slm::store
