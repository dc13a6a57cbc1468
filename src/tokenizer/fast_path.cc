#include "tokenizer/fast_path.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/schema.h"
#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

constexpr uint8_t kMany = 0xFF;
constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581
constexpr size_t kBatch = 64;                       // words that are looked up together
constexpr size_t kWindow = 40;                      // symbols of a long word that are encoded together
constexpr size_t kOverlap = 2;                      // tokens of a window that the next one looks at again

// ---- what a file declares

std::string_view TypeOf(json::Value component) {
  const auto type = component.Find("type");
  return type && type->is_string() ? type->string() : std::string_view();
}

bool IsTrue(json::Value object, std::string_view key, bool fallback) {
  const auto value = OptionalMember(object, key);
  return value && value->is_bool() ? value->boolean() : fallback;
}

bool IsText(json::Value object, std::string_view key, std::string_view text) {
  const auto value = object.Find(key);
  return value && value->is_string() && value->string() == text;
}

// The parts of a Sequence, or the component itself; of nothing, nothing.
std::vector<json::Value> PartsOf(std::optional<json::Value> component, std::string_view key) {
  if (!component) return {};
  if (TypeOf(*component) != "Sequence") return {*component};
  std::vector<json::Value> out;
  const auto list = component->Find(key);
  if (!list || !list->is_array()) return {};
  for (const json::Value part : list->children()) {
    for (const json::Value inner : PartsOf(part, key)) out.push_back(inner);
  }
  return out;
}

// The expression of a Split that leaves its matches, and with `keeps_rest` what is between them.
std::optional<std::string_view> RegexOf(json::Value split, bool keeps_rest) {
  const auto pattern = split.Find("pattern");
  if (TypeOf(split) != "Split" || !pattern || !pattern->is_object()) return std::nullopt;
  const auto regex = pattern->Find("Regex");
  if (!regex || !regex->is_string()) return std::nullopt;
  const bool invert = IsTrue(split, "invert", false);
  if (!IsText(split, "behavior", invert ? "Removed" : "Isolated")) return std::nullopt;
  if (invert && keeps_rest) return std::nullopt;
  return regex->string();
}

bool IsByteLevel(json::Value component, bool use_regex) {
  return TypeOf(component) == "ByteLevel" && !IsTrue(component, "add_prefix_space", true) &&
         IsTrue(component, "use_regex", true) == use_regex;
}

std::optional<FastForm> ByteLevelForm(const std::vector<json::Value>& normalizers,
                                      const std::vector<json::Value>& parts) {
  FastForm form;
  form.is_byte_level = true;
  form.nfc = !normalizers.empty();
  if (normalizers.size() > 1 || (form.nfc && TypeOf(normalizers[0]) != "NFC")) return std::nullopt;
  if (parts.size() == 1 && IsByteLevel(parts[0], true)) return form;
  if (parts.size() < 2) return std::nullopt;
  if (parts.size() == 2 && TypeOf(parts[0]) == "Digits" && IsTrue(parts[0], "individual_digits", false) &&
      IsByteLevel(parts[1], true)) {
    form.pattern = SplitPattern::kGpt2Digits;
    return form;
  }
  std::vector<std::string_view> regexes;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto regex = RegexOf(parts[i], parts.size() > 2);
    if (!regex) return std::nullopt;
    regexes.push_back(*regex);
  }
  const auto pattern = FindSplitPattern(regexes);
  if (!pattern || !IsByteLevel(parts.back(), false)) return std::nullopt;
  form.pattern = *pattern;
  return form;
}

bool ReplacesSpaces(json::Value normalizer) {
  const auto pattern = normalizer.Find("pattern");
  return TypeOf(normalizer) == "Replace" && IsText(normalizer, "content", kMeta) && pattern &&
         pattern->is_object() && IsText(*pattern, "String", " ");
}

// A Split at spaces, of which the normalizer leaves none.
bool SplitsNothing(json::Value component) {
  const auto pattern = component.Find("pattern");
  return TypeOf(component) == "Split" && !IsTrue(component, "invert", false) && pattern &&
         pattern->is_object() && IsText(*pattern, "String", " ");
}

std::optional<FastForm> MetaForm(const std::vector<json::Value>& normalizers,
                                 const std::vector<json::Value>& parts) {
  FastForm form;
  if (normalizers.empty()) {
    if (parts.size() != 1 || TypeOf(parts[0]) != "Metaspace" || !IsText(parts[0], "replacement", kMeta) ||
        IsTrue(parts[0], "split", true)) {
      return std::nullopt;
    }
    form.prefix = FastForm::Prefix::kUnlessThere;
    if (IsText(parts[0], "prepend_scheme", "first")) form.prefix = FastForm::Prefix::kFirstUnlessThere;
    if (IsText(parts[0], "prepend_scheme", "never")) form.prefix = FastForm::Prefix::kNone;
    return form;
  }
  if (parts.size() > 1 || (parts.size() == 1 && !SplitsNothing(parts[0]))) return std::nullopt;
  if (normalizers.size() > 2 || !ReplacesSpaces(normalizers.back())) return std::nullopt;
  if (normalizers.size() == 2) {
    if (TypeOf(normalizers[0]) != "Prepend" || !IsText(normalizers[0], "prepend", kMeta)) return std::nullopt;
    form.prefix = FastForm::Prefix::kAlways;
  }
  return form;
}

