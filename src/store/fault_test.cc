// Every file operation fails once, each in its turn: the error comes out, nothing is half done,
// and the work completes in a new run.
#include <gtest/gtest.h>

#include "store/fsck.h"
#include "store/model_vfs.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

void ExpectCleanAndComplete(ModelVfs& vfs, size_t call) {
  const auto report = FsckOn(vfs, kRoot, {});
  if (report.has_value()) {  // a store whose directory was never made cannot be checked
    for (const FsckProblem& problem : report->problems) {
      ADD_FAILURE() << "call " << call << ": " << Info(problem.code).name << " " << problem.path_or_id;
    }
  } else {
    EXPECT_EQ(report.error().code, ErrorCode::kNotFound) << "call " << call;
  }
  const Status rerun = RunScenario(vfs);
  ASSERT_TRUE(rerun.has_value()) << "call " << call << ": " << rerun.error().ToString();
  const auto after = FsckOn(vfs, kRoot, {});
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(after->problems.empty()) << "call " << call;
}

class StoreFault : public testing::TestWithParam<Fault> {};

TEST_P(StoreFault, EveryCallFailsOnce) {
  ModelVfs good;
  ASSERT_TRUE(RunScenario(good).has_value());
  size_t n_reported = 0;
  for (size_t call = 0; call < good.n_calls(); ++call) {
    ModelVfs vfs;
    vfs.FailAt(call, GetParam());
    const Status status = RunScenario(vfs);
    ASSERT_TRUE(vfs.has_failed());
    if (!status.has_value()) {
      ++n_reported;
      EXPECT_EQ(status.error().code, GetParam() == Fault::kDiskFull ? ErrorCode::kDiskFull : ErrorCode::kIo)
          << "call " << call << ": " << status.error().ToString();
    }
    ExpectCleanAndComplete(vfs, call);
  }
  // HasNode and HasBlob answer "no" where they cannot look; everything else reports.
  EXPECT_GT(n_reported, good.n_calls() * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Faults, StoreFault, testing::Values(Fault::kIo, Fault::kDiskFull),
                         [](const auto& fault) { return fault.param == Fault::kIo ? "Io" : "DiskFull"; });

TEST(StoreFaults, ShortWritesAreContinued) {
  ModelVfs vfs;
  vfs.WriteInPieces(7);
  ASSERT_TRUE(RunScenario(vfs).has_value());
  ModelVfs whole;
  ASSERT_TRUE(RunScenario(whole).has_value());
  EXPECT_EQ(vfs.Contents("/s/log/000001.slog"), whole.Contents("/s/log/000001.slog"));
  ExpectCleanAndComplete(vfs, 0);
}

// A failed fsync is final: the same Store refuses all further writes.
TEST(StoreFaults, FailedFsyncIsFinal) {
  ModelVfs vfs;
  const auto store = Store::OpenOn(vfs, kRoot).value();
  ASSERT_TRUE(store->PutBlob(AsBytes("first")).has_value());
  auto writer = store->NewBlob().value();
  ASSERT_TRUE(writer->Append(AsBytes("second")).has_value());
  vfs.FailAt(vfs.n_calls() + 1, Fault::kIo);  // Commit: chmod, then fsync
  const auto failed = writer->Commit();
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message.find("fsync"), std::string::npos) << failed.error().message;
  const auto refused = store->PutBlob(AsBytes("third"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_NE(refused.error().message.find("an fsync failed before"), std::string::npos);
  EXPECT_FALSE(store->AppendLog("k", {}).has_value());
  EXPECT_TRUE(store->HasBlob(Hash256{}) == false);
  EXPECT_TRUE(Store::OpenOn(vfs, kRoot).value()->PutBlob(AsBytes("third")).has_value());
}

TEST(StoreFaults, DiskFullInTheMiddleOfARecordIsATornTail) {
  ModelVfs vfs;
  ASSERT_TRUE(RunScenario(vfs).has_value());
  const auto store = Store::OpenOn(vfs, kRoot).value();
  bool is_torn = false;
  for (size_t ahead = 0; ahead < 12 && !is_torn; ++ahead) {
    vfs.FailAt(vfs.n_calls() + ahead, Fault::kDiskFull);
    const Bytes before = vfs.Contents("/s/log/000001.slog");
    const Status status = store->AppendLog("extra", {});
    if (status.has_value()) continue;
    is_torn = vfs.Contents("/s/log/000001.slog").size() > before.size();
  }
  ASSERT_TRUE(is_torn);
  const auto report = FsckOn(vfs, kRoot, {}).value();
  EXPECT_TRUE(report.problems.empty());
  ASSERT_TRUE(store->AppendLog("after", {}).has_value()) << "the same store goes on: no sync has failed";
  const auto log = store->ReadLog().value();
  EXPECT_EQ(log.back().kind, "after");
  EXPECT_EQ(log[log.size() - 2].kind, "recovered");
}

TEST(StoreFaults, LockThatIsHeldIsReported) {
  ModelVfs vfs;
  const auto store = Store::OpenOn(vfs, kRoot).value();
  vfs.HoldLock();
  const Status status = store->AppendLog("k", {});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().CodeText(), "STORE-LOCKED");
}

}  // namespace
}  // namespace slm::store
