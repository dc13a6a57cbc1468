#include "store/model_vfs.h"

#include <algorithm>

namespace slm::store {

class ModelReadFile : public ReadFile {
 public:
  ModelReadFile(ModelVfs* vfs, size_t inode) : vfs_(vfs), inode_(inode) {}
  uint64_t size() const override { return vfs_->inodes_[inode_].data.size(); }
  Result<size_t> ReadAt(uint64_t offset, std::span<uint8_t> out) override {
    SLM_TRY(vfs_->Call("read", "file"));
    const Bytes& data = vfs_->inodes_[inode_].data;
    const size_t begin = std::min<size_t>(offset, data.size());
    const size_t n_bytes = std::min(out.size(), data.size() - begin);
    std::copy_n(data.begin() + static_cast<ptrdiff_t>(begin), n_bytes, out.begin());
    return n_bytes;
  }

 private:
  ModelVfs* vfs_;
  size_t inode_;
};

class ModelWriteFile : public WriteFile {
 public:
  ModelWriteFile(ModelVfs* vfs, size_t inode) : vfs_(vfs), inode_(inode) {}
  Result<size_t> Write(ByteSpan bytes) override {
    bytes = bytes.first(std::min(bytes.size(), vfs_->max_write_bytes_));
    const Status status = vfs_->Call("write", "file");
    if (!status.has_value()) bytes = bytes.first(bytes.size() / 2);
    vfs_->Do({ModelVfs::Kind::kWrite, inode_, {}, 0, Bytes(bytes.begin(), bytes.end())});
    SLM_TRY(status);
    return bytes.size();
  }
  Status MakeReadOnly() override {
    SLM_TRY(vfs_->Call("chmod", "file"));
    vfs_->inodes_[inode_].is_writable = false;
    return {};
  }
  Status Sync() override {
    SLM_TRY(vfs_->Call("fsync", "file"));
    if (!vfs_->ignore_file_syncs_) vfs_->Do({ModelVfs::Kind::kSyncFile, inode_, {}, 0, {}});
    return {};
  }

 private:
  ModelVfs* vfs_;
  size_t inode_;
};

ModelVfs::ModelVfs() : inodes_(1) {
  inodes_[0].is_directory = true;
}

Status ModelVfs::Call(std::string_view what, const std::string& path) {
  if (n_calls_++ != fail_at_) return {};
  has_failed_ = true;
  return Fail(MakeError(fault_ == Fault::kDiskFull ? ErrorCode::kDiskFull : ErrorCode::kIo,
                        "injected failure of " + std::string(what))
                  .In(path));
}

std::optional<ModelVfs::Place> ModelVfs::PlaceOf(const std::string& path) const {
  Place place{0, ""};
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) {
      if (!place.name.empty()) {
        const auto& entries = inodes_[place.directory].entries;
        const auto entry = entries.find(place.name);
        if (entry == entries.end() || !inodes_[entry->second].is_directory) return std::nullopt;
        place.directory = entry->second;
      }
      place.name = path.substr(begin, end - begin);
    }
    begin = end + 1;
  }
  return place;
}

std::optional<size_t> ModelVfs::Find(const std::string& path) const {
  const auto place = PlaceOf(path);
  if (!place) return std::nullopt;
  if (place->name.empty()) return 0;
  const auto& entries = inodes_[place->directory].entries;
  const auto entry = entries.find(place->name);
  if (entry == entries.end()) return std::nullopt;
  return entry->second;
}

ModelVfs::Inode* ModelVfs::At(const std::string& path) {
  const auto inode = Find(path);
  return inode ? &inodes_[*inode] : nullptr;
}

Bytes& ModelVfs::Contents(const std::string& path) {
  return At(path)->data;
}

void ModelVfs::AddFile(const std::string& path, Bytes contents) {
  const auto place = PlaceOf(path);
  const size_t inode = NewInode(false);
  inodes_[inode].is_writable = false;
  Do({Kind::kAddName, place->directory, place->name, inode, {}});
  Do({Kind::kWrite, inode, {}, 0, std::move(contents)});
}

size_t ModelVfs::NewInode(bool is_directory) {
  Do({Kind::kMakeInode, inodes_.size(), {}, is_directory ? size_t{1} : size_t{0}, {}});
  return inodes_.size() - 1;
}

// Applies an operation to the live state and records it.
void ModelVfs::Do(Operation operation) {
  switch (operation.kind) {
    case Kind::kMakeInode:
      inodes_.emplace_back().is_directory = operation.target == 1;
      break;
    case Kind::kWrite: {
      Bytes& data = inodes_[operation.inode].data;
      data.insert(data.end(), operation.data.begin(), operation.data.end());
      break;
    }
    case Kind::kTruncate:
      inodes_[operation.inode].data.resize(operation.target);
      break;
    case Kind::kAddName:
      inodes_[operation.inode].entries[operation.name] = operation.target;
      break;
    case Kind::kRemoveName:
      inodes_[operation.inode].entries.erase(operation.name);
      break;
    case Kind::kSyncFile:
    case Kind::kSyncNames:
      break;
  }
  operations_.push_back(std::move(operation));
}

