// An artifact opened for running: bound model, tokenizer, chat template, all from the artifact's own
// bytes. Immutable; sessions are made from it. Any thread may read.
#ifndef SLM_EVIDENCE_CANDIDATE_H_
#define SLM_EVIDENCE_CANDIDATE_H_

#include <memory>

#include "base/error.h"
#include "evidence/text_half.h"
#include "runtime/bound_model.h"
#include "slm_file/artifact.h"

namespace slm::evidence {

class Candidate {
 public:
  // Errors: those of Model::Load and TextHalf::Open.
  [[nodiscard]] static Result<std::shared_ptr<const Candidate>> Open(
      const std::shared_ptr<const Artifact>& artifact);

  [[nodiscard]] const std::shared_ptr<const Artifact>& artifact_handle() const { return artifact_; }
  [[nodiscard]] const Artifact& artifact() const { return *artifact_; }
  [[nodiscard]] const std::shared_ptr<const Model>& model() const { return model_; }
  [[nodiscard]] const std::shared_ptr<const TextHalf>& text() const { return text_; }

  // Of text(); null where the artifact has none.
  [[nodiscard]] const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const {
    return text_->tokenizer();
  }
  [[nodiscard]] const chat::Template* chat_template() const { return text_->chat_template(); }
  [[nodiscard]] Result<Prompt> Prepare(const CaseSpec& spec) const { return text_->Prepare(spec); }

 private:
  Candidate() = default;
  std::shared_ptr<const Artifact> artifact_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const TextHalf> text_;
};

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_CANDIDATE_H_
