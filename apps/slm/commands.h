// Subcommands of the command line. One file each; each registers itself on the root command. Output rules
// (docs: `slm --help`): one JSON document with --json, human text otherwise, diagnostics on standard error.
#ifndef SLM_APPS_SLM_COMMANDS_H_
#define SLM_APPS_SLM_COMMANDS_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/slm/args.h"
#include "base/error.h"
#include "codec/json.h"
#include "records/record.h"

namespace slm::app {

using records::ErrorJson;
using records::ErrorPlace;
using records::OnlyMembers;
using records::WriteError;

// Shared by all subcommands; lives as long as the program.
// For the help of the commands that take a person's statements (docs/spec/decisions.md).
inline constexpr std::string_view kStatementForm =
    "A statement is a JSON file: {\"schema\": \"slm.decision.v1\", \"kind\": \"license\", \"reviewer\": "
    "\"who decides\", "
    "\"reason\": \"why\", \"applies_to\": [\"the hashes that the refusal names\"], \"choice\": \"MIT\"}. "
    "Kinds: license, "
    "config-field, tokenizer (--decision), accept-conflict (--accept-conflict). The program writes none.";

struct AppContext {
  bool json = false;                 // --json
  std::string store = ".slm-store";  // --store DIR
  int exit_code = 0;                 // set by the subcommand that ran

  // A T that lives as long as the context: the home of a subcommand's arguments.
  template <typename T>
  T* Own() {
    auto held = std::make_shared<T>();
    owned.push_back(held);
    return held.get();
  }

  // Prints the refusal (one line on standard error; with --json the error document on standard
  // output) and sets the exit status that its area asks for.
  void Report(const Error& error, const ErrorPlace& place = {});
  // Prints to standard output. What cannot be written is remembered until Flush.
  void Print(std::string_view text) const;
  // Whether everything printed so far has left the program. Error: IO or DISK-FULL.
  [[nodiscard]] Status Flush() const;

  std::vector<std::shared_ptr<void>> owned;
  mutable int output_errno = 0;  // of the first write to standard output that failed
};

// Progress bar on standard error, only where that is a terminal; silent otherwise.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Update(uint64_t done, uint64_t total);

 private:
  std::string label_;
  bool terminal_;
  int last_percent_ = -1;
};

[[nodiscard]] bool IsDirectory(const std::string& path);
// Whole file, at most `max_bytes`; "-" reads standard input. Errors: NOT-FOUND, UNSUPPORTED (a directory),
// IO, LIMIT.
[[nodiscard]] Result<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes);
// The system's folder for temporary files. Errors: IO.
[[nodiscard]] Result<std::string> TemporaryDirectory();
// A file name for `--json`: as it is, or escaped where it is not UTF-8.
[[nodiscard]] std::string JsonName(const std::string& name);
// Before any work: `out` is a name to write to, no input of the command, and not inside a directory that is
// one. Error: USAGE.
[[nodiscard]] Status CheckOutput(const std::string& out, const std::vector<std::string>& inputs);
// Parses each line of standard input as one JSON object and calls `handle`, which writes the members
// of its answer (without id) into the open object. Answers go out in order, one line each, flushed,
// with `id` echoed as it came (null where there is none); a bad record gives {"id":...,"error":{...}}
// and the stream goes on. A blank line is a bad record. Ends, with IO, when an answer cannot be written.
void RunBatch(AppContext& context, const records::Handler& handle);
// "there is no KIND 'NAME'; this build has ...". USAGE with `option` as the field.
[[nodiscard]] Error UnknownName(std::string_view kind, std::string_view option, std::string_view name,
                                std::initializer_list<std::string_view> known);
// Token ids as a person writes them: whole numbers with blanks or commas between them, perhaps in
// brackets. Error: USAGE with `argument` as the field.
[[nodiscard]] Result<std::vector<uint32_t>> ParseTokenIds(std::string_view text, std::string_view argument);

void RegisterAcquire(Command& root, AppContext& context);
void RegisterConvert(Command& root, AppContext& context);
void RegisterInspect(Command& root, AppContext& context);
void RegisterTokenize(Command& root, AppContext& context);
void RegisterDetokenize(Command& root, AppContext& context);
void RegisterRender(Command& root, AppContext& context);
void RegisterRun(Command& root, AppContext& context);
void RegisterChat(Command& root, AppContext& context);
void RegisterObserve(Command& root, AppContext& context);
void RegisterCompare(Command& root, AppContext& context);
void RegisterPromote(Command& root, AppContext& context);
void RegisterVerify(Command& root, AppContext& context);
void RegisterReport(Command& root, AppContext& context);
void RegisterMutate(Command& root, AppContext& context);
void RegisterExport(Command& root, AppContext& context);
void RegisterFsck(Command& root, AppContext& context);
void RegisterLog(Command& root, AppContext& context);
void RegisterShow(Command& root, AppContext& context);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_COMMANDS_H_
