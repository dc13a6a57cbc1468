#include "store/store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "codec/sha256.h"
#include "codec/sha256_beside.h"
#include "store/layout.h"
#include "store/log.h"
#include "store/vfs.h"

namespace slm {

using store::Layout;
using store::Vfs;

struct Store::Impl {
  Impl(Vfs& files, std::string directory, bool no_writes)
      : vfs(files), layout{std::move(directory)}, read_only(no_writes), publisher(files, layout) {}

  Vfs& vfs;
  const Layout layout;
  const bool read_only;
  std::mutex mutex;  // guards everything below
  store::Publisher publisher;
  store::LogState log;
  std::map<Hash256, Bytes> pending;  // nodes put since the last record: id to preimage
  // Nodes that the log names, and their descendants as far as they have been followed;
  // `frontier` holds those whose children are not in `visible` yet.
  std::set<Hash256> visible;
  std::vector<Hash256> frontier;

  [[nodiscard]] Status CheckWritable() const;
  [[nodiscard]] Status Refresh();
  [[nodiscard]] Result<Node> ReadNode(const Hash256& id) const;
  void FollowEdges();
  [[nodiscard]] bool IsVisible(const Hash256& id);
  [[nodiscard]] Result<bool> IsVisibleNow(const Hash256& id);
  [[nodiscard]] Status CheckReferences(std::span<const Hash256> nodes);
  [[nodiscard]] Status CheckPendingNode(const Node& node);
  [[nodiscard]] std::vector<Hash256> WithPendingRoots(std::span<const Hash256> nodes) const;
  [[nodiscard]] Status PublishPending();
  void See(const Hash256& id);
};

struct Store::BlobWriter::State {
  Store::Impl* store = nullptr;
  std::unique_ptr<store::WriteFile> file;
  std::string staging_path;  // empty once published
  Sha256Beside hash;         // beside the writes
  uint64_t n_bytes = 0;
  bool failed = false;
};

// --- opening ---

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const std::string& directory, const StoreOptions& options) {
  return OpenOn(store::PosixVfs(), store::FollowLink(directory), options);
}

