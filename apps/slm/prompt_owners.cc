#include "apps/slm/prompt_owners.h"

namespace slm::app {

Result<std::optional<prompt::TokenOwners>> OwnersOfPrompt(const evidence::Candidate& candidate,
                                                          const evidence::CaseSpec& spec,
                                                          const evidence::Prompt& prompt) {
  if (candidate.tokenizer() == nullptr || !prompt.encoding) return std::optional<prompt::TokenOwners>();
  prompt::PromptText text;
  if (prompt.rendered) {
    text.text = prompt.rendered->text;
    text.spans = prompt.rendered->Spans();
  } else {
    text.text = AsText(spec.data);
    text.tokenizer_adds = spec.add_special_tokens;
  }
  return prompt::OwnersOf(*candidate.tokenizer(), candidate.text()->special_tokens(), text);
}

}  // namespace slm::app
