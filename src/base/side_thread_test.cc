// The thread beside the caller's: order, errors, what is seen across it, and a system that gives no thread.
#include "base/side_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace slm {
namespace {

TEST(SideThread, TasksRunInOrderAndAreSeenAfterWait) {
  SideThread side;
  ASSERT_TRUE(side.Wait().has_value()) << "nothing was started";
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(side.Start([&seen, i]() -> Status {
                      seen.push_back(i);
                      return {};
                    })
                    .has_value());
  }
  ASSERT_TRUE(side.Wait().has_value());
  ASSERT_EQ(seen.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], static_cast<int>(i));
}

TEST(SideThread, RunsBesideTheCallerAndWaitsForSome) {
  std::mutex mutex;
  std::condition_variable changed;
  bool caller_went_on = false;
  SideThread side;
  bool first_ran = false;
  ASSERT_TRUE(side.Start([&]() -> Status {
                    first_ran = true;
                    return {};
                  })
                  .has_value());
  ASSERT_TRUE(side.Start([&]() -> Status {
                    std::unique_lock<std::mutex> lock(mutex);
                    changed.wait(lock, [&] { return caller_went_on; });  // for ever, were it run inside Start
                    return {};
                  })
                  .has_value());
  ASSERT_TRUE(side.Wait(1).has_value());
  EXPECT_TRUE(first_ran);
  {
    const std::lock_guard<std::mutex> guard(mutex);
    caller_went_on = true;
  }
  changed.notify_all();
  EXPECT_TRUE(side.Wait().has_value());
}

TEST(SideThread, AfterAnErrorNothingRunsAndEveryCallGivesIt) {
  int n_after = 0;
  SideThread side;
  static_cast<void>(side.Start([]() -> Status { return Fail(ErrorCode::kDiskFull, "as asked"); }));
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(side.Start([&n_after]() -> Status {
      ++n_after;
      return Fail(ErrorCode::kIo, "another");
    }));
  }
  EXPECT_EQ(side.Wait().error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(side.Wait(5).error().message, "as asked");
  EXPECT_EQ(side.Start([]() -> Status { return {}; }).error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(n_after, 0);
}

TEST(SideThread, DestructorWaits) {
  std::string text;
  {
    SideThread side;
    ASSERT_TRUE(side.Start([&text]() -> Status {
                      text = "done";
                      return {};
                    })
                    .has_value());
  }
  EXPECT_EQ(text, "done");
}

TEST(SideThread, WithoutAThreadTheTaskRunsAtOnce) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(2);
    if (getuid() == 0 && setuid(65534) != 0) _exit(2);  // the limit does not bind root
    SideThread side;
    const pthread_t caller = pthread_self();
    bool ran_here = false;
    const Status started = side.Start([&]() -> Status {
      ran_here = pthread_equal(caller, pthread_self()) != 0;
      return Fail(ErrorCode::kIo, "as asked");
    });
    const bool holds = ran_here && !started.has_value() && !side.Wait().has_value();
    _exit(holds ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace slm
