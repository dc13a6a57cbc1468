#include "tokenizer/difference.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/utf8.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/corpus.h"
#include "tokenizer/decoder.h"
#include "unicode/classes_v16_0.h"
#include "unicode/normalization_v9_0.h"

namespace slm::tokenizer {
namespace {

using Scalars = std::u32string;

constexpr size_t kMaxShrinks = 32;         // differing texts of one phase that are shrunk
constexpr size_t kMaxShrinksOfKind = 400;  // with FindDifferences: in each phase
constexpr size_t kMaxShown = 16;           // of one kind
constexpr size_t kMaxExhaustive = 50000;   // strings tried after shrinking

Scalars ToScalars(std::string_view text) {
  Scalars out;
  for (size_t i = 0; i < text.size();) out.push_back(DecodeUtf8(text, &i));
  return out;
}

std::string ToUtf8(const Scalars& scalars) {
  std::string out;
  for (const char32_t scalar : scalars) AppendUtf8(&out, scalar);
  return out;
}

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t n) { return Next() % n; }

 private:
  uint64_t state_;
};

struct Outcome {
  std::vector<uint32_t> ids;
  std::optional<ErrorCode> error;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// A character's class, for telling forms of texts apart.
char ClassOf(char32_t c) {
  if (c < 0x7F && c > 0x20) {
    if (c >= '0' && c <= '9') return '0';
    const char32_t lower = c | 0x20;
    return lower >= 'a' && lower <= 'z' ? 'a' : '.';
  }
  if (c == ' ') return ' ';
  const uint8_t known = unicode::ClassV16(c);
  if ((known & unicode::kWhiteSpace) != 0) return 's';
  if ((known & unicode::kLetter) != 0) return 'l';
  if ((known & unicode::kNumber) != 0) return 'n';
  return unicode::IsMarkV9(c) ? 'm' : 'o';
}

std::string FormOf(const Scalars& scalars) {
  std::string form;
  for (const char32_t c : scalars) {
    const char next = ClassOf(c);
    if (!form.ends_with(next)) form.push_back(next);  // a run counts once
  }
  return form;
}

class Search {
 public:
  Search(const Tokenizer& first, const Tokenizer& second, const DifferenceOptions& options)
      : first_(first), second_(second), options_(options) {
    encode_.add_special_tokens = options.add_special_tokens;
  }

  DifferenceReport Run() {
    for (const auto& [name, phase] : Phases()) {
      RunPhase(name, phase);
      if (!best_) continue;
      TryAllShorter();
      report_.difference = Describe(*best_, name);
      break;
    }
    return report_;
  }

  DifferenceReport RunAll() {
    by_kind_ = true;
    if (first_.prefix_ids() != second_.prefix_ids() || first_.suffix_ids() != second_.suffix_ids()) {
      encode_.add_special_tokens = true;
      Difference put_in = Describe({}, "corpus");
      put_in.kind = DifferenceKind::kPutIn;
      report_.differences.push_back(std::move(put_in));
    }
    encode_.add_special_tokens = false;
    for (const auto& [name, phase] : Phases()) RunPhase(name, phase);
    std::map<DifferenceKind, std::vector<Found>> kinds;
    for (auto& [key, found] : found_) kinds[key.first].push_back(std::move(found));
    for (auto& [kind, list] : kinds) {
      std::sort(list.begin(), list.end(),
                [](const Found& a, const Found& b) { return Before(a.scalars, b.scalars); });
      best_ = list[0].scalars;
      kind_ = kind;
      TryAllShorter();
      list[0].scalars = *best_;
      for (size_t i = 0; i < std::min(list.size(), kMaxShown); ++i) {
        report_.differences.push_back(Describe(list[i].scalars, list[i].phase));
        report_.differences.back().kind = kind;
      }
    }
    std::sort(report_.differences.begin(), report_.differences.end(),
              [](const Difference& a, const Difference& b) {
                return std::pair(a.kind, a.text.size()) < std::pair(b.kind, b.text.size());
              });
    for (const Difference& one : report_.differences) {
      if (!report_.difference || one.text.size() < report_.difference->text.size()) report_.difference = one;
    }
    return report_;
  }

