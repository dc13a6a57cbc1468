#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/compiled.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/sentencepiece.h"

namespace slm::tokenizer {

struct Tokenizer::Impl {
  Compiled compiled;
  std::unique_ptr<const FastPath> fast;  // null: only the general path; views `compiled`
  // What the post-processor does to the ids of one text is to put these around it.
  bool only_wraps = false;
  std::vector<uint32_t> prefix;
  std::vector<uint32_t> suffix;
  bool can_encode_bytes = false;
  size_t vocab_size = 0;

  // Sets what follows from `compiled`.
  void Finish();
};

namespace {

// One input while it is encoded.
struct Sequence {
  std::string_view text;    // the input, or the input with ill-formed bytes escaped
  std::vector<Span> align;  // empty for the input itself
  uint64_t n_input_bytes;
};

// Between bytes of the input and its scalar values, as the reference counts.
class ScalarMap {
 public:
  explicit ScalarMap(const Sequence& sequence) : n_bytes_(sequence.n_input_bytes) {
    const std::string_view text = sequence.text;
    is_ascii_ = sequence.align.empty() &&
                std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    if (is_ascii_) return;
    index_.resize(n_bytes_);
    for (size_t i = 0; i < text.size();) {
      const uint32_t n = ReadScalar(text.data() + i).n_bytes;
      const Span span = sequence.align.empty() ? Span{static_cast<uint32_t>(i), static_cast<uint32_t>(i) + n}
                                               : sequence.align[i];
      for (uint32_t at = span.begin; at < span.end; ++at) index_[at] = static_cast<uint32_t>(starts_.size());
      starts_.push_back(span.begin);
      i += n;
    }
  }

  // Bytes that lie outside the input stay as they are.
  [[nodiscard]] Offsets ToScalars(Offsets bytes) const {
    const auto begin = IndexOf(bytes.begin);
    if (!begin) return bytes;
    if (const auto end = IndexOf(bytes.end)) return {*begin, *end};
    const auto last = bytes.end == 0 ? std::nullopt : IndexOf(bytes.end - 1);
    return {*begin, last.value_or(*begin + 1) + 1};
  }
  [[nodiscard]] uint64_t ToByte(uint64_t scalar) const {
    if (is_ascii_) return std::min(scalar, n_bytes_);
    return scalar < starts_.size() ? starts_[scalar] : n_bytes_;
  }

