#include "evidence/candidate.h"

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

Result<std::shared_ptr<const Candidate>> Candidate::Open(const std::shared_ptr<const Artifact>& artifact) {
  auto candidate = std::shared_ptr<Candidate>(new Candidate());
  candidate->artifact_ = artifact;
  SLM_ASSIGN(candidate->model_, Model::Load(artifact));
  SLM_ASSIGN(const std::optional<ByteSpan> text, OptionalBlob(*artifact, "tokenizer-json"));
  if (text) {
    SLM_ASSIGN(candidate->tokenizer_,
               tokenizer::Tokenizer::FromJson(std::string(AsText(*text)), TokenizerOptionsOf(*artifact)));
    SLM_TRY(CheckVocabulary(*candidate->tokenizer_, candidate->model_->config().vocab_size));
  }
  SLM_ASSIGN(const std::optional<ByteSpan> ir, OptionalBlob(*artifact, "template-ir"));
  if (ir) {
    auto loaded = chat::Template::Load(*ir);
    if (!loaded.has_value()) return Fail(std::move(loaded).error().Field("template-ir"));
    candidate->template_ = *std::move(loaded);
  }
  SLM_ASSIGN(const std::optional<ByteSpan> config, OptionalBlob(*artifact, "tokenizer-config"));
  if (config) {
    SLM_ASSIGN(candidate->special_tokens_, SpecialTokensOf(AsText(*config)));
  }
  return candidate;
}

Result<Prompt> Candidate::Prepare(const CaseSpec& spec) const {
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

}  // namespace slm::evidence
