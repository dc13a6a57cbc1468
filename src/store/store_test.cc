#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codec/sha256.h"
#include "store/fsck.h"
#include "store/model_vfs.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

namespace fs = std::filesystem;

// On real files, in a directory that is removed afterwards.
class StoreOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "slm_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    directory_ = base_ + "/store";
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(base_, ignored);
  }
  std::unique_ptr<Store> Open(const StoreOptions& options = {}) {
    auto store = Store::Open(directory_, options);
    EXPECT_TRUE(store.has_value()) << store.error().ToString();
    return std::move(store).value();
  }
  std::string base_;
  std::string directory_;
};

TEST_F(StoreOnDisk, BlobIsAFileNamedByItsHash) {
  const auto store = Open();
  const std::string text = "blob content";
  const Hash256 hash = store->PutBlob(AsBytes(text)).value();
  EXPECT_EQ(hash, Sha256Of(AsBytes(text)));
  const std::string hex = ToHex(hash);
  const std::string path = store->BlobPath(hash).value();
  EXPECT_EQ(path, directory_ + "/objects/sha256/" + hex.substr(0, 2) + "/" + hex);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0444));
  EXPECT_EQ(AsText(store->ReadBlob(hash, 100).value()), text);
  EXPECT_EQ(store->ReadBlob(hash, 5).error().CodeText(), "LIMIT");
  EXPECT_TRUE(store->VerifyBlob(hash).has_value());
  EXPECT_TRUE(store->HasBlob(hash));
  EXPECT_TRUE(fs::is_empty(directory_ + "/staging"));
}

// ID-01: `sha256sum FILE` prints the node's id.
TEST_F(StoreOnDisk, NodeFileIsItsPreimage) {
  const auto store = Open();
  const Node node{"attempt", {{"schema", "slm.test.v1"}}, {}};
  const Hash256 id = store->PutNode(node).value();
  ASSERT_TRUE(store->AppendLog("test", std::span(&id, 1)).has_value());
  const std::string hex = ToHex(id);
  const std::string path = directory_ + "/nodes/" + hex.substr(0, 2) + "/" + hex;
  const std::string out = base_ + "/sum";
  ASSERT_EQ(std::system(("sha256sum " + path + " > " + out).c_str()), 0);
  std::string printed;
  std::ifstream(out) >> printed;
  EXPECT_EQ(printed, hex);
  EXPECT_EQ(store->GetNode(id).value(), node);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0444));
}

// ID-01: blobs and nodes live apart.
// A place that cannot be written is a fault of the environment (exit status 4), not of the input.
TEST(StoreEnvironment, UnwritablePlaces) {
  for (const char* place :
       {"/proc/slm-none", "/proc/slm-none/store", "/nonexistent-slm/a/store", "/dev/null/x"}) {
    const auto store = Store::Open(place, {});
    ASSERT_FALSE(store.has_value()) << place;
    EXPECT_EQ(store.error().CodeText(), "IO") << place;
    EXPECT_EQ(Info(store.error().code).area, ErrorArea::kEnvironment) << place;
  }
}

TEST_F(StoreOnDisk, LinksAndPipesAreNeverFollowed) {
  (void)Open()->PutBlob(AsBytes("x")).value();
  ASSERT_EQ(mkfifo((directory_ + "/staging/pipe").c_str(), 0600), 0);
  auto report = Fsck(directory_, {.quick = false, .repair = true});  // must not hang on the pipe
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].path_or_id, "staging/pipe");
  EXPECT_TRUE(fs::exists(directory_ + "/staging/pipe"));
  fs::remove(directory_ + "/staging/pipe");
  fs::rename(directory_ + "/objects", base_ + "/elsewhere");
  fs::create_directory_symlink(base_ + "/elsewhere", directory_ + "/objects");
  EXPECT_EQ(Store::Open(directory_, {}).error().CodeText(), "FSCK-LAYOUT");
  report = Fsck(directory_, {.quick = false, .repair = true});
  ASSERT_TRUE(report.has_value());
  ASSERT_FALSE(report->problems.empty());
  EXPECT_EQ(report->problems[0].code, ErrorCode::kFsckLayout);
  EXPECT_EQ(report->problems[0].path_or_id, "objects");
  EXPECT_TRUE(fs::is_symlink(directory_ + "/objects"));
}

