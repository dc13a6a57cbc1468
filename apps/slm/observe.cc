// slm observe FILE.slm --cases FILE -o OUT [--like EVIDENCE] [--taps all|NAMES]
// slm observe FILE.slm --cases FILE --record CONTAINER --made-by FACTS.json
#include "evidence/observe.h"

#include <algorithm>
#include <memory>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "codec/sha256.h"
#include "evidence/browser_run.h"
#include "slm_file/mapped_file.h"
#include "slm_file/output_file.h"

namespace slm::app {
namespace {

struct ObserveArgs {
  std::string artifact, cases, out, like, record, made_by;
  std::string backend = "native-scalar";
  std::string taps = "all";
};

std::vector<std::string> SplitNames(const std::string& list) {
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// What a browser observed, into the store: nothing runs here.
Status RecordContainer(AppContext& context, const ObserveArgs& args) {
  SLM_ASSIGN(const std::string cases, ReadTextFile(args.cases, kMaxCasesBytes));
  SLM_ASSIGN(std::string facts, ReadTextFile(args.made_by, kMaxPolicyBytes));
  auto run = evidence::ParseBrowserRun(std::move(facts));
  if (!run.has_value()) return Fail(std::move(run).error().In(args.made_by));
  auto container = MappedFile::Open(args.record);
  if (!container.has_value()) return Fail(std::move(container).error().In(args.record));
  auto artifact = Artifact::OpenFile(args.artifact, Verify::kHeaderOnly);
  if (!artifact.has_value()) return Fail(std::move(artifact).error().In(args.artifact));
  SLM_ASSIGN(const auto store, Store::Open(context.store));
  SLM_ASSIGN(const ArtifactNode node, FindArtifactNode(*store, (*artifact)->root(), "FILE"));
  SLM_TRY(PutFile(*store, args.artifact));  // whose bytes the node binds; convert keeps none
  auto id = evidence::RecordBrowserRun(SourceOver(*store), SinkOver(*store), node.id, cases,
                                       (*container)->bytes(), *run);
  if (!id.has_value()) return Fail(std::move(id).error().In(args.record));
  SLM_TRY(store->AppendLog("observation", std::span(&*id, 1)));
  if (context.json) {
    json::Writer out;
    out.BeginObject().Key("observation").String(ToHex(*id)).Key("backend").String(run->backend.name);
    context.Print(out.EndObject().Take() + "\n");
  } else {
    context.Print("observation " + ToHex(*id) + " of " + run->backend.name + "\n");
  }
  return {};
}

Status Run(AppContext& context, const ObserveArgs& args) {
  if (args.record.empty() != args.made_by.empty())
    return Fail(ErrorCode::kUsage, "--record and --made-by stand together");
  if (!args.record.empty()) return RecordContainer(context, args);
  if (args.out.empty())
    return Fail(MakeError(ErrorCode::kUsage, "a container to write is needed").Field("-o"));
  constexpr std::string_view kNative = "native-";
  const auto kernel = args.backend.starts_with(kNative)
                          ? ops::KernelFromName(std::string_view(args.backend).substr(kNative.size()))
                          : std::nullopt;
  if (!kernel) {
    return Fail(UnknownName("backend", "--backend", args.backend, {"native-scalar", "native-vector"}));
  }
  std::vector<std::string> inputs{args.artifact, args.cases};
  if (!args.like.empty()) inputs.push_back(args.like);
  SLM_TRY(CheckOutput(args.out, inputs));
  SLM_ASSIGN(const std::string cases_text, ReadTextFile(args.cases, kMaxCasesBytes));
  auto cases = evidence::ParseCases(cases_text);
  if (!cases.has_value()) return Fail(std::move(cases).error().In(args.cases));
  auto artifact = Artifact::OpenFile(args.artifact, Verify::kAllChunks);
  if (!artifact.has_value()) return Fail(std::move(artifact).error().In(args.artifact));
  auto loaded = evidence::Candidate::Open(*std::move(artifact));
  if (!loaded.has_value()) return Fail(std::move(loaded).error().In(args.artifact));
  const auto candidate = *std::move(loaded);
  evidence::ObserveOptions options;
  options.kernel = *kernel;
  options.backend = args.backend;
  options.all_taps = args.taps == "all";
  if (!options.all_taps) options.taps = SplitNames(args.taps);
  options.cases_sha256 = Sha256Of(AsBytes(cases_text));
  options.cases_name = args.cases;
  std::unique_ptr<MappedFile> like_file;
  std::shared_ptr<const golden::Golden> like;
  if (!args.like.empty()) {
    SLM_ASSIGN(like_file, MappedFile::Open(args.like));
    auto opened = golden::Golden::Open(like_file->bytes());
    if (!opened.has_value()) return Fail(std::move(opened).error().In(args.like));
    like = *std::move(opened);
    options.like = like.get();
  }
  ProgressBar bar("observe");
  options.on_progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  SLM_ASSIGN(const std::unique_ptr<OutputFile> out, OutputFile::Create(args.out));
  Sha256 hash;
  uint64_t n_bytes = 0;
  SLM_TRY(evidence::Observe(*candidate, *cases, options, [&](ByteSpan bytes) -> Status {
    hash.Update(bytes);
    n_bytes += bytes.size();
    return out->Append(bytes);
  }));
  SLM_TRY(out->Publish());
  const std::string sha256 = ToHex(hash.Finish());
  if (context.json) {
    json::Writer writer;
    writer.BeginObject()
        .Key("out")
        .String(JsonName(args.out))
        .Key("sha256")
        .String(sha256)
        .Key("bytes")
        .Uint(n_bytes);
    writer.Key("cases")
        .Uint(cases->size())
        .Key("artifact")
        .String(ToHex(candidate->artifact().root()))
        .EndObject();
    context.Print(writer.Take() + "\n");
  } else {
    context.Print(std::to_string(cases->size()) + " cases, " + std::to_string(n_bytes) + " bytes, sha256 " +
                  sha256 + "\n");
  }
  return {};
}

}  // namespace

void RegisterObserve(Command& root, AppContext& context) {
  auto* args = context.Own<ObserveArgs>();
  Command& command = root.Add("observe", "A candidate's observations of a suite, in the golden container");
  command.Option("file", &args->artifact, "The .slm file", true);
  command.Option("--cases", &args->cases, "Cases file, JSON Lines", true);
  command.Option("-o,--out", &args->out, "Container to write");
  command.Option("--record", &args->record,
                 "A container that a browser made: its observation node goes into the store, nothing runs");
  command.Option("--made-by", &args->made_by, "What made it: build of the module and identity of the engine");
  command.Option("--like", &args->like,
                 "Keep the arrays and slices of this container, so that the two align");
  command.Option("--taps", &args->taps, "all, or observation names separated by commas (without --like)");
  command.Option("--backend", &args->backend, "native-scalar or native-vector");
  command.Excludes("--like", {"--taps"});
  command.Excludes("--record", {"--out", "--like", "--taps", "--backend"});
  command.Help(
      {.examples = {"slm observe model.slm --cases cases.jsonl --like reference.golden -o candidate.golden"},
       .input = "cases of at most 64 MiB",
       .memory = "the mapped artifact, one case's arrays, the key/value cache and the logits",
       .time = "a pass over the weights for each token of each case"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
