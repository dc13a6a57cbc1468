#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <utility>

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

Error TemplateError(const json::Value& at, std::string message) {
  return MakeError(ErrorCode::kTplAmbiguous, std::move(message))
      .At(at.byte_offset())
      .In(kTokenizerConfigFile)
      .Field("chat_template");
}

// The template of tokenizer_config.json: one text, or the one named "default" of a list.
Result<std::optional<std::string>> DeclaredTemplate(const json::Value& config) {
  const std::optional<json::Value> value = config.is_object() ? config.Find("chat_template") : std::nullopt;
  if (!value || value->is_null()) return std::optional<std::string>();
  if (value->is_string()) return std::optional(std::string(value->string()));
  std::optional<std::string> chosen;
  if (value->is_array()) {
    for (const json::Value item : value->children()) {
      const std::optional<json::Value> name = item.is_object() ? item.Find("name") : std::nullopt;
      const std::optional<json::Value> text = item.is_object() ? item.Find("template") : std::nullopt;
      if (!name || !name->is_string() || !text || !text->is_string()) {
        return Fail(TemplateError(item, "a named template needs the texts name and template"));
      }
      if (name->string() == "default") chosen = text->string();
    }
  }
  if (!chosen) return Fail(TemplateError(*value, "several chat templates, and none is named default"));
  return chosen;
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
    SLM_TRY(tree_.StartChecks());
    SLM_TRY(ReadConfig());
    SLM_ASSIGN(ledger_, BuildLedger(config_.config, tree_, weights_));
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
                                         options_.policy, weights_.first_dtype));
    return {};
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

  // The published tokenizer must load, and must not give ids that the embedding does not have.
  Status CheckTokenizer() {
    SLM_ASSIGN(const ByteSpan bytes, tree_.Read(kTokenizerFile));
    auto loaded = tokenizer::Tokenizer::FromJson(std::string(AsText(bytes)));
    if (!loaded) return Fail(std::move(loaded).error().In(kTokenizerFile));
    const uint64_t n_ids = (*loaded)->vocab_size();
    if (n_ids <= config_.config.vocab_size) return {};
    return Fail(MakeError(ErrorCode::kCfgVocabShape, "the tokenizer has ids up to " +
                                                         std::to_string(n_ids - 1) + ", the embedding has " +
                                                         std::to_string(config_.config.vocab_size) + " rows")
                    .In(kTokenizerFile)
                    .Field("vocab_size"));
  }

  Status AddTemplate() {
    std::optional<std::string> declared;
    if (tree_.Has(kTokenizerConfigFile)) {
      SLM_ASSIGN(const json::Document document, ParseJsonFile(&tree_, kTokenizerConfigFile));
      SLM_ASSIGN(declared, DeclaredTemplate(document.root()));
    }
    std::string_view path = kTokenizerConfigFile;
    if (tree_.Has(kTemplateFile)) {
      SLM_ASSIGN(const ByteSpan bytes, tree_.Read(kTemplateFile));
      const std::string text(AsText(bytes));
      if (declared && *declared != text) {
        return Fail(MakeError(ErrorCode::kTplAmbiguous,
                              "chat_template.jinja and tokenizer_config.json hold different templates")
                        .In(kTemplateFile)
                        .Field("chat_template"));
      }
      declared = text;
      path = kTemplateFile;
    }
    if (!declared) return {};
    Result<chat::Template> compiled = chat::CompileIsolated(*declared);
    if (!compiled) return Fail(std::move(compiled).error().In(path));
    texts_.push_back({"template-source", Bytes(declared->begin(), declared->end())});
    texts_.push_back({"template-ir", compiled->Serialize()});
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
                    .template_ir_blob = std::nullopt};
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
  ConfigResult config_;
  Ledger ledger_;
  std::vector<TextBlob> texts_;
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