std::optional<FastForm> BertForm(const std::vector<json::Value>& normalizers,
                                 const std::vector<json::Value>& parts) {
  if (parts.size() != 1 || TypeOf(parts[0]) != "BertPreTokenizer" || normalizers.size() > 1)
    return std::nullopt;
  FastForm form;
  form.bert = BertNormalizer::Options{};
  if (normalizers.empty()) return form;
  const json::Value normalizer = normalizers[0];
  if (TypeOf(normalizer) != "BertNormalizer" && TypeOf(normalizer) != "Bert") return std::nullopt;
  const bool lowercase = IsTrue(normalizer, "lowercase", true);
  form.bert = {.clean_text = IsTrue(normalizer, "clean_text", true),
               .handle_chinese_chars = IsTrue(normalizer, "handle_chinese_chars", true),
               .strip_accents = IsTrue(normalizer, "strip_accents", lowercase),
               .lowercase = lowercase};
  return form;
}

bool IsAsciiWithoutSpace(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

std::optional<UnigramWords::Options::Replacement> ReplacementOf(json::Value normalizer) {
  const auto pattern = normalizer.Find("pattern");
  const auto content = normalizer.Find("content");
  if (TypeOf(normalizer) != "Replace" || !pattern || !pattern->is_object() || !content ||
      !content->is_string())
    return std::nullopt;
  const auto text = pattern->Find("String");
  if (!text || !text->is_string()) return std::nullopt;
  UnigramWords::Options::Replacement out = {std::string(text->string()), std::string(content->string())};
  if (out.with.empty() || out.with.size() > out.text.size()) return std::nullopt;
  if (!IsAsciiWithoutSpace(out.text) || !IsAsciiWithoutSpace(out.with)) return std::nullopt;
  return out;
}

std::optional<FastForm> UnigramForm(const std::vector<json::Value>& normalizers,
                                    const std::vector<json::Value>& parts) {
  if (parts.size() != 2 || TypeOf(parts[0]) != "WhitespaceSplit" || TypeOf(parts[1]) != "Metaspace" ||
      !IsText(parts[1], "replacement", kMeta) || !IsTrue(parts[1], "split", true)) {
    return std::nullopt;
  }
  if (parts[1].Find("prepend_scheme") && !IsText(parts[1], "prepend_scheme", "always")) return std::nullopt;
  FastForm form;
  UnigramWords::Options& options = form.unigram.emplace();
  size_t i = 0;
  const auto takes = [&normalizers, &i](std::string_view type) {
    if (i == normalizers.size() || TypeOf(normalizers[i]) != type) return false;
    ++i;
    return true;
  };
  while (i < normalizers.size() && TypeOf(normalizers[i]) == "Replace") {
    const auto replacement = ReplacementOf(normalizers[i++]);
    if (!replacement) return std::nullopt;
    options.replacements.push_back(*replacement);
  }
  if (takes("NFKD")) {
    if (!takes("StripAccents")) return std::nullopt;
    options.nfkd_strip_accents = true;
  }
  options.lowercase = takes("Lowercase");
  options.charsmap = takes("Precompiled");
  if (i != normalizers.size()) return std::nullopt;
  return form;
}

// ---- whether a text is in normal form C already

constexpr uint8_t kChanges = 1;  // may compose with what stands before, or is not itself in the form
constexpr uint8_t kMark = 2;     // has a combining class

class NfcTable {
 public:
  NfcTable() : flags_(kEnd, 0) {
    for (char32_t c = 0x80; c < kEnd; ++c) {
      if (unicode::CombiningClassV9(c) != 0) flags_[c] |= kMark;
      const auto parts = unicode::DecompositionV9(c);
      if (parts.empty()) continue;
      char32_t composed = parts[0];
      for (size_t i = 1; i < parts.size() && composed != 0; ++i)
        composed = unicode::ComposeV9(composed, parts[i]);
      if (composed != c) flags_[c] |= kChanges;
      if (parts.size() > 1) flags_[parts.back()] |= kChanges;
    }
    for (char32_t c = 0x1161; c < 0x1176; ++c) flags_[c] |= kChanges;  // Hangul that composes
    for (char32_t c = 0x11A8; c < 0x11C3; ++c) flags_[c] |= kChanges;
  }
  [[nodiscard]] uint8_t operator[](char32_t c) const { return c < kEnd ? flags_[c] : 0; }

 private:
  static constexpr char32_t kEnd = 0x30000;  // nothing beyond has a class or parts in Unicode 9.0
  std::vector<uint8_t> flags_;
};

// False where that would take more than a look at each character.
bool IsSurelyNfc(std::string_view text) {
  static const NfcTable kTable;
  uint8_t last_class = 0;
  for (size_t i = 0; i < text.size();) {
    uint64_t block = 0;
    if (i + 8 <= text.size()) std::memcpy(&block, text.data() + i, 8);
    if (i + 8 <= text.size() && (block & 0x8080808080808080u) == 0) {
      i += 8;
      last_class = 0;
      continue;
    }
    const Scalar scalar = ReadScalar(text.data() + i);
    i += scalar.n_bytes;
    const uint8_t flags = kTable[scalar.value];
    if ((flags & kChanges) != 0) return false;
    const uint8_t combining_class = (flags & kMark) != 0 ? unicode::CombiningClassV9(scalar.value) : 0;
    if (combining_class != 0 && combining_class < last_class) return false;
    last_class = combining_class;
  }
  return true;
}

uint32_t CountScalars(std::string_view text) {
  uint32_t n = 0;
  for (const char c : text) n += IsContinuation(c) ? 0u : 1u;
  return n;
}

// Whether a text, as far as its start shows, repeats itself after at most four bytes.
bool IsPeriodic(std::string_view text) {
  constexpr size_t kLooked = 12;
  for (size_t period = 1; period <= 4 && period < text.size(); ++period) {
    const size_t n = std::min(text.size() - period, kLooked);
    if (std::memcmp(text.data(), text.data() + period, n) == 0) return true;
  }
  return false;
}

// The place of a token in a part of at most WordCache::kMaxBytes, as a number to keep beside its id.
uint32_t PackPlace(const BertWords::Token& token) {
  static_assert(WordCache::kMaxBytes < 1024);
  return token.begin | token.end << 10 | (token.starts_word ? 1u << 20 : 0u);
}
BertWords::Token UnpackToken(uint32_t id, uint32_t place) {
  return {.id = id, .begin = place & 1023, .end = place >> 10 & 1023, .starts_word = place >> 20 != 0};
}

size_t CharacterBytes(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

std::optional<FastForm> FindFastForm(json::Value root) {
  const std::vector<json::Value> normalizers = PartsOf(OptionalMember(root, "normalizer"), "normalizers");
  const std::vector<json::Value> parts = PartsOf(OptionalMember(root, "pre_tokenizer"), "pretokenizers");
  if (const auto form = ByteLevelForm(normalizers, parts)) return form;
  if (const auto form = BertForm(normalizers, parts)) return form;
  if (const auto form = UnigramForm(normalizers, parts)) return form;
  return MetaForm(normalizers, parts);
}

// ---- what one call holds, kept from call to call

struct FastPath::State {
  WordCache cache;
  State() { row.reserve(WordCache::kInline); }
  std::vector<uint32_t> row;      // ids of the word in hand
  std::vector<uint32_t> window;   // of a window
  std::vector<uint32_t> symbols;  // of a long word
  std::vector<uint32_t> places;   // first byte of each symbol, and the end; not byte-level
  struct Token {
    uint32_t id;
    uint32_t n_symbols;
  };
  std::vector<Token> tokens;  // of a long word, so far
  std::vector<Token> next;    // of its next window
  std::vector<ModelToken> model_tokens;
  std::string text;  // a word with its prefix, or mapped bytes
  BertWords::Scratch bert_scratch;
  UnigramWords::Scratch unigram_scratch;
  std::vector<BertWords::Token> part_tokens;  // of WordPiece or Unigram
};

FastPath::FastPath(const FastForm& form, const Model& model, const AddedVocabulary& added)
    : form_(form), model_(model), added_(added) {}

FastPath::~FastPath() {
  delete state_.load();
}

std::unique_ptr<const FastPath> FastPath::Make(const FastForm& form, const Model& model,
                                               const AddedVocabulary& added, const Normalizer* normalizer) {
  if (added.has_normalized() && !form.is_byte_level) return nullptr;
  std::unique_ptr<FastPath> out(new FastPath(form, model, added));
  if (form.bert) {
    const WordPieceModel* word_piece = model.AsWordPiece();
    if (word_piece == nullptr || !word_piece->has_unknown()) return nullptr;
    out->bert_words_.emplace(*form.bert, *word_piece);
    return out;
  }
  if (form.unigram) {
    const UnigramModel* unigram = model.AsUnigram();
    if (unigram == nullptr) return nullptr;
    const PrecompiledNormalizer* charsmap = normalizer == nullptr ? nullptr : normalizer->FindCharsmap();
    out->unigram_words_ = UnigramWords::Make(*form.unigram, *unigram, charsmap);
    if (out->unigram_words_ == nullptr) return nullptr;
    return out;
  }
  const BpeModel* bpe = model.AsBpe();
  if (bpe == nullptr || !out->SetUpBpe(*bpe)) return nullptr;
  return out;
}

bool FastPath::SetUpBpe(const BpeModel& model) {
  const Vocabulary& vocabulary = model.vocabulary();
  const BpeOptions& options = model.options();
  if (!options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty()) return false;
  if (vocabulary.max_id() > BpeMerger::kMaxId || model.merges().size() > BpeMerger::kMaxRank) return false;
  ignore_merges_ = options.ignore_merges;
  if (!(form_.is_byte_level ? SetUpBytes(model) : SetUpScalars(model))) return false;
  n_symbols_.assign(size_t{vocabulary.max_id()} + 1, 1);
  for (const Vocabulary::Entry& entry : vocabulary.entries()) {
    const uint32_t n = CountScalars(entry.text);
    const bool is_byte = !form_.is_byte_level && is_byte_token_[entry.id];
    max_symbols_ = std::max(max_symbols_, n);
    n_symbols_[entry.id] = static_cast<uint8_t>(is_byte ? 1 : std::min<uint32_t>(n, kMany));
  }
  return true;
}

bool FastPath::SetUpBytes(const BpeModel& model) {
  const Vocabulary& vocabulary = model.vocabulary();
  if (model.options().byte_fallback) return false;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string text;
    AppendScalar(&text, ByteAlphabet()[byte]);
    byte_ids_[byte] = vocabulary.Find(text).value_or(kNone);
  }
  merger_ = std::make_unique<BpeMerger>(model.merges(), byte_ids_);
  return true;
}

bool FastPath::SetUpScalars(const BpeModel& model) {
  const Vocabulary& vocabulary = model.vocabulary();
  if (!model.has_byte_tokens() || ignore_merges_) return false;
  is_byte_token_.assign(size_t{vocabulary.max_id()} + 1, false);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = *model.byte_ids()[byte];
    is_byte_token_[byte_ids_[byte]] = true;
  }
  pages_.assign(0x1100, 0);
  for (const Vocabulary::Entry& entry : vocabulary.entries()) {
    if (entry.text.empty() || CharacterBytes(entry.text[0]) != entry.text.size()) continue;
    const char32_t scalar = ReadScalar(entry.text.data()).value;
    uint16_t& page = pages_[scalar >> 8];
    if (page == 0) {
      page_ids_.resize(page_ids_.size() + 256, kNone);
      page = static_cast<uint16_t>(page_ids_.size() / 256);
    }
    page_ids_[size_t{page - 1u} << 8 | (scalar & 0xFF)] = entry.id;
  }
  if (IdOf(0x2581) == kNone) return false;
  // A space stands for U+2581 here, and no space is left in the text that the model sees.
  const auto class_of = [](char32_t scalar) {
    return scalar == 0x2581 ? size_t{' '} : scalar < 128 ? size_t{scalar} : kNotAscii;
  };
  for (const MergeRule& rule : model.merges()) {
    if (is_byte_token_[rule.left] || is_byte_token_[rule.right] || is_byte_token_[rule.merged]) return false;
    const std::string_view text = vocabulary.TextOf(rule.merged).value_or("");
    size_t last = kNotAscii + 1;
    for (size_t i = 0; i < text.size();) {
      const Scalar scalar = ReadScalar(text.data() + i);
      i += scalar.n_bytes;
      const size_t next = class_of(scalar.value);
      if (last <= kNotAscii) joins_[last][next >> 6] |= uint64_t{1} << (next & 63);
      last = next;
    }
  }
  merger_ = std::make_unique<BpeMerger>(model.merges(), std::span<const uint32_t>());
  return true;
}

