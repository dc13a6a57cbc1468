// The front matter of a model card: the few lines of YAML between the first two "---".
//
// The reader understands a subset of YAML. Front matter outside the subset is never taken for silence: if
// such text could hold a license at all, the license counts as declared in a form that is not understood.
#include <algorithm>
#include <cstdint>

#include "acquire/license.h"

namespace slm::acquire {
namespace {

struct Line {
  std::string_view text;  // without its line end
  uint64_t byte_offset;
};

struct FrontMatter {
  bool is_there = false;
  bool is_odd = false;      // not exactly "---", lines, "---": readers of YAML differ about it
  std::string_view text;    // what a reader could take for it
  std::vector<Line> lines;  // of a front matter that is not odd
};

// YAML ends a line at LF, CR, or both.
std::vector<Line> Lines(std::string_view card) {
  std::vector<Line> lines;
  for (size_t at = 0; at < card.size();) {
    const size_t end = std::min(card.find_first_of("\r\n", at), card.size());
    lines.push_back({card.substr(at, end - at), at});
    at = end + (card.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  return lines;
}

std::string_view WithoutBlanksAtEnd(std::string_view text) {
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// "---" or "..." as a mark of YAML: alone, or before a blank.
bool IsMark(std::string_view text, std::string_view mark) {
  return text.starts_with(mark) && (text.size() == 3 || text[3] == ' ' || text[3] == '\t');
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

FrontMatter FindFrontMatter(std::string_view card) {
  FrontMatter found;
  std::vector<Line> lines = Lines(card);
  size_t first = 0;
  const auto is_blank = [](std::string_view text) {
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    return WithoutBlanksAtEnd(text).empty();
  };
  while (first < lines.size() && is_blank(lines[first].text)) ++first;
  if (first == lines.size()) return found;
  std::string_view opening = lines[first].text;
  if (opening.starts_with(kByteOrderMark)) opening.remove_prefix(kByteOrderMark.size());
  opening.remove_prefix(std::min(opening.find_first_not_of(" \t"), opening.size()));
  if (!IsMark(opening, "---")) return found;
  found.is_there = true;
  found.is_odd = first != 0 || lines[first].text != "---";
  size_t last = first + 1;
  while (last < lines.size() && !IsMark(lines[last].text, "---") && !IsMark(lines[last].text, "...")) ++last;
  // Not closed, or closed in a way that the hub and YAML see differently: the whole card counts.
  const bool is_closed = last < lines.size() && lines[last].text == "---";
  found.is_odd = found.is_odd || !is_closed;
  found.text = is_closed ? card.substr(0, lines[last].byte_offset) : card;
  // Line ends of YAML 1.1 beyond ASCII: next line, line separator, paragraph separator.
  for (std::string_view line_end : {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"}) {
    found.is_odd = found.is_odd || found.text.find(line_end) != std::string_view::npos;
  }
  if (!found.is_odd) {
    found.lines.assign(lines.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                       lines.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return found;
}

// A text that could name a license: the word, or an escape that could spell it.
bool CouldNameLicense(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower.find("licens") != std::string::npos || lower.find("licenc") != std::string::npos ||
         lower.find('\\') != std::string::npos;
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
      if (!lines[next].text.starts_with(' ')) break;
      // A scalar on a line of its own, which nothing continues; else a nested mapping, or a longer text.
      auto alone = item.Scalar(/*in_list=*/false);
      const bool goes_on = next + 1 < lines.size() && lines[next + 1].text.starts_with(' ');
      parsed.is_plain = parsed.values.empty() && alone.has_value() && item.AtEnd() && !goes_on;
      if (parsed.is_plain) parsed.values.push_back(*std::move(alone));
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

// Walks over the lines at top level and tells keys from what belongs to the key before.
class TopLevel {
 public:
  enum class Kind : uint8_t { kSkip, kKey, kOdd };

  // For kKey: `key` without quotes, and where the value begins in the line.
  Kind Next(std::string_view text, std::string* key, size_t* value_at) {
    const std::string_view line = WithoutBlanksAtEnd(text);
    if (line.empty()) return Kind::kSkip;
    if (line.front() == ' ' || line.front() == '\t') return Indented(line);
    if (line.front() == '#') return Kind::kSkip;
    // A list under the key before may stand at its own depth.
    if (line == "-" || line.starts_with("- ")) return has_key_ && !open_quote_ ? Indented(line) : Kind::kOdd;
    if (line.front() == ']' || line.front() == '}') return CloseFlow(line);
    if (open_flow_ || open_quote_) return Kind::kOdd;
    if (!ReadKey(line, key, value_at)) return Kind::kOdd;
    has_key_ = true;
    return BeginValue(line.substr(*value_at)) ? Kind::kKey : Kind::kOdd;
  }
  // Nothing is left open.
  [[nodiscard]] bool AtEnd() const { return !open_flow_ && !open_quote_; }

 private:
  Kind Indented(std::string_view line) {
    if (!has_key_) return Kind::kOdd;  // then the keys stand here
    if (in_block_) return Kind::kSkip;
    if (open_flow_) {
      if (line.find_first_of("\"'") != std::string_view::npos) has_quotes_ = true;
      if (line.ends_with(']') || line.ends_with('}')) open_flow_ = false;
      return Kind::kSkip;
    }
    if (open_quote_) {
      if (line.find(*open_quote_) != std::string_view::npos) open_quote_.reset();
      return Kind::kSkip;
    }
    // A quoted scalar inside that goes on over the next lines.
    const size_t at = std::min(line.find(": \""),
                               std::min(line.find("- \""), std::min(line.find(": '"), line.find("- '"))));
    if (at != std::string_view::npos && line.find(line[at + 2], at + 3) == std::string_view::npos)
      open_quote_ = line[at + 2];
    return Kind::kSkip;
  }

  Kind CloseFlow(std::string_view line) {
    if (!open_flow_ || has_quotes_ || line.size() != 1) return Kind::kOdd;
    open_flow_ = false;
    return Kind::kSkip;
  }

  static bool ReadKey(std::string_view line, std::string* key, size_t* value_at) {
    size_t end = 0;
    const char quote = line.front();
    if (quote == '"' || quote == '\'') {
      const size_t close = line.find(quote, 1);
      if (close == std::string_view::npos) return false;
      *key = line.substr(1, close - 1);
      if (key->find('\\') != std::string::npos) return false;
      end = close + 1;
    } else {
      while (end < line.size() &&
             (line[end] == '_' || line[end] == '-' || line[end] == '.' ||
              (line[end] >= '0' && line[end] <= '9') || (line[end] >= 'a' && line[end] <= 'z') ||
              (line[end] >= 'A' && line[end] <= 'Z'))) {
        ++end;
      }
      *key = line.substr(0, end);
    }
    if (key->empty()) return false;
    while (end < line.size() && line[end] == ' ') ++end;
    if (end == line.size() || line[end] != ':') return false;
    *value_at = end + 1;
    return *value_at == line.size() || line[*value_at] == ' ' || line[*value_at] == '\t';
  }

  // False for a value that goes on in a way that the next lines do not show.
  bool BeginValue(std::string_view value) {
    in_block_ = open_flow_ = has_quotes_ = false;
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (value.empty()) return true;
    in_block_ = value.front() == '|' || value.front() == '>';
    if (value.front() == '"' || value.front() == '\'')
      return value.find(value.front(), 1) != std::string_view::npos;
    if (value.front() == '[' || value.front() == '{') {
      const char close = value.front() == '[' ? ']' : '}';
      open_flow_ = value.find(close) == std::string_view::npos;
      has_quotes_ = value.find_first_of("\"'") != std::string_view::npos;
    }
    return true;
  }

  bool has_key_ = false;
  bool in_block_ = false;
  bool open_flow_ = false;
  bool has_quotes_ = false;
  std::optional<char> open_quote_;
};

// The license is there, but nobody can say what it is.
void NotUnderstood(CardLicense* result, uint64_t byte_offset) {
  result->is_declared = true;
  result->is_plain = false;
  result->byte_offset = byte_offset;
  result->values.clear();
}

}  // namespace

CardLicense ReadCardLicense(std::string_view card) {
  CardLicense result;
  const FrontMatter front = FindFrontMatter(card);
  result.has_front_matter = front.is_there;
  bool is_odd = front.is_odd;
  uint64_t odd_at = 0;
  TopLevel walk;
  for (size_t i = 0; i < front.lines.size() && !is_odd; ++i) {
    const std::string_view text = front.lines[i].text;
    std::string key;
    size_t value_at = 0;
    const TopLevel::Kind kind = walk.Next(text, &key, &value_at);
    if (kind == TopLevel::Kind::kOdd) {
      is_odd = true;
      odd_at = front.lines[i].byte_offset;
    }
    if (kind != TopLevel::Kind::kKey) continue;
    const std::string_view rest = text.substr(value_at);
    const uint64_t offset =
        front.lines[i].byte_offset + value_at + std::min(rest.find_first_not_of(" \t"), rest.size());
    if (key == "license") {
      const Parsed parsed = ReadValue(front.lines, i, rest);
      result.stands_twice = result.is_declared;
      result.is_plain = result.is_plain && parsed.is_plain;
      result.values.insert(result.values.end(), parsed.values.begin(), parsed.values.end());
      result.byte_offset = offset;
      result.is_declared = true;
    } else if (key == "license_name" || key == "license_link") {
      const Parsed parsed = ReadValue(front.lines, i, rest);
      if (parsed.values.size() == 1) (key == "license_name" ? result.name : result.link) = parsed.values[0];
    } else if (key.size() <= 8 && CouldNameLicense(key)) {  // License, LICENSE, licence
      is_odd = true;
      odd_at = front.lines[i].byte_offset;
    }
  }
  is_odd = is_odd || !walk.AtEnd();
  if (is_odd && CouldNameLicense(front.text)) NotUnderstood(&result, odd_at);
  // A name or a link without `license`: it speaks, but names none.
  if (!result.is_declared && !(result.name.empty() && result.link.empty())) NotUnderstood(&result, 0);
  return result;
}

}  // namespace slm::acquire
