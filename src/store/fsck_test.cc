#include "store/fsck.h"

#include <gtest/gtest.h>

#include "codec/sha256.h"
#include "store/layout.h"
#include "store/model_vfs.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

class StoreFsck : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RunScenario(vfs_).has_value());
    const auto store = Store::OpenOn(vfs_, kRoot).value();
    parent_ = store->ReadLog()->back().nodes[0];
    const Node node = store->GetNode(parent_).value();
    child_ = *node.Child("first");
    blob_ = BlobsOf(store->GetNode(child_).value())[0];
  }
  FsckReport Report(const FsckOptions& options = {}) { return FsckOn(vfs_, kRoot, options).value(); }
  // "CODE path; CODE path"
  std::string Problems(const FsckOptions& options = {}) {
    std::string text;
    for (const FsckProblem& problem : Report(options).problems) {
      text += (text.empty() ? "" : "; ") + std::string(Info(problem.code).name) + " " + problem.path_or_id;
    }
    return text;
  }
  std::string Relative(const std::string& path) const { return layout_.Relative(path); }
  Hash256 AddNodeFile(const Bytes& preimage, const Hash256& name) {
    EXPECT_TRUE(vfs_.MakeDirectory(layout_.Nodes() + "/" + ToHex(name).substr(0, 2)).has_value());
    vfs_.AddFile(layout_.Node(name), preimage);
    return name;
  }

  ModelVfs vfs_;
  const Layout layout_{kRoot};
  Hash256 parent_{};
  Hash256 child_{};
  Hash256 blob_{};
};

TEST_F(StoreFsck, CleanStore) {
  const FsckReport report = Report();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.notes.empty());
  EXPECT_EQ(report.n_blobs, 4u);
  EXPECT_EQ(report.n_nodes, 7u);
  EXPECT_EQ(report.n_log_records, 3u);
}

// K01: content that differs from the name, one flipped bit anywhere.
TEST_F(StoreFsck, DamagedBlob) {
  Bytes& contents = vfs_.Contents(layout_.Blob(blob_));
  for (const size_t at : {size_t{0}, contents.size() / 2, contents.size() - 1}) {
    contents[at] ^= 4;
    EXPECT_EQ(Problems(), "FSCK-HASH " + Relative(layout_.Blob(blob_)));
    EXPECT_EQ(Problems({.quick = true, .repair = false}), "") << "a quick check does not read blobs";
    contents[at] ^= 4;
  }
  contents.pop_back();
  EXPECT_EQ(Problems({.quick = false, .repair = true}), "FSCK-HASH " + Relative(layout_.Blob(blob_)));
  EXPECT_EQ(vfs_.Contents(layout_.Blob(blob_)).size(), 1504u) << "repair leaves damage as it is";
}

TEST_F(StoreFsck, DamagedNode) {
  vfs_.Contents(layout_.Node(parent_)).back() ^= 1;  // the second child's id
  EXPECT_EQ(Problems(), "FSCK-HASH " + Relative(layout_.Node(parent_)) + "; GRAPH-MISSING-CHILD " +
                            Relative(layout_.Node(parent_)));
  EXPECT_EQ(Problems({.quick = true, .repair = false}), Problems())
      << "nodes are hashed in a quick check too";
}

TEST_F(StoreFsck, DamageIsReportedByEveryReader) {
  vfs_.Contents(layout_.Blob(blob_))[0] ^= 1;
  vfs_.Contents(layout_.Node(child_)).back() ^= 1;
  const auto store = Store::OpenOn(vfs_, kRoot).value();
  EXPECT_EQ(store->ReadBlob(blob_, 10000).error().CodeText(), "FSCK-HASH");
  EXPECT_EQ(store->VerifyBlob(blob_).error().CodeText(), "FSCK-HASH");
  EXPECT_EQ(store->GetNode(child_).error().CodeText(), "FSCK-HASH");
  // Putting the same content again does not replace the damaged file in silence.
  EXPECT_EQ(store->PutBlob(AsBytes("three" + std::string(1500, '.'))).error().CodeText(), "FSCK-HASH");
  EXPECT_EQ(store->PutNode(LeafNode("three", blob_)).error().CodeText(), "FSCK-HASH");
  EXPECT_NE(AsText(vfs_.Contents(layout_.Blob(blob_))), "three" + std::string(1500, '.'));
}

// K02: a child, a named node, or a blob that is not there.
TEST_F(StoreFsck, MissingChild) {
  ASSERT_TRUE(vfs_.Remove(layout_.Node(child_)).has_value());
  EXPECT_EQ(Problems(), "GRAPH-MISSING-CHILD " + Relative(layout_.Node(parent_)));
}
TEST_F(StoreFsck, MissingRoot) {
  ASSERT_TRUE(vfs_.Remove(layout_.Node(parent_)).has_value());
  const auto records = Store::OpenOn(vfs_, kRoot).value()->ReadLog().value();
  EXPECT_EQ(Problems(), "GRAPH-MISSING-CHILD log/000001.slog:" + std::to_string(records.back().byte_offset));
}
TEST_F(StoreFsck, MissingBlob) {
  ASSERT_TRUE(vfs_.Remove(layout_.Blob(blob_)).has_value());
  EXPECT_EQ(Problems(), "GRAPH-MISSING-CHILD " + Relative(layout_.Node(child_)));
}

