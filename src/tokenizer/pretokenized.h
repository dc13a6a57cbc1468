// The input while it is cut up: pieces that are views into buffers, one buffer for each stage that
// rewrote text. A piece is either still text or already one token (an added token).
//
// Local to one call of Encode; not shared.
#ifndef SLM_TOKENIZER_PRETOKENIZED_H_
#define SLM_TOKENIZER_PRETOKENIZED_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {

inline constexpr uint32_t kNoToken = 0xFFFFFFFF;

struct Piece {
  uint32_t buffer = 0;
  Span range;                 // in the buffer's text
  Span original;              // in the input, as the reference counts it
  uint32_t added = kNoToken;  // index into the added tokens, or text
};

// How the parts of a cut are put together.
enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Part {
  Span range;
  bool is_match;
};

// Part after part in order, covering the text, made into the pieces that `behavior` asks for.
[[nodiscard]] std::vector<Span> ApplyBehavior(std::span<const Part> parts, SplitBehavior behavior);

class PreTokenized {
 public:
  // `input` must outlive this object. `align` is empty for the input as it stands.
  PreTokenized(std::string_view input, std::vector<Span> align);

  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] std::string_view Text(const Piece& piece) const;
  // Origin of text[begin, end) of a piece. REQUIRES: begin < end <= size.
  [[nodiscard]] Span OriginOf(const Piece& piece, uint32_t begin, uint32_t end) const;
  // Origin of the character that holds byte `at` of a piece.
  [[nodiscard]] Span OriginOfCharacter(const Piece& piece, uint32_t at) const;
  // The piece for text[begin, end) of `piece`. REQUIRES: begin < end <= size.
  [[nodiscard]] Piece Slice(const Piece& piece, Span range) const;
  [[nodiscard]] AlignedText Copy(const Piece& piece) const;

  // A new, empty buffer for a stage that rewrites text.
  [[nodiscard]] uint32_t NewBuffer();
  // Appends to the newest buffer and returns the piece that stands for it.
  [[nodiscard]] Piece Append(const AlignedText& text);
  // LIMIT if the newest buffer holds more than kMaxTextBytes.
  [[nodiscard]] Status CheckSize() const;
  // The newest buffer itself, for stages that write byte by byte.
  struct Buffer {
    std::string storage;
    std::string_view text;    // storage, or the caller's input
    std::vector<Span> align;  // empty: the text is the input itself
  };
  [[nodiscard]] Buffer& newest() { return buffers_.back(); }
  // Call after writing into newest().
  void Seal() { buffers_.back().text = buffers_.back().storage; }

 private:
  std::deque<Buffer> buffers_;
  std::vector<Piece> pieces_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_PRETOKENIZED_H_
