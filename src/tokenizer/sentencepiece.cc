#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/score_merge.h"

namespace slm::tokenizer {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// One message of the protocol buffer.
class Message {
 public:
  Message(std::string_view bytes, uint64_t offset) : bytes_(bytes), offset_(offset) {}

  struct Field {
    uint32_t number = 0;
    uint32_t wire = 0;
    uint64_t value = 0;        // wire types 0, 1 and 5
    std::string_view bytes;    // wire type 2
    uint64_t byte_offset = 0;  // of the field in the file
    uint64_t body_offset = 0;  // of `bytes`
  };
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

  Result<Field> Next() {
    Field out;
    out.byte_offset = offset_ + at_;
    SLM_ASSIGN(const uint64_t key, Varint());
    out.number = static_cast<uint32_t>(key >> 3);
    out.wire = static_cast<uint32_t>(key & 7);
    if (out.number == 0 || key >> 32 != 0) return Bad("a field number out of range");
    if (out.wire == 0) {
      SLM_ASSIGN(out.value, Varint());
      return out;
    }
    uint64_t size = out.wire == 1 ? 8 : 4;
    if (out.wire == 2) {
      SLM_ASSIGN(size, Varint());
    } else if (out.wire != 1 && out.wire != 5) {
      return Bad("a wire type that is unknown");
    }
    if (size > bytes_.size() - at_) return Bad("a field that is longer than its message");
    out.body_offset = offset_ + at_;
    out.bytes = bytes_.substr(at_, size);
    at_ += size;
    if (out.wire == 2) return out;
    for (uint64_t i = 0; i < size; ++i) {
      out.value |= uint64_t{static_cast<uint8_t>(out.bytes[i])} << (8 * i);
    }
    return out;
  }

 private:
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) return Bad("a number that is cut off");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Bad("a number of more than ten bytes");
  }
  [[nodiscard]] std::unexpected<Error> Bad(std::string message) const {
    return Fail(
        MakeError(ErrorCode::kTokSchema, "SentencePiece model: " + std::move(message)).At(offset_ + at_));
  }
  std::string_view bytes_;
  uint64_t offset_;
  size_t at_ = 0;
};

std::unexpected<Error> BadField(const Message::Field& field, ErrorCode code, std::string message) {
  return Fail(MakeError(code, "SentencePiece model: " + std::move(message)).At(field.byte_offset));
}

Status NeedWire(const Message::Field& field, uint32_t wire) {
  if (field.wire == wire) return {};
  return BadField(field, ErrorCode::kTokSchema,
                  "field " + std::to_string(field.number) + " has the wrong type");
}

Result<SentencePieces::Piece> ReadPiece(const Message::Field& outer) {
  SentencePieces::Piece out;
  Message message(outer.bytes, outer.body_offset);
  while (!message.at_end()) {
    SLM_ASSIGN(const Message::Field field, message.Next());
    if (field.number == 1) {
      SLM_TRY(NeedWire(field, 2));
      if (field.bytes.size() > kMaxTokenBytes)
        return BadField(field, ErrorCode::kTokLimit, "a piece longer than 64 KiB");
      if (FindUtf8Fault(field.bytes))
        return BadField(field, ErrorCode::kTokSchema, "a piece that is not UTF-8");
      out.text = field.bytes;
    } else if (field.number == 2) {
      SLM_TRY(NeedWire(field, 5));
      out.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      if (!std::isfinite(out.score))
        return BadField(field, ErrorCode::kTokScore, "a score that is not finite");
    } else if (field.number == 3) {
      SLM_TRY(NeedWire(field, 0));
      if (field.value < 1 || field.value > 6)
        return BadField(field, ErrorCode::kTokUnknownType, "a piece of an unknown type");
      out.type = static_cast<PieceType>(field.value);
    }
  }
  if (out.text.empty()) return BadField(outer, ErrorCode::kTokSchema, "a piece without a text");
  return out;
}

