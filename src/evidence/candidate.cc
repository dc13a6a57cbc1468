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

Result<std::shared_ptr<const Candidate>> Candidate::Open(std::shared_ptr<const Artifact> artifact) {
  auto candidate = std::shared_ptr<Candidate>(new Candidate());
  candidate->artifact_ = artifact;
  SLM_ASSIGN(candidate->model_, Model::Load(artifact));
  if (const auto text = artifact->Blob("tokenizer-json"); text.has_value()) {
    SLM_ASSIGN(candidate->tokenizer_, tokenizer::Tokenizer::FromJson(std::string(AsText(*text))));
  }
  if (const auto ir = artifact->Blob("template-ir"); ir.has_value()) {
    SLM_ASSIGN(candidate->template_, chat::Template::Load(*ir));
  }
  if (const auto config = artifact->Blob("tokenizer-config"); config.has_value()) {
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
