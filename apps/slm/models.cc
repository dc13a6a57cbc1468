#include "apps/slm/models.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "acquire/acquisition.h"
#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "chat/gguf_template.h"
#include "chat/isolated.h"
#include "codec/json.h"
#include "evidence/candidate.h"
#include "model/artifact_check.h"
#include "slm_file/artifact.h"
#include "slm_file/mapped_file.h"
#include "store/store.h"

namespace slm::app {
namespace {

constexpr std::string_view kTokenizerFile = "tokenizer.json";
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

// The files of a source: of a directory, or of an acquisition in a store.
class SourceFolder {
 public:
  // None where MODEL is a file, or nothing that is known: opening it then says what is wrong.
  static Result<std::optional<SourceFolder>> Find(const ModelName& model) {
    if (IsDirectory(model.text)) return SourceFolder(model.text);
    struct stat info{};
    if (stat(model.text.c_str(), &info) == 0 || !LooksLikeId(model.text))
      return std::optional<SourceFolder>();
    auto store = Store::Open(model.store_directory, {.create = false, .read_only = true});
    if (!store.has_value()) {
      return Fail(MakeError(ErrorCode::kNotFound,
                            "neither a file nor, without a store, an acquisition; name the "
                            "store with --store")
                      .In(model.text));
    }
    SLM_ASSIGN(const Hash256 id, ResolveNode(**store, model.text));
    SLM_ASSIGN(acquire::Acquisition acquisition, acquire::LoadAcquisition(**store, id));
    SourceFolder folder(model.text);
    folder.store_ = *std::move(store);
    folder.acquisition_ = std::move(acquisition);
    return folder;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string NameOf(std::string_view file) const { return Join(name_, file); }

  // The text of a file; none if it is not there.
  [[nodiscard]] Result<std::optional<std::string>> Read(std::string_view file, uint64_t max_bytes) const {
    if (store_ != nullptr) {
      const acquire::SourceFile* found = acquisition_.Find(file);
      if (found == nullptr) return std::optional<std::string>();
      SLM_ASSIGN(const Bytes bytes, store_->ReadBlob(found->blob, max_bytes));
      return std::optional(std::string(AsText(bytes)));
    }
    const std::string path = NameOf(file);
    if (!IsFile(path)) return std::optional<std::string>();
    SLM_ASSIGN(std::string text, ReadTextFile(path, max_bytes));
    return std::optional(std::move(text));
  }

  // Names of the files NAME.jinja in the folder of further templates.
  [[nodiscard]] std::vector<std::string> NamedTemplates() const {
    constexpr std::string_view kFolder = "additional_chat_templates/";
    std::vector<std::string> names;
    const auto take = [&names](const std::filesystem::path& path) {
      if (path.extension() == ".jinja") names.push_back(path.stem().string());
    };
    for (const acquire::SourceFile& file : acquisition_.files) {
      if (file.path.starts_with(kFolder)) take(file.path);
    }
    if (store_ != nullptr) return names;
    std::error_code ended;
    for (std::filesystem::directory_iterator at(NameOf(kFolder), ended), end; !ended && at != end;
         at.increment(ended)) {
      take(at->path());
    }
    return names;
  }

 private:
  explicit SourceFolder(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::shared_ptr<const Store> store_;  // null: a directory
  acquire::Acquisition acquisition_;
};

// The template engine drops one newline at the end of a template by itself.
std::string_view WithoutLastNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Reads one JSON file of a source, if it is there, and hands its root on.
Status WithConfig(const SourceFolder& folder, std::string_view file,
                  const std::function<Status(json::Value)>& use) {
  const std::string path = folder.NameOf(file);
  SLM_ASSIGN(std::optional<std::string> text, folder.Read(file, kMaxConfigBytes));
  if (!text) return {};
  auto document = json::Parse(*std::move(text));
  if (!document) return Fail(std::move(document).error().In(path));
  if (!document->root().is_object()) {
    return Fail(MakeError(ErrorCode::kJsonType, "the file must hold one JSON object").At(0).In(path));
  }
  Status used = use(document->root());
  if (!used) return Fail(std::move(used).error().In(path));
  return {};
}

Result<TemplateModel> OpenTemplateSource(const SourceFolder& folder) {
  TemplateModel out;
  std::optional<std::string> in_config;
  SLM_TRY(WithConfig(folder, "tokenizer_config.json", [&](json::Value config) -> Status {
    records::CollectSpecialTokens(config, &out.special_tokens);
    SLM_ASSIGN(in_config, TemplateOfConfig(config, &out.left_out));
    return {};
  }));
  SLM_TRY(WithConfig(folder, "special_tokens_map.json", [&](json::Value config) -> Status {
    records::CollectSpecialTokens(config, &out.special_tokens);
    return {};
  }));
  const std::vector<std::string> files = folder.NamedTemplates();
  out.left_out.insert(out.left_out.end(), files.begin(), files.end());
  out.name = folder.NameOf("chat_template.jinja");
  SLM_ASSIGN(std::optional<std::string> in_file, folder.Read("chat_template.jinja", kMaxConfigBytes));
  if (in_file) {
    out.source = *std::move(in_file);
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
                    .In(folder.name())
                    .Field("chat_template"));
  }
  if (!in_config) {
    return Fail(MakeError(ErrorCode::kTplMissing, "the source has no chat template").In(folder.name()));
  }
  out.name = folder.NameOf("tokenizer_config.json");
  out.source = *std::move(in_config);
  return out;
}

Result<TemplateModel> OpenTemplateArtifact(const std::string& path) {
  SLM_ASSIGN(const std::shared_ptr<const Artifact> artifact, OpenArtifact(path));
  return records::TemplateOfArtifact(*artifact, path);
}

// To be held against the template of the source that a GGUF file was made from.
Result<TemplateModel> OpenGgufTemplate(const std::string& path) {
  SLM_ASSIGN(const auto file, MappedFile::Open(path));
  SLM_ASSIGN(chat::GgufTemplate read, Named(chat::ReadGgufTemplate(file->bytes()), path));
  if (!read.source)
    return Fail(MakeError(ErrorCode::kTplMissing, "the GGUF metadata holds no chat template").In(path));
  TemplateModel out;
  out.name = path;
  out.source = *std::move(read.source);
  out.special_tokens = std::move(read.special_tokens);
  return out;
}

}  // namespace

Result<std::shared_ptr<const tokenizer::Tokenizer>> OpenTokenizer(const ModelName& model,
                                                                  const tokenizer::LoadOptions& options) {
  const std::string& path = model.text;
  if (path.ends_with(".model") && !IsDirectory(path)) {
    SLM_ASSIGN(const std::string file, ReadTextFile(path, kMaxTokenizerBytes));
    return Named(tokenizer::Tokenizer::FromSentencePiece(AsBytes(file)), path);
  }
  if (path.ends_with(".gguf") && !IsDirectory(path)) {
    SLM_ASSIGN(const auto file, MappedFile::Open(path));
    return Named(tokenizer::Tokenizer::FromGguf(file->bytes(), options), path);
  }
  SLM_ASSIGN(const std::optional<SourceFolder> folder, SourceFolder::Find(model));
  if (folder) {
    const std::string name = folder->NameOf(kTokenizerFile);
    SLM_ASSIGN(std::optional<std::string> text, folder->Read(kTokenizerFile, kMaxTokenizerBytes));
    if (!text) return Fail(MakeError(ErrorCode::kNotFound, "the source has no tokenizer.json").In(name));
    return Named(tokenizer::Tokenizer::FromJson(*std::move(text), options), name);
  }
  if (path.ends_with(".slm")) {
    SLM_ASSIGN(const std::shared_ptr<const Artifact> artifact, OpenArtifact(path));
    SLM_ASSIGN(std::string text, ReadBlob(*artifact, "tokenizer-json", path));
    tokenizer::LoadOptions decided = evidence::TokenizerOptionsOf(*artifact);
    decided.lenient = options.lenient;
    return Named(tokenizer::Tokenizer::FromJson(std::move(text), decided), path);
  }
  SLM_ASSIGN(std::string text, ReadTextFile(path, kMaxTokenizerBytes));
  return Named(tokenizer::Tokenizer::FromJson(std::move(text), options), path);
}

Result<std::vector<std::string>> VocabulariesIn(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code fault;
  for (std::filesystem::directory_iterator at(directory, fault), end; !fault && at != end;
       at.increment(fault)) {
    const std::string name = at->path().filename().string();
    if ((name == kTokenizerFile || name.ends_with(".model") || name.ends_with(".gguf")) && IsFile(at->path()))
      files.push_back(Join(directory, name));
  }
  if (fault) return Fail(MakeError(ErrorCode::kIo, "the directory cannot be read").In(directory));
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return std::pair(!a.ends_with(".json"), a) < std::pair(!b.ends_with(".json"), b);
  });
  return files;
}

bool MayHoldTokenizer(const ModelName& model) {
  return model.text.ends_with(".slm") || IsDirectory(model.text) ||
         (!IsFile(model.text) && LooksLikeId(model.text));
}

Result<TemplateModel> OpenTemplateModel(const ModelName& model) {
  const std::string& path = model.text;
  SLM_ASSIGN(const std::optional<SourceFolder> folder, SourceFolder::Find(model));
  if (folder) return OpenTemplateSource(*folder);
  if (path.ends_with(".slm")) return OpenTemplateArtifact(path);
  if (path.ends_with(".gguf")) return OpenGgufTemplate(path);
  if (path.ends_with(".model")) {
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
