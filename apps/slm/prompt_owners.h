// Who emits BOS and EOS in a prompt of an artifact (TPL-05).
#ifndef SLM_APPS_SLM_PROMPT_OWNERS_H_
#define SLM_APPS_SLM_PROMPT_OWNERS_H_

#include <optional>

#include "base/error.h"
#include "evidence/candidate.h"
#include "prompt/token_owners.h"

namespace slm::app {

// Nothing where the prompt is ids. `prompt` is what the candidate made of `spec`. Errors: those of the
// artifact's tokenizer_config.json.
[[nodiscard]] Result<std::optional<prompt::TokenOwners>> OwnersOfPrompt(const evidence::Candidate& candidate,
                                                                        const evidence::CaseSpec& spec,
                                                                        const evidence::Prompt& prompt);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_PROMPT_OWNERS_H_
