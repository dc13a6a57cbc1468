#include "apps/slm/chain.h"

#include <algorithm>
#include <filesystem>

#include "apps/slm/build_info.h"
#include "apps/slm/commands.h"
#include "base/utf8.h"
#include "codec/sha256.h"
#include "evidence/bindings.h"
#include "evidence/candidate.h"
#include "evidence/observe.h"
#include "evidence/receipt.h"
#include "slm_file/mapped_file.h"
#include "slm_file/output_file.h"
#include "tokenizer/difference.h"

namespace slm::app {
namespace {

Result<Hash256> HashFile(const std::string& path) {
  SLM_ASSIGN(const auto file, MappedFile::Open(path));
  file->AdviseSequential();
  return Sha256Of(file->bytes());
}

Hash256 HexOrZero(const char* hex) {
  Hash256 hash{};
  if (!HashFromHex(hex, &hash)) hash = Hash256{};
  return hash;
}

std::string IdsText(const std::vector<uint32_t>& ids) {
  std::string out;
  for (size_t i = 0; i < ids.size() && i < 32; ++i) out += (i > 0 ? " " : "") + std::to_string(ids[i]);
  return ids.size() > 32 ? out + " ..." : out;
}

struct TokenizerConflict {
  std::string text;
  std::string published_ids, effective_ids;
  Bytes effective_json;
};

std::vector<uint32_t> IdsOf(const cbor::Map& map, std::string_view key) {
  std::vector<uint32_t> ids;
  const cbor::Value* value = map.Find(key);
  if (value == nullptr || value->AsByteString() == nullptr) return ids;
  const Bytes& bytes = *value->AsByteString();
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) ids.push_back(LoadLe<uint32_t>(bytes.data() + i));
  return ids;
}

// The difference that the oracle found, if it found one.
std::optional<TokenizerConflict> OracleFinding(const cbor::Map& tokenizer) {
  const cbor::Value* finding = tokenizer.Find("first_difference");
  if (finding == nullptr || finding->AsMap() == nullptr) return std::nullopt;
  const cbor::Value* text = finding->AsMap()->Find("text");
  if (text == nullptr || text->AsByteString() == nullptr) return std::nullopt;
  return TokenizerConflict{std::string(AsText(*text->AsByteString())),
                           IdsText(IdsOf(*finding->AsMap(), "published_ids")),
                           IdsText(IdsOf(*finding->AsMap(), "effective_ids")),
                           {}};
}

// The oracle's own finding, then our search on the two files; the shorter text is kept. Evidence of a
// large tokenizer holds the effective file's hash alone: then the oracle's finding is what there is.
Result<std::optional<TokenizerConflict>> FindTokenizerConflict(const golden::Golden& evidence,
                                                               const tokenizer::Tokenizer& published) {
  std::optional<TokenizerConflict> found = OracleFinding(evidence.content().tokenizer);
  const golden::Attachment* attachment = evidence.FindAttachment("effective-tokenizer.json");
  if (attachment == nullptr) return found;
  const ByteSpan effective_json = evidence.BlobBytes(attachment->blob);
  // A file that this version refuses to load can still differ by the oracle's word.
  const auto effective =
      tokenizer::Tokenizer::FromJson(std::string(AsText(effective_json)), {.lenient = true});
  if (effective.has_value()) {
    const tokenizer::DifferenceReport report = tokenizer::FindShortestDifference(published, **effective);
    if (report.difference && (!found || report.difference->text.size() < found->text.size())) {
      found = TokenizerConflict{report.difference->text,
                                IdsText(report.difference->first_ids),
                                IdsText(report.difference->second_ids),
                                {}};
    }
  }
  if (found) found->effective_json.assign(effective_json.begin(), effective_json.end());
  return found;
}

Node TokenizerConflictNode(const TokenizerConflict& conflict, const Hash256& file_node,
                           const std::optional<Hash256>& effective_blob) {
  const auto declaration = [](std::string_view file, std::string_view ref, const std::string& value) {
    const Bytes path(file.begin(), file.end());
    return cbor::Map{{"file", path}, {"json_path", ""}, {"byte_offset", 0}, {"value", value}, {"ref", ref}};
  };
  Node node;
  node.type = "conflict";
  node.metadata = cbor::Map{
      {"schema", "slm.conflict.v1"},
      {"code", Info(ErrorCode::kTokConflict).name},
      {"field", "tokenizer"},
      {"declarations", cbor::Array{declaration("tokenizer.json", "published", conflict.published_ids),
                                   declaration("tokenizer.json", "effective", conflict.effective_ids)}},
      {"acceptable", true},
      {"input", Bytes(conflict.text.begin(), conflict.text.end())}};
  if (effective_blob) node.metadata.Set("effective_blob", *effective_blob);
  node.edges.push_back({"file", file_node});
  return node;
}

class Chain {
 public:
  Chain(Store& store, const ChainRequest& request)
      : store_(store), request_(request), source_(SourceOver(store)) {}