 private:
  struct Found {
    Scalars scalars;
    std::string phase;
  };
  [[nodiscard]] std::vector<std::pair<const char*, std::function<void()>>> Phases() {
    return {{"corpus", [this] { TryCorpus(); }},
            {"special tokens", [this] { TrySpecialTokens(); }},
            {"tokens", [this] { TryTokens(); }},
            {"merges", [this] { TryMerges(); }},
            {"generated", [this] { TryGenerated(); }}};
  }
  void RunPhase(const char* name, const std::function<void()>& phase) {
    phase_ = name;
    n_given_ = 0;
    n_shrunk_.clear();
    phase();
    report_.searched.emplace_back(name, n_given_);
  }

  [[nodiscard]] Outcome Ask(const Tokenizer& tokenizer, const std::string& text) const {
    auto encoding = tokenizer.Encode(text, encode_);
    if (!encoding) return {{}, encoding.error().code};
    return {std::move(encoding->ids), std::nullopt};
  }

  bool Differs(const Scalars& scalars) {
    ++report_.n_tried;
    const std::string text = ToUtf8(scalars);
    if (Ask(first_, text) == Ask(second_, text)) return false;
    return !kind_ || KindOf(text) == *kind_;
  }

  // What reached the model, as text.
  [[nodiscard]] static std::string Reached(const Trace& trace) {
    std::string out;
    for (const Trace::PreToken& pre_token : trace.pre_tokens) {
      if (pre_token.is_added_token) continue;
      std::string bytes;
      AppendByteLevelToken(pre_token.text, &bytes);
      out += FindUtf8Fault(bytes) ? pre_token.text : bytes;
    }
    return ReplaceInToken(out, "\xE2\x96\x81", " ");
  }

  // The stage at which a text that differs parts. REQUIRES: it does.
  [[nodiscard]] DifferenceKind KindOf(const std::string& text) const {
    Trace first, second;
    if (!first_.Encode(text, encode_, &first) || !second_.Encode(text, encode_, &second))
      return DifferenceKind::kRefusal;
    const auto cuts = [](const Trace& trace) {
      std::vector<std::pair<uint64_t, uint32_t>> out;
      for (const Trace::Cut& cut : trace.cuts) out.emplace_back(cut.begin, cut.id);
      std::sort(out.begin(), out.end());
      return out;
    };
    if (cuts(first) != cuts(second)) return DifferenceKind::kSpecialTokens;
    return Reached(first) != Reached(second) ? DifferenceKind::kText : DifferenceKind::kModel;
  }

  void Try(const Scalars& scalars) {
    ++n_given_;
    kind_.reset();
    if (!by_kind_) {
      if (n_shrunk_[DifferenceKind::kModel] >= kMaxShrinks || !Differs(scalars)) return;
      ++n_shrunk_[DifferenceKind::kModel];
      Scalars shortest = Shrink(scalars);
      if (!best_ || Before(shortest, *best_)) best_ = std::move(shortest);
      return;
    }
    if (!Differs(scalars)) return;
    const DifferenceKind kind = KindOf(ToUtf8(scalars));
    if (n_shrunk_[kind] >= kMaxShrinksOfKind) return;
    ++n_shrunk_[kind];
    kind_ = kind;
    Scalars shortest = Shrink(scalars);
    Found& found = found_[{kind, FormOf(shortest)}];
    if (found.phase.empty() || Before(shortest, found.scalars)) found = {std::move(shortest), phase_};
  }
  void Try(std::string_view text) { Try(ToScalars(text)); }

  // Scalars that a person does not see in print.
  static ptrdiff_t Hidden(const Scalars& scalars) {
    return std::count_if(scalars.begin(), scalars.end(), [](char32_t c) { return c < 0x20 || c > 0x7E; });
  }
  static bool Before(const Scalars& a, const Scalars& b) {
    const std::string one = ToUtf8(a);
    const std::string two = ToUtf8(b);
    if (one.size() != two.size()) return one.size() < two.size();
    return std::pair(Hidden(a), one) < std::pair(Hidden(b), two);
  }

