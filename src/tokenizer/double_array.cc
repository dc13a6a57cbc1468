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
  // Below 257 not every label could be placed: left out, so that everything before `first_free` is taken.
  std::vector<uint8_t> taken(257, 1);
  size_t first_free = 257;
  size_t dense_end = 257;
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
    // The first place where all children fit. Nodes of several children look from `dense_end` on, which
    // moves up whenever many places were tried in vain, so that the search stays short.
    size_t at = labels.size() > 1 ? std::max(first_free, dense_end) : first_free;
    size_t n_tried = 0;
    for (;; ++at, ++n_tried) {
      const size_t base = at - labels[0];
      if (base + 256 >= taken.size()) {
        taken.resize(base + 512, 0);
        units_.resize(base + 512);
      }
      const bool fits =
          std::none_of(labels.begin(), labels.end(), [&](uint8_t label) { return taken[base + label] != 0; });
      if (fits) break;
    }
    if (labels.size() > 1 && n_tried > 16) dense_end = at;
    const auto base = static_cast<uint32_t>(at - labels[0]);
    units_[range.state].base = base;
    for (size_t i = 0; i < labels.size(); ++i) {
      taken[base + labels[i]] = 1;
      units_[base + labels[i]].parent = range.state;
      children[i].state = base + labels[i];
      queue.push_back(children[i]);
    }
  }
  // A lookup may go 255 beyond the highest base.
  units_.resize(taken.size() + 256);
}

}  // namespace slm::tokenizer