  Result<ChainResult> Run() {
    SLM_ASSIGN(statements_, SortStatements(request_.statement_paths));
    SLM_TRY(ReadInputs());
    SLM_TRY(Acquire());
    SLM_TRY(CheckEvidence());
    SLM_TRY(ConvertSource());
    SLM_TRY(OpenCandidate());
    SLM_TRY(SettleTokenizer());
    SLM_TRY(ObserveCandidate());
    return Promote();
  }

 private:
  void Progress(std::string_view stage, uint64_t done, uint64_t total) const {
    if (request_.on_progress) request_.on_progress(stage, done, total);
  }

  Status ReadInputs() {
    SLM_ASSIGN(const std::string cases, ReadTextFile(request_.cases_path, kMaxCasesBytes));
    parts_.cases.assign(cases.begin(), cases.end());
    auto parsed = evidence::ParseCases(cases);
    if (!parsed.has_value()) return Fail(std::move(parsed).error().In(request_.cases_path));
    cases_ = *std::move(parsed);
    SLM_ASSIGN(const std::string policy, ReadTextFile(request_.policy_path, kMaxPolicyBytes));
    parts_.policy_json.assign(policy.begin(), policy.end());
    auto checked = compare::ParsePolicy(policy);
    if (!checked.has_value()) return Fail(std::move(checked).error().In(request_.policy_path));
    for (const std::string& path : request_.evidence_paths) {
      SLM_ASSIGN(const Hash256 blob, PutFile(store_, path));
      auto opened = evidence::OpenGoldenBlob(source_, blob);
      if (!opened.has_value()) return Fail(std::move(opened).error().In(path));
      containers_.push_back(*std::move(opened));
      parts_.evidence_blobs.push_back(blob);
    }
    std::vector<const golden::Golden*> raw;
    for (const auto& container : containers_) raw.push_back(container.get());
    SLM_ASSIGN(evidence_, compare::SortEvidence(raw));
    if (!raw.empty() && evidence_.reference == nullptr) {
      return Fail(ErrorCode::kUsage,
                  "evidence without a container of mode reference; export one and give it too");
    }
    return {};
  }

  Status Acquire() {
    if (!IsDirectory(request_.source)) {
      SLM_TRY(RefuseAcquisitionStatements(statements_));
      SLM_ASSIGN(const Hash256 id, ResolveNode(store_, request_.source));
      SLM_ASSIGN(result_.acquisition, acquire::LoadAcquisition(store_, id));
    } else {
      acquire::DirectoryRequest directory;
      directory.directory = request_.source;
      directory.store_directory = request_.store_directory;
      directory.name = request_.name.empty()
                           ? std::filesystem::path(request_.source).lexically_normal().filename().string()
                           : request_.name;
      directory.revision = request_.revision.empty() ? "unversioned" : request_.revision;
      directory.decision_paths = TakeAcquisitionPaths(&statements_);
      directory.accept_conflict_paths = statements_.accept_conflict_paths;
      directory.on_progress = [this](const acquire::Progress& progress) {
        Progress("acquire", progress.bytes_done, progress.bytes_total);
      };
      SLM_ASSIGN(result_.acquisition, acquire::AcquireDirectory(store_, directory));
    }
    parts_.acquisition = result_.acquisition.id;
    parts_.license_decision = result_.acquisition.license;
    parts_.conflicts = result_.acquisition.conflicts;
    parts_.decisions = result_.acquisition.decisions;
    return {};
  }

