#include "tokenizer/unigram_words.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "unicode/classes_v16_0.h"
#include "unicode/grapheme_v17_0.h"
#include "unicode/lowercase_v17_0.h"
#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

constexpr char32_t kMeta = 0x2581;
constexpr std::string_view kMetaText = "\xE2\x96\x81";
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kVCount = 21, kTCount = 28, kSCount = 19 * kVCount * kTCount;
constexpr uint64_t kDecompositionGrowth = 11;  // U+FDFA: 3 bytes become 33
constexpr uint64_t kLowercaseGrowth = 2;       // U+0130: 2 bytes become 3
constexpr char32_t kFirstJoining = 0x300;      // two characters below it are two clusters, but for CR LF

uint32_t Utf8Length(char32_t scalar) {
  return scalar < 0x80 ? 1 : scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4;
}

// Where the cluster that begins at `begin` ends. REQUIRES: `next` holds the characters from there on.
template <typename Chars>
size_t ClusterEnd(const Chars& chars, size_t begin, std::vector<char32_t>* scalars) {
  if (begin + 1 == chars.size()) return begin + 1;
  const char32_t first = chars[begin].scalar;
  if (first < kFirstJoining && first != '\r' && chars[begin + 1].scalar < kFirstJoining) return begin + 1;
  if (scalars->empty()) {
    for (const auto& one : chars) scalars->push_back(one.scalar);
  }
  return unicode::GraphemeEndV17(*scalars, begin);
}

bool EndsCluster(char32_t scalar) {
  const std::array<char32_t, 2> with_space = {scalar, U' '};
  return unicode::GraphemeEndV17(with_space, 0) == 1;
}

}  // namespace

UnigramWords::UnigramWords(Options options, const UnigramModel& model, const PrecompiledNormalizer* charsmap)
    : options_(std::move(options)), model_(model), charsmap_(charsmap) {}

std::unique_ptr<const UnigramWords> UnigramWords::Make(Options options, const UnigramModel& model,
                                                       const PrecompiledNormalizer* charsmap) {
  if (options.charsmap != (charsmap != nullptr)) return nullptr;
  std::unique_ptr<UnigramWords> out(new UnigramWords(std::move(options), model, charsmap));
  if (!out->SetUp()) return nullptr;
  return out;
}

std::optional<std::string> UnigramWords::OfAscii(char c) const {
  const char lower = options_.lowercase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  std::string out(1, lower);
  if (charsmap_ == nullptr) return out;
  const auto found = charsmap_->FindShortest(out);
  if (!found) return std::nullopt;
  if (*found) out = **found;
  return out;
}

bool UnigramWords::SetUp() {
  for (int i = 0; i < 128; ++i) {
    const auto c = static_cast<char>(i);
    const auto text = OfAscii(c);
    if (!text) return false;
    ascii_growth_ = std::max<uint64_t>(ascii_growth_, text->size());
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    const bool stays_space = !text->empty() && ReadScalar(text->data()).n_bytes == text->size() &&
                             unicode::IsWhiteSpace(ReadScalar(text->data()).value);
    if (is_space && !stays_space) return false;
    is_space_[static_cast<size_t>(i)] = is_space;
    starts_part_[static_cast<size_t>(i)] = !text->empty();
    const bool is_plain = text->size() == 1 && (*text)[0] > ' ' && (*text)[0] < 0x7F;
    plain_[static_cast<size_t>(i)] = is_plain ? (*text)[0] : '\0';
  }
  if (charsmap_ != nullptr) {
    const auto line_end = charsmap_->FindShortest("\r\n");  // one cluster
    if (!line_end) return false;
    if (*line_end && ((*line_end)->empty() || !is_space_['\r'])) return false;
    for (size_t i = 0; *line_end && i < (*line_end)->size();) {
      const Scalar scalar = ReadScalar((*line_end)->data() + i);
      if (!unicode::IsWhiteSpace(scalar.value)) return false;
      i += scalar.n_bytes;
    }
    // An entry of one byte is that of an ASCII character.
    growth_ = std::max<uint64_t>({growth_, ascii_growth_, charsmap_->LongestReplacement() / 2 + 1});
  }
  if (options_.nfkd_strip_accents) growth_ *= kDecompositionGrowth;
  if (options_.lowercase) growth_ *= kLowercaseGrowth;
  return true;
}

bool UnigramWords::StaysSmall(std::string_view text) const {
  uint64_t n_ascii = 0;
  for (const char c : text) n_ascii += static_cast<uint8_t>(c) < 0x80 ? 1u : 0u;
  // The prefix of a word has three bytes, and each word has one at least.
  return 4 * (n_ascii * ascii_growth_ + (text.size() - n_ascii) * growth_) <= kMaxTextBytes;
}

