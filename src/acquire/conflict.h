// Where a source contradicts itself (LVL-03, ACQ-12). Pure functions on parsed files; any thread.
#ifndef SLM_ACQUIRE_CONFLICT_H_
#define SLM_ACQUIRE_CONFLICT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acquire/file_stream.h"
#include "acquire/profile.h"
#include "base/error.h"
#include "codec/json.h"
#include "identity/node.h"

namespace slm::acquire {

// One statement of one file.
struct Declaration {
  std::string file;       // path in the tree
  std::string json_path;  // "$.eos_token_id"; empty where the whole file declares
  uint64_t byte_offset = 0;
  std::string value;     // as it stands in the file, cut to 256 bytes
  bool can_hold = true;  // false: no artifact could hold it, so a statement cannot choose it

  // How a decision names it: "config.json#$.eos_token_id", or the file alone.
  [[nodiscard]] std::string Ref() const { return json_path.empty() ? file : file + "#" + json_path; }
};

struct Conflict {
  ErrorCode code{};
  std::string field;                      // "eos_token_id", "chat_template", a tensor's name
  std::vector<Declaration> declarations;  // the one that is out of line first
  std::string message;
  bool acceptable = true;  // false: no decision can mend it
  std::string why_not{};   // why no statement can settle it; may be empty
};

// The files of a source as far as conflicts concern them. Pointers may be null. Documents outlive
// the view.
struct SourceView {
  const StreamedFile* config_file = nullptr;
  std::optional<json::Value> config;
  std::optional<json::Value> generation_config;
  std::optional<json::Value> tokenizer_config;
  std::optional<json::Value> special_tokens_map;
  std::optional<json::Value> tokenizer;
  std::optional<json::Value> added_tokens;
  std::optional<json::Value> chat_template_json;
  std::optional<json::Value> processor_config;
  std::optional<json::Value> preprocessor_config;
  const StreamedFile* model_card = nullptr;
  std::vector<const StreamedFile*> templates;  // chat_template.jinja and additional ones
  std::vector<const StreamedFile*> weights;    // that a choice did not set aside
};

// All contradictions, in a fixed order. `flags` receives what agrees but is worth a record.
[[nodiscard]] std::vector<Conflict> FindConflicts(const SourceView& view, const Profile& profile,
                                                  std::vector<std::string>* flags);
void FindTokenConflicts(const SourceView& view, std::vector<Conflict>* conflicts,
                        std::vector<std::string>* flags);
// Contradictions inside tokenizer.json that its library passes over: an added token's id, a token, a merge or
// an id that stands twice, a gap between ids.
void FindTokenizerConflicts(const SourceView& view, std::vector<Conflict>* conflicts);
void FindTemplateConflicts(const SourceView& view, std::vector<Conflict>* conflicts,
                           std::vector<std::string>* flags);

// The tensor that the profile calls the embedding (or output), with its file; nulls if absent.
struct PlacedTensor {
  const StreamedFile* file = nullptr;
  const safetensors::TensorInfo* tensor = nullptr;
};
[[nodiscard]] PlacedTensor FindTensor(const SourceView& view, const std::vector<std::string>& names);

// The `conflict` node. `file_node` gives the source-file node of a path.
[[nodiscard]] Node ConflictNode(const Conflict& conflict,
                                const std::function<Hash256(const std::string& path)>& file_node);

// At most the first 256 bytes, cut between two characters; escaped where they are not UTF-8.
[[nodiscard]] std::string ShortenedText(std::string_view text);

// A declaration of a JSON value.
[[nodiscard]] Declaration Declare(std::string_view file, json::Value value);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_CONFLICT_H_
