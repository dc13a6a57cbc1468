#include "tokenizer/pre_tokenizer.h"

#include <array>

#include "tokenizer/byte_level.h"
#include "unicode/bert_v8_0.h"
#include "unicode/classes_v16_0.h"
#include "unicode/numeric_v17_0.h"
#include "unicode/scripts_v9_0.h"

namespace slm::tokenizer {
namespace {

// UTF-8 of each alphabet character: one or two bytes.
struct MappedByte {
  char text[2];
  uint8_t size;
};
std::array<MappedByte, 256> MakeMappedBytes() {
  std::array<MappedByte, 256> out{};
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string text;
    AppendScalar(&text, ByteAlphabet()[byte]);
    for (size_t i = 0; i < text.size(); ++i) out[byte].text[i] = text[i];
    out[byte].size = static_cast<uint8_t>(text.size());
  }
  return out;
}
const std::array<MappedByte, 256>& MappedBytes() {
  static const std::array<MappedByte, 256> kBytes = MakeMappedBytes();
  return kBytes;
}

// Rewrites one piece into the newest buffer, byte by byte.
void MapBytes(const Piece& piece, PreTokenized* pieces, Piece* out) {
  PreTokenized::Buffer& buffer = pieces->newest();
  const auto begin = static_cast<uint32_t>(buffer.storage.size());
  const std::string_view text = pieces->Text(piece);
  const auto put = [&buffer](uint8_t byte, Span origin) {
    const MappedByte& mapped = MappedBytes()[byte];
    buffer.storage.append(mapped.text, mapped.size);
    buffer.align.insert(buffer.align.end(), mapped.size, origin);
  };
  for (uint32_t i = 0; i < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + i);
    const Span origin = pieces->OriginOfCharacter(piece, i);
    if (IsEscapedByte(scalar.value)) {
      put(static_cast<uint8_t>(scalar.value & 0xFF), origin);
    } else {
      for (uint32_t k = 0; k < scalar.n_bytes; ++k) put(static_cast<uint8_t>(text[i + k]), origin);
    }
    i += scalar.n_bytes;
  }
  out->original = piece.original;
  out->range = {begin, static_cast<uint32_t>(buffer.storage.size())};
}

// The reference rewrites a text that starts with characters of no origin in a way of its own.
bool StartsNowhere(const PreTokenized& pieces, const Piece& piece) {
  const Span first = pieces.OriginOfCharacter(piece, 0);
  return first.begin == first.end;
}

}  // namespace

void ByteLevelPreTokenizer::Cut(PreTokenized* pieces) const {
  const std::vector<Piece> before = std::move(pieces->pieces());
  std::vector<Piece> after;
  after.reserve(before.size());
  if (add_prefix_space_) static_cast<void>(pieces->NewBuffer());
  for (Piece piece : before) {
    if (piece.added != kNoToken) {
      after.push_back(piece);
      continue;
    }
    if (add_prefix_space_ && pieces->Text(piece).front() != ' ') {
      AlignedText text = pieces->Copy(piece);
      Prepend(&text, " ");
      piece = pieces->Append(text);
    }
    if (!use_regex_) {
      after.push_back(piece);
      continue;
    }
    const std::string_view text = pieces->Text(piece);
    for (uint32_t at = 0; at < text.size();) {
      const uint32_t end = at + MatchGpt2(text, at);
      after.push_back(pieces->Slice(piece, {at, end}));
      at = end;
    }
  }
  pieces->pieces() = std::move(after);
}

Status ByteLevelPreTokenizer::Run(PreTokenized* pieces) const {
  Cut(pieces);
  const uint32_t buffer = pieces->NewBuffer();
  for (Piece& piece : pieces->pieces()) {
    if (piece.added != kNoToken) continue;
    if (StartsNowhere(*pieces, piece)) {
      AlignedText text = pieces->Copy(piece);
      SLM_TRY(TransformToBytes(&text));
      piece = pieces->Append(text);
      continue;
    }
    Piece mapped;
    mapped.buffer = buffer;
    MapBytes(piece, pieces, &mapped);
    piece = mapped;
    pieces->Seal();
    SLM_TRY(pieces->CheckSize());
  }
  return {};
}

