#include "slm_file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace slm {
namespace {

Error FileError(ErrorCode code, const std::string& path, std::string message) {
  return MakeError(code, std::move(message)).In(path);
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK a FIFO without a writer would hold the program up.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // NOLINT(*-vararg)
  if (file < 0) {
    const int code = errno;
    const bool absent = code == ENOENT || code == ENOTDIR;
    return Fail(FileError(absent ? ErrorCode::kNotFound : ErrorCode::kIo, path,
                          std::string("cannot open: ") + std::strerror(code)));
  }
  struct stat info{};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    return Fail(FileError(ErrorCode::kUnsupported, path,
                          S_ISDIR(info.st_mode) ? "this is a directory, and a file is needed"
                                                : "not a regular file; it has to be mapped"));
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  ByteSpan bytes;
  if (size > 0) {
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping == MAP_FAILED) {
      close(file);
      return Fail(FileError(ErrorCode::kIo, path, "the file cannot be mapped"));
    }
    bytes = {static_cast<const uint8_t*>(mapping), size};
  }
  close(file);
  return std::unique_ptr<MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::AdviseSequential() const {
  if (!bytes_.empty()) madvise(const_cast<uint8_t*>(bytes_.data()), bytes_.size(), MADV_SEQUENTIAL);
}

Result<std::shared_ptr<const Artifact>> Artifact::OpenFile(const std::string& path, Verify verify) {
  auto file = MappedFile::Open(path);
  if (!file) {
    Error error = std::move(file).error();
    if (error.code == ErrorCode::kUnsupported)
      error.message += "; `slm convert` makes a .slm file of a source directory";
    return Fail(std::move(error));
  }
  Result<std::shared_ptr<const Artifact>> artifact = FromSource(*std::move(file), verify);
  if (!artifact) return Fail(std::move(artifact).error().In(path));
  return artifact;
}

}  // namespace slm
