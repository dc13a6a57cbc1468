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
    SLM_TRY(CheckLayout());
    if (!can_read_) return std::move(report_);
    if (!is_made_) {
      report_.notes.emplace_back("the store is not made yet; nothing is in it");
      return std::move(report_);
    }
    // The log before the objects: what it names was there before it.
    SLM_TRY(CheckLog());
    SLM_TRY(CheckDirectory(layout_.Nodes(), &Checker::CheckNodeFile));
    SLM_TRY(CheckDirectory(layout_.Objects(), &Checker::CheckBlobFile));
    CheckGraph();
    SLM_TRY(CheckStaging());
    if (options_.repair) SLM_TRY(Repair());
    return std::move(report_);
  }

 private:
  void Problem(ErrorCode code, const std::string& path, std::string what) {
    report_.problems.push_back({code, layout_.Relative(path), std::move(what)});
  }

  // Directories and files by their names and kinds, before anything is opened.
  Status CheckLayout() {
    SLM_ASSIGN(const FileInfo version, vfs_.Stat(layout_.Version()));
    SLM_ASSIGN(const bool has_content, HasContent(vfs_, layout_));
    is_version_lost_ = version.kind == FileKind::kNone && has_content;
    if (is_version_lost_) {
      SLM_ASSIGN(const FileInfo now, vfs_.Stat(layout_.Version()));  // the store may be this young
      is_version_lost_ = now.kind == FileKind::kNone;
    }
    is_made_ = is_version_lost_;
    if (is_version_lost_) {
      Problem(ErrorCode::kFsckLayout, layout_.Version(), "the version file is lost");
    } else if (version.kind == FileKind::kNone || version.kind == FileKind::kFile) {
      const auto checked = CheckVersion(vfs_, layout_);
      if (!checked.has_value() && checked.error().code != ErrorCode::kFsckLayout) {
        return Fail(Error(checked.error()));
      }
      is_made_ = !checked.has_value() || *checked;  // a wrong directory is reported below
    } else {
      return Fail(MakeError(ErrorCode::kStoreVersion, "not a file").In(layout_.Version()));
    }
    for (const std::string& directory : layout_.Directories()) {
      SLM_ASSIGN(const bool is_there, CheckOneDirectory(directory));
      if (!is_there) continue;
      SLM_TRY(CheckNames(directory));
    }
    return {};
  }

  Result<bool> CheckOneDirectory(const std::string& directory) {
    SLM_ASSIGN(const FileInfo info, vfs_.Stat(directory));
    if (info.kind == FileKind::kDirectory) return true;
    if (info.kind == FileKind::kNone && !is_made_) return false;
    if (info.kind != FileKind::kNone) {
      Problem(ErrorCode::kFsckLayout, directory,
              "not a directory, and no link is followed; the rest was not checked");
    } else {
      Problem(ErrorCode::kFsckLayout, directory, "the directory is absent");
      if (options_.repair) {
        SLM_TRY(vfs_.MakeDirectory(directory));
        SLM_TRY(Publisher(vfs_, layout_).SyncParent(directory));
        report_.notes.push_back(layout_.Relative(directory) + " was absent; made anew, empty");
        return true;
      }
    }
    can_read_ = false;
    return false;
  }

  Status CheckNames(const std::string& directory) {
    const auto known = layout_.NamesIn(directory);
    if (!known) return {};
    SLM_ASSIGN(const std::vector<std::string> names, vfs_.List(directory));
    for (const std::string& name : names) {
      const std::string path = directory + "/" + name;
      if (std::find(known->begin(), known->end(), name) == known->end()) {
        Problem(ErrorCode::kFsckLayout, path, "no part of a store; move it away");
        continue;
      }
      SLM_ASSIGN(const FileInfo info, vfs_.Stat(path));
      const std::vector<std::string> directories = layout_.Directories();
      const bool is_directory = std::find(directories.begin(), directories.end(), path) != directories.end();
      if (is_directory || info.kind == FileKind::kFile || info.kind == FileKind::kNone) continue;
      Problem(ErrorCode::kFsckLayout, path, "not a file, and no link is followed; the rest was not checked");
      can_read_ = false;
    }
    return {};
  }

  // A lost version file, and a lost or outdated head, where they are all that is wrong.
  Status Repair() {
    const bool is_head_only = log_.head_is_lost && log_.n_torn_bytes == 0 && !log_.records.empty();
    const bool is_log_good = is_head_only || !log_.damage;
    if (!is_log_good || (!is_version_lost_ && !is_head_only)) return {};
    SLM_ASSIGN(const auto lock, vfs_.Lock(layout_.Lock()));
    Publisher publisher(vfs_, layout_);
    if (is_version_lost_ && !log_.records.empty()) {
      SLM_TRY(publisher.ReplaceFile(layout_.Version(), AsBytes(kVersionText)));
      report_.notes.emplace_back("the version file was written anew");
    }
    if (!is_head_only) return {};
    LogState now;
    SLM_TRY(ReadLogFrom(vfs_, layout_, &now));
    if (!now.head_is_lost || now.n_torn_bytes > 0) return {};
    const std::string n = std::to_string(now.records.size());
    SLM_TRY(RewriteHead(vfs_, layout_, &publisher, &now));
    report_.notes.push_back("refs/head was written anew for the " + n +
                            " records that are there; whether later ones were lost is not known");
    return {};
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
    // Nodes, the head and the version file are staged under this lock; blobs are held one by one.
    std::unique_ptr<FileLock> lock;
    if (options_.repair && !names.empty()) {
      SLM_ASSIGN(lock, vfs_.Lock(layout_.Lock()));
    }
    for (const std::string& name : names) {
      const std::string path = layout_.Staging() + "/" + name;
      SLM_ASSIGN(const FileInfo info, vfs_.Stat(path));
      if (info.kind == FileKind::kNone) continue;  // finished since it was listed
      if (info.kind != FileKind::kFile) {
        Problem(ErrorCode::kFsckLayout, path, "no file; the store did not make it, move it away");
        continue;
      }
      bool is_in_use = false;
      if (options_.repair) {
        SLM_ASSIGN(const bool is_removed, vfs_.RemoveUnlessInUse(path));
        is_in_use = !is_removed;
      } else {
        SLM_ASSIGN(is_in_use, vfs_.IsInUse(path));
      }
      if (is_in_use) {
        report_.notes.push_back(layout_.Relative(path) + " is being written by another process");
      } else if (options_.repair) {
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
  bool is_made_ = false;  // the version file is there, or was
  bool is_version_lost_ = false;
  bool can_read_ = true;  // every directory and file that is opened is one
  std::map<Hash256, Links> nodes_;
  std::set<Hash256> blobs_;
};

}  // namespace
}  // namespace store

Result<FsckReport> Fsck(const std::string& directory, const FsckOptions& options) {
  return FsckOn(store::PosixVfs(), store::FollowLink(directory), options);
}

Result<FsckReport> FsckOn(store::Vfs& vfs, const std::string& directory, const FsckOptions& options) {
  return store::Checker(vfs, store::WithoutSlashes(directory), options).Run();
}

}  // namespace slm
