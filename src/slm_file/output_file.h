// A file that a command writes. Native only.
//
// It appears under its name only when it is whole: a temporary file beside it, fsync, rename, fsync of
// the folder. A symbolic link is followed, so that the file it names is replaced and the link stays. A
// FIFO or character device is never replaced: the bytes are staged in the folder for temporary files and
// copied through when they are whole. A directory, block device or socket is refused. Permissions of a
// file that is replaced are kept. One thread.
//
// The temporary file is TARGET.partial-XXXXXX. Its writer holds a lock on it (flock), which ends with the
// process; the next writer of the same target removes those of its user that nobody holds, so a kill leaves
// nothing for good.
#ifndef SLM_SLM_FILE_OUTPUT_FILE_H_
#define SLM_SLM_FILE_OUTPUT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace slm {

class OutputFile {
 public:
  // Errors: IO, DISK-FULL with the path in `file` and the system's words in the message.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> Create(const std::string& path);
  // A file without a name in this folder, for what only this process reads: nobody else can find or remove
  // it, and it ends with the process, however that ends. Publish does nothing.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> CreateUnnamed(const std::string& folder);
  // Removes what was not published.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] Status WriteAt(uint64_t offset, ByteSpan bytes);
  // After what Append has written so far.
  [[nodiscard]] Status Append(ByteSpan bytes);
  // As the caller said it.
  [[nodiscard]] const std::string& name() const { return name_; }
  // Where this process can open what was written so far, while this object lives.
  [[nodiscard]] std::string ReadPath() const { return "/proc/self/fd/" + std::to_string(file_); }
  // SHA-256 of the first `size` bytes as the system gives them back.
  [[nodiscard]] Result<Hash256> HashBack(uint64_t size) const;
  // Asks the system to begin writing back, so that the fsync of Publish is short.
  void StartWriteback(uint64_t offset, uint64_t size) const;
  // Makes the bytes durable, where the target takes a file and nothing was written since the last Sync.
  [[nodiscard]] Status Sync();
  // Syncs, and makes the file visible. Once, at the end.
  [[nodiscard]] Status Publish();

 private:
  OutputFile() = default;
  [[nodiscard]] Status PublishByRename();
  [[nodiscard]] Status CopyThrough() const;

  std::string name_;       // as the caller said it, for messages
  std::string target_;     // with symbolic links followed
  std::string temporary_;  // empty where the staged bytes have no name
  bool through_ = false;   // target_ is a FIFO or character device
  bool unnamed_ = false;   // there is no target_
  bool published_ = false;
  bool synced_ = false;  // nothing was written since
  int file_ = -1;
  uint64_t appended_ = 0;
};

// All of `contents` in one call.
[[nodiscard]] Status WriteWholeFile(const std::string& path, std::string_view contents);

}  // namespace slm

#endif  // SLM_SLM_FILE_OUTPUT_FILE_H_