Status ReadTrainer(const Message::Field& outer, SentencePieces* out) {
  Message message(outer.bytes, outer.body_offset);
  while (!message.at_end()) {
    SLM_ASSIGN(const Message::Field field, message.Next());
    if (field.number == 3) {
      SLM_TRY(NeedWire(field, 0));
      if (field.value == 3 || field.value == 4) {
        return BadField(field, ErrorCode::kTokUnsupported,
                        "models of type WORD and CHAR are not run by this version");
      }
      if (field.value != 1 && field.value != 2)
        return BadField(field, ErrorCode::kTokUnknownType, "an unknown model type");
      out->is_bpe = field.value == 2;
    } else if (field.number == 24 && field.value != 0) {
      return BadField(field, ErrorCode::kTokUnsupported,
                      "white space as a suffix is not run by this version");
    } else if (field.number == 35) {
      SLM_TRY(NeedWire(field, 0));
      out->byte_fallback = field.value != 0;
    } else if (field.number == 44) {
      SLM_TRY(NeedWire(field, 2));
      if (FindUtf8Fault(field.bytes))
        return BadField(field, ErrorCode::kTokSchema, "an unk_surface that is not UTF-8");
      out->unk_surface = field.bytes;
    }
  }
  return {};
}

Status ReadNormalizer(const Message::Field& outer, SentencePieces* out) {
  Message message(outer.bytes, outer.body_offset);
  while (!message.at_end()) {
    SLM_ASSIGN(const Message::Field field, message.Next());
    if (field.number == 2) {
      SLM_TRY(NeedWire(field, 2));
      out->charsmap = field.bytes;
    } else if (field.number >= 3 && field.number <= 5) {
      SLM_TRY(NeedWire(field, 0));
      bool* const flags[] = {&out->add_dummy_prefix, &out->remove_extra_whitespaces,
                             &out->escape_whitespaces};
      *flags[field.number - 3] = field.value != 0;
    }
  }
  return {};
}

// Longest key of a trie that begins `text`, in bytes; 0 for none.
size_t LongestPrefix(const DoubleArray& trie, std::string_view text) {
  size_t longest = 0;
  uint32_t state = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    state = trie.Next(state, static_cast<uint8_t>(text[i]));
    if (state == DoubleArray::kNone) break;
    if (trie.ValueAt(state) != DoubleArray::kNone) longest = i + 1;
  }
  return longest;
}

// What models and normalizer share.
struct Table {
  Vocabulary vocabulary;
  std::vector<float> scores;
  std::vector<PieceType> types;
  uint32_t unk_id = 0;
  bool byte_fallback = false;
  std::array<std::optional<uint32_t>, 256> byte_ids;
  DoubleArray user_defined;
};

Result<std::shared_ptr<const Table>> MakeTable(const SentencePieces& source) {
  auto out = std::make_shared<Table>();
  size_t n_bytes = 0;
  for (const auto& piece : source.pieces) n_bytes += piece.text.size();
  out->vocabulary.Reserve(source.pieces.size(), n_bytes);
  bool has_unknown = false;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    const auto& piece = source.pieces[id];
    if (!out->vocabulary.Add(piece.text, id)) {
      return Fail(MakeError(ErrorCode::kTokIdDup,
                            "SentencePiece model: the piece '" + std::string(piece.text) + "' stands twice")
                      .Field("pieces[" + std::to_string(id) + "]"));
    }
    out->scores.push_back(piece.score);
    out->types.push_back(piece.type);
    if (piece.type == PieceType::kUnknown) {
      if (has_unknown) {
        return Fail(MakeError(ErrorCode::kTokSchema, "SentencePiece model: two unknown pieces")
                        .Field("pieces[" + std::to_string(id) + "]"));
      }
      out->unk_id = id;
      has_unknown = true;
    }
  }
  if (!has_unknown)
    return Fail(MakeError(ErrorCode::kTokSchema, "SentencePiece model: no unknown piece").Field("pieces"));
  out->byte_fallback = source.byte_fallback;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const auto id = out->vocabulary.Find(ByteTokenText(byte));
    if (id && out->types[*id] == PieceType::kByte) out->byte_ids[byte] = id;
    if (source.byte_fallback && !out->byte_ids[byte]) {
      return Fail(MakeError(ErrorCode::kTokSchema,
                            "SentencePiece model: byte_fallback without " + ByteTokenText(byte))
                      .Field("pieces"));
    }
  }
  std::vector<std::pair<std::string_view, uint32_t>> keys;
  for (const Vocabulary::Entry& entry : out->vocabulary.entries()) {
    if (out->types[entry.id] == PieceType::kUserDefined) keys.emplace_back(entry.text, entry.id);
  }
  out->user_defined.Build(std::move(keys));
  return std::shared_ptr<const Table>(std::move(out));
}