// K03: a cycle needs forged names, and both faults are reported.
TEST_F(StoreFsck, ForgedCycle) {
  Hash256 a;
  a.fill(0xAA);
  Hash256 b;
  b.fill(0xBB);
  AddNodeFile(EncodeNode(Node{"run", {{"schema", "s"}}, {{"next", b}}}), a);
  AddNodeFile(EncodeNode(Node{"run", {{"schema", "s"}}, {{"next", a}}}), b);
  const std::string problems = Problems();
  EXPECT_NE(problems.find("GRAPH-CYCLE " + Relative(layout_.Node(a))), std::string::npos) << problems;
  EXPECT_NE(problems.find("FSCK-HASH " + Relative(layout_.Node(a))), std::string::npos) << problems;
  EXPECT_NE(problems.find("FSCK-HASH " + Relative(layout_.Node(b))), std::string::npos) << problems;
}

TEST_F(StoreFsck, NodeThatLoopsToItself) {
  Hash256 a;
  a.fill(0xAA);
  AddNodeFile(EncodeNode(Node{"run", {{"schema", "s"}}, {{"next", a}}}), a);
  EXPECT_NE(Problems().find("GRAPH-CYCLE"), std::string::npos);
}

TEST_F(StoreFsck, SharedChildrenAreNoCycle) {  // a diamond, and a long chain without recursion
  const auto store = Store::OpenOn(vfs_, kRoot).value();
  Hash256 below = store->PutNode(Node{"run", {{"schema", "s"}}, {}}).value();
  for (int i = 0; i < 3000; ++i) {
    below = store->PutNode(Node{"run", {{"schema", "s"}, {"n", i}}, {{"a", below}, {"b", below}}}).value();
  }
  ASSERT_TRUE(store->AppendLog("chain", std::span(&below, 1)).has_value());
  EXPECT_EQ(Problems(), "");
  EXPECT_EQ(Report().n_nodes, 3008u);
}

TEST_F(StoreFsck, NodeOfTheWrongForm) {
  for (const auto& [preimage, code] : {std::pair<std::string, std::string>{"hello", "NODE-DOMAIN"},
                                       {std::string(kNodeDomain) + "thing\xA0", "NODE-TYPE"},
                                       {std::string(kNodeDomain) + "run\xA0", "SCHEMA-MISSING"},
                                       {std::string(kNodeDomain) + "run\xA1\x66schema\x61s", "NODE-EDGES"}}) {
    ModelVfs fresh;
    ASSERT_TRUE(RunScenario(fresh).has_value());
    const Hash256 name = Sha256Of(AsBytes(preimage));
    ASSERT_TRUE(fresh.MakeDirectory(layout_.Nodes() + "/" + ToHex(name).substr(0, 2)).has_value());
    fresh.AddFile(layout_.Node(name), Bytes(preimage.begin(), preimage.end()));
    const FsckReport report = FsckOn(fresh, kRoot, {}).value();
    ASSERT_EQ(report.problems.size(), 1u) << code;
    EXPECT_EQ(Info(report.problems[0].code).name, code);
  }
}

TEST_F(StoreFsck, StrangeNames) {
  const std::string shard = layout_.Objects() + "/" + ToHex(blob_).substr(0, 2);
  vfs_.AddFile(shard + "/README", Bytes{1});
  EXPECT_EQ(Problems(), "FSCK-HASH " + Relative(shard + "/README"));
}
TEST_F(StoreFsck, ObjectInTheWrongDirectory) {
  const Hash256 hash = Sha256Of(AsBytes("x"));
  ASSERT_NE(ToHex(hash).substr(0, 2), "00");
  ASSERT_TRUE(vfs_.MakeDirectory(layout_.Objects() + "/00").has_value());
  vfs_.AddFile(layout_.Objects() + "/00/" + ToHex(hash), Bytes{'x'});
  EXPECT_EQ(Problems(), "FSCK-HASH objects/sha256/00/" + ToHex(hash));
}

TEST_F(StoreFsck, StagingIsGarbageUnlessInUse) {
  vfs_.AddFile("/s/staging/old", Bytes(10));
  vfs_.AddFile("/s/staging/live", Bytes(10));
  vfs_.MarkInUse("/s/staging/live");
  FsckReport report = Report();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.notes.size(), 2u);
  report = Report({.quick = false, .repair = true});
  EXPECT_EQ(report.n_staging_removed, 1u);
  EXPECT_EQ(vfs_.List("/s/staging").value(), std::vector<std::string>{"live"});
}

