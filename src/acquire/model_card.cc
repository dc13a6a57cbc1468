// The front matter of a model card: the few lines of YAML between the first two "---".
#include <algorithm>

#include "acquire/license.h"
#include "base/utf8.h"

namespace slm::acquire {
namespace {

struct Line {
  std::string_view text;  // without its line end
  uint64_t byte_offset;
};

// Lines of the front matter; empty if the card does not begin with one that is closed.
std::vector<Line> FrontMatter(std::string_view card) {
  std::vector<Line> lines;
  uint64_t at = 0;
  bool is_first = true;
  while (at < card.size()) {
    size_t end = card.find('\n', at);
    if (end == std::string_view::npos) end = card.size();
    std::string_view text = card.substr(at, end - at);
    if (text.ends_with('\r')) text.remove_suffix(1);
    const bool is_fence = text == "---";
    if (is_first && !is_fence) return {};
    if (!is_first && is_fence) return lines;
    if (!is_first) lines.push_back({text, at});
    is_first = false;
    at = end + 1;
  }
  return {};
}

// Reads scalars out of one line of YAML.
class ScalarReader {
 public:
  explicit ScalarReader(std::string_view text) : text_(text) {}

  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  // Only blanks or a comment remain.
  [[nodiscard]] bool AtEnd() {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != '#') return at_ == text_.size();
    return at_ == 0 || text_[at_ - 1] == ' ' || text_[at_ - 1] == '\t';
  }
  [[nodiscard]] bool Take(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] size_t position() const { return at_; }

  // A plain or quoted scalar; nothing for a form outside the subset. In a flow list a plain scalar
  // ends at a comma or bracket.
  [[nodiscard]] std::optional<std::string> Scalar(bool in_list) {
    SkipBlanks();
    if (at_ == text_.size()) return std::nullopt;
    const char quote = text_[at_];
    if (quote == '"' || quote == '\'') return Quoted(quote);
    // Anchors, aliases, tags, block scalars, nested collections, reserved indicators.
    if (std::string_view("&*!|>{}[],%@`#?:-").find(quote) != std::string_view::npos) return std::nullopt;
    const size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (in_list && (c == ',' || c == ']')) break;
      if (c == '#' && (text_[at_ - 1] == ' ' || text_[at_ - 1] == '\t')) break;
      if (c == ':' && (at_ + 1 == text_.size() || text_[at_ + 1] == ' ')) return std::nullopt;
      ++at_;
    }
    std::string_view value = text_.substr(begin, at_ - begin);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    return std::string(value);
  }

 private:
  std::optional<std::string> Quoted(char quote) {
    std::string value;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') return std::nullopt;  // escapes stand in no identifier
      if (c != quote) {
        value.push_back(c);
      } else if (quote == '\'' && at_ + 1 < text_.size() && text_[at_ + 1] == '\'') {
        value.push_back('\'');
        ++at_;
      } else {
        ++at_;
        return value;
      }
    }
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Parsed {
  std::vector<std::string> values;
  bool is_plain = true;
};

// `[a, b]` on one line, after its bracket was taken.
bool ReadFlowList(ScalarReader* reader, Parsed* parsed) {
  if (reader->Take(']')) return reader->AtEnd();
  for (;;) {
    auto item = reader->Scalar(/*in_list=*/true);
    if (!item) return false;
    parsed->values.push_back(*std::move(item));
    if (reader->Take(']')) return reader->AtEnd();
    if (!reader->Take(',')) return false;
  }
}

// The value after "key:" on lines[at]; a block list may follow on the next lines.
Parsed ReadValue(const std::vector<Line>& lines, size_t at, std::string_view rest) {
  Parsed parsed;
  ScalarReader reader(rest);
  if (!reader.AtEnd()) {
    if (reader.Take('[')) {
      parsed.is_plain = ReadFlowList(&reader, &parsed);
      return parsed;
    }
    auto value = reader.Scalar(/*in_list=*/false);
    parsed.is_plain = value.has_value() && reader.AtEnd();
    if (value) parsed.values.push_back(*std::move(value));
    // A plain scalar may go on, indented, on the next line: outside the subset.
    if (at + 1 < lines.size() && lines[at + 1].text.starts_with(' ')) parsed.is_plain = false;
    return parsed;
  }
  for (size_t next = at + 1; next < lines.size(); ++next) {
    ScalarReader item(lines[next].text);
    if (item.AtEnd()) continue;
    if (!item.Take('-')) {
      if (lines[next].text.starts_with(' ')) parsed.is_plain = false;  // a nested mapping
      break;
    }
    auto value = item.Scalar(/*in_list=*/false);
    if (!value || !item.AtEnd()) {
      parsed.is_plain = false;
      break;
    }
    parsed.values.push_back(*std::move(value));
  }
  return parsed;
}

}  // namespace

CardLicense ReadCardLicense(std::string_view card) {
  CardLicense result;
  const std::vector<Line> lines = FrontMatter(card);
  result.has_front_matter = !lines.empty();
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view text = lines[i].text;
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view key = text.substr(0, colon);
    while (key.ends_with(' ')) key.remove_suffix(1);
    if (key.size() > 2 && (key.front() == '"' || key.front() == '\'') && key.back() == key.front()) {
      key = key.substr(1, key.size() - 2);
    }
    const std::string_view rest = text.substr(colon + 1);
    if (key == "license") {
      const Parsed parsed = ReadValue(lines, i, rest);
      result.stands_twice = result.is_declared;
      result.is_plain = result.is_plain && parsed.is_plain;
      result.values.insert(result.values.end(), parsed.values.begin(), parsed.values.end());
      result.byte_offset =
          lines[i].byte_offset + colon + 1 + std::min(rest.find_first_not_of(" \t"), rest.size());
      result.is_declared = true;
    } else if (key == "license_name" || key == "license_link") {
      const Parsed parsed = ReadValue(lines, i, rest);
      if (parsed.values.size() == 1) (key == "license_name" ? result.name : result.link) = parsed.values[0];
    }
  }
  return result;
}

}  // namespace slm::acquire
