#include "tokenizer/bert_words.h"

#include <algorithm>

#include "tokenizer/pre_tokenizer.h"
#include "unicode/classes_v16_0.h"

namespace slm::tokenizer {

BertWords::BertWords(const BertNormalizer::Options& options, const WordPieceModel& model)
    : normalizer_(options), model_(model) {
  for (const char c : {' ', '\t', '\n', '\r'}) classes_[static_cast<uint8_t>(c)] = kSpace;
  for (char c = '!'; c <= '~'; ++c) {
    const auto byte = static_cast<uint8_t>(c);
    if (BertPreTokenizer::IsPunctuation(byte)) classes_[byte] = kAlone;
    plain_[byte] = options.lowercase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  if (!options.handle_chinese_chars) return;
  for (size_t byte = 0xE0; byte <= 0xF4; ++byte) classes_[byte] = kLead;
}

size_t BertWords::Split(std::string_view text, size_t* at, Word* parts, size_t capacity) const {
  const auto class_at = [this, text](size_t i) { return classes_[static_cast<uint8_t>(text[i])]; };
  size_t n_parts = 0;
  size_t i = *at;
  while (n_parts < capacity) {
    while (i < text.size() && class_at(i) == kSpace) ++i;
    if (i == text.size()) break;
    const size_t begin = i;
    while (i < text.size()) {
      const uint8_t cls = class_at(i);
      size_t n_bytes = 1;
      bool is_alone = cls == kAlone;
      if (cls == kSpace) break;
      if (cls == kLead) {
        const Scalar scalar = ReadScalar(text.data() + i);
        n_bytes = scalar.n_bytes;
        is_alone = BertNormalizer::IsChinese(scalar.value);
      }
      if (is_alone && i > begin) break;
      i += n_bytes;
      if (is_alone) break;
    }
    parts[n_parts++] = {static_cast<uint32_t>(begin), static_cast<uint32_t>(i)};
  }
  *at = i;
  return n_parts;
}

Status BertWords::Normalize(std::string_view part, AlignedText* out) const {
  out->original = {0, static_cast<uint32_t>(part.size())};
  if (normalizer_.NormalizeInOrder(part, out)) return {};
  out->text = part;
  out->align.clear();
  for (uint32_t i = 0; i < part.size();) {
    const uint32_t n = ReadScalar(part.data() + i).n_bytes;
    out->align.insert(out->align.end(), n, Span{i, i + n});
    i += n;
  }
  return normalizer_.Normalize(out);
}

// The tokens of bytes [begin, end) of scratch->text.
Status BertWords::EncodeWord(uint32_t begin, uint32_t end, Scratch* scratch, std::vector<Token>* out) const {
  if (begin == end) return {};
  const AlignedText& text = scratch->text;
  scratch->tokens.clear();
  SLM_TRY(model_.Tokenize(std::string_view(text.text).substr(begin, end - begin), &scratch->tokens));
  bool starts_word = true;
  for (const ModelToken& token : scratch->tokens) {
    Span origin = {token.begin, token.end};
    if (!text.align.empty()) {
      origin = {text.align[begin + token.begin].begin, text.align[begin + token.end - 1].end};
    }
    out->push_back({token.id, origin.begin, origin.end, starts_word});
    starts_word = false;
  }
  return {};
}

Status BertWords::Encode(std::string_view part, Scratch* scratch, std::vector<Token>* out) const {
  out->clear();
  std::string& text = scratch->text.text;
  const auto plain = [this](char c) { return (c & 0x80) != 0 ? '\0' : plain_[static_cast<uint8_t>(c)]; };
  text.resize(part.size());
  std::transform(part.begin(), part.end(), text.begin(), plain);
  const auto size = static_cast<uint32_t>(part.size());
  if (text.find('\0') == std::string::npos) {  // one word, with its bytes where they were
    scratch->text.align.clear();
    return EncodeWord(0, size, scratch, out);
  }
  SLM_TRY(Normalize(part, &scratch->text));
  uint32_t begin = 0;
  for (uint32_t i = 0; i < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + i);
    const uint32_t end = i + scalar.n_bytes;
    const bool is_space = unicode::IsWhiteSpace(scalar.value);
    if (is_space || BertPreTokenizer::IsPunctuation(scalar.value)) {
      SLM_TRY(EncodeWord(begin, i, scratch, out));
      if (!is_space) SLM_TRY(EncodeWord(i, end, scratch, out));
      begin = end;
    }
    i = end;
  }
  return EncodeWord(begin, static_cast<uint32_t>(text.size()), scratch, out);
}

}  // namespace slm::tokenizer
