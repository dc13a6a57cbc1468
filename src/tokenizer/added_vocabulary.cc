#include "tokenizer/added_vocabulary.h"

#include <algorithm>
#include <utility>

#include "unicode/classes_v16_0.h"

namespace slm::tokenizer {
namespace {

// Start of the last character before `end`. REQUIRES: end > 0.
size_t PreviousStart(std::string_view text, size_t end) {
  --end;
  while (end > 0 && IsContinuation(text[end])) --end;
  return end;
}

bool EndsWithWord(std::string_view text, size_t end) {
  if (end == 0) return false;
  const char32_t last = ReadScalar(text.data() + PreviousStart(text, end)).value;
  return (unicode::ClassV16(last) & unicode::kWord) != 0;
}

bool StartsWithWord(std::string_view text, size_t begin) {
  if (begin == text.size()) return false;
  return (unicode::ClassV16(ReadScalar(text.data() + begin).value) & unicode::kWord) != 0;
}

size_t SkipSpaceBackwards(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t start = PreviousStart(text, end);
    if (!unicode::IsWhiteSpace(ReadScalar(text.data() + start).value)) break;
    end = start;
  }
  return end;
}

size_t SkipSpaceForwards(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Scalar scalar = ReadScalar(text.data() + begin);
    if (!unicode::IsWhiteSpace(scalar.value)) break;
    begin += scalar.n_bytes;
  }
  return begin;
}

Result<std::string> NormalizedForm(const std::string& content, const Normalizer& normalizer) {
  AlignedText text;
  text.text = content;
  text.original = {0, static_cast<uint32_t>(content.size())};
  for (uint32_t i = 0; i < content.size();) {
    const uint32_t n = ReadScalar(content.data() + i).n_bytes;
    text.align.insert(text.align.end(), n, Span{i, i + n});
    i += n;
  }
  SLM_TRY(normalizer.Normalize(&text));
  return text.text;
}

}  // namespace

Status AddedVocabulary::Add(AddedToken token, const Normalizer* normalizer) {
  token.pattern = token.content;
  if (token.normalized && normalizer != nullptr) {
    SLM_ASSIGN(token.pattern, NormalizedForm(token.content, *normalizer));
    if (token.pattern.empty()) {
      return Fail(ErrorCode::kTokSchema, "the normalizer leaves nothing of this added token");
    }
  }
  if (token.special) special_texts_.insert(token.content);
  const auto found = by_content_.find(token.content);
  if (found != by_content_.end()) {
    tokens_[found->second] = std::move(token);
    return {};
  }
  const auto index = static_cast<uint32_t>(tokens_.size());
  by_content_.emplace(token.content, index);
  by_id_[token.id] = index;
  tokens_.push_back(std::move(token));
  return {};
}

Status AddedVocabulary::Build() {
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    Matcher& matcher = tokens_[i].normalized ? normalized_matcher_ : raw_matcher_;
    if (!matcher.Add(tokens_[i].pattern, i)) {
      return Fail(MakeError(ErrorCode::kTokAddedDup,
                            "two normalized added tokens become the same text, so which one is found is open")
                      .Field("$.added_tokens"));
    }
  }
  if (longest_first_) {
    for (uint32_t i = 0; i < tokens_.size(); ++i) {
      by_length_.push_back(i);
      is_plain_ = is_plain_ && !tokens_[i].lstrip && !tokens_[i].rstrip;
    }
    std::sort(by_length_.begin(), by_length_.end(), [this](uint32_t a, uint32_t b) {
      return std::pair(tokens_[b].content.size(), a) < std::pair(tokens_[a].content.size(), b);
    });
    is_plain_ = is_plain_ && !MayOverlap();
  }
  raw_matcher_.Build();
  normalized_matcher_.Build();
  return {};
}