namespace {

// Cuts every text piece: `find_parts` gives the parts of a text, `behavior` says what becomes of them.
template <typename FindParts>
Status CutPieces(PreTokenized* pieces, SplitBehavior behavior, FindParts find_parts) {
  const std::vector<Piece> before = std::move(pieces->pieces());
  std::vector<Piece> after;
  std::vector<Part> parts;
  for (const Piece& piece : before) {
    if (piece.added != kNoToken) {
      after.push_back(piece);
      continue;
    }
    parts.clear();
    SLM_TRY(find_parts(pieces->Text(piece), &parts));
    for (const Span& range : ApplyBehavior(parts, behavior)) {
      if (range.begin != range.end) after.push_back(pieces->Slice(piece, range));
    }
  }
  pieces->pieces() = std::move(after);
  return {};
}

// Each character that `is_match` accepts is a match of its own.
template <typename IsMatch>
Status CutAtScalars(PreTokenized* pieces, SplitBehavior behavior, IsMatch is_match) {
  return CutPieces(pieces, behavior, [&is_match](std::string_view text, std::vector<Part>* parts) -> Status {
    for (uint32_t i = 0; i < text.size();) {
      const Scalar scalar = ReadScalar(text.data() + i);
      const bool matches = is_match(scalar.value);
      if (!matches && !parts->empty() && !parts->back().is_match) {
        parts->back().range.end += scalar.n_bytes;
      } else {
        parts->push_back({{i, i + scalar.n_bytes}, matches});
      }
      i += scalar.n_bytes;
    }
    return {};
  });
}

}  // namespace

bool BertPreTokenizer::IsPunctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  return (unicode::BertClassV8(c) & unicode::kPunctuationV8) != 0;
}

Status DigitsPreTokenizer::Run(PreTokenized* pieces) const {
  const auto behavior = individual_digits_ ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return CutAtScalars(pieces, behavior, unicode::IsNumericV17);
}

Status BertPreTokenizer::Run(PreTokenized* pieces) const {
  SLM_TRY(CutAtScalars(pieces, SplitBehavior::kRemoved, unicode::IsWhiteSpace));
  return CutAtScalars(pieces, SplitBehavior::kIsolated, IsPunctuation);
}

Status PunctuationPreTokenizer::Run(PreTokenized* pieces) const {
  return CutAtScalars(pieces, behavior_, BertPreTokenizer::IsPunctuation);
}

Status DelimiterPreTokenizer::Run(PreTokenized* pieces) const {
  return CutAtScalars(pieces, SplitBehavior::kRemoved, [this](char32_t c) { return c == delimiter_; });
}

Status WhitespaceSplitPreTokenizer::Run(PreTokenized* pieces) const {
  return CutAtScalars(pieces, SplitBehavior::kRemoved, unicode::IsWhiteSpace);
}

Status WhitespacePreTokenizer::Run(PreTokenized* pieces) const {
  return CutPieces(pieces, SplitBehavior::kIsolated,
                   [](std::string_view text, std::vector<Part>* parts) -> Status {
                     const auto class_of = [](char32_t c) {
                       return unicode::ClassV16(c) & (unicode::kWord | unicode::kWhiteSpace);
                     };
                     for (uint32_t i = 0; i < text.size();) {
                       const uint32_t begin = i;
                       const int wanted = class_of(ReadScalar(text.data() + i).value);
                       while (i < text.size()) {
                         const Scalar scalar = ReadScalar(text.data() + i);
                         if (class_of(scalar.value) != wanted) break;
                         i += scalar.n_bytes;
                       }
                       if ((wanted & unicode::kWhiteSpace) == 0) parts->push_back({{begin, i}, true});
                     }
                     return {};
                   });
}