uint32_t FastPath::SymbolsOf(uint32_t id) const {
  const uint32_t n = n_symbols_[id];
  return n != kMany ? n : CountScalars(model_.vocabulary().TextOf(id).value_or(""));
}

// ---- one call

class FastPath::Call {
 public:
  Call(const FastPath& path, State* state, std::string_view input, bool with_spans, FastTokens* out)
      : path_(path), state_(*state), input_(input), with_spans_(with_spans), out_(*out) {}

  [[nodiscard]] Result<bool> Run(Unmatched unmatched);

 private:
  // A text that is cut into words; where its bytes come from: the input at `base`, or `align`.
  struct Segment {
    std::string_view text;
    uint32_t base = 0;
    const Span* align = nullptr;
    bool has_prefix = false;  // the first byte of `text` is a space that was put in front
  };

  [[nodiscard]] Status AddParts(std::string_view text, uint32_t base, bool normalized, Unmatched unmatched);
  void AddAdded(uint32_t added, Span span);
  [[nodiscard]] Status EncodeText(std::string_view text, uint32_t base);
  [[nodiscard]] Status EncodeBytes(const Segment& segment);
  [[nodiscard]] Status EncodeScalars(std::string_view text, uint32_t base);
  void EncodeScalarWord(const Segment& segment, uint32_t begin, uint32_t end);
  // The ids of a word that is not in the cache; false if it takes the model itself.
  [[nodiscard]] bool MergeWord(std::string_view word);
  [[nodiscard]] Status RunModel(const Segment& segment, Word word);
  void MergeLongWord(std::string_view word);
  // WordPiece or Unigram: a text that `words` cuts into parts; `encode` gives those of a part.
  template <typename Words, typename EncodePart>
  [[nodiscard]] Status EncodeParts(const Words& words, std::string_view text, uint32_t base, bool is_kept,
                                   EncodePart encode);
  [[nodiscard]] Status EncodeBert(std::string_view text, uint32_t base);
  [[nodiscard]] Status EncodeUnigram(std::string_view text, uint32_t base);
  void EmitToken(const BertWords::Token& token, uint32_t base);
  [[nodiscard]] std::span<const uint32_t> Window(std::string_view word, size_t begin, size_t end);
  [[nodiscard]] bool AreNeighbours(std::string_view word, size_t begin, State::Token a, State::Token b);
  void ReadSymbols(std::string_view word);
  // Makes room for `n` more ids, and for what Emit may write beyond the last one.
  void Reserve(size_t n) {
    if (out_.ids.size() < n_ids_ + n + WordCache::kInline) out_.ids.resize(n_ids_ + n + WordCache::kInline);
  }
  void Emit(std::span<const uint32_t> ids, const Segment& segment, uint32_t begin);
  void EmitSpans(std::span<const uint32_t> ids, const Segment& segment, uint32_t begin);
  [[nodiscard]] Span OriginOf(const Segment& segment, size_t begin, size_t end) const;

