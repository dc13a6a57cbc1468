// A row of tokens while it is truncated, put into its template and padded, in the reference's order.
// Plain values, no shared state.
#ifndef SLM_TOKENIZER_ENCODING_H_
#define SLM_TOKENIZER_ENCODING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace slm::tokenizer {

inline constexpr uint32_t kNoWord = 0xFFFFFFFF;

struct Offsets {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const Offsets&, const Offsets&) = default;
};

// One token. `text` views the tokenizer, or the call's own store of matched texts.
struct TokenRow {
  uint32_t id = 0;
  uint32_t type_id = 0;
  uint32_t word = kNoWord;
  bool special = false;   // put in by the post-processor or by padding
  bool attention = true;  // false for padding
  bool trimmed = false;   // `scalars` was changed after `bytes` was set
  uint32_t sequence = 0;  // which of the inputs the offsets count in
  Offsets bytes;
  Offsets scalars;
  std::string_view text;
};

struct Row {
  std::vector<TokenRow> tokens;
  std::vector<Row> overflowing;
};

enum class Direction : uint8_t { kLeft, kRight };

struct Truncation {
  enum class Strategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
  Direction direction = Direction::kRight;
  Strategy strategy = Strategy::kLongestFirst;
  uint64_t max_length = 0;
  uint64_t stride = 0;
};

struct Padding {
  bool fixed = false;  // else to the longest of the batch, which for one text is itself
  uint64_t length = 0;
  uint64_t multiple_of = 0;  // 0: none
  Direction direction = Direction::kRight;
  uint32_t id = 0;
  uint32_t type_id = 0;
  std::string token;
};

// Cuts `rows` (one or two) to max_length tokens in all. TOK-SCHEMA where the reference refuses: a
// stride not below the length, a sequence too short, no second sequence.
[[nodiscard]] Status Truncate(std::vector<Row>* rows, const Truncation& truncation, uint64_t max_length);

// Fills up with padding tokens. REQUIRES: bounds were checked when loading.
void Pad(Row* row, const Padding& padding);

// Appends `more`, combining the overflow of both as the reference does.
void Join(Row* row, const Row& more);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_ENCODING_H_
