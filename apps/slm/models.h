// What stands for a tokenizer or a chat template on the command line (docs: `slm --help`).
#ifndef SLM_APPS_SLM_MODELS_H_
#define SLM_APPS_SLM_MODELS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "chat/template.h"
#include "codec/json.h"
#include "tokenizer/tokenizer.h"

namespace slm::app {

// A directory (its tokenizer.json), a tokenizer.json, a SentencePiece .model, or a .slm file. Errors
// name the file.
[[nodiscard]] Result<std::shared_ptr<const tokenizer::Tokenizer>> OpenTokenizer(
    const std::string& path, const tokenizer::LoadOptions& options = {});
// The text of that tokenizer.json.
[[nodiscard]] Result<std::string> ReadTokenizerJson(const std::string& path);

// A chat template and the special tokens that its variables name.
struct TemplateModel {
  std::string name;                                                 // for messages
  std::string source;                                               // Jinja; empty where only the IR is there
  Bytes ir;                                                         // from a .slm
  std::vector<std::pair<std::string, std::string>> special_tokens;  // ("bos_token", "<s>"), ...
  std::vector<std::string> left_out;  // names of further templates of the source

  // With `tools` the pinned source takes the template named tool_use where there is one
  // (tokenization_utils_base.py, get_chat_template). Error: TPL-AMBIGUOUS where this is another.
  [[nodiscard]] Status CheckContext(const json::Value& context) const;

  // From the IR where there is one, else from the source, in a child process.
  [[nodiscard]] Result<chat::Template> Compile() const;
};

// A directory (chat_template.jinja, or chat_template in tokenizer_config.json), a .jinja file, or a
// .slm file. TPL-MISSING; TPL-AMBIGUOUS where two differ or several have no default.
[[nodiscard]] Result<TemplateModel> OpenTemplateModel(const std::string& path);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_MODELS_H_
