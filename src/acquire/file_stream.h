// One source file into the store in a single read: hashed, written to staging, and, for
// safetensors, validated before the store may publish it (ACQ-04, ACQ-05, ACQ-06, ST-020, ST-021).
// Memory: blocks of 1 MiB, one read and a few that wait to be hashed by a thread beside this one; the header
// of a safetensors file; the text of small files.
#ifndef SLM_ACQUIRE_FILE_STREAM_H_
#define SLM_ACQUIRE_FILE_STREAM_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "acquire/source_tree.h"
#include "base/bytes.h"
#include "base/error.h"
#include "safetensors/header.h"
#include "safetensors/tensor_scanner.h"
#include "store/store.h"

namespace slm::acquire {

inline constexpr uint64_t kStreamBlockBytes = uint64_t{1} << 20;

struct StreamedFile {
  std::string path;
  std::string kind;
  uint64_t size = 0;
  Hash256 blob{};
  std::optional<safetensors::Header> header;  // kind "weights"
  std::vector<safetensors::Census> census;    // one for each tensor of the header
  std::string text;                           // of the kinds that are parsed
};

// True for kinds whose text the acquisition reads.
[[nodiscard]] bool IsParsedKind(std::string_view kind);

// `on_bytes` hears the number of bytes of each block. Errors: LFS-UNRESOLVED, ST-*, ACQ-CHANGED,
// ACQ-KIND, ACQ-LIMIT, those of the store; `file` is the path inside the tree.
[[nodiscard]] Result<StreamedFile> StreamFile(Store& store, const FileDescriptor& root,
                                              const TreeEntry& entry, const Profile& profile,
                                              const std::function<void(uint64_t)>& on_bytes);

// The same facts of a file that is in the store already, for judging an acquisition again; `blob` and `size`
// are what the node says, and the bytes are held against them. Errors: FSCK-HASH, and those of StreamFile
// that concern bytes.
[[nodiscard]] Result<StreamedFile> StreamStored(const Store& store, const std::string& path,
                                                const std::string& kind, const Hash256& blob, uint64_t size,
                                                const Profile& profile);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_FILE_STREAM_H_