Result<std::unique_ptr<Store>> Store::OpenOn(Vfs& vfs, const std::string& directory,
                                             const StoreOptions& options) {
  std::string root = store::WithoutSlashes(directory);
  if (root.empty()) return Fail(ErrorCode::kUsage, "the store's directory has no name");
  auto impl = std::make_unique<Impl>(vfs, std::move(root), options.read_only);
  SLM_ASSIGN(const bool is_there, store::CheckVersion(vfs, impl->layout));
  if (!is_there) {
    if (options.read_only || !options.create) {
      return Fail(
          MakeError(ErrorCode::kNotFound, "no store there; name one with --store").In(impl->layout.root));
    }
    SLM_TRY(store::CreateStore(vfs, impl->layout));
  }
  SLM_TRY(impl->Refresh());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Status Store::Impl::CheckWritable() const {
  if (read_only) return Fail(MakeError(ErrorCode::kIo, "the store is open for reading only").In(layout.root));
  return publisher.CheckUsable();
}

// --- visibility ---

void Store::Impl::See(const Hash256& id) {
  if (visible.insert(id).second) frontier.push_back(id);
}

// Takes in what other processes have appended.
Status Store::Impl::Refresh() {
  const size_t n_known = log.records.size();
  SLM_TRY(store::ReadLogFrom(vfs, layout, &log));
  if (log.damage) return Fail(Error(*log.damage));
  for (size_t i = n_known; i < log.records.size(); ++i) {
    for (const Hash256& id : log.records[i].nodes) See(id);
  }
  return {};
}

void Store::Impl::FollowEdges() {
  while (!frontier.empty()) {
    const Hash256 parent = frontier.back();
    frontier.pop_back();
    const auto node = ReadNode(parent);
    if (!node.has_value()) continue;  // whoever reads that node gets the error
    for (const Edge& edge : node->edges) See(edge.child);
  }
}

bool Store::Impl::IsVisible(const Hash256& id) {
  if (!visible.contains(id)) FollowEdges();
  return visible.contains(id);
}

// Also after looking for new records, where a file of that name is there.
Result<bool> Store::Impl::IsVisibleNow(const Hash256& id) {
  SLM_ASSIGN(const store::FileInfo info, vfs.Stat(layout.Node(id)));
  if (info.kind != store::FileKind::kFile) return false;
  if (IsVisible(id)) return true;
  SLM_TRY(Refresh());
  return IsVisible(id);
}

Result<Node> Store::Impl::ReadNode(const Hash256& id) const {
  const std::string path = layout.Node(id);
  SLM_ASSIGN(const Bytes preimage, store::ReadWholeFile(vfs, path, store::kMaxNodeBytes));
  if (Sha256Of(preimage) != id) {
    return Fail(MakeError(ErrorCode::kFsckHash, "the node's content differs from its name").In(path));
  }
  auto node = DecodeNode(preimage);
  if (!node.has_value()) return Fail(std::move(node).error().In(path));
  return node;
}

// --- blobs ---

Store::BlobWriter::BlobWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

Store::BlobWriter::~BlobWriter() {
  if (state_->staging_path.empty()) return;
  state_->file.reset();
  static_cast<void>(state_->store->vfs.Remove(state_->staging_path));  // what stays is garbage for fsck
}

Status Store::BlobWriter::Append(ByteSpan bytes) {
  if (state_->failed)
    return Fail(MakeError(ErrorCode::kIo, "an earlier write failed").In(state_->staging_path));
  state_->hash.Update(bytes);
  const Status written = store::WriteAll(*state_->file, bytes);
  if (!written.has_value()) {
    state_->failed = true;
    return written;
  }
  state_->n_bytes += bytes.size();
  return {};
}

uint64_t Store::BlobWriter::size() const {
  return state_->n_bytes;
}

Result<Hash256> Store::BlobWriter::Commit() {
  if (state_->failed)
    return Fail(MakeError(ErrorCode::kIo, "an earlier write failed").In(state_->staging_path));
  Impl& store = *state_->store;
  SLM_TRY(state_->file->MakeReadOnly());
  const std::lock_guard<std::mutex> guard(store.mutex);
  SLM_TRY(store.publisher.Sync(*state_->file));
  SLM_ASSIGN(const store::FileInfo info, store.vfs.Stat(state_->staging_path));
  if (info.size != state_->n_bytes) {
    return Fail(
        MakeError(ErrorCode::kIo, "the file is not as long as what was written").In(state_->staging_path));
  }
  const Hash256 hash = state_->hash.Finish();
  const std::string path = store.layout.Blob(hash);
  SLM_TRY(store.publisher.Publish(state_->staging_path, path, hash));
  state_->staging_path.clear();
  state_->file.reset();
  SLM_TRY(store.publisher.SyncParent(path));
  return hash;
}

Result<std::unique_ptr<Store::BlobWriter>> Store::NewBlob() {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  SLM_TRY(impl_->CheckWritable());
  auto state = std::make_unique<BlobWriter::State>();
  state->store = impl_.get();
  SLM_ASSIGN(state->file, impl_->publisher.NewStagingFile(&state->staging_path));
  return std::unique_ptr<BlobWriter>(new BlobWriter(std::move(state)));
}

Result<Hash256> Store::PutBlob(ByteSpan bytes) {
  SLM_ASSIGN(const auto writer, NewBlob());
  SLM_TRY(writer->Append(bytes));
  return writer->Commit();
}

bool Store::HasBlob(const Hash256& hash) const {
  const auto info = impl_->vfs.Stat(impl_->layout.Blob(hash));
  return info.has_value() && info->kind == store::FileKind::kFile;
}

Result<Bytes> Store::ReadBlob(const Hash256& hash, uint64_t max_bytes) const {
  const std::string path = impl_->layout.Blob(hash);
  SLM_ASSIGN(Bytes bytes, store::ReadWholeFile(impl_->vfs, path, max_bytes));
  if (Sha256Of(bytes) != hash) {
    return Fail(MakeError(ErrorCode::kFsckHash, "the blob's content differs from its name").In(path));
  }
  return bytes;
}

Result<std::string> Store::BlobPath(const Hash256& hash) const {
  std::string path = impl_->layout.Blob(hash);
  if (!HasBlob(hash)) return Fail(MakeError(ErrorCode::kNotFound, "no such blob").In(path));
  return path;
}

Status Store::VerifyBlob(const Hash256& hash) const {
  const std::string path = impl_->layout.Blob(hash);
  SLM_ASSIGN(const Hash256 found, store::HashFile(impl_->vfs, path));
  if (found == hash) return {};
  return Fail(MakeError(ErrorCode::kFsckHash, "the blob's content differs from its name").In(path));
}

// --- nodes ---

Result<Hash256> Store::PutNode(const Node& node) {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  SLM_TRY(impl_->CheckWritable());
  SLM_TRY(CheckNode(node));
  Bytes preimage = EncodeNode(node);
  SLM_ASSIGN(const Node read_back, DecodeNode(preimage));  // refuses what is beyond CBOR's limits
  const Hash256 id = Sha256Of(preimage);
  if (impl_->pending.contains(id)) return id;
  SLM_ASSIGN(const bool is_visible, impl_->IsVisibleNow(id));
  if (is_visible) {
    SLM_ASSIGN(const Node existing, impl_->ReadNode(id));  // relied on only after it was hashed again
    return id;
  }
  impl_->pending.emplace(id, std::move(preimage));
  return id;
}

Result<Node> Store::GetNode(const Hash256& id) const {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  const auto pending = impl_->pending.find(id);
  if (pending != impl_->pending.end()) return DecodeNode(pending->second);
  SLM_ASSIGN(const bool is_visible, impl_->IsVisibleNow(id));
  if (!is_visible) {
    return Fail(MakeError(ErrorCode::kNotFound, "no such node").In(impl_->layout.Node(id)));
  }
  return impl_->ReadNode(id);
}

bool Store::HasNode(const Hash256& id) const {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  return impl_->pending.contains(id) || impl_->IsVisibleNow(id).value_or(false);
}

Result<std::vector<Hash256>> Store::FindByPrefix(std::string_view hex_prefix) const {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (hex_prefix.size() > 64 || !std::all_of(hex_prefix.begin(), hex_prefix.end(), is_hex)) {
    return Fail(ErrorCode::kUsage, "an id is lower-case hexadecimal, 64 digits at most");
  }
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  SLM_TRY(impl_->Refresh());
  impl_->FollowEdges();
  std::vector<Hash256> found;
  for (const Hash256& id : impl_->visible) {
    if (ToHex(id).starts_with(hex_prefix)) found.push_back(id);
  }
  for (const auto& [id, preimage] : impl_->pending) {
    if (ToHex(id).starts_with(hex_prefix)) found.push_back(id);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// --- the log ---

// Children and blobs of a node that is about to be published.
Status Store::Impl::CheckPendingNode(const Node& node) {
  for (const Edge& edge : node.edges) {
    if (pending.contains(edge.child)) continue;
    SLM_ASSIGN(const bool is_visible, IsVisibleNow(edge.child));
    if (!is_visible) {
      return Fail(
          MakeError(ErrorCode::kGraphMissingChild, "child " + ToHex(edge.child) + " is not in the store")
              .Field(edge.role));
    }
  }
  for (const Hash256& blob : BlobsOf(node)) {
    SLM_ASSIGN(const store::FileInfo info, vfs.Stat(layout.Blob(blob)));
    if (info.kind != store::FileKind::kFile) {
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "blob " + ToHex(blob) + " is not in the store")
                      .Field("blob"));
    }
  }
  return {};
}

Status Store::Impl::CheckReferences(std::span<const Hash256> nodes) {
  for (const Hash256& id : nodes) {
    if (pending.contains(id)) continue;
    SLM_ASSIGN(const bool is_visible, IsVisibleNow(id));
    if (!is_visible) {
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "node " + ToHex(id) + " is not in the store")
                      .Field("nodes"));
    }
  }
  for (const auto& [id, preimage] : pending) {
    SLM_ASSIGN(const Node node, DecodeNode(preimage));
    SLM_TRY(CheckPendingNode(node));
  }
  return {};
}