  const FastPath& path_;
  State& state_;
  std::string_view input_;
  bool with_spans_;
  FastTokens& out_;
  size_t n_ids_ = 0;  // of out_.ids; the rest is room
  uint32_t n_words_ = 0;
  bool leaves_ = false;  // the general path must take the text
};

Result<bool> FastPath::Call::Run(Unmatched unmatched) {
  out_.spans.clear();
  out_.words.clear();
  out_.added.clear();
  out_.spells_text = true;
  out_.shows_unknown = false;
  Reserve(input_.size());
  SLM_TRY(AddParts(input_, 0, false, unmatched));
  out_.ids.resize(n_ids_);
  return !leaves_;
}

void FastPath::Call::AddAdded(uint32_t added, Span span) {
  Reserve(1);
  out_.added.push_back(static_cast<uint32_t>(n_ids_));
  out_.ids[n_ids_++] = path_.added_.tokens()[added].id;
  if (with_spans_) {
    out_.spans.push_back(span);
    out_.words.push_back(n_words_);
  }
  ++n_words_;
}

// Cuts at added tokens: first at those of the input, then, in what is left, at the normalized ones.
Status FastPath::Call::AddParts(std::string_view text, uint32_t base, bool normalized, Unmatched unmatched) {
  if (normalized && path_.form_.nfc && path_.added_.has_normalized() && !IsSurelyNfc(text)) {
    leaves_ = true;  // it takes another form, and the tokens are looked for in that
    return {};
  }
  SLM_ASSIGN(const auto parts, path_.added_.Parts(text, normalized, unmatched));
  for (const AddedVocabulary::Found& part : parts) {
    if (part.begin == part.end) continue;
    const uint32_t begin = base + static_cast<uint32_t>(part.begin);
    if (part.added != kNoToken) {
      AddAdded(part.added, {begin, base + static_cast<uint32_t>(part.end)});
      continue;
    }
    const std::string_view inner = text.substr(part.begin, part.end - part.begin);
    if (!normalized && path_.added_.has_normalized()) {
      SLM_TRY(AddParts(inner, begin, true, unmatched));
    } else {
      SLM_TRY(EncodeText(inner, begin));
    }
    if (leaves_) break;
  }
  return {};
}