class SpmNormalizer final : public Normalizer {
 public:
  SpmNormalizer(std::shared_ptr<const Table> table, std::unique_ptr<PrecompiledNormalizer> charsmap,
                bool dummy_prefix, bool remove_extra, bool escape)
      : table_(std::move(table)),
        charsmap_(std::move(charsmap)),
        dummy_prefix_(dummy_prefix),
        remove_extra_(remove_extra),
        space_(escape ? kSpaceSymbol : " ") {}

  Status Normalize(AlignedText* text) const override {
    const std::string_view input = text->text;
    std::string out;
    std::vector<uint32_t> places;  // of each byte of out: where in the input its group begins
    const auto add = [&](std::string_view what, size_t at) {
      out.append(what);
      places.insert(places.end(), what.size(), static_cast<uint32_t>(at));
    };
    size_t at = 0;
    while (remove_extra_ && at < input.size()) {
      SLM_ASSIGN(const Group group, NextGroup(input.substr(at)));
      if (group.with != " ") break;
      at += group.n_bytes;
    }
    if (at < input.size()) {
      if (dummy_prefix_) add(space_, at);
      bool after_space = remove_extra_;
      while (at < input.size()) {
        SLM_ASSIGN(Group group, NextGroup(input.substr(at)));
        while (after_space && group.with.starts_with(' ')) group.with.remove_prefix(1);
        for (const char c : group.with) add(c == ' ' ? space_ : std::string_view(&c, 1), at);
        if (!group.with.empty()) after_space = group.with.ends_with(' ');
        at += group.n_bytes;
        if (!remove_extra_) after_space = false;
        if (out.size() > GrowthLimit(input.size())) {
          return Fail(ErrorCode::kLimit, "the normalizer makes the text too long");
        }
      }
      while (remove_extra_ && out.ends_with(space_)) {
        at = places[out.size() - space_.size()];
        out.resize(out.size() - space_.size());
        places.resize(out.size());
      }
    }
    std::vector<Span> align(out.size());
    uint32_t end = static_cast<uint32_t>(at);
    for (size_t i = out.size(); i-- > 0;) {
      if (i + 1 < out.size() && places[i] != places[i + 1]) end = places[i + 1];
      const auto origin = [text](uint32_t place) {
        return place < text->align.size() ? text->align[place].begin : text->original.end;
      };
      align[i] = {origin(places[i]), origin(end)};
    }
    text->text = std::move(out);
    text->align = std::move(align);
    return {};
  }

 private:
  struct Group {
    std::string_view with;
    size_t n_bytes;
  };
  [[nodiscard]] Result<Group> NextGroup(std::string_view input) const {
    if (const size_t n = LongestPrefix(table_->user_defined, input); n > 0)
      return Group{input.substr(0, n), n};
    if (charsmap_ != nullptr) {
      SLM_ASSIGN(const auto found, charsmap_->FindLongest(input));
      if (found) return Group{found->second, found->first};
    }
    const size_t n = ReadScalar(input.data()).n_bytes;
    return Group{input.substr(0, n), n};
  }

  std::shared_ptr<const Table> table_;
  std::unique_ptr<PrecompiledNormalizer> charsmap_;
  bool dummy_prefix_;
  bool remove_extra_;
  std::string_view space_;
};

class SpmModel : public Model {
 public:
  explicit SpmModel(std::shared_ptr<const Table> table) : table_(std::move(table)) {}
  [[nodiscard]] const Vocabulary& vocabulary() const override { return table_->vocabulary; }
  [[nodiscard]] bool has_byte_tokens() const override { return false; }
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const override {
    return PartsByCutting(table_->vocabulary);
  }

 protected:
  // Appends one piece; an unknown one as bytes, or joined with the unknown one before it.
  void Append(std::string_view text, uint32_t begin, uint32_t end, uint32_t id,
              std::vector<ModelToken>* out) const {
    if (table_->types[id] != PieceType::kUnknown) {
      out->push_back({id, begin, end});
      return;
    }
    if (table_->byte_fallback) {
      for (uint32_t i = begin; i < end; ++i) {
        out->push_back({*table_->byte_ids[static_cast<uint8_t>(text[i])], begin, end});
      }
      return;
    }
    if (!out->empty() && out->back().id == id && out->back().end == begin) {
      out->back().end = end;
    } else {
      out->push_back({id, begin, end, true});
    }
  }
  std::shared_ptr<const Table> table_;
};

