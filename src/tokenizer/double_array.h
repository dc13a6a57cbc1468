// A trie of byte strings as a double array (Aoe 1989): one table lookup for each byte.
// Immutable after Build, any thread.
#ifndef SLM_TOKENIZER_DOUBLE_ARRAY_H_
#define SLM_TOKENIZER_DOUBLE_ARRAY_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace slm::tokenizer {

class DoubleArray {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  // `keys` with their values, in any order. Empty keys are left out. REQUIRES: distinct keys.
  void Build(std::vector<std::pair<std::string_view, uint32_t>> keys);

  // The state after `byte`, or kNone. The start is state 0.
  [[nodiscard]] uint32_t Next(uint32_t state, uint8_t byte) const {
    const uint32_t next = units_[state].base + byte;
    return units_[next].parent == state ? next : kNone;
  }
  // The value of the key that ends in `state`, or kNone.
  [[nodiscard]] uint32_t ValueAt(uint32_t state) const { return units_[state].value; }

 private:
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kNone;
    uint32_t value = kNone;
  };
  std::vector<Unit> units_ = std::vector<Unit>(257);
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_DOUBLE_ARRAY_H_
