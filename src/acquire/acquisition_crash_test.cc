// ACQ-04, ACQ-10: memory stays flat, and a process killed at any moment leaves a clean store in
// which a rerun completes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "acquire/acquisition.h"
#include "acquire/test_source.h"
#include "store/fsck.h"

namespace slm::acquire {
namespace {

DirectoryRequest Request(const std::string& directory) {
  return {.directory = directory,
          .name = "n",
          .revision = "r",
          .profile_path = "",
          .decision_paths = {},
          .accept_conflict_paths = {},
          .on_progress = {}};
}

// Runs one acquisition; the id, or an empty text with the error on standard error.
std::string Acquire(const std::string& store_path, const DirectoryRequest& request) {
  const auto store = Store::Open(store_path);
  if (!store) return "";
  const auto acquisition = AcquireDirectory(**store, request);
  if (!acquisition) {
    std::cerr << acquisition.error().ToString() << "\n";
    return "";
  }
  return ToHex(acquisition->id);
}

TestSource LargeSource(uint64_t elements) {
  TestSource source;
  source.weights = Safetensors({{"model.embed_tokens.weight", "F32", {4, 2}, Zeros(8)},
                                {"model.norm.weight", "F32", {elements}, Zeros(elements)}});
  return source;
}

TEST(AcquisitionCrashTest, Acq10KilledAtAnyMoment) {
  TempFolder folder;
  LargeSource(1 << 18).WriteTo(folder.Path("source"));
  const DirectoryRequest request = Request(folder.Path("source"));
  const std::string expected = Acquire(folder.Path("reference"), request);
  ASSERT_FALSE(expected.empty());

  int n_killed = 0;
  for (int attempt = 0; attempt < 40; ++attempt) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(Acquire(folder.Path("store"), request) == expected ? 0 : 1);
    usleep(static_cast<useconds_t>(attempt * 700));  // later each time: every phase is hit
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) ++n_killed;
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    if (!std::filesystem::exists(folder.Path("store"))) continue;
    const auto report = Fsck(folder.Path("store"), {.quick = false, .repair = attempt % 2 == 1});
    if (!report) {
      EXPECT_EQ(report.error().CodeText(), "NOT-FOUND");  // killed before the store was one
      continue;
    }
    for (const FsckProblem& problem : report->problems) {
      ADD_FAILURE() << "after kill " << attempt << ": " << problem.path_or_id << ": " << problem.what;
    }
    EXPECT_LE(report->n_log_records, 1u);
  }
  EXPECT_GT(n_killed, 5);
  EXPECT_EQ(Acquire(folder.Path("store"), request), expected);
  const auto report = Fsck(folder.Path("store"));
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->problems.empty());
  EXPECT_EQ(report->n_log_records, 1u);
}

// Killed from inside at the n-th block of the stream: a moment that no timing can miss.
TEST(AcquisitionCrashTest, Acq10KilledAtEachBlock) {
  TempFolder folder;
  LargeSource(3 << 18).WriteTo(folder.Path("source"));
  const std::string expected = Acquire(folder.Path("reference"), Request(folder.Path("source")));
  for (int last_block = 1; last_block <= 9; ++last_block) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      DirectoryRequest request = Request(folder.Path("source"));
      int n_blocks = 0;
      request.on_progress = [&](Progress) {
        if (++n_blocks == last_block) kill(getpid(), SIGKILL);
      };
      (void)Acquire(folder.Path("store"), request);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto report = Fsck(folder.Path("store"));
    ASSERT_TRUE(report.has_value()) << report.error().ToString();
    EXPECT_TRUE(report->problems.empty());
    EXPECT_EQ(report->n_log_records, 0u);  // nothing is visible before the end
  }
  EXPECT_EQ(Acquire(folder.Path("store"), Request(folder.Path("source"))), expected);
}

// Peak resident memory of a child process that acquires a sparse weights file of this size, in KiB.
int64_t PeakKib(const TempFolder& folder, uint64_t weights_bytes) {
  const std::string source = folder.Path("source" + std::to_string(weights_bytes));
  const uint64_t elements = weights_bytes / 4;
  TestSource small;
  small.weights.clear();
  small.WriteTo(source);
  std::string json = R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},)"
                     R"("model.norm.weight":{"dtype":"F32","shape":[)" +
                     std::to_string(elements) + R"(],"data_offsets":[32,)" +
                     std::to_string(32 + 4 * elements) + "]}}";
  while (json.size() % 8 != 0) json += " ";
  Bytes length;
  AppendLe<uint64_t>(&length, json.size());
  WriteFile(source + "/model.safetensors", std::string(AsText(length)) + json);
  if (truncate((source + "/model.safetensors").c_str(),
               static_cast<off_t>(8 + json.size() + 32 + 4 * elements)) != 0) {
    return -1;
  }
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    int64_t peak = -1;
    if (!Acquire(folder.Path("store" + std::to_string(weights_bytes)), Request(source)).empty()) {
      const std::string status = ReadFile("/proc/self/status");
      peak = std::strtoll(status.c_str() + status.find("VmHWM:") + 6, nullptr, 10);
    }
    const ssize_t written = write(pipe_ends[1], &peak, sizeof(peak));
    _exit(written == sizeof(peak) ? 0 : 1);
  }
  int64_t peak = -1;
  if (read(pipe_ends[0], &peak, sizeof(peak)) != sizeof(peak)) peak = -1;
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder.Path("store" + std::to_string(weights_bytes)), ignored);
  return peak;
}

TEST(AcquisitionMemoryTest, Acq04FlatMemory) {
  TempFolder folder;
  const int64_t small = PeakKib(folder, uint64_t{1} << 20);
  const int64_t large = PeakKib(folder, uint64_t{96} << 20);
  ASSERT_GT(small, 0);
  ASSERT_GT(large, 0);
  std::cout << "peak " << large << " KiB for 96 MiB of weights, " << small << " KiB for 1 MiB\n";
  EXPECT_LT(large - small, 4096);
}

// Disabled since it writes 5 GB; `./dev test --all` runs it.
TEST(AcquisitionMemoryTest, DISABLED_Acq04FlatMemoryOnFiveGigabytes) {
  TempFolder folder;
  const int64_t small = PeakKib(folder, uint64_t{1} << 20);
  const int64_t large = PeakKib(folder, 5000000000);
  ASSERT_GT(large, 0);
  std::cout << "figures: peak " << large << " KiB for 5 GB of weights, " << small << " KiB for 1 MiB\n";
  EXPECT_LT(large - small, 4096);
}

}  // namespace
}  // namespace slm::acquire
