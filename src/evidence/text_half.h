// The text half of an artifact: tokenizer and chat template, what turns a case into ids and ids into text. It
// needs the artifact's texts (Artifact::FromTexts) and no weights; a Candidate is this and the model.
// Immutable; any thread may read.
#ifndef SLM_EVIDENCE_TEXT_HALF_H_
#define SLM_EVIDENCE_TEXT_HALF_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/template.h"
#include "evidence/case_text.h"
#include "evidence/cases_file.h"
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

class TextHalf {
 public:
  // Copies what it needs. Errors: those of Tokenizer::FromJson, Template::Load; CFG-VOCAB-SHAPE for a
  // tokenizer with more ids than the model has rows.
  [[nodiscard]] static Result<std::shared_ptr<const TextHalf>> Open(const Artifact& artifact);

  // Null where the artifact has none.
  [[nodiscard]] const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const chat::Template* chat_template() const { return template_ ? &*template_ : nullptr; }

  // By name, as tokenizer_config.json declares them; empty where the artifact has none.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& special_tokens() const {
    return special_tokens_;
  }

  // Renders and encodes. Messages are encoded with special tokens off: the template wrote them. Truncation
  // and padding that tokenizer.json declares are not applied: Transformers switches both off at each call.
  // Errors: UNSUPPORTED where the artifact has no tokenizer, TPL-MISSING without a template, and those of
  // the tokenizer and the template.
  [[nodiscard]] Result<Prompt> Prepare(const CaseSpec& spec) const;
  // The same as a container keeps it. Errors: those of Prepare.
  [[nodiscard]] Result<CaseText> TextOf(const CaseSpec& spec) const;
  // The visible bytes of generated ids, as a container keeps them; none without a tokenizer.
  [[nodiscard]] Result<std::string> VisibleBytes(const std::vector<uint32_t>& ids) const;

 private:
  TextHalf() = default;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::optional<chat::Template> template_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

// bos_token and the like from tokenizer_config.json: each a text, or an object with `content`.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> SpecialTokensOf(
    std::string_view tokenizer_config);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_TEXT_HALF_H_
