// slm export RECEIPT --format bundle -o FILE
#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "evidence/bundle.h"
#include "slm_file/output_file.h"

namespace slm::app {
namespace {

struct ExportArgs {
  std::string receipt, out, base;
  std::string format = "bundle";
};

Status Run(AppContext& context, const ExportArgs& args) {
  if (args.format != "bundle") return Fail(UnknownName("format", "--format", args.format, {"bundle"}));
  SLM_TRY(CheckOutput(args.out, {}));
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = false, .read_only = true}));
  SLM_ASSIGN(const Hash256 receipt, ResolveNode(*store, args.receipt));
  std::optional<Hash256> base;
  if (!args.base.empty()) {
    SLM_ASSIGN(base, ResolveNode(*store, args.base));
  }
  SLM_ASSIGN(const evidence::Bundle bundle,
             evidence::CollectBundle(SourceOver(*store), receipt, base ? &*base : nullptr));
  const Bytes bytes = evidence::EncodeBundle(bundle);
  SLM_TRY(WriteWholeFile(args.out, AsText(bytes)));
  const uint64_t n_nodes = bundle.objects.nodes.size(), n_blobs = bundle.objects.blobs.size();
  if (context.json) {
    json::Writer out;
    out.BeginObject().Key("out").String(JsonName(args.out)).Key("receipt").String(ToHex(receipt));
    out.Key("nodes").Uint(n_nodes).Key("blobs").Uint(n_blobs).Key("bytes").Uint(bytes.size());
    context.Print(out.EndObject().Take() + "\n");
  } else {
    context.Print(std::to_string(n_nodes) + " nodes, " + std::to_string(n_blobs) + " blobs, " +
                  std::to_string(bytes.size()) + " bytes\n");
  }
  return {};
}

}  // namespace

void RegisterExport(Command& root, AppContext& context) {
  auto* args = context.Own<ExportArgs>();
  Command& command = root.Add("export", "A receipt for others, in one file");
  command.Option("receipt", &args->receipt, "Id of a node, or its first digits", true);
  command.Option("--format", &args->format,
                 "bundle: everything that it reaches, as `slm verify FILE` reads it");
  command.Option("-o,--out", &args->out, "The file to write", true);
  command.Option("--base", &args->base, "A node whose objects the reader has already; they are left out");
  command.Help({.examples = {"slm export 3f9c21 --format bundle -o receipt.bundle"},
                .input = "a node of the store",
                .memory = "about twice what the node reaches",
                .time = "one read of everything below the node, one write"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