  // Before the long work: evidence of another oracle, source or suite is refused at once.
  Status CheckEvidence() {
    SLM_ASSIGN(const Node acquisition, store_.GetNode(parts_.acquisition));
    SLM_ASSIGN(const evidence::SourceFiles files, evidence::FilesOfAcquisition(source_, acquisition));
    const evidence::OraclePin pin{.framework = FamilyProfile::Llama().pinned_source(),
                                  .tokenizer = std::string(tokenizer::kReferenceVersion)};
    for (size_t i = 0; i < containers_.size(); ++i) {
      auto status = evidence::CheckEvidenceOfPin(pin, *containers_[i]);
      if (status.has_value()) status = evidence::CheckSameExporter(*containers_.front(), *containers_[i]);
      if (status.has_value()) status = evidence::CheckEvidenceOfSource(files, *containers_[i]);
      if (status.has_value())
        status = evidence::CheckEvidenceOfCases(Sha256Of(parts_.cases), *containers_[i]);
      if (!status.has_value()) return Fail(std::move(status).error().In(request_.evidence_paths[i]));
    }
    return {};
  }

  Status ConvertSource() {
    convert::Options options = OptionsOf(result_.acquisition);
    SLM_TRY(ApplyConfigFields(statements_.config_fields, result_.acquisition, &options.policy));
    for (const acquire::Decision& decision : statements_.config_fields) {
      SLM_TRY(store_.PutBlob(decision.statement));
      SLM_ASSIGN(const Hash256 id, store_.PutNode(acquire::DecisionNode(decision)));
      parts_.decisions.push_back(id);
    }
    options.on_progress = [this](uint64_t done, uint64_t total) { Progress("convert", done, total); };
    SLM_ASSIGN(const auto file, OutputFile::CreateUnnamed(request_.work_directory));
    SLM_ASSIGN(result_.converted,
               convert::Convert(SourceOf(result_.acquisition, store_), options, file.get()));
    SLM_ASSIGN(result_.artifact_blob, PutFile(store_, file->ReadPath()));
    for (const Bytes& blob : result_.converted.blobs) SLM_TRY(store_.PutBlob(blob));
    for (const Node& node : result_.converted.nodes) SLM_TRY(store_.PutNode(node));
    parts_.artifact_node = result_.converted.artifact_node;
    return {};
  }

  Status OpenCandidate() {
    SLM_ASSIGN(const std::string path, store_.BlobPath(result_.artifact_blob));
    SLM_ASSIGN(auto artifact, Artifact::OpenFile(path, Verify::kAllChunks));
    SLM_ASSIGN(candidate_, evidence::Candidate::Open(std::move(artifact)));
    return {};
  }

  // What AutoTokenizer builds of this source against the published file (L1 has two references).
  // A statement that nothing asks for is refused, and so is a second one about the same conflict.
  [[nodiscard]] Status UnneededTokenizer(const std::optional<Hash256>& conflict) const {
    bool is_settled = false;
    for (const acquire::Decision& decision : statements_.tokenizer) {
      if (conflict && decision.AppliesTo(*conflict) && !is_settled) {
        is_settled = true;
        continue;
      }
      return Fail(UnneededStatement(decision.path));
    }
    return {};
  }

  Status SettleTokenizer() {
    if (evidence_.reference == nullptr || candidate_->tokenizer() == nullptr) return UnneededTokenizer({});
    SLM_ASSIGN(const auto found, FindTokenizerConflict(*evidence_.reference, *candidate_->tokenizer()));
    if (!found) return UnneededTokenizer({});
    const acquire::SourceFile* file = result_.acquisition.Find("tokenizer.json");
    if (file == nullptr) return Fail(ErrorCode::kInternal, "a tokenizer without its file");
    std::optional<Hash256> effective;
    if (!found->effective_json.empty()) {
      SLM_ASSIGN(effective, store_.PutBlob(found->effective_json));
    }
    SLM_ASSIGN(const Hash256 conflict, store_.PutNode(TokenizerConflictNode(*found, file->node, effective)));
    for (const acquire::Decision& decision : statements_.tokenizer) {
      if (!decision.AppliesTo(conflict)) continue;
      SLM_TRY(UnneededTokenizer(conflict));
      if (decision.ChoiceText() != "published") {
        return Fail(MakeError(ErrorCode::kUnsupported,
                              "only \"published\" can be chosen: the artifact holds the published file")
                        .In(decision.path)
                        .Field("choice"));
      }
      SLM_TRY(store_.PutBlob(decision.statement));
      SLM_ASSIGN(const Hash256 id, store_.PutNode(acquire::DecisionNode(decision, {{"conflict", conflict}})));
      parts_.conflicts.push_back(conflict);
      parts_.decisions.push_back(id);
      return {};
    }
    SLM_TRY(store_.AppendLog("conflict", std::span(&conflict, 1)));
    return Fail(
        MakeError(ErrorCode::kTokConflict,
                  "AutoTokenizer builds another tokenizer than the published file; shortest input \"" +
                      found->text + "\": published " + found->published_ids + ", effective " +
                      found->effective_ids +
                      "; decide with --decision (kind tokenizer, choice published, applies_to " +
                      ToHex(conflict) + ")")
            .In("tokenizer.json")
            .Field("tokenizer"));
  }