// `nodes`, and after them each pending node that neither they nor another pending node reaches:
// whatever is published is visible.
std::vector<Hash256> Store::Impl::WithPendingRoots(std::span<const Hash256> nodes) const {
  std::set<Hash256> reached(nodes.begin(), nodes.end());
  for (const auto& [id, preimage] : pending) {
    const auto node = DecodeNode(preimage);
    if (!node.has_value()) continue;  // PutNode has decoded it before
    for (const Edge& edge : node->edges) reached.insert(edge.child);
  }
  std::vector<Hash256> all(nodes.begin(), nodes.end());
  for (const auto& [id, preimage] : pending) {
    if (!reached.contains(id)) all.push_back(id);
  }
  return all;
}

// Contents first, then names: each kind of sync is done for all nodes together.
Status Store::Impl::PublishPending() {
  std::map<Hash256, std::string> staged;
  Status status;
  for (const auto& [id, preimage] : pending) {
    auto path = publisher.StageWhole(preimage);
    if (!path.has_value()) {
      status = Fail(std::move(path).error());
      break;
    }
    staged.emplace(id, *std::move(path));
  }
  while (status.has_value() && !staged.empty()) {
    const auto& [id, path] = *staged.begin();
    status = publisher.Publish(path, layout.Node(id), id);
    if (status.has_value()) staged.erase(staged.begin());
  }
  for (const auto& [id, path] : staged) static_cast<void>(vfs.Remove(path));  // garbage otherwise
  SLM_TRY(status);
  std::set<uint8_t> shards;
  for (const auto& [id, preimage] : pending) {
    if (shards.insert(id[0]).second) SLM_TRY(publisher.SyncParent(layout.Node(id)));
  }
  return {};
}

Status Store::AppendLog(std::string_view kind, std::span<const Hash256> nodes) {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  SLM_TRY(impl_->CheckWritable());
  if (kind.empty() || kind == store::kRecoveredKind)
    return Fail(ErrorCode::kSchemaValue, "a record needs a kind of its own");
  SLM_TRY(impl_->CheckReferences(nodes));
  const std::vector<Hash256> named = impl_->WithPendingRoots(nodes);
  // Before the nodes are staged: fsck removes what nobody holds in staging under the same lock.
  SLM_ASSIGN(const auto lock, impl_->vfs.Lock(impl_->layout.Lock()));
  SLM_TRY(impl_->PublishPending());
  SLM_TRY(impl_->Refresh());
  SLM_TRY(store::RecoverTail(impl_->vfs, impl_->layout, &impl_->publisher, &impl_->log));
  SLM_TRY(store::AppendRecord(impl_->vfs, impl_->layout, &impl_->publisher, &impl_->log, kind, named));
  for (const Hash256& id : named) impl_->See(id);
  impl_->pending.clear();
  return {};
}

Result<std::vector<LogRecord>> Store::ReadLog() const {
  const std::lock_guard<std::mutex> guard(impl_->mutex);
  SLM_TRY(impl_->Refresh());
  return impl_->log.records;
}

}  // namespace slm
