// Sets of Unicode scalar values: built from ranges, then frozen for lookup in constant time.
// Plain values; a frozen set is immutable and may be read by any thread.
#ifndef SLM_TOKENIZER_CHAR_SET_H_
#define SLM_TOKENIZER_CHAR_SET_H_

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace slm::tokenizer {

// Closed ranges, sorted, neither touching nor overlapping.
class RangeSet {
 public:
  using Range = std::pair<char32_t, char32_t>;
  RangeSet() = default;
  explicit RangeSet(const std::vector<Range>& ranges);
  // Pairs of first and last, as the Unicode tables hold them.
  [[nodiscard]] static RangeSet FromPairs(std::span<const char32_t> pairs);

  void Add(char32_t first, char32_t last) { Merge({{first, last}}); }
  void Merge(const std::vector<Range>& more);
  void Merge(const RangeSet& other) { Merge(other.ranges_); }
  [[nodiscard]] RangeSet Inverted() const;
  [[nodiscard]] RangeSet And(const RangeSet& other) const;
  [[nodiscard]] bool Contains(char32_t scalar) const;
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }

 private:
  std::vector<Range> ranges_;
};

class CharSet {
 public:
  explicit CharSet(const RangeSet& ranges);
  [[nodiscard]] bool Contains(char32_t scalar) const {
    if (scalar < 128) return ((ascii_[scalar >> 6] >> (scalar & 63)) & 1) != 0;
    if (scalar > 0x10FFFF) return false;
    const std::array<uint64_t, 4>& block = blocks_[stage1_[scalar >> 8]];
    return ((block[(scalar >> 6) & 3] >> (scalar & 63)) & 1) != 0;
  }

 private:
  std::array<uint64_t, 2> ascii_{};
  std::vector<uint16_t> stage1_;
  std::vector<std::array<uint64_t, 4>> blocks_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_CHAR_SET_H_
