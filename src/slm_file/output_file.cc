#include "slm_file/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "codec/sha256.h"

namespace slm {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr std::string_view kPartialMark = ".partial-";
constexpr std::string_view kTemplateTail = "XXXXXX";  // mkostemp puts letters and digits in its place
constexpr mode_t kDefaultMode = 0666;                 // the process's umask takes its part away

// errno, in the words of the system.
std::unexpected<Error> SystemFault(const std::string& path, std::string_view what) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT;
  return Fail(
      MakeError(full ? ErrorCode::kDiskFull : ErrorCode::kIo, std::string(what) + ": " + std::strerror(code))
          .In(path));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// What the path names once its links are followed; a link that dangles names the file to be made.
Result<std::string> FollowLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as Linux has it
  std::string at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    struct stat info{};
    if (lstat(at.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return at;
    // Links of /proc name pipes and deleted files by texts that are no paths; the kernel follows those.
    if (stat(at.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return at;
    std::string link(4096, '\0');
    const ssize_t size = readlink(at.c_str(), link.data(), link.size());
    if (size < 0) return SystemFault(path, "cannot follow the link");
    link.resize(static_cast<size_t>(size));
    at = link.starts_with('/') ? link : FolderOf(at) + (FolderOf(at).ends_with('/') ? "" : "/") + link;
  }
  errno = ELOOP;
  return SystemFault(path, "cannot follow the link");
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Removes one temporary file if it is a regular file of this user that no process writes. Whoever writes one
// holds a lock on it, and the kernel drops the lock with the process, however that ends.
void RemoveIfAbandoned(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat opened{};
  struct stat named{};
  // Published between listing and locking: the name is gone, or is another file's.
  const bool abandoned = fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
                         flock(file, LOCK_EX | LOCK_NB) == 0 && lstat(path.c_str(), &named) == 0 &&
                         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  if (abandoned) unlink(path.c_str());
  close(file);
}

// What killed writers of `target` left beside it. A folder that cannot be listed keeps what it has.
void RemoveAbandoned(const std::string& target) {
  const std::string folder = FolderOf(target);
  const size_t slash = target.rfind('/');
  const std::string prefix =
      target.substr(slash == std::string::npos ? 0 : slash + 1) + std::string(kPartialMark);
  DIR* const listing = opendir(folder.c_str());
  if (listing == nullptr) return;
  for (const dirent* entry = readdir(listing); entry != nullptr; entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.size() == prefix.size() + kTemplateTail.size() && name.starts_with(prefix) &&
        std::all_of(name.begin() + static_cast<ptrdiff_t>(prefix.size()), name.end(), IsAlphanumeric)) {
      RemoveIfAbandoned((folder == "." ? "" : folder) + name);
    }
  }
  closedir(listing);
}

// A new temporary file from mkostemp's pattern, held by its lock; -1 with errno.
int CreateHeld(const std::string& pattern, std::string* path) {
  for (;;) {
    *path = pattern;
    const int file = mkostemp(path->data(), O_CLOEXEC);
    if (file < 0) return -1;
    // A file system without locks gives none to whoever would remove the file either.
    while (flock(file, LOCK_EX) != 0 && errno == EINTR) {
    }
    struct stat info{};
    if (fstat(file, &info) != 0 || info.st_nlink != 0) return file;
    close(file);  // taken for abandoned before it was held
  }
}

}  // namespace

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  std::unique_ptr<OutputFile> out(new OutputFile());
  out->name_ = path;
  SLM_ASSIGN(out->target_, FollowLinks(path));
  struct stat info{};
  const bool exists = stat(out->target_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return SystemFault(path, "cannot write here");
  if (exists && S_ISDIR(info.st_mode)) {
    return Fail(MakeError(ErrorCode::kIo, "this is a directory; name a file in it").In(path));
  }
  out->through_ = exists && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
  if (exists && !out->through_ && !S_ISREG(info.st_mode)) {
    return Fail(
        MakeError(ErrorCode::kIo, "neither a file, a FIFO nor a character device; name a file").In(path));
  }
  std::string pattern = out->target_ + std::string(kPartialMark) + std::string(kTemplateTail);
  if (out->through_) {
    const char* folder = std::getenv("TMPDIR");
    pattern = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/slm-" +
              std::string(kTemplateTail);
  } else {
    RemoveAbandoned(out->target_);
  }
  std::string made;
  out->file_ = CreateHeld(pattern, &made);
  if (out->file_ < 0) return SystemFault(out->through_ ? pattern : path, "cannot create the file");
  if (out->through_) {
    unlink(made.c_str());
    return out;
  }
  out->temporary_ = made;
  const mode_t mask = umask(0);
  umask(mask);
  const mode_t mode = exists ? (info.st_mode & 07777U) : (kDefaultMode & ~mask);
  if (fchmod(out->file_, mode) != 0) return SystemFault(path, "cannot set the file's permissions");
  return out;
}

Result<std::unique_ptr<OutputFile>> OutputFile::CreateUnnamed(const std::string& folder) {
  std::unique_ptr<OutputFile> out(new OutputFile());
  out->name_ = folder;
  out->unnamed_ = true;
  std::string made;
  out->file_ = CreateHeld(folder + "/slm-" + std::string(kTemplateTail), &made);
  if (out->file_ < 0) return SystemFault(folder, "cannot create a file");
  unlink(made.c_str());
  return out;
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!published_ && !temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::WriteAt(uint64_t offset, ByteSpan bytes) {
  synced_ = false;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemFault(name_, "cannot write the file");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Status OutputFile::Append(ByteSpan bytes) {
  SLM_TRY(WriteAt(appended_, bytes));
  appended_ += bytes.size();
  return {};
}

Result<Hash256> OutputFile::HashBack(uint64_t size) const {
  Sha256 hash;
  Bytes buffer(kCopyBytes);
  for (uint64_t offset = 0; offset < size;) {
    const uint64_t wanted = std::min<uint64_t>(buffer.size(), size - offset);
    const ssize_t got = pread(file_, buffer.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0)
      return Fail(MakeError(ErrorCode::kIo, "the file became shorter while it was written").In(name_));
    if (got < 0) return SystemFault(name_, "cannot read the file back");
    hash.Update(ByteSpan(buffer).first(static_cast<size_t>(got)));
    offset += static_cast<uint64_t>(got);
  }
  return hash.Finish();
}

void OutputFile::StartWriteback(uint64_t offset, uint64_t size) const {
#ifdef __linux__
  sync_file_range(file_, static_cast<off64_t>(offset), static_cast<off64_t>(size), SYNC_FILE_RANGE_WRITE);
#endif
}

Status OutputFile::Publish() {
  if (!unnamed_) SLM_TRY(through_ ? CopyThrough() : PublishByRename());
  published_ = true;
  return {};
}

Status OutputFile::Sync() {
  if (through_ || unnamed_ || synced_) return {};  // staged bytes are not kept
  if (fsync(file_) != 0) return SystemFault(name_, "cannot write the file to disk");
  synced_ = true;
  return {};
}

Status OutputFile::PublishByRename() {
  SLM_TRY(Sync());
  if (rename(temporary_.c_str(), target_.c_str()) != 0)
    return SystemFault(name_, "cannot put the file in place");
  published_ = true;  // under its name from here on, whatever the folder's fsync says
  const int folder = open(FolderOf(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return SystemFault(name_, "cannot open its folder");
  Status status;
  if (fsync(folder) != 0) status = SystemFault(name_, "cannot write its folder to disk");
  close(folder);
  return status;
}

Status OutputFile::CopyThrough() const {
  const int sink = open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (sink < 0) return SystemFault(name_, "cannot open for writing");
  Bytes buffer(kCopyBytes);
  Status status;
  for (uint64_t offset = 0; status.has_value();) {
    const ssize_t got = pread(file_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = SystemFault(name_, "cannot read the staged bytes back");
    if (got <= 0) break;
    for (ssize_t done = 0; done < got && status.has_value();) {
      const ssize_t put = write(sink, buffer.data() + done, static_cast<size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) status = SystemFault(name_, "cannot write");
      if (put > 0) done += put;
    }
    offset += static_cast<uint64_t>(got);
  }
  if (close(sink) != 0 && status.has_value()) status = SystemFault(name_, "cannot write");
  return status;
}

Status WriteWholeFile(const std::string& path, std::string_view contents) {
  SLM_ASSIGN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  SLM_TRY(file->Append(AsBytes(contents)));
  return file->Publish();
}

}  // namespace slm
