// Real processes on real files: a writer killed with SIGKILL at random moments, and two writers
// at once.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "store/fsck.h"
#include "store/store.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

class StoreProcesses : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "slm_kill_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    directory_ = base_ + "/store";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(base_, ignored);
  }
  void ExpectClean(const std::string& when, const FsckOptions& options = {}) {
    const auto report = Fsck(directory_, options);
    ASSERT_TRUE(report.has_value()) << when << ": " << report.error().ToString();
    for (const FsckProblem& problem : report->problems) {
      ADD_FAILURE() << when << ": " << Info(problem.code).name << " " << problem.path_or_id << " "
                    << problem.what;
    }
  }
  std::string base_;
  std::string directory_;
};

// Writes transactions for ever; tells its parent each time one is durable.
[[noreturn]] void WriteForever(const std::string& directory, int round, int report_fd) {
  const auto store = Store::Open(directory, {});
  if (!store.has_value()) _exit(1);
  for (int i = 0;; ++i) {
    const std::string name = "t" + std::to_string(round) + "-" + std::to_string(i);
    if (!DoTransaction(**store, name).has_value()) _exit(2);
    if (write(report_fd, "x", 1) != 1) _exit(3);
  }
}

TEST_F(StoreProcesses, KilledWriterLeavesACleanStore) {
  constexpr int kRounds = 20;
  std::mt19937 random(20261130);
  size_t n_durable = 0;
  for (int round = 0; round < kRounds; ++round) {
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(pipe_fds[0]);
      WriteForever(directory_, round, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    // The first rounds are killed early, so that the making of the store is hit too; the others
    // once the writer is at work.
    char reported[4096];
    ssize_t n = 0;
    if (round >= 6) n = read(pipe_fds[0], reported, 1);
    n_durable += static_cast<size_t>(std::max<ssize_t>(n, 0));
    usleep(static_cast<useconds_t>(random() % 120'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
    while ((n = read(pipe_fds[0], reported, sizeof reported)) > 0) n_durable += static_cast<size_t>(n);
    close(pipe_fds[0]);

    if (!std::filesystem::exists(directory_)) continue;  // killed before its first call
    ExpectClean("round " + std::to_string(round), {.quick = false, .repair = round % 3 == 2});
    const auto store = Store::Open(directory_, {});
    ASSERT_TRUE(store.has_value()) << store.error().ToString();
    size_t n_logged = 0;
    const std::vector<LogRecord> log = (*store)->ReadLog().value();
    for (const LogRecord& record : log) {
      if (record.kind == "recovered") continue;
      ++n_logged;
      for (const Hash256& id : record.nodes) ASSERT_TRUE((*store)->GetNode(id).has_value());
    }
    ASSERT_GE(n_logged, n_durable) << "a transaction that was reported is gone";
    // The one after the last report may be in the log without its report.
    ASSERT_LE(n_logged, n_durable + 1);
    n_durable = n_logged;
  }
  EXPECT_GE(n_durable, 14u) << "the kills were to hit a writer at work";
}

TEST_F(StoreProcesses, TwoWritersLoseNothing) {
  constexpr int kWriters = 2;
  constexpr int kTransactions = 30;
  pid_t children[kWriters];
  for (int w = 0; w < kWriters; ++w) {
    children[w] = fork();
    ASSERT_GE(children[w], 0);
    if (children[w] == 0) {
      const auto store = Store::Open(directory_, {});
      if (!store.has_value()) _exit(1);
      for (int i = 0; i < kTransactions; ++i) {
        if (!DoTransaction(**store, "w" + std::to_string(w) + "-" + std::to_string(i)).has_value()) _exit(2);
      }
      _exit(0);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  ExpectClean("after both");
  EXPECT_EQ(Store::Open(directory_, {}).value()->ReadLog()->size(), size_t{kWriters * kTransactions});
}

}  // namespace
}  // namespace slm::store