  Status ObserveCandidate() {
    evidence::ObserveOptions options;
    options.like = evidence_.reference;
    options.cases_sha256 = Sha256Of(parts_.cases);
    options.cases_name = request_.cases_path;
    options.on_progress = [this](uint64_t done, uint64_t total) { Progress("observe", done, total); };
    SLM_ASSIGN(auto blob, store_.NewBlob());
    SLM_TRY(evidence::Observe(*candidate_, cases_, options,
                              [&blob](ByteSpan bytes) { return blob->Append(bytes); }));
    SLM_ASSIGN(parts_.observation_blob, blob->Commit());
    result_.observation_blob = parts_.observation_blob;
    return {};
  }

  Result<ChainResult> Promote() {
    SLM_ASSIGN(parts_.build, ThisBuild());
    Progress("compare", 0, 1);
    SLM_ASSIGN(result_.promotion, evidence::WritePromotion(source_, SinkOver(store_), parts_));
    SLM_TRY(store_.AppendLog("promotion", std::span(&result_.promotion.receipt, 1)));
    return std::move(result_);
  }

  Store& store_;
  const ChainRequest& request_;
  evidence::ObjectSource source_;
  Statements statements_;
  evidence::PromotionParts parts_;
  std::vector<evidence::CaseSpec> cases_;
  std::vector<std::shared_ptr<const golden::Golden>> containers_;
  compare::Evidence evidence_;
  std::shared_ptr<const evidence::Candidate> candidate_;
  ChainResult result_;
};

}  // namespace

evidence::ObjectSource SourceOver(const Store& store) {
  return {.node = [&store](const Hash256& id) -> Result<Bytes> {
            SLM_ASSIGN(const Node node, store.GetNode(id));
            return EncodeNode(node);
          },
          .blob = [&store](const Hash256& id) { return store.ReadBlob(id, kMaxArtifactBytes); }};
}

evidence::SourceJudge JudgeOver(const Store& store) {
  return [&store](const Hash256& acquisition) -> std::optional<evidence::SourceFault> {
    auto fault = acquire::JudgeAgain(store, acquisition);
    if (!fault) return std::nullopt;
    return evidence::SourceFault{std::move(fault->part), std::move(fault->error)};
  };
}

evidence::ObjectSink SinkOver(Store& store) {
  return {.put_node = [&store](const Node& node) { return store.PutNode(node); },
          .put_blob = [&store](ByteSpan bytes) { return store.PutBlob(bytes); }};
}

Result<ArtifactNode> FindArtifactNode(const Store& store, const Hash256& root, std::string_view field) {
  SLM_ASSIGN(const std::vector<Hash256> all, store.FindByPrefix(""));
  for (const Hash256& candidate : all) {
    SLM_ASSIGN(Node node, store.GetNode(candidate));
    if (node.type != "artifact" || evidence::HashOf(node, "root") != root) continue;
    return ArtifactNode{candidate, std::move(node)};
  }
  return Fail(MakeError(ErrorCode::kNotFound,
                        "the store has no artifact node with root " + ToHex(root) +
                            ", and the record binds it; convert the source into this store first")
                  .Field(field));
}

Result<Hash256> ResolveNode(const Store& store, const std::string& hex_prefix) {
  if (!LooksLikeId(hex_prefix)) {
    return Fail(ErrorCode::kUsage,
                "'" + hex_prefix + "' is no id: 1 to 64 lower-case hexadecimal digits; `slm log` lists them");
  }
  SLM_ASSIGN(const std::vector<Hash256> found, store.FindByPrefix(hex_prefix));
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Fail(
        MakeError(ErrorCode::kNotFound, "no node of this store has an id that begins so").In(hex_prefix));
  return Fail(MakeError(ErrorCode::kUsage, std::to_string(found.size()) + " nodes begin with " + hex_prefix +
                                               "; give more digits"));
}

