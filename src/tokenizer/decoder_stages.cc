// The streaming side of the decoders. Each stage holds back only what later tokens could change.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/decoder.h"

namespace slm::tokenizer {
namespace {

using Fragments = std::vector<Fragment>;

void Emit(std::string bytes, bool begins, bool ends, Fragments* out) {
  out->push_back(Fragment{std::move(bytes), begins, ends});
}

// Length of the longest end of `data` that begins `pattern` without being all of it.
size_t PartialMatch(std::string_view data, std::string_view pattern) {
  if (pattern.empty()) return 0;
  for (size_t n = std::min(data.size(), pattern.size() - 1); n > 0; --n) {
    if (data.ends_with(pattern.substr(0, n))) return n;
  }
  return 0;
}

class ByteLevelStage final : public DecoderStage {
 public:
  Status Feed(const Fragment& in, Fragments* out) override {
    token_ += in.bytes;
    if (!in.ends) return {};
    std::string bytes;
    AppendByteLevelToken(token_, &bytes);
    token_.clear();
    Emit(std::move(bytes), !started_, false, out);
    started_ = true;
    return {};
  }
  Status Finish(Fragments* out) override {
    Emit("", !started_, true, out);
    return {};
  }

 private:
  std::string token_;
  bool started_ = false;
};

class ByteFallbackStage final : public DecoderStage {
 public:
  Status Feed(const Fragment& in, Fragments* out) override {
    if (in.begins) {
      token_.clear();
      is_text_ = false;
    }
    if (is_text_) {
      Emit(in.bytes, false, in.ends, out);
      return {};
    }
    token_ += in.bytes;
    const auto byte = in.ends ? ByteOfFallbackToken(token_) : std::nullopt;
    if (byte) {
      Emit(std::string(1, static_cast<char>(*byte)), !in_run_, false, out);
      in_run_ = true;
      return {};
    }
    if (!in.ends && token_.size() <= 6) return {};
    EndRun(out);
    Emit(std::move(token_), true, in.ends, out);
    token_.clear();
    is_text_ = true;
    return {};
  }
  Status Finish(Fragments* out) override {
    EndRun(out);
    return {};
  }

 private:
  void EndRun(Fragments* out) {
    if (in_run_) Emit("", false, true, out);
    in_run_ = false;
  }
  std::string token_;     // of a token that may still be <0xNN>
  bool is_text_ = false;  // the token that goes on is not
  bool in_run_ = false;
};

class FuseStage final : public DecoderStage {
 public:
  Status Feed(const Fragment& in, Fragments* out) override {
    Emit(in.bytes, !started_, false, out);
    started_ = true;
    return {};
  }
  Status Finish(Fragments* out) override {
    Emit("", !started_, true, out);
    return {};
  }

 private:
  bool started_ = false;
};

class ReplaceStage final : public DecoderStage {
 public:
  // The first token of the stream gets `first_content`.
  ReplaceStage(std::string pattern, std::string first_content, std::string content)
      : pattern_(std::move(pattern)),
        first_content_(std::move(first_content)),
        content_(std::move(content)) {}

  Status Feed(const Fragment& in, Fragments* out) override {
    if (in.begins) {
      ++n_tokens_;
      begins_ = true;
    }
    held_ += in.bytes;
    size_t n_held = 0;
    if (!in.ends) {
      if (pattern_.empty()) return {};
      n_held = PartialMatch(held_, pattern_);
    }
    // A match that lies before the held end may use up part of it; then nothing of it is held.
    const std::string& content = n_tokens_ == 1 ? first_content_ : content_;
    const size_t end = FirstOpen(held_.size() - n_held);
    Emit(ReplaceInToken(held_.substr(0, end), pattern_, content), begins_, in.ends, out);
    held_.erase(0, end);
    begins_ = false;
    return {};
  }
  Status Finish(Fragments*) override { return {}; }

 private:
  // End of what is settled: `limit`, or the end of a match that reaches over it.
  [[nodiscard]] size_t FirstOpen(size_t limit) const {
    if (pattern_.empty()) return limit;
    size_t at = 0;
    while (at < limit) {
      const size_t found = held_.find(pattern_, at);
      if (found == std::string::npos || found >= limit) return limit;
      at = found + pattern_.size();
    }
    return at;
  }

