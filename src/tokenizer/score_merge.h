// The merging that SentencePiece and llama.cpp share: neighbours whose joined text is a piece are joined, the
// highest score first, then the leftmost. O(n log n) for n symbols.
#ifndef SLM_TOKENIZER_SCORE_MERGE_H_
#define SLM_TOKENIZER_SCORE_MERGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

namespace slm::tokenizer {

struct ScoreSymbol {
  uint32_t begin;  // bytes of the text
  uint32_t end;
  bool frozen = false;  // joined with nothing
};

// `symbols` cover `text` in order; afterwards they are what is left. `score_of(joined, n_left)` gives the
// score of a joined text of which n_left bytes are the left part's, or nothing where it is no piece; it is
// asked for every pair of neighbours that comes about.
template <typename ScoreOf>
void MergeByScore(std::string_view text, std::vector<ScoreSymbol>* symbols, ScoreOf score_of) {
  struct Links {
    int64_t previous, next;
  };
  struct Pair {
    float score;
    int64_t left, right;
    uint32_t size;
  };
  const auto later = [](const Pair& a, const Pair& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  };
  std::vector<Links> links;
  links.reserve(symbols->size());
  for (size_t i = 0; i < symbols->size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    links.push_back({index - 1, i + 1 < symbols->size() ? index + 1 : -1});
  }
  const auto symbol = [symbols](int64_t i) -> ScoreSymbol& { return (*symbols)[static_cast<size_t>(i)]; };
  const auto link = [&links](int64_t i) -> Links& { return links[static_cast<size_t>(i)]; };
  std::priority_queue<Pair, std::vector<Pair>, decltype(later)> queue(later);
  const auto offer = [&](int64_t left, int64_t right) {
    if (left < 0 || right < 0) return;
    const ScoreSymbol& a = symbol(left);
    const ScoreSymbol& b = symbol(right);
    if (a.frozen || b.frozen) return;
    const std::optional<float> score = score_of(text.substr(a.begin, b.end - a.begin), a.end - a.begin);
    if (score) queue.push({*score, left, right, b.end - a.begin});
  };
  for (size_t i = 1; i < symbols->size(); ++i) offer(static_cast<int64_t>(i) - 1, static_cast<int64_t>(i));
  while (!queue.empty()) {
    const Pair top = queue.top();
    queue.pop();
    ScoreSymbol& left = symbol(top.left);
    ScoreSymbol& right = symbol(top.right);
    // A symbol only grows or goes: of the same size as then, both are what they were.
    if (left.begin == left.end || right.begin == right.end || right.end - left.begin != top.size ||
        link(top.left).next != top.right) {
      continue;
    }
    left.end = right.end;
    link(top.left).next = link(top.right).next;
    right.end = right.begin;
    if (link(top.right).next >= 0) link(link(top.right).next).previous = top.left;
    offer(link(top.left).previous, top.left);
    offer(top.left, link(top.left).next);
  }
  std::erase_if(*symbols, [](const ScoreSymbol& one) { return one.begin == one.end; });
}

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_SCORE_MERGE_H_
