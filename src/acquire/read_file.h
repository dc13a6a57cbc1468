// Small files outside the source tree: profiles and statements that the caller named.
#ifndef SLM_ACQUIRE_READ_FILE_H_
#define SLM_ACQUIRE_READ_FILE_H_

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::acquire {

// The whole file. Errors: NOT-FOUND, IO, LIMIT.
[[nodiscard]] Result<Bytes> ReadSmallFile(const std::string& path, uint64_t max_bytes);

// An error for a failed system call on `path`, from errno: NOT-FOUND, DISK-FULL or IO.
[[nodiscard]] Error SystemError(int error_number, std::string_view action, std::string_view path);

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_READ_FILE_H_
