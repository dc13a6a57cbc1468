#include "tokenizer/decoder.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"

namespace slm::tokenizer {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// A run of byte tokens as text, or one U+FFFD for each byte.
void FlushBytes(std::string* bytes, std::vector<std::string>* out) {
  if (bytes->empty()) return;
  if (!FindUtf8Fault(*bytes)) {
    out->push_back(*bytes);
  } else {
    out->insert(out->end(), bytes->size(), std::string(kReplacementCharacter));
  }
  bytes->clear();
}

// The reference's fixed list, in its order.
std::string CleanUpEnglish(std::string text) {
  constexpr std::pair<const char*, const char*> kReplacements[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) text = ReplaceInToken(text, from, to);
  return text;
}

std::string Join(const std::vector<std::string>& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

}  // namespace

std::string ReplaceIllFormed(std::string_view bytes) {
  std::string out;
  size_t at = 0;
  while (const auto fault = FindUtf8Fault(bytes.substr(at))) {
    out.append(bytes.substr(at, fault->byte_offset));
    out.append(kReplacementCharacter);
    at += fault->byte_offset + fault->length;
  }
  out.append(bytes.substr(at));
  return out;
}

Status ByteLevelDecoder::Decode(std::vector<std::string>* tokens) const {
  std::string bytes;
  for (const std::string& token : *tokens) AppendByteLevelToken(token, &bytes);
  tokens->assign(1, ReplaceIllFormed(bytes));
  return {};
}

std::optional<uint8_t> ByteOfFallbackToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  // The reference reads the two characters as a number, so "+5" is one as well.
  const int high = token[3] == '+' ? 0 : digit(token[3]);
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Status ByteFallbackDecoder::Decode(std::vector<std::string>* tokens) const {
  std::vector<std::string> out;
  std::string bytes;
  for (std::string& token : *tokens) {
    if (const auto byte = ByteOfFallbackToken(token)) {
      bytes.push_back(static_cast<char>(*byte));
      continue;
    }
    FlushBytes(&bytes, &out);
    out.push_back(std::move(token));
  }
  FlushBytes(&bytes, &out);
  *tokens = std::move(out);
  return {};
}

Status FuseDecoder::Decode(std::vector<std::string>* tokens) const {
  tokens->assign(1, Join(*tokens));
  return {};
}

Status StripFailure(uint64_t stop) {
  return Fail(
      MakeError(ErrorCode::kTokSchema, "the decoder Strip takes more than a token holds (start and stop " +
                                           std::to_string(stop) + ")")
          .Field("$.decoder"));
}

Status StripDecoder::Decode(std::vector<std::string>* tokens) const {
  std::vector<char32_t> scalars;
  for (std::string& token : *tokens) {
    scalars.clear();
    for (size_t i = 0; i < token.size();) {
      const Scalar scalar = ReadScalar(token.data() + i);
      scalars.push_back(scalar.value);
      i += scalar.n_bytes;
    }
    uint64_t start = 0;
    while (start < std::min<uint64_t>(start_, scalars.size()) && scalars[start] == content_) ++start;
    uint64_t end = scalars.size();
    for (uint64_t i = 0; i < stop_; ++i) {
      if (i >= scalars.size()) return StripFailure(stop_);
      if (scalars[scalars.size() - i - 1] != content_) break;
      end = scalars.size() - i - 1;
    }
    if (start > end) return StripFailure(stop_);
    token.clear();
    for (uint64_t i = start; i < end; ++i) AppendScalar(&token, scalars[i]);
  }
  return {};
}

std::string ReplaceInToken(const std::string& token, const std::string& pattern, const std::string& content) {
  if (token.empty()) return token;
  std::string out;
  if (pattern.empty()) {  // before every character and at the end
    for (size_t i = 0; i < token.size();) {
      size_t end = i + 1;
      while (end < token.size() && IsContinuation(token[end])) ++end;
      out.append(content).append(token, i, end - i);
      i = end;
    }
    return out.append(content);
  }
  size_t at = 0;
  for (size_t found = token.find(pattern); found != std::string::npos; found = token.find(pattern, at)) {
    out.append(token, at, found - at).append(content);
    at = found + pattern.size();
  }
  return out.append(token, at, std::string::npos);
}

std::string ReplaceEverywhere(const std::string& token, const std::string& pattern,
                              const std::string& content) {
  return token.empty() && pattern.empty() ? content : ReplaceInToken(token, pattern, content);
}

Result<std::string> ReplacePattern(const std::string& token, const Pattern& pattern,
                                   const std::string& content) {
  std::vector<Span> matches;
  SLM_TRY(pattern.FindAll(token, &matches));
  std::string out;
  size_t at = 0;
  for (const Span& match : matches) {
    out.append(token, at, match.begin - at).append(content);
    at = match.end;
  }
  return out.append(token, at, std::string::npos);
}

Status ReplaceDecoder::Decode(std::vector<std::string>* tokens) const {
  for (std::string& token : *tokens) {
    SLM_ASSIGN(token, ReplacePattern(token, pattern_, content_));
  }
  return {};
}

Status BpeDecoder::Decode(std::vector<std::string>* tokens) const {
  for (size_t i = 0; i < tokens->size(); ++i) {
    (*tokens)[i] = ReplaceEverywhere((*tokens)[i], suffix_, i + 1 == tokens->size() ? "" : " ");
  }
  return {};
}

std::string WordPieceDecoder::DecodeToken(const std::string& token, bool is_first) const {
  std::string out = token;
  if (!is_first) {
    if (out.starts_with(prefix_)) {
      out.erase(0, prefix_.size());
    } else {
      out.insert(0, " ");
    }
  }
  return cleanup_ ? CleanUpEnglish(std::move(out)) : out;
}

Status WordPieceDecoder::Decode(std::vector<std::string>* tokens) const {
  for (size_t i = 0; i < tokens->size(); ++i) (*tokens)[i] = DecodeToken((*tokens)[i], i == 0);
  return {};
}

std::string CtcDecoder::DecodeToken(const std::string& token) const {
  std::string out = ReplaceEverywhere(token, pad_token_, "");
  return cleanup_ ? ReplaceEverywhere(CleanUpEnglish(std::move(out)), delimiter_, " ") : out;
}

Status CtcDecoder::Decode(std::vector<std::string>* tokens) const {
  std::vector<std::string> out;
  for (size_t i = 0; i < tokens->size(); ++i) {
    if (i > 0 && (*tokens)[i] == (*tokens)[i - 1]) continue;
    std::string token = DecodeToken((*tokens)[i]);
    if (!token.empty()) out.push_back(std::move(token));
  }
  *tokens = std::move(out);
  return {};
}

MetaspaceDecoder::MetaspaceDecoder(char32_t replacement, PrependScheme scheme)
    : drops_in_first_(scheme != PrependScheme::kNever) {
  AppendScalar(&replacement_, replacement);
}

Status MetaspaceDecoder::Decode(std::vector<std::string>* tokens) const {
  for (size_t i = 0; i < tokens->size(); ++i) {
    (*tokens)[i] = ReplaceInToken((*tokens)[i], replacement_, i == 0 && drops_in_first_ ? "" : " ");
  }
  return {};
}

Status SequenceDecoder::Decode(std::vector<std::string>* tokens) const {
  for (const auto& part : parts_) SLM_TRY(part->Decode(tokens));
  return {};
}

void SequenceDecoder::MakeStages(std::vector<std::unique_ptr<DecoderStage>>* stages) const {
  for (const auto& part : parts_) part->MakeStages(stages);
}

}  // namespace slm::tokenizer
