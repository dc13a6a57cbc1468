// For tests: runs code on a thread with a small stack, so that recursion into hostile nesting
// crashes the test instead of passing by luck.
#ifndef SLM_CODEC_SMALL_STACK_H_
#define SLM_CODEC_SMALL_STACK_H_

#include <pthread.h>

#include <functional>

namespace slm {

inline void OnSmallStack(std::function<void()> code) {
  constexpr size_t kStackBytes = 256 * 1024;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_create(&thread, &attributes, run, &code);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace slm

#endif  // SLM_CODEC_SMALL_STACK_H_