 private:
  [[nodiscard]] std::optional<uint64_t> IndexOf(uint64_t byte) const {
    if (byte >= n_bytes_) return std::nullopt;
    return is_ascii_ ? byte : index_[byte];
  }
  uint64_t n_bytes_;
  bool is_ascii_;
  std::vector<uint32_t> index_;   // scalar that each byte belongs to
  std::vector<uint32_t> starts_;  // first byte of each scalar
};

std::vector<std::pair<uint64_t, uint64_t>> OriginOfEachByte(const AlignedText& text) {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  out.reserve(text.align.size());
  for (const Span& span : text.align) out.emplace_back(span.begin, span.end);
  return out;
}

// Runs the normalizer on every text piece.
Status NormalizePieces(const Normalizer* normalizer, PreTokenized* pieces, Trace* trace) {
  if (normalizer != nullptr) static_cast<void>(pieces->NewBuffer());
  for (Piece& piece : pieces->pieces()) {
    if (piece.added != kNoToken) continue;
    if (normalizer != nullptr) {
      AlignedText text = pieces->Copy(piece);
      SLM_TRY(normalizer->Normalize(&text));
      piece = pieces->Append(text);
      SLM_TRY(pieces->CheckSize());
    }
    if (trace != nullptr) {
      const AlignedText text = pieces->Copy(piece);
      trace->segments.push_back(
          {piece.original.begin, piece.original.end, text.text, OriginOfEachByte(text)});
    }
    // The reference cuts every piece out once more, so it stands for no more than its characters do.
    const auto n_bytes = static_cast<uint32_t>(pieces->Text(piece).size());
    if (normalizer != nullptr && n_bytes > 0) piece = pieces->Slice(piece, {0, n_bytes});
  }
  return {};
}

void TraceCuts(const PreTokenized& pieces, const AddedVocabulary& added, bool after_normalizer,
               Trace* trace) {
  if (trace == nullptr) return;
  for (const Piece& piece : pieces.pieces()) {
    if (piece.added == kNoToken) continue;
    const AddedToken& token = added.tokens()[piece.added];
    if (token.normalized != after_normalizer) continue;
    trace->cuts.push_back({piece.original.begin, piece.original.end, token.id,
                           std::string(pieces.Text(piece)), after_normalizer});
  }
}

Unmatched UnmatchedOf(const EncodeOptions& options) {
  return options.markers_as_text          ? Unmatched::kMarkers
         : options.special_tokens_as_text ? Unmatched::kSpecial
                                          : Unmatched::kNone;
}

Status CutIntoPieces(const Compiled& compiled, const EncodeOptions& options, PreTokenized* pieces,
                     Trace* trace) {
  const Unmatched unmatched = UnmatchedOf(options);
  SLM_TRY(compiled.added.Cut(pieces, false, unmatched));
  TraceCuts(*pieces, compiled.added, false, trace);
  SLM_TRY(NormalizePieces(compiled.normalizer.get(), pieces, trace));
  SLM_TRY(compiled.added.Cut(pieces, true, unmatched));
  TraceCuts(*pieces, compiled.added, true, trace);
  if (compiled.pre_tokenizer != nullptr) SLM_TRY(compiled.pre_tokenizer->Run(pieces));
  if (trace != nullptr) {
    for (const Piece& piece : pieces->pieces()) {
      trace->pre_tokens.push_back({piece.original.begin, piece.original.end, std::string(pieces->Text(piece)),
                                   piece.added != kNoToken});
    }
  }
  return {};
}

// The tokens of one piece, with their place in the input.
Status TokenizePiece(const Compiled& compiled, const PreTokenized& pieces, const Piece& piece,
                     std::vector<ModelToken>* scratch, std::vector<TokenRow>* out) {
  const std::string_view text = pieces.Text(piece);
  if (piece.added != kNoToken) {
    TokenRow row;
    row.id = compiled.added.tokens()[piece.added].id;
    row.text = text;
    const Span origin = pieces.OriginOf(piece, 0, static_cast<uint32_t>(text.size()));
    row.bytes = {origin.begin, origin.end};
    out->push_back(row);
    return {};
  }
  scratch->clear();
  SLM_TRY(compiled.model->Tokenize(text, scratch));
  for (const ModelToken& token : *scratch) {
    TokenRow row;
    row.id = token.id;
    row.text = token.own_text ? text.substr(token.begin, token.end - token.begin)
                              : compiled.model->vocabulary().TextOf(token.id).value_or("");
    if (token.begin == token.end) {
      row.bytes = {piece.original.begin + token.begin, piece.original.begin + token.end};
    } else if (token.end > text.size()) {
      row.bytes = {token.begin, token.end};  // beyond the piece: the reference gives them unmapped
    } else {
      const Span origin = pieces.OriginOf(piece, token.begin, token.end);
      row.bytes = {origin.begin, origin.end};
    }
    out->push_back(row);
  }
  return {};
}

void TracePiece(const std::vector<ModelToken>& tokens, uint32_t word, const Compiled& compiled,
                Trace* trace) {
  for (const ModelToken& token : tokens) {
    trace->model_pieces.push_back({word, token.begin, token.end, token.id,
                                   std::string(compiled.model->vocabulary().TextOf(token.id).value_or(""))});
  }
}

// All tokens. With truncation the reference stops once it has enough; from the left it begins at
// the end. Added tokens count, and do not stop it.
Result<std::vector<TokenRow>> TokenizePieces(const Compiled& compiled, const PreTokenized& pieces,
                                             const Truncation* limit, Trace* trace) {
  const std::vector<Piece>& list = pieces.pieces();
  std::vector<std::vector<TokenRow>> reversed;  // only from the left
  std::vector<TokenRow> out;
  std::vector<ModelToken> scratch;
  const bool from_left = limit != nullptr && limit->direction == Direction::kLeft;
  uint64_t n_tokens = 0;
  for (size_t k = 0; k < list.size(); ++k) {
    const size_t index = from_left ? list.size() - 1 - k : k;
    const size_t before = out.size();
    SLM_TRY(TokenizePiece(compiled, pieces, list[index], &scratch, &out));
    for (size_t i = before; i < out.size(); ++i) out[i].word = static_cast<uint32_t>(k);
    if (trace != nullptr && list[index].added == kNoToken) {
      TracePiece(scratch, static_cast<uint32_t>(index), compiled, trace);
    }
    n_tokens += out.size() - before;
    if (from_left) {
      reversed.push_back(std::move(out));
      out.clear();
    }
    if (limit != nullptr && list[index].added == kNoToken && n_tokens >= limit->max_length) break;
  }
  // Words are counted among the pieces that are left.
  for (size_t k = reversed.size(); k-- > 0;) {
    for (TokenRow& row : reversed[k]) {
      row.word = static_cast<uint32_t>(reversed.size() - 1 - k);
      out.push_back(row);
    }
  }
  return out;
}

// What TokenizePieces gives, by the fast path; nothing if this text must take the general one.
Result<std::optional<std::vector<TokenRow>>> TokenizeFast(const Compiled& compiled, const FastPath& fast,
                                                          std::string_view text, const EncodeOptions& options,
                                                          const Truncation* limit) {
  std::optional<std::vector<TokenRow>> out;
  if (limit != nullptr && (limit->direction == Direction::kLeft || limit->max_length == 0)) return out;
  FastTokens tokens;
  SLM_ASSIGN(const bool done, fast.Encode(text, UnmatchedOf(options), true, &tokens));
  // A general row holds the text of an unknown token, which is that of no id.
  if (!done || tokens.shows_unknown) return out;
  out.emplace();
  out->reserve(tokens.ids.size());
  size_t next_added = 0;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool is_added = next_added < tokens.added.size() && tokens.added[next_added] == i;
    if (limit != nullptr && i >= limit->max_length && tokens.words[i] != tokens.words[i - 1]) {
      // A piece of text ended here that was the last one, be it one without a token.
      const bool follows_added = next_added > 0 && tokens.added[next_added - 1] == i - 1;
      if (!follows_added || tokens.words[i] != tokens.words[i - 1] + 1) break;
    }
    TokenRow row;
    row.id = tokens.ids[i];
    row.word = tokens.words[i];
    row.bytes = {tokens.spans[i].begin, tokens.spans[i].end};
    row.text = is_added ? text.substr(row.bytes.begin, row.bytes.end - row.bytes.begin)
                        : compiled.model->vocabulary().TextOf(row.id).value_or("");
    out->push_back(row);
    next_added += is_added ? 1 : 0;
  }
  return out;
}

// Offsets that were trimmed, which is done in scalars, in bytes again.
void FinishRow(const std::vector<ScalarMap>& maps, Row* row) {
  const auto finish = [&maps](Row* one) {
    for (TokenRow& token : one->tokens) {
      if (!token.trimmed) continue;
      const ScalarMap& map = maps[token.sequence];
      token.bytes = {map.ToByte(token.scalars.begin), map.ToByte(token.scalars.end)};
    }
  };
  finish(row);
  for (Row& part : row->overflowing) finish(&part);
}

Encoding ToEncoding(const Row& row, bool token_texts) {
  Encoding out;
  for (const TokenRow& token : row.tokens) {
    out.ids.push_back(token.id);
    out.byte_offsets.emplace_back(token.bytes.begin, token.bytes.end);
    out.scalar_offsets.emplace_back(token.scalars.begin, token.scalars.end);
    out.special_mask.push_back(token.special);
    out.attention_mask.push_back(token.attention);
    out.word_ids.push_back(token.word);
    out.type_ids.push_back(token.type_id);
    if (token_texts) out.tokens.emplace_back(token.text);
  }
  for (const Row& part : row.overflowing) out.overflowing.push_back(ToEncoding(part, token_texts));
  return out;
}

Status CheckText(std::string_view text) {
  if (text.size() > kMaxInputBytes) return Fail(ErrorCode::kLimit, "text longer than 256 MiB");
  if (const auto fault = FindUtf8Fault(text)) {
    return Fail(MakeError(ErrorCode::kUtf8, "the text is not well-formed UTF-8: " +
                                                std::to_string(fault->length) + " bad byte(s)")
                    .At(fault->byte_offset));
  }
  return {};
}

// `fast` may be null.
Result<Encoding> EncodeSequences(const Compiled& compiled, const FastPath* fast,
                                 std::vector<Sequence> sequences, const EncodeOptions& options,
                                 Trace* trace) {
  const Truncation* truncation = options.truncation && compiled.truncation ? &*compiled.truncation : nullptr;
  std::vector<PreTokenized> pieces;  // token texts view into these
  std::vector<ScalarMap> maps;
  std::vector<Row> rows;
  pieces.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    maps.emplace_back(sequences[i]);
    const bool unlimited =
        truncation == nullptr || (truncation->strategy == Truncation::Strategy::kOnlySecond && i == 0);
    const Truncation* limit = unlimited ? nullptr : truncation;
    std::optional<std::vector<TokenRow>> quickly;
    if (fast != nullptr && trace == nullptr && sequences[i].align.empty()) {
      SLM_ASSIGN(quickly, TokenizeFast(compiled, *fast, sequences[i].text, options, limit));
    }
    pieces.emplace_back(sequences[i].text, std::move(sequences[i].align));
    std::vector<TokenRow> tokens;
    if (quickly) {
      tokens = *std::move(quickly);
    } else {
      SLM_TRY(CutIntoPieces(compiled, options, &pieces[i], trace));
      SLM_ASSIGN(tokens, TokenizePieces(compiled, pieces[i], limit, trace));
    }
    for (TokenRow& token : tokens) {
      token.type_id = static_cast<uint32_t>(i);
      token.sequence = static_cast<uint32_t>(i);
      token.scalars = maps[i].ToScalars(token.bytes);
    }
    rows.push_back(Row{std::move(tokens), {}});
  }
  if (truncation != nullptr) {
    const uint64_t n_added = options.add_special_tokens && compiled.post_processor != nullptr
                                 ? compiled.post_processor->n_added(rows.size() > 1)
                                 : 0;
    if (n_added > truncation->max_length) {
      return Fail(MakeError(ErrorCode::kTokSchema, "max_length is below the " + std::to_string(n_added) +
                                                       " tokens that the post-processor adds")
                      .Field("$.truncation.max_length"));
    }
    SLM_TRY(Truncate(&rows, *truncation, truncation->max_length - n_added));
  }
  if (compiled.post_processor != nullptr)
    SLM_TRY(compiled.post_processor->Process(&rows, options.add_special_tokens));
  Row joined;
  for (const Row& row : rows) Join(&joined, row);
  FinishRow(maps, &joined);
  if (options.padding && compiled.padding) Pad(&joined, *compiled.padding);
  return ToEncoding(joined, options.token_texts);
}