Status FixedLengthPreTokenizer::Run(PreTokenized* pieces) const {
  return CutPieces(pieces, SplitBehavior::kIsolated,
                   [this](std::string_view text, std::vector<Part>* parts) -> Status {
                     for (uint32_t i = 0; i < text.size();) {
                       const uint32_t begin = i;
                       for (uint64_t k = 0; k < length_ && i < text.size(); ++k)
                         i += ReadScalar(text.data() + i).n_bytes;
                       parts->push_back({{begin, i}, true});
                     }
                     return {};
                   });
}

// A cut before every character whose script differs from that of the last one that had any. What
// stands before the first such character is lost.
Status UnicodeScriptsPreTokenizer::Run(PreTokenized* pieces) const {
  return CutPieces(pieces, SplitBehavior::kIsolated,
                   [](std::string_view text, std::vector<Part>* parts) -> Status {
                     uint8_t last = 0;
                     for (uint32_t i = 0; i < text.size();) {
                       const Scalar scalar = ReadScalar(text.data() + i);
                       const uint8_t script = unicode::ScriptGroupV9(scalar.value);
                       if (script != 0 && script != last) {
                         parts->push_back({{i, i}, true});
                         last = script;
                       }
                       i += scalar.n_bytes;
                       if (!parts->empty()) parts->back().range.end = i;
                     }
                     return {};
                   });
}

Status SplitPreTokenizer::Run(PreTokenized* pieces) const {
  std::vector<Span> matches;
  return CutPieces(pieces, behavior_,
                   [this, &matches](std::string_view text, std::vector<Part>* parts) -> Status {
                     SLM_TRY(pattern_.FindAll(text, &matches));
                     uint32_t at = 0;
                     for (const Span& match : matches) {
                       if (at != match.begin) parts->push_back({{at, match.begin}, invert_});
                       parts->push_back({match, !invert_});
                       at = match.end;
                     }
                     if (at != text.size())
                       parts->push_back({{at, static_cast<uint32_t>(text.size())}, invert_});
                     return {};
                   });
}

MetaspacePreTokenizer::MetaspacePreTokenizer(char32_t replacement, PrependScheme scheme, bool split)
    : scheme_(scheme), split_(split) {
  AppendScalar(&replacement_, replacement);
}

Status MetaspacePreTokenizer::Run(PreTokenized* pieces) const {
  const std::vector<Piece> before = std::move(pieces->pieces());
  std::vector<Piece> after;
  std::vector<Part> parts;
  static_cast<void>(pieces->NewBuffer());
  for (const Piece& piece : before) {
    if (piece.added != kNoToken) {
      after.push_back(piece);
      continue;
    }
    AlignedText text = pieces->Copy(piece);
    SLM_TRY(ReplaceAll(&text, " ", replacement_));
    const bool wanted =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.original.begin == 0);
    if (wanted && !text.text.starts_with(replacement_)) Prepend(&text, replacement_);
    const Piece whole = pieces->Append(text);
    SLM_TRY(pieces->CheckSize());
    if (!split_) {
      after.push_back(whole);
      continue;
    }
    parts.clear();
    uint32_t at = 0;
    const auto size = static_cast<uint32_t>(text.text.size());
    while (at < size) {
      const size_t found = text.text.find(replacement_, at);
      const uint32_t begin = found == std::string::npos ? size : static_cast<uint32_t>(found);
      if (begin > at) parts.push_back({{at, begin}, false});
      at = begin;
      if (at == size) break;
      parts.push_back({{at, at + static_cast<uint32_t>(replacement_.size())}, true});
      at = parts.back().range.end;
    }
    for (const Span& range : ApplyBehavior(parts, SplitBehavior::kMergedWithNext)) {
      after.push_back(pieces->Slice(whole, range));
    }
  }
  pieces->pieces() = std::move(after);
  return {};
}

Status SequencePreTokenizer::Run(PreTokenized* pieces) const {
  for (const auto& part : parts_) SLM_TRY(part->Run(pieces));
  return {};
}

}  // namespace slm::tokenizer
