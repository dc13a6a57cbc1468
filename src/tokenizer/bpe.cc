#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;
constexpr char32_t kLowEnd = 0x400;

struct Candidate {
  uint32_t rank;
  uint32_t at;
  uint32_t id;
};
// The lowest rank is taken first, then the leftmost.
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

std::string ByteTokenText(uint32_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

BpeModel::BpeModel(BpeOptions options, Vocabulary vocabulary, std::vector<MergeRule> merges, MergeTable table)
    : options_(std::move(options)),
      vocabulary_(std::move(vocabulary)),
      rules_(std::move(merges)),
      merges_(std::move(table)),
      low_ids_(kLowEnd, kNone),
      is_decorated_(!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
  if (options_.unk_token) unk_id_ = vocabulary_.Find(*options_.unk_token);
  for (uint32_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.Find(ByteTokenText(byte));
  for (const Vocabulary::Entry& entry : vocabulary_.entries()) {
    if (entry.text.empty()) continue;
    const Scalar scalar = ReadScalar(entry.text.data());
    if (scalar.n_bytes != entry.text.size()) continue;
    if (scalar.value < kLowEnd) {
      low_ids_[scalar.value] = entry.id;
    } else {
      other_ids_.emplace(scalar.value, entry.id);
    }
  }
}

MergeTable BpeModel::TableOf(const std::vector<MergeRule>& merges) {
  MergeTable out;
  out.Reserve(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    out.Put(merges[rank].left, merges[rank].right, {rank, merges[rank].merged});
  }
  return out;
}

std::vector<std::pair<uint32_t, uint32_t>> BpeModel::AdjacentParts() const {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  out.reserve(rules_.size());
  for (const MergeRule& rule : rules_) out.emplace_back(rule.left, rule.right);
  return out;
}

bool BpeModel::has_byte_tokens() const {
  return options_.byte_fallback &&
         std::all_of(byte_ids_.begin(), byte_ids_.end(), [](const auto& id) { return id.has_value(); });
}

std::optional<uint32_t> BpeModel::IdOf(std::string_view character, bool is_first, bool is_last,
                                       std::string* decorated) const {
  if (!is_decorated_) {
    const char32_t scalar = ReadScalar(character.data()).value;
    if (scalar < kLowEnd) return low_ids_[scalar] == kNone ? std::nullopt : std::optional(low_ids_[scalar]);
    const auto found = other_ids_.find(scalar);
    return found == other_ids_.end() ? std::nullopt : std::optional(found->second);
  }
  decorated->clear();
  if (!is_first) decorated->append(options_.continuing_subword_prefix);
  decorated->append(character);
  if (is_last) decorated->append(options_.end_of_word_suffix);
  return vocabulary_.Find(*decorated);
}

// All bytes of the decorated symbol or none. An escaped byte is one byte.
bool BpeModel::FallBack(std::string_view symbol, std::vector<Symbol>* symbols) const {
  const size_t before = symbols->size();
  for (size_t i = 0; i < symbol.size();) {
    const Scalar scalar = ReadScalar(symbol.data() + i);
    const bool escaped = IsEscapedByte(scalar.value);
    for (uint32_t k = 0; k < (escaped ? 1 : scalar.n_bytes); ++k) {
      const auto byte =
          escaped ? static_cast<uint8_t>(scalar.value & 0xFF) : static_cast<uint8_t>(symbol[i + k]);
      if (!byte_ids_[byte]) {
        symbols->resize(before);
        return false;
      }
      symbols->push_back({*byte_ids_[byte], escaped ? scalar.n_bytes : 1, 0, 0});
    }
    i += scalar.n_bytes;
  }
  return true;
}

Status BpeModel::AddUnknown(uint32_t n_bytes, Unknown* unknown, std::vector<Symbol>* symbols) const {
  if (unknown->pending && options_.fuse_unk) {
    unknown->n_bytes += n_bytes;
    return {};
  }
  if (!unk_id_) {
    return Fail(
        MakeError(ErrorCode::kTokNoUnk, "the text has a character that no token spells, and unk_token '" +
                                            *options_.unk_token + "' is not in the vocabulary")
            .Field("$.model.unk_token"));
  }
  if (unknown->pending) symbols->push_back({*unk_id_, unknown->n_bytes, 0, 0});
  *unknown = {true, n_bytes};
  return {};
}

Status BpeModel::Start(std::string_view text, std::vector<Symbol>* symbols) const {
  Unknown unknown;
  std::string decorated;
  for (size_t i = 0; i < text.size();) {
    const uint32_t n_bytes = ReadScalar(text.data() + i).n_bytes;
    const std::string_view character = text.substr(i, n_bytes);
    const bool is_first = i == 0;
    i += n_bytes;
    const auto id = IdOf(character, is_first, i == text.size(), &decorated);
    if (id) {
      if (unknown.pending) symbols->push_back({*unk_id_, unknown.n_bytes, 0, 0});
      unknown.pending = false;
      symbols->push_back({*id, n_bytes, 0, 0});
      continue;
    }
    // Bytes go out at once, ahead of an unknown character that still waits: the reference's order.
    const std::string_view symbol = is_decorated_ ? std::string_view(decorated) : character;
    if (options_.byte_fallback && FallBack(symbol, symbols)) continue;
    if (options_.unk_token) SLM_TRY(AddUnknown(n_bytes, &unknown, symbols));
    // Without an unknown token the character vanishes.
  }
  if (unknown.pending) symbols->push_back({*unk_id_, unknown.n_bytes, 0, 0});
  return {};
}

void BpeModel::MergeShort(std::vector<Symbol>* symbols) const {
  std::vector<Symbol>& s = *symbols;
  std::array<const MergeTable::Merge*, kHeapFrom> pairs{};
  for (size_t i = 0; i + 1 < s.size(); ++i) pairs[i] = merges_.Find(s[i].id, s[i + 1].id);
  size_t n = s.size();
  while (n > 1) {
    size_t best = n;
    uint32_t best_rank = kNone;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (pairs[i] != nullptr && pairs[i]->rank < best_rank) {
        best = i;
        best_rank = pairs[i]->rank;
      }
    }
    if (best == n) break;
    s[best].id = pairs[best]->id;
    s[best].n_bytes += s[best + 1].n_bytes;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      s[i] = s[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --n;
    pairs[best] = best + 1 < n ? merges_.Find(s[best].id, s[best + 1].id) : nullptr;
    if (best > 0) pairs[best - 1] = merges_.Find(s[best - 1].id, s[best].id);
  }
  s.resize(n);
}

void BpeModel::MergeLong(std::vector<Symbol>* symbols) const {
  std::vector<Symbol>& s = *symbols;
  const auto n = static_cast<int32_t>(s.size());
  std::vector<Candidate> initial;
  for (int32_t i = 0; i < n; ++i) {
    auto& symbol = s[static_cast<size_t>(i)];
    symbol.previous = i - 1;
    symbol.next = i + 1 < n ? i + 1 : -1;
    if (i + 1 == n) break;
    const auto* merge = merges_.Find(symbol.id, s[static_cast<size_t>(i) + 1].id);
    if (merge != nullptr) initial.push_back({merge->rank, static_cast<uint32_t>(i), merge->id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue(Later{}, std::move(initial));
  std::vector<bool> gone(s.size(), false);
  const auto push = [this, &s, &queue](int32_t left, int32_t right) {
    const auto* merge = merges_.Find(s[static_cast<size_t>(left)].id, s[static_cast<size_t>(right)].id);
    if (merge != nullptr) queue.push({merge->rank, static_cast<uint32_t>(left), merge->id});
  };
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = s[top.at];
    if (gone[top.at] || left.next < 0) continue;
    const auto right_at = static_cast<size_t>(left.next);
    const Symbol right = s[right_at];
    const auto* current = merges_.Find(left.id, right.id);
    if (current == nullptr || current->id != top.id) continue;  // an entry that has expired
    left.id = top.id;
    left.n_bytes += right.n_bytes;
    left.next = right.next;
    gone[right_at] = true;
    if (right.next >= 0) s[static_cast<size_t>(right.next)].previous = static_cast<int32_t>(top.at);
    if (left.previous >= 0) push(left.previous, static_cast<int32_t>(top.at));
    if (left.next >= 0) push(static_cast<int32_t>(top.at), left.next);
  }
  size_t kept = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (!gone[i]) s[kept++] = s[i];
  }
  s.resize(kept);
}

Status BpeModel::Tokenize(std::string_view text, std::vector<ModelToken>* out) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_.Find(text)) {
      out->push_back({*id, 0, static_cast<uint32_t>(text.size())});
      return {};
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  SLM_TRY(Start(text, &symbols));
  // With a prefix a merge may not lengthen the text, and then the reference's heap differs from a
  // plain search for the lowest rank.
  if (symbols.size() < kHeapFrom && options_.continuing_subword_prefix.empty()) {
    MergeShort(&symbols);
  } else {
    MergeLong(&symbols);
  }
  uint32_t at = 0;
  for (const Symbol& symbol : symbols) {
    out->push_back({symbol.id, at, at + symbol.n_bytes});
    at += symbol.n_bytes;
  }
  return {};
}

}  // namespace slm::tokenizer