  // Whether no character can go: else a plain one has made another difference of it.
  bool IsMinimal(const Scalars& scalars) {
    for (size_t at = 0; at < scalars.size(); ++at) {
      Scalars shorter = scalars;
      shorter.erase(at, 1);
      if (Differs(shorter)) return false;
    }
    return true;
  }

  // Removes parts of falling size while the difference stands, then makes what is left plain.
  Scalars Shrink(Scalars scalars) {
    for (size_t part = std::max<size_t>(scalars.size() / 2, 1);; part = std::max<size_t>(part / 2, 1)) {
      bool removed = false;
      for (size_t at = 0; at < scalars.size();) {
        Scalars shorter = scalars;
        shorter.erase(at, part);
        if (Differs(shorter)) {
          scalars = std::move(shorter);
          removed = true;
        } else {
          at += part;
        }
      }
      if (part == 1 && !removed) break;
    }
    for (char32_t& scalar : scalars) {
      for (const char32_t plain : {U' ', U'0', U'a'}) {
        if (scalar <= plain) continue;
        const char32_t before = scalar;
        scalar = plain;
        if (Differs(scalars) && IsMinimal(scalars)) break;
        scalar = before;
      }
    }
    return scalars;
  }

  // Strings shorter than the best in bytes, over its scalars and three plain ones.
  void TryAllShorter() {
    std::set<char32_t> alphabet(best_->begin(), best_->end());
    alphabet.insert({U' ', U'0', U'a'});
    const std::vector<char32_t> letters(alphabet.begin(), alphabet.end());
    size_t budget = kMaxExhaustive;
    for (size_t length = 0; length < ToUtf8(*best_).size(); ++length) {
      Scalars scalars(length, letters[0]);
      std::vector<size_t> digits(length, 0);
      for (;;) {
        if (budget-- == 0) return;
        for (size_t i = 0; i < length; ++i) scalars[i] = letters[digits[i]];
        if (ToUtf8(scalars).size() < ToUtf8(*best_).size() && Differs(scalars)) best_ = scalars;
        size_t i = length;
        while (i > 0 && ++digits[i - 1] == letters.size()) digits[--i] = 0;
        if (i == 0) break;
      }
    }
  }

  Difference Describe(const Scalars& scalars, std::string phase) {
    Difference out;
    out.text = ToUtf8(scalars);
    Outcome one = Ask(first_, out.text);
    Outcome two = Ask(second_, out.text);
    out.first_ids = std::move(one.ids);
    out.second_ids = std::move(two.ids);
    out.first_error = one.error;
    out.second_error = two.error;
    out.phase = std::move(phase);
    return out;
  }

  void TryCorpus() {
    for (const std::string& text : MechanicalCorpus()) Try(text);
  }

  [[nodiscard]] std::vector<std::string> AddedTexts() const {
    std::set<std::string> texts;
    for (const Tokenizer* tokenizer : {&first_, &second_}) {
      for (std::string& text : tokenizer->added_token_texts()) texts.insert(std::move(text));
    }
    return {texts.begin(), texts.end()};
  }

  void TrySpecialTokens() {
    const std::vector<std::string> texts = AddedTexts();
    for (const std::string& text : texts) {
      for (const std::string& around :
           {text, "a" + text + "b", " " + text + " ", text + text, text + "  1",
            "a" + text.substr(0, text.size() / 2), text + "\n" + text, "  " + text}) {
        if (!FindUtf8Fault(around)) Try(around);
      }
    }
    for (size_t i = 0; i + 1 < texts.size(); ++i) Try(texts[i] + texts[i + 1]);
  }

  // The text that a token stands for, if it is text.
  [[nodiscard]] static std::optional<std::string> TextOf(const Tokenizer& tokenizer, uint32_t id) {
    auto text = tokenizer.Decode({id}, DecodeMode::kRaw);
    if (!text || FindUtf8Fault(*text)) return std::nullopt;
    return *std::move(text);
  }

  void TryTokens() {
    for (const Tokenizer* tokenizer : {&first_, &second_}) {
      for (uint32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        const auto text = TextOf(*tokenizer, id);
        if (!text) continue;
        Try(*text);
        Try(" " + *text);
        Try("  " + *text);
      }
    }
  }

