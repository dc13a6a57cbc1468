#include "store/fsck.h"

#include <algorithm>
#include <map>
#include <set>

#include "codec/sha256.h"
#include "store/layout.h"
#include "store/log.h"

namespace slm {
namespace store {
namespace {

class Checker {
 public:
  Checker(Vfs& vfs, std::string directory, const FsckOptions& options)
      : vfs_(vfs), layout_{std::move(directory)}, options_(options) {}

  Result<FsckReport> Run() {
    SLM_ASSIGN(const FileInfo root, vfs_.Stat(layout_.root));
    if (root.kind == FileKind::kNone) {
      return Fail(MakeError(ErrorCode::kNotFound, "no store there; name one with --store").In(layout_.root));
    }
    SLM_ASSIGN(const bool is_there, CheckVersion(vfs_, layout_));
    if (!is_there) {
      report_.notes.emplace_back("the store is not made yet; nothing is in it");
      return std::move(report_);
    }
    // The log before the objects: what it names was there before it.
    SLM_TRY(CheckLog());
    SLM_TRY(CheckDirectory(layout_.Nodes(), &Checker::CheckNodeFile));
    SLM_TRY(CheckDirectory(layout_.Objects(), &Checker::CheckBlobFile));
    CheckGraph();
    SLM_TRY(CheckStaging());
    return std::move(report_);
  }

 private:
  void Problem(ErrorCode code, const std::string& path, std::string what) {
    report_.problems.push_back({code, layout_.Relative(path), std::move(what)});
  }

  Status CheckLog() {
    SLM_TRY(ReadLogFrom(vfs_, layout_, &log_));
    if (log_.damage) {
      std::string where = log_.damage->file;
      if (log_.damage->byte_offset) where += ":" + std::to_string(*log_.damage->byte_offset);
      Problem(log_.damage->code, where, log_.damage->message);
    } else if (log_.n_torn_bytes > 0) {
      SLM_TRY(CheckTornTail());
    }
    report_.n_log_records = log_.records.size();
    for (const LogRecord& record : log_.records) {
      if (record.kind == kRecoveredKind) {
        report_.notes.push_back("recovered: record " + std::to_string(record.seq) +
                                " follows a torn tail that was cut");
      }
    }
    return {};
  }

  Status CheckTornTail() {
    const std::string where = "at byte " + std::to_string(log_.n_good_bytes) +
                              " of the log: " + std::to_string(log_.n_torn_bytes) +
                              " bytes of a record that was never finished";
    if (!options_.repair) {
      report_.notes.push_back("torn tail " + where + "; the next writer cuts it");
      return {};
    }
    SLM_ASSIGN(const auto lock, vfs_.Lock(layout_.Lock()));
    SLM_TRY(ReadLogFrom(vfs_, layout_, &log_));
    Publisher publisher(vfs_, layout_);
    SLM_TRY(RecoverTail(vfs_, layout_, &publisher, &log_));
    report_.notes.push_back("torn tail cut " + where);
    return {};
  }

  // Each file in the 256 directories below `directory`, by the check for its kind.
  Status CheckDirectory(const std::string& directory,
                        Status (Checker::*check)(const std::string&, const Hash256&)) {
    SLM_ASSIGN(const std::vector<std::string> shards, vfs_.List(directory));
    for (const std::string& shard : shards) {
      const std::string shard_path = directory + "/" + shard;
      SLM_ASSIGN(const FileInfo shard_info, vfs_.Stat(shard_path));
      if (shard_info.kind != FileKind::kDirectory) {
        Problem(ErrorCode::kFsckHash, shard_path, "not a directory of objects");
        continue;
      }
      SLM_ASSIGN(const std::vector<std::string> names, vfs_.List(shard_path));
      for (const std::string& name : names) {
        const std::string path = shard_path + "/" + name;
        Hash256 hash;
        SLM_ASSIGN(const FileInfo info, vfs_.Stat(path));
        if (info.kind != FileKind::kFile || !HashFromHex(name, &hash) || name.substr(0, 2) != shard) {
          Problem(ErrorCode::kFsckHash, path, "not the name of an object, or not a file");
          continue;
        }
        if (info.is_writable)
          report_.notes.push_back(layout_.Relative(path) + " has lost its read-only mode");
        SLM_TRY((this->*check)(path, hash));
      }
    }
    return {};
  }

  Status CheckBlobFile(const std::string& path, const Hash256& hash) {
    ++report_.n_blobs;
    blobs_.insert(hash);
    if (options_.quick) return {};
    SLM_ASSIGN(const Hash256 found, HashFile(vfs_, path));
    if (found != hash) Problem(ErrorCode::kFsckHash, path, "the content hashes to " + ToHex(found));
    return {};
  }