class SpmUnigramModel final : public SpmModel {
 public:
  explicit SpmUnigramModel(std::shared_ptr<const Table> table) : SpmModel(std::move(table)) {
    std::vector<std::pair<std::string_view, uint32_t>> keys;
    float lowest = std::numeric_limits<float>::max();
    float highest = std::numeric_limits<float>::min();  // as the reference begins: never below 0
    for (const Vocabulary::Entry& entry : table_->vocabulary.entries()) {
      const PieceType type = table_->types[entry.id];
      if (type == PieceType::kNormal) {
        lowest = std::min(lowest, table_->scores[entry.id]);
        highest = std::max(highest, table_->scores[entry.id]);
      }
      if (type == PieceType::kNormal || type == PieceType::kUserDefined)
        keys.emplace_back(entry.text, entry.id);
    }
    trie_.Build(std::move(keys));
    unk_score_ = lowest - 10.0f;
    max_score_ = highest;
  }

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    struct Best {
      float score = 0;
      uint32_t begin = 0xFFFFFFFF;
      uint32_t id = 0;
    };
    std::vector<Best> best(text.size() + 1);
    const auto offer = [&best](size_t end, double score, size_t begin, uint32_t id) {
      Best& target = best[end];
      if (target.begin != 0xFFFFFFFF && !(score > static_cast<double>(target.score))) return;
      target = {static_cast<float>(score), static_cast<uint32_t>(begin), id};
    };
    for (size_t begin = 0; begin < text.size();) {
      const float score = best[begin].score;
      const size_t n_first = ReadScalar(text.data() + begin).n_bytes;
      bool has_single = false;
      uint32_t state = 0;
      for (size_t end = begin; end < text.size();) {
        state = trie_.Next(state, static_cast<uint8_t>(text[end]));
        if (state == DoubleArray::kNone) break;
        ++end;
        const uint32_t id = trie_.ValueAt(state);
        if (id == DoubleArray::kNone) continue;
        const auto length = static_cast<float>(end - begin);
        const double own = table_->types[id] == PieceType::kUserDefined
                               ? static_cast<double>(length * max_score_) - 0.1
                               : static_cast<double>(table_->scores[id]);
        offer(end, own + static_cast<double>(score), begin, id);
        has_single = has_single || end - begin == n_first;
      }
      if (!has_single) offer(begin + n_first, static_cast<double>(unk_score_ + score), begin, table_->unk_id);
      begin += n_first;
    }
    std::vector<ModelToken> path;
    for (auto end = static_cast<uint32_t>(text.size()); end > 0; end = best[end].begin) {
      path.push_back({best[end].id, best[end].begin, end});
    }
    for (size_t i = path.size(); i-- > 0;) Append(text, path[i].begin, path[i].end, path[i].id, out);
    return {};
  }

 private:
  DoubleArray trie_;
  float unk_score_;
  float max_score_;
};

// Neighbours whose joined text is a piece are joined, the highest score first, then the leftmost.
class SpmBpeModel final : public SpmModel {
 public:
  explicit SpmBpeModel(std::shared_ptr<const Table> table) : SpmModel(std::move(table)) {}

  [[nodiscard]] Status Tokenize(std::string_view text, std::vector<ModelToken>* out) const override {
    std::vector<ScoreSymbol> symbols;
    for (uint32_t at = 0; at < text.size();) {
      auto n = static_cast<uint32_t>(LongestPrefix(table_->user_defined, text.substr(at)));
      const bool frozen = n > 0;
      if (!frozen) n = ReadScalar(text.data() + at).n_bytes;
      symbols.push_back({at, at + n, frozen});
      at += n;
    }
    std::unordered_map<std::string_view, uint32_t> parts;  // unused pieces: where they were joined
    MergeByScore(text, &symbols, [&](std::string_view joined, uint32_t n_left) -> std::optional<float> {
      const auto id = table_->vocabulary.Find(joined);
      if (!id) return std::nullopt;
      const PieceType type = table_->types[*id];
      if (type != PieceType::kNormal && type != PieceType::kUserDefined && type != PieceType::kUnused)
        return std::nullopt;
      if (type == PieceType::kUnused) parts[joined] = n_left;
      return table_->scores[*id];
    });
    for (const ScoreSymbol& symbol : symbols) Output(text, symbol.begin, symbol.end, parts, out);
    return {};
  }

