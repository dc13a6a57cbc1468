// Files that a command writes: whole or not at all, and never in the place of a device or a link (ACQ-10).
#include "slm_file/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/tiny_source.h"

namespace slm {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

size_t CountEntries(const std::string& directory) {
  size_t n = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) n += entry.exists() ? 1u : 0u;
  return n;
}

// `promote` keeps its artifact so in the store's staging, where `fsck --repair` removes what has a name and
// no owner.
TEST(OutputFile, UnnamedIsReadByItsOwnerAndSeenByNobody) {
  const std::string directory = test::FreshDirectory("output-unnamed");
  std::string path;
  {
    const auto file = OutputFile::CreateUnnamed(directory);
    ASSERT_TRUE(file.has_value());
    EXPECT_TRUE(fs::is_empty(directory));
    ASSERT_TRUE((*file)->Append(AsBytes("contents")).has_value());
    path = (*file)->ReadPath();
    EXPECT_EQ(TextOf(path), "contents");
    ASSERT_TRUE((*file)->Publish().has_value());
    EXPECT_EQ(TextOf(path), "contents");
    EXPECT_TRUE(fs::is_empty(directory));
  }
  EXPECT_TRUE(fs::is_empty(directory));
  const auto nowhere = OutputFile::CreateUnnamed(directory + "/none");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
  EXPECT_EQ(nowhere.error().file, directory + "/none");
}

TEST(OutputFile, AppearsWhenPublishedAndNotBefore) {
  const std::string directory = test::FreshDirectory("output");
  const std::string path = directory + "/f";
  ASSERT_TRUE(WriteWholeFile(path, "old").has_value());
  {
    const auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE((*file)->Append(AsBytes("lost")).has_value());
    EXPECT_EQ(TextOf(path), "old");
  }
  EXPECT_EQ(TextOf(path), "old");
  EXPECT_EQ(CountEntries(directory), 1u);
  ASSERT_TRUE(WriteWholeFile(path, "new").has_value());
  EXPECT_EQ(TextOf(path), "new");
  EXPECT_EQ(CountEntries(directory), 1u);
}

// ACQ-10: what a killed writer left is removed by the next one; what another writer holds is not.
TEST(OutputFile, RemovesWhatAKilledWriterLeft) {
  const std::string directory = test::FreshDirectory("output-stale");
  const std::string path = directory + "/f";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto file = OutputFile::Create(path);
    if (file.has_value() && (*file)->Append(AsBytes("half")).has_value()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(CountEntries(directory), 1u);

  const auto first = OutputFile::Create(path);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(CountEntries(directory), 1u);  // its own, no longer the killed one's
  ASSERT_TRUE((*first)->Append(AsBytes("first")).has_value());
  ASSERT_TRUE(WriteWholeFile(path, "second").has_value());
  EXPECT_EQ(TextOf(path), "second");
  ASSERT_TRUE((*first)->Publish().has_value());  // held while the second came and went
  EXPECT_EQ(TextOf(path), "first");
  EXPECT_EQ(CountEntries(directory), 1u);
}

TEST(OutputFile, RemovesNothingElse) {
  const std::string directory = test::FreshDirectory("output-others");
  const std::string path = directory + "/f";
  for (const char* name : {"/g.partial-abcdef", "/f.partial-abcde", "/f.partial-abcdefg", "/f.partial-abc-ef",
                           "/f.partial", "/xf.partial-abcdef", "/outside"}) {
    std::ofstream(directory + name) << "kept";
  }
  fs::create_directory(directory + "/f.partial-folder");
  fs::create_symlink("outside", directory + "/f.partial-linked");
  ASSERT_EQ(mkfifo((directory + "/f.partial-fifo00").c_str(), 0600), 0);
  ASSERT_TRUE(WriteWholeFile(path, "new").has_value());
  EXPECT_EQ(CountEntries(directory), 11u);
}

TEST(OutputFile, KeepsThePermissionsOfWhatItReplaces) {
  const std::string path = test::FreshDirectory("output-mode") + "/f";
  ASSERT_TRUE(WriteWholeFile(path, "old").has_value());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(WriteWholeFile(path, "new").has_value());
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0640U);
}

TEST(OutputFile, FollowsLinks) {
  const std::string directory = test::FreshDirectory("output-link");
  fs::create_directory(directory + "/sub");
  fs::create_symlink("sub/target", directory + "/link");      // dangles at first
  fs::create_symlink(directory + "/link", directory + "/2");  // to a link
  for (const std::string_view text : {"first", "second"}) {
    ASSERT_TRUE(WriteWholeFile(directory + "/2", text).has_value());
    EXPECT_EQ(TextOf(directory + "/sub/target"), text);
    EXPECT_TRUE(fs::is_symlink(directory + "/link"));
    EXPECT_TRUE(fs::is_symlink(directory + "/2"));
  }
  fs::create_symlink("loop", directory + "/loop");
  const Status status = WriteWholeFile(directory + "/loop", "x");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_TRUE(fs::is_symlink(directory + "/loop"));
}

TEST(OutputFile, WritesThroughFifosAndDevices) {
  const std::string path = test::FreshDirectory("output-fifo") + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteWholeFile(path, "through").has_value());
  char text[16] = {};
  EXPECT_EQ(read(reader, text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_TRUE(WriteWholeFile("/dev/null", "x").has_value());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(OutputFile, AFullDeviceIsDiskFull) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Status status = WriteWholeFile("/dev/full", "x");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(status.error().file, "/dev/full");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(OutputFile, RefusesWhatIsNoPlaceForAFile) {
  const std::string directory = test::FreshDirectory("output-refused");
  ASSERT_TRUE(WriteWholeFile(directory + "/f", "x").has_value());
  for (const std::string& path : {directory, directory + "/absent/f", directory + "/f/g"}) {
    const Status status = WriteWholeFile(path, "x");
    ASSERT_FALSE(status.has_value()) << path;
    EXPECT_EQ(status.error().code, ErrorCode::kIo) << path;
    EXPECT_EQ(status.error().file, path);
  }
  EXPECT_EQ(CountEntries(directory), 1u);
}

}  // namespace
}  // namespace slm
