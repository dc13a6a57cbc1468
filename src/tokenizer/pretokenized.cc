#include "tokenizer/pretokenized.h"

#include <algorithm>
#include <utility>

namespace slm::tokenizer {

std::vector<Span> ApplyBehavior(std::span<const Part> parts, SplitBehavior behavior) {
  std::vector<Span> out;
  if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
    for (const Part& part : parts) {
      if (!part.is_match || behavior == SplitBehavior::kIsolated) out.push_back(part.range);
    }
    return out;
  }
  bool previous_match = false;
  if (behavior == SplitBehavior::kMergedWithPrevious) {  // only the first match of a run merges
    for (const Part& part : parts) {
      if (part.is_match && !previous_match && !out.empty()) {
        out.back().end = part.range.end;
      } else {
        out.push_back(part.range);
      }
      previous_match = part.is_match;
    }
    return out;
  }
  if (behavior == SplitBehavior::kContiguous) {
    for (const Part& part : parts) {
      if (part.is_match == previous_match && !out.empty()) {
        out.back().end = part.range.end;
      } else {
        out.push_back(part.range);
      }
      previous_match = part.is_match;
    }
    return out;
  }
  for (size_t i = parts.size(); i-- > 0;) {  // kMergedWithNext: only the last match of a run merges
    if (parts[i].is_match && !previous_match && !out.empty()) {
      out.back().begin = parts[i].range.begin;
    } else {
      out.push_back(parts[i].range);
    }
    previous_match = parts[i].is_match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

PreTokenized::PreTokenized(std::string_view input, std::vector<Span> align) {
  Span original = {0, static_cast<uint32_t>(input.size())};
  if (!align.empty()) original.end = align.back().end;
  buffers_.push_back(Buffer{.storage = {}, .text = input, .align = std::move(align)});
  pieces_.push_back(
      Piece{.buffer = 0, .range = {0, static_cast<uint32_t>(input.size())}, .original = original});
}

std::string_view PreTokenized::Text(const Piece& piece) const {
  return buffers_[piece.buffer].text.substr(piece.range.begin, piece.range.end - piece.range.begin);
}

Span PreTokenized::OriginOf(const Piece& piece, uint32_t begin, uint32_t end) const {
  const Buffer& buffer = buffers_[piece.buffer];
  begin += piece.range.begin;
  end += piece.range.begin;
  if (!buffer.align.empty()) return {buffer.align[begin].begin, buffer.align[end - 1].end};
  while (begin > 0 && IsContinuation(buffer.text[begin])) --begin;
  while (end < buffer.text.size() && IsContinuation(buffer.text[end])) ++end;
  return {begin, end};
}

Span PreTokenized::OriginOfCharacter(const Piece& piece, uint32_t at) const {
  return OriginOf(piece, at, at + 1);
}

Piece PreTokenized::Slice(const Piece& piece, Span range) const {
  return Piece{.buffer = piece.buffer,
               .range = {piece.range.begin + range.begin, piece.range.begin + range.end},
               .original = OriginOf(piece, range.begin, range.end)};
}

AlignedText PreTokenized::Copy(const Piece& piece) const {
  AlignedText out;
  out.text = Text(piece);
  out.original = piece.original;
  const Buffer& buffer = buffers_[piece.buffer];
  out.align.reserve(out.text.size());
  if (!buffer.align.empty()) {
    const auto first = buffer.align.begin() + static_cast<ptrdiff_t>(piece.range.begin);
    out.align.assign(first, first + static_cast<ptrdiff_t>(out.text.size()));
    return out;
  }
  for (uint32_t i = 0; i < out.text.size();) {
    const uint32_t n = ReadScalar(out.text.data() + i).n_bytes;
    const uint32_t begin = piece.range.begin + i;
    out.align.insert(out.align.end(), n, Span{begin, begin + n});
    i += n;
  }
  return out;
}

uint32_t PreTokenized::NewBuffer() {
  buffers_.emplace_back();
  return static_cast<uint32_t>(buffers_.size() - 1);
}

Piece PreTokenized::Append(const AlignedText& text) {
  Buffer& buffer = buffers_.back();
  const auto begin = static_cast<uint32_t>(buffer.storage.size());
  buffer.storage.append(text.text);
  buffer.align.insert(buffer.align.end(), text.align.begin(), text.align.end());
  buffer.text = buffer.storage;
  return Piece{.buffer = static_cast<uint32_t>(buffers_.size() - 1),
               .range = {begin, static_cast<uint32_t>(buffer.storage.size())},
               .original = text.original};
}

Status PreTokenized::CheckSize() const {
  if (buffers_.back().text.size() <= kMaxTextBytes) return {};
  return Fail(ErrorCode::kLimit, "a stage of the tokenizer makes the text larger than 1 GiB");
}

}  // namespace slm::tokenizer