// Nodes are staged under the store's lock and marked by nothing else: repair waits for whoever holds it.
TEST_F(StoreFsck, RepairTakesNothingFromWhoeverHoldsTheLock) {
  vfs_.AddFile("/s/staging/node", Bytes(10));
  vfs_.HoldLock();
  const auto report = FsckOn(vfs_, kRoot, {.quick = false, .repair = true});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kStoreLocked);
  EXPECT_EQ(vfs_.List("/s/staging").value(), std::vector<std::string>{"node"});
}

TEST_F(StoreFsck, UnloggedNodesAreANote) {
  const Bytes preimage = EncodeNode(Node{"run", {{"schema", "s"}}, {{"gone", Hash256{9}}}});
  AddNodeFile(preimage, Sha256Of(preimage));
  const FsckReport report = Report();
  EXPECT_TRUE(report.problems.empty()) << "a crash between publishing and logging leaves such nodes";
  EXPECT_EQ(report.notes, std::vector<std::string>{"1 nodes that no log record reaches"});
  EXPECT_FALSE(Store::OpenOn(vfs_, kRoot).value()->HasNode(Sha256Of(preimage)));
}

TEST_F(StoreFsck, LostModeIsANote) {
  vfs_.SetWritable(layout_.Blob(blob_));
  const FsckReport report = Report();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.notes.size(), 1u);
}

// --- what belongs to a store, and what does not ---

TEST_F(StoreFsck, ForeignFilesAreFound) {
  for (const char* path : {"/s/notes.txt", "/s/objects/extra", "/s/log/000002.slog", "/s/refs/old"}) {
    vfs_.AddFile(path, Bytes(3));
    EXPECT_EQ(Problems({.quick = false, .repair = true}), "FSCK-LAYOUT " + Relative(path));
    EXPECT_EQ(vfs_.Contents(path).size(), 3u) << "repair removes nothing that is not the store's";
    ASSERT_TRUE(vfs_.Remove(path).has_value());
  }
  ASSERT_TRUE(vfs_.MakeDirectory("/s/objects/sha512").has_value());
  ASSERT_TRUE(vfs_.MakeDirectory("/s/staging/folder").has_value());
  EXPECT_EQ(Problems({.quick = false, .repair = true}),
            "FSCK-LAYOUT objects/sha512; FSCK-LAYOUT staging/folder");
}

TEST_F(StoreFsck, LostVersionFile) {
  ASSERT_TRUE(vfs_.Remove("/s/version").has_value());
  EXPECT_EQ(Problems(), "FSCK-LAYOUT version");
  EXPECT_EQ(Store::OpenOn(vfs_, kRoot).error().CodeText(), "FSCK-LAYOUT") << "not made anew in silence";
  EXPECT_EQ(Problems({.quick = false, .repair = true}), "FSCK-LAYOUT version");
  EXPECT_EQ(Problems(), "");
  EXPECT_TRUE(Store::OpenOn(vfs_, kRoot).has_value());
}

TEST_F(StoreFsck, LostVersionWithAnythingLeft) {  // the log alone, objects alone, the head alone
  for (const char* kept : {"/s/log/000001.slog", "/s/refs/head", "/s/nodes/00", "/s/objects/sha256/00"}) {
    ModelVfs vfs;
    const Layout layout{kRoot};
    for (const std::string& directory : layout.Directories())
      ASSERT_TRUE(vfs.MakeDirectory(directory).has_value());
    EXPECT_TRUE(FsckOn(vfs, kRoot, {})->problems.empty()) << "the beginnings of a store";
    vfs.AddFile(kept, Bytes());
    const auto report = FsckOn(vfs, kRoot, {});
    ASSERT_TRUE(report.has_value()) << kept;
    ASSERT_FALSE(report->problems.empty()) << kept;
    EXPECT_EQ(report->problems[0].path_or_id, "version");
  }
}

TEST_F(StoreFsck, AbsentDirectory) {
  vfs_.AddFile("/s/staging/old", Bytes(1));
  ASSERT_TRUE(vfs_.Remove("/s/staging/old").has_value());
  ASSERT_TRUE(vfs_.Remove("/s/staging").has_value());
  EXPECT_EQ(Problems(), "FSCK-LAYOUT staging");
  EXPECT_EQ(Problems({.quick = false, .repair = true}), "FSCK-LAYOUT staging");
  EXPECT_EQ(Problems(), "");
}

TEST(StoreFsckMissing, NoStoreCannotBeChecked) {
  ModelVfs vfs;
  EXPECT_EQ(FsckOn(vfs, kRoot, {}).error().CodeText(), "NOT-FOUND");
  vfs.AddFile("/file", Bytes(3));
  EXPECT_EQ(FsckOn(vfs, "/file", {}).error().CodeText(), "STORE-VERSION");
}

}  // namespace
}  // namespace slm::store
