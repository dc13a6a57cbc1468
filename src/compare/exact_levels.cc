// L0 to L3: everything that is equal or not.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/utf8.h"
#include "compare/levels.h"

namespace slm::compare {
namespace {

using golden::Case;
using golden::ConfigField;
using golden::Content;
using golden::TensorHash;
using golden::Tokenization;

Difference At(Level level, int64_t order, std::string case_id, std::string place) {
  Difference difference;
  difference.level = level;
  difference.order = order;
  difference.case_id = std::move(case_id);
  difference.place = std::move(place);
  return difference;
}

Difference Missing(Difference difference, std::string what) {
  difference.code = "CMP-MISSING";
  difference.what = std::move(what);
  return difference;
}

void CompareIdentities(const Content& reference, const Content& candidate, Book* book) {
  for (std::string_view role : {"source", "tokenizer", "template"}) {
    const auto mine = reference.identities.find(role);
    const auto theirs = candidate.identities.find(role);
    const bool has_mine = mine != reference.identities.end();
    const bool has_theirs = theirs != candidate.identities.end();
    if (!has_mine && !has_theirs && role != "source") continue;  // neither has a tokenizer, or a template
    if (!has_mine || !has_theirs) {
      book->Enter(Verdict::kError,
                  Missing(At(Level::kL0, Stage::kIdentity, "", "identities." + std::string(role)),
                          has_mine     ? "the candidate does not say which one it is made from"
                          : has_theirs ? "the evidence does not say which one it is made from"
                                       : "neither side says which one it is made from"));
      continue;
    }
    if (mine->second == theirs->second) {
      book->Pass(Level::kL0);
      continue;
    }
    Difference difference = At(Level::kL0, Stage::kIdentity, "", "identities." + std::string(role));
    difference.reference = ToHex(mine->second);
    difference.candidate = ToHex(theirs->second);
    difference.what = "the candidate is made from another " + std::string(role);
    book->Enter(Verdict::kFail, std::move(difference));
  }
}

template <typename T>
size_t FirstDifferent(const std::vector<T>& a, const std::vector<T>& b) {
  const size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n; ++i) {
    if (!(a[i] == b[i])) return i;
  }
  return n;
}

std::string IdAt(const std::vector<uint32_t>& ids, size_t i) {
  return i < ids.size() ? std::to_string(ids[i]) : "end";
}

std::string PairAt(const std::vector<std::pair<uint32_t, uint32_t>>& pairs, size_t i) {
  if (i >= pairs.size()) return "end";
  return "[" + std::to_string(pairs[i].first) + "," + std::to_string(pairs[i].second) + ")";
}

void CompareIds(const std::string& case_id, std::string place, const std::vector<uint32_t>& reference,
                const std::vector<uint32_t>& candidate, Book* book) {
  if (reference == candidate) {
    book->Pass(Level::kL1);
    return;
  }
  const size_t i = FirstDifferent(reference, candidate);
  Difference difference = At(Level::kL1, Stage::kIds, case_id, std::move(place));
  difference.index = {i};
  difference.flat_index = i;
  difference.reference = IdAt(reference, i);
  difference.candidate = IdAt(candidate, i);
  difference.what = "ids differ (" + std::to_string(reference.size()) + " in the reference, " +
                    std::to_string(candidate.size()) + " in the candidate)";
  book->Enter(Verdict::kFail, std::move(difference));
}

void CompareOffsets(const std::string& case_id, std::string place,
                    const std::vector<std::pair<uint32_t, uint32_t>>& reference,
                    const std::vector<std::pair<uint32_t, uint32_t>>& candidate, Book* book) {
  if (reference == candidate) {
    book->Pass(Level::kL1);
    return;
  }
  const size_t i = FirstDifferent(reference, candidate);
  Difference difference = At(Level::kL1, Stage::kIds, case_id, std::move(place));
  difference.index = {i};
  difference.flat_index = i;
  difference.reference = PairAt(reference, i);
  difference.candidate = PairAt(candidate, i);
  difference.what = "offsets differ";
  book->Enter(Verdict::kFail, std::move(difference));
}

std::string ByteContext(const Bytes& bytes, size_t at) {
  const size_t n = std::min<size_t>(bytes.size() - std::min(bytes.size(), at), 24);
  return n == 0 ? "end" : EscapeForDisplay(AsText(ByteSpan(bytes).subspan(at, n)));
}

// Bytes at L1 and L2. A side that does not state them leaves the level without its check: an error.
void CompareBytes(Difference difference, const std::optional<Bytes>& reference,
                  const std::optional<Bytes>& candidate, std::string_view what, Book* book) {
  if (!reference || !candidate) {
    book->Enter(Verdict::kError,
                Missing(std::move(difference), std::string(reference ? "the candidate" : "the evidence") +
                                                   " does not state the " + std::string(what)));
    return;
  }
  if (*reference == *candidate) {
    book->Pass(difference.level);
    return;
  }
  const size_t i = FirstDifferent(*reference, *candidate);
  difference.index = {i};
  difference.flat_index = i;
  difference.reference = ByteContext(*reference, i);
  difference.candidate = ByteContext(*candidate, i);
  difference.what = std::string(what) + " differ";
  book->Enter(Verdict::kFail, std::move(difference));
}

// Only the published file is the reference of L1; what AutoTokenizer built is a conflict's business.
void CompareTokenizations(const Case& reference, const Case& candidate, Book* book) {
  const std::string_view of = reference.input_kind == golden::InputKind::kMessages ? "rendered" : "input";
  const bool is_stated =
      std::any_of(reference.tokenizations.begin(), reference.tokenizations.end(),
                  [of](const Tokenization& t) { return t.reference == "published" && t.of == of; });
  const bool has_text = reference.input_kind == golden::InputKind::kUtf8 ||
                        reference.input_kind == golden::InputKind::kMessages;
  if (has_text && !is_stated) {
    book->Enter(Verdict::kError,
                Missing(At(Level::kL1, Stage::kIds, reference.case_id, "tokenization." + std::string(of)),
                        "the evidence does not state how the published file cuts this text"));
  }
  for (const Tokenization& expected : reference.tokenizations) {
    if (expected.reference != "published") continue;
    const std::string place =
        "tokenization." + expected.of + (expected.add_special_tokens ? "" : ".no_special_tokens");
    const auto same = [&expected](const Tokenization& t) {
      return t.reference == "published" && t.of == expected.of &&
             t.add_special_tokens == expected.add_special_tokens;
    };
    const auto actual = std::find_if(candidate.tokenizations.begin(), candidate.tokenizations.end(), same);
    if (actual == candidate.tokenizations.end()) {
      book->Enter(Verdict::kError, Missing(At(Level::kL1, Stage::kIds, reference.case_id, place),
                                           "the candidate has no such tokenization"));
      continue;
    }
    CompareIds(reference.case_id, place + ".ids", expected.ids, actual->ids, book);
    CompareOffsets(reference.case_id, place + ".byte_offsets", expected.byte_offsets, actual->byte_offsets,
                   book);
    CompareOffsets(reference.case_id, place + ".scalar_offsets", expected.scalar_offsets,
                   actual->scalar_offsets, book);
    CompareBytes(At(Level::kL1, Stage::kIds, reference.case_id, place + ".decoded"), expected.decoded,
                 actual->decoded, "decoded bytes", book);
  }
  if (reference.input_kind == golden::InputKind::kTokenIds) {
    if (reference.ids != candidate.ids) book->MarkPromptDiffers(reference.case_id);
    return;
  }
  CompareIds(reference.case_id, "ids", reference.ids, candidate.ids, book);
  if (reference.ids != candidate.ids) book->MarkPromptDiffers(reference.case_id);
}

// The tokens of the rendered prompt as the reference cut it; null if there are none.
const Tokenization* RenderedTokens(const Case& one) {
  for (const Tokenization& tokenization : one.tokenizations) {
    if (tokenization.reference == "published" && tokenization.of == "rendered") return &tokenization;
  }
  return nullptr;
}

// Owners of the bytes of one token, in order, separated by "+"; "none" for a token without bytes.
std::string OwnerOfToken(const std::vector<golden::OwnedInterval>& owners,
                         const std::pair<uint32_t, uint32_t>& bytes) {
  std::string out;
  for (const golden::OwnedInterval& interval : owners) {
    if (interval.end <= bytes.first || interval.begin >= bytes.second) continue;
    out += (out.empty() ? "" : "+") + interval.owner;
  }
  return out.empty() ? "none" : out;
}

std::string OwnerAt(const std::vector<golden::OwnedInterval>& owners, uint64_t byte) {
  for (const golden::OwnedInterval& interval : owners) {
    if (byte >= interval.begin && byte < interval.end) return interval.owner;
  }
  return "end";
}

// Who put each byte of the prompt there, and with it whose each token is (L2).
void CompareOwnership(const Case& reference, const Case& candidate, Book* book) {
  Difference difference = At(Level::kL2, Stage::kRendered, reference.case_id, "ownership");
  if (!reference.ownership || !candidate.ownership) {
    book->Enter(Verdict::kError, Missing(std::move(difference),
                                         std::string(reference.ownership ? "the candidate" : "the evidence") +
                                             " does not state the owners of the rendered bytes"));
    return;
  }
  if (*reference.ownership == *candidate.ownership) {
    book->Pass(Level::kL2);
  } else {
    const size_t i = FirstDifferent(*reference.ownership, *candidate.ownership);
    const auto end_of = [i](const std::vector<golden::OwnedInterval>& owners) {
      return i < owners.size() ? owners[i].end : UINT64_MAX;
    };
    const uint64_t begin = i < reference.ownership->size()   ? (*reference.ownership)[i].begin
                           : i < candidate.ownership->size() ? (*candidate.ownership)[i].begin
                                                             : 0;
    const bool other_owner = OwnerAt(*reference.ownership, begin) != OwnerAt(*candidate.ownership, begin);
    const uint64_t at =
        other_owner ? begin : std::min(end_of(*reference.ownership), end_of(*candidate.ownership));
    difference.index = {at};
    difference.flat_index = at;
    difference.reference = OwnerAt(*reference.ownership, at);
    difference.candidate = OwnerAt(*candidate.ownership, at);
    difference.what = "the byte has another owner";
    book->Enter(Verdict::kFail, difference);
  }
  const Tokenization* mine = RenderedTokens(reference);
  const Tokenization* theirs = RenderedTokens(candidate);
  if (mine == nullptr || theirs == nullptr) {
    book->Enter(Verdict::kError,
                Missing(At(Level::kL2, Stage::kRendered, reference.case_id, "token_ownership"),
                        std::string(mine == nullptr ? "the evidence" : "the candidate") +
                            " does not state the tokens of the rendered prompt"));
    return;
  }
  if (mine->ids != theirs->ids || mine->byte_offsets != theirs->byte_offsets) {
    book->Skip(Level::kL2);  // the prompt was cut otherwise: L1 says so, and whose a token is has no answer
    return;
  }
  Difference token = At(Level::kL2, Stage::kRendered, reference.case_id, "token_ownership");
  for (size_t i = 0; i < mine->byte_offsets.size(); ++i) {
    token.reference = OwnerOfToken(*reference.ownership, mine->byte_offsets[i]);
    token.candidate = OwnerOfToken(*candidate.ownership, theirs->byte_offsets[i]);
    if (token.reference == token.candidate) continue;
    token.index = {i};
    token.flat_index = i;
    token.what = "the token has another owner";
    book->Enter(Verdict::kFail, std::move(token));
    return;
  }
  book->Pass(Level::kL2);
}

void CompareRendered(const Case& reference, const Case& candidate, Book* book) {
  if (!reference.rendered) {
    if (reference.input_kind != golden::InputKind::kMessages) return;
    book->Enter(Verdict::kError, Missing(At(Level::kL2, Stage::kRendered, reference.case_id, "rendered"),
                                         "the evidence holds no rendered prompt of this case"));
    return;
  }
  CompareBytes(At(Level::kL2, Stage::kRendered, reference.case_id, "rendered"), reference.rendered,
               candidate.rendered, "prompt bytes", book);
  if (candidate.rendered != reference.rendered) {
    book->MarkPromptDiffers(reference.case_id);
    return;
  }
  CompareOwnership(reference, candidate, book);
}

// The input itself must be the same, else nothing that follows means anything.
bool SameInput(const Case& reference, const Case& candidate, Book* book) {
  if (reference.input_kind == candidate.input_kind && reference.input == candidate.input &&
      reference.add_generation_prompt == candidate.add_generation_prompt &&
      reference.max_new_tokens == candidate.max_new_tokens && reference.mask == candidate.mask) {
    return true;
  }
  Difference difference = At(Level::kL0, Stage::kIdentity, reference.case_id, "input");
  difference.what = "the candidate ran another input under this case id";
  book->Enter(Verdict::kFail, std::move(difference));
  book->MarkPromptDiffers(reference.case_id);
  return false;
}

// float32 holds every value of bf16 and f16, so one model has two hashes; the values themselves are in
// neither container.
bool IsWidened(const TensorHash& reference, const TensorHash& candidate) {
  return reference.dtype == "f32" && (candidate.dtype == "bf16" || candidate.dtype == "f16") &&
         reference.shape == candidate.shape;
}

// `may_widen`: the reference is no container of mode source and may have been loaded in float32.
void CompareTensors(const Content& reference, const Content& candidate, bool may_widen, Book* book) {
  if (reference.tensors.empty()) {
    book->Enter(Verdict::kError, Missing(At(Level::kL3, Stage::kMapping, "", "tensors"),
                                         "the evidence holds no source tensor to account for"));
    return;
  }
  const auto order = [](const TensorHash& t) { return std::string_view(t.name); };
  auto mine = reference.tensors.begin();
  auto theirs = candidate.tensors.begin();
  while (mine != reference.tensors.end() || theirs != candidate.tensors.end()) {
    const bool only_mine = theirs == candidate.tensors.end() ||
                           (mine != reference.tensors.end() && order(*mine) < order(*theirs));
    const bool only_theirs = mine == reference.tensors.end() ||
                             (theirs != candidate.tensors.end() && order(*theirs) < order(*mine));
    if (only_mine) {
      book->Enter(Verdict::kFail, Missing(At(Level::kL3, Stage::kMapping, "", "tensor." + mine->name),
                                          "a source tensor that the artifact does not account for"));
      ++mine;
      continue;
    }
    if (only_theirs) {
      book->Enter(Verdict::kFail, Missing(At(Level::kL3, Stage::kMapping, "", "tensor." + theirs->name),
                                          "a tensor that the source does not have"));
      ++theirs;
      continue;
    }
    if (mine->sha256 == theirs->sha256 && mine->shape == theirs->shape && mine->dtype == theirs->dtype) {
      book->Pass(Level::kL3);
    } else if (may_widen && IsWidened(*mine, *theirs)) {
      book->Incomplete(Level::kL3,
                       "the reference was loaded in float32 and the artifact holds " + theirs->dtype +
                           ": values need evidence of mode source, which hashes them as published");
    } else {
      Difference difference = At(Level::kL3, Stage::kMapping, "", "tensor." + mine->name);
      difference.reference = mine->dtype + " " + ToHex(mine->sha256);
      difference.candidate = theirs->dtype + " " + ToHex(theirs->sha256);
      difference.what = mine->shape != theirs->shape ? "shapes differ" : "values differ";
      book->Enter(Verdict::kFail, std::move(difference));
    }
    ++mine;
    ++theirs;
  }
}

std::string ConfigText(const cbor::Value& value) {
  if (const Bytes* bytes = value.AsByteString(); bytes != nullptr && bytes->size() == 8) {
    return NumberText(std::bit_cast<double>(LoadLe<uint64_t>(bytes->data())));
  }
  return cbor::ToJson(value, false);
}

// The inverse frequencies of one base differ by one unit between processors in the source itself
// (implementation-defined in the sense of LVL-02): one unit is equal, more is not.
bool EqualWithinOneUnit(const cbor::Value& a, const cbor::Value& b) {
  const Bytes* mine = a.AsByteString();
  const Bytes* theirs = b.AsByteString();
  if (mine == nullptr || theirs == nullptr || mine->size() != theirs->size() || mine->size() % 4 != 0)
    return false;
  for (size_t i = 0; i < mine->size(); i += 4) {
    const auto x = std::bit_cast<float>(LoadLe<uint32_t>(mine->data() + i));
    const auto y = std::bit_cast<float>(LoadLe<uint32_t>(theirs->data() + i));
    if (!std::isfinite(x) || !std::isfinite(y) || UlpDistance(x, y) > 1) return false;
  }
  return true;
}

void CompareConfig(const Content& reference, const Content& candidate, Book* book) {
  if (reference.effective_config.empty()) {
    book->Enter(Verdict::kError, Missing(At(Level::kL3, Stage::kMapping, "", "config"),
                                         "the evidence holds no effective configuration"));
    return;
  }
  for (const ConfigField& expected : reference.effective_config) {
    const ConfigField* actual = candidate.FindConfig(expected.name);
    if (actual == nullptr) {
      book->Enter(Verdict::kFail, Missing(At(Level::kL3, Stage::kMapping, "", "config." + expected.name),
                                          "a field of the pinned source that the artifact does not state"));
      continue;
    }
    if (actual->value == expected.value ||
        (expected.name == "rope_inv_freq" && EqualWithinOneUnit(expected.value, actual->value))) {
      book->Pass(Level::kL3);
      continue;
    }
    Difference difference = At(Level::kL3, Stage::kMapping, "", "config." + expected.name);
    difference.reference = ConfigText(expected.value);
    difference.candidate = ConfigText(actual->value);
    difference.what = "the effective configuration differs";
    book->Enter(Verdict::kFail, std::move(difference));
  }
  for (const ConfigField& extra : candidate.effective_config) {
    if (reference.FindConfig(extra.name) != nullptr) continue;
    book->Enter(Verdict::kFail, Missing(At(Level::kL3, Stage::kMapping, "", "config." + extra.name),
                                        "a field that the pinned source does not have"));
  }
}

}  // namespace

void CompareExactLevels(const Evidence& evidence, const golden::Golden& candidate, Book* book) {
  const Content& reference = evidence.reference->content();
  const Content& actual = candidate.content();
  CompareIdentities(reference, actual, book);
  for (const Case& expected : reference.cases) {
    if (expected.case_class != golden::CaseClass::kPublicMechanical) continue;
    const Case* found = actual.FindCase(expected.case_id);
    if (found == nullptr) {
      book->Enter(Verdict::kError, Missing(At(Level::kL0, Stage::kIdentity, expected.case_id, "case"),
                                           "the candidate did not run this case"));
      continue;
    }
    if (!SameInput(expected, *found, book)) continue;
    CompareRendered(expected, *found, book);
    CompareTokenizations(expected, *found, book);
  }
  // A reference loaded in float32 hashes float32 values; the publisher's dtype stands in mode source.
  const bool has_source = evidence.source != nullptr && !evidence.source->content().tensors.empty();
  CompareTensors(has_source ? evidence.source->content() : reference, actual, !has_source, book);
  CompareConfig(reference, actual, book);
}

}  // namespace slm::compare