Status FastPath::Call::EncodeText(std::string_view text, uint32_t base) {
  Reserve(text.size() + 1);  // a token for each byte, and one for a prefix
  if (path_.bert_words_) return EncodeBert(text, base);
  if (path_.unigram_words_) return EncodeUnigram(text, base);
  if (!path_.form_.is_byte_level) return EncodeScalars(text, base);
  if (!path_.form_.nfc || IsSurelyNfc(text)) return EncodeBytes({.text = text, .base = base});
  if (!with_spans_) {
    const std::string normal = path_.nfc_.NormalizeText(text);
    Reserve(normal.size());
    return EncodeBytes({.text = normal});
  }
  AlignedText normal;
  normal.text = text;
  normal.original = {base, base + static_cast<uint32_t>(text.size())};
  normal.align.reserve(text.size());
  for (uint32_t i = 0; i < text.size();) {
    const uint32_t n = ReadScalar(text.data() + i).n_bytes;
    for (uint32_t k = 0; k < n; ++k) normal.align.push_back({base + i, base + i + n});
    i += n;
  }
  SLM_TRY(path_.nfc_.Normalize(&normal));
  Reserve(normal.text.size());
  return EncodeBytes({.text = normal.text, .align = normal.align.data()});
}

Span FastPath::Call::OriginOf(const Segment& segment, size_t begin, size_t end) const {
  if (segment.align != nullptr) return {segment.align[begin].begin, segment.align[end - 1].end};
  const std::string_view text = segment.text;
  while (begin > 0 && IsContinuation(text[begin])) --begin;
  while (end < text.size() && IsContinuation(text[end])) ++end;
  if (segment.has_prefix) {  // it comes from the first character of the text
    begin = begin == 0 ? 0 : begin - 1;
    end = end == 1 ? (text.size() > 1 ? CharacterBytes(text[1]) : 0) : end - 1;
  }
  return {segment.base + static_cast<uint32_t>(begin), segment.base + static_cast<uint32_t>(end)};
}

void FastPath::Call::Emit(std::span<const uint32_t> ids, const Segment& segment, uint32_t begin) {
  uint32_t* to = out_.ids.data() + n_ids_;
  if (ids.size() <= WordCache::kInline) {
    std::memcpy(to, ids.data(), WordCache::kInline * sizeof(uint32_t));
  } else {
    std::memcpy(to, ids.data(), ids.size_bytes());
  }
  n_ids_ += ids.size();
  if (with_spans_) EmitSpans(ids, segment, begin);
}

