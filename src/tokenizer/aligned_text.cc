#include "tokenizer/aligned_text.h"

#include <utility>

#include "base/utf8.h"

namespace slm::tokenizer {
namespace {

uint32_t Utf8Length(char32_t scalar) {
  if (scalar < 0x80) return 1;
  if (scalar < 0x800) return 2;
  return scalar < 0x10000 ? 3 : 4;
}

// The part that Transform rewrites. Leading characters that stand for nothing of the original lie
// outside, as in the reference.
std::pair<size_t, size_t> TransformRange(const AlignedText& text) {
  const size_t size = text.text.size();
  if (text.original.begin == text.original.end) return {0, 0};
  for (size_t i = 0; i < size; ++i) {
    if (text.align[i].begin != text.align[i].end) return {i, size};
  }
  return {size, size};
}

// Occurrence of `pattern` at or after `from`, or npos. An empty pattern matches once at each
// character's start and at the end.
size_t FindNext(std::string_view text, std::string_view pattern, size_t from) {
  if (!pattern.empty()) return text.find(pattern, from);
  while (from < text.size() && IsContinuation(text[from])) ++from;
  return from <= text.size() ? from : std::string_view::npos;
}

}  // namespace

void AppendScalar(std::string* out, char32_t scalar) {
  const auto push = [out](char32_t byte) { out->push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (scalar < 0x80) {
    push(scalar);
  } else if (scalar < 0x800) {
    push(0xC0 | (scalar >> 6));
    push(0x80 | (scalar & 0x3F));
  } else if (scalar < 0x10000) {
    push(0xE0 | (scalar >> 12));
    push(0x80 | ((scalar >> 6) & 0x3F));
    push(0x80 | (scalar & 0x3F));
  } else {
    push(0xF0 | (scalar >> 18));
    push(0x80 | ((scalar >> 12) & 0x3F));
    push(0x80 | ((scalar >> 6) & 0x3F));
    push(0x80 | (scalar & 0x3F));
  }
}

std::string EscapeIllFormed(std::string_view bytes) {
  std::string out;
  while (const auto fault = FindUtf8Fault(bytes)) {
    out.append(bytes.substr(0, fault->byte_offset));
    for (const char byte : bytes.substr(fault->byte_offset, fault->length))
      AppendScalar(&out, 0xDC00u + static_cast<uint8_t>(byte));
    bytes.remove_prefix(fault->byte_offset + fault->length);
  }
  return out.append(bytes);
}

Status Transform(AlignedText* text, std::span<const Change> changes, size_t n_initial) {
  const auto [begin, end] = TransformRange(*text);
  std::string out(text->text, 0, begin);
  std::vector<Span> align(text->align.begin(), text->align.begin() + static_cast<ptrdiff_t>(begin));
  const std::string& old = text->text;
  out.reserve(old.size());
  align.reserve(old.size());
  size_t replaced = begin;  // next character that a change may replace
  size_t offset = begin;    // its place for alignment
  const auto next_size = [&old, &replaced, end = end]() -> size_t {
    if (replaced >= end) return 0;
    const size_t size = ReadScalar(old.data() + replaced).n_bytes;
    replaced += size;
    return size;
  };
  for (size_t i = 0; i < n_initial; ++i) offset += next_size();
  for (const Change& change : changes) {
    Span origin;
    if (change.change > 0) {
      origin = offset < 1 ? Span{text->original.begin, text->original.begin} : text->align[offset - 1];
    } else {
      if (offset >= text->align.size()) {
        return Fail(MakeError(ErrorCode::kTokSchema,
                              "a normalizer rewrites text that begins with characters of no origin, and runs "
                              "past its end (the reference panics)")
                        .Field("$.normalizer"));
      }
      origin = text->align[offset];
      offset += next_size();
      for (int32_t i = 0; i < -change.change; ++i) offset += next_size();
    }
    AppendScalar(&out, change.scalar);
    for (uint32_t i = Utf8Length(change.scalar); i > 0; --i) align.push_back(origin);
  }
  text->text = std::move(out);
  text->align = std::move(align);
  return {};
}

void Prepend(AlignedText* text, std::string_view prefix) {
  if (text->text.empty()) return;
  if (prefix.empty()) {  // the reference then puts the first character in again, as a new one
    const Span nothing = {text->original.begin, text->original.begin};
    for (uint32_t i = 0; i < ReadScalar(text->text.data()).n_bytes; ++i) text->align[i] = nothing;
    return;
  }
  const Span first = text->align[0];
  text->text.insert(0, prefix);
  text->align.insert(text->align.begin(), prefix.size(), first);
}

Status ReplaceMatches(AlignedText* text, std::span<const Span> matches, std::string_view content) {
  if (matches.empty()) return {};
  const std::string& old = text->text;
  uint64_t n_matched = 0;
  for (const Span& match : matches) n_matched += match.end - match.begin;
  const uint64_t new_size = old.size() - n_matched + matches.size() * content.size();
  if (new_size > old.size() && new_size > GrowthLimit(text->original.end - text->original.begin)) {
    return Fail(ErrorCode::kLimit, "the normalizer makes a text of " +
                                       std::to_string(text->original.end - text->original.begin) +
                                       " bytes grow to " + std::to_string(new_size));
  }
  std::string out;
  std::vector<Span> align;
  out.reserve(new_size);
  align.reserve(new_size);
  const auto align_at = [text](size_t i) { return text->align.begin() + static_cast<ptrdiff_t>(i); };
  size_t last_end = 0;
  for (const Span& match : matches) {
    out.append(old, last_end, match.begin - last_end);
    align.insert(align.end(), align_at(last_end), align_at(match.begin));
    const Span origin =
        match.end < 1 ? Span{text->original.begin, text->original.begin} : text->align[match.end - 1];
    out.append(content);
    align.insert(align.end(), content.size(), origin);
    last_end = match.end;
  }
  out.append(old, last_end, old.size() - last_end);
  align.insert(align.end(), align_at(last_end), text->align.end());
  text->text = std::move(out);
  text->align = std::move(align);
  return {};
}

Status ReplaceAll(AlignedText* text, std::string_view pattern, std::string_view content) {
  const std::string& old = text->text;
  if (old.empty()) return {};
  std::vector<Span> matches;
  for (size_t found = FindNext(old, pattern, 0); found != std::string::npos;) {
    const size_t end = found + pattern.size();
    matches.push_back({static_cast<uint32_t>(found), static_cast<uint32_t>(end)});
    found = FindNext(old, pattern, pattern.empty() ? end + 1 : end);
  }
  return ReplaceMatches(text, matches, content);
}

}  // namespace slm::tokenizer
