// Leftmost-longest search for a set of byte strings (Aho and Corasick 1975).
//
// Built once, immutable, any thread may search. Time is linear in the text, apart from reading on
// past a match to see whether a longer one follows.
#ifndef SLM_TOKENIZER_MATCHER_H_
#define SLM_TOKENIZER_MATCHER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace slm::tokenizer {

class Matcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    uint32_t value;
  };

  // Adds a pattern; false if it is empty or already there.
  [[nodiscard]] bool Add(std::string_view pattern, uint32_t value);
  // Call once after the last Add.
  void Build();

  [[nodiscard]] bool empty() const { return nodes_.size() <= 1; }
  // The leftmost match that begins at or after `from`, the longest of those.
  [[nodiscard]] std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  struct Node {
    uint32_t depth = 0;
    uint32_t fail = 0;
    uint32_t first_edge = kNone;      // list of edges, newest first
    uint32_t value = kNone;           // of the pattern that ends here
    uint32_t longest_suffix = kNone;  // node of the longest pattern that ends here, itself included
  };
  struct Edge {
    uint32_t to;
    uint32_t next;
    uint8_t byte;
  };

  [[nodiscard]] uint32_t Child(uint32_t node, uint8_t byte) const;
  uint32_t AddChild(uint32_t node, uint8_t byte);
  [[nodiscard]] uint64_t SlotOf(uint32_t node, uint8_t byte) const;
  void BuildTable();

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> root_{};    // children of the root, 0 for none
  std::vector<uint32_t> edge_slots_;    // open addressing over (node, byte), after Build
  std::vector<uint32_t> edge_parents_;  // node each edge leaves
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_MATCHER_H_
