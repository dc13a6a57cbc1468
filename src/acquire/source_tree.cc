#include "acquire/source_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/checked.h"

namespace slm::acquire {
namespace {

FileIdentity FromStat(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_dev),         static_cast<uint64_t>(info.st_ino),
          static_cast<uint64_t>(info.st_size),        static_cast<int64_t>(info.st_mtim.tv_sec),
          static_cast<int64_t>(info.st_mtim.tv_nsec), static_cast<int64_t>(info.st_ctim.tv_sec),
          static_cast<int64_t>(info.st_ctim.tv_nsec)};
}

std::string_view KindName(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

std::unexpected<Error> RefuseEntry(ErrorCode code, std::string_view path, std::string message) {
  const std::string display(path);
  return Fail(MakeError(code, std::move(message)).In(display).Field(display));
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// One walk over one tree.
class Walker {
 public:
  Walker(const Profile& profile, const std::optional<FolderIdentity>& store, SourceTree* tree)
      : profile_(profile), store_(store), tree_(tree) {}

  Status Walk(const FileDescriptor& folder, const std::string& prefix) {
    SLM_ASSIGN(const std::vector<std::string> names, Names(folder, prefix));
    for (const std::string& name : names) {
      const std::string path = prefix.empty() ? name : prefix + "/" + name;
      SLM_TRY(CheckPath(path, profile_.limits));
      if (++n_seen_ > 16 * profile_.limits.max_files) {
        return RefuseEntry(ErrorCode::kAcqLimit, path, "too many names in the tree");
      }
      struct stat info = {};
      if (fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return Fail(SystemError(errno, "look at the file", path));
      }
      if (S_ISDIR(info.st_mode) && store_ && info.st_dev == store_->device && info.st_ino == store_->inode) {
        continue;
      }
      if (S_ISDIR(info.st_mode)) {
        SLM_TRY(EnterFolder(folder, name, path));
      } else if (S_ISREG(info.st_mode)) {
        SLM_TRY(AddFile(path, info));
      } else {
        return RefuseEntry(
            ErrorCode::kAcqKind, path,
            "this is " + std::string(KindName(info.st_mode)) + ", not a file; " +
                (S_ISLNK(info.st_mode) ? "copy the source with links resolved (cp -rL)"
                                       : "a source holds files and folders only: leave it out"));
      }
    }
    return {};
  }

 private:
  static Result<std::vector<std::string>> Names(const FileDescriptor& folder, const std::string& prefix) {
    FileDescriptor copy(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!copy.valid()) return Fail(SystemError(errno, "open the folder", prefix));
    const std::unique_ptr<DIR, CloseDirectory> directory(fdopendir(copy.get()));
    if (directory == nullptr) return Fail(SystemError(errno, "read the folder", prefix));
    (void)copy.Release();  // closedir owns it now
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const struct dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return Fail(SystemError(errno, "read the folder", prefix));
    std::sort(names.begin(), names.end());
    return names;
  }

  Status EnterFolder(const FileDescriptor& folder, const std::string& name, const std::string& path) {
    if (const PathRule* rule = profile_.IgnoreRule(path)) {
      SLM_TRY(ScanIgnored(folder, name, path, 0));
      tree_->ignored.push_back(rule->pattern + ": " + rule->value);
      return {};
    }
    const FileDescriptor inner(
        openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner.valid()) return Fail(SystemError(errno, "open the folder", path));
    return Walk(inner, path);
  }

  // Nothing of an ignored folder is read, but no name in it may be one that is forbidden everywhere.
  Status ScanIgnored(const FileDescriptor& folder, const std::string& name, const std::string& path,
                     size_t depth) {
    constexpr size_t kMaxDepth = 64;
    constexpr uint64_t kMaxNames = uint64_t{1} << 20;
    const FileDescriptor inner(
        openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner.valid()) return Fail(SystemError(errno, "open the folder", path));
    SLM_ASSIGN(const std::vector<std::string> names, Names(inner, path));
    for (const std::string& one : names) {
      const std::string inner_path = path + "/" + one;
      if (depth == kMaxDepth || ++n_ignored_ > kMaxNames) {
        return RefuseEntry(ErrorCode::kAcqLimit, inner_path,
                           "too many names, or too deep, in an ignored folder");
      }
      struct stat info = {};
      if (fstatat(inner.get(), one.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return Fail(SystemError(errno, "look at the file", inner_path));
      }
      if (S_ISDIR(info.st_mode)) {
        SLM_TRY(ScanIgnored(inner, one, inner_path, depth + 1));
      } else {
        SLM_TRY(profile_.CheckIgnored(inner_path));
      }
    }
    return {};
  }

  Status AddFile(const std::string& path, const struct stat& info) {
    TreeEntry entry;
    entry.path = path;
    SLM_ASSIGN(entry.kind, profile_.KindOf(path));
    entry.identity = FromStat(info);
    const TreeLimits& limits = profile_.limits;
    if (tree_->entries.size() == limits.max_files) {
      return RefuseEntry(ErrorCode::kAcqLimit, path,
                         "more than " + std::to_string(limits.max_files) + " files");
    }
    if (entry.identity.size > limits.max_file_bytes) {
      return RefuseEntry(ErrorCode::kAcqLimit, path,
                         "the file is larger than " + std::to_string(limits.max_file_bytes) + " bytes");
    }
    const auto total = CheckedAdd(tree_->total_bytes, entry.identity.size);
    if (!total || *total > limits.max_total_bytes) {
      return RefuseEntry(ErrorCode::kAcqLimit, path,
                         "the tree is larger than " + std::to_string(limits.max_total_bytes) + " bytes");
    }
    tree_->total_bytes = *total;
    tree_->entries.push_back(std::move(entry));
    return {};
  }

  const Profile& profile_;
  const std::optional<FolderIdentity> store_;
  SourceTree* tree_;
  uint64_t n_seen_ = 0;
  uint64_t n_ignored_ = 0;
};

}  // namespace

Result<FileDescriptor> OpenTree(const std::string& directory) {
  FileDescriptor root(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return Fail(SystemError(errno, "open the directory", directory));
  return root;
}

std::optional<FolderIdentity> FolderIdentityOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  return FolderIdentity{static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
}

Result<SourceTree> ListTree(const FileDescriptor& root, const Profile& profile,
                            const std::optional<FolderIdentity>& store) {
  SourceTree tree;
  Walker walker(profile, store, &tree);
  SLM_TRY(walker.Walk(root, ""));
  std::sort(tree.entries.begin(), tree.entries.end(),
            [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
  std::vector<std::string> paths;
  for (const TreeEntry& entry : tree.entries) paths.push_back(entry.path);
  SLM_TRY(CheckCollisions(paths));
  return tree;
}

Result<FileDescriptor> OpenEntry(const FileDescriptor& root, const TreeEntry& entry) {
  FileDescriptor folder;
  int at = root.get();
  for (size_t begin = 0;;) {
    const size_t slash = entry.path.find('/', begin);
    const bool is_last = slash == std::string::npos;
    const std::string part = entry.path.substr(begin, is_last ? std::string::npos : slash - begin);
    // O_NONBLOCK: a pipe that took the file's place must not hang the program.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (is_last ? O_NONBLOCK : O_DIRECTORY);
    FileDescriptor next(openat(at, part.c_str(), flags));
    if (!next.valid()) {
      if (errno == ELOOP)
        return RefuseEntry(ErrorCode::kAcqKind, entry.path, "a symbolic link took the place of this file");
      if (errno == ENOENT || errno == ENOTDIR) {
        return RefuseEntry(ErrorCode::kAcqChanged, entry.path,
                           "the file went away during the transaction; run it again");
      }
      return Fail(SystemError(errno, "open the file", entry.path));
    }
    if (is_last) return next;
    folder = std::move(next);
    at = folder.get();
    begin = slash + 1;
  }
}

Result<FileIdentity> IdentityOf(const FileDescriptor& file, std::string_view path) {
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return Fail(SystemError(errno, "look at the file", path));
  if (!S_ISREG(info.st_mode)) return RefuseEntry(ErrorCode::kAcqKind, path, "this is not a file any more");
  return FromStat(info);
}

}  // namespace slm::acquire
