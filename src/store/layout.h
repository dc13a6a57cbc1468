// Where things lie in a store, and how a file gets its final name. Internal to store/.
#ifndef SLM_STORE_LAYOUT_H_
#define SLM_STORE_LAYOUT_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "identity/node.h"
#include "store/vfs.h"

namespace slm::store {

inline constexpr std::string_view kVersionText = "slm-store-v1\n";
// A node holds a CBOR map of at most 16 MiB and at most 2^20 child ids.
inline constexpr uint64_t kMaxNodeBytes = (uint64_t{16} << 20) + (uint64_t{32} << 20) + 256;

// Without slashes at the end, but for the root of the file system.
[[nodiscard]] std::string WithoutSlashes(std::string directory);
// On the real file system: where a link to the store leads, so that a user may reach a store by one; inside
// it they are refused. Anything else, a link to nothing too, comes back as it is.
[[nodiscard]] std::string FollowLink(const std::string& directory);

// Paths of one store.
struct Layout {
  std::string root;

  [[nodiscard]] std::string Version() const { return root + "/version"; }
  [[nodiscard]] std::string Lock() const { return root + "/lock"; }
  [[nodiscard]] std::string Staging() const { return root + "/staging"; }
  [[nodiscard]] std::string Objects() const { return root + "/objects/sha256"; }
  [[nodiscard]] std::string Nodes() const { return root + "/nodes"; }
  [[nodiscard]] std::string LogDirectory() const { return root + "/log"; }
  [[nodiscard]] std::string Log() const { return root + "/log/000001.slog"; }
  [[nodiscard]] std::string Refs() const { return root + "/refs"; }
  [[nodiscard]] std::string Head() const { return root + "/refs/head"; }
  [[nodiscard]] std::string Blob(const Hash256& hash) const { return Sharded(Objects(), hash); }
  [[nodiscard]] std::string Node(const Hash256& id) const { return Sharded(Nodes(), id); }
  // Directories from the top down; Version is written last of all.
  [[nodiscard]] std::vector<std::string> Directories() const;
  // Names that may stand in `directory`, one of those without a name for each object; null for others.
  [[nodiscard]] std::optional<std::vector<std::string_view>> NamesIn(const std::string& directory) const;
  // Path below the root, for messages.
  [[nodiscard]] std::string Relative(const std::string& path) const;

 private:
  static std::string Sharded(const std::string& directory, const Hash256& hash);
};

// True: a store of this version. False: nothing there yet, or the beginnings of a store that a
// crash left without its version file. Errors: STORE-VERSION, also for a directory of other files;
// FSCK-LAYOUT where the version file is lost, or a part of the store is a link or a file.
[[nodiscard]] Result<bool> CheckVersion(Vfs& vfs, const Layout& layout);
// Whether an object, a node, a log or a head is there: then there was a version file too.
[[nodiscard]] Result<bool> HasContent(Vfs& vfs, const Layout& layout);
// Makes what is missing, durably.
[[nodiscard]] Status CreateStore(Vfs& vfs, const Layout& layout);

// Makes files durable and gives them their names. Once a sync has failed, nobody knows what the
// disk holds, so every later call is refused; a retry could report success for lost data.
class Publisher {
 public:
  Publisher(Vfs& vfs, const Layout& layout) : vfs_(vfs), layout_(layout) {}

  // Fails if a sync has failed before.
  [[nodiscard]] Status CheckUsable() const;
  [[nodiscard]] Status Sync(WriteFile& file);
  [[nodiscard]] Status SyncDirectory(const std::string& directory);
  [[nodiscard]] Status SyncParent(const std::string& path);
  [[nodiscard]] Status Truncate(const std::string& path, uint64_t size);

  // A new file in staging; `path` receives its name.
  [[nodiscard]] Result<std::unique_ptr<WriteFile>> NewStagingFile(std::string* path);
  // Writes, makes read-only and syncs a new staging file; returns its path. REQUIRES: the store's lock is
  // held until the file has its name, since nothing else marks it as in use.
  [[nodiscard]] Result<std::string> StageWhole(ByteSpan bytes);
  // Renames a synced staging file to `to`, whose content hashes to `hash`. An object that is
  // there already is hashed: FSCK-HASH if it is damaged. The directory is not synced yet.
  [[nodiscard]] Status Publish(const std::string& staging_path, const std::string& to, const Hash256& hash);
  // Writes, syncs and renames over `to`, and syncs its directory. REQUIRES: the store's lock is held.
  [[nodiscard]] Status ReplaceFile(const std::string& to, ByteSpan bytes);

 private:
  [[nodiscard]] Status EnsureDirectory(const std::string& directory);
  [[nodiscard]] Status Remember(Status status);
  Vfs& vfs_;
  const Layout& layout_;
  bool sync_failed_ = false;
  std::set<std::string> durable_directories_;
};

}  // namespace slm::store

#endif  // SLM_STORE_LAYOUT_H_