TEST_F(StoreOnDisk, AStoreIsReachedByALink) {
  const Hash256 hash = Open()->PutBlob(AsBytes("x")).value();
  fs::create_directory_symlink(directory_, base_ + "/link");
  for (const char* name : {"/link", "/link/"}) {
    const auto store = Store::Open(base_ + name, {.create = false, .read_only = true});
    ASSERT_TRUE(store.has_value()) << store.error().ToString();
    EXPECT_TRUE((*store)->HasBlob(hash));
    const auto report = Fsck(base_ + name, {.quick = false, .repair = false});
    ASSERT_TRUE(report.has_value());
    EXPECT_TRUE(report->problems.empty());
  }
  fs::create_directory_symlink(base_ + "/nothing", base_ + "/lost");
  EXPECT_FALSE(Store::Open(base_ + "/lost", {}).has_value());
  EXPECT_FALSE(fs::exists(base_ + "/nothing"));
}

TEST_F(StoreOnDisk, BlobThatLooksLikeANodeIsNone) {
  const auto store = Open();
  const Node node{"attempt", {{"schema", "slm.test.v1"}}, {}};
  const Hash256 hash = store->PutBlob(EncodeNode(node)).value();
  EXPECT_EQ(hash, NodeId(node));
  EXPECT_FALSE(store->HasNode(hash));
  EXPECT_EQ(store->GetNode(hash).error().CodeText(), "NOT-FOUND");
  EXPECT_EQ(store->AppendLog("test", std::span(&hash, 1)).error().CodeText(), "GRAPH-MISSING-CHILD");
}

TEST_F(StoreOnDisk, StreamedBlob) {
  const auto store = Open();
  std::string all;
  const auto writer = store->NewBlob().value();
  for (int i = 0; i < 1000; ++i) {
    const std::string piece = std::to_string(i) + std::string(static_cast<size_t>(i), 'x');
    ASSERT_TRUE(writer->Append(AsBytes(piece)).has_value());
    all += piece;
  }
  EXPECT_EQ(writer->size(), all.size());
  EXPECT_EQ(writer->Commit().value(), Sha256Of(AsBytes(all)));
  const Hash256 empty = store->PutBlob({}).value();
  EXPECT_EQ(empty, Sha256Of({}));
  EXPECT_TRUE(store->ReadBlob(empty, 0)->empty());
}

TEST_F(StoreOnDisk, AbandonedBlobLeavesNothing) {
  const auto store = Open();
  {
    const auto writer = store->NewBlob().value();
    ASSERT_TRUE(writer->Append(AsBytes("half")).has_value());
    EXPECT_FALSE(fs::is_empty(directory_ + "/staging"));
    const FsckReport report = Fsck(directory_, {.quick = false, .repair = true}).value();
    EXPECT_EQ(report.n_staging_removed, 0u) << "a file that is being written is left alone";
  }
  EXPECT_TRUE(fs::is_empty(directory_ + "/staging"));
  EXPECT_FALSE(store->HasBlob(Sha256Of(AsBytes("half"))));
}

TEST_F(StoreOnDisk, PuttingTwiceIsIdempotent) {
  const auto store = Open();
  const Hash256 first = DoTransaction(*store, "one").value();
  EXPECT_EQ(DoTransaction(*store, "one").value(), first);
  EXPECT_EQ(store->ReadLog()->size(), 1u);
  const Node node = store->GetNode(first).value();
  EXPECT_EQ(store->PutNode(node).value(), first);
  ASSERT_TRUE(store->AppendLog("again", std::span(&first, 1)).has_value());
  const auto reopened = Open({.create = false, .read_only = true});
  EXPECT_EQ(reopened->ReadLog()->size(), 2u);
  EXPECT_EQ(reopened->GetNode(first).value(), node);
}