 private:
  // Unused pieces fall back into what they were joined from.
  void Output(std::string_view text, uint32_t begin, uint32_t end,
              const std::unordered_map<std::string_view, uint32_t>& parts,
              std::vector<ModelToken>* out) const {
    std::vector<std::pair<uint32_t, uint32_t>> todo = {{begin, end}};
    while (!todo.empty()) {
      const auto [from, to] = todo.back();
      todo.pop_back();
      const std::string_view piece = text.substr(from, to - from);
      const uint32_t id = table_->vocabulary.Find(piece).value_or(table_->unk_id);
      const auto found = table_->types[id] == PieceType::kUnused ? parts.find(piece) : parts.end();
      if (found == parts.end()) {
        Append(text, from, to, id, out);
        continue;
      }
      todo.emplace_back(from + found->second, to);
      todo.emplace_back(from, from + found->second);
    }
  }
};

// Pieces to text as SentencePiece's own decoder does it.
class SpmDecoder final : public Decoder {
 public:
  SpmDecoder(std::shared_ptr<const Table> table, std::string unk_surface, bool strips, bool forgets)
      : table_(std::move(table)), unk_surface_(std::move(unk_surface)), strips_(strips), forgets_(forgets) {}

  struct Position {
    bool at_start = true;    // nothing was put out
    bool saw_space = false;  // the piece before gave up its space
  };
  [[nodiscard]] PieceType TypeOf(const std::string& token) const {
    const auto id = table_->vocabulary.Find(token);
    return id ? table_->types[*id] : PieceType::kNormal;
  }
  [[nodiscard]] std::string Plain(const std::string& token, Position* position) const {
    std::string_view rest = token;
    bool saw = false;
    if (position->at_start && !position->saw_space && strips_ && rest.starts_with(kSpaceSymbol)) {
      rest.remove_prefix(kSpaceSymbol.size());
      saw = !forgets_;
    }
    position->saw_space = saw;
    std::string out = ReplaceInToken(std::string(rest), std::string(kSpaceSymbol), " ");
    if (!out.empty()) position->at_start = false;
    return out;
  }
  [[nodiscard]] const std::string& unk_surface() const { return unk_surface_; }

  [[nodiscard]] Status Decode(std::vector<std::string>* tokens) const override {
    std::string out;
    std::string bytes;
    Position position;
    const auto flush = [&] {
      for (size_t i = 0; i < bytes.size();) {
        const auto fault = FindUtf8Fault(std::string_view(bytes).substr(i));
        const size_t n = fault ? fault->byte_offset : bytes.size() - i;
        out.append(bytes, i, n);
        i += n;
        if (!fault) break;
        out.append(kReplacement);  // one for each byte
        ++i;
      }
      if (!bytes.empty()) position = {false, false};
      bytes.clear();
    };
    for (const std::string& token : *tokens) {
      const PieceType type = TypeOf(token);
      if (type == PieceType::kByte) {
        bytes.push_back(static_cast<char>(*ByteOfFallbackToken(token)));
        continue;
      }
      flush();
      if (type == PieceType::kControl) {
        position.saw_space = false;
      } else if (type == PieceType::kUnknown) {
        out += unk_surface_;
        position = {false, false};
      } else {
        out += Plain(token, &position);
      }
    }
    flush();
    tokens->assign(1, std::move(out));
    return {};
  }
  void MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const override;

 private:
  std::shared_ptr<const Table> table_;
  std::string unk_surface_;
  bool strips_;
  bool forgets_;
};

