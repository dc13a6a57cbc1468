// The parser: one pass, no recursion, one tape entry for each key and value.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_impl.h"
#include "codec/json_key_set.h"

namespace slm::json {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101u;
constexpr uint64_t kHighs = 0x8080808080808080u;

// True if one of eight bytes is a quote, a backslash, or a control character.
bool HasSpecial(uint64_t block) {
  const auto has_zero = [](uint64_t x) { return (x - kOnes) & ~x & kHighs; };
  const uint64_t quote = has_zero(block ^ (kOnes * '"'));
  const uint64_t backslash = has_zero(block ^ (kOnes * '\\'));
  const uint64_t control = (block - kOnes * 0x20) & ~block & kHighs;
  return (quote | backslash | control) != 0;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

class Parser {
 public:
  Parser(Tape* document, const Limits& limits)
      : document_(document), text_(document->text), limits_(limits), entries_(document->entries) {}

  Status Run() {
    entries_.reserve(text_.size() / 16 + 8);  // no copies while it grows; untouched pages cost nothing
    if (const auto fault = FindUtf8Fault(text_)) utf8_fault_ = fault->byte_offset;
    SkipBlanks();
    SLM_TRY(BeginValue(false));
    while (!open_.empty()) SLM_TRY(Continue());
    entries_[0].is_last = true;
    if (!limits_.allow_trailing_spaces_only) SkipBlanks();
    while (limits_.allow_trailing_spaces_only && position_ < text_.size() && text_[position_] == ' ')
      ++position_;
    if (position_ == text_.size()) return {};
    auto refusal = Refuse(ErrorCode::kJsonSyntax, position_, "bytes follow the value");
    refusal.error().field = "trailing";
    return refusal;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kSmallObject = 12;  // up to here keys are compared one by one

  struct Open {
    uint32_t index;          // of the container
    uint32_t last_child;     // of its latest value, kNone before the first
    KeySet* keys = nullptr;  // only of a large object
  };

  // Ill-formed UTF-8 before `offset` is the first fault of the text and is reported instead.
  std::unexpected<Error> Refuse(ErrorCode code, size_t offset, std::string message) const {
    if (utf8_fault_ <= offset && utf8_fault_ < text_.size()) {
      return Fail(MakeError(ErrorCode::kJsonUtf8, "not well-formed UTF-8").At(utf8_fault_));
    }
    return Fail(MakeError(code, std::move(message)).At(offset));
  }
  std::unexpected<Error> Unexpected(std::string_view wanted) const {
    if (position_ >= text_.size()) {
      return Refuse(ErrorCode::kJsonSyntax, text_.size(),
                    "the text ends where " + std::string(wanted) + " is needed");
    }
    return Refuse(ErrorCode::kJsonSyntax, position_, std::string(wanted) + " is needed here");
  }

  void SkipBlanks() {
    while (position_ < text_.size() && IsBlank(text_[position_])) ++position_;
  }
  bool Take(char c) {
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  Status AddEntry(Kind kind, size_t begin, size_t end, bool is_member) {
    if (entries_.size() >= limits_.max_values || entries_.size() >= kNone) {
      return Refuse(ErrorCode::kJsonLimit, begin, "more values than the limit");
    }
    entries_.push_back(
        {static_cast<uint32_t>(begin), static_cast<uint32_t>(end), 0, 0, kind, is_member, false, false});
    return {};
  }

  // One step inside the innermost open container: its end, or one more child.
  Status Continue() {
    Open& open = open_.back();
    const bool is_object = entries_[open.index].kind == Kind::kObject;
    SkipBlanks();
    if (Take(is_object ? '}' : ']')) {
      Close();
      return {};
    }
    if (open.last_child != kNone) {
      if (!Take(',')) return Unexpected(is_object ? "',' or '}'" : "',' or ']'");
      SkipBlanks();
    }
    if (is_object) SLM_TRY(Key(&open));
    open.last_child = static_cast<uint32_t>(entries_.size());
    ++entries_[open.index].b;
    return BeginValue(is_object);  // may push, which ends the life of `open`
  }

  void Close() {
    const Open open = open_.back();
    Entry& container = entries_[open.index];
    container.end = static_cast<uint32_t>(position_);
    container.a = static_cast<uint32_t>(entries_.size());
    if (open.last_child != kNone) entries_[open.last_child].is_last = true;
    if (open.keys != nullptr) key_sets_.pop_back();
    open_.pop_back();
  }

  Status Key(Open* open) {
    if (position_ >= text_.size() || text_[position_] != '"') return Unexpected("a key");
    const size_t begin = position_;
    const auto key_index = static_cast<uint32_t>(entries_.size());
    SLM_TRY(String(false));
    if (!IsNewKey(open, key_index)) {
      const std::string key = std::string(document_->StringAt(key_index).substr(0, 80));
      auto refusal =
          Refuse(ErrorCode::kJsonDupKey, begin, "the key \"" + key + "\" stands twice in one object");
      refusal.error().field = key;
      return refusal;
    }
    SkipBlanks();
    if (!Take(':')) return Unexpected("':'");
    SkipBlanks();
    return {};
  }

  bool IsNewKey(Open* open, uint32_t key_index) {
    if (open->keys != nullptr) return open->keys->Insert(key_index);
    const uint32_t n_before = entries_[open->index].b;
    const bool grows = n_before == kSmallObject;
    if (grows) open->keys = &key_sets_.emplace_back(document_);
    const std::string_view key = document_->StringAt(key_index);
    uint32_t at = open->index + 1;
    for (uint32_t i = 0; i < n_before; ++i) {
      if (document_->StringAt(at) == key) return false;
      if (grows) open->keys->Insert(at);
      at = document_->SubtreeEnd(at + 1);
    }
    return !grows || open->keys->Insert(key_index);
  }

  Status BeginValue(bool is_member) {
    if (position_ >= text_.size()) return Unexpected("a value");
    switch (text_[position_]) {
      case '{':
        return OpenContainer(Kind::kObject, is_member);
      case '[':
        return OpenContainer(Kind::kArray, is_member);
      case '"':
        return String(is_member);
      case 't':
        return Literal("true", Kind::kTrue, is_member);
      case 'f':
        return Literal("false", Kind::kFalse, is_member);
      case 'n':
        return Literal("null", Kind::kNull, is_member);
      default:
        if (text_[position_] == '-' || IsDigit(text_[position_])) return Number(is_member);
        return Unexpected("a value");
    }
  }

  Status OpenContainer(Kind kind, bool is_member) {
    if (open_.size() >= limits_.max_depth) {
      return Refuse(ErrorCode::kJsonDepth, position_,
                    "nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    const auto index = static_cast<uint32_t>(entries_.size());
    SLM_TRY(AddEntry(kind, position_, position_, is_member));
    open_.push_back({index, kNone});
    ++position_;
    return {};
  }

  Status Literal(std::string_view word, Kind kind, bool is_member) {
    if (text_.substr(position_, word.size()) != word) return Unexpected("a value");
    SLM_TRY(AddEntry(kind, position_, position_ + word.size(), is_member));
    position_ += word.size();
    return {};
  }

  Status Number(bool is_member) {
    const size_t begin = position_;
    size_t at = begin + (text_[begin] == '-' ? 1 : 0);
    const auto digits = [&] {
      const size_t first = at;
      while (at < text_.size() && IsDigit(text_[at])) ++at;
      return at > first;
    };
    const bool has_leading_zero = at < text_.size() && text_[at] == '0';
    const size_t integer_at = at;
    bool is_good = digits() && !(has_leading_zero && at > integer_at + 1);
    if (is_good && at < text_.size() && text_[at] == '.') {
      ++at;
      is_good = digits();
    }
    if (is_good && at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
      ++at;
      if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
      is_good = digits();
    }
    if (!is_good) return Refuse(ErrorCode::kJsonSyntax, begin, "not a number as JSON writes it");
    SLM_TRY(AddEntry(Kind::kNumber, begin, at, is_member));
    position_ = at;
    return {};
  }

  // At a quote: the string up to its closing quote, checked, becomes one entry.
  Status String(bool is_member) {
    const size_t begin = position_;
    size_t at = begin + 1;
    while (true) {
      while (at + 8 <= text_.size()) {
        uint64_t block = 0;
        std::memcpy(&block, text_.data() + at, 8);
        if (HasSpecial(block)) break;
        at += 8;
      }
      while (at < text_.size() && text_[at] != '"' && text_[at] != '\\' &&
             static_cast<uint8_t>(text_[at]) >= 0x20) {
        ++at;
      }
      if (at >= text_.size()) {
        return Refuse(ErrorCode::kJsonSyntax, text_.size(), "the text ends inside a string");
      }
      if (text_[at] != '\\') break;
      return StringWithEscapes(begin, at, is_member);
    }
    if (text_[at] != '"') return Refuse(ErrorCode::kJsonSyntax, at, "a control character must be escaped");
    return EndString(begin, at + 1, is_member);
  }

  Status EndString(size_t begin, size_t end, bool is_member) {
    if (utf8_fault_ < end) return Refuse(ErrorCode::kJsonUtf8, utf8_fault_, "not well-formed UTF-8");
    SLM_TRY(AddEntry(Kind::kString, begin, end, is_member));
    position_ = end;
    return {};
  }

  Status StringWithEscapes(size_t begin, size_t at, bool is_member) {
    std::string& out = document_->unescaped;
    const size_t place = out.size();
    out.append(text_.substr(begin + 1, at - begin - 1));
    while (true) {
      const size_t plain = at;
      while (at < text_.size() && text_[at] != '"' && text_[at] != '\\' &&
             static_cast<uint8_t>(text_[at]) >= 0x20) {
        ++at;
      }
      out.append(text_.substr(plain, at - plain));
      if (at >= text_.size()) {
        return Refuse(ErrorCode::kJsonSyntax, text_.size(), "the text ends inside a string");
      }
      if (text_[at] == '"') break;
      if (text_[at] != '\\') return Refuse(ErrorCode::kJsonSyntax, at, "a control character must be escaped");
      SLM_TRY(Escape(&at, &out));
    }
    const auto index = entries_.size();
    SLM_TRY(EndString(begin, at + 1, is_member));
    entries_[index].has_escapes = true;
    entries_[index].a = static_cast<uint32_t>(place);
    entries_[index].b = static_cast<uint32_t>(out.size() - place);
    return {};
  }

  // At a backslash.
  Status Escape(size_t* at, std::string* out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const size_t begin = *at;
    if (begin + 1 >= text_.size()) {
      return Refuse(ErrorCode::kJsonSyntax, text_.size(), "the text ends inside a string");
    }
    const char letter = text_[begin + 1];
    if (letter != 'u') {
      const size_t which = kLetters.find(letter);
      if (which == std::string_view::npos) return Refuse(ErrorCode::kJsonSyntax, begin, "an unknown escape");
      out->push_back(kMeanings[which]);
      *at = begin + 2;
      return {};
    }
    const int first = FourHexDigits(begin);
    if (first < 0) return Refuse(ErrorCode::kJsonSyntax, begin, "\\u needs four hexadecimal digits");
    *at = begin + 6;
    if (first < 0xD800 || first > 0xDFFF) {
      AppendUtf8(out, static_cast<char32_t>(first));
      return {};
    }
    const int second = first < 0xDC00 ? FourHexDigits(*at) : -1;
    if (second < 0xDC00 || second > 0xDFFF) {
      return Refuse(ErrorCode::kJsonSurrogate, begin, "half of a surrogate pair stands alone");
    }
    AppendUtf8(out, static_cast<char32_t>(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)));
    *at += 6;
    return {};
  }

  // The number after "\u" at `at`; -1 if that is not what stands there.
  int FourHexDigits(size_t at) const {
    if (at + 6 > text_.size() || text_[at] != '\\' || text_[at + 1] != 'u') return -1;
    int value = 0;
    for (size_t i = at + 2; i < at + 6; ++i) {
      const char c = text_[i];
      const int digit = IsDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  }

  Tape* document_;
  const std::string_view text_;
  const Limits& limits_;
  std::vector<Entry>& entries_;
  size_t position_ = 0;
  size_t utf8_fault_ = SIZE_MAX;
  std::vector<Open> open_;
  std::deque<KeySet> key_sets_;  // a stack, beside the large objects of open_
};

Result<Document> Parse(std::string text, const Limits& limits) {
  const uint64_t max_bytes = std::min<uint64_t>(limits.max_bytes, UINT32_MAX - 1);
  if (text.size() > max_bytes) {
    return Fail(MakeError(ErrorCode::kJsonLimit, "longer than " + std::to_string(max_bytes) + " bytes")
                    .At(max_bytes));
  }
  Document document;
  document.impl_->text = std::move(text);
  SLM_TRY(Parser(document.impl_.get(), limits).Run());
  return document;
}

}  // namespace slm::json