TEST_F(StoreOnDisk, ReadOnlyStoreRefusesWrites) {
  EXPECT_EQ(Store::Open(directory_, {.create = true, .read_only = true}).error().CodeText(), "NOT-FOUND");
  EXPECT_EQ(Store::Open(directory_, {.create = false, .read_only = false}).error().CodeText(), "NOT-FOUND");
  EXPECT_FALSE(fs::exists(directory_));
  static_cast<void>(Open());
  const auto store = Open({.create = false, .read_only = true});
  EXPECT_EQ(store->PutBlob({}).error().CodeText(), "IO");
  EXPECT_EQ(store->PutNode(Node{"attempt", {{"schema", "s"}}, {}}).error().CodeText(), "IO");
  EXPECT_EQ(store->AppendLog("k", {}).error().CodeText(), "IO");
}

TEST_F(StoreOnDisk, ForeignDirectoriesAreRefused) {
  fs::create_directory(directory_);
  std::ofstream(directory_ + "/thesis.tex") << "do not touch";
  EXPECT_EQ(Store::Open(directory_, {}).error().CodeText(), "STORE-VERSION");
  EXPECT_EQ(Fsck(directory_, {}).error().CodeText(), "STORE-VERSION");
  fs::remove(directory_ + "/thesis.tex");
  static_cast<void>(Open());
  std::ofstream(directory_ + "/version") << "slm-store-v2\n";
  EXPECT_EQ(Store::Open(directory_, {}).error().CodeText(), "STORE-VERSION");
  EXPECT_EQ(Store::Open(directory_ + "/version", {}).error().CodeText(), "STORE-VERSION");
  EXPECT_EQ(Store::Open("", {}).error().CodeText(), "USAGE");
}

TEST_F(StoreOnDisk, SymlinksAreNotFollowed) {
  const auto store = Open();
  const Hash256 hash = store->PutBlob(AsBytes("x")).value();
  const std::string path = store->BlobPath(hash).value();
  fs::rename(path, base_ + "/elsewhere");
  fs::create_symlink(base_ + "/elsewhere", path);
  EXPECT_FALSE(store->HasBlob(hash));
  EXPECT_FALSE(store->ReadBlob(hash, 10).has_value());
  ASSERT_EQ(Fsck(directory_, {}).value().problems.size(), 1u);
}

TEST_F(StoreOnDisk, TrailingSlashesAreTheSameStore) {
  const auto store = Store::Open(directory_ + "//", {}).value();
  const Hash256 hash = store->PutBlob(AsBytes("x")).value();
  EXPECT_EQ(store->BlobPath(hash).value(), Open()->BlobPath(hash).value());
}

class StoreInMemory : public testing::Test {
 protected:
  ModelVfs vfs_;
  std::unique_ptr<Store> store_ = Store::OpenOn(vfs_, kRoot).value();
};

TEST_F(StoreInMemory, NodesAreVisibleOnlyOnceLogged) {
  const Hash256 leaf = store_->PutNode(Node{"run", {{"schema", "s"}, {"n", 1}}, {}}).value();
  const Hash256 parent = store_->PutNode(Node{"run", {{"schema", "s"}, {"n", 2}}, {{"child", leaf}}}).value();
  const auto other = Store::OpenOn(vfs_, kRoot).value();
  EXPECT_TRUE(store_->HasNode(leaf)) << "its own writer sees it";
  EXPECT_TRUE(store_->GetNode(parent).has_value());
  EXPECT_FALSE(other->HasNode(leaf));
  EXPECT_EQ(other->GetNode(parent).error().CodeText(), "NOT-FOUND");
  ASSERT_TRUE(store_->AppendLog("k", std::span(&parent, 1)).has_value());
  EXPECT_TRUE(other->HasNode(leaf)) << "reached from the node that the record names";
  EXPECT_TRUE(other->GetNode(parent).has_value());
  EXPECT_EQ(store_->ReadLog()->back().nodes, std::vector<Hash256>{parent});
}

