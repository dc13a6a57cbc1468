// Content-addressed store (docs/spec/store.md): blobs, nodes, and an append-only log with a hash
// chain. A crash at any moment leaves the state before or after an operation.
//
//   version                       "slm-store-v1\n"
//   objects/sha256/ab/abcdef...   a blob; its name is the SHA-256 of its content; mode 0444
//   nodes/ab/abcdef...            a node's preimage; its name is the node id; mode 0444
//   log/000001.slog               the log
//   refs/head                     number and hash of the last record that is durable
//   staging/                      files being written; garbage after a crash
//
// Blobs are durable when Commit returns. Nodes are buffered in memory until AppendLog writes
// them all, then the record: a node is visible to others only when a record names it or one of
// its ancestors. What is read is hashed again.
//
// Several processes may use one store; a short lock orders the appends. One Store may be used
// from several threads; a BlobWriter by one at a time.
#ifndef SLM_STORE_STORE_H_
#define SLM_STORE_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "identity/node.h"

namespace slm {

namespace store {
class Vfs;
}

struct StoreOptions {
  bool create = true;      // make the store if there is none
  bool read_only = false;  // refuse every write; implies that nothing is created
};

struct LogRecord {
  uint64_t seq;  // from 1
  std::string kind;
  std::vector<Hash256> nodes;
  uint64_t byte_offset;  // of the record in the log file
};

class Store {
 public:
  // Errors: NOT-FOUND, STORE-VERSION, LOG-CORRUPT, LOG-CHAIN, FSCK-REF, IO, DISK-FULL.
  [[nodiscard]] static Result<std::unique_ptr<Store>> Open(const std::string& directory,
                                                           const StoreOptions& options = {});
  // `vfs` must outlive the store.
  [[nodiscard]] static Result<std::unique_ptr<Store>> OpenOn(store::Vfs& vfs, const std::string& directory,
                                                             const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // One blob of unknown length, hashed while it is written; memory stays flat.
  class BlobWriter {
   public:
    ~BlobWriter();  // discards what was not committed
    BlobWriter(const BlobWriter&) = delete;
    BlobWriter& operator=(const BlobWriter&) = delete;
    [[nodiscard]] Status Append(ByteSpan bytes);
    [[nodiscard]] uint64_t size() const;
    // Publishes the blob and makes it durable. REQUIRES: called once. Errors: FSCK-HASH where
    // an object of that name is there and damaged.
    [[nodiscard]] Result<Hash256> Commit();

   private:
    friend class Store;
    struct State;
    explicit BlobWriter(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  [[nodiscard]] Result<std::unique_ptr<BlobWriter>> NewBlob();
  [[nodiscard]] Result<Hash256> PutBlob(ByteSpan bytes);
  // A file of that name is there; it is not hashed.
  [[nodiscard]] bool HasBlob(const Hash256& hash) const;
  // Errors of the readers: NOT-FOUND, FSCK-HASH (the content is damaged), LIMIT, IO.
  [[nodiscard]] Result<Bytes> ReadBlob(const Hash256& hash, uint64_t max_bytes) const;
  // For mapping; the caller hashes what it uses.
  [[nodiscard]] Result<std::string> BlobPath(const Hash256& hash) const;
  [[nodiscard]] Status VerifyBlob(const Hash256& hash) const;

  // Idempotent. Errors: those of DecodeNode, for a node that could not be read back.
  [[nodiscard]] Result<Hash256> PutNode(const Node& node);
  // A node that the log makes visible, or one that this Store has put.
  [[nodiscard]] Result<Node> GetNode(const Hash256& id) const;
  [[nodiscard]] bool HasNode(const Hash256& id) const;
  // Visible nodes whose id starts with these lower-case digits, sorted.
  [[nodiscard]] Result<std::vector<Hash256>> FindByPrefix(std::string_view hex_prefix) const;

  // Ends a transaction: makes every node put so far durable, then one record that names `nodes`
  // (and those put nodes that they do not reach). Errors: GRAPH-MISSING-CHILD if one of them, or one of their
  // children, is not there.
  [[nodiscard]] Status AppendLog(std::string_view kind, std::span<const Hash256> nodes);
  [[nodiscard]] Result<std::vector<LogRecord>> ReadLog() const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace slm

#endif  // SLM_STORE_STORE_H_
