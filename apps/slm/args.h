// Command-line arguments. A thin face of CLI11, so that one translation unit pays for that header.
//
//   void RegisterFsck(Command& root, AppContext& context) {
//     auto* flags = context.Own<FsckArgs>();      // lives as long as the program
//     Command& command = root.Add("fsck", "Checks the store");
//     command.Flag("--repair", &flags->repair, "Remove staging garbage, cut a torn log tail");
//     command.Help({.examples = {"slm fsck --repair"}, .input = "...", .memory = "...", .time = "..."});
//     command.Run([flags, &context] { ... });
//   }
#ifndef SLM_APPS_SLM_ARGS_H_
#define SLM_APPS_SLM_ARGS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace slm::app {

// What `--help` shows under the options: examples, and the command's bounds.
struct HelpText {
  std::vector<std::string> examples;
  std::string input, memory, time;
  std::string notes = "";  // may be empty
};

// The values that a number may have, both ends included.
struct WholeRange {
  uint64_t min = 0;
  uint64_t max = UINT64_MAX;
};

// What does not parse ends as exit status 2 with a message: numbers are read strictly, nothing wraps or
// is cut to its range.
class Command {
 public:
  struct Impl;
  explicit Command(Impl* impl) : impl_(impl) {}

  // A subcommand of this one; owned by the root.
  Command& Add(const std::string& name, const std::string& help);
  // NAME without dashes is positional. Targets must outlive the program's run.
  Command& Option(const std::string& name, std::string* value, const std::string& help,
                  bool required = false);
  Command& Option(const std::string& name, uint64_t* value, const std::string& help, WholeRange range = {});
  // Any finite number.
  Command& Option(const std::string& name, double* value, const std::string& help);
  // May be given several times; positional ones take the rest.
  Command& Option(const std::string& name, std::vector<std::string>* values, const std::string& help,
                  bool required = false);
  Command& Flag(const std::string& name, bool* value, const std::string& help);
  // `name` together with any of `others` is wrong usage. All of them are of this command.
  Command& Excludes(const std::string& name, const std::vector<std::string>& others);
  Command& Help(const HelpText& text);
  Command& Run(std::function<void()> run);

 private:
  Impl* impl_;
};

// Owns the root command. Parse runs the chosen subcommand.
class CommandLine {
 public:
  // `footer` stands under the list of commands.
  CommandLine(const std::string& name, const std::string& help, const std::string& footer,
              const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] Command& root();
  // kRan: a subcommand ran. kHelp, kVersion: `text` is what was asked for. kNoCommand: `text` is the help
  // that shows what could be. kUsageError: `text` is the message.
  enum class Outcome { kRan, kHelp, kVersion, kNoCommand, kUsageError };
  [[nodiscard]] Outcome Parse(int argc, char** argv, std::string* text);

 private:
  [[nodiscard]] std::string Unexpected() const;

  std::unique_ptr<Command::Impl> impl_;
  std::vector<std::string> help_topics_;
};

}  // namespace slm::app

#endif  // SLM_APPS_SLM_ARGS_H_