TEST_F(StoreInMemory, PutNodesThatNothingReachesAreNamedToo) {
  const Hash256 named = store_->PutNode(Node{"run", {{"schema", "s"}, {"n", 1}}, {}}).value();
  const Hash256 leaf = store_->PutNode(Node{"run", {{"schema", "s"}, {"n", 2}}, {}}).value();
  const Hash256 loose = store_->PutNode(Node{"run", {{"schema", "s"}, {"n", 3}}, {{"child", leaf}}}).value();
  ASSERT_TRUE(store_->AppendLog("k", std::span(&named, 1)).has_value());
  EXPECT_EQ(store_->ReadLog()->back().nodes, (std::vector<Hash256>{named, loose}));
  EXPECT_TRUE(Store::OpenOn(vfs_, kRoot).value()->HasNode(leaf));
}

TEST_F(StoreInMemory, NothingIsLoggedThatIsNotThere) {
  Hash256 absent;
  absent.fill(1);
  EXPECT_EQ(store_->AppendLog("k", std::span(&absent, 1)).error().CodeText(), "GRAPH-MISSING-CHILD");
  static_cast<void>(store_->PutNode(Node{"run", {{"schema", "s"}}, {{"child", absent}}}).value());
  const Status child = store_->AppendLog("k", {});
  EXPECT_EQ(child.error().CodeText(), "GRAPH-MISSING-CHILD");
  EXPECT_EQ(child.error().field, "child");
  const auto other = Store::OpenOn(vfs_, kRoot).value();
  static_cast<void>(other
                        ->PutNode(Node{"run",
                                       {{"schema", "s"},
                                        {"deep", cbor::Array{cbor::Map{{"the_blobs", cbor::Array{absent}}}}}},
                                       {}})
                        .value());
  EXPECT_EQ(other->AppendLog("k", {}).error().field, "blob");
  EXPECT_EQ(vfs_.Stat("/s/log/000001.slog")->kind, FileKind::kNone) << "nothing was written";
}

TEST_F(StoreInMemory, NodesThatCouldNotBeReadBackAreRefused) {
  EXPECT_EQ(store_->PutNode(Node{"thing", {{"schema", "s"}}, {}}).error().CodeText(), "NODE-TYPE");
  EXPECT_EQ(store_->PutNode(Node{"run", {}, {}}).error().CodeText(), "SCHEMA-MISSING");
  EXPECT_EQ(
      store_->PutNode(Node{"run", {{"schema", "s"}, {"name", std::string("\xFF")}}, {}}).error().CodeText(),
      "BAD_UTF8");
  cbor::Value deep;
  for (int i = 0; i < 20; ++i) deep = cbor::Array{deep};
  EXPECT_EQ(store_->PutNode(Node{"run", {{"schema", "s"}, {"deep", deep}}, {}}).error().CodeText(),
            "LIMIT_DEPTH");
  EXPECT_EQ(store_->AppendLog("", {}).error().CodeText(), "SCHEMA-VALUE");
  EXPECT_EQ(store_->AppendLog("recovered", {}).error().CodeText(), "SCHEMA-VALUE");
}

TEST_F(StoreInMemory, FindByPrefix) {
  std::vector<Hash256> ids;
  for (int i = 0; i < 40; ++i)
    ids.push_back(store_->PutNode(Node{"run", {{"schema", "s"}, {"n", i}}, {}}).value());
  ASSERT_TRUE(store_->AppendLog("k", ids).has_value());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(store_->FindByPrefix("").value(), ids);
  for (const Hash256& id : ids) {
    EXPECT_EQ(store_->FindByPrefix(ToHex(id)).value(), std::vector<Hash256>{id});
    const std::vector<Hash256> matches = store_->FindByPrefix(ToHex(id).substr(0, 1)).value();
    for (const Hash256& found : matches) {
      EXPECT_EQ(ToHex(found)[0], ToHex(id)[0]);
    }
  }
  EXPECT_EQ(store_->FindByPrefix("ABC").error().CodeText(), "USAGE");
  EXPECT_EQ(store_->FindByPrefix(std::string(65, 'a')).error().CodeText(), "USAGE");
}

}  // namespace
}  // namespace slm::store
