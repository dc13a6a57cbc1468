#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <utility>

#include "chat/analysis.h"
#include "chat/isolated.h"
#include "chat/template.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "convert/ledger.h"
#include "convert/manifest_build.h"
#include "convert/tensor_stream.h"
#include "convert/weights.h"
#include "slm_file/artifact_writer.h"
#include "slm_file/manifest.h"
#include "tokenizer/tokenizer.h"

namespace slm::convert {
namespace {

constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kGenerationFile = "generation_config.json";
constexpr std::string_view kTokenizerFile = "tokenizer.json";
constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";
// Templates of processors, which the pinned source's tokenizer does not read.
constexpr std::array<std::string_view, 3> kProcessorFiles = {"chat_template.json", "processor_config.json",
                                                             "preprocessor_config.json"};

// Files that go into the artifact byte for byte, in the order of the data region.
struct TextFile {
  std::string_view kind, path;
};
constexpr std::array<TextFile, 5> kTextFiles = {{{"tokenizer-json", kTokenizerFile},
                                                 {"tokenizer-config", kTokenizerConfigFile},
                                                 {"special-tokens-map", "special_tokens_map.json"},
                                                 {"config-json", kConfigFile},
                                                 {"generation-config", kGenerationFile}}};
constexpr std::array<std::string_view, 5> kLicenseFiles = {"LICENSE", "LICENSE.txt", "LICENSE.md", "License",
                                                           "license.txt"};

struct TextBlob {
  std::string kind;
  Bytes bytes;
};

Result<json::Document> ParseJsonFile(SourceTree* tree, std::string_view path) {
  SLM_ASSIGN(const ByteSpan bytes, tree->Read(path));
  Result<json::Document> document = json::Parse(std::string(AsText(bytes)));
  if (!document) return Fail(std::move(document).error().In(path));
  return document;
}

Error TemplateError(const json::Value& at, std::string_view file, std::string message) {
  return MakeError(ErrorCode::kTplAmbiguous, std::move(message))
      .At(at.byte_offset())
      .In(file)
      .Field("chat_template");
}

// One chat template of the source.
struct SourceTemplate {
  std::string name;  // "default", or the name in a list or of a file
  std::string file;
  std::string ref;  // as a choice names it
  std::string text;
};

constexpr std::string_view kDefaultName = "default";
constexpr std::string_view kTemplateFolder = "additional_chat_templates/";

// The templates under "chat_template": one text, or a list of named ones.
Status CollectTemplates(const json::Value& root, std::string_view file, std::vector<SourceTemplate>* found) {
  const std::optional<json::Value> value = root.is_object() ? root.Find("chat_template") : std::nullopt;
  if (!value || value->is_null()) return {};
  const auto ref = [&](const json::Value& at) { return std::string(file) + "#" + at.Path(); };
  if (value->is_string()) {
    found->push_back(
        {std::string(kDefaultName), std::string(file), ref(*value), std::string(value->string())});
    return {};
  }
  if (!value->is_array())
    return Fail(TemplateError(*value, file, "chat_template is neither text nor a list"));
  for (const json::Value item : value->children()) {
    const std::optional<json::Value> name = item.is_object() ? item.Find("name") : std::nullopt;
    const std::optional<json::Value> text = item.is_object() ? item.Find("template") : std::nullopt;
    if (!name || !name->is_string() || !text || !text->is_string()) {
      return Fail(TemplateError(item, file, "a named template needs the texts name and template"));
    }
    found->push_back(
        {std::string(name->string()), std::string(file), ref(*text), std::string(text->string())});
  }
  return {};
}

// The template engine drops one newline at the end of a template by itself.
std::string_view WithoutLastNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// The row of an error's name; null for a name that is none.
const ErrorInfo* FindError(std::string_view name) {
  size_t n_rows = 0;
  const ErrorInfo* rows = ErrorTable(&n_rows);
  const ErrorInfo* found =
      std::find_if(rows, rows + n_rows, [&](const ErrorInfo& row) { return row.name == name; });
  return found == rows + n_rows ? nullptr : found;
}

class Converter {
 public:
  Converter(const Source& source, const Options& options)
      : source_(source), options_(options), tree_(source), profile_(FamilyProfile::Llama()) {}

  using Writer = std::function<Result<WrittenArtifact>(const ArtifactSpec&)>;

  Result<ConvertResult> Run(const Writer& write) {
    Result<ConvertResult> result = Write(write);
    // Whatever went wrong, it went wrong over other bytes than those that were acquired.
    if (!result) SLM_TRY(tree_.FinishChecks());
    return result;
  }

