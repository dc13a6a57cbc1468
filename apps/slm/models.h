// What stands for a tokenizer or a chat template on the command line (docs: `slm --help`).
#ifndef SLM_APPS_SLM_MODELS_H_
#define SLM_APPS_SLM_MODELS_H_

#include <memory>
#include <string>

#include "base/error.h"
#include "records/render_record.h"
#include "tokenizer/tokenizer.h"

namespace slm::app {

// A directory (its tokenizer.json), a tokenizer.json, a SentencePiece .model, or a .slm file. Errors
// name the file.
[[nodiscard]] Result<std::shared_ptr<const tokenizer::Tokenizer>> OpenTokenizer(
    const std::string& path, const tokenizer::LoadOptions& options = {});
// The text of that tokenizer.json.
[[nodiscard]] Result<std::string> ReadTokenizerJson(const std::string& path);

using records::TemplateModel;

// A directory (chat_template.jinja, or chat_template in tokenizer_config.json), a .jinja file, or a
// .slm file. TPL-MISSING; TPL-AMBIGUOUS where two differ or several have no default.
[[nodiscard]] Result<TemplateModel> OpenTemplateModel(const std::string& path);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_MODELS_H_
