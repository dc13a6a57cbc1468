// The command line: one root command, one file per subcommand. The contract of names, output and
// exit statuses stands in commands.h and in `slm --help`.
#include <cstdio>
#include <new>
#include <string>

#include "apps/slm/build_info.h"
#include "apps/slm/commands.h"

namespace {

constexpr const char* kDescription =
    "slm proves that a small language model runs the same everywhere.\n\n"
    "It takes a pinned source, converts it to one content-addressed .slm file, runs it, compares\n"
    "every stage with the source framework, names the first place that differs, and writes a\n"
    "receipt that anyone can verify.";

constexpr const char* kFooter =
    "Example:\n"
    "  slm promote models/slm-demo --cases cases.jsonl --evidence reference.golden --policy policy.json\n"
    "  slm verify RECEIPT\n\n"
    "Exit status: 0 done and every claim asked for holds; 1 a claim failed or is unstable; 2 wrong\n"
    "usage; 3 an input was refused; 4 the environment failed; 70 a fault of the program.";

}  // namespace

int main(int argc, char** argv) {
  using namespace slm::app;
  AppContext context;
  CommandLine line("slm", kDescription, std::string("slm ") + GetBuildInfo().version);
  Command& root = line.root();
  root.Example(kFooter);
  root.Flag("--json", &context.json, "One JSON document on standard output");
  root.Option("--store", &context.store, "Content-addressed store (default .slm-store)");

  RegisterAcquire(root, context);
  RegisterConvert(root, context);
  RegisterInspect(root, context);
  RegisterTokenize(root, context);
  RegisterDetokenize(root, context);
  RegisterRender(root, context);
  RegisterRun(root, context);
  RegisterObserve(root, context);
  RegisterCompare(root, context);
  RegisterPromote(root, context);
  RegisterVerify(root, context);
  RegisterReport(root, context);
  RegisterMutate(root, context);
  RegisterFsck(root, context);
  RegisterLog(root, context);
  RegisterShow(root, context);

  std::string usage_error;
  try {
    switch (line.Parse(argc, argv, &usage_error)) {
      case CommandLine::Outcome::kRan:
      case CommandLine::Outcome::kHelpShown:
        break;
      case CommandLine::Outcome::kUsageError:
        context.Report(slm::MakeError(slm::ErrorCode::kUsage, usage_error + " (see `slm --help`)"));
        break;
    }
  } catch (const std::bad_alloc&) {
    context.Report(slm::MakeError(slm::ErrorCode::kMemory, "out of memory"));
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && context.exit_code == 0) {
    context.Report(slm::MakeError(slm::ErrorCode::kIo, "standard output could not be written"));
  }
  return context.exit_code;
}
