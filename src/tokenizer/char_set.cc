#include "tokenizer/char_set.h"

#include <algorithm>
#include <map>

namespace slm::tokenizer {

constexpr char32_t kLastScalar = 0x10FFFF;

RangeSet::RangeSet(const std::vector<Range>& ranges) {
  Merge(ranges);
}

RangeSet RangeSet::FromPairs(std::span<const char32_t> pairs) {
  RangeSet out;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) out.ranges_.emplace_back(pairs[i], pairs[i + 1]);
  return out;
}

void RangeSet::Merge(const std::vector<Range>& more) {
  std::vector<Range> all = std::move(ranges_);
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  ranges_.clear();
  for (const Range& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().second + 1) {
      ranges_.back().second = std::max(ranges_.back().second, range.second);
    } else {
      ranges_.push_back(range);
    }
  }
}

RangeSet RangeSet::Inverted() const {
  RangeSet out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastScalar) out.ranges_.emplace_back(next, kLastScalar);
  return out;
}

RangeSet RangeSet::And(const RangeSet& other) const {
  RangeSet both = Inverted();
  both.Merge(other.Inverted());
  return both.Inverted();
}

bool RangeSet::Contains(char32_t scalar) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), scalar,
                       [](char32_t wanted, const Range& range) { return wanted < range.first; });
  return after != ranges_.begin() && scalar <= std::prev(after)->second;
}

CharSet::CharSet(const RangeSet& ranges) : stage1_(0x1100) {
  std::map<std::array<uint64_t, 4>, uint16_t> numbers;
  size_t at = 0;  // first range that may still reach into the block
  const auto& list = ranges.ranges();
  for (uint32_t block = 0; block < 0x1100; ++block) {
    const char32_t begin = block << 8;
    const char32_t end = begin + 255;
    std::array<uint64_t, 4> bits{};
    while (at < list.size() && list[at].second < begin) ++at;
    for (size_t i = at; i < list.size() && list[i].first <= end; ++i) {
      for (char32_t c = std::max(list[i].first, begin); c <= std::min(list[i].second, end); ++c) {
        bits[(c >> 6) & 3] |= uint64_t{1} << (c & 63);
      }
    }
    const auto [found, fresh] = numbers.emplace(bits, static_cast<uint16_t>(blocks_.size()));
    if (fresh) blocks_.push_back(bits);
    stage1_[block] = found->second;
    if (block == 0) ascii_ = {bits[0], bits[1]};
  }
}

}  // namespace slm::tokenizer
