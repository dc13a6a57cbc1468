// slm promote SOURCE --cases FILE --evidence FILE... --policy FILE
#include "evidence/promote.h"

#include <filesystem>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "slm_file/mapped_file.h"
#include "slm_file/output_file.h"

namespace slm::app {
namespace {

struct PromoteArgs {
  std::string source, name, revision, cases, policy, out;
  std::vector<std::string> evidence, decisions, accepted, backends;
};

constexpr std::string_view kBackend = "native-scalar";  // ChainRequest knows no other

void WriteJson(AppContext& context, const ChainResult& result) {
  json::Writer out(true);
  out.BeginObject();
  out.Key("receipt").String(ToHex(result.promotion.receipt));
  out.Key("holds").Bool(result.promotion.Holds());
  out.Key("acquisition").String(ToHex(result.acquisition.id));
  out.Key("artifact").BeginObject();
  out.Key("root").String(ToHex(result.converted.root));
  out.Key("sha256").String(ToHex(result.artifact_blob));
  out.Key("bytes").Uint(result.converted.file_size);
  out.EndObject();
  out.Key("observation_sha256").String(ToHex(result.observation_blob));
  out.Key("comparison");
  out.Raw(compare::ComparisonToJson(result.promotion.comparison));
  out.EndObject();
  context.Print(out.Take() + "\n");
}

Status Run(AppContext& context, const PromoteArgs& args) {
  SLM_TRY(CheckSource(args.source));
  if (!IsDirectory(args.source)) SLM_TRY(RefuseNaming(args.name, args.revision));
  for (const std::string& backend : args.backends) {
    if (backend != kBackend) {
      return Fail(MakeError(ErrorCode::kUnsupported, "promote runs " + std::string(kBackend) + "; what '" +
                                                         backend +
                                                         "' observed is compared with it by slm compare")
                      .Field("--backend"));
    }
  }
  constexpr std::string_view kArtifactName = "/model.slm", kObservationName = "/candidate.golden";
  if (!args.out.empty()) {
    std::vector<std::string> inputs = args.evidence;
    inputs.insert(inputs.end(), {args.source, args.cases, args.policy});
    for (const std::string_view name : {kArtifactName, kObservationName})
      SLM_TRY(CheckOutput(args.out + std::string(name), inputs));
  }
  // An acquisition is in a store that exists; only a directory may begin one.
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = IsDirectory(args.source)}));
  ChainRequest request;
  request.source = args.source;
  request.name = args.name;
  request.revision = args.revision;
  request.cases_path = args.cases;
  request.policy_path = args.policy;
  request.evidence_paths = args.evidence;
  request.statement_paths = args.decisions;
  request.statement_paths.insert(request.statement_paths.end(), args.accepted.begin(), args.accepted.end());
  request.store_directory = context.store;
  request.work_directory = context.store + "/staging";
  std::unique_ptr<ProgressBar> bar;
  std::string bar_stage;
  request.on_progress = [&](std::string_view stage, uint64_t done, uint64_t total) {
    if (bar_stage != stage) {
      bar.reset();
      bar = std::make_unique<ProgressBar>(std::string(stage));
      bar_stage = stage;
    }
    bar->Update(done, total);
  };
  SLM_ASSIGN(const ChainResult result, RunChain(*store, request));
  bar.reset();
  if (!args.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(args.out, error);
    if (error) {
      return Fail(MakeError(ErrorCode::kIo, "cannot make the folder: " + error.message()).In(args.out));
    }
    for (const auto& [blob, name] : {std::pair{result.artifact_blob, kArtifactName},
                                     std::pair{result.observation_blob, kObservationName}}) {
      SLM_ASSIGN(const std::string path, store->BlobPath(blob));
      SLM_ASSIGN(const auto mapped, MappedFile::Open(path));
      SLM_TRY(WriteWholeFile(args.out + std::string(name), AsText(mapped->bytes())));
    }
  }
  context.exit_code = result.promotion.Holds() ? 0 : 1;
  if (context.json) {
    WriteJson(context, result);
    return {};
  }
  context.Print("receipt " + ToHex(result.promotion.receipt) + "\n");
  context.Print(compare::ComparisonToText(result.promotion.comparison));
  if (args.evidence.empty()) {
    context.Print("  without evidence L0 alone is claimed; give containers of the oracle with --evidence\n");
  }
  return {};
}

}  // namespace

void RegisterPromote(Command& root, AppContext& context) {
  auto* args = context.Own<PromoteArgs>();
  Command& command =
      root.Add("promote", "The whole chain: acquire, convert, observe, compare, write the receipt");
  command.Option("source", &args->source, "Source directory, or the id of an acquisition", true);
  command.Option("--cases", &args->cases, "Cases file, JSON Lines", true);
  command.Option("--evidence", &args->evidence,
                 "Oracle container; once for each of the modes reference, source, truth");
  command.Option("--policy", &args->policy, "Tolerance policy", true);
  command.Option("--backend", &args->backends, "What runs the candidate: native-scalar");
  command.Option("--name", &args->name, "Name of the source (default: the folder's name)");
  command.Option("--revision", &args->revision, "Revision of the source (default: unversioned)");
  command.Option("--decision", &args->decisions, "Statement of a person (license, tokenizer)");
  command.Option("--accept-conflict", &args->accepted, "Statement of a person that accepts a conflict");
  command.Option("-o,--out", &args->out, "Folder for copies of model.slm and candidate.golden");
  command.Help(
      {.examples = {"slm promote models/slm-demo --cases cases.jsonl --evidence reference.golden --evidence "
                    "truth.golden --evidence source.golden --policy policy.json"},
       .input = "cases of at most 64 MiB, policy of at most 1 MiB",
       .memory = "about the artifact and one set of containers",
       .time = "acquire, convert, a pass over the weights for each token of each case, compare",
       .notes = std::string(kStatementForm)});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
