#include "evidence/text_half.h"

#include "codec/cbor.h"

namespace slm::evidence {

Result<std::vector<std::pair<std::string, std::string>>> SpecialTokensOf(std::string_view tokenizer_config) {
  SLM_ASSIGN(const json::Document document, json::Parse(std::string(tokenizer_config)));
  std::vector<std::pair<std::string, std::string>> tokens;
  if (!document.root().is_object()) return tokens;
  for (json::Value member : document.root().children()) {
    if (!member.key().ends_with("_token")) continue;
    if (member.is_string()) {
      tokens.emplace_back(member.key(), member.string());
    } else if (member.is_object()) {
      const auto content = member.Find("content");
      if (content && content->is_string()) tokens.emplace_back(member.key(), content->string());
    }
  }
  return tokens;
}

namespace {

// Absent is nothing; damaged is an error, never nothing.
Result<std::optional<ByteSpan>> OptionalBlob(const Artifact& artifact, std::string_view kind) {
  Result<ByteSpan> blob = artifact.Blob(kind);
  if (blob) return std::optional<ByteSpan>(*blob);
  if (blob.error().code == ErrorCode::kNotFound) return std::optional<ByteSpan>();
  return Fail(std::move(blob).error());
}

std::vector<std::pair<uint32_t, uint32_t>> Narrow(const std::vector<std::pair<uint64_t, uint64_t>>& offsets) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  out.reserve(offsets.size());
  for (const auto& [begin, end] : offsets)
    out.emplace_back(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
  return out;
}

// Neighbours of one owner become one interval, as the oracle writes them.
std::vector<golden::OwnedInterval> OwnersOf(const chat::Rendered& rendered) {
  std::vector<golden::OwnedInterval> out;
  for (const chat::Span& span : rendered.Spans()) {
    if (span.begin == span.end) continue;
    if (!out.empty() && out.back().owner == span.owner) {
      out.back().end = span.end;
    } else {
      out.push_back({span.begin, span.end, span.owner});
    }
  }
  return out;
}

// Every token must have a row of the embedding. Rows without a token are the publisher's padding.
Status CheckVocabulary(const tokenizer::Tokenizer& tokenizer, uint64_t n_rows) {
  if (tokenizer.vocab_size() <= n_rows) return {};
  return Fail(
      MakeError(ErrorCode::kCfgVocabShape, "the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                                               " ids, the embedding " + std::to_string(n_rows) + " rows")
          .Field("tokenizer-json"));
}

}  // namespace

tokenizer::LoadOptions TokenizerOptionsOf(const Artifact& artifact) {
  tokenizer::LoadOptions options;
  for (const cbor::Value& row : *artifact.manifest().Find("accepted_conflicts")->AsArray()) {
    options.Accept(*row.AsMap()->Find("code")->AsTextString());
  }
  return options;
}

Result<std::shared_ptr<const TextHalf>> TextHalf::Open(const Artifact& artifact) {
  auto half = std::shared_ptr<TextHalf>(new TextHalf());
  SLM_ASSIGN(const std::optional<ByteSpan> text, OptionalBlob(artifact, "tokenizer-json"));
  if (text) {
    SLM_ASSIGN(half->tokenizer_,
               tokenizer::Tokenizer::FromJson(std::string(AsText(*text)), TokenizerOptionsOf(artifact)));
    SLM_ASSIGN(const uint64_t n_rows, cbor::Reader(artifact.config(), "config").Uint("vocab_size"));
    SLM_TRY(CheckVocabulary(*half->tokenizer_, n_rows));
  }
  SLM_ASSIGN(const std::optional<ByteSpan> ir, OptionalBlob(artifact, "template-ir"));
  if (ir) {
    auto loaded = chat::Template::Load(*ir);
    if (!loaded.has_value()) return Fail(std::move(loaded).error().Field("template-ir"));
    half->template_ = *std::move(loaded);
  }
  SLM_ASSIGN(const std::optional<ByteSpan> config, OptionalBlob(artifact, "tokenizer-config"));
  if (config) {
    SLM_ASSIGN(half->special_tokens_, SpecialTokensOf(AsText(*config)));
  }
  return half;
}

Result<Prompt> TextHalf::Prepare(const CaseSpec& spec) const {
  Prompt prompt;
  if (spec.kind == golden::InputKind::kTokenIds) {
    prompt.ids = spec.ids;
    return prompt;
  }
  if (tokenizer_ == nullptr) {
    return Fail(
        MakeError(ErrorCode::kUnsupported, "the artifact has no tokenizer; give token ids").Field(spec.id));
  }
  std::string text(AsText(spec.data));
  tokenizer::EncodeOptions options;
  options.add_special_tokens = spec.add_special_tokens;
  options.truncation = options.padding = false;
  if (spec.kind == golden::InputKind::kMessages) {
    if (!template_)
      return Fail(MakeError(ErrorCode::kTplMissing, "the artifact has no chat template").Field(spec.id));
    const std::string context = "{\"messages\":" + text + ",\"add_generation_prompt\":" +
                                (spec.add_generation_prompt ? "true" : "false") + "}";
    SLM_ASSIGN(const json::Document document, json::Parse(context));
    SLM_ASSIGN(prompt.rendered,
               template_->Render(document.root(), {.special_tokens = special_tokens_, .clock = ""}));
    text = prompt.rendered->text;
    options.add_special_tokens = false;
  }
  SLM_ASSIGN(prompt.encoding, tokenizer_->Encode(text, options));
  prompt.ids = prompt.encoding->ids;
  return prompt;
}

Result<CaseText> TextHalf::TextOf(const CaseSpec& spec) const {
  SLM_ASSIGN(const Prompt prompt, Prepare(spec));
  CaseText text;
  text.ids = prompt.ids;
  if (prompt.rendered) {
    text.rendered = Bytes(prompt.rendered->text.begin(), prompt.rendered->text.end());
    text.ownership = OwnersOf(*prompt.rendered);
  }
  if (prompt.encoding) {
    golden::Tokenization tokenization;
    tokenization.reference = "published";
    tokenization.of = prompt.rendered ? "rendered" : "input";
    tokenization.add_special_tokens = !prompt.rendered && spec.add_special_tokens;
    tokenization.ids = prompt.encoding->ids;
    tokenization.byte_offsets = Narrow(prompt.encoding->byte_offsets);
    tokenization.scalar_offsets = Narrow(prompt.encoding->scalar_offsets);
    SLM_ASSIGN(const std::string decoded, VisibleBytes(tokenization.ids));
    tokenization.decoded = Bytes(decoded.begin(), decoded.end());
    text.tokenization = std::move(tokenization);
  }
  return text;
}

Result<std::string> TextHalf::VisibleBytes(const std::vector<uint32_t>& ids) const {
  if (tokenizer_ == nullptr) return std::string();
  return tokenizer_->Decode(ids, tokenizer::DecodeMode::kVisible);
}

}  // namespace slm::evidence