void FastPath::Call::EmitSpans(std::span<const uint32_t> ids, const Segment& segment, uint32_t begin) {
  size_t at = begin;
  for (const uint32_t id : ids) {
    size_t end = at;
    const uint32_t n = path_.SymbolsOf(id);
    if (path_.form_.is_byte_level || path_.is_byte_token_[id]) {
      end += n;
    } else {
      for (uint32_t i = 0; i < n; ++i) end += CharacterBytes(segment.text[end]);
    }
    out_.spans.push_back(OriginOf(segment, at, end));
    out_.words.push_back(n_words_);
    at = end;
  }
}

Status FastPath::Call::EncodeBytes(const Segment& segment) {
  const std::string_view text = segment.text;
  std::array<Word, kBatch> words;
  std::array<WordCache::Key, kBatch> keys;
  for (size_t at = 0; at < text.size();) {
    const size_t n = SplitWords(path_.form_.pattern, text, &at, words.data(), kBatch);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t begin = words[i].begin;
      const size_t size = words[i].end - begin;
      if (size > WordCache::kMaxBytes) continue;
      keys[i] = WordCache::KeyOf(text.data() + begin, size, text.size() - begin, WordCache::Kind::kWord);
      state_.cache.Prefetch(keys[i]);
    }
    for (size_t i = 0; i < n; ++i, ++n_words_) {
      const std::string_view word = text.substr(words[i].begin, words[i].end - words[i].begin);
      const bool kept = word.size() <= WordCache::kMaxBytes;
      if (kept) {
        if (const auto ids = state_.cache.Find(keys[i], word); !ids.empty()) {
          Emit(ids, segment, words[i].begin);
          continue;
        }
      }
      if (!MergeWord(word)) {
        SLM_TRY(RunModel(segment, words[i]));
        continue;
      }
      if (kept) state_.cache.Insert(keys[i], word, state_.row);
      Emit(state_.row, segment, words[i].begin);
    }
  }
  return {};
}

bool FastPath::Call::MergeWord(std::string_view word) {
  std::vector<uint32_t>& row = state_.row;
  row.clear();
  if (path_.ignore_merges_ && word.size() <= path_.max_symbols_) {
    state_.text.clear();
    for (const char c : word) AppendScalar(&state_.text, ByteAlphabet()[static_cast<uint8_t>(c)]);
    if (const auto id = path_.model_.vocabulary().Find(state_.text)) {
      row.push_back(*id);
      return true;
    }
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(word.data());
  for (size_t i = 0; i < word.size(); ++i) {
    if (path_.byte_ids_[bytes[i]] == kNone) return false;
  }
  if (word.size() > BpeMerger::kMaxShort) {
    MergeLongWord(word);
    return true;
  }
  row.resize(word.size());
  for (size_t i = 0; i < word.size(); ++i) row[i] = path_.byte_ids_[bytes[i]];
  row.resize(path_.merger_->MergeBytes(bytes, row.data(), row.size()));
  return true;
}

// Bytes without a token vanish, or become the unknown token: as the model does it.
Status FastPath::Call::RunModel(const Segment& segment, Word word) {
  std::vector<uint32_t> places;  // in the mapped text, the byte that each of its bytes stands for
  state_.text.clear();
  for (uint32_t i = word.begin; i < word.end; ++i) {
    AppendScalar(&state_.text, ByteAlphabet()[static_cast<uint8_t>(segment.text[i])]);
    places.resize(state_.text.size(), i);
  }
  places.push_back(word.end);
  state_.model_tokens.clear();
  out_.spells_text = false;
  SLM_TRY(path_.model_.Tokenize(state_.text, &state_.model_tokens));
  for (const ModelToken& token : state_.model_tokens) {
    Reserve(1);
    out_.ids[n_ids_++] = token.id;
    if (!with_spans_) continue;
    out_.spans.push_back(OriginOf(segment, places[token.begin], places[token.end - 1] + 1));
    out_.words.push_back(n_words_);
  }
  return {};
}

// ---- texts with U+2581

Status FastPath::Call::EncodeScalars(std::string_view text, uint32_t base) {
  const bool starts_there = text.starts_with(' ') || text.starts_with(kMeta);
  bool prefix = path_.form_.prefix != FastForm::Prefix::kNone;
  if (path_.form_.prefix == FastForm::Prefix::kFirstUnlessThere) prefix = base == 0;
  if (path_.form_.prefix != FastForm::Prefix::kAlways) prefix = prefix && !starts_there;
  const auto class_at = [text](size_t at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) return size_t{byte};
    return byte == 0xE2 && text.substr(at, 3) == kMeta ? size_t{' '} : kNotAscii;
  };
  size_t begin = 0;
  size_t last = prefix ? size_t{' '} : kNotAscii + 1;
  std::string with_prefix;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = at < text.size() ? class_at(at) : 0;
    const bool cut =
        at == text.size() || (last <= kNotAscii && (path_.joins_[last][next >> 6] >> (next & 63) & 1) == 0);
    if (cut && (at > begin || prefix)) {
      if (prefix) {
        // One character more, for the origin of the prefix.
        const size_t n_more = at > 0 || text.empty() ? at : CharacterBytes(text[0]);
        with_prefix = " ";
        with_prefix += text.substr(0, n_more);
        EncodeScalarWord({.text = with_prefix, .base = base, .has_prefix = true}, 0,
                         static_cast<uint32_t>(at) + 1);
        prefix = false;
      } else {
        EncodeScalarWord({.text = text, .base = base}, static_cast<uint32_t>(begin),
                         static_cast<uint32_t>(at));
      }
      begin = at;
    }
    if (at == text.size()) break;
    last = next;
    at += CharacterBytes(text[at]);
  }
  ++n_words_;
  return {};
}

