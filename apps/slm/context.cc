// What the subcommands share: refusals, files, progress, batches.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/slm/commands.h"
#include "base/utf8.h"

namespace slm::app {
namespace {

int ExitStatus(ErrorArea area) {
  switch (area) {
    case ErrorArea::kInput:
      return 3;
    case ErrorArea::kUsage:
      return 2;
    case ErrorArea::kClaim:
      return 1;
    case ErrorArea::kEnvironment:
      return 4;
    case ErrorArea::kInternal:
      return 70;
  }
  return 70;
}

// errno of reading, in the words of the system.
Error SystemError(const std::string& path, const char* what) {
  const int code = errno;
  const ErrorCode kind = code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound
                         : code == EISDIR                  ? ErrorCode::kUnsupported
                                                           : ErrorCode::kIo;
  return MakeError(kind, std::string(what) + ": " + std::strerror(code)).In(path);
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

Status RefuseIfSame(const std::string& out, const struct stat& target, const std::string& input) {
  struct stat info{};
  if (stat(input.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !SameFile(target, info)) return {};
  return Fail(MakeError(ErrorCode::kUsage, "this file is an input of the command; write to another name")
                  .In(out)
                  .Field(input));
}

// A new file inside a directory that is an input would make it another source.
Status RefuseIfInside(const std::string& out, const std::string& input) {
  if (!IsDirectory(input)) return {};
  std::error_code failed;
  const auto parent = std::filesystem::weakly_canonical(std::filesystem::absolute(out), failed).parent_path();
  if (failed) return {};
  const auto folder = std::filesystem::canonical(input, failed);
  if (failed) return {};
  for (auto at = parent; !at.empty(); at = at.parent_path()) {
    if (at == folder) {
      return Fail(MakeError(ErrorCode::kUsage,
                            "this file would lie in a directory that the command reads; write to "
                            "another folder")
                      .In(out)
                      .Field(input));
    }
    if (at == at.parent_path()) break;
  }
  return {};
}

}  // namespace

void AppContext::Report(const Error& error, const ErrorPlace& place) {
  if (json) Print(ErrorJson(error, place) + "\n");
  std::fprintf(stderr, "%s\n", EscapeForDisplay(error.ToString()).c_str());
  exit_code = ExitStatus(Info(error.code).area);
}

void AppContext::Print(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_errno == 0)
    output_errno = errno;
}

Status AppContext::Flush() const {
  if (std::fflush(stdout) != 0 && output_errno == 0) output_errno = errno;
  if (output_errno == 0) return {};
  const ErrorCode code = output_errno == ENOSPC ? ErrorCode::kDiskFull : ErrorCode::kIo;
  return Fail(
      MakeError(code, std::string("cannot write: ") + std::strerror(output_errno)).In("standard output"));
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && last_percent_ >= 0) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(uint64_t done, uint64_t total) {
  if (!terminal_ || total == 0) return;
  const int percent = static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * 100.0);
  if (percent == last_percent_) return;
  last_percent_ = percent;
  constexpr int kWidth = 30;
  const int filled = percent * kWidth / 100;
  std::fprintf(stderr, "\r%-24s [%.*s%*s] %3d %%", label_.c_str(), filled, "##############################",
               kWidth - filled, "", percent);
  std::fflush(stderr);
}

bool IsDirectory(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string name = standard_input ? "standard input" : path;
  if (fd < 0) return Fail(SystemError(name, "cannot open"));
  if (standard_input && isatty(STDIN_FILENO) == 1)
    std::fputs("reading from the terminal; Ctrl-D on an empty line ends the input\n", stderr);
  std::string text;
  char block[65536];
  Status status;
  for (;;) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = Fail(SystemError(name, "cannot read"));
    if (got <= 0) break;
    if (text.size() + static_cast<size_t>(got) > max_bytes) {
      status = Fail(
          MakeError(ErrorCode::kLimit, "larger than the limit of " + std::to_string(max_bytes) + " bytes")
              .In(name)
              .At(max_bytes));
      break;
    }
    text.append(block, static_cast<size_t>(got));
  }
  if (!standard_input) close(fd);
  if (!status) return std::unexpected(status.error());
  return text;
}

