// A source directory as a flat list of files, seen without following a single link (ACQ-02,
// ACQ-03; paths as ID-04). Nothing is opened for reading here. Native only (POSIX).
#ifndef SLM_ACQUIRE_SOURCE_TREE_H_
#define SLM_ACQUIRE_SOURCE_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acquire/profile.h"
#include "acquire/read_file.h"
#include "base/error.h"

namespace slm::acquire {

// What tells one state of a file from another (ST-021, ACQ-12).
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t mtime_seconds = 0;
  int64_t mtime_nanoseconds = 0;
  int64_t ctime_seconds = 0;
  int64_t ctime_nanoseconds = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct TreeEntry {
  std::string path;  // exact bytes, / between components
  std::string kind;  // from the profile's allow rule
  FileIdentity identity;
  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

struct SourceTree {
  std::vector<TreeEntry> entries;    // ascending by path bytes
  std::vector<std::string> ignored;  // "PATTERN: reason" of folders that were left out
  uint64_t total_bytes = 0;
};

// Rules of a path whatever its source. Errors: ACQ-PATH-UTF8 with the offset in the path, ACQ-PATH
// (empty, absolute, "." or "..", backslash, colon, control characters), ACQ-LIMIT (length, depth).
[[nodiscard]] Status CheckPath(std::string_view path, const TreeLimits& limits);

// What a file system that folds case, composes characters or drops trailing dots makes of a path:
// canonical decomposition (Unicode 9.0), ASCII letters in lower case, trailing dots and blanks of
// each component gone. Case of other scripts is not folded.
[[nodiscard]] std::string CollisionKey(std::string_view path);

// Error: ACQ-PATH-COLLISION naming both.
[[nodiscard]] Status CheckCollisions(const std::vector<std::string>& paths);

// Opens the directory itself; a link to a directory may name it.
[[nodiscard]] Result<FileDescriptor> OpenTree(const std::string& directory);

// Errors: ACQ-KIND, ACQ-FORBIDDEN, ACQ-PATH, ACQ-PATH-UTF8, ACQ-PATH-COLLISION, ACQ-LIMIT, IO.
// A folder with the identity `store` is the store that takes the source, and no part of it.
struct FolderIdentity {
  uint64_t device = 0, inode = 0;
};
[[nodiscard]] Result<SourceTree> ListTree(const FileDescriptor& root, const Profile& profile,
                                          const std::optional<FolderIdentity>& store = std::nullopt);
// Of a path; nothing where there is no folder.
[[nodiscard]] std::optional<FolderIdentity> FolderIdentityOf(const std::string& path);

// Opens a listed file for reading, following no link on the way. Errors: ACQ-KIND, ACQ-CHANGED, IO.
[[nodiscard]] Result<FileDescriptor> OpenEntry(const FileDescriptor& root, const TreeEntry& entry);

// Of an open file.
[[nodiscard]] Result<FileIdentity> IdentityOf(const FileDescriptor& file, std::string_view path);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_SOURCE_TREE_H_