  // Nodes are hashed in a quick check too: they are small, and the graph rests on them.
  Status CheckNodeFile(const std::string& path, const Hash256& id) {
    ++report_.n_nodes;
    SLM_ASSIGN(const Bytes preimage, ReadWholeFile(vfs_, path, kMaxNodeBytes));
    const Hash256 found = Sha256Of(preimage);
    if (found != id) Problem(ErrorCode::kFsckHash, path, "the content hashes to " + ToHex(found));
    Links& links = nodes_[id];
    const auto node = DecodeNode(preimage);
    if (!node.has_value()) {
      Problem(node.error().code, path, node.error().message);
      return {};
    }
    for (const Edge& edge : node->edges) links.children.push_back(edge.child);
    links.blobs = BlobsOf(*node);
    return {};
  }

  // What the log makes visible must be whole. Nodes that it does not name are what a crash left
  // between publishing and logging: harmless, and counted.
  void CheckGraph() {
    std::vector<Hash256> to_follow;
    std::set<Hash256> visible;
    const auto see = [&](const Hash256& id, const std::string& by) {
      if (!nodes_.contains(id)) {
        Problem(ErrorCode::kGraphMissingChild, by, "node " + ToHex(id) + " is not in the store");
      } else if (visible.insert(id).second) {
        to_follow.push_back(id);
      }
    };
    for (const LogRecord& record : log_.records) {
      for (const Hash256& id : record.nodes)
        see(id, layout_.Log() + ":" + std::to_string(record.byte_offset));
    }
    while (!to_follow.empty()) {
      const Hash256 id = to_follow.back();
      to_follow.pop_back();
      const Links& links = nodes_.at(id);
      for (const Hash256& child : links.children) see(child, layout_.Node(id));
      for (const Hash256& blob : links.blobs) {
        if (!blobs_.contains(blob)) {
          Problem(ErrorCode::kGraphMissingChild, layout_.Node(id),
                  "blob " + ToHex(blob) + " is not in the store");
        }
      }
    }
    CheckAcyclic();
    const size_t n_unlogged = nodes_.size() - visible.size();
    if (n_unlogged > 0)
      report_.notes.push_back(std::to_string(n_unlogged) + " nodes that no log record reaches");
  }

  // Depth-first over all node files, those with a false name included; no recursion.
  void CheckAcyclic() {
    enum class Colour : uint8_t { kOnPath, kDone };
    std::map<Hash256, Colour> colours;
    struct Step {
      Hash256 id;
      size_t next_child;
    };
    for (const auto& [start, start_links] : nodes_) {
      if (colours.contains(start)) continue;
      std::vector<Step> path{{start, 0}};
      colours[start] = Colour::kOnPath;
      while (!path.empty()) {
        Step& step = path.back();
        const std::vector<Hash256>& children = nodes_.at(step.id).children;
        if (step.next_child == children.size()) {
          colours[step.id] = Colour::kDone;
          path.pop_back();
          continue;
        }
        const Hash256 child = children[step.next_child++];
        if (!nodes_.contains(child)) continue;
        const auto colour = colours.find(child);
        if (colour == colours.end()) {
          colours[child] = Colour::kOnPath;
          path.push_back({child, 0});
        } else if (colour->second == Colour::kOnPath) {
          Problem(ErrorCode::kGraphCycle, layout_.Node(child), "the node reaches itself");
        }
      }
    }
  }

  Status CheckStaging() {
    SLM_ASSIGN(const std::vector<std::string> names, vfs_.List(layout_.Staging()));
    uint64_t n_left = 0;
    for (const std::string& name : names) {
      const std::string path = layout_.Staging() + "/" + name;
      SLM_ASSIGN(const bool is_in_use, vfs_.IsInUse(path));
      if (is_in_use) {
        report_.notes.push_back(layout_.Relative(path) + " is being written by another process");
      } else if (options_.repair) {
        SLM_TRY(vfs_.Remove(path));
        ++report_.n_staging_removed;
      } else {
        ++n_left;
      }
    }
    if (n_left > 0)
      report_.notes.push_back(std::to_string(n_left) + " unfinished files in staging; --repair removes them");
    return {};
  }

  struct Links {
    std::vector<Hash256> children;
    std::vector<Hash256> blobs;
  };

  Vfs& vfs_;
  const Layout layout_;
  const FsckOptions options_;
  FsckReport report_;
  LogState log_;
  std::map<Hash256, Links> nodes_;
  std::set<Hash256> blobs_;
};

}  // namespace
}  // namespace store

Result<FsckReport> Fsck(const std::string& directory, const FsckOptions& options) {
  return FsckOn(store::PosixVfs(), directory, options);
}

Result<FsckReport> FsckOn(store::Vfs& vfs, const std::string& directory, const FsckOptions& options) {
  std::string root = directory;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return store::Checker(vfs, std::move(root), options).Run();
}

}  // namespace slm
