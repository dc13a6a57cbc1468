// What the subcommands share: refusals, files, progress, batches.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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

Error SystemError(const std::string& path, const char* what) {
  const int code = errno;
  const ErrorCode kind = code == ENOENT   ? ErrorCode::kNotFound
                         : code == ENOSPC ? ErrorCode::kDiskFull
                                          : ErrorCode::kIo;
  return MakeError(kind, std::string(what) + ": " + std::strerror(code)).In(path);
}

void WriteErrorMembers(const Error& error, json::Writer& out) {
  out.Key("error").BeginObject();
  out.Key("code").String(error.CodeText());
  out.Key("number").Uint(static_cast<uint64_t>(error.code));
  if (!error.file.empty()) out.Key("file").String(EscapeForDisplay(error.file));
  if (error.byte_offset) out.Key("byte_offset").Uint(*error.byte_offset);
  if (!error.field.empty()) out.Key("field").String(EscapeForDisplay(error.field));
  out.Key("message").String(EscapeForDisplay(error.message));
  out.EndObject();
}

}  // namespace

std::string ErrorJson(const Error& error) {
  json::Writer out;
  out.BeginObject();
  WriteErrorMembers(error, out);
  out.EndObject();
  return out.Take();
}

void AppContext::Report(const Error& error) {
  if (json) Print(ErrorJson(error) + "\n");
  std::fprintf(stderr, "%s\n", error.ToString().c_str());
  exit_code = ExitStatus(Info(error.code).area);
}

void AppContext::Print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
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

Result<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Fail(SystemError(path, "cannot open"));
  std::string text;
  char block[65536];
  Status status;
  for (;;) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = Fail(SystemError(path, "cannot read"));
    if (got <= 0) break;
    if (text.size() + static_cast<size_t>(got) > max_bytes) {
      status = Fail(
          MakeError(ErrorCode::kLimit, "larger than the limit of " + std::to_string(max_bytes) + " bytes")
              .In(path)
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

Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  const std::string staging = path + ".partial-" + std::to_string(getpid());
  const int fd = open(staging.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return Fail(SystemError(path, "cannot create"));
  Status status;
  while (!contents.empty() && status) {
    const ssize_t put = write(fd, contents.data(), contents.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) status = Fail(SystemError(path, "cannot write"));
    if (put > 0) contents.remove_prefix(static_cast<size_t>(put));
  }
  if (status && fsync(fd) != 0) status = Fail(SystemError(path, "cannot write"));
  if (close(fd) != 0 && status) status = Fail(SystemError(path, "cannot write"));
  if (status && rename(staging.c_str(), path.c_str()) != 0) status = Fail(SystemError(path, "cannot rename"));
  if (!status) unlink(staging.c_str());
  return status;
}

void RunBatch(AppContext& context,
              const std::function<Status(const json::Value& record, json::Writer& out)>& handle) {
  std::string line;
  const auto answer = [&](const std::string& text) {
    json::Limits limits;
    limits.max_bytes = uint64_t{256} << 20;
    std::string id = "null";
    json::Writer out;
    const auto document = json::Parse(text, limits);
    Status status;
    if (!document) {
      status = Fail(document.error());
    } else if (!document->root().is_object()) {
      status = Fail(MakeError(ErrorCode::kJsonType, "a record is one JSON object a line").At(0));
    } else {
      if (const auto value = document->root().Find("id")) id = value->source_text();
      out.BeginObject().Key("id").Raw(id);
      status = handle(document->root(), out);
    }
    if (!status) {
      out = json::Writer();
      out.BeginObject().Key("id").Raw(id);
      WriteErrorMembers(status.error(), out);
    }
    out.EndObject();
    context.Print(out.Take() + "\n");
    std::fflush(stdout);
  };
  for (int byte = std::getchar(); byte != EOF; byte = std::getchar()) {
    if (byte != '\n') {
      line.push_back(static_cast<char>(byte));
      continue;
    }
    if (!line.empty()) answer(line);
    line.clear();
  }
  if (!line.empty()) answer(line);
  if (std::ferror(stdin) != 0) context.Report(MakeError(ErrorCode::kIo, "standard input could not be read"));
}

}  // namespace slm::app