Result<std::string> TemporaryDirectory() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::temp_directory_path(error);
  if (error) return Fail(ErrorCode::kIo, "no folder for temporary files: " + error.message());
  return path.string();
}

std::string JsonName(const std::string& name) {
  return FindUtf8Fault(name) ? EscapeForDisplay(name) : name;
}

Status CheckOutput(const std::string& out, const std::vector<std::string>& inputs) {
  if (out.empty() || out == "-") {
    return Fail(MakeError(ErrorCode::kUsage, out.empty() ? "the name of the file to write is empty"
                                                         : "'-' is no file to write to: standard output "
                                                           "carries the summary; name a file, or a FIFO")
                    .Field("--out"));
  }
  struct stat target{};
  const bool exists = stat(out.c_str(), &target) == 0;
  struct stat standard_output{};
  if (exists && !S_ISCHR(target.st_mode) && fstat(STDOUT_FILENO, &standard_output) == 0 &&
      SameFile(target, standard_output)) {
    return Fail(MakeError(ErrorCode::kUsage,
                          "standard output goes there, and carries the summary; write to another name")
                    .In(out)
                    .Field("--out"));
  }
  if (exists && !S_ISREG(target.st_mode)) return {};
  for (const std::string& input : inputs) SLM_TRY(RefuseIfInside(out, input));
  if (!exists) return {};
  for (const std::string& input : inputs) {
    SLM_TRY(RefuseIfSame(out, target, input));
    std::error_code ended;
    constexpr auto kOptions = std::filesystem::directory_options::skip_permission_denied;
    for (std::filesystem::recursive_directory_iterator at(input, kOptions, ended), end; !ended && at != end;
         at.increment(ended)) {
      SLM_TRY(RefuseIfSame(out, target, at->path().string()));
    }
  }
  return {};
}

Error UnknownName(std::string_view kind, std::string_view option, std::string_view name,
                  std::initializer_list<std::string_view> known) {
  std::string names;
  for (const std::string_view one : known) names.append(names.empty() ? "" : ", ").append(one);
  return MakeError(ErrorCode::kUsage, "there is no " + std::string(kind) + " '" + std::string(name) +
                                          "'; this build has " + names)
      .Field(option);
}

Result<std::vector<uint32_t>> ParseTokenIds(std::string_view text, std::string_view argument) {
  std::vector<uint32_t> ids;
  constexpr std::string_view kBetween = " ,\n\t\r[]";
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    uint32_t id = 0;
    const auto [rest, fault] = std::from_chars(text.data() + at, text.data() + end, id);
    if (fault != std::errc() || rest != text.data() + end) {
      return Fail(MakeError(ErrorCode::kUsage, "'" + std::string(text.substr(at, end - at)) +
                                                   "' is no token id: a whole number from 0 to 4294967295")
                      .Field(argument));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

void RunBatch(AppContext& context, const records::Handler& handle) {
  std::string line;
  bool too_long = false;
  const auto answer = [&]() -> Status {
    context.Print(records::AnswerLine(std::move(line), too_long, handle).text + "\n");
    line.clear();
    too_long = false;
    return context.Flush();
  };
  std::vector<char> block(65536);
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return context.Report(SystemError("standard input", "cannot read"));
    if (got == 0) break;
    for (std::string_view rest(block.data(), static_cast<size_t>(got)); !rest.empty();) {
      const size_t end = rest.find('\n');
      const std::string_view piece = rest.substr(0, end);
      too_long = too_long || line.size() + piece.size() > records::kMaxLineBytes;
      if (!too_long) line += piece;
      if (end == std::string_view::npos) break;
      if (const Status status = answer(); !status) return context.Report(status.error());
      rest.remove_prefix(end + 1);
    }
  }
  if (line.empty() && !too_long) return;
  if (const Status status = answer(); !status) context.Report(status.error());
}

}  // namespace slm::app
