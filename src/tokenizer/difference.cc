#include "tokenizer/difference.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/utf8.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/corpus.h"

namespace slm::tokenizer {
namespace {

using Scalars = std::u32string;

constexpr size_t kMaxShrinks = 32;        // differing texts of one phase that are shrunk
constexpr size_t kMaxExhaustive = 50000;  // strings tried after shrinking

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

class Search {
 public:
  Search(const Tokenizer& first, const Tokenizer& second, const DifferenceOptions& options)
      : first_(first), second_(second), options_(options) {
    encode_.add_special_tokens = options.add_special_tokens;
  }

  DifferenceReport Run() {
    const std::pair<const char*, std::function<void()>> phases[] = {
        {"corpus", [this] { TryCorpus(); }},       {"special tokens", [this] { TrySpecialTokens(); }},
        {"tokens", [this] { TryTokens(); }},       {"merges", [this] { TryMerges(); }},
        {"generated", [this] { TryGenerated(); }},
    };
    for (const auto& [name, phase] : phases) {
      phase();
      if (!best_) continue;
      TryAllShorter();
      report_.difference = Describe(*best_, name);
      break;
    }
    return report_;
  }

 private:
  [[nodiscard]] Outcome Ask(const Tokenizer& tokenizer, const std::string& text) const {
    auto encoding = tokenizer.Encode(text, encode_);
    if (!encoding) return {{}, encoding.error().code};
    return {std::move(encoding->ids), std::nullopt};
  }

  bool Differs(const Scalars& scalars) {
    ++report_.n_tried;
    const std::string text = ToUtf8(scalars);
    return Ask(first_, text) != Ask(second_, text);
  }

  void Try(const Scalars& scalars) {
    if (n_shrunk_ >= kMaxShrinks || !Differs(scalars)) return;
    ++n_shrunk_;
    Scalars shortest = Shrink(scalars);
    if (!best_ || Before(shortest, *best_)) best_ = std::move(shortest);
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
        if (Differs(scalars)) break;
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
      switch (random.Below(6)) {
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
  size_t n_shrunk_ = 0;
};

}  // namespace

DifferenceReport FindShortestDifference(const Tokenizer& first, const Tokenizer& second,
                                        const DifferenceOptions& options) {
  return Search(first, second, options).Run();
}

}  // namespace slm::tokenizer
