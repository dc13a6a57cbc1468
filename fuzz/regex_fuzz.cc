// A pattern and a text, parted by a byte FF: what compiles matches in order, inside the text, at boundaries
// of characters, in bounded time and twice the same; a refusal points into the pattern.
#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "tokenizer/regex.h"

SLM_FUZZ_TARGET(data, size) {
  using slm::fuzz::Require;
  const uint8_t* parting = std::find(data, data + size, uint8_t{0xff});
  const std::string pattern(data, parting);
  const std::string text(parting == data + size ? parting : parting + 1, data + size);
  const auto regex = slm::tokenizer::Regex::Compile(pattern);
  if (!regex) {
    slm::fuzz::RequireOffset(regex.error(), pattern.size());
    return 0;
  }
  if (slm::FindUtf8Fault(text)) return 0;
  const auto is_boundary = [&text](uint32_t at) {
    return at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80;
  };
  slm::tokenizer::RegexSearch first(**regex, text);
  slm::tokenizer::RegexSearch second(**regex, text);
  uint32_t end = 0;
  for (size_t n = 0;; ++n) {
    const auto one = first.Next();
    const auto two = second.Next();
    Require(one.has_value() == two.has_value(), "the same verdict twice");
    if (!one) {
      Require(one.error().code == slm::ErrorCode::kLimit, "a search fails only at its limit");
      break;
    }
    Require(one->has_value() == two->has_value(), "the same number of matches twice");
    if (!*one) break;
    Require((*one)->begin == (*two)->begin && (*one)->end == (*two)->end, "the same match twice");
    Require((*one)->begin >= end && (*one)->begin <= (*one)->end && (*one)->end <= text.size(),
            "matches come in order and lie inside the text");
    Require(is_boundary((*one)->begin) && is_boundary((*one)->end),
            "matches begin and end between characters");
    Require(n <= text.size(), "no more matches than characters, and one at the end");
    end = (*one)->end;
  }
  return 0;
}
