#include "apps/slm/models.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "apps/slm/commands.h"
#include "chat/isolated.h"
#include "codec/json.h"
#include "model/artifact_check.h"
#include "slm_file/artifact.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;

bool IsFile(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string Join(const std::string& directory, std::string_view name) {
  return directory + (directory.ends_with('/') ? "" : "/") + std::string(name);
}

template <typename T>
Result<T> Named(Result<T> result, const std::string& path) {
  if (result) return result;
  return Fail(std::move(result).error().In(path));
}

Result<std::shared_ptr<const Artifact>> OpenArtifact(const std::string& path) {
  SLM_ASSIGN(auto artifact, Artifact::OpenFile(path, Verify::kHeaderOnly));
  auto checked = CheckModelArtifact(*artifact);
  if (!checked) return Fail(std::move(checked).error().In(path));
  return artifact;
}

Result<std::string> ReadBlob(const Artifact& artifact, std::string_view kind, const std::string& path) {
  SLM_ASSIGN(const ByteSpan bytes, Named(artifact.Blob(kind), path));
  return std::string(AsText(bytes));
}

// chat_template of tokenizer_config.json: text, or a list of named ones of which "default" counts.
Result<std::optional<std::string>> TemplateOfConfig(json::Value config, std::vector<std::string>* left_out) {
  const auto value = config.Find("chat_template");
  if (!value || value->is_null()) return std::optional<std::string>();
  if (value->is_string()) return std::optional<std::string>(value->string());
  const auto wrong = [&value](std::string message) -> std::unexpected<Error> {
    return Fail(
        MakeError(ErrorCode::kTplInput, std::move(message)).At(value->byte_offset()).Field("chat_template"));
  };
  if (!value->is_array()) return wrong("chat_template is neither text nor a list");
  std::optional<std::string> chosen;
  for (const json::Value item : value->children()) {
    const auto name = item.is_object() ? item.Find("name") : std::nullopt;
    const auto text = item.is_object() ? item.Find("template") : std::nullopt;
    if (!name || !name->is_string() || !text || !text->is_string())
      return wrong("an entry of chat_template lacks name or template");
    if (name->string() == "default") {
      chosen = text->string();
    } else {
      left_out->emplace_back(name->string());
    }
  }
  return chosen;
}

// Names of the files NAME.jinja in the folder of further templates.
std::vector<std::string> NamedTemplateFiles(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ended;
  for (std::filesystem::directory_iterator at(Join(directory, "additional_chat_templates"), ended), end;
       !ended && at != end; at.increment(ended)) {
    if (at->path().extension() == ".jinja") names.push_back(at->path().stem().string());
  }
  return names;
}

// The template engine drops one newline at the end of a template by itself.
std::string_view WithoutLastNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Reads one JSON file of a directory, if it is there, and hands its root on.
Status WithConfig(const std::string& path, const std::function<Status(json::Value)>& use) {
  if (!IsFile(path)) return {};
  SLM_ASSIGN(std::string text, ReadTextFile(path, kMaxConfigBytes));
  auto document = json::Parse(std::move(text));
  if (!document) return Fail(std::move(document).error().In(path));
  if (!document->root().is_object()) {
    return Fail(MakeError(ErrorCode::kJsonType, "the file must hold one JSON object").At(0).In(path));
  }
  Status used = use(document->root());
  if (!used) return Fail(std::move(used).error().In(path));
  return {};
}

Result<TemplateModel> OpenTemplateDirectory(const std::string& directory) {
  TemplateModel out;
  std::optional<std::string> in_config;
  SLM_TRY(WithConfig(Join(directory, "tokenizer_config.json"), [&](json::Value config) -> Status {
    records::CollectSpecialTokens(config, &out.special_tokens);
    SLM_ASSIGN(in_config, TemplateOfConfig(config, &out.left_out));
    return {};
  }));
  SLM_TRY(WithConfig(Join(directory, "special_tokens_map.json"), [&](json::Value config) -> Status {
    records::CollectSpecialTokens(config, &out.special_tokens);
    return {};
  }));
  const std::vector<std::string> files = NamedTemplateFiles(directory);
  out.left_out.insert(out.left_out.end(), files.begin(), files.end());
  out.name = Join(directory, "chat_template.jinja");
  if (IsFile(out.name)) {
    SLM_ASSIGN(out.source, ReadTextFile(out.name, kMaxConfigBytes));
    if (in_config && WithoutLastNewline(*in_config) != WithoutLastNewline(out.source)) {
      return Fail(MakeError(ErrorCode::kTplAmbiguous,
                            "chat_template.jinja and tokenizer_config.json hold different templates")
                      .In(out.name)
                      .Field("chat_template"));
    }
    return out;
  }
  if (!in_config && !out.left_out.empty()) {
    return Fail(MakeError(ErrorCode::kTplAmbiguous,
                          "no chat template is called default, there is " + out.left_out.front())
                    .In(directory)
                    .Field("chat_template"));
  }
  if (!in_config) {
    return Fail(MakeError(ErrorCode::kTplMissing, "the source has no chat template").In(directory));
  }
  out.name = Join(directory, "tokenizer_config.json");
  out.source = *std::move(in_config);
  return out;
}

Result<TemplateModel> OpenTemplateArtifact(const std::string& path) {
  SLM_ASSIGN(const std::shared_ptr<const Artifact> artifact, OpenArtifact(path));
  return records::TemplateOfArtifact(*artifact, path);
}

}  // namespace

Result<std::string> ReadTokenizerJson(const std::string& path) {
  if (IsDirectory(path)) return ReadTextFile(Join(path, "tokenizer.json"), kMaxTokenizerBytes);
  if (path.ends_with(".slm")) {
    SLM_ASSIGN(const std::shared_ptr<const Artifact> artifact, OpenArtifact(path));
    return ReadBlob(*artifact, "tokenizer-json", path);
  }
  if (path.ends_with(".model") || path.ends_with(".gguf")) {
    return Fail(MakeError(ErrorCode::kTokUnsupported, "vocabularies of this kind are not run by this version")
                    .In(path));
  }
  return ReadTextFile(path, kMaxTokenizerBytes);
}

Result<std::shared_ptr<const tokenizer::Tokenizer>> OpenTokenizer(const std::string& path,
                                                                  const tokenizer::LoadOptions& options) {
  if (path.ends_with(".model") && !IsDirectory(path)) {
    SLM_ASSIGN(const std::string file, ReadTextFile(path, kMaxTokenizerBytes));
    return Named(tokenizer::Tokenizer::FromSentencePiece(AsBytes(file)), path);
  }
  SLM_ASSIGN(std::string text, ReadTokenizerJson(path));
  const std::string name = IsDirectory(path) ? Join(path, "tokenizer.json") : path;
  return Named(tokenizer::Tokenizer::FromJson(std::move(text), options), name);
}

Result<TemplateModel> OpenTemplateModel(const std::string& path) {
  if (IsDirectory(path)) return OpenTemplateDirectory(path);
  if (path.ends_with(".slm")) return OpenTemplateArtifact(path);
  if (path.ends_with(".model") || path.ends_with(".gguf")) {
    return Fail(
        MakeError(ErrorCode::kUnsupported,
                  "chat templates in files of this kind are not read by this version; give the source "
                  "directory or a .jinja file")
            .In(path));
  }
  TemplateModel out;
  out.name = path;
  SLM_ASSIGN(out.source, ReadTextFile(path, kMaxConfigBytes));
  return out;
}

}  // namespace slm::app
