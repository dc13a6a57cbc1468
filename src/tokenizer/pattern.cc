#include "tokenizer/pattern.h"

namespace slm::tokenizer {

Status Pattern::FindAll(std::string_view text, std::vector<Span>* out) const {
  out->clear();
  if (text.empty()) return {};
  if (regex_ != nullptr) {
    RegexSearch search(*regex_, text);
    while (true) {
      SLM_ASSIGN(const auto match, search.Next());
      if (!match) return {};
      out->push_back({match->begin, match->end});
    }
  }
  const auto size = static_cast<uint32_t>(text.size());
  if (literal_.empty()) {
    for (uint32_t i = 0; i < size; ++i) {
      if (!IsContinuation(text[i])) out->push_back({i, i});
    }
    out->push_back({size, size});
    return {};
  }
  for (size_t found = text.find(literal_); found != std::string_view::npos;) {
    const auto begin = static_cast<uint32_t>(found);
    out->push_back({begin, begin + static_cast<uint32_t>(literal_.size())});
    found = text.find(literal_, found + literal_.size());
  }
  return {};
}

}  // namespace slm::tokenizer
