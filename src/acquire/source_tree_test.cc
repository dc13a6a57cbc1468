// ACQ-02, ACQ-03, ID-04: what a tree may hold, seen without following a link (A07, A08, A10, A11).
#include "acquire/source_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acquire/test_source.h"

namespace slm::acquire {
namespace {

class SourceTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto profile = LoadProfile("");
    ASSERT_TRUE(profile.has_value());
    profile_ = *std::move(profile);
    TestSource().WriteTo(folder_.Path());
  }
  Result<SourceTree> List() {
    SLM_ASSIGN(const FileDescriptor root, OpenTree(folder_.Path()));
    return ListTree(root, profile_);
  }
  void ExpectRefused(std::string_view code, std::string_view field) {
    const auto tree = List();
    ASSERT_FALSE(tree.has_value());
    EXPECT_EQ(tree.error().CodeText(), code) << tree.error().message;
    EXPECT_EQ(tree.error().field, field);
    EXPECT_EQ(tree.error().file, field);
  }
  TempFolder folder_;
  Profile profile_;
};

TEST_F(SourceTreeTest, Acq02ListsInOrderOfPathBytes) {
  WriteFile(folder_.Path(".git/HEAD"), "ref");
  WriteFile(folder_.Path("additional_chat_templates/rag.jinja"), "x");
  const auto tree = List();
  ASSERT_TRUE(tree.has_value()) << tree.error().ToString();
  std::vector<std::string> paths;
  for (const TreeEntry& entry : tree->entries) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"README.md", "additional_chat_templates/rag.jinja",
                                             "config.json", "generation_config.json", "model.safetensors",
                                             "tokenizer.json", "tokenizer_config.json"}));
  ASSERT_EQ(tree->ignored.size(), 1u);
  EXPECT_TRUE(tree->ignored[0].starts_with(".git/: "));
}

TEST_F(SourceTreeTest, Acq02A10SpecialFiles) {
  // Out of the tree, inside it, dangling, and to a folder: any link.
  for (const char* target : {"/etc/passwd", "config.json", "nowhere", "/etc"}) {
    ASSERT_EQ(symlink(target, folder_.Path("LICENSE").c_str()), 0);
    ExpectRefused("ACQ-KIND", "LICENSE");
    ASSERT_EQ(unlink(folder_.Path("LICENSE").c_str()), 0);
  }
  ASSERT_EQ(mkfifo(folder_.Path("NOTICE").c_str(), 0600), 0);
  ExpectRefused("ACQ-KIND", "NOTICE");
}

TEST_F(SourceTreeTest, Acq02A11ForbiddenFiles) {
  for (const char* name :
       {"modeling.py", "pytorch_model.bin", "x.pkl", "x.zip", "x.so", "sub/tool.py", "unknown.xyz"}) {
    WriteFile(folder_.Path(name), "x");
    ExpectRefused("ACQ-FORBIDDEN", name);
    std::filesystem::remove(folder_.Path(name));
  }
}

// Folders that are not read hold no code either; what the hub puts there stays ignored.
TEST_F(SourceTreeTest, Acq02ForbiddenFilesInIgnoredFolders) {
  for (const char* name :
       {"onnx/evil.py", "onnx/deep/er/pytorch_model.bin", "runs/x.so", "runs/lib.so.1", "onnx/X.PKL",
        ".git/hooks/a.sh", ".cache/huggingface/x.pickle", "onnx/.hidden.py", "onnx/b@d.py"}) {
    WriteFile(folder_.Path(name), "x");
    ExpectRefused("ACQ-FORBIDDEN", name);
    std::filesystem::remove(folder_.Path(name));
  }
  for (const char* name :
       {"onnx/model.onnx", "onnx/model.onnx_data", "onnx/config.json", "runs/Jan/events.out.tfevents.1",
        ".git/hooks/pre-commit.sample", ".git/objects/ab/cdef",
        ".cache/huggingface/download/pytorch_model.bin.metadata"}) {
    WriteFile(folder_.Path(name), "x");
  }
  const auto root = OpenTree(folder_.Path());
  ASSERT_TRUE(root.has_value());
  const auto tree = ListTree(*root, profile_);
  ASSERT_TRUE(tree.has_value()) << tree.error().ToString();
  EXPECT_EQ(tree->ignored.size(), 4u);
}

// `slm acquire .` makes its store in the source.
TEST_F(SourceTreeTest, Acq02TheStoreIsNoPartOfTheSource) {
  const auto root = OpenTree(folder_.Path());
  ASSERT_TRUE(root.has_value());
  const auto before = ListTree(*root, profile_);
  WriteFile(folder_.Path("my-store/blobs/00/x.unknown"), "x");
  ExpectRefused("ACQ-FORBIDDEN", "my-store/blobs/00/x.unknown");
  const auto store = FolderIdentityOf(folder_.Path("my-store"));
  ASSERT_TRUE(store.has_value());
  const auto tree = ListTree(*root, profile_, store);
  ASSERT_TRUE(tree.has_value()) << tree.error().ToString();
  EXPECT_EQ(tree->entries, before->entries);
  EXPECT_EQ(tree->ignored, before->ignored);
  EXPECT_FALSE(FolderIdentityOf(folder_.Path("nothing")).has_value());
}