  void TryMerges() {
    for (const Tokenizer* tokenizer : {&first_, &second_}) {
      for (const auto& [left, right] : tokenizer->AdjacentParts()) {
        const auto left_text = TextOf(*tokenizer, left);
        const auto right_text = TextOf(*tokenizer, right);
        if (!left_text || !right_text) continue;
        Try(*left_text + *right_text);
        Try(*left_text + " " + *right_text);
      }
    }
  }

  void TryGenerated() {
    SplitMix64 random(options_.seed);
    const std::vector<std::string> corpus = MechanicalCorpus();
    const std::vector<std::string> added = AddedTexts();
    const auto part = [&]() -> Scalars {
      switch (random.Below(9)) {
        case 0:
          return Scalars(1, static_cast<char32_t>(0x20 + random.Below(0x5F)));
        case 1:
          return Scalars(1 + random.Below(3), WhiteSpaceScalars()[random.Below(WhiteSpaceScalars().size())]);
        case 2:
          return Scalars(1 + random.Below(40), static_cast<char32_t>('a' + random.Below(26)));
        case 3:
          return ToScalars(corpus[random.Below(corpus.size())]).substr(0, 40);
        case 4:
          if (!added.empty()) return ToScalars(added[random.Below(added.size())]);
          [[fallthrough]];
        case 5: {  // a word of few letters
          const uint64_t n_letters = 1 + random.Below(3);
          const auto first = static_cast<char32_t>('a' + random.Below(24));
          Scalars word;
          for (uint64_t n = 1 + random.Below(24); n > 0; --n)
            word.push_back(first + static_cast<char32_t>(random.Below(n_letters)));
          return word;
        }
        case 6: {  // a character that has other forms, with a mark
          constexpr std::pair<char32_t, char32_t> kForms[] = {
              {0xA0, 0x250},    {0x370, 0x400},   {0x1E00, 0x2000}, {0x2100, 0x2190}, {0x2460, 0x2500},
              {0x3040, 0x3100}, {0x1100, 0x1200}, {0xAC00, 0xD7A4}, {0xF900, 0xFB50}, {0xFF00, 0xFFF0}};
          const auto [low, high] = kForms[random.Below(std::size(kForms))];
          Scalars form(1, low + static_cast<char32_t>(random.Below(high - low)));
          for (uint64_t n = random.Below(3); n > 0; --n)
            form.push_back(0x300 + static_cast<char32_t>(random.Below(0x70)));
          return form;
        }
        default: {
          const auto scalar = static_cast<char32_t>(random.Below(0x110000));
          return Scalars(1, scalar >= 0xD800 && scalar <= 0xDFFF ? U'\uFFFD' : scalar);
        }
      }
    };
    for (uint64_t i = 0; i < options_.n_generated; ++i) {
      Scalars scalars;
      for (uint64_t n = 1 + random.Below(8); n > 0; --n) scalars += part();
      Try(scalars);
    }
  }

  const Tokenizer& first_;
  const Tokenizer& second_;
  DifferenceOptions options_;
  EncodeOptions encode_;
  DifferenceReport report_;
  std::optional<Scalars> best_;
  bool by_kind_ = false;
  std::optional<DifferenceKind> kind_;  // what counts as a difference now; none: any
  std::map<std::pair<DifferenceKind, std::string>, Found> found_;
  std::map<DifferenceKind, size_t> n_shrunk_;
  std::string phase_;
  uint64_t n_given_ = 0;
};

}  // namespace

std::string_view NameOf(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kPutIn:
      return "tokens put in";
    case DifferenceKind::kSpecialTokens:
      return "special tokens in the text";
    case DifferenceKind::kText:
      return "text before the model";
    case DifferenceKind::kModel:
      return "model";
    case DifferenceKind::kRefusal:
      return "refusal";
  }
  return "";
}

DifferenceReport FindDifferences(const Tokenizer& first, const Tokenizer& second,
                                 const DifferenceOptions& options) {
  return Search(first, second, options).RunAll();
}

DifferenceReport FindShortestDifference(const Tokenizer& first, const Tokenizer& second,
                                        const DifferenceOptions& options) {
  return Search(first, second, options).Run();
}

}  // namespace slm::tokenizer