  std::string pattern_;
  std::string first_content_;
  std::string content_;
  std::string held_;
  uint64_t n_tokens_ = 0;
  bool begins_ = false;
};

// Tokens that are decoded one by one: waits for the whole of each.
class WholeTokenStage : public DecoderStage {
 public:
  Status Feed(const Fragment& in, Fragments* out) override {
    token_ += in.bytes;
    if (!in.ends) return {};
    const std::string token = std::exchange(token_, {});
    return FeedToken(token, out);
  }
  Status Finish(Fragments*) override { return {}; }

 private:
  virtual Status FeedToken(const std::string& token, Fragments* out) = 0;
  std::string token_;
};

// The bytes that EscapeIllFormed had.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Scalar scalar = ReadScalar(text.data() + i);
    if (IsEscapedByte(scalar.value)) {
      out += static_cast<char>(scalar.value & 0xFF);
    } else {
      out.append(text, i, scalar.n_bytes);
    }
    i += scalar.n_bytes;
  }
  return out;
}

class ReplacePatternStage final : public WholeTokenStage {
 public:
  ReplacePatternStage(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

 private:
  Status FeedToken(const std::string& token, Fragments* out) override {
    const bool is_text = !FindUtf8Fault(token);
    SLM_ASSIGN(std::string replaced,
               is_text ? ReplacePattern(token, pattern_, content_) : ReplaceInBytes(EscapeIllFormed(token)));
    Emit(std::move(replaced), true, true, out);
    return {};
  }
  // Where a pattern takes in a byte of no character, nothing is replaced: such bytes stay as they are.
  [[nodiscard]] Result<std::string> ReplaceInBytes(const std::string& escaped) const {
    std::vector<Span> matches;
    SLM_TRY(pattern_.FindAll(escaped, &matches));
    std::string out;
    size_t at = 0;
    for (const Span& match : matches) {
      const std::string_view taken = std::string_view(escaped).substr(match.begin, match.end - match.begin);
      if (taken.find("\xED\xB2") != taken.npos || taken.find("\xED\xB3") != taken.npos) continue;
      out.append(escaped, at, match.begin - at).append(content_);
      at = match.end;
    }
    return Unescaped(out.append(escaped, at, std::string::npos));
  }
  Pattern pattern_;
  std::string content_;
};

class WordPieceStage final : public WholeTokenStage {
 public:
  explicit WordPieceStage(WordPieceDecoder decoder) : decoder_(std::move(decoder)) {}

 private:
  Status FeedToken(const std::string& token, Fragments* out) override {
    Emit(decoder_.DecodeToken(token, is_first_), true, true, out);
    is_first_ = false;
    return {};
  }
  WordPieceDecoder decoder_;
  bool is_first_ = true;
};

class CtcStage final : public WholeTokenStage {
 public:
  explicit CtcStage(CtcDecoder decoder) : decoder_(std::move(decoder)) {}

 private:
  Status FeedToken(const std::string& token, Fragments* out) override {
    if (last_ && *last_ == token) return {};
    last_ = token;
    std::string bytes = decoder_.DecodeToken(token);
    if (!bytes.empty()) Emit(std::move(bytes), true, true, out);
    return {};
  }
  CtcDecoder decoder_;
  std::optional<std::string> last_;
};

// Whether a suffix becomes a space depends on whether a token follows: what stands before the first
// suffix goes out at once, the rest waits.
class BpeStage final : public WholeTokenStage {
 public:
  explicit BpeStage(std::string suffix) : suffix_(std::move(suffix)) {}
  Status Feed(const Fragment& in, Fragments* out) override {
    if (in.begins) Release(" ", out);
    return WholeTokenStage::Feed(in, out);
  }
  Status Finish(Fragments* out) override {
    Release("", out);
    return {};
  }