 private:
  Result<ConvertResult> Write(const Writer& write) {
    SLM_ASSIGN(weights_, LoadWeights(&tree_, source_.weights));
    SLM_TRY(ApplyChoices());
    SLM_TRY(tree_.StartChecks());
    SLM_TRY(ReadConfig());
    SLM_ASSIGN(ledger_, BuildLedger(config_.config, tree_, weights_, policy_.tied.value_or(false)));
    SLM_TRY(ReadTexts());
    ArtifactSpec spec;
    spec.on_progress = options_.on_progress;
    for (const TextBlob& text : texts_) {
      spec.blobs.push_back(
          {text.kind, text.bytes.size(), [&text](const BlobSink& sink) { return sink(text.bytes); }});
    }
    for (const LedgerRow& row : ledger_.rows) {
      if (row.spec.alias_of) continue;
      spec.blobs.push_back({std::string(kTensorBlobKind),
                            *StoredSize(row.spec.shape, row.spec.layout, row.dtype),
                            [this, &row](const BlobSink& sink) { return WriteTensor(row, sink); }});
    }
    spec.manifest = [this](std::span<const BlobEntry> blobs) {
      return BuildManifest(source_, tree_, profile_, config_, ledger_, blobs);
    };
    spec.before_publish = [this] { return tree_.FinishChecks(); };
    SLM_ASSIGN(WrittenArtifact written, write(spec));
    return Finish(std::move(written));
  }

  Status ReadConfig() {
    SLM_ASSIGN(const json::Document config, ParseJsonFile(&tree_, kConfigFile));
    std::optional<json::Document> generation;
    if (tree_.Has(kGenerationFile)) {
      SLM_ASSIGN(generation, ParseJsonFile(&tree_, kGenerationFile));
    }
    const json::Value generation_root = generation ? generation->root() : json::Value();
    SLM_ASSIGN(config_, BuildLlamaConfig(config.root(), generation ? &generation_root : nullptr, profile_,
                                         policy_, weights_.first_dtype));
    RecordChoices();
    return {};
  }

  // What a person chose, as the configuration is built: which declaration of a token holds, and whether
  // the tied flag does.
  Status ApplyChoices() {
    policy_ = options_.policy;
    for (const Choice& choice : options_.choices) {
      if (choice.code == Info(ErrorCode::kCfgTied).name) {
        policy_.tied = choice.ref.starts_with(kConfigFile);
      } else if (choice.code == Info(ErrorCode::kCfgConflictEos).name ||
                 choice.code == Info(ErrorCode::kCfgConflictBos).name ||
                 choice.code == Info(ErrorCode::kCfgConflictPad).name) {
        policy_.accepted_conflicts.push_back(choice.field);
        policy_.holding.push_back(choice.ref);
        SLM_TRY(ResolveHeldToken(choice));
      }
    }
    return {};
  }

  // "tokenizer_config.json#$.eos_token" to the id that tokenizer.json gives that text.
  Status ResolveHeldToken(const Choice& choice) {
    const std::string file = choice.ref.substr(0, choice.ref.find('#'));
    if (file == kConfigFile || file == kGenerationFile) return {};
    const std::string key = choice.field.substr(0, choice.field.size() - std::string_view("_id").size());
    SLM_ASSIGN(const json::Document document, ParseJsonFile(&tree_, file));
    auto value = document.root().is_object() ? document.root().Find(key) : std::nullopt;
    if (value && value->is_object()) value = value->Find("content");
    if (value && value->is_string() && choice.ref == file + "#" + value->Path()) {
      SLM_ASSIGN(const ByteSpan bytes, tree_.Read(kTokenizerFile));
      auto loaded = tokenizer::Tokenizer::FromJson(std::string(AsText(bytes)), TokenizerOptions());
      if (!loaded) return Fail(std::move(loaded).error().In(kTokenizerFile));
      if (const auto id = (*loaded)->TokenToId(value->string())) {
        policy_.held_tokens.push_back({choice.field, choice.ref, {*id}});
        return {};
      }
    }
    return Fail(MakeError(ErrorCode::kDecisionBad, "no token of the tokenizer stands at " + choice.ref)
                    .In(file)
                    .Field("choice"));
  }

