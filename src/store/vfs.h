// The file operations that the store needs, and nothing else, behind an interface: the POSIX one
// is used by programs; tests use a model that loses what was not made durable, and one that
// fails at the n-th call.
//
// Durability as POSIX gives it: file contents last after Sync, names in a directory last after
// SyncDirectory. Errors: IO, DISK-FULL, NOT-FOUND, STORE-LOCKED. Thread-safe.
#ifndef SLM_STORE_VFS_H_
#define SLM_STORE_VFS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::store {

enum class FileKind : uint8_t { kNone, kFile, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kNone;
  uint64_t size = 0;
  bool is_writable = false;  // any write permission bit
};

class ReadFile {
 public:
  virtual ~ReadFile() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // Bytes read; fewer than asked for only at the end of the file.
  [[nodiscard]] virtual Result<size_t> ReadAt(uint64_t offset, std::span<uint8_t> out) = 0;
};

// Writes at the end. Closed by the destructor.
class WriteFile {
 public:
  virtual ~WriteFile() = default;
  // Bytes written: at least one, perhaps fewer than given.
  [[nodiscard]] virtual Result<size_t> Write(ByteSpan bytes) = 0;
  // No write permission for anybody (mode 0444).
  [[nodiscard]] virtual Status MakeReadOnly() = 0;
  // A failure is final: what the file holds afterwards is unknown.
  [[nodiscard]] virtual Status Sync() = 0;
};

// Held until destroyed.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Vfs {
 public:
  virtual ~Vfs() = default;
  // Does not follow symlinks. kNone if nothing is there.
  [[nodiscard]] virtual Result<FileInfo> Stat(const std::string& path) = 0;
  // Names in a directory, sorted, without "." and "..".
  [[nodiscard]] virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) = 0;
  // A new file, marked as in use until it is closed; null if the name is taken.
  [[nodiscard]] virtual Result<std::unique_ptr<WriteFile>> CreateNew(const std::string& path) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<WriteFile>> OpenAppend(const std::string& path) = 0;
  // True if a live process holds a file that CreateNew gave it.
  [[nodiscard]] virtual Result<bool> IsInUse(const std::string& path) = 0;
  // Removes the file, unless a live process holds it as above; false then. Nobody can come to hold it
  // between.
  [[nodiscard]] virtual Result<bool> RemoveUnlessInUse(const std::string& path) = 0;
  // No error if the directory is there already.
  [[nodiscard]] virtual Status MakeDirectory(const std::string& path) = 0;
  // Renames; false if `to` exists, which is never replaced.
  [[nodiscard]] virtual Result<bool> Publish(const std::string& from, const std::string& to) = 0;
  // Renames over `to`.
  [[nodiscard]] virtual Status Replace(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual Status Remove(const std::string& path) = 0;
  [[nodiscard]] virtual Status Truncate(const std::string& path, uint64_t size) = 0;  // and sync
  [[nodiscard]] virtual Status SyncDirectory(const std::string& path) = 0;
  // Waits a few seconds at most, then STORE-LOCKED. Creates the file if need be.
  [[nodiscard]] virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
  // A part of temporary names that no other live process uses.
  [[nodiscard]] virtual std::string UniqueTag() = 0;
};

// The operating system's files. Lives as long as the program.
[[nodiscard]] Vfs& PosixVfs();

// Writes all of `bytes`, however short single writes are.
[[nodiscard]] Status WriteAll(WriteFile& file, ByteSpan bytes);
// The whole file. Errors also: LIMIT if it is longer than `max_bytes`.
[[nodiscard]] Result<Bytes> ReadWholeFile(Vfs& vfs, const std::string& path, uint64_t max_bytes);
// Streams the file through SHA-256 with flat memory.
[[nodiscard]] Result<Hash256> HashFile(Vfs& vfs, const std::string& path);

}  // namespace slm::store

#endif  // SLM_STORE_VFS_H_
