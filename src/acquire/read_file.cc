#include "acquire/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace slm::acquire {

Error SystemError(int error_number, std::string_view action, std::string_view path) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::kNotFound;
  if (error_number == EISDIR) code = ErrorCode::kUnsupported;
  if (error_number == ENOSPC) code = ErrorCode::kDiskFull;
  char text[128] = {};
  // The GNU form of strerror_r returns the text; the C locale is the program's.
  const char* reason = strerror_r(error_number, text, sizeof(text));
  return MakeError(code, "cannot " + std::string(action) + ": " + reason).In(path);
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

Result<Bytes> ReadSmallFile(const std::string& path, uint64_t max_bytes) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Fail(SystemError(errno, "open", path));
  Bytes contents;
  Bytes block(size_t{64} << 10);
  for (;;) {
    const ssize_t got = read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(SystemError(errno, "read", path));
    if (got == 0) return contents;
    contents.insert(contents.end(), block.begin(), block.begin() + got);
    if (contents.size() > max_bytes) {
      return Fail(
          MakeError(ErrorCode::kLimit, "the file is longer than " + std::to_string(max_bytes) + " bytes")
              .At(max_bytes)
              .In(path));
    }
  }
}

}  // namespace slm::acquire
