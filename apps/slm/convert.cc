// slm convert: a source (directory or acquisition) becomes one .slm artifact.
#include "convert/convert.h"

#include <memory>

#include "acquire/acquisition.h"
#include "acquire/decision.h"
#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "base/bytes.h"
#include "base/utf8.h"

namespace slm::app {
namespace {

struct ConvertArgs {
  std::string source;
  std::string out;
  std::string name;
  std::string revision;
  std::vector<std::string> accepted;
  std::vector<std::string> decisions;
};

// A directory is acquired first, and its acquisition takes the statements about fields too.
Result<acquire::Acquisition> Acquired(Store& store, const std::string& store_directory,
                                      const ConvertArgs& args, Statements* statements) {
  if (!IsDirectory(args.source)) {
    SLM_TRY(RefuseNaming(args.name, args.revision));
    SLM_TRY(RefuseAcquisitionStatements(*statements));
    SLM_ASSIGN(const Hash256 id, ResolveNode(store, args.source));
    return acquire::LoadAcquisition(store, id);
  }
  acquire::DirectoryRequest request;
  request.directory = args.source;
  request.store_directory = store_directory;
  request.name = args.name.empty() ? "unnamed" : args.name;
  request.revision = args.revision.empty() ? "unstated" : args.revision;
  request.decision_paths = TakeAcquisitionPaths(statements);
  request.accept_conflict_paths = statements->accept_conflict_paths;
  ProgressBar bar("acquire");
  request.on_progress = [&bar](acquire::Progress progress) {
    bar.Update(progress.bytes_done, progress.bytes_total);
  };
  return acquire::AcquireDirectory(store, request);
}

// Blobs, nodes and one log record: what the artifact is made of becomes visible at once.
Status Record(Store& store, const Statements& statements, const convert::ConvertResult& result) {
  std::vector<Hash256> named{result.artifact_node};
  for (const Bytes& blob : result.blobs) {
    SLM_TRY(store.PutBlob(blob));
  }
  for (const acquire::Decision& decision : statements.config_fields) {
    SLM_TRY(store.PutBlob(decision.statement));
    SLM_ASSIGN(const Hash256 id, store.PutNode(acquire::DecisionNode(decision)));
    named.push_back(id);
  }
  for (const Node& node : result.nodes) {
    SLM_TRY(store.PutNode(node));
  }
  return store.AppendLog("convert", named);
}

Status ConvertAll(const ConvertArgs& args, AppContext& context, acquire::Acquisition* acquisition,
                  convert::ConvertResult* result) {
  std::vector<std::string> paths = args.decisions;
  paths.insert(paths.end(), args.accepted.begin(), args.accepted.end());
  std::vector<std::string> inputs = paths;
  inputs.push_back(args.source);
  SLM_TRY(CheckSource(args.source));
  SLM_TRY(CheckOutput(args.out, inputs));
  // An acquisition is in a store that exists; only a directory may begin one.
  SLM_ASSIGN(const std::unique_ptr<Store> store,
             Store::Open(context.store, {.create = IsDirectory(args.source)}));
  SLM_ASSIGN(Statements statements, SortStatements(paths));
  if (!statements.tokenizer.empty()) {
    return Fail(MakeError(ErrorCode::kDecisionBad, "a statement of kind tokenizer decides nothing in convert")
                    .In(statements.tokenizer.front().path)
                    .Field("kind"));
  }
  SLM_ASSIGN(*acquisition, Acquired(*store, context.store, args, &statements));
  convert::Options options = OptionsOf(*acquisition);
  SLM_TRY(ApplyConfigFields(statements.config_fields, *acquisition, &options.policy));
  {
    ProgressBar bar("convert");
    options.on_progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
    SLM_ASSIGN(*result, convert::Convert(SourceOf(*acquisition, *store), options, args.out));
  }
  return Record(*store, statements, *result);
}

void RunConvert(const ConvertArgs& args, AppContext& context) {
  acquire::Acquisition acquisition;
  convert::ConvertResult result;
  const Status status = ConvertAll(args, context, &acquisition, &result);
  if (!status) return context.Report(status.error());
  const EffectiveConfig& config = result.config.config;
  if (!context.json) {
    std::string text = "artifact    " + ToHex(result.root) + "\nfile        " + EscapeForDisplay(args.out) +
                       ", " + std::to_string(result.file_size) + " bytes, sha256 " +
                       ToHex(result.file_sha256) + "\nsource      " + EscapeForDisplay(acquisition.name) +
                       " at " + EscapeForDisplay(acquisition.revision) + ", acquisition " +
                       ToHex(acquisition.id) + "\n";
    text += "ledger      " + std::to_string(result.n_stored) + " tensors stored, " +
            std::to_string(result.n_aliases) + " alias, " + std::to_string(result.n_omitted) +
            " source tensors left out with a reason\n";
    text += "config      " + config.architecture + ", " + std::to_string(config.n_layers) +
            " layers, hidden " + std::to_string(config.hidden_size) + ", " + std::to_string(config.n_heads) +
            " heads of " + std::to_string(config.head_dim) + " (" + std::to_string(config.n_kv_heads) +
            " key/value), vocabulary " + std::to_string(config.vocab_size) + ", " +
            std::to_string(config.max_positions) + " positions, rope " +
            std::string(RopeTypeName(config.rope.type)) + "\n";
    for (const AcceptedConflict& conflict : result.config.accepted_conflicts) {
      text += "accepted    " + std::string(Info(conflict.code).name) + " " + conflict.first + " against " +
              conflict.second + "\n";
    }
    return context.Print(text);
  }
  json::Writer out(/*indent=*/true);
  out.BeginObject().Key("artifact").String(ToHex(result.root)).Key("file").String(JsonName(args.out));
  out.Key("size").Uint(result.file_size).Key("sha256").String(ToHex(result.file_sha256));
  out.Key("node").String(ToHex(result.artifact_node)).Key("acquisition").String(ToHex(acquisition.id));
  out.Key("ledger").BeginObject().Key("stored").Uint(result.n_stored);
  out.Key("aliases").Uint(result.n_aliases).Key("omitted").Uint(result.n_omitted).EndObject();
  out.Key("config").Raw(ConfigToJson(config)).EndObject();
  context.Print(out.Take() + "\n");
}

}  // namespace

void RegisterConvert(Command& root, AppContext& context) {
  auto* args = context.Own<ConvertArgs>();
  Command& command = root.Add("convert", "Convert a source into one .slm artifact");
  command.Option("source", &args->source, "Source directory, or the id of an acquisition in the store", true);
  command.Option("-o,--out", &args->out, "The artifact to write", true);
  command.Option("--name", &args->name, "What the source is called, for a directory; recorded, not checked");
  command.Option("--revision", &args->revision, "Its commit or version; recorded, not checked");
  command.Option("--accept-conflict", &args->accepted, "Statement of a person about a conflict");
  command.Option("--decision", &args->decisions, "Statement of a person: license, config-field");
  command.Help({.examples = {"slm convert models/slm-demo -o demo.slm"},
                .input = "every tensor f32, bf16 or f16; files within the acquisition profile",
                .memory = "flat: the weights are mapped and streamed",
                .time = "one read and two writes of every byte: into the store, and into the artifact",
                .notes = std::string(kStatementForm)});
  command.Run([args, &context] { RunConvert(*args, context); });
}

}  // namespace slm::app
