// slm fsck [--quick] [--repair]
#include "store/fsck.h"

#include "apps/slm/commands.h"
#include "base/utf8.h"

namespace slm::app {
namespace {

std::string ReportJson(const FsckReport& report) {
  json::Writer out(true);
  out.BeginObject().Key("clean").Bool(report.problems.empty());
  out.Key("blobs").Uint(report.n_blobs).Key("nodes").Uint(report.n_nodes);
  out.Key("log_records").Uint(report.n_log_records).Key("staging_removed").Uint(report.n_staging_removed);
  out.Key("problems").BeginArray();
  for (const FsckProblem& problem : report.problems) {
    const ErrorInfo& info = Info(problem.code);
    out.BeginObject().Key("code").String(info.name).Key("number").Uint(info.number);
    out.Key("at").String(EscapeForDisplay(problem.path_or_id));
    out.Key("message").String(EscapeForDisplay(problem.what)).EndObject();
  }
  out.EndArray().Key("notes").BeginArray();
  for (const std::string& note : report.notes) out.String(EscapeForDisplay(note));
  out.EndArray().EndObject();
  return out.Take() + "\n";
}

std::string ReportText(const FsckReport& report) {
  std::string text;
  for (const FsckProblem& problem : report.problems) {
    text.append(Info(problem.code).name).append(" at ").append(EscapeForDisplay(problem.path_or_id));
    text.append(": ").append(EscapeForDisplay(problem.what)).append("\n");
  }
  for (const std::string& note : report.notes)
    text.append("note: ").append(EscapeForDisplay(note)).append("\n");
  if (report.n_staging_removed > 0) {
    text.append("removed ").append(std::to_string(report.n_staging_removed)).append(" unfinished files\n");
  }
  text.append(std::to_string(report.n_blobs)).append(" blobs, ");
  text.append(std::to_string(report.n_nodes)).append(" nodes, ");
  text.append(std::to_string(report.n_log_records)).append(" log records: ");
  text.append(report.problems.empty() ? "clean" : std::to_string(report.problems.size()) + " problems");
  return text + "\n";
}

}  // namespace

void RegisterFsck(Command& root, AppContext& context) {
  auto* options = context.Own<FsckOptions>();
  Command& command = root.Add("fsck", "Checks the store: contents against names, graph, log");
  command.Flag("--quick", &options->quick, "Do not hash the contents of blobs");
  command.Flag("--repair", &options->repair, "Remove unfinished files, cut a torn log tail; nothing else");
  command.Help({.examples = {"slm fsck --quick"},
                .input = "a store of any size",
                .memory = "about 100 bytes for each object, whatever their sizes",
                .time = "one read of every file; with --quick of every node",
                .notes = "Exit status: 0 clean, 1 problems, 3 no store or one of another version."});
  command.Run([options, &context] {
    const auto report = Fsck(context.store, *options);
    if (!report) {
      context.Report(report.error());
      return;
    }
    context.Print(context.json ? ReportJson(*report) : ReportText(*report));
    context.exit_code = report->problems.empty() ? 0 : 1;
  });
}

}  // namespace slm::app