bool LooksLikeId(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status RefuseNaming(const std::string& name, const std::string& revision) {
  if (name.empty() && revision.empty()) return {};
  return Fail(
      MakeError(ErrorCode::kUsage, "an acquisition has its name and revision; these go with a directory")
          .Field(name.empty() ? "--revision" : "--name"));
}

Status CheckSource(const std::string& source) {
  if (IsDirectory(source)) return {};
  if (access(source.c_str(), F_OK) == 0) {
    return Fail(
        MakeError(ErrorCode::kUnsupported,
                  "a source is a directory in the layout of a Hugging Face repository, or the id of an "
                  "acquisition; this is a file")
            .In(source));
  }
  if (LooksLikeId(source)) return {};
  return Fail(MakeError(ErrorCode::kNotFound,
                        "no such directory; a source is a directory, or the id of an acquisition")
                  .In(source));
}

Result<Hash256> PutFile(Store& store, const std::string& path) {
  SLM_ASSIGN(const auto file, MappedFile::Open(path));
  file->AdviseSequential();
  SLM_ASSIGN(auto blob, store.NewBlob());
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  for (ByteSpan rest = file->bytes(); !rest.empty();
       rest = rest.subspan(std::min<uint64_t>(kPiece, rest.size()))) {
    SLM_TRY(blob->Append(rest.first(std::min<uint64_t>(kPiece, rest.size()))));
  }
  return blob->Commit();
}

convert::Source SourceOf(const acquire::Acquisition& acquisition, const Store& store) {
  convert::Source source;
  source.name = acquisition.name;
  source.revision = acquisition.revision;
  source.acquisition = acquisition.id;
  source.spdx = acquisition.spdx;
  source.weights = acquisition.weights;
  for (const acquire::SourceFile& file : acquisition.files)
    source.files.push_back({file.path, file.size, file.blob});
  source.open = [&store](const convert::SourceFile& file) -> Result<std::unique_ptr<ByteSource>> {
    SLM_ASSIGN(const std::string path, store.BlobPath(file.blob));
    SLM_ASSIGN(auto mapped, MappedFile::Open(path));
    return std::unique_ptr<ByteSource>(std::move(mapped));
  };
  return source;
}

Result<evidence::RuntimeBuild> ThisBuild() {
  const BuildInfo& info = GetBuildInfo();
  evidence::RuntimeBuild build;
  SLM_ASSIGN(build.executable_sha256, HashFile("/proc/self/exe"));
  build.version = info.version;
  build.compiler = info.compiler;
  build.linker = info.linker;
  build.flags = info.flags;
  build.compiler_sha256 = HexOrZero(info.compiler_sha256);
  build.linker_sha256 = HexOrZero(info.linker_sha256);
  build.source_tree_sha256 = HexOrZero(info.source_tree_sha256);
  return build;
}

Result<Statements> SortStatements(const std::vector<std::string>& paths) {
  Statements statements;
  for (const std::string& path : paths) {
    SLM_ASSIGN(acquire::Decision decision, acquire::LoadDecision(path));
    if (decision.kind == "config-field") {
      statements.config_fields.push_back(std::move(decision));
      statements.config_field_paths.push_back(path);
    } else if (decision.kind == "license") {
      statements.license_paths.push_back(path);
    } else if (decision.kind == "accept-conflict") {
      statements.accept_conflict_paths.push_back(path);
    } else if (decision.kind == "tokenizer") {
      statements.tokenizer.push_back(std::move(decision));
    } else {
      return Fail(MakeError(ErrorCode::kDecisionBad,
                            "a statement of kind " + decision.kind + " decides nothing in this command")
                      .In(path)
                      .Field("kind"));
    }
  }
  return statements;
}

Error UnneededStatement(const std::string& path) {
  return MakeError(
             ErrorCode::kDecisionBad,
             "the statement decides nothing that is open in this run; leave it out, or correct applies_to")
      .In(path)
      .Field("applies_to");
}

Status RefuseAcquisitionStatements(const Statements& statements) {
  for (const auto* paths : {&statements.license_paths, &statements.accept_conflict_paths}) {
    if (!paths->empty()) return Fail(UnneededStatement(paths->front()));
  }
  return {};
}

std::vector<std::string> TakeAcquisitionPaths(Statements* statements) {
  std::vector<std::string> paths = statements->license_paths;
  paths.insert(paths.end(), statements->config_field_paths.begin(), statements->config_field_paths.end());
  statements->config_fields.clear();
  return paths;
}

convert::Options OptionsOf(const acquire::Acquisition& acquisition) {
  convert::Options options;
  for (const acquire::ConflictChoice& choice : acquisition.choices)
    options.choices.push_back({choice.code, choice.field, choice.ref, ToHex(choice.conflict)});
  options.policy.documentary_keys = acquisition.documentary_keys;
  return options;
}

Status ApplyConfigFields(const std::vector<acquire::Decision>& decisions,
                         const acquire::Acquisition& acquisition, ConfigPolicy* policy) {
  for (const acquire::Decision& decision : decisions) {
    const std::string key = decision.ChoiceText();
    const acquire::SourceFile* file = acquisition.Find(key.substr(0, key.find(':')));
    if (file == nullptr || !decision.AppliesTo(file->blob)) {
      return Fail(
          MakeError(ErrorCode::kDecisionBad,
                    "the statement must name a key as \"config.json:key\" and apply to that file's SHA-256")
              .In(decision.path)
              .Field("applies_to"));
    }
    policy->documentary_keys.push_back({key, ToHex(decision.statement_hash)});
  }
  return {};
}

Result<ChainResult> RunChain(Store& store, const ChainRequest& request) {
  return Chain(store, request).Run();
}

Result<std::vector<RerunStep>> Rerun(const Store& store, const Hash256& receipt,
                                     const std::string& work_directory) {
  const evidence::ObjectSource source = SourceOver(store);
  SLM_ASSIGN(const Node promotion, evidence::ReadNode(source, receipt));
  const auto child = [&](std::string_view role) -> Result<Node> {
    const Hash256* id = promotion.Child(role);
    if (id == nullptr)
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "the receipt lacks a child").Field(role));
    return evidence::ReadNode(source, *id);
  };
  if (promotion.Child("acquisition") == nullptr) return Fail(ErrorCode::kGraphMissingChild, "no acquisition");
  SLM_ASSIGN(const auto acquisition, acquire::LoadAcquisition(store, *promotion.Child("acquisition")));
  SLM_ASSIGN(const Node artifact_node, child("artifact"));
  SLM_ASSIGN(const Node observation, child("observation"));
  SLM_ASSIGN(const Node suite, child("case-suite"));

  std::vector<RerunStep> steps;
  convert::Options options = OptionsOf(acquisition);
  for (const Hash256& id : promotion.Children("decision")) {
    SLM_ASSIGN(const Node decision, evidence::ReadNode(source, id));
    if (evidence::TextOf(decision, "kind") != "config-field") continue;
    options.policy.documentary_keys.push_back(
        {evidence::TextOf(decision, "choice"), ToHex(evidence::HashOf(decision, "statement"))});
  }
  SLM_ASSIGN(const auto file, OutputFile::CreateUnnamed(work_directory));
  SLM_ASSIGN(const convert::ConvertResult again,
             convert::Convert(SourceOf(acquisition, store), options, file.get()));
  SLM_ASSIGN(const Hash256 converted, HashFile(file->ReadPath()));
  steps.push_back({"convert", evidence::HashOf(artifact_node, "file_sha256"), converted});
  // The artifact's node stands over configuration, ledger, family profile, tokenizer and template.
  steps.push_back({"convert nodes", *promotion.Child("artifact"), again.artifact_node});

  // Tokenize, render and run: all of them enter the observations.
  SLM_ASSIGN(auto artifact, Artifact::OpenFile(file->ReadPath(), Verify::kAllChunks));
  SLM_ASSIGN(const auto candidate, evidence::Candidate::Open(std::move(artifact)));
  SLM_ASSIGN(const Bytes cases_text, evidence::ReadBlob(source, evidence::HashOf(suite, "blob")));
  SLM_ASSIGN(const auto cases, evidence::ParseCases(AsText(cases_text)));
  std::vector<Hash256> blobs;
  for (const Hash256& id : promotion.Children("oracle-run")) {
    SLM_ASSIGN(const Node run, evidence::ReadNode(source, id));
    blobs.push_back(evidence::HashOf(run, "blob"));
  }
  SLM_ASSIGN(const auto evidence, evidence::OpenEvidenceBlobs(source, blobs));
  evidence::ObserveOptions observe;
  observe.like = evidence.sorted.reference;
  observe.cases_sha256 = Sha256Of(cases_text);
  Sha256 hash;
  SLM_TRY(evidence::Observe(*candidate, cases, observe, [&hash](ByteSpan bytes) -> Status {
    hash.Update(bytes);
    return {};
  }));
  steps.push_back({"observe", evidence::HashOf(observation, "blob"), hash.Finish()});
  return steps;
}

}  // namespace slm::app
