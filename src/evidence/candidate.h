// An artifact opened for running: bound model, tokenizer, chat template, all from the artifact's own
// bytes. Immutable; sessions are made from it. Any thread may read.
#ifndef SLM_EVIDENCE_CANDIDATE_H_
#define SLM_EVIDENCE_CANDIDATE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/template.h"
#include "evidence/cases_file.h"
#include "runtime/bound_model.h"
#include "slm_file/artifact.h"
#include "tokenizer/tokenizer.h"

namespace slm::evidence {

// A prompt as the model will see it, with everything on the way there (TPL-05).
struct Prompt {
  std::vector<uint32_t> ids;
  std::optional<chat::Rendered> rendered;       // messages only
  std::optional<tokenizer::Encoding> encoding;  // text and messages
};

// How an artifact's tokenizer is loaded: as its source's decisions say (`accepted_conflicts` of the
// manifest).
[[nodiscard]] tokenizer::LoadOptions TokenizerOptionsOf(const Artifact& artifact);

class Candidate {
 public:
  // Errors: those of Model::Load, Tokenizer::FromJson, Template::Load.
  [[nodiscard]] static Result<std::shared_ptr<const Candidate>> Open(
      const std::shared_ptr<const Artifact>& artifact);

  [[nodiscard]] const Artifact& artifact() const { return *artifact_; }
  [[nodiscard]] const std::shared_ptr<const Model>& model() const { return model_; }
  // Null where the artifact has none.
  [[nodiscard]] const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const chat::Template* chat_template() const { return template_ ? &*template_ : nullptr; }

  // Renders and encodes. Messages are encoded with special tokens off: the template wrote them. Truncation
  // and padding that tokenizer.json declares are not applied: Transformers switches both off at each call.
  // Errors: UNSUPPORTED where the artifact has no tokenizer, TPL-MISSING without a template, and those of
  // the tokenizer and the template.
  [[nodiscard]] Result<Prompt> Prepare(const CaseSpec& spec) const;

 private:
  Candidate() = default;
  std::shared_ptr<const Artifact> artifact_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::optional<chat::Template> template_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

// bos_token and the like from tokenizer_config.json: each a text, or an object with `content`.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> SpecialTokensOf(
    std::string_view tokenizer_config);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_CANDIDATE_H_
