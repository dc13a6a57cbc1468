#include "base/side_thread.h"

#include <utility>

namespace slm {

SideThread::~SideThread() {
  if (!has_thread_) return;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  pthread_join(thread_, nullptr);
}

Status SideThread::Start(std::function<Status()> task) {
  // Not std::thread: it throws where the system gives no thread.
  if (!has_thread_) has_thread_ = pthread_create(&thread_, nullptr, Main, this) == 0;
  if (!has_thread_) {
    if (status_) status_ = task();
    return status_;
  }
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!status_) return status_;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return {};
}

Status SideThread::Wait(size_t n_left) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.size() <= n_left; });
  return status_;
}

void* SideThread::Main(void* self) {
  static_cast<SideThread*>(self)->RunTasks();
  return nullptr;
}

void SideThread::RunTasks() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty() || is_ending_; });
    if (tasks_.empty()) return;
    const std::function<Status()>& task = tasks_.front();  // stays where it is when others are added
    lock.unlock();
    Status status = task();
    lock.lock();
    tasks_.pop_front();
    if (!status) {
      status_ = std::move(status);
      tasks_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace slm