size_t UnigramWords::Split(std::string_view text, size_t* at, Word* parts, size_t capacity) const {
  const auto byte_at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t n_parts = 0;
  size_t i = *at;
  while (n_parts < capacity) {
    while (i < text.size() && is_space_[byte_at(i)]) ++i;
    if (i == text.size()) break;
    // A character that might stand in one cluster with the white space before it takes that along.
    size_t begin = i;
    if (begin > 0 && !starts_part_[byte_at(begin)]) --begin;
    while (i < text.size() && !is_space_[byte_at(i)]) ++i;
    parts[n_parts++] = {static_cast<uint32_t>(begin), static_cast<uint32_t>(i)};
  }
  *at = i;
  return n_parts;
}

bool UnigramWords::EncodePlain(std::string_view part, Scratch* scratch, std::vector<Token>* out) const {
  std::string& piece = scratch->piece;
  piece.resize(kMetaText.size() + part.size());
  std::copy(kMetaText.begin(), kMetaText.end(), piece.begin());
  uint8_t is_other = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    const auto byte = static_cast<uint8_t>(part[i]);
    const char c = plain_[byte & 0x7F];
    is_other |= static_cast<uint8_t>((byte & 0x80) | (c == 0 ? 1 : 0));
    piece[kMetaText.size() + i] = c;
  }
  if (is_other != 0) return false;
  for (const Options::Replacement& replacement : options_.replacements) {
    if (part.find(replacement.text) != std::string_view::npos) return false;
  }
  scratch->n_bytes = piece.size();
  scratch->tokens.clear();
  if (!model_.Tokenize(piece, &scratch->model, &scratch->tokens)) return false;
  constexpr auto kPrefix = static_cast<uint32_t>(kMetaText.size());
  bool starts_word = true;
  for (const ModelToken& token : scratch->tokens) {  // the prefix comes from the first character
    const uint32_t begin = token.begin < kPrefix ? 0 : token.begin - kPrefix;
    const uint32_t end = token.end <= kPrefix ? 1 : token.end - kPrefix;
    out->push_back({token.id, begin, end, starts_word});
    starts_word = false;
  }
  return true;
}

// The part after all normalizers but the charsmap.
void UnigramWords::Read(std::string_view part, Scratch* scratch) const {
  std::vector<Char>& chars = scratch->chars;
  chars.clear();
  for (uint32_t i = 0; i < part.size();) {
    const Scalar scalar = ReadScalar(part.data() + i);
    chars.push_back({scalar.value, {i, i + scalar.n_bytes}});
    i += scalar.n_bytes;
  }
  for (const Options::Replacement& replacement : options_.replacements) {
    const std::string& text = replacement.text;
    const auto matches = [&](size_t i) {
      if (i + text.size() > chars.size()) return false;
      for (size_t k = 0; k < text.size(); ++k) {
        if (chars[i + k].scalar != static_cast<uint8_t>(text[k])) return false;
      }
      return true;
    };
    size_t n = 0;  // what replaces is not longer than what it replaces
    for (size_t i = 0; i < chars.size();) {
      if (!matches(i)) {
        chars[n++] = chars[i++];
        continue;
      }
      i += text.size();
      const Span origin = chars[i - 1].origin;
      for (const char c : replacement.with) chars[n++] = {static_cast<uint8_t>(c), origin};
    }
    chars.resize(n);
  }
  const auto count = [scratch](const std::vector<Char>& list) {
    uint64_t n_bytes = 0;
    for (const Char& one : list) n_bytes += Utf8Length(one.scalar);
    scratch->n_bytes = std::max(scratch->n_bytes, n_bytes);
  };
  if (options_.nfkd_strip_accents) {
    std::vector<Char>& after = scratch->after;
    after.clear();
    uint64_t n_marks = 0;
    // Whatever has a combining class is a mark and goes, so that no order is left to be made.
    const auto put = [&after, &n_marks](char32_t c, Span origin) {
      if (unicode::IsMarkV9(c)) {
        n_marks += Utf8Length(c);
      } else {
        after.push_back({c, origin});
      }
    };
    for (const Char& one : chars) {
      const char32_t c = one.scalar;
      if (c < 0x80) {
        after.push_back(one);
      } else if (c >= kSBase && c < kSBase + kSCount) {
        const char32_t index = c - kSBase;
        after.push_back({kLBase + index / (kVCount * kTCount), one.origin});
        after.push_back({kVBase + index % (kVCount * kTCount) / kTCount, one.origin});
        if (index % kTCount != 0) after.push_back({kTBase + index % kTCount, one.origin});
      } else if (const auto parts = unicode::CompatibleDecompositionV9(c); !parts.empty()) {
        for (const char32_t inner : parts) put(inner, one.origin);
      } else {
        put(c, one.origin);
      }
    }
    chars.swap(after);
    count(chars);
    scratch->n_bytes += n_marks;
  }
  if (options_.lowercase) {
    std::vector<Char>& after = scratch->after;
    after.clear();
    for (const Char& one : chars) {
      after.push_back({unicode::LowercaseV17(one.scalar), one.origin});
      if (one.scalar == 0x130) after.push_back({0x307, one.origin});
    }
    chars.swap(after);
    count(chars);
  }
}

