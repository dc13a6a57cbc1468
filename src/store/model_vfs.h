// For tests: a file system in memory that records every operation, can fail at the n-th call,
// and can be rebuilt as a crash after any operation may leave it: file contents that were not
// synced absent, torn, zero-filled or whole, and names that were not synced there or not, each
// independently of the others.
#ifndef SLM_STORE_MODEL_VFS_H_
#define SLM_STORE_MODEL_VFS_H_

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/vfs.h"

namespace slm::store {

// What of the unsynced contents of one file survives.
enum class DataFate : uint8_t { kLost, kWhole, kHalf, kZeroes, kTorn512, kRandom };
// Which of the unsynced names of one directory survive.
enum class NameFate : uint8_t { kLost, kAll, kEven, kOdd, kRandom };

struct CrashFate {
  DataFate data;
  NameFate names;
  uint32_t seed;  // for kRandom
};

enum class Fault : uint8_t { kNone, kIo, kDiskFull };

class ModelVfs : public Vfs {
 public:
  ModelVfs();

  // --- faults and recording ---
  // The call with this number (from 0) fails; a write stores half of its bytes first.
  void FailAt(size_t call, Fault fault) {
    fail_at_ = call;
    fault_ = fault;
  }
  void WriteInPieces(size_t max_bytes) { max_write_bytes_ = max_bytes; }
  void IgnoreFileSyncs() { ignore_file_syncs_ = true; }
  void IgnoreDirectorySyncs() { ignore_directory_syncs_ = true; }
  [[nodiscard]] size_t n_calls() const { return n_calls_; }
  [[nodiscard]] bool has_failed() const { return has_failed_; }
  [[nodiscard]] size_t n_operations() const { return operations_.size(); }
  // The file system after a crash that follows the first `n_operations`.
  [[nodiscard]] std::unique_ptr<ModelVfs> AfterCrash(size_t n_operations, const CrashFate& fate) const;

  // --- tampering ---
  [[nodiscard]] Bytes& Contents(const std::string& path);  // REQUIRES: a file
  void AddFile(const std::string& path, Bytes contents);   // REQUIRES: its directory is there
  void SetWritable(const std::string& path) { At(path)->is_writable = true; }
  void MarkInUse(const std::string& path) { At(path)->is_in_use = true; }
  void HoldLock() { is_locked_ = true; }

  Result<FileInfo> Stat(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) override;
  Result<std::unique_ptr<WriteFile>> CreateNew(const std::string& path) override;
  Result<std::unique_ptr<WriteFile>> OpenAppend(const std::string& path) override;
  Result<bool> IsInUse(const std::string& path) override;
  Result<bool> RemoveUnlessInUse(const std::string& path) override;
  Status MakeDirectory(const std::string& path) override;
  Result<bool> Publish(const std::string& from, const std::string& to) override;
  Status Replace(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status Truncate(const std::string& path, uint64_t size) override;
  Status SyncDirectory(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
  std::string UniqueTag() override { return "t" + std::to_string(n_tags_++); }

 private:
  friend class ModelReadFile;
  friend class ModelWriteFile;
  struct Inode {
    bool is_directory = false;
    bool is_writable = true;
    bool is_in_use = false;
    Bytes data;
    std::map<std::string, size_t> entries;  // name to inode number
  };
  enum class Kind : uint8_t { kMakeInode, kWrite, kSyncFile, kTruncate, kAddName, kRemoveName, kSyncNames };
  struct Operation {
    Kind kind;
    size_t inode;       // the file, or the directory whose names change
    std::string name;   // kAddName, kRemoveName
    size_t target = 0;  // kAddName: inode; kTruncate: size; kMakeInode: 1 for a directory
    Bytes data;         // kWrite
  };
  struct Place {
    size_t directory;
    std::string name;
  };
  struct Replay;

  [[nodiscard]] Status Call(std::string_view what, const std::string& path);
  [[nodiscard]] std::optional<size_t> Find(const std::string& path) const;
  [[nodiscard]] std::optional<Place> PlaceOf(const std::string& path) const;
  [[nodiscard]] Inode* At(const std::string& path);
  void Do(Operation operation);
  size_t NewInode(bool is_directory);
  Status Rename(const std::string& from, const std::string& to);

  std::vector<Inode> inodes_;  // 0 is the root directory
  std::vector<Operation> operations_;
  size_t n_calls_ = 0;
  size_t fail_at_ = SIZE_MAX;
  Fault fault_ = Fault::kNone;
  bool has_failed_ = false;
  size_t max_write_bytes_ = SIZE_MAX;
  bool ignore_file_syncs_ = false;
  bool ignore_directory_syncs_ = false;
  bool is_locked_ = false;
  size_t n_tags_ = 0;
};

}  // namespace slm::store

#endif  // SLM_STORE_MODEL_VFS_H_