// Ill-formed bytes as escapes, with the alignment that this needs.
Sequence EscapedSequence(std::string_view bytes, std::string* storage) {
  Sequence out = {.text = bytes, .align = {}, .n_input_bytes = bytes.size()};
  if (!FindUtf8Fault(bytes)) return out;
  *storage = EscapeIllFormed(bytes);
  uint32_t from = 0;  // in `bytes`
  for (size_t at = 0; at < storage->size();) {
    const Scalar scalar = ReadScalar(storage->data() + at);
    const uint32_t to = from + (IsEscapedByte(scalar.value) ? 1 : scalar.n_bytes);
    out.align.insert(out.align.end(), scalar.n_bytes, Span{from, to});
    at += scalar.n_bytes;
    from = to;
  }
  out.text = *storage;
  return out;
}

}  // namespace

void Tokenizer::Impl::Finish() {
  const Vocabulary& vocabulary = compiled.model->vocabulary();
  can_encode_bytes = CanEncodeBytes(compiled);
  vocab_size = vocabulary.size() == 0 ? 0 : size_t{vocabulary.max_id()} + 1;
  for (const AddedToken& token : compiled.added.tokens()) {
    vocab_size = std::max(vocab_size, size_t{token.id} + 1);
  }
  if (compiled.fast_form) {
    fast = FastPath::Make(*compiled.fast_form, *compiled.model, compiled.added, compiled.normalizer.get());
  }
  const PostProcessor* processor = compiled.post_processor.get();
  only_wraps = true;
  if (processor == nullptr) return;
  prefix = processor->added_ids(true);
  suffix = processor->added_ids(false);
  for (const size_t n_tokens : {size_t{0}, size_t{2}}) {
    std::vector<Row> rows(1);
    for (uint32_t i = 0; i < n_tokens; ++i) {
      rows[0].tokens.emplace_back();
      rows[0].tokens.back().id = kMaxTokenId + 1 + i;
    }
    std::vector<uint32_t> wanted = prefix;
    for (const TokenRow& token : rows[0].tokens) wanted.push_back(token.id);
    wanted.insert(wanted.end(), suffix.begin(), suffix.end());
    only_wraps = only_wraps && processor->Process(&rows, true).has_value();
    std::vector<uint32_t> ids;
    for (const Row& row : rows) {
      for (const TokenRow& token : row.tokens) ids.push_back(token.id);
    }
    only_wraps = only_wraps && ids == wanted;
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(std::string json_text,
                                                             const LoadOptions& options) {
  auto impl = std::make_unique<Impl>();
  SLM_ASSIGN(impl->compiled, Compile(std::move(json_text), options));
  impl->Finish();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromSentencePiece(ByteSpan file) {
  auto impl = std::make_unique<Impl>();
  SLM_ASSIGN(impl->compiled, CompileSentencePiece(file));
  impl->Finish();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromGguf(ByteSpan file, const LoadOptions& options) {
  auto impl = std::make_unique<Impl>();
  SLM_ASSIGN(impl->compiled, CompileGguf(file, options));
  impl->Finish();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<Encoding> Tokenizer::Encode(std::string_view utf8, const EncodeOptions& options, Trace* trace) const {
  SLM_TRY(CheckText(utf8));
  return EncodeSequences(impl_->compiled, impl_->fast.get(), {Sequence{utf8, {}, utf8.size()}}, options,
                         trace);
}

namespace {

// What ByteLevelPostProcessor does, for tokens whose text stands at their place.
void TrimSpans(std::string_view text, bool add_prefix_space, FastTokens* tokens) {
  size_t next_added = 0;
  for (size_t i = 0; i < tokens->spans.size(); ++i) {
    Span& span = tokens->spans[i];
    const bool is_added = next_added < tokens->added.size() && tokens->added[next_added] == i;
    next_added += is_added ? 1 : 0;
    const auto is_trimmed = [is_added](char32_t scalar) {
      return is_added ? IsTrimmedFromOffsets(scalar) : scalar == ' ';
    };
    uint32_t begin = span.begin;
    uint32_t n_leading = 0;
    while (begin < span.end) {
      const Scalar scalar = ReadScalar(text.data() + begin);
      if (!is_trimmed(scalar.value)) break;
      begin += scalar.n_bytes;
      ++n_leading;
    }
    uint32_t end = span.end;
    while (end > span.begin) {
      uint32_t last = end - 1;
      while (IsContinuation(text[last])) --last;
      if (!is_trimmed(ReadScalar(text.data() + last).value)) break;
      end = last;
    }
    const bool keeps_one = (i == 0 || span.begin == 0) && add_prefix_space && n_leading == 1;
    if (!keeps_one) span.begin = begin;
    span.end = std::max(end, span.begin);
  }
}

}  // namespace

Status Tokenizer::EncodeIds(std::string_view utf8, const EncodeOptions& options, std::vector<uint32_t>* ids,
                            std::vector<std::pair<uint64_t, uint64_t>>* byte_offsets) const {
  const Compiled& compiled = impl_->compiled;
  const bool is_cut = (options.truncation && compiled.truncation) || (options.padding && compiled.padding);
  const PostProcessor::Trimming trimming =
      compiled.post_processor == nullptr ? PostProcessor::Trimming{} : compiled.post_processor->trimming();
  bool done = false;
  const bool is_fast = impl_->fast != nullptr && !is_cut && impl_->only_wraps &&
                       (byte_offsets == nullptr || trimming.n_times < 2);
  if (is_fast) {
    SLM_TRY(CheckText(utf8));
    FastTokens tokens;
    SLM_ASSIGN(done, impl_->fast->Encode(utf8, UnmatchedOf(options), byte_offsets != nullptr, &tokens));
    done = done && (byte_offsets == nullptr || trimming.n_times == 0 || tokens.spells_text);
    if (done) {
      const bool wraps = options.add_special_tokens;
      if (wraps) ids->insert(ids->end(), impl_->prefix.begin(), impl_->prefix.end());
      ids->insert(ids->end(), tokens.ids.begin(), tokens.ids.end());
      if (wraps) ids->insert(ids->end(), impl_->suffix.begin(), impl_->suffix.end());
      if (byte_offsets == nullptr) return {};
      if (trimming.n_times > 0) TrimSpans(utf8, trimming.add_prefix_space, &tokens);
      if (wraps) byte_offsets->insert(byte_offsets->end(), impl_->prefix.size(), {0, 0});
      for (const Span& span : tokens.spans) byte_offsets->emplace_back(span.begin, span.end);
      if (wraps) byte_offsets->insert(byte_offsets->end(), impl_->suffix.size(), {0, 0});
      return {};
    }
  }
  SLM_ASSIGN(const Encoding encoding, Encode(utf8, options));
  ids->insert(ids->end(), encoding.ids.begin(), encoding.ids.end());
  if (byte_offsets != nullptr) {
    byte_offsets->insert(byte_offsets->end(), encoding.byte_offsets.begin(), encoding.byte_offsets.end());
  }
  return {};
}

Result<Encoding> Tokenizer::EncodePair(std::string_view first, std::string_view second,
                                       const EncodeOptions& options) const {
  SLM_TRY(CheckText(first));
  SLM_TRY(CheckText(second));
  return EncodeSequences(impl_->compiled, impl_->fast.get(),
                         {Sequence{first, {}, first.size()}, Sequence{second, {}, second.size()}}, options,
                         nullptr);
}

Result<Encoding> Tokenizer::EncodeBytes(ByteSpan bytes, const EncodeOptions& options) const {
  if (!impl_->can_encode_bytes) {
    return Fail(ErrorCode::kTokByteApi, "this tokenizer has no tokens for all bytes; use the text API");
  }
  if (bytes.size() > kMaxInputBytes) return Fail(ErrorCode::kLimit, "input longer than 256 MiB");
  std::string storage;
  Sequence sequence = EscapedSequence(AsText(bytes), &storage);
  return EncodeSequences(impl_->compiled, impl_->fast.get(), {std::move(sequence)}, options, nullptr);
}

bool Tokenizer::can_encode_bytes() const {
  return impl_->can_encode_bytes;
}
bool Tokenizer::has_fast_path() const {
  return impl_->fast != nullptr;
}
size_t Tokenizer::vocab_size() const {
  return impl_->vocab_size;
}
const std::string& Tokenizer::profile_json() const {
  return impl_->compiled.profile_json;
}

std::optional<uint32_t> Tokenizer::TokenToId(std::string_view token) const {
  if (const AddedToken* added = impl_->compiled.added.FindContent(token)) return added->id;
  return impl_->compiled.model->vocabulary().Find(token);
}

Result<std::string> Tokenizer::IdToToken(uint32_t id) const {
  if (const AddedToken* added = impl_->compiled.added.FindId(id)) return added->content;
  if (const auto text = impl_->compiled.model->vocabulary().TextOf(id)) return std::string(*text);
  return Fail(ErrorCode::kTokUnknownId, "no token has the id " + std::to_string(id));
}

std::vector<uint32_t> Tokenizer::prefix_ids() const {
  const PostProcessor* processor = impl_->compiled.post_processor.get();
  return processor == nullptr ? std::vector<uint32_t>{} : processor->added_ids(true);
}

std::vector<uint32_t> Tokenizer::suffix_ids() const {
  const PostProcessor* processor = impl_->compiled.post_processor.get();
  return processor == nullptr ? std::vector<uint32_t>{} : processor->added_ids(false);
}

std::vector<std::string> Tokenizer::added_token_texts() const {
  std::vector<std::string> out;
  for (const AddedToken& token : impl_->compiled.added.tokens()) out.push_back(token.content);
  return out;
}

std::vector<std::pair<uint32_t, uint32_t>> Tokenizer::AdjacentParts() const {
  return impl_->compiled.model->AdjacentParts();
}

// Decoding.

struct DecodeStream::State {
  std::vector<std::unique_ptr<DecoderStage>> stages;
  bool skip_special = false;
  bool join_with_space = false;  // no decoder
  bool any_token = false;
  std::string pending;  // an incomplete character

  // Sends `fragments` through the stages from `first` on and collects the bytes.
  Status Run(std::vector<Fragment> fragments, size_t first) {
    for (size_t i = first; i < stages.size(); ++i) {
      std::vector<Fragment> next;
      for (const Fragment& fragment : fragments) SLM_TRY(stages[i]->Feed(fragment, &next));
      fragments = std::move(next);
    }
    for (const Fragment& fragment : fragments) pending += fragment.bytes;
    return {};
  }
  Status RunToken(std::string token) {
    if (join_with_space && any_token) pending += ' ';
    any_token = true;
    return Run({Fragment{std::move(token), true, true}}, 0);
  }
  Status RunFinish() {
    for (size_t i = 0; i < stages.size(); ++i) {
      std::vector<Fragment> last;
      SLM_TRY(stages[i]->Finish(&last));
      SLM_TRY(Run(std::move(last), i + 1));
    }
    return {};
  }
};

namespace {

// The text that decoding uses; nothing for an unknown id.
std::optional<std::string> DecodingText(const Compiled& compiled, uint32_t id) {
  if (const AddedToken* added = compiled.added.FindId(id)) return added->pattern;
  if (const auto text = compiled.model->vocabulary().TextOf(id)) return std::string(*text);
  return std::nullopt;
}

Result<std::string> DecodeVisible(const Compiled& compiled, const std::vector<uint32_t>& ids) {
  std::vector<std::string> tokens;
  const bool skips = compiled.decoder == nullptr || !compiled.decoder->takes_special_tokens();
  for (const uint32_t id : ids) {
    auto text = DecodingText(compiled, id);
    if (!text || (skips && compiled.added.IsSpecialText(*text))) continue;
    tokens.push_back(*std::move(text));
  }
  if (compiled.decoder != nullptr) SLM_TRY(compiled.decoder->Decode(&tokens));
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && compiled.decoder == nullptr) out += ' ';
    out += tokens[i];
  }
  return out;
}

}  // namespace

DecodeStream::DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), state_(std::make_unique<State>()) {
  const Compiled& compiled = tokenizer_->impl_->compiled;
  state_->skip_special = skip_special;
  state_->join_with_space = compiled.decoder == nullptr;
  if (compiled.decoder != nullptr) compiled.decoder->MakeStages(&state_->stages);
}
DecodeStream::~DecodeStream() = default;

Result<std::string> DecodeStream::Push(uint32_t id) {
  const Compiled& compiled = tokenizer_->impl_->compiled;
  auto text = DecodingText(compiled, id);
  if (!text) return Fail(ErrorCode::kTokUnknownId, "no token has the id " + std::to_string(id));
  if (!state_->skip_special || !compiled.added.IsSpecialText(*text))
    SLM_TRY(state_->RunToken(*std::move(text)));
  const size_t n_ready = state_->pending.size() - IncompleteUtf8Suffix(state_->pending);
  std::string out = state_->pending.substr(0, n_ready);
  state_->pending.erase(0, n_ready);
  return out;
}

Result<std::string> DecodeStream::Finish() {
  SLM_TRY(state_->RunFinish());
  return std::move(state_->pending);
}

Result<std::string> Tokenizer::Decode(const std::vector<uint32_t>& ids, DecodeMode mode) const {
  if (mode == DecodeMode::kVisible) return DecodeVisible(impl_->compiled, ids);
  // The stream needs an owner; this one owns nothing and ends before the call does.
  DecodeStream stream(std::shared_ptr<const Tokenizer>(std::shared_ptr<const Tokenizer>(), this), false);
  std::string bytes;
  for (const uint32_t id : ids) {
    auto piece = stream.Push(id);
    if (!piece && mode == DecodeMode::kDiagnostic) {
      bytes += "\x1A" + std::to_string(id) + "\x1A";
      continue;
    }
    if (!piece) return Fail(std::move(piece).error());
    bytes += *piece;
  }
  SLM_ASSIGN(const std::string rest, stream.Finish());
  bytes += rest;
  return mode == DecodeMode::kDiagnostic ? EscapeForDisplay(bytes) : bytes;
}

}  // namespace slm::tokenizer