void FastPath::Call::EncodeScalarWord(const Segment& segment, uint32_t begin, uint32_t end) {
  const std::string_view word = segment.text.substr(begin, end - begin);
  const bool kept = word.size() <= WordCache::kMaxBytes;
  WordCache::Key key;
  if (kept) {
    key = WordCache::KeyOf(word.data(), word.size(), segment.text.size() - begin, WordCache::Kind::kWord);
    if (const auto ids = state_.cache.Find(key, word); !ids.empty()) {
      Emit(ids, segment, begin);
      return;
    }
  }
  ReadSymbols(word);
  if (state_.symbols.size() > BpeMerger::kMaxShort) {
    MergeLongWord(word);
  } else {
    state_.row = state_.symbols;
    state_.row.resize(path_.merger_->MergeShort(state_.row.data(), state_.row.size()));
  }
  if (kept) state_.cache.Insert(key, word, state_.row);
  Emit(state_.row, segment, begin);
}

void FastPath::Call::ReadSymbols(std::string_view word) {
  state_.symbols.clear();
  state_.places.clear();
  for (uint32_t i = 0; i < word.size();) {
    const Scalar scalar = ReadScalar(word.data() + i);
    const uint32_t id = path_.IdOf(scalar.value == ' ' ? 0x2581 : scalar.value);
    if (id != kNone) {
      state_.symbols.push_back(id);
      state_.places.push_back(i);
    } else {
      for (uint32_t k = 0; k < scalar.n_bytes; ++k) {
        state_.symbols.push_back(path_.byte_ids_[static_cast<uint8_t>(word[i + k])]);
        state_.places.push_back(i + k);
      }
    }
    i += scalar.n_bytes;
  }
  state_.places.push_back(static_cast<uint32_t>(word.size()));
}

// ---- WordPiece and Unigram

template <typename Words, typename EncodePart>
Status FastPath::Call::EncodeParts(const Words& words, std::string_view text, uint32_t base, bool is_kept,
                                   EncodePart encode) {
  const WordCache::Kind kind = with_spans_ ? WordCache::Kind::kPlaces : WordCache::Kind::kWord;
  out_.spells_text = false;
  std::array<Word, kBatch> parts;
  std::array<WordCache::Key, kBatch> keys;
  for (size_t at = 0; at < text.size();) {
    const size_t n = words.Split(text, &at, parts.data(), kBatch);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t begin = parts[i].begin;
      const size_t size = parts[i].end - begin;
      if (size > WordCache::kMaxBytes) continue;
      keys[i] = WordCache::KeyOf(text.data() + begin, size, text.size() - begin, kind);
      state_.cache.Prefetch(keys[i]);
    }
    for (size_t i = 0; i < n; ++i) {
      const std::string_view part = text.substr(parts[i].begin, parts[i].end - parts[i].begin);
      const bool kept = is_kept && part.size() <= WordCache::kMaxBytes;
      if (kept) {
        if (const auto found = state_.cache.Find(keys[i], part); !found.empty()) {
          Reserve(found.size());
          if (!with_spans_) Emit(found, {}, 0);
          for (size_t k = 0; with_spans_ && k < found.size(); k += 2) {
            EmitToken(UnpackToken(found[k], found[k + 1]), base + parts[i].begin);
          }
          continue;
        }
      }
      SLM_TRY(encode(part));
      if (leaves_) return {};
      Reserve(state_.part_tokens.size());
      state_.row.clear();
      for (const BertWords::Token& token : state_.part_tokens) {
        EmitToken(token, base + parts[i].begin);
        if (!kept) continue;
        state_.row.push_back(token.id);
        if (with_spans_) state_.row.push_back(PackPlace(token));
      }
      if (kept && !state_.row.empty()) state_.cache.Insert(keys[i], part, state_.row);
    }
  }
  return {};
}

Status FastPath::Call::EncodeBert(std::string_view text, uint32_t base) {
  return EncodeParts(*path_.bert_words_, text, base, true, [this](std::string_view part) {
    return path_.bert_words_->Encode(part, &state_.bert_scratch, &state_.part_tokens);
  });
}

