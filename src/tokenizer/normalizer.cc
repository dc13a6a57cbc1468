#include "tokenizer/normalizer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "unicode/bert_v8_0.h"
#include "unicode/classes_v16_0.h"
#include "unicode/grapheme_v17_0.h"
#include "unicode/lowercase_v17_0.h"
#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kVCount = 21, kTCount = 28, kSCount = 19 * kVCount * kTCount;

struct Decomposed {
  char32_t scalar;
  uint8_t combining_class;
  int32_t change;
};

// Sorts by class, equal ones as they are; long runs by counting, in linear time.
void SortByClass(std::span<Decomposed> parts) {
  constexpr size_t kShort = 16;
  if (parts.size() <= kShort) {
    for (size_t i = 1; i < parts.size(); ++i) {
      const Decomposed part = parts[i];
      size_t to = i;
      for (; to > 0 && parts[to - 1].combining_class > part.combining_class; --to) parts[to] = parts[to - 1];
      parts[to] = part;
    }
    return;
  }
  std::array<size_t, 257> starts{};
  for (const Decomposed& part : parts) ++starts[part.combining_class + 1u];
  for (size_t cls = 1; cls < starts.size(); ++cls) starts[cls] += starts[cls - 1];
  const std::vector<Decomposed> before(parts.begin(), parts.end());
  for (const Decomposed& part : before) parts[starts[part.combining_class]++] = part;
}

// Full decomposition in canonical order. The first part of a character replaces it, the others
// are new; reordering moves that mark along.
std::vector<Decomposed> Decompose(std::string_view text, bool compatible) {
  std::vector<Decomposed> out;
  out.reserve(text.size() / 2 + 1);
  size_t n_sorted = 0;  // parts before this one are in final order
  const auto sort_pending = [&out, &n_sorted]() {
    SortByClass(std::span(out).subspan(n_sorted));
    n_sorted = out.size();
  };
  const auto push = [&out, &sort_pending](char32_t scalar, bool first) {
    const uint8_t combining_class = unicode::CombiningClassV9(scalar);
    if (combining_class == 0) sort_pending();
    out.push_back({scalar, combining_class, first ? 0 : 1});
  };
  for (size_t i = 0; i < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + i);
    i += scalar.n_bytes;
    if (scalar.value >= kSBase && scalar.value < kSBase + kSCount) {
      const char32_t index = scalar.value - kSBase;
      push(kLBase + index / (kVCount * kTCount), true);
      push(kVBase + index % (kVCount * kTCount) / kTCount, false);
      if (index % kTCount != 0) push(kTBase + index % kTCount, false);
      continue;
    }
    const auto parts = compatible ? unicode::CompatibleDecompositionV9(scalar.value)
                                  : unicode::DecompositionV9(scalar.value);
    if (parts.empty()) push(scalar.value, true);
    for (size_t k = 0; k < parts.size(); ++k) push(parts[k], k == 0);
  }
  sort_pending();
  return out;
}

// Canonical composition (UAX #15); a composite takes over the changes of what it swallowed.
std::vector<Change> Compose(const std::vector<Decomposed>& parts) {
  std::vector<Change> out;
  out.reserve(parts.size());
  std::vector<Change> marks;  // after the starter, not composed with it
  std::optional<Change> starter;
  std::optional<uint8_t> last_class;
  const auto flush = [&]() {
    if (starter) out.push_back(*starter);
    out.insert(out.end(), marks.begin(), marks.end());
    marks.clear();
    starter.reset();
    last_class.reset();
  };
  for (const Decomposed& part : parts) {
    const Change change = {part.scalar, part.change};
    if (!starter) {
      if (part.combining_class != 0) {
        out.push_back(change);
      } else {
        starter = change;
      }
      continue;
    }
    const bool blocked = last_class && *last_class >= part.combining_class;
    const char32_t composite = blocked ? 0 : unicode::ComposeV9(starter->scalar, part.scalar);
    if (composite != 0) {
      starter = Change{composite, starter->change + part.change - 1};
    } else if (part.combining_class == 0) {
      flush();
      starter = change;
    } else {
      marks.push_back(change);
      last_class = part.combining_class;
    }
  }
  flush();
  return out;
}