const AddedToken* AddedVocabulary::FindContent(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedVocabulary::FindId(uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

Result<std::vector<AddedVocabulary::Found>> AddedVocabulary::FindIn(std::string_view text,
                                                                    const Matcher& matcher,
                                                                    Unmatched unmatched) const {
  std::vector<Found> out;
  size_t done = 0;  // end of the last match, what it stripped included
  for (auto match = matcher.Find(text, 0); match; match = matcher.Find(text, match->end)) {
    const AddedToken& token = tokens_[match->value];
    size_t begin = match->begin;
    size_t end = match->end;
    // A match that does not count is skipped whole: shorter tokens inside it are not tried.
    if (unmatched != Unmatched::kNone && IsSpecialText(token.content)) continue;
    if (unmatched == Unmatched::kMarkers && SkipSpaceForwards(token.content, 0) < token.content.size())
      continue;
    if (token.single_word && (EndsWithWord(text, begin) || StartsWithWord(text, end))) continue;
    if (token.lstrip) begin = std::max(SkipSpaceBackwards(text, begin), done);
    if (token.rstrip) end = SkipSpaceForwards(text, end);
    if (begin > end) {
      return Fail(
          MakeError(ErrorCode::kTokSchema, "added token '" + token.content +
                                               "' (lstrip) stands inside the white space that the token "
                                               "before it took (rstrip)")
              .Field("$.added_tokens"));
    }
    if (done < begin) out.push_back({done, begin, kNoToken});
    out.push_back({begin, end, match->value});
    done = end;
  }
  if (done != text.size()) out.push_back({done, text.size(), kNoToken});
  return out;
}

// Whether the end of one token is the beginning of another: then two may stand across each other in a text.
bool AddedVocabulary::MayOverlap() const {
  std::unordered_set<std::string_view> beginnings;
  for (const AddedToken& token : tokens_) {
    for (size_t n = 1; n < token.content.size(); ++n)
      beginnings.insert(std::string_view(token.content).substr(0, n));
  }
  return std::any_of(tokens_.begin(), tokens_.end(), [&beginnings](const AddedToken& token) {
    for (size_t at = 1; at < token.content.size(); ++at) {
      if (beginnings.contains(std::string_view(token.content).substr(at))) return true;
    }
    return false;
  });
}

std::vector<AddedVocabulary::Found> AddedVocabulary::FindLongestFirst(std::string_view text,
                                                                      Unmatched unmatched) const {
  const auto is_space = [text](size_t at) {
    return text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r');
  };
  std::vector<Found> parts = {{0, text.size(), kNoToken}};
  for (const uint32_t index : by_length_) {
    const AddedToken& token = tokens_[index];
    if (unmatched != Unmatched::kNone && token.special) continue;
    if (unmatched == Unmatched::kMarkers && SkipSpaceForwards(token.content, 0) < token.content.size())
      continue;
    if (text.find(token.content) == std::string_view::npos) continue;
    std::vector<Found> next;
    for (const Found& part : parts) {
      size_t at = part.begin;
      while (part.added == kNoToken) {
        const size_t match = text.substr(0, part.end).find(token.content, at);
        if (match == std::string_view::npos) break;
        size_t begin = match;
        size_t end = match + token.content.size();
        while (token.lstrip && begin > at && is_space(begin - 1)) --begin;
        while (token.rstrip && end < part.end && is_space(end)) ++end;
        if (at < begin) next.push_back({at, begin, kNoToken});
        next.push_back({begin, end, index});
        at = end;
      }
      if (at < part.end) next.push_back({at, part.end, part.added});
    }
    parts = std::move(next);
  }
  return parts;
}

Status AddedVocabulary::Cut(PreTokenized* pieces, bool normalized, Unmatched unmatched) const {
  const Matcher& matcher = normalized ? normalized_matcher_ : raw_matcher_;
  const std::vector<Piece> before = std::move(pieces->pieces());
  std::vector<Piece> after;
  for (const Piece& piece : before) {
    if (piece.range.begin == piece.range.end) continue;
    if (piece.added != kNoToken) {
      after.push_back(piece);
      continue;
    }
    if (matcher.empty()) {  // as a cut without a match: what the piece stands for is told anew
      after.push_back(pieces->Slice(piece, {0, piece.range.end - piece.range.begin}));
      continue;
    }
    std::vector<Found> found;
    if (longest_first_ && !(is_plain_ && unmatched == Unmatched::kNone)) {
      found = FindLongestFirst(pieces->Text(piece), unmatched);
    } else {
      SLM_ASSIGN(found, FindIn(pieces->Text(piece), matcher, unmatched));
    }
    for (const Found& part : found) {
      if (part.begin == part.end) continue;
      after.push_back(
          pieces->Slice(piece, {static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end)}));
      after.back().added = part.added;
    }
  }
  pieces->pieces() = std::move(after);
  return {};
}

}  // namespace slm::tokenizer
