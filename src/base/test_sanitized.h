// For tests: whether the address sanitizer watches this build, where a sweep of everything takes minutes.
#ifndef SLM_BASE_TEST_SANITIZED_H_
#define SLM_BASE_TEST_SANITIZED_H_

namespace slm {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLM_SANITIZED true
#endif
#endif
#ifndef SLM_SANITIZED
#define SLM_SANITIZED false
#endif
inline constexpr bool kSanitized = SLM_SANITIZED;

}  // namespace slm

#endif  // SLM_BASE_TEST_SANITIZED_H_