  // Every choice stands in the artifact, also where building the configuration met no contradiction.
  void RecordChoices() {
    for (const Choice& choice : options_.choices) {
      const auto is_same = [&](const AcceptedConflict& row) {
        return row.field == choice.field && Info(row.code).name == choice.code;
      };
      std::vector<AcceptedConflict>& rows = config_.accepted_conflicts;
      if (std::any_of(rows.begin(), rows.end(), is_same)) continue;
      const ErrorInfo* info = FindError(choice.code);
      if (info != nullptr)
        rows.push_back({info->code, choice.field, choice.ref + " holds", "conflict " + choice.conflict});
    }
  }

  Status ReadTexts() {
    for (const TextFile& file : kTextFiles) {
      if (tree_.Has(file.path)) {
        SLM_TRY(AddText(std::string(file.kind), file.path));
      }
    }
    SLM_TRY(CheckTokenizer());
    SLM_TRY(AddTemplate());
    for (const std::string_view path : kLicenseFiles) {
      if (!tree_.Has(path)) continue;
      SLM_TRY(AddText("license", path));
      break;
    }
    if (tree_.Has("README.md")) {
      SLM_TRY(AddText("model-card", "README.md"));
    }
    return {};
  }

  Status AddText(std::string kind, std::string_view path) {
    SLM_ASSIGN(const ByteSpan bytes, tree_.Read(path));
    texts_.push_back({std::move(kind), Bytes(bytes.begin(), bytes.end())});
    return {};
  }

  // Of what tokenizer.json says twice, differently, only what a person settled is taken.
  [[nodiscard]] tokenizer::LoadOptions TokenizerOptions() const {
    tokenizer::LoadOptions options;
    for (const Choice& choice : options_.choices) options.Accept(choice.code);
    return options;
  }

  // The published tokenizer must load, and must not give ids that the embedding does not have.
  Status CheckTokenizer() {
    SLM_ASSIGN(const ByteSpan bytes, tree_.Read(kTokenizerFile));
    auto loaded = tokenizer::Tokenizer::FromJson(std::string(AsText(bytes)), TokenizerOptions());
    if (!loaded) return Fail(std::move(loaded).error().In(kTokenizerFile));
    const uint64_t n_ids = (*loaded)->vocab_size();
    if (n_ids <= config_.config.vocab_size) return {};
    return Fail(MakeError(ErrorCode::kCfgVocabShape, "the tokenizer has ids up to " +
                                                         std::to_string(n_ids - 1) + ", the embedding has " +
                                                         std::to_string(config_.config.vocab_size) + " rows")
                    .In(kTokenizerFile)
                    .Field("vocab_size"));
  }

  // Every template of the source, the one that the pinned source calls default first.
  Result<std::vector<SourceTemplate>> Templates() {
    std::vector<SourceTemplate> found;
    const auto add_file = [&](const std::string& path, std::string name) -> Status {
      SLM_ASSIGN(const ByteSpan bytes, tree_.Read(path));
      found.push_back({std::move(name), path, path, std::string(AsText(bytes))});
      return {};
    };
    const auto add_json = [&](std::string_view path) -> Status {
      if (!tree_.Has(path)) return {};
      SLM_ASSIGN(const json::Document document, ParseJsonFile(&tree_, path));
      return CollectTemplates(document.root(), path, &found);
    };
    if (tree_.Has(kTemplateFile)) SLM_TRY(add_file(std::string(kTemplateFile), std::string(kDefaultName)));
    SLM_TRY(add_json(kTokenizerConfigFile));
    for (const SourceFile& file : tree_.files()) {
      if (!file.path.starts_with(kTemplateFolder) || !file.path.ends_with(".jinja")) continue;
      const size_t size = file.path.size() - kTemplateFolder.size() - std::string_view(".jinja").size();
      SLM_TRY(add_file(file.path, file.path.substr(kTemplateFolder.size(), size)));
    }
    for (const std::string_view path : kProcessorFiles) SLM_TRY(add_json(path));
    return found;
  }

  // The one template that the artifact carries: the chosen one, or the only one.
  Result<const SourceTemplate*> PickTemplate(const std::vector<SourceTemplate>& found) {
    for (const Choice& choice : options_.choices) {
      if (choice.code != Info(ErrorCode::kTplAmbiguous).name) continue;
      for (const SourceTemplate& one : found) {
        if (one.ref == choice.ref) return &one;
      }
      return Fail(MakeError(ErrorCode::kDecisionBad, "the source has no chat template at " + choice.ref)
                      .Field("choice"));
    }
    for (const SourceTemplate& one : found) {
      const bool is_same = one.name == found.front().name &&
                           WithoutLastNewline(one.text) == WithoutLastNewline(found.front().text);
      if (is_same && one.name == kDefaultName) continue;
      return Fail(MakeError(ErrorCode::kTplAmbiguous,
                            one.name == kDefaultName
                                ? one.ref + " and " + found.front().ref + " hold different templates"
                                : "the source has a chat template named " + one.name +
                                      ", and an artifact carries one template: a person must choose")
                      .In(one.file)
                      .Field("chat_template"));
    }
    const bool is_for_processors = !found.empty() && std::find(kProcessorFiles.begin(), kProcessorFiles.end(),
                                                               found.front().file) != kProcessorFiles.end();
    return found.empty() || is_for_processors ? nullptr : &found.front();
  }