std::vector<Change> Uncomposed(const std::vector<Decomposed>& parts) {
  std::vector<Change> out;
  out.reserve(parts.size());
  for (const Decomposed& part : parts) out.push_back({part.scalar, part.change});
  return out;
}

bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// Whether the first character stands for something of the input; else a rewrite moves alignment in
// the reference's way even where no character changes.
bool StartsSomewhere(const AlignedText& text) {
  return !text.text.empty() && text.align[0].begin != text.align[0].end;
}

bool IsCleanedAway(char32_t c) {
  if (c == 0 || c == 0xFFFD) return true;
  return c != '\t' && c != '\n' && c != '\r' && (unicode::BertClassV8(c) & unicode::kControlV8) != 0;
}

Status Lowercase(AlignedText* text) {
  std::vector<Change> changes;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    i += scalar.n_bytes;
    changes.push_back({unicode::LowercaseV17(scalar.value), 0});
    if (scalar.value == 0x130) changes.push_back({0x307, 1});
  }
  return Transform(text, changes);
}

}  // namespace

Status PrependNormalizer::Normalize(AlignedText* text) const {
  Prepend(text, prefix_);
  return {};
}

Status ReplaceNormalizer::Normalize(AlignedText* text) const {
  std::vector<Span> matches;
  SLM_TRY(pattern_.FindAll(text->text, &matches));
  return ReplaceMatches(text, matches, content_);
}

Status UnicodeNormalizer::Normalize(AlignedText* text) const {
  if (StartsSomewhere(*text) && IsAscii(text->text)) return {};
  const std::vector<Decomposed> parts = Decompose(text->text, compatible_);
  return Transform(text, compose_ ? Compose(parts) : Uncomposed(parts));
}

// In the reference's ranges: U+2B820 to U+2B91F are left out.
bool BertNormalizer::IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string UnicodeNormalizer::NormalizeText(std::string_view text) const {
  const std::vector<Decomposed> parts = Decompose(text, compatible_);
  std::string out;
  out.reserve(text.size());
  for (const Change& change : compose_ ? Compose(parts) : Uncomposed(parts))
    AppendScalar(&out, change.scalar);
  return out;
}

Status BertNormalizer::Normalize(AlignedText* text) const {
  if (options_.clean_text) {
    SLM_TRY(Filter(text, [](char32_t c) { return !IsCleanedAway(c); }));
    SLM_TRY(MapScalars(text, [](char32_t c) { return unicode::IsWhiteSpace(c) ? U' ' : c; }));
  }
  if (options_.handle_chinese_chars) {
    std::vector<Change> changes;
    for (size_t i = 0; i < text->text.size();) {
      const Scalar scalar = ReadScalar(text->text.data() + i);
      i += scalar.n_bytes;
      if (!IsChinese(scalar.value)) {
        changes.push_back({scalar.value, 0});
        continue;
      }
      changes.push_back({' ', 0});
      changes.push_back({scalar.value, 1});
      changes.push_back({' ', 1});
    }
    SLM_TRY(Transform(text, changes));
  }
  if (options_.strip_accents) {
    SLM_TRY(Transform(text, Uncomposed(Decompose(text->text, false))));
    SLM_TRY(
        Filter(text, [](char32_t c) { return (unicode::BertClassV8(c) & unicode::kNonspacingMarkV8) == 0; }));
  }
  return options_.lowercase ? Lowercase(text) : Status{};
}

