// Searches in the generated tables.
#include <algorithm>
#include <cstring>

#include "unicode/case_folding_v16_0.h"
#include "unicode/grapheme_v17_0.h"
#include "unicode/lowercase_v17_0.h"
#include "unicode/properties_v16_0.h"
#include "unicode/table.h"

namespace slm::unicode {

namespace internal_lowercase_v17_0 {
extern SLM_UNICODE_TABLE char32_t kLower[];
extern const size_t kLowerCount;
}  // namespace internal_lowercase_v17_0

namespace {

// `pairs` holds key and value, sorted by key.
char32_t FindPair(const char32_t* pairs, size_t count, char32_t key) {
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (pairs[middle * 2] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && pairs[low * 2] == key ? pairs[low * 2 + 1] : key;
}

// Break classes, in the generator's order.
enum Break : uint8_t {
  kOther,
  kCr,
  kLf,
  kControl,
  kExtend,
  kZwj,
  kRegional,
  kPrepend,
  kSpacingMark,
  kL,
  kV,
  kT,
  kLv,
  kLvt
};
enum Conjunct : uint8_t { kNone, kConsonant, kLinker, kConjunctExtend };

uint8_t GraphemeValue(char32_t scalar) {
  if (scalar > 0x10FFFF) return 0;
  const uint32_t block = internal_grapheme_v17_0::kGraphemeStage1[scalar >> 8];
  return internal_grapheme_v17_0::kGraphemeStage2[block * 256 + (scalar & 255)];
}

// What the rules need to know of the cluster so far.
struct ClusterState {
  uint8_t last = kOther;
  bool picture = false;         // pictographic, then Extend only (GB11)
  bool picture_joined = false;  // and now a joiner
  uint8_t conjunct = 0;         // 1: a consonant, 2: and a linker after it (GB9c)
  uint32_t n_regional = 0;      // length of the run of regional indicators at the end

  void Push(uint8_t value) {
    const uint8_t kind = value & 15;
    picture_joined = picture && kind == kZwj;
    if ((value & 16) != 0) {
      picture = true;
    } else if (kind != kExtend) {
      picture = false;
    }
    const uint8_t part = (value >> 5) & 3;
    if (part == kConsonant) {
      conjunct = 1;
    } else if (part == kLinker) {
      conjunct = conjunct > 0 ? 2 : 0;
    } else if (part == kNone) {
      conjunct = 0;
    }
    n_regional = kind == kRegional ? n_regional + 1 : 0;
    last = kind;
  }
};

bool IsBoundary(const ClusterState& state, uint8_t next_value) {
  const uint8_t last = state.last;
  const uint8_t next = next_value & 15;
  if (last == kCr && next == kLf) return false;                                               // GB3
  if (last == kCr || last == kLf || last == kControl) return true;                            // GB4
  if (next == kCr || next == kLf || next == kControl) return true;                            // GB5
  if (last == kL && (next == kL || next == kV || next == kLv || next == kLvt)) return false;  // GB6
  if ((last == kLv || last == kV) && (next == kV || next == kT)) return false;                // GB7
  if ((last == kLvt || last == kT) && next == kT) return false;                               // GB8
  if (next == kExtend || next == kZwj || next == kSpacingMark) return false;                  // GB9, GB9a
  if (last == kPrepend) return false;                                                         // GB9b
  if (state.conjunct == 2 && ((next_value >> 5) & 3) == kConsonant) return false;             // GB9c
  if (state.picture_joined && (next_value & 16) != 0) return false;                           // GB11
  return !(last == kRegional && next == kRegional && state.n_regional % 2 == 1);              // GB12, GB13
}

}  // namespace

char32_t LowercaseV17(char32_t scalar) {
  using namespace internal_lowercase_v17_0;
  return FindPair(kLower, kLowerCount, scalar);
}

char32_t FoldV16(char32_t scalar) {
  using namespace internal_case_folding_v16_0;
  return FindPair(kSimple, kSimpleCount, scalar);
}

std::optional<std::span<const char32_t>> PropertyRangesV16(std::string_view name) {
  using namespace internal_properties_v16_0;
  const Property* end = kProperties + kPropertyCount;
  const Property* found = std::lower_bound(
      kProperties, end, name,
      [](const Property& property, std::string_view wanted) { return property.name < wanted; });
  if (found == end || found->name != name) return std::nullopt;
  return std::span<const char32_t>(kRanges + size_t{found->begin} * 2,
                                   (found->end - found->begin) * size_t{2});
}

size_t GraphemeEndV17(std::span<const char32_t> text, size_t begin) {
  ClusterState state;
  state.Push(GraphemeValue(text[begin]));
  size_t at = begin + 1;
  while (at < text.size()) {
    const uint8_t value = GraphemeValue(text[at]);
    if (IsBoundary(state, value)) break;
    state.Push(value);
    ++at;
  }
  return at;
}

}  // namespace slm::unicode