  Status AddTemplate() {
    SLM_ASSIGN(const std::vector<SourceTemplate> found, Templates());
    SLM_ASSIGN(const SourceTemplate* carried, PickTemplate(found));
    if (carried == nullptr) return {};
    for (const SourceTemplate& one : found) {
      if (one.name == carried->name) continue;
      // Rendering reads the names: with tools the pinned source takes the one called tool_use.
      config_.accepted_conflicts.push_back({ErrorCode::kTplAmbiguous, "chat_template." + one.name,
                                            "carried: " + carried->name + " (" + carried->ref + ")",
                                            "left out: " + one.ref});
    }
    Result<chat::Template> compiled = chat::CompileIsolated(carried->text);
    if (!compiled) return Fail(std::move(compiled).error().In(carried->file));
    texts_.push_back({"template-source", Bytes(carried->text.begin(), carried->text.end())});
    texts_.push_back({"template-ir", compiled->Serialize()});
    template_report_ = chat::AnalysisJson(chat::Analyze(*compiled));
    return {};
  }

  Status WriteTensor(const LedgerRow& row, const BlobSink& sink) {
    const SourceTensor& tensor = *row.sources.front();
    Status status = StreamTensor(tensor.bytes, row.spec.shape, row.dtype, row.spec.layout, sink);
    if (status || status.error().code != ErrorCode::kNonfinite) return status;
    Error error = std::move(status).error();
    error.message = tensor.name + ": " + error.message;
    error.file = tree_.files()[tensor.file].path;
    error.byte_offset = tensor.begin + error.byte_offset.value_or(0);
    error.field = tensor.name;
    return Fail(std::move(error));
  }

  ConvertResult Finish(WrittenArtifact written) {
    ConvertResult result;
    result.root = written.root;
    result.file_size = written.file_size;
    for (const LedgerRow& row : ledger_.rows) ++(row.spec.alias_of ? result.n_aliases : result.n_stored);
    result.n_omitted = ledger_.omitted.size();
    result.file_sha256 = written.file_sha256;
    Outputs outputs{.root = written.root,
                    .file_sha256 = written.file_sha256,
                    .file_size = written.file_size,
                    .manifest = &written.manifest,
                    .tokenizer_blob = tree_.files()[*tree_.Index(kTokenizerFile)].blob,
                    .tokenizer_reference = std::string(tokenizer::kReferenceVersion),
                    .template_source_blob = std::nullopt,
                    .template_ir_blob = std::nullopt,
                    .template_report = template_report_};
    for (TextBlob& text : texts_) {
      const bool is_source = text.kind == "template-source";
      if (!is_source && text.kind != "template-ir") continue;
      (is_source ? outputs.template_source_blob : outputs.template_ir_blob) = Sha256Of(text.bytes);
      result.blobs.push_back(std::move(text.bytes));
    }
    result.nodes = BuildNodes(source_, profile_, config_, outputs);
    result.artifact_node = NodeId(result.nodes.back());
    result.manifest = std::move(written.manifest);
    result.config = std::move(config_);
    return result;
  }

  const Source& source_;
  const Options& options_;
  SourceTree tree_;
  const FamilyProfile& profile_;
  Weights weights_;
  ConfigPolicy policy_;
  ConfigResult config_;
  Ledger ledger_;
  std::vector<TextBlob> texts_;
  std::string template_report_;
};

}  // namespace

Result<ConvertResult> Convert(const Source& source, const Options& options, const std::string& out_path) {
  return Converter(source, options).Run([&](const ArtifactSpec& spec) {
    return WriteArtifact(out_path, spec);
  });
}

Result<ConvertResult> Convert(const Source& source, const Options& options, OutputFile* out) {
  return Converter(source, options).Run([&](const ArtifactSpec& spec) { return WriteArtifact(out, spec); });
}

}  // namespace slm::convert
