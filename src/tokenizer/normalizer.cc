#include "tokenizer/normalizer.h"

#include <algorithm>
#include <optional>

#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kVCount = 21, kTCount = 28, kSCount = 19 * kVCount * kTCount;

struct Decomposed {
  char32_t scalar;
  uint8_t combining_class;
  int32_t change;
  size_t order;  // place before sorting, which keeps equal classes as they are
};

// Canonical decomposition in canonical order. The first part of a character replaces it, the others
// are new; reordering moves that mark along.
std::vector<Decomposed> Decompose(const std::string& text) {
  std::vector<Decomposed> out;
  size_t n_sorted = 0;  // parts before this one are in final order
  const auto by_class = [](const Decomposed& a, const Decomposed& b) {
    return a.combining_class != b.combining_class ? a.combining_class < b.combining_class : a.order < b.order;
  };
  const auto sort_pending = [&out, &n_sorted, &by_class]() {
    std::sort(out.begin() + static_cast<ptrdiff_t>(n_sorted), out.end(), by_class);
    n_sorted = out.size();
  };
  const auto push = [&out, &sort_pending](char32_t scalar, bool first) {
    const uint8_t combining_class = unicode::CombiningClassV9(scalar);
    if (combining_class == 0) sort_pending();
    out.push_back({scalar, combining_class, first ? 0 : 1, out.size()});
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
    const auto parts = unicode::DecompositionV9(scalar.value);
    if (parts.empty()) push(scalar.value, true);
    for (size_t k = 0; k < parts.size(); ++k) push(parts[k], k == 0);
  }
  sort_pending();
  return out;
}

// Canonical composition (UAX #15); a composite takes over the changes of what it swallowed.
std::vector<Change> Compose(const std::vector<Decomposed>& parts) {
  std::vector<Change> out;
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

}  // namespace

Status PrependNormalizer::Normalize(AlignedText* text) const {
  Prepend(text, prefix_);
  return {};
}

Status ReplaceNormalizer::Normalize(AlignedText* text) const {
  return ReplaceAll(text, pattern_, content_);
}

Status NfcNormalizer::Normalize(AlignedText* text) const {
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  const bool starts_somewhere = !text->text.empty() && text->align[0].begin != text->align[0].end;
  if (starts_somewhere && std::all_of(text->text.begin(), text->text.end(), is_ascii)) return {};
  Transform(text, Compose(Decompose(text->text)));
  return {};
}

Status SequenceNormalizer::Normalize(AlignedText* text) const {
  for (const auto& part : parts_) SLM_TRY(part->Normalize(text));
  return {};
}

}  // namespace slm::tokenizer