// As PrecompiledNormalizer::Normalize.
bool UnigramWords::ApplyCharsmap(Scratch* scratch) const {
  std::vector<Char>& chars = scratch->chars;
  if (chars.empty()) return true;
  if (chars.back().scalar >= kFirstJoining && !EndsCluster(chars.back().scalar)) return false;
  std::vector<Change>& changes = scratch->changes;
  changes.clear();
  std::vector<char32_t> scalars;
  std::string cluster;
  bool modified = false;
  const auto replace = [&](size_t n_old, std::string_view with) {
    modified = true;
    const size_t before = changes.size();
    for (size_t i = 0; i < with.size();) changes.push_back({DecodeUtf8(with, &i), 0});
    const size_t n_new = changes.size() - before;
    for (size_t i = n_old; i < n_new; ++i) changes[before + i].change = 1;
    if (n_new >= n_old) return true;
    if (changes.empty()) return false;  // what stands before the part would take it along
    changes.back().change -= static_cast<int32_t>(n_old - n_new);
    return true;
  };
  for (size_t begin = 0; begin < chars.size();) {
    const size_t end = ClusterEnd(chars, begin, &scalars);
    if (end - begin > 1) {
      cluster.clear();
      for (size_t i = begin; i < end && cluster.size() < 6; ++i) AppendScalar(&cluster, chars[i].scalar);
      if (cluster.size() < 6) {
        const auto with = charsmap_->FindShortest(cluster);
        if (!with) return false;
        if (*with) {
          if (!replace(end - begin, **with)) return false;
          begin = end;
          continue;
        }
      }
    }
    for (; begin < end; ++begin) {
      cluster.clear();
      AppendScalar(&cluster, chars[begin].scalar);
      const auto with = charsmap_->FindShortest(cluster);
      if (!with) return false;
      if (*with) {
        if (!replace(1, **with)) return false;
      } else {
        changes.push_back({chars[begin].scalar, 0});
      }
    }
  }
  if (!modified) return true;
  std::vector<Char>& after = scratch->after;
  after.clear();
  size_t n_used = 0;
  uint64_t n_bytes = 0;
  for (const Change& change : changes) {
    Span origin;
    if (change.change > 0) {
      if (n_used == 0) return false;
      origin = chars[n_used - 1].origin;
    } else {
      if (n_used >= chars.size()) return false;
      origin = chars[n_used].origin;
      n_used = std::min(chars.size(), n_used + 1 + static_cast<size_t>(-change.change));
    }
    after.push_back({change.scalar, origin});
    n_bytes += Utf8Length(change.scalar);
  }
  chars.swap(after);
  scratch->n_bytes = std::max(scratch->n_bytes, n_bytes);
  return true;
}

// The tokens of chars [begin, end), among which is no white space.
bool UnigramWords::EncodeWord(size_t begin, size_t end, Scratch* scratch, std::vector<Token>* out) const {
  const std::vector<Char>& chars = scratch->chars;
  while (begin < end) {
    std::string& piece = scratch->piece;
    std::vector<uint32_t>& places = scratch->places;
    piece.clear();
    places.clear();
    const auto put = [&piece, &places](char32_t scalar, size_t place) {
      AppendScalar(&piece, scalar);
      places.resize(piece.size(), static_cast<uint32_t>(place));
    };
    // Only the first piece of a word can be without one, and gets it.
    if (chars[begin].scalar != kMeta) put(kMeta, begin);
    do {
      put(chars[begin].scalar, begin);
      ++begin;
    } while (begin < end && chars[begin].scalar != kMeta);
    scratch->n_bytes += kMetaText.size();
    scratch->tokens.clear();
    if (!model_.Tokenize(piece, &scratch->model, &scratch->tokens)) return false;
    bool starts_word = true;
    for (const ModelToken& token : scratch->tokens) {
      out->push_back({token.id, chars[places[token.begin]].origin.begin,
                      chars[places[token.end - 1]].origin.end, starts_word});
      starts_word = false;
    }
  }
  return true;
}

bool UnigramWords::Encode(std::string_view part, Scratch* scratch, std::vector<Token>* out) const {
  out->clear();
  if (EncodePlain(part, scratch, out)) return true;
  out->clear();
  scratch->n_bytes = part.size();
  Read(part, scratch);
  if (charsmap_ != nullptr && !ApplyCharsmap(scratch)) return false;
  const std::vector<Char>& chars = scratch->chars;
  for (size_t i = 0; i < chars.size();) {
    if (unicode::IsWhiteSpace(chars[i].scalar)) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < chars.size() && !unicode::IsWhiteSpace(chars[end].scalar)) ++end;
    if (!EncodeWord(i, end, scratch, out)) return false;
    i = end;
  }
  return true;
}

}  // namespace slm::tokenizer
