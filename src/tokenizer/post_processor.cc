#include "tokenizer/post_processor.h"

#include <algorithm>

#include "tokenizer/aligned_text.h"
#include "unicode/classes_v16_0.h"

namespace slm::tokenizer {
namespace {

constexpr char32_t kMappedSpace = 0x120;  // U+0020 in the byte alphabet

}  // namespace

bool IsTrimmedFromOffsets(char32_t scalar) {
  return scalar == kMappedSpace || unicode::IsWhiteSpace(scalar);
}

void ByteLevelPostProcessor::Trim(Row* row) const {
  for (size_t i = 0; i < row->tokens.size(); ++i) {
    TokenRow& token = row->tokens[i];
    uint64_t n_leading = 0;
    uint64_t n_trailing = 0;
    bool leading = true;
    for (size_t at = 0; at < token.text.size();) {
      const Scalar scalar = ReadScalar(token.text.data() + at);
      const bool trimmed = IsTrimmedFromOffsets(scalar.value);
      leading = leading && trimmed;
      if (leading) ++n_leading;
      n_trailing = trimmed ? n_trailing + 1 : 0;
      at += scalar.n_bytes;
    }
    const Offsets before = token.scalars;
    Offsets& offsets = token.scalars;
    if (n_leading > 0) {
      // One space at the very front may be one that was put there.
      const bool is_first = i == 0 || offsets.begin == 0;
      if (is_first && add_prefix_space_ && n_leading == 1) n_leading = 0;
      offsets.begin = std::min(offsets.begin + n_leading, offsets.end);
    }
    if (n_trailing > 0 && offsets.end >= n_trailing) {
      offsets.end = std::max(offsets.end - n_trailing, offsets.begin);
    }
    token.trimmed = token.trimmed || offsets != before;
  }
}

Status ByteLevelPostProcessor::Process(std::vector<Row>* rows, bool) const {
  if (!trim_offsets_) return {};
  for (Row& row : *rows) {
    Trim(&row);
    for (Row& part : row.overflowing) Trim(&part);
  }
  return {};
}

void PairPostProcessor::Wrap(Row* row, bool is_first) const {
  const auto token_of = [](const Token& token, uint32_t type_id) {
    TokenRow out;
    out.id = token.id;
    out.type_id = type_id;
    out.special = true;
    out.text = token.text;
    return out;
  };
  const uint32_t type_id = is_first || is_roberta_ ? 0 : 1;
  for (TokenRow& token : row->tokens) {
    token.special = false;
    if (is_roberta_) token.type_id = 0;
  }
  if (is_first) {
    row->tokens.insert(row->tokens.begin(), token_of(cls_, 0));
  } else if (is_roberta_) {
    row->tokens.insert(row->tokens.begin(), token_of(sep_, 0));
  }
  row->tokens.push_back(token_of(sep_, type_id));
}

Status PairPostProcessor::Process(std::vector<Row>* rows, bool add_special_tokens) const {
  if (trim_ != nullptr) SLM_TRY(trim_->Process(rows, add_special_tokens));
  if (is_roberta_) {
    for (Row& row : *rows) {
      for (TokenRow& token : row.tokens) token.type_id = 0;
    }
  }
  if (!add_special_tokens) return {};
  for (size_t i = 0; i < rows->size(); ++i) {
    Row& row = (*rows)[i];
    Wrap(&row, i == 0);
    for (Row& part : row.overflowing) Wrap(&part, i == 0);
  }
  return {};
}

Status TemplatePostProcessor::Process(std::vector<Row>* rows, bool add_special_tokens) const {
  if (rows->empty() || rows->size() > 2) {
    return Fail(MakeError(ErrorCode::kTokSchema,
                          "a template after a template that made " + std::to_string(rows->size()) + " parts")
                    .Field("$.post_processor"));
  }
  std::vector<Row> out;
  for (const Element& element : rows->size() == 2 ? pair_ : single_) {
    if (element.sequence >= 0) {
      Row& row = (*rows)[static_cast<size_t>(element.sequence)];
      for (TokenRow& token : row.tokens) token.type_id = element.type_id;
      out.push_back(row);
      continue;
    }
    if (!add_special_tokens) continue;
    const Special& special = specials_[element.special];
    Row row;
    for (size_t i = 0; i < special.ids.size(); ++i) {
      TokenRow token;
      token.id = special.ids[i];
      token.type_id = element.type_id;
      token.special = true;
      token.text = special.tokens[i];
      row.tokens.push_back(token);
    }
    out.push_back(std::move(row));
  }
  *rows = std::move(out);
  return {};
}

uint64_t TemplatePostProcessor::n_added(bool is_pair) const {
  uint64_t n = 0;
  for (const Element& element : is_pair ? pair_ : single_) {
    if (element.sequence < 0) n += specials_[element.special].ids.size();
  }
  return n;
}

std::vector<uint32_t> TemplatePostProcessor::added_ids(bool before_text) const {
  std::vector<uint32_t> out;
  bool seen_text = false;
  for (const Element& element : single_) {
    if (element.sequence >= 0) {
      seen_text = true;
    } else if (seen_text != before_text) {
      const Special& special = specials_[element.special];
      out.insert(out.end(), special.ids.begin(), special.ids.end());
    }
  }
  return out;
}

Status SequencePostProcessor::Process(std::vector<Row>* rows, bool add_special_tokens) const {
  for (const auto& part : parts_) SLM_TRY(part->Process(rows, add_special_tokens));
  return {};
}

uint64_t SequencePostProcessor::n_added(bool is_pair) const {
  uint64_t n = 0;
  for (const auto& part : parts_) n += part->n_added(is_pair);
  return n;
}

PostProcessor::Trimming SequencePostProcessor::trimming() const {
  Trimming out;
  for (const auto& part : parts_) {
    const Trimming one = part->trimming();
    if (one.n_times > 0) out = {out.n_times + one.n_times, one.add_prefix_space};
  }
  return out;
}

std::vector<uint32_t> SequencePostProcessor::added_ids(bool before_text) const {
  std::vector<uint32_t> out;
  for (const auto& part : parts_) {
    const std::vector<uint32_t> ids = part->added_ids(before_text);
    out.insert(before_text ? out.begin() : out.end(), ids.begin(), ids.end());
  }
  return out;
}

}  // namespace slm::tokenizer
