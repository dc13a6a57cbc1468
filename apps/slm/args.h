// Command-line arguments. A thin face of CLI11, so that one translation unit pays for that header.
//
//   void RegisterFsck(Command& root, AppContext& context) {
//     auto* flags = context.Own<FsckArgs>();      // lives as long as the program
//     Command& command = root.Add("fsck", "Checks the store");
//     command.Flag("--repair", &flags->repair, "Remove staging garbage, cut a torn log tail");
//     command.Example("slm fsck --repair");
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

// Raised nowhere: parse errors end as exit status 2 with a message.
class Command {
 public:
  struct Impl;
  explicit Command(Impl* impl) : impl_(impl) {}

  // A subcommand of this one; owned by the root.
  Command& Add(const std::string& name, const std::string& help);
  // NAME without dashes is positional. Targets must outlive the program's run.
  Command& Option(const std::string& name, std::string* value, const std::string& help,
                  bool required = false);
  Command& Option(const std::string& name, uint64_t* value, const std::string& help, bool required = false);
  Command& Option(const std::string& name, double* value, const std::string& help, bool required = false);
  // May be given several times; positional ones take the rest.
  Command& Option(const std::string& name, std::vector<std::string>* values, const std::string& help,
                  bool required = false);
  Command& Flag(const std::string& name, bool* value, const std::string& help);
  // True, after parsing, if the option was given.
  [[nodiscard]] bool Given(const std::string& name) const;
  // Text under the options: an example, and the command's bounds (input, memory, time).
  Command& Example(const std::string& text);
  Command& Run(std::function<void()> run);

 private:
  Impl* impl_;
};

// Owns the root command. Parse runs the chosen subcommand.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] Command& root();
  enum class Outcome { kRan, kHelpShown, kUsageError };
  // `usage_error` receives the message of a usage error.
  [[nodiscard]] Outcome Parse(int argc, char** argv, std::string* usage_error);

 private:
  std::unique_ptr<Command::Impl> impl_;
};

}  // namespace slm::app

#endif  // SLM_APPS_SLM_ARGS_H_