bool BertNormalizer::NormalizeInOrder(std::string_view text, AlignedText* out) const {
  out->text.clear();
  out->align.clear();
  Span origin;
  const auto put = [out, &origin](char32_t c) {
    AppendScalar(&out->text, c);
    out->align.resize(out->text.size(), origin);
  };
  // After decomposition. A mark that stays may have to move, and takes another one's place then.
  const auto put_part = [this, &put](char32_t c) {
    if (options_.strip_accents) {
      if ((unicode::BertClassV8(c) & unicode::kNonspacingMarkV8) != 0) return true;
      if (unicode::CombiningClassV9(c) != 0) return false;
    }
    put(options_.lowercase ? unicode::LowercaseV17(c) : c);
    if (options_.lowercase && c == 0x130) put(0x307);
    return true;
  };
  for (uint32_t i = 0; i < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + i);
    origin = {i, i + scalar.n_bytes};
    i += scalar.n_bytes;
    char32_t c = scalar.value;
    if (options_.clean_text) {
      if (IsCleanedAway(c)) continue;
      if (unicode::IsWhiteSpace(c)) c = ' ';
    }
    if (options_.strip_accents && c >= kSBase && c < kSBase + kSCount) return false;
    const bool is_chinese = options_.handle_chinese_chars && IsChinese(c);
    if (is_chinese) put(' ');
    const auto parts = options_.strip_accents ? unicode::DecompositionV9(c) : std::span<const char32_t>();
    if (parts.empty() && !put_part(c)) return false;
    for (const char32_t part : parts) {
      if (!put_part(part)) return false;
    }
    if (is_chinese) put(' ');
  }
  return true;
}

Status StripNormalizer::Normalize(AlignedText* text) const {
  std::vector<char32_t> scalars;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    i += scalar.n_bytes;
    scalars.push_back(scalar.value);
  }
  size_t begin = 0;
  size_t end = scalars.size();
  while (left_ && begin < scalars.size() && unicode::IsWhiteSpace(scalars[begin])) ++begin;
  while (right_ && end > 0 && unicode::IsWhiteSpace(scalars[end - 1])) --end;
  if (begin == 0 && end == scalars.size()) return {};
  std::vector<Change> changes;
  for (size_t i = begin; i < end; ++i) changes.push_back({scalars[i], 0});
  return Transform(text, changes, begin);
}

Status StripAccentsNormalizer::Normalize(AlignedText* text) const {
  return Filter(text, [](char32_t c) { return !unicode::IsMarkV9(c); });
}

Status LowercaseNormalizer::Normalize(AlignedText* text) const {
  return Lowercase(text);
}

Status NmtNormalizer::Normalize(AlignedText* text) const {
  SLM_TRY(Filter(text, [](char32_t c) {
    return !((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
             c == 0x9F);
  }));
  return MapScalars(text, [](char32_t c) {
    const bool becomes_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                               (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                               c == 0xFEFF || c == 0xFFFD;
    return becomes_space ? U' ' : c;
  });
}

Status ByteLevelNormalizer::Normalize(AlignedText* text) const {
  return TransformToBytes(text);
}

Result<std::unique_ptr<PrecompiledNormalizer>> PrecompiledNormalizer::Make(ByteSpan charsmap) {
  const auto damaged = [](std::string message) -> std::unexpected<Error> {
    return Fail(ErrorCode::kTokCharsmap, "precompiled_charsmap " + std::move(message));
  };
  if (charsmap.size() < 4) return damaged("is shorter than its header");
  const auto trie_size = LoadLe<uint32_t>(charsmap.data());
  if (trie_size % 4 != 0 || trie_size < 4 || trie_size > charsmap.size() - 4) {
    return damaged("has a bad trie size");
  }
  std::unique_ptr<PrecompiledNormalizer> out(new PrecompiledNormalizer());
  out->trie_.resize(trie_size / 4);
  for (size_t i = 0; i < out->trie_.size(); ++i)
    out->trie_[i] = LoadLe<uint32_t>(charsmap.data() + 4 + i * 4);
  const uint32_t root = out->trie_[0];
  if ((uint64_t{root >> 10} << ((root & 0x200) >> 6)) >= out->trie_.size()) {
    return damaged("has a root outside the trie");
  }
  out->strings_ = AsText(charsmap.subspan(4 + trie_size));
  if (FindUtf8Fault(out->strings_)) return damaged("has strings that are not UTF-8");
  return out;
}

Result<std::optional<std::pair<size_t, std::string_view>>> PrecompiledNormalizer::Find(std::string_view part,
                                                                                       bool longest) const {
  const auto offset_of = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200) >> 6); };
  const auto damaged = []() -> std::unexpected<Error> {
    return Fail(ErrorCode::kTokCharsmap, "precompiled_charsmap leads outside its trie or its strings");
  };
  std::optional<std::pair<size_t, std::string_view>> found;
  size_t at = offset_of(trie_[0]);
  for (size_t i = 0; i < part.size(); ++i) {
    const auto byte = static_cast<uint8_t>(part[i]);
    if (byte == 0) break;
    at ^= byte;
    if (at >= trie_.size()) return damaged();
    const uint32_t unit = trie_[at];
    if ((unit & 0x800000FF) != byte) break;
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (at >= trie_.size()) return damaged();
    const uint32_t begin = trie_[at] & 0x7FFFFFFF;
    if (begin > strings_.size() || (begin < strings_.size() && IsContinuation(strings_[begin])))
      return damaged();
    const size_t end = std::min(strings_.find('\0', begin), strings_.size());
    found = {i + 1, std::string_view(strings_).substr(begin, end - begin)};
    if (!longest) break;
  }
  return found;
}

