// The command line: one root command, one file per subcommand. The contract of names, output and
// exit statuses stands in commands.h and in `slm --help`.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>

#include "apps/slm/build_info.h"
#include "apps/slm/commands.h"

namespace {

constexpr const char* kDescription =
    "slm proves that a small language model runs the same everywhere.\n\n"
    "It takes a pinned source, converts it to one content-addressed .slm file, runs it, compares\n"
    "every stage with the source framework, names the first place that differs, and writes a\n"
    "receipt that anyone can verify.";

constexpr const char* kFooter =
    "`slm help COMMAND` shows the options, an example and the bounds of a command.\n\n"
    "Example:\n"
    "  slm promote models/slm-demo --cases cases.jsonl --evidence reference.golden --policy policy.json\n"
    "  slm verify RECEIPT\n\n"
    "Exit status: 0 done and every claim asked for holds; 1 a claim failed or is unstable; 2 wrong\n"
    "usage; 3 an input was refused; 4 the environment failed; 70 a fault of the program.";

// A standard stream that the caller closed must not become the next file that is opened: what is written
// to it would go into that file. A device stands in for it that refuses the direction of use.
void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) == -1) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error with exit status 4, as a full disk is
}

// Whether --json was asked for, where the arguments as a whole could not be read.
bool AsksForJson(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

void PrintText(const slm::app::AppContext& context, std::string_view key, std::string_view text) {
  if (!context.json) return context.Print(text);
  slm::json::Writer out;
  out.BeginObject().Key(key).String(text).EndObject();
  context.Print(out.Take() + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace slm::app;
  HoldStandardStreams();
  AppContext context;
  const std::string version = GetBuildInfo().version;
  CommandLine line("slm", kDescription, kFooter, "slm " + version);
  Command& root = line.root();
  root.Flag("--json", &context.json, "One JSON document on standard output");
  root.Option("--store", &context.store, "Content-addressed store (default .slm-store)");

  RegisterAcquire(root, context);
  RegisterConvert(root, context);
  RegisterInspect(root, context);
  RegisterTokenize(root, context);
  RegisterDetokenize(root, context);
  RegisterRender(root, context);
  RegisterRun(root, context);
  RegisterChat(root, context);
  RegisterObserve(root, context);
  RegisterCompare(root, context);
  RegisterPromote(root, context);
  RegisterVerify(root, context);
  RegisterReport(root, context);
  RegisterMutate(root, context);
  RegisterExport(root, context);
  RegisterFsck(root, context);
  RegisterLog(root, context);
  RegisterShow(root, context);

  std::string text;
  try {
    const CommandLine::Outcome outcome = line.Parse(argc, argv, &text);
    if (outcome != CommandLine::Outcome::kRan) context.json = AsksForJson(argc, argv);
    switch (outcome) {
      case CommandLine::Outcome::kRan:
        break;
      case CommandLine::Outcome::kHelp:
        PrintText(context, "help", text);
        break;
      case CommandLine::Outcome::kVersion:
        PrintText(context, "version", context.json ? version : text);
        break;
      case CommandLine::Outcome::kNoCommand:
        std::fputs(text.c_str(), stderr);
        context.Report(slm::MakeError(slm::ErrorCode::kUsage, "name a command"));
        break;
      case CommandLine::Outcome::kUsageError:
        context.Report(slm::MakeError(slm::ErrorCode::kUsage, text));
        break;
    }
  } catch (const std::bad_alloc&) {
    context.Report(
        slm::MakeError(slm::ErrorCode::kMemory, "out of memory; see the command's bounds in its --help"));
  }
  constexpr int kEnvironmentFailed = 4;
  if (const auto flushed = context.Flush(); !flushed && context.exit_code != kEnvironmentFailed) {
    context.json = false;  // standard output takes nothing more
    context.Report(flushed.error());
  }
  return context.exit_code;
}