// Bytes as they come; control pieces show their text, as nothing is skipped here.
class SpmStage final : public DecoderStage {
 public:
  explicit SpmStage(SpmDecoder decoder) : decoder_(std::move(decoder)) {}
  Status Feed(const Fragment& in, std::vector<Fragment>* out) override {
    token_ += in.bytes;
    if (!in.ends) return {};
    const std::string token = std::exchange(token_, {});
    const PieceType type = decoder_.TypeOf(token);
    std::string bytes;
    if (type == PieceType::kByte) {
      bytes.push_back(static_cast<char>(*ByteOfFallbackToken(token)));
      position_ = {false, false};
    } else if (type == PieceType::kControl) {
      bytes = token;
    } else if (type == PieceType::kUnknown) {
      bytes = decoder_.unk_surface();
      position_ = {false, false};
    } else {
      bytes = decoder_.Plain(token, &position_);
    }
    out->push_back({std::move(bytes), true, true});
    return {};
  }
  Status Finish(std::vector<Fragment>*) override { return {}; }

 private:
  SpmDecoder decoder_;
  SpmDecoder::Position position_;
  std::string token_;
};

void SpmDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<SpmStage>(*this));
}

}  // namespace

Result<SentencePieces> ReadSentencePieces(ByteSpan file) {
  if (file.size() > kMaxFileBytes)
    return Fail(ErrorCode::kTokLimit, "a SentencePiece model larger than 256 MiB");
  SentencePieces out;
  Message message(AsText(file), 0);
  while (!message.at_end()) {
    SLM_ASSIGN(const Message::Field field, message.Next());
    if (field.number < 1 || field.number > 3) continue;
    SLM_TRY(NeedWire(field, 2));
    if (field.number == 1) {
      if (out.pieces.size() == kMaxTokens)
        return BadField(field, ErrorCode::kTokLimit, "more than 4194304 pieces");
      SLM_ASSIGN(auto piece, ReadPiece(field));
      out.pieces.push_back(std::move(piece));
    } else if (field.number == 2) {
      SLM_TRY(ReadTrainer(field, &out));
    } else {
      SLM_TRY(ReadNormalizer(field, &out));
    }
  }
  if (out.pieces.empty()) return Fail(ErrorCode::kTokSchema, "SentencePiece model: no pieces");
  return out;
}

Result<Compiled> CompileSentencePiece(ByteSpan file) {
  SLM_ASSIGN(const SentencePieces source, ReadSentencePieces(file));
  SLM_ASSIGN(const std::shared_ptr<const Table> table, MakeTable(source));
  Compiled out;
  std::unique_ptr<PrecompiledNormalizer> charsmap;
  if (!source.charsmap.empty()) {
    SLM_ASSIGN(charsmap, PrecompiledNormalizer::Make(AsBytes(source.charsmap)));
  }
  out.normalizer =
      std::make_unique<SpmNormalizer>(table, std::move(charsmap), source.add_dummy_prefix,
                                      source.remove_extra_whitespaces, source.escape_whitespaces);
  if (source.is_bpe) {
    out.model = std::make_unique<SpmBpeModel>(table);
  } else {
    out.model = std::make_unique<SpmUnigramModel>(table);
  }
  out.decoder = std::make_unique<SpmDecoder>(table, source.unk_surface,
                                             source.add_dummy_prefix || source.remove_extra_whitespaces,
                                             source.remove_extra_whitespaces);
  SLM_TRY(out.added.Build());
  json::Writer profile;
  profile.BeginObject().Key("reference").String("sentencepiece").Key("locale").String("none");
  profile.Key("model").String(source.is_bpe ? "BPE, by score, then leftmost"
                                            : "Unigram, sums in double kept as float");
  profile.Key("equal_ranks")
      .String(source.is_bpe ? "of equal scores the leftmost" : "none: there are no merges");
  profile.Key("encode_bytes").Bool(false);
  profile.Key("clean_up_tokenization_spaces").String("no part of the file");
  profile.Key("byte_fallback").Bool(source.byte_fallback).Key("charsmap_bytes").Uint(source.charsmap.size());
  profile.Key("charsmap_lookup")
      .String("longest entry")
      .Key("add_dummy_prefix")
      .Bool(source.add_dummy_prefix);
  profile.Key("remove_extra_whitespaces").Bool(source.remove_extra_whitespaces);
  profile.Key("escape_whitespaces")
      .Bool(source.escape_whitespaces)
      .Key("unk_surface")
      .String(source.unk_surface);
  profile.Key("special_tokens_in_text").String("never looked for").Key("tokens").Uint(source.pieces.size());
  profile.EndObject();
  out.profile_json = profile.Take();
  return out;
}

}  // namespace slm::tokenizer
