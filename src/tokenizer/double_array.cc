#include "tokenizer/double_array.h"

#include <algorithm>
#include <deque>

namespace slm::tokenizer {
namespace {

// Keys [begin, end) share their first `depth` bytes, which lead to `state`.
struct Range {
  uint32_t state;
  size_t begin;
  size_t end;
  size_t depth;
};

}  // namespace

void DoubleArray::Build(std::vector<std::pair<std::string_view, uint32_t>> keys) {
  std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  units_.assign(257, Unit{});
  std::vector<bool> taken(257, false);
  taken[0] = true;
  size_t first_free = 1;
  std::deque<Range> queue = {{0, 0, keys.size(), 0}};
  std::vector<Range> children;
  std::vector<uint8_t> labels;
  while (!queue.empty()) {
    Range range = queue.front();
    queue.pop_front();
    while (range.begin < range.end && keys[range.begin].first.size() == range.depth) {
      if (range.depth > 0) units_[range.state].value = keys[range.begin].second;
      ++range.begin;
    }
    if (range.begin == range.end) continue;
    children.clear();
    labels.clear();
    for (size_t i = range.begin; i < range.end; ++i) {
      const auto label = static_cast<uint8_t>(keys[i].first[range.depth]);
      if (labels.empty() || labels.back() != label) {
        labels.push_back(label);
        children.push_back({0, i, i, range.depth + 1});
      }
      children.back().end = i + 1;
    }
    while (first_free < taken.size() && taken[first_free]) ++first_free;
    // The first place where all children fit. Nodes of several children do not go back to the thinly
    // free start of the table, so that the search stays short.
    size_t at = std::max<size_t>(first_free, size_t{labels[0]} + 1);
    if (labels.size() > 1 && taken.size() > 4096) at = std::max(at, taken.size() - 4096);
    for (;; ++at) {
      const size_t base = at - labels[0];
      if (base + 256 >= taken.size()) {
        taken.resize(base + 512, false);
        units_.resize(base + 512);
      }
      const bool fits =
          std::none_of(labels.begin(), labels.end(), [&](uint8_t label) { return taken[base + label]; });
      if (fits) break;
    }
    const auto base = static_cast<uint32_t>(at - labels[0]);
    units_[range.state].base = base;
    for (size_t i = 0; i < labels.size(); ++i) {
      taken[base + labels[i]] = true;
      units_[base + labels[i]].parent = range.state;
      children[i].state = base + labels[i];
      queue.push_back(children[i]);
    }
  }
  // A lookup may go 255 beyond the highest base.
  units_.resize(taken.size() + 256);
}

}  // namespace slm::tokenizer
