// One thread beside the caller's, for work that may overlap with the caller's own. Native only.
//
// Tasks run in order, one at a time. Start and Wait belong to one thread, the caller's. What the caller wrote
// before Start the task sees; what a task wrote the caller sees once Wait has waited for it. After a task
// that failed no other runs, and every call gives its error.
#ifndef SLM_BASE_SIDE_THREAD_H_
#define SLM_BASE_SIDE_THREAD_H_

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "base/error.h"

namespace slm {

class SideThread {
 public:
  SideThread() = default;  // the system's thread is made by the first Start
  ~SideThread();           // waits for all tasks
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Queues the task. Where the system gives no thread, the task has run when Start returns. The queue has no
  // bound: callers that reuse what a task reads call Wait first.
  [[nodiscard]] Status Start(std::function<Status()> task);
  // Until at most `n_left` tasks are unfinished.
  [[nodiscard]] Status Wait(size_t n_left = 0);

 private:
  static void* Main(void* self);
  void RunTasks();

  pthread_t thread_{};
  bool has_thread_ = false;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<std::function<Status()>> tasks_;  // the first one runs
  Status status_;                              // the first error
  bool is_ending_ = false;
};

}  // namespace slm

#endif  // SLM_BASE_SIDE_THREAD_H_
