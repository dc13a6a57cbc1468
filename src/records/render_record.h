// Records of render (docs/spec/cli.md, "Batches"; TPL-05), and what stands for a chat template in them.
// Plain data and functions, any thread.
#ifndef SLM_RECORDS_RENDER_RECORD_H_
#define SLM_RECORDS_RENDER_RECORD_H_

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

// A chat template and the special tokens that its variables name.
struct TemplateModel {
  std::string name;              // for messages
  std::string source;            // Jinja; empty where only the IR is there
  Bytes ir;                      // from a .slm
  SpecialTokens special_tokens;  // ("bos_token", "<s>"), ...

  // From the IR where there is one, else from the source. Errors name `name`.
  [[nodiscard]] Result<chat::Template> Compile() const;
};

// Special tokens of tokenizer_config.json or special_tokens_map.json, which say them as text or as an
// object with `content`. What stands in `out` already is kept.
void CollectSpecialTokens(json::Value config, SpecialTokens* out);

// The template of an artifact. Errors: TPL-MISSING, SLM-BLOB-HASH, those of json::Parse; `name` is the
// artifact's in them.
[[nodiscard]] Result<TemplateModel> TemplateOfArtifact(const Artifact& artifact, const std::string& name);

// {"context", "template", "clock"}. An error of the template carries the stage, and its place in it.
[[nodiscard]] RecordStatus RenderRecord(const TemplateModel& model, const json::Value& record,
                                        json::Writer& out);

// "text", "spans" and "insertion_ownership" of the answer.
void WriteRendered(const chat::Rendered& rendered, json::Writer& out);
// Where an error of a template's own text stands.
[[nodiscard]] ErrorPlace PlaceIn(std::string_view source, const Error& error, std::string_view stage);

}  // namespace slm::records

#endif  // SLM_RECORDS_RENDER_RECORD_H_
