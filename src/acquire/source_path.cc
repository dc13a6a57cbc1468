// Rules of source paths: what they may hold, and which two may not stand side by side.
#include <algorithm>
#include <map>

#include "acquire/source_tree.h"
#include "base/utf8.h"
#include "unicode/normalization_v9_0.h"

namespace slm::acquire {
namespace {

std::unexpected<Error> Refuse(ErrorCode code, std::string_view path, std::string message) {
  const std::string display(path);
  return Fail(MakeError(code, std::move(message)).In(display).Field(display));
}

// Appends the canonical decomposition of `scalar`; Hangul syllables by arithmetic (UAX #15).
void AppendDecomposed(char32_t scalar, std::u32string* out) {
  constexpr char32_t kSyllable = 0xAC00;
  constexpr char32_t kVowels = 21;
  constexpr char32_t kTails = 28;
  if (scalar >= kSyllable && scalar < kSyllable + 11172) {
    const char32_t index = scalar - kSyllable;
    out->push_back(0x1100 + index / (kVowels * kTails));
    out->push_back(0x1161 + index / kTails % kVowels);
    if (index % kTails != 0) out->push_back(0x11A7 + index % kTails);
    return;
  }
  const auto decomposed = unicode::DecompositionV9(scalar);
  if (decomposed.empty()) {
    out->push_back(scalar);
  } else {
    out->append(decomposed.begin(), decomposed.end());
  }
}

// Canonical order: marks of one run by combining class, stable (an insertion sort; runs are short).
void OrderMarks(std::u32string* text) {
  for (size_t i = 1; i < text->size(); ++i) {
    const uint8_t mark_class = unicode::CombiningClassV9((*text)[i]);
    if (mark_class == 0) continue;
    for (size_t j = i; j > 0 && unicode::CombiningClassV9((*text)[j - 1]) > mark_class; --j) {
      std::swap((*text)[j - 1], (*text)[j]);
    }
  }
}

}  // namespace

Status CheckPath(std::string_view path, const TreeLimits& limits) {
  if (const auto fault = FindUtf8Fault(path)) {
    const std::string display(path);
    return Fail(MakeError(ErrorCode::kAcqPathUtf8, "the path is not UTF-8")
                    .At(fault->byte_offset)
                    .In(display)
                    .Field(display));
  }
  if (path.size() > limits.max_path_bytes) {
    return Refuse(ErrorCode::kAcqLimit, path,
                  "the path is longer than " + std::to_string(limits.max_path_bytes) + " bytes");
  }
  for (size_t position = 0; position < path.size();) {
    const char32_t scalar = DecodeUtf8(path, &position);
    if (scalar == '\\' || scalar == ':' || scalar < 0x20 || (scalar >= 0x7f && scalar <= 0x9f)) {
      return Refuse(ErrorCode::kAcqPath, path, "the path holds a backslash, a colon or a control character");
    }
  }
  uint64_t depth = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return Refuse(ErrorCode::kAcqPath, path, "the path is absolute or holds an empty, . or .. part");
    }
    ++depth;
    begin = end + 1;
  }
  if (depth > limits.max_depth) {
    return Refuse(ErrorCode::kAcqLimit, path,
                  "the path is deeper than " + std::to_string(limits.max_depth) + " parts");
  }
  return {};
}

std::string CollisionKey(std::string_view path) {
  std::u32string text;
  for (size_t position = 0; position < path.size();) AppendDecomposed(DecodeUtf8(path, &position), &text);
  OrderMarks(&text);
  std::string key;
  const auto end_part = [&key] {
    while (key.ends_with('.') || key.ends_with(' ')) key.pop_back();
  };
  for (char32_t scalar : text) {
    if (scalar == U'/') end_part();
    if (scalar >= U'A' && scalar <= U'Z') scalar += U'a' - U'A';
    AppendUtf8(&key, scalar);
  }
  end_part();
  return key;
}

Status CheckCollisions(const std::vector<std::string>& paths) {
  std::map<std::string, std::string_view> seen;
  for (const std::string& path : paths) {
    const auto [other, is_new] = seen.emplace(CollisionKey(path), path);
    if (is_new) continue;
    return Refuse(ErrorCode::kAcqPathCollision, path,
                  "some file systems take this path and " + std::string(other->second) + " for one");
  }
  return {};
}

}  // namespace slm::acquire
