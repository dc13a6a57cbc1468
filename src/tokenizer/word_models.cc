#include "tokenizer/word_models.h"

#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {
namespace {

Status AddUnknownWord(const Vocabulary& vocabulary, const std::string& unk_token, std::string_view text,
                      std::vector<ModelToken>* out) {
  const auto id = vocabulary.Find(unk_token);
  if (!id) {
    return Fail(MakeError(ErrorCode::kTokNoUnk,
                          "the text has a word that the vocabulary does not spell, and unk_token '" +
                              unk_token + "' is not in the vocabulary")
                    .Field("$.model.unk_token"));
  }
  out->push_back({*id, 0, static_cast<uint32_t>(text.size())});
  return {};
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, std::string unk_token,
                               const std::string& continuing_subword_prefix,
                               uint64_t max_input_chars_per_word)
    : vocabulary_(std::move(vocabulary)),
      unk_token_(std::move(unk_token)),
      max_chars_(max_input_chars_per_word) {
  std::vector<std::pair<std::string_view, uint32_t>> first;
  std::vector<std::pair<std::string_view, uint32_t>> next;
  for (const Vocabulary::Entry& entry : vocabulary_.entries()) {
    first.emplace_back(entry.text, entry.id);
    if (entry.text.starts_with(continuing_subword_prefix)) {
      next.emplace_back(entry.text.substr(continuing_subword_prefix.size()), entry.id);
    }
  }
  first_.Build(std::move(first));
  next_.Build(std::move(next));
}

Status WordPieceModel::Tokenize(std::string_view text, std::vector<ModelToken>* out) const {
  uint64_t n_chars = 0;
  for (const char c : text) n_chars += IsContinuation(c) ? 0u : 1u;
  if (n_chars > max_chars_) return AddUnknownWord(vocabulary_, unk_token_, text, out);
  const size_t before = out->size();
  for (size_t begin = 0; begin < text.size();) {
    const DoubleArray& trie = begin == 0 ? first_ : next_;
    uint32_t state = 0;
    uint32_t id = DoubleArray::kNone;
    size_t end = begin;
    for (size_t at = begin; at < text.size();) {
      state = trie.Next(state, static_cast<uint8_t>(text[at]));
      if (state == DoubleArray::kNone) break;
      ++at;
      if (trie.ValueAt(state) == DoubleArray::kNone) continue;
      id = trie.ValueAt(state);
      end = at;
    }
    if (id == DoubleArray::kNone) {
      out->resize(before);
      return AddUnknownWord(vocabulary_, unk_token_, text, out);
    }
    out->push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
  return {};
}

Status WordLevelModel::Tokenize(std::string_view text, std::vector<ModelToken>* out) const {
  if (const auto id = vocabulary_.Find(text)) {
    out->push_back({*id, 0, static_cast<uint32_t>(text.size())});
    return {};
  }
  return AddUnknownWord(vocabulary_, unk_token_, text, out);
}

}  // namespace slm::tokenizer
