// The operating system's files (Linux: renameat2, flock).
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "store/vfs.h"

namespace slm::store {
namespace {

// The text of an error number; unlike strerror's it does not depend on the locale.
std::string TextOf(int error_number) {
  const char* text = strerrordesc_np(error_number);
  return text != nullptr ? text : "error " + std::to_string(error_number);
}

Error SystemError(std::string_view what, const std::string& path, int error_number) {
  const ErrorCode code = error_number == ENOSPC || error_number == EDQUOT ? ErrorCode::kDiskFull
                         : error_number == ENOENT                         ? ErrorCode::kNotFound
                                                                          : ErrorCode::kIo;
  return MakeError(code, "cannot " + std::string(what) + ": " + TextOf(error_number)).In(path);
}

// Where something is to be made, an absent folder is a fault of the environment, not of the input.
Error WriteError(std::string_view what, const std::string& path, int error_number) {
  Error error = SystemError(what, path, error_number);
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kIo;
  return error;
}

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Retry(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

class PosixReadFile : public ReadFile {
 public:
  PosixReadFile(int fd, std::string path, uint64_t size) : fd_(fd), path_(std::move(path)), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> ReadAt(uint64_t offset, std::span<uint8_t> out) override {
    size_t n_read = 0;
    while (n_read < out.size()) {
      const ssize_t n = Retry([&] {
        return pread(fd_.get(), out.data() + n_read, out.size() - n_read,
                     static_cast<off_t>(offset + n_read));
      });
      if (n < 0) return Fail(SystemError("read", path_, errno));
      if (n == 0) break;
      n_read += static_cast<size_t>(n);
    }
    return n_read;
  }

 private:
  Descriptor fd_;
  std::string path_;
  uint64_t size_;
};

class PosixWriteFile : public WriteFile {
 public:
  PosixWriteFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Result<size_t> Write(ByteSpan bytes) override {
    const ssize_t n = Retry([&] { return write(fd_.get(), bytes.data(), bytes.size()); });
    if (n < 0) return Fail(SystemError("write", path_, errno));
    if (n == 0 && !bytes.empty()) return Fail(SystemError("write", path_, ENOSPC));
    StartWriteback(static_cast<uint64_t>(n));
    return static_cast<size_t>(n);
  }
  Status MakeReadOnly() override {
    if (fchmod(fd_.get(), 0444) != 0) return Fail(SystemError("change the mode of", path_, errno));
    return {};
  }
  Status Sync() override {
    if (Retry([&] { return fsync(fd_.get()); }) != 0) return Fail(SystemError("fsync", path_, errno));
    return {};
  }

 private:
  // Has the disk begin while more comes, so that Sync is short. A hint: it waits for nothing, and an error of
  // the disk stays for fsync to report.
  void StartWriteback(uint64_t n_written) {
    constexpr uint64_t kStep = uint64_t{4} << 20;
    n_waiting_ += n_written;
    if (n_waiting_ < kStep) return;
    n_waiting_ = 0;
    static_cast<void>(sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
  }

  Descriptor fd_;
  std::string path_;
  uint64_t n_waiting_ = 0;  // bytes since the disk was last asked to begin
};

class PosixLock : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}

 private:
  Descriptor fd_;
};

class Posix : public Vfs {
 public:
  Result<FileInfo> Stat(const std::string& path) override {
    struct stat status;
    if (lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return FileInfo{};
      return Fail(SystemError("look at", path, errno));
    }
    FileInfo info;
    info.kind = S_ISREG(status.st_mode)   ? FileKind::kFile
                : S_ISDIR(status.st_mode) ? FileKind::kDirectory
                                          : FileKind::kOther;
    info.size = static_cast<uint64_t>(status.st_size);
    info.is_writable = (status.st_mode & 0222) != 0;
    return info;
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    DIR* stream = opendir(directory.c_str());
    if (stream == nullptr) return Fail(SystemError("list", directory, errno));
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(stream)) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
        names.emplace_back(entry->d_name);
      }
      errno = 0;
    }
    const int error_number = errno;
    closedir(stream);
    if (error_number != 0) return Fail(SystemError("list", directory, error_number));
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) override {
    // O_NONBLOCK: a pipe in a file's place must not hang the program.
    const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
    if (fd < 0) return Fail(SystemError("open", path, errno));
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(fd);
      return Fail(MakeError(ErrorCode::kIo, "not a regular file").In(path));
    }
    return std::make_unique<PosixReadFile>(fd, path, static_cast<uint64_t>(status.st_size));
  }

  Result<std::unique_ptr<WriteFile>> CreateNew(const std::string& path) override {
    const int fd =
        Retry([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600); });
    if (fd < 0 && errno == EEXIST) return nullptr;
    if (fd < 0) return Fail(WriteError("create", path, errno));
    auto file = std::make_unique<PosixWriteFile>(fd, path);
    // Marks the file as in use, see IsInUse. Waits for whoever looks at it just now. Where the file system
    // has no locks, repair could take a live file away; its writer then fails at Publish and publishes
    // nothing.
    static_cast<void>(Retry([&] { return flock(fd, LOCK_EX); }));
    struct stat status;
    if (fstat(fd, &status) == 0 && status.st_nlink == 0) return nullptr;  // removed before it was held
    return file;
  }

  Result<std::unique_ptr<WriteFile>> OpenAppend(const std::string& path) override {
    const int fd = Retry(
        [&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644); });
    if (fd < 0) return Fail(WriteError("open", path, errno));
    return std::make_unique<PosixWriteFile>(fd, path);
  }

  Result<bool> IsInUse(const std::string& path) override {
    const Descriptor fd(
        Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); }));
    if (fd.get() < 0) {
      if (errno == ENOENT) return false;
      return Fail(SystemError("open", path, errno));
    }
    return flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
  }

  Result<bool> RemoveUnlessInUse(const std::string& path) override {
    const Descriptor fd(
        Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); }));
    if (fd.get() < 0) {
      if (errno == ENOENT) return true;
      return Fail(SystemError("open", path, errno));
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
    SLM_TRY(Remove(path));  // still locked
    return true;
  }

  Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return {};
    if (errno != EEXIST) return Fail(WriteError("make the directory", path, errno));
    struct stat status;
    if (lstat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
      return Fail(MakeError(ErrorCode::kIo, "not a directory, and no link is followed").In(path));
    }
    return {};
  }

  Result<bool> Publish(const std::string& from, const std::string& to) override {
    constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE
    if (syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), kNoReplace) == 0) return true;
    if (errno == EEXIST) return false;
    if (errno != EINVAL && errno != ENOSYS) return Fail(WriteError("publish", to, errno));
    // A file system without that flag: a hard link does not replace either.
    if (link(from.c_str(), to.c_str()) != 0) {
      if (errno == EEXIST) return false;
      return Fail(WriteError("publish", to, errno));
    }
    if (unlink(from.c_str()) != 0) return Fail(SystemError("remove", from, errno));
    return true;
  }

  Status Replace(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return Fail(WriteError("replace", to, errno));
    return {};
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return Fail(SystemError("remove", path, errno));
    return {};
  }

  Status Truncate(const std::string& path, uint64_t size) override {
    const Descriptor fd(Retry([&] { return open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW); }));
    if (fd.get() < 0) return Fail(SystemError("open", path, errno));
    if (Retry([&] { return ftruncate(fd.get(), static_cast<off_t>(size)); }) != 0) {
      return Fail(SystemError("truncate", path, errno));
    }
    if (Retry([&] { return fsync(fd.get()); }) != 0) return Fail(SystemError("fsync", path, errno));
    return {};
  }

  Status SyncDirectory(const std::string& path) override {
    const Descriptor fd(Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (fd.get() < 0) return Fail(SystemError("open", path, errno));
    if (Retry([&] { return fsync(fd.get()); }) != 0) return Fail(SystemError("fsync", path, errno));
    return {};
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    constexpr int kTries = 400;
    constexpr timespec kPause = {0, 25'000'000};  // 10 s in all; an append takes milliseconds
    const int fd = Retry([&] { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644); });
    if (fd < 0) return Fail(WriteError("open", path, errno));
    auto lock = std::make_unique<PosixLock>(fd);
    for (int i = 0; i < kTries; ++i) {
      if (Retry([&] { return flock(fd, LOCK_EX | LOCK_NB); }) == 0) return lock;
      if (errno != EWOULDBLOCK) return Fail(SystemError("lock", path, errno));
      nanosleep(&kPause, nullptr);
    }
    return Fail(
        MakeError(ErrorCode::kStoreLocked, "another process holds the store's lock; try again").In(path));
  }

  std::string UniqueTag() override {
    static std::atomic<uint64_t> counter{0};
    return std::to_string(getpid()) + "-" + std::to_string(counter++);
  }
};

}  // namespace

Vfs& PosixVfs() {
  static Posix posix;
  return posix;
}

}  // namespace slm::store