 private:
  Status FeedToken(const std::string& token, Fragments* out) override {
    const size_t found = token.find(suffix_);
    const bool waits = found != std::string::npos;
    Emit(token.substr(0, found), true, !waits, out);
    if (waits) held_ = token.substr(found);
    return {};
  }
  void Release(const std::string& content, Fragments* out) {
    if (!held_) return;
    Emit(ReplaceEverywhere(*held_, suffix_, content), false, true, out);
    held_.reset();
  }
  std::string suffix_;
  std::optional<std::string> held_;
};

class StripStage final : public DecoderStage {
 public:
  StripStage(std::string content, uint64_t start, uint64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  Status Feed(const Fragment& in, Fragments* out) override {
    if (in.begins) {
      held_.clear();
      n_removed_ = 0;
      is_open_ = true;
      only_content_ = true;
      n_passed_ = 0;
      begins_ = true;
    }
    held_ += in.bytes;
    if (is_open_) RemoveStart(in.ends);
    if (is_open_ && !in.ends) return {};
    const size_t n_tail = TailSize();
    size_t n_out = held_.size() - n_tail;
    CountPassed(n_out);
    if (in.ends) {
      const uint64_t n_copies = n_tail / content_.size();
      if (only_content_ && n_copies * content_.size() == n_tail) {
        const uint64_t rest = n_passed_ + n_copies;
        if (stop_ > rest) return StripFailure(stop_);
      }
      // What is left of a part of the character stays.
      const uint64_t n_partial = n_tail - n_copies * content_.size();
      const uint64_t n_cut = n_partial > 0 ? 0 : std::min(stop_, n_copies);
      n_out = held_.size() - n_cut * content_.size();
    }
    Emit(held_.substr(0, n_out), begins_, in.ends, out);
    held_.erase(0, n_out);
    begins_ = false;
    return {};
  }
  Status Finish(Fragments*) override { return {}; }

 private:
  void RemoveStart(bool ends) {
    while (n_removed_ < start_ && held_.starts_with(content_)) {
      held_.erase(0, content_.size());
      ++n_removed_;
    }
    const bool may_go_on = n_removed_ < start_ && !ends && std::string_view(content_).starts_with(held_);
    is_open_ = may_go_on;
  }
  // Bytes at the end that may yet be cut: copies of the character, then a part of one.
  [[nodiscard]] size_t TailSize() const {
    const size_t partial = PartialMatch(held_, content_);
    size_t tail = partial;
    for (uint64_t i = 0; i < stop_; ++i) {
      if (!std::string_view(held_).substr(0, held_.size() - tail).ends_with(content_)) break;
      tail += content_.size();
    }
    return stop_ == 0 ? 0 : tail;
  }
  // Notes whether everything that passes is the character.
  void CountPassed(size_t n_out) {
    std::string_view rest = std::string_view(held_).substr(0, n_out);
    while (only_content_ && !rest.empty()) {
      only_content_ = rest.starts_with(content_);
      if (only_content_) {
        rest.remove_prefix(content_.size());
        ++n_passed_;
      }
    }
  }

  std::string content_;
  uint64_t start_;
  uint64_t stop_;
  std::string held_;
  uint64_t n_removed_ = 0;
  uint64_t n_passed_ = 0;
  bool is_open_ = true;  // the start is not settled yet
  bool only_content_ = true;
  bool begins_ = false;
};

}  // namespace

void ByteLevelDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<ByteLevelStage>());
}

void ByteFallbackDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<ByteFallbackStage>());
}

void FuseDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<FuseStage>());
}

void StripDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  std::string content;
  AppendScalar(&content, content_);
  stages->push_back(std::make_unique<StripStage>(std::move(content), start_, stop_));
}

void ReplaceDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  if (pattern_.is_regex()) {
    stages->push_back(std::make_unique<ReplacePatternStage>(pattern_, content_));
  } else {
    stages->push_back(std::make_unique<ReplaceStage>(pattern_.literal(), content_, content_));
  }
}

void BpeDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<BpeStage>(suffix_));
}

void WordPieceDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<WordPieceStage>(*this));
}

void CtcDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<CtcStage>(*this));
}

void MetaspaceDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  stages->push_back(std::make_unique<ReplaceStage>(replacement_, drops_in_first_ ? "" : " ", " "));
}

}  // namespace slm::tokenizer
