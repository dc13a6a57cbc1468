#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "tokenizer/aligned_text.h"
#include "tokenizer/bpe.h"

namespace slm::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kNone = 0xFFFFFFFF;

}  // namespace

UnigramModel::UnigramModel(std::vector<Piece> pieces, std::optional<uint32_t> unk_id, bool byte_fallback)
    : unk_id_(unk_id), byte_fallback_(byte_fallback) {
  size_t n_bytes = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Piece& piece : pieces) {
    n_bytes += piece.text.size();
    lowest = std::min(lowest, piece.score);
    scores_.push_back(piece.score);
  }
  unk_score_ = lowest - kUnknownPenalty;
  vocabulary_.Reserve(pieces.size(), n_bytes);
  for (uint32_t id = 0; id < pieces.size(); ++id) vocabulary_.AddOrMove(pieces[id].text, id);
  std::vector<std::pair<std::string_view, uint32_t>> keys;
  for (const Vocabulary::Entry& entry : vocabulary_.entries()) keys.emplace_back(entry.text, entry.id);
  trie_.Build(std::move(keys));
  for (uint32_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.Find(ByteTokenText(byte));
}

bool UnigramModel::has_byte_tokens() const {
  return byte_fallback_ &&
         std::all_of(byte_ids_.begin(), byte_ids_.end(), [](const auto& id) { return id.has_value(); });
}

void UnigramModel::AddUnknown(std::string_view text, uint32_t begin, uint32_t end,
                              std::vector<ModelToken>* out) const {
  const std::string_view run = text.substr(begin, end - begin);
  // Several characters together may be a piece after all.
  if (const auto id = vocabulary_.Find(run)) {
    out->push_back({*id, begin, end});
    return;
  }
  const size_t before = out->size();
  bool all = byte_fallback_;
  for (size_t i = 0; all && i < run.size();) {
    const Scalar scalar = ReadScalar(run.data() + i);
    const bool escaped = IsEscapedByte(scalar.value);
    for (uint32_t k = 0; all && k < (escaped ? 1 : scalar.n_bytes); ++k) {
      const auto byte =
          static_cast<uint8_t>(escaped ? scalar.value & 0xFF : static_cast<uint8_t>(run[i + k]));
      all = byte_ids_[byte].has_value();
      // All bytes of a run stand for the whole of it.
      if (all) out->push_back({*byte_ids_[byte], begin, end});
    }
    i += scalar.n_bytes;
  }
  if (all) return;
  out->resize(before);
  out->push_back({*unk_id_, begin, end, true});
}

Status UnigramModel::Tokenize(std::string_view text, std::vector<ModelToken>* out) const {
  Scratch scratch;
  return Tokenize(text, &scratch, out);
}

Status UnigramModel::Tokenize(std::string_view text, Scratch* scratch, std::vector<ModelToken>* out) const {
  std::vector<Scratch::Best>& best = scratch->best;
  best.assign(text.size() + 1, {});
  const auto offer = [&best](size_t end, double score, size_t begin, uint32_t id) {
    Scratch::Best& target = best[end];
    if (target.begin != kNone && !(score > target.score)) return false;
    target = {score, static_cast<uint32_t>(begin), id};
    return true;
  };
  for (size_t begin = 0; begin < text.size();) {
    const double score = best[begin].score;
    const size_t n_first = ReadScalar(text.data() + begin).n_bytes;
    bool has_single = false;
    uint32_t state = 0;
    for (size_t end = begin; end < text.size();) {
      state = trie_.Next(state, static_cast<uint8_t>(text[end]));
      if (state == DoubleArray::kNone) break;
      ++end;
      const uint32_t id = trie_.ValueAt(state);
      if (id == DoubleArray::kNone) continue;
      static_cast<void>(offer(end, scores_[id] + score, begin, id));
      has_single = has_single || end - begin == n_first;
    }
    if (!has_single && offer(begin + n_first, unk_score_ + score, begin, unk_id_.value_or(0)) && !unk_id_) {
      return Fail(
          MakeError(ErrorCode::kTokNoUnk, "the text has a character that no piece spells, and unk_id is null")
              .Field("$.model.unk_id"));
    }
    begin += n_first;
  }
  std::vector<uint32_t>& ends = scratch->ends;
  ends.clear();
  for (auto end = static_cast<uint32_t>(text.size()); end > 0; end = best[end].begin) ends.push_back(end);
  for (size_t i = ends.size(); i-- > 0;) {
    const uint32_t begin = best[ends[i]].begin;
    const uint32_t id = best[ends[i]].id;
    if (!unk_id_ || id != *unk_id_) {
      out->push_back({id, begin, ends[i]});
      continue;
    }
    while (i > 0 && best[ends[i - 1]].id == *unk_id_) --i;
    AddUnknown(text, begin, ends[i], out);
  }
  return {};
}

}  // namespace slm::tokenizer
