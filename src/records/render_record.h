// Records of render (docs/spec/cli.md, "Batches"; TPL-05), and what stands for a chat template in them.
// Plain data and functions, any thread.
#ifndef SLM_RECORDS_RENDER_RECORD_H_
#define SLM_RECORDS_RENDER_RECORD_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "chat/template.h"
#include "records/record.h"
#include "slm_file/artifact.h"

namespace slm::records {

using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// How a template's source becomes a program (TPL-01). The command converts in a process of its own
// (chat/isolated.h), the C ABI takes programs that are converted already.
using ConvertTemplate = std::function<Result<chat::Template>(std::string_view source)>;

// A chat template and the special tokens that its variables name.
struct TemplateModel {
  std::string name;                   // for messages
  std::string source;                 // Jinja; empty where only the IR is there
  Bytes ir;                           // from a .slm
  SpecialTokens special_tokens;       // ("bos_token", "<s>"), ...
  std::vector<std::string> left_out;  // names of further templates of the source

  // With `tools` the pinned source takes the template named tool_use where there is one
  // (tokenization_utils_base.py, get_chat_template). Error: TPL-AMBIGUOUS where this is another.
  [[nodiscard]] Status CheckContext(const json::Value& context) const;

  // From the IR where there is one, else from the source. Errors name `name`.
  [[nodiscard]] Result<chat::Template> Compile(const ConvertTemplate& convert) const;
};

// Conversion costs: the model's template is converted once, and so are records in a row that bring the same
// one. The model outlives the cache. One thread at a time.
class TemplateCache {
 public:
  TemplateCache(const TemplateModel& model, ConvertTemplate convert)
      : model_(&model), convert_(std::move(convert)) {}
  [[nodiscard]] const TemplateModel& model() const { return *model_; }
  // Of `source`, or the model's own. Valid until the next call.
  [[nodiscard]] const Result<chat::Template>& Compile(std::optional<std::string_view> source);

 private:
  const TemplateModel* model_;
  ConvertTemplate convert_;
  std::optional<Result<chat::Template>> own_;
  std::optional<Result<chat::Template>> last_;
  std::string last_source_;
};

// Special tokens of tokenizer_config.json or special_tokens_map.json, which say them as text or as an
// object with `content`. What stands in `out` already is kept.
void CollectSpecialTokens(json::Value config, SpecialTokens* out);

// The template of an artifact. Errors: TPL-MISSING, SLM-BLOB-HASH, those of json::Parse; `name` is the
// artifact's in them.
[[nodiscard]] Result<TemplateModel> TemplateOfArtifact(const Artifact& artifact, const std::string& name);

// {"context", "template", "clock"}. An error of the template carries the stage, and its place in it.
[[nodiscard]] RecordStatus RenderRecord(TemplateCache& templates, const json::Value& record,
                                        json::Writer& out);

// "text", "spans", "insertion_ownership" and "generation_prefix" of the answer.
void WriteRendered(const chat::Rendered& rendered, json::Writer& out);
// Where an error of a template's own text stands.
[[nodiscard]] ErrorPlace PlaceIn(std::string_view source, const Error& error, std::string_view stage);
[[nodiscard]] ErrorPlace PlaceOf(const chat::SourcePlace& place, std::string_view stage);

}  // namespace slm::records

#endif  // SLM_RECORDS_RENDER_RECORD_H_
