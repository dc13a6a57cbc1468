// slm report RECEIPT [--backend RUN...] -o report.html [--junit F]
#include "report/report.h"

#include <filesystem>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "slm_file/output_file.h"

namespace slm::app {
namespace {

struct ReportArgs {
  std::string receipt, out, junit;
  std::vector<std::string> runs;
};

// Claim to state, for each backend; what was not run has no receipt.
void WriteBackends(const report::ReportData& data, json::Writer& out) {
  out.Key("backends").BeginArray();
  for (const report::BackendColumn& column : report::ColumnsOf(data)) {
    out.BeginObject().Key("backend").String(column.backend).Key("receipt");
    if (column.verification == nullptr) {
      out.Null();
    } else {
      out.String(ToHex(column.verification->receipt));
    }
    out.Key("claims").BeginObject();
    for (const std::string& claim : report::ClaimsOf(data)) {
      out.Key(claim).String(evidence::ClaimStateName(report::StateOf(column.verification, claim)));
    }
    out.EndObject().EndObject();
  }
  out.EndArray();
}

Status Run(AppContext& context, const ReportArgs& args) {
  SLM_TRY(CheckOutput(args.out, {context.store}));
  if (!args.junit.empty()) {
    SLM_TRY(CheckOutput(args.junit, {context.store}));
    std::error_code ignored;
    if (std::filesystem::weakly_canonical(args.out, ignored) ==
        std::filesystem::weakly_canonical(args.junit, ignored))
      return Fail(MakeError(ErrorCode::kUsage, "the page and the JUnit file have one name")
                      .In(args.out)
                      .Field("--junit"));
  }
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = false, .read_only = true}));
  SLM_ASSIGN(const Hash256 receipt, ResolveNode(*store, args.receipt));
  std::vector<Hash256> runs;
  for (const std::string& run : args.runs) {
    SLM_ASSIGN(const Hash256 id, ResolveNode(*store, run));
    runs.push_back(id);
  }
  SLM_ASSIGN(const report::ReportData data,
             report::LoadReport(SourceOver(*store), receipt, runs, JudgeOver(*store)));
  const std::string html = report::ReportHtml(data);
  SLM_TRY(WriteWholeFile(args.out, html));
  if (!args.junit.empty()) SLM_TRY(WriteWholeFile(args.junit, report::ReportJunit(data)));
  const bool holds = data.Holds();
  if (context.json) {
    json::Writer writer;
    writer.BeginObject().Key("receipt").String(ToHex(receipt)).Key("out").String(JsonName(args.out));
    writer.Key("bytes").Uint(html.size()).Key("holds").Bool(holds);
    WriteBackends(data, writer);
    writer.EndObject();
    context.Print(writer.Take() + "\n");
  } else {
    context.Print(args.out + ", " + std::to_string(html.size()) + " bytes, receipt " +
                  ToHex(receipt).substr(0, 12) + (holds ? " holds\n" : " does not hold\n"));
  }
  context.exit_code = holds ? 0 : 1;
  return {};
}

}  // namespace

void RegisterReport(Command& root, AppContext& context) {
  auto* args = context.Own<ReportArgs>();
  Command& command = root.Add("report", "One self-contained page about a receipt");
  command.Option("receipt", &args->receipt, "Id of a promotion, or its first digits", true);
  command.Option("-o,--out", &args->out, "HTML file to write", true);
  command.Option("--backend", &args->runs,
                 "What another backend made of the same artifact and suite: a promotion or an observation");
  command.Option("--junit", &args->junit, "JUnit XML file to write");
  command.Help(
      {.examples = {"slm report 3f9c21 -o report.html",
                    "slm report 3f9c21 --backend 77ab03 --backend 90fe1c -o report.html"},
       .input = "a receipt of the store, and everything under it",
       .memory = "the artifact and one set of containers, as for verify",
       .time = "that of verify: every byte under the receipt is read and hashed",
       .notes = "Verifies the receipt first, and every run of another backend by the receipt's policy and "
                "evidence; exit status 1 if one does not hold."});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