// --- the crash ---

// The durable half of every inode, and what is still only in memory.
struct ModelVfs::Replay {
  struct State {
    bool is_directory = false;
    Bytes durable_data;
    Bytes data;
    std::map<std::string, size_t> durable_entries;
    std::vector<const Operation*> pending_names;
  };
  std::vector<State> states{1};

  static void ApplyName(const Operation& operation, std::map<std::string, size_t>* entries) {
    if (operation.kind == Kind::kAddName) {
      (*entries)[operation.name] = operation.target;
    } else {
      entries->erase(operation.name);
    }
  }

  void Apply(const Operation& operation) {
    if (operation.kind == Kind::kMakeInode) {
      states.emplace_back().is_directory = operation.target == 1;
      return;
    }
    State& state = states[operation.inode];
    switch (operation.kind) {
      case Kind::kWrite:
        state.data.insert(state.data.end(), operation.data.begin(), operation.data.end());
        break;
      case Kind::kTruncate:
        state.data.resize(operation.target);
        state.durable_data = state.data;
        break;
      case Kind::kSyncFile:
        state.durable_data = state.data;
        break;
      case Kind::kSyncNames:
        for (const Operation* name : state.pending_names) ApplyName(*name, &state.durable_entries);
        state.pending_names.clear();
        break;
      default:
        state.pending_names.push_back(&operation);
    }
  }

  static Bytes Surviving(const State& state, DataFate fate, std::mt19937* random) {
    const size_t n_durable = state.durable_data.size();
    const size_t n_new = state.data.size() - n_durable;
    if (fate == DataFate::kRandom) fate = static_cast<DataFate>((*random)() % 5);
    Bytes data = state.data;
    switch (fate) {
      case DataFate::kLost:
        return state.durable_data;
      case DataFate::kHalf:
        data.resize(n_durable + n_new / 2);
        break;
      case DataFate::kZeroes:
        std::fill(data.begin() + static_cast<ptrdiff_t>(n_durable), data.end(), uint8_t{0});
        break;
      case DataFate::kTorn512:  // the length is there, the last sector is not
        std::fill(data.begin() + static_cast<ptrdiff_t>(std::max(n_durable, data.size() / 512 * 512)),
                  data.end(), uint8_t{0});
        break;
      default:
        break;
    }
    return data;
  }

  static bool Survives(size_t position, NameFate fate, std::mt19937* random) {
    switch (fate) {
      case NameFate::kLost:
        return false;
      case NameFate::kAll:
        return true;
      case NameFate::kEven:
        return position % 2 == 0;
      case NameFate::kOdd:
        return position % 2 == 1;
      default:
        return (*random)() % 2 == 0;
    }
  }
};

std::unique_ptr<ModelVfs> ModelVfs::AfterCrash(size_t n_operations, const CrashFate& fate) const {
  Replay replay;
  for (size_t i = 0; i < n_operations; ++i) replay.Apply(operations_[i]);
  std::mt19937 random(fate.seed);
  auto after = std::make_unique<ModelVfs>();
  after->inodes_.resize(replay.states.size());
  for (size_t i = 0; i < replay.states.size(); ++i) {
    Replay::State& state = replay.states[i];
    Inode& inode = after->inodes_[i];
    inode.is_directory = state.is_directory || i == 0;
    inode.is_writable = inodes_[i].is_writable;
    inode.data = Replay::Surviving(state, fate.data, &random);
    inode.entries = state.durable_entries;
    for (size_t k = 0; k < state.pending_names.size(); ++k) {
      if (Replay::Survives(k, fate.names, &random))
        Replay::ApplyName(*state.pending_names[k], &inode.entries);
    }
  }
  // What survived is the durable ground of the new life: record it as such.
  for (size_t i = 1; i < after->inodes_.size(); ++i) {
    after->operations_.push_back(
        {Kind::kMakeInode, i, {}, after->inodes_[i].is_directory ? size_t{1} : size_t{0}, {}});
  }
  for (size_t i = 0; i < after->inodes_.size(); ++i) {
    const Inode& inode = after->inodes_[i];
    if (!inode.data.empty()) after->operations_.push_back({Kind::kWrite, i, {}, 0, inode.data});
    after->operations_.push_back({Kind::kSyncFile, i, {}, 0, {}});
    for (const auto& [name, target] : inode.entries)
      after->operations_.push_back({Kind::kAddName, i, name, target, {}});
    after->operations_.push_back({Kind::kSyncNames, i, {}, 0, {}});
  }
  return after;
}

// --- the interface ---

Result<FileInfo> ModelVfs::Stat(const std::string& path) {
  SLM_TRY(Call("stat", path));
  const auto inode = Find(path);
  if (!inode) return FileInfo{};
  const Inode& found = inodes_[*inode];
  return FileInfo{found.is_directory ? FileKind::kDirectory : FileKind::kFile, found.data.size(),
                  found.is_writable};
}