Status FastPath::Call::EncodeUnigram(std::string_view text, uint32_t base) {
  const size_t before = n_ids_;
  // A text that might grow beyond the limit is measured as it is encoded.
  const bool stays_small = path_.unigram_words_->StaysSmall(text);
  uint64_t n_bytes = 0;
  SLM_TRY(EncodeParts(*path_.unigram_words_, text, base, stays_small, [&](std::string_view part) -> Status {
    UnigramWords::Scratch& scratch = state_.unigram_scratch;
    leaves_ = !path_.unigram_words_->Encode(part, &scratch, &state_.part_tokens);
    n_bytes += scratch.n_bytes;
    leaves_ = leaves_ || (!stays_small && n_bytes > kMaxTextBytes);
    return {};
  }));
  for (size_t i = before; i < n_ids_ && !out_.shows_unknown; ++i) {
    out_.shows_unknown = path_.unigram_words_->IsUnknown(out_.ids[i]);
  }
  return {};
}

void FastPath::Call::EmitToken(const BertWords::Token& token, uint32_t base) {
  out_.ids[n_ids_++] = token.id;
  if (!with_spans_) return;
  n_words_ += token.starts_word ? 1 : 0;
  out_.spans.push_back({base + token.begin, base + token.end});
  out_.words.push_back(n_words_ - 1);
}

// ---- long words

// The encoding of symbols [begin, end) by themselves; valid until the next call.
std::span<const uint32_t> FastPath::Call::Window(std::string_view word, size_t begin, size_t end) {
  const bool is_bytes = path_.form_.is_byte_level;
  const size_t first = is_bytes ? begin : state_.places[begin];
  const size_t last = is_bytes ? end : state_.places[end];
  const std::string_view text = word.substr(first, last - first);
  // Windows come again in texts that repeat themselves.
  const bool kept = text.size() <= WordCache::kMaxBytes && IsPeriodic(text);
  WordCache::Key key;
  if (kept) {
    key = WordCache::KeyOf(text.data(), text.size(), word.size() - first, WordCache::Kind::kWindow);
    if (const auto ids = state_.cache.Find(key, text); !ids.empty()) return ids;
  }
  std::vector<uint32_t>& ids = state_.window;
  if (is_bytes) {
    ids.resize(text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[i] = path_.byte_ids_[static_cast<uint8_t>(text[i])];
  } else {
    ids.assign(state_.symbols.begin() + static_cast<ptrdiff_t>(begin),
               state_.symbols.begin() + static_cast<ptrdiff_t>(end));
  }
  if (ids.size() > BpeMerger::kMaxShort) {
    path_.merger_->MergeLong(&ids);
  } else if (is_bytes) {
    ids.resize(
        path_.merger_->MergeBytes(reinterpret_cast<const uint8_t*>(text.data()), ids.data(), ids.size()));
  } else {
    ids.resize(path_.merger_->MergeShort(ids.data(), ids.size()));
  }
  if (kept) state_.cache.Insert(key, text, ids);
  return ids;
}

// Whether two tokens, the first at symbol `begin`, are the encoding of what they stand for together.
bool FastPath::Call::AreNeighbours(std::string_view word, size_t begin, State::Token a, State::Token b) {
  const auto ids = Window(word, begin, begin + a.n_symbols + b.n_symbols);
  return ids.size() == 2 && ids[0] == a.id && ids[1] == b.id;
}

void FastPath::Call::MergeLongWord(std::string_view word) {
  const size_t n = path_.form_.is_byte_level ? word.size() : state_.symbols.size();
  std::vector<State::Token>& done = state_.tokens;
  std::vector<State::Token>& next = state_.next;
  done.clear();
  for (size_t at = 0; at < n;) {
    const size_t end = std::min(n, at + kWindow);
    // Symbols [begin, end) are encoded anew, with the last tokens of what is done, until its first token
    // goes with what stands before it.
    size_t begin = at;
    size_t n_again = 0;  // tokens of `done` that the window takes in
    while (true) {
      next.clear();
      for (const uint32_t id : Window(word, begin, end)) next.push_back({id, path_.SymbolsOf(id)});
      if (n_again == done.size()) break;
      const State::Token before = done[done.size() - 1 - n_again];
      // The same first token as before goes with it as before.
      if (n_again > 0 && next[0].id == done[done.size() - n_again].id) break;
      if (AreNeighbours(word, begin - before.n_symbols, before, next[0])) break;
      const size_t n_more = std::min(done.size() - n_again, n_again + 1);
      for (size_t i = 0; i < n_more; ++i) begin -= done[done.size() - 1 - n_again - i].n_symbols;
      n_again += n_more;
    }
    done.resize(done.size() - n_again);
    done.insert(done.end(), next.begin(), next.end());
    at = end;
    // What stands at the end of a window is most likely to change: the next one begins before it.
    for (size_t i = 0; i < kOverlap && at < n && i + kOverlap < next.size(); ++i) {
      if (end - at + done.back().n_symbols > kWindow / 2) break;
      at -= done.back().n_symbols;
      done.pop_back();
    }
  }
  state_.row.clear();
  for (const State::Token& token : done) state_.row.push_back(token.id);
}

Result<bool> FastPath::Encode(std::string_view text, Unmatched unmatched, bool with_spans,
                              FastTokens* out) const {
  std::unique_ptr<State> state(state_.exchange(nullptr));
  if (state == nullptr) state = std::make_unique<State>();
  auto done = Call(*this, state.get(), text, with_spans, out).Run(unmatched);
  delete state_.exchange(state.release());
  return done;
}

}  // namespace slm::tokenizer
