// What stands for a tokenizer or a chat template on the command line (docs: `slm --help`).
#ifndef SLM_APPS_SLM_MODELS_H_
#define SLM_APPS_SLM_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "records/render_record.h"
#include "tokenizer/tokenizer.h"

namespace slm::app {

// MODEL as it stands on the command line, and the store in which an id is looked up. What is no file and
// looks like an id is an acquisition of that store.
struct ModelName {
  std::string text;
  std::string store_directory;
};

// A directory (its tokenizer.json), a tokenizer.json, a SentencePiece .model, the vocabulary of a .gguf, a
// .slm file or an acquisition. Errors name the file.
[[nodiscard]] Result<std::shared_ptr<const tokenizer::Tokenizer>> OpenTokenizer(
    const ModelName& model, const tokenizer::LoadOptions& options = {});
// The vocabularies that lie in a directory: tokenizer.json first, then *.model and *.gguf by name. IO.
[[nodiscard]] Result<std::vector<std::string>> VocabulariesIn(const std::string& directory);
// Whether a tokenizer may stand beside the template: not with a .jinja file alone.
[[nodiscard]] bool MayHoldTokenizer(const ModelName& model);

using records::TemplateModel;

// A directory or an acquisition (chat_template.jinja, or chat_template in tokenizer_config.json), a .jinja
// file, a .slm file, or the metadata of a .gguf file. TPL-MISSING; TPL-AMBIGUOUS where two differ or several
// have no default.
[[nodiscard]] Result<TemplateModel> OpenTemplateModel(const ModelName& model);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_MODELS_H_
