#include <algorithm>
#include <cstddef>

#include "unicode/normalization_v9_0.h"
#include "unicode/table.h"

namespace slm::unicode {

namespace internal_normalization_v9_0 {
extern SLM_UNICODE_TABLE uint64_t kComposePairs[];
extern SLM_UNICODE_TABLE char32_t kComposeResults[];
extern const size_t kComposeCount;
}  // namespace internal_normalization_v9_0

namespace {

// Unicode 9.0, section 3.12.
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28;
constexpr char32_t kSCount = kLCount * kVCount * kTCount;

char32_t ComposeHangul(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase && second < kVBase + kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first >= kSBase && first < kSBase + kSCount && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second < kTBase + kTCount) {
    return first + (second - kTBase);
  }
  return 0;
}

}  // namespace

char32_t ComposeV9(char32_t first, char32_t second) {
  if (const char32_t hangul = ComposeHangul(first, second); hangul != 0) return hangul;
  using namespace internal_normalization_v9_0;
  const uint64_t key = (static_cast<uint64_t>(first) << 21) | second;
  const uint64_t* begin = kComposePairs;
  const uint64_t* end = begin + kComposeCount;
  const uint64_t* found = std::lower_bound(begin, end, key);
  if (found == end || *found != key) return 0;
  return kComposeResults[found - begin];
}

}  // namespace slm::unicode