Result<std::vector<std::string>> ModelVfs::List(const std::string& directory) {
  SLM_TRY(Call("list", directory));
  const Inode* inode = At(directory);
  if (inode == nullptr || !inode->is_directory)
    return Fail(MakeError(ErrorCode::kNotFound, "no directory").In(directory));
  std::vector<std::string> names;
  for (const auto& [name, target] : inode->entries) names.push_back(name);
  return names;
}

Result<std::unique_ptr<ReadFile>> ModelVfs::OpenRead(const std::string& path) {
  SLM_TRY(Call("open", path));
  const auto inode = Find(path);
  if (!inode) return Fail(MakeError(ErrorCode::kNotFound, "no file").In(path));
  return std::make_unique<ModelReadFile>(this, *inode);
}

Result<std::unique_ptr<WriteFile>> ModelVfs::CreateNew(const std::string& path) {
  SLM_TRY(Call("create", path));
  if (Find(path)) return nullptr;
  const auto place = PlaceOf(path);
  if (!place) return Fail(MakeError(ErrorCode::kNotFound, "no directory").In(path));
  const size_t inode = NewInode(false);
  Do({Kind::kAddName, place->directory, place->name, inode, {}});
  return std::make_unique<ModelWriteFile>(this, inode);
}

Result<std::unique_ptr<WriteFile>> ModelVfs::OpenAppend(const std::string& path) {
  const auto inode = Find(path);
  if (!inode) return CreateNew(path);
  SLM_TRY(Call("open", path));
  return std::make_unique<ModelWriteFile>(this, *inode);
}

Result<bool> ModelVfs::IsInUse(const std::string& path) {
  SLM_TRY(Call("flock", path));
  const Inode* inode = At(path);
  return inode != nullptr && inode->is_in_use;
}

Result<bool> ModelVfs::RemoveUnlessInUse(const std::string& path) {
  SLM_ASSIGN(const bool is_in_use, IsInUse(path));
  if (is_in_use) return false;
  SLM_TRY(Remove(path));
  return true;
}

Status ModelVfs::MakeDirectory(const std::string& path) {
  SLM_TRY(Call("mkdir", path));
  if (Find(path)) return {};
  const auto place = PlaceOf(path);
  if (!place) return Fail(MakeError(ErrorCode::kNotFound, "no parent").In(path));
  const size_t inode = NewInode(true);
  Do({Kind::kAddName, place->directory, place->name, inode, {}});
  return {};
}

// Two independent changes of names, as a file system without a journal may keep them apart.
Status ModelVfs::Rename(const std::string& from, const std::string& to) {
  const auto source = PlaceOf(from);
  const auto target = PlaceOf(to);
  const auto inode = Find(from);
  if (!inode || !target) return Fail(MakeError(ErrorCode::kNotFound, "nothing to rename").In(from));
  Do({Kind::kAddName, target->directory, target->name, *inode, {}});
  Do({Kind::kRemoveName, source->directory, source->name, 0, {}});
  return {};
}

Result<bool> ModelVfs::Publish(const std::string& from, const std::string& to) {
  SLM_TRY(Call("rename", to));
  if (Find(to)) return false;
  SLM_TRY(Rename(from, to));
  return true;
}

Status ModelVfs::Replace(const std::string& from, const std::string& to) {
  SLM_TRY(Call("rename", to));
  return Rename(from, to);
}

Status ModelVfs::Remove(const std::string& path) {
  SLM_TRY(Call("unlink", path));
  const auto place = PlaceOf(path);
  if (Find(path)) Do({Kind::kRemoveName, place->directory, place->name, 0, {}});
  return {};
}

Status ModelVfs::Truncate(const std::string& path, uint64_t size) {
  SLM_TRY(Call("truncate", path));
  const auto inode = Find(path);
  if (!inode) return Fail(MakeError(ErrorCode::kNotFound, "no file").In(path));
  Do({Kind::kTruncate, *inode, {}, static_cast<size_t>(size), {}});
  return {};
}

Status ModelVfs::SyncDirectory(const std::string& path) {
  SLM_TRY(Call("fsync", path));
  const auto inode = Find(path);
  if (!inode) return Fail(MakeError(ErrorCode::kNotFound, "no directory").In(path));
  if (!ignore_directory_syncs_) Do({Kind::kSyncNames, *inode, {}, 0, {}});
  return {};
}

Result<std::unique_ptr<FileLock>> ModelVfs::Lock(const std::string& path) {
  SLM_TRY(Call("lock", path));
  if (is_locked_) return Fail(MakeError(ErrorCode::kStoreLocked, "held").In(path));
  if (!Find(path)) SLM_TRY(CreateNew(path));
  return std::make_unique<FileLock>();
}

}  // namespace slm::store