TEST_F(SourceTreeTest, Acq03Limits) {
  profile_.limits.max_files = 5;
  ExpectRefused("ACQ-LIMIT", "tokenizer_config.json");
  profile_.limits.max_files = 512;
  profile_.limits.max_file_bytes = 32;
  ExpectRefused("ACQ-LIMIT", "config.json");
  profile_.limits.max_file_bytes = 1000000;
  profile_.limits.max_total_bytes = 100;
  ExpectRefused("ACQ-LIMIT", "config.json");
  profile_.limits.max_total_bytes = 1000000;
  WriteFile(folder_.Path("a/b/c/d/e/f/g.md"), "x");
  ExpectRefused("ACQ-LIMIT", "a/b/c/d/e/f/g.md");
}

TEST_F(SourceTreeTest, Acq03HugeSparseFileIsRefusedUnread) {
  ASSERT_EQ(truncate(folder_.Path("model.safetensors").c_str(), (off_t{8} << 30) + 1), 0);
  ExpectRefused("ACQ-LIMIT", "model.safetensors");
}

TEST_F(SourceTreeTest, Id04NamesThatAreNotUtf8) {
  WriteFile(folder_.Path("bad\xff.md"), "x");
  const auto tree = List();
  ASSERT_FALSE(tree.has_value());
  EXPECT_EQ(tree.error().CodeText(), "ACQ-PATH-UTF8");
  EXPECT_EQ(tree.error().byte_offset, 3u);
}

TEST_F(SourceTreeTest, Acq02A07Collisions) {
  WriteFile(folder_.Path("readme.md"), "x");
  ExpectRefused("ACQ-PATH-COLLISION", "readme.md");
}

TEST(SourcePathTest, Acq02A08Paths) {
  const TreeLimits limits{.max_files = 1,
                          .max_file_bytes = 1,
                          .max_total_bytes = 1,
                          .max_depth = 6,
                          .max_path_bytes = 512,
                          .max_text_bytes = 1};
  using namespace std::string_view_literals;
  for (std::string_view bad : {"../x"sv, "/x"sv, "a\\b"sv, "a//b"sv, "a/./b"sv, "a/../b"sv, "C:x"sv, "a\0b"sv,
                               ""sv, "a/"sv, "."sv, ".."sv, "a\nb"sv, "a\x7f"sv, "a\xc2\x85"sv}) {
    const Status status = CheckPath(bad, limits);
    ASSERT_FALSE(status.has_value()) << bad;
    EXPECT_EQ(status.error().CodeText(), "ACQ-PATH") << bad;
  }
  EXPECT_EQ(CheckPath("a\xed\xa0\x80", limits).error().CodeText(), "ACQ-PATH-UTF8");  // a surrogate (A09)
  EXPECT_EQ(CheckPath("a\xed\xa0\x80", limits).error().byte_offset, 1u);
  EXPECT_EQ(CheckPath(std::string(513, 'a'), limits).error().CodeText(), "ACQ-LIMIT");
  EXPECT_EQ(CheckPath("a/b/c/d/e/f/g", limits).error().CodeText(), "ACQ-LIMIT");
  EXPECT_TRUE(CheckPath("a/b/c/d/e/f", limits).has_value());
  EXPECT_TRUE(CheckPath("...", limits).has_value());
}

TEST(SourcePathTest, Acq02A07CollisionKeys) {
  const std::pair<std::string, std::string> same[] = {
      {"README.md", "readme.MD"},
      {"caf\xc3\xa9", "cafe\xcc\x81"},                           // composed and decomposed
      {"\xc3\x89t", "e\xcc\x81t"},                               // and in another case
      {"\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"},  // a Hangul syllable and its jamo
      {"a\xcc\xa3\xcc\x87", "a\xcc\x87\xcc\xa3"},                // marks in another order
      {"x/name.", "x/name"},
      {"x./y", "x/y"}};
  for (const auto& [a, b] : same) {
    EXPECT_EQ(CollisionKey(a), CollisionKey(b)) << a;
    EXPECT_EQ(CheckCollisions({a, b}).error().CodeText(), "ACQ-PATH-COLLISION");
  }
  EXPECT_NE(CollisionKey("a"), CollisionKey("b"));
  EXPECT_NE(CollisionKey("cafe"), CollisionKey("caf\xc3\xa9"));
  EXPECT_TRUE(CheckCollisions({"a", "b", "c"}).has_value());
}

TEST_F(SourceTreeTest, Acq12AFileThatBecameALink) {
  const auto root = OpenTree(folder_.Path());
  ASSERT_TRUE(root.has_value());
  const auto tree = ListTree(*root, profile_);
  ASSERT_TRUE(tree.has_value());
  const TreeEntry& entry = tree->entries[1];
  std::filesystem::remove(folder_.Path(entry.path));
  EXPECT_EQ(OpenEntry(*root, entry).error().CodeText(), "ACQ-CHANGED");
  ASSERT_EQ(symlink("README.md", folder_.Path(entry.path).c_str()), 0);
  EXPECT_EQ(OpenEntry(*root, entry).error().CodeText(), "ACQ-KIND");
}

}  // namespace
}  // namespace slm::acquire
