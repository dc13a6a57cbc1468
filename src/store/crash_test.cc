// Crash safety: every prefix of the recorded operations, with what was not made durable lost in
// several ways, must be a clean store in the old or the new state, and the work must go on.
#include <gtest/gtest.h>

#include "store/fsck.h"
#include "store/model_vfs.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

std::vector<CrashFate> Fates() {
  std::vector<CrashFate> fates;
  for (const DataFate data :
       {DataFate::kLost, DataFate::kWhole, DataFate::kHalf, DataFate::kZeroes, DataFate::kTorn512}) {
    for (const NameFate names : {NameFate::kLost, NameFate::kAll, NameFate::kEven, NameFate::kOdd}) {
      fates.push_back({data, names, 0});
    }
  }
  for (uint32_t seed = 1; seed <= 12; ++seed) fates.push_back({DataFate::kRandom, NameFate::kRandom, seed});
  return fates;
}

std::string FirstProblem(ModelVfs& vfs, const FsckOptions& options = {}) {
  const auto report = FsckOn(vfs, kRoot, options);
  if (!report.has_value()) return report.error().ToString();
  if (report->problems.empty()) return "";
  const FsckProblem& problem = report->problems.front();
  return std::string(Info(problem.code).name) + " " + problem.path_or_id + ": " + problem.what;
}

// Kinds of the records that transactions wrote, in order.
std::string Kinds(ModelVfs& vfs) {
  const auto store = Store::OpenOn(vfs, kRoot, {.create = false, .read_only = true});
  if (!store.has_value()) return store.error().code == ErrorCode::kNotFound ? "" : store.error().ToString();
  std::string kinds;
  const std::vector<LogRecord> log = (*store)->ReadLog().value();
  for (const LogRecord& record : log) {
    if (record.kind != "recovered") kinds += record.kind + " ";
    for (const Hash256& id : record.nodes) {
      if (!(*store)->GetNode(id).has_value()) kinds += "UNREADABLE ";
    }
  }
  return kinds;
}

// Empty if the crash left nothing wrong; otherwise what is.
std::string CheckCrash(const ModelVfs& run, size_t n_operations, const CrashFate& fate, size_t n_finished) {
  const std::string kExpected[] = {"", "one ", "one two ", "one two three "};
  const auto crashed = run.AfterCrash(n_operations, fate);
  if (crashed->Stat(kRoot)->kind == FileKind::kDirectory) {
    const std::string problem = FirstProblem(*crashed);
    if (!problem.empty()) return "fsck: " + problem;
    const std::string kinds = Kinds(*crashed);
    if (kinds != kExpected[n_finished] && kinds != kExpected[std::min<size_t>(n_finished + 1, 3)]) {
      return "neither old nor new state: " + kinds;
    }
  } else if (n_finished > 0) {
    return "the store is gone";
  }
  const Status rerun = RunScenario(*crashed);
  if (!rerun.has_value()) return "rerun: " + rerun.error().ToString();
  if (Kinds(*crashed) != kExpected[3]) return "after the rerun: " + Kinds(*crashed);
  return FirstProblem(*crashed, {.quick = false, .repair = true});
}

struct Recording {
  ModelVfs vfs;
  std::vector<size_t> finished_at;  // operations done when each transaction returned
  size_t NFinished(size_t n_operations) const {
    size_t n = 0;
    for (const size_t at : finished_at) n += at <= n_operations ? 1 : 0;
    return n;
  }
  void Run() {
    const Status status = RunScenario(vfs, [this] { finished_at.push_back(vfs.n_operations()); });
    ASSERT_TRUE(status.has_value()) << status.error().ToString();
  }
};

TEST(StoreCrash, EveryPrefixIsOldOrNewAndTheRerunCompletes) {  // ACQ-10
  Recording recording;
  recording.Run();
  ASSERT_EQ(recording.finished_at.size(), 3u);
  size_t n_checked = 0;
  for (size_t n = 0; n <= recording.vfs.n_operations(); ++n) {
    for (const CrashFate& fate : Fates()) {
      ASSERT_EQ(CheckCrash(recording.vfs, n, fate, recording.NFinished(n)), "")
          << "after operation " << n << ", data " << int(fate.data) << ", names " << int(fate.names)
          << ", seed " << fate.seed;
      ++n_checked;
    }
  }
  EXPECT_GT(n_checked, 3000u);
}

// The crash may come again, while the first one is being recovered from.
TEST(StoreCrash, SecondCrashDuringRecovery) {
  Recording recording;
  recording.Run();
  std::mt19937 random(7);
  size_t n_checked = 0;
  for (int i = 0; i < 150; ++i) {
    const size_t n = random() % (recording.vfs.n_operations() + 1);
    const auto crashed =
        recording.vfs.AfterCrash(n, {DataFate::kRandom, NameFate::kRandom, static_cast<uint32_t>(random())});
    const size_t n_before = crashed->n_operations();
    ASSERT_TRUE(RunScenario(*crashed).has_value());
    for (int k = 0; k < 12; ++k) {
      const size_t m = n_before + random() % (crashed->n_operations() - n_before + 1);
      const auto again =
          crashed->AfterCrash(m, {DataFate::kRandom, NameFate::kRandom, static_cast<uint32_t>(random())});
      if (again->Stat(kRoot)->kind == FileKind::kDirectory) {
        ASSERT_EQ(FirstProblem(*again), "") << n << " then " << m;
      }
      ASSERT_TRUE(RunScenario(*again).has_value()) << n << " then " << m;
      ASSERT_EQ(Kinds(*again), "one two three ");
      ++n_checked;
    }
  }
  EXPECT_EQ(n_checked, 1800u);
}

// The checks above can fail: without either kind of sync they find what is lost.
size_t CountFailures(const Recording& recording) {
  size_t n_failures = 0;
  for (size_t n = 0; n <= recording.vfs.n_operations(); ++n) {
    for (const CrashFate& fate : Fates()) {
      n_failures += CheckCrash(recording.vfs, n, fate, recording.NFinished(n)).empty() ? 0u : 1u;
    }
  }
  return n_failures;
}

TEST(StoreCrash, WithoutFileSyncsTheCheckFails) {
  Recording recording;
  recording.vfs.IgnoreFileSyncs();
  recording.Run();
  EXPECT_GT(CountFailures(recording), 100u);
}

TEST(StoreCrash, WithoutDirectorySyncsTheCheckFails) {
  Recording recording;
  recording.vfs.IgnoreDirectorySyncs();
  recording.Run();
  EXPECT_GT(CountFailures(recording), 100u);
}

}  // namespace
}  // namespace slm::store
