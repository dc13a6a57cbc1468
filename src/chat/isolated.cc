#include "chat/isolated.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "codec/cbor.h"

namespace slm::chat {
namespace {

// What the process has mapped now, from the kernel; 0 where it does not say.
uint64_t MappedBytes() {
  uint64_t n_pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    char line[128] = {};
    if (std::fgets(line, sizeof line, file) != nullptr) n_pages = std::strtoul(line, nullptr, 10);
    (void)std::fclose(file);
  }
  return n_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Never more than the process has been given.
void Limit(int resource, uint64_t value) {
  const auto which = static_cast<__rlimit_resource_t>(resource);
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) ::_exit(71);
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, value);
  if (::setrlimit(which, &limit) != 0) ::_exit(71);
}

bool WriteAll(int fd, const uint8_t* bytes, size_t n) {
  while (n > 0) {
    const ssize_t written = ::write(fd, bytes, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    n -= static_cast<size_t>(written);
  }
  return true;
}

// In the child: the answer is a CBOR map, with the IR or with the error.
[[noreturn]] void Convert(std::string_view source, const IsolationLimits& limits, uint64_t mapped, int fd) {
  // Without memory the child ends here; it must never unwind into its copy of the caller.
  std::set_new_handler([] { ::_exit(73); });
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_FSIZE, 0);
  Limit(RLIMIT_NOFILE, 0);
  Limit(RLIMIT_CPU, limits.cpu_seconds);
  Limit(RLIMIT_AS, mapped + limits.address_space_bytes);
  const auto compiled = Template::Compile(source);
  Bytes answer;
  if (compiled) {
    answer = cbor::Encode(cbor::Map{{"ir", compiled->Serialize()}});
  } else {
    const Error& error = compiled.error();
    cbor::Map map{{"code", static_cast<uint64_t>(error.code)}, {"message", error.message}};
    if (error.byte_offset) map.Set("byte_offset", *error.byte_offset);
    answer = cbor::Encode(std::move(map));
  }
  ::_exit(WriteAll(fd, answer.data(), answer.size()) ? 0 : 72);
}

Error Died(int status) {
  std::string how = "ended without an answer";
  if (WIFSIGNALED(status)) how = "was killed by signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    how = "ended with status " + std::to_string(WEXITSTATUS(status));
  return MakeError(ErrorCode::kTplBound, "the process that converts the template " + how);
}

// Whether this process may map less than a conversion is allowed: its death says nothing about the template
// then.
bool IsCramped(uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < bytes;
}

Result<Template> ReadAnswer(const Bytes& answer, const Error& died) {
  const auto value = cbor::Decode(answer);
  if (!value || value->AsMap() == nullptr) return Fail(died);
  const auto member = [&value](std::string_view key) { return value->AsMap()->Find(key); };
  if (const cbor::Value* ir = member("ir"); ir != nullptr && ir->AsByteString() != nullptr) {
    return Template::Load(*ir->AsByteString());
  }
  const cbor::Value* code = member("code");
  const cbor::Value* message = member("message");
  if (code == nullptr || code->AsUint() == nullptr || message == nullptr ||
      message->AsTextString() == nullptr) {
    return Fail(died);
  }
  Error error = MakeError(static_cast<ErrorCode>(*code->AsUint()), *message->AsTextString());
  if (const cbor::Value* offset = member("byte_offset"); offset != nullptr && offset->AsUint() != nullptr) {
    error.byte_offset = *offset->AsUint();
  }
  return Fail(std::move(error));
}

}  // namespace

Result<Template> CompileIsolated(std::string_view source, const IsolationLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Fail(ErrorCode::kIo, std::string("no pipe: ") + std::strerror(errno));
  const uint64_t mapped = MappedBytes();
  (void)std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    (void)::close(ends[0]);
    (void)::close(ends[1]);
    return Fail(ErrorCode::kIo, std::string("no process: ") + std::strerror(error));
  }
  if (child == 0) Convert(source, limits, mapped, ends[1]);
  (void)::close(ends[1]);
  Bytes answer;
  uint8_t buffer[65536];
  bool too_long = false;
  for (;;) {
    const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    too_long = too_long || answer.size() + static_cast<size_t>(n) > limits.ir_bytes;
    if (too_long) {
      (void)::kill(child, SIGKILL);
      break;
    }
    answer.insert(answer.end(), buffer, buffer + n);
  }
  (void)::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (too_long) return Fail(ErrorCode::kTplBound, "the template's IR is too large");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    if (!IsCramped(mapped + limits.address_space_bytes)) return Fail(Died(status));
    return Fail(ErrorCode::kMemory,
                Died(status).message + "; a limit on address space (ulimit -v) leaves it less than the " +
                    std::to_string(limits.address_space_bytes) + " bytes that it may take");
  }
  return ReadAnswer(answer, Died(status));
}

}  // namespace slm::chat
