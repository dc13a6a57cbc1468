#include "tokenizer/encoding.h"

#include <algorithm>

namespace slm::tokenizer {
namespace {

Row Cut(const Row& row, size_t begin, size_t end) {
  Row out;
  out.tokens.assign(row.tokens.begin() + static_cast<ptrdiff_t>(begin),
                    row.tokens.begin() + static_cast<ptrdiff_t>(end));
  return out;
}

Status TruncateRow(Row* row, uint64_t max_length, uint64_t stride, Direction direction) {
  const uint64_t size = row->tokens.size();
  if (max_length >= size) return {};
  if (max_length == 0) {
    Row all = std::move(*row);
    *row = Row{};
    row->overflowing.push_back(std::move(all));
    return {};
  }
  if (stride >= max_length) {
    return Fail(MakeError(ErrorCode::kTokSchema, "truncation.stride is not below the " +
                                                     std::to_string(max_length) +
                                                     " tokens that are left for the text")
                    .Field("$.truncation.stride"));
  }
  const uint64_t step = max_length - stride;
  std::vector<std::pair<uint64_t, uint64_t>> windows;
  if (direction == Direction::kRight) {
    for (uint64_t begin = 0;; begin += step) {
      const uint64_t end = std::min(begin + max_length, size);
      windows.emplace_back(begin, end);
      if (end == size) break;
    }
  } else {
    for (uint64_t end = size;; end -= step) {
      const uint64_t begin = end > max_length ? end - max_length : 0;
      windows.emplace_back(begin, end);
      if (begin == 0) break;
    }
  }
  Row out = Cut(*row, windows[0].first, windows[0].second);
  for (size_t i = 1; i < windows.size(); ++i) {
    out.overflowing.push_back(Cut(*row, windows[i].first, windows[i].second));
  }
  *row = std::move(out);
  return {};
}

Status TooShort(std::string message) {
  return Fail(MakeError(ErrorCode::kTokSchema, std::move(message)).Field("$.truncation"));
}

Status TruncateLongestFirst(std::vector<Row>* rows, const Truncation& truncation, uint64_t max_length) {
  if (rows->size() == 1) return TruncateRow(&(*rows)[0], max_length, truncation.stride, truncation.direction);
  uint64_t shorter = (*rows)[0].tokens.size();
  uint64_t longer = (*rows)[1].tokens.size();
  const bool swapped = shorter > longer;
  if (swapped) std::swap(shorter, longer);
  longer = shorter > max_length ? shorter : std::max(shorter, max_length - shorter);
  if (shorter + longer > max_length) {
    shorter = max_length / 2;
    longer = shorter + max_length % 2;
  }
  if (swapped) std::swap(shorter, longer);
  SLM_TRY(TruncateRow(&(*rows)[0], shorter, truncation.stride, truncation.direction));
  return TruncateRow(&(*rows)[1], longer, truncation.stride, truncation.direction);
}

}  // namespace

Status Truncate(std::vector<Row>* rows, const Truncation& truncation, uint64_t max_length) {
  uint64_t total = 0;
  for (const Row& row : *rows) total += row.tokens.size();
  if (max_length == 0) {
    for (Row& row : *rows) SLM_TRY(TruncateRow(&row, 0, truncation.stride, truncation.direction));
    return {};
  }
  if (total <= max_length) return {};
  const uint64_t to_remove = total - max_length;
  if (truncation.strategy == Truncation::Strategy::kLongestFirst) {
    return TruncateLongestFirst(rows, truncation, max_length);
  }
  const size_t target = truncation.strategy == Truncation::Strategy::kOnlyFirst ? 0 : 1;
  if (target >= rows->size()) return TooShort("truncation OnlySecond needs a second sequence");
  const uint64_t size = (*rows)[target].tokens.size();
  if (size <= to_remove) return TooShort("the sequence to truncate is too short for max_length");
  return TruncateRow(&(*rows)[target], size - to_remove, truncation.stride, truncation.direction);
}

void Pad(Row* row, const Padding& padding) {
  uint64_t length = padding.fixed ? padding.length : row->tokens.size();
  if (padding.multiple_of > 0 && length % padding.multiple_of > 0) {
    length += padding.multiple_of - length % padding.multiple_of;
  }
  TokenRow pad;
  pad.id = padding.id;
  pad.type_id = padding.type_id;
  pad.special = true;
  pad.attention = false;
  pad.text = padding.token;
  const auto fill = [&pad, length, &padding](Row* one) {
    if (one->tokens.size() >= length) return;
    const auto at = padding.direction == Direction::kLeft ? one->tokens.begin() : one->tokens.end();
    one->tokens.insert(at, length - one->tokens.size(), pad);
  };
  fill(row);
  for (Row& part : row->overflowing) fill(&part);
}

void Join(Row* row, const Row& more) {
  std::vector<Row> overflowing;
  const auto append = [](Row* to, const Row& what) {
    to->tokens.insert(to->tokens.end(), what.tokens.begin(), what.tokens.end());
  };
  for (const Row& mine : row->overflowing) {
    overflowing.push_back(Row{mine.tokens, {}});
    append(&overflowing.back(), more);
    for (const Row& other : more.overflowing) {
      overflowing.push_back(Row{mine.tokens, {}});
      append(&overflowing.back(), other);
    }
  }
  for (const Row& other : more.overflowing) {
    overflowing.push_back(Row{row->tokens, {}});
    append(&overflowing.back(), other);
  }
  append(row, more);
  row->overflowing = std::move(overflowing);
}

}  // namespace slm::tokenizer