Result<std::optional<std::pair<size_t, std::string_view>>> PrecompiledNormalizer::FindLongest(
    std::string_view text) const {
  return Find(text, true);
}

Result<std::optional<std::string_view>> PrecompiledNormalizer::FindShortest(std::string_view cluster) const {
  SLM_ASSIGN(const auto found, Find(cluster, false));
  return found ? std::optional(found->second) : std::nullopt;
}

size_t PrecompiledNormalizer::LongestReplacement() const {
  size_t longest = 0;
  for (size_t begin = 0; begin < strings_.size();) {
    const size_t end = std::min(strings_.find('\0', begin), strings_.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

Status PrecompiledNormalizer::Normalize(AlignedText* text) const {
  std::vector<char32_t> scalars;
  std::vector<size_t> places;
  for (size_t i = 0; i < text->text.size();) {
    const Scalar scalar = ReadScalar(text->text.data() + i);
    places.push_back(i);
    scalars.push_back(scalar.value);
    i += scalar.n_bytes;
  }
  places.push_back(text->text.size());
  std::vector<Change> changes;
  bool modified = false;
  const auto replace = [&changes, &modified](size_t n_old, std::string_view with) {
    modified = true;
    const size_t before = changes.size();
    for (size_t i = 0; i < with.size();) changes.push_back({DecodeUtf8(with, &i), 0});
    const size_t n_new = changes.size() - before;
    for (size_t i = n_old; i < n_new; ++i) changes[before + i].change = 1;
    // Fewer than before: the last character takes the others along, be it one that came earlier.
    if (n_new < n_old && !changes.empty()) changes.back().change -= static_cast<int32_t>(n_old - n_new);
  };
  for (size_t begin = 0; begin < scalars.size();) {
    const size_t end = unicode::GraphemeEndV17(scalars, begin);
    const std::string_view cluster =
        std::string_view(text->text).substr(places[begin], places[end] - places[begin]);
    if (cluster.size() < 6) {
      SLM_ASSIGN(const auto with, Find(cluster, false));
      if (with) {
        replace(end - begin, with->second);
        begin = end;
        continue;
      }
    }
    for (; begin < end; ++begin) {
      const std::string_view one =
          std::string_view(text->text).substr(places[begin], places[begin + 1] - places[begin]);
      SLM_ASSIGN(const auto with, Find(one, false));
      if (with) {
        replace(1, with->second);
      } else {
        changes.push_back({scalars[begin], 0});
      }
    }
  }
  return modified ? Transform(text, changes) : Status{};
}

const PrecompiledNormalizer* SequenceNormalizer::FindCharsmap() const {
  const PrecompiledNormalizer* found = nullptr;
  for (const auto& part : parts_) {
    if (const PrecompiledNormalizer* charsmap = part->FindCharsmap()) found = charsmap;
  }
  return found;
}

Status SequenceNormalizer::Normalize(AlignedText* text) const {
  for (const auto& part : parts_) {
    SLM_TRY(part->Normalize(text));
    if (text->text.size() > kMaxTextBytes) {
      return Fail(ErrorCode::kLimit, "the normalizer makes the text larger than 1 GiB");
    }
  }
  return {};
}

}  // namespace slm::tokenizer
