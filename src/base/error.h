// Errors of the whole project: one value type, one table of codes.
//
// Every function that a caller can act on returns Result<T>. Which code an input gets, and
// its byte offset, is part of the contract and is tested. The library never throws, prints,
// or exits. Types here hold no shared state and may be used from any thread.
#ifndef SLM_BASE_ERROR_H_
#define SLM_BASE_ERROR_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace slm {

// The kinds of refusal; see errors.def for meaning and number of each.
enum class ErrorCode : uint16_t {
#define SLM_ERROR(symbol, code, number, area, meaning) symbol = number,
#include "base/errors.def"
#undef SLM_ERROR
};

// What a program does about an error: the exit status of the command line.
enum class ErrorArea : uint8_t {
  kInput,        // an input was refused: exit status 3
  kUsage,        // wrong usage: exit status 2
  kClaim,        // a claim failed or is unstable: exit status 1
  kEnvironment,  // disk full, file not readable, network: exit status 4
  kInternal,     // a fault of the program: exit status 70
};

// Facts about one code, from the table.
struct ErrorInfo {
  ErrorCode code;
  std::string_view name;  // stable text, e.g. "ST-015"
  uint16_t number;
  ErrorArea area;
  std::string_view meaning;  // empty in modules for browsers
};

// Facts about `code`. Never fails for a value of the enumeration.
[[nodiscard]] const ErrorInfo& Info(ErrorCode code);

// The whole table in order of number; `count` receives its length.
[[nodiscard]] const ErrorInfo* ErrorTable(size_t* count);

// Told to clang, which then refuses a PassOn that outlives its error.
#ifdef __clang__
#define SLM_POINTS_AT [[gsl::Pointer]]
#define SLM_OUTLIVED [[clang::lifetimebound]]
#else
#define SLM_POINTS_AT
#define SLM_OUTLIVED
#endif

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;                  // what is wrong and what to do, one line
  std::string file;                     // display form of the input's name; may be empty
  std::optional<uint64_t> byte_offset;  // of the offending token in that input
  std::string field;                    // offending key, field, or tensor; may be empty
  std::optional<ErrorCode> cause;       // inner code: printed as "OUTER/INNER"

  // Out of line: every call that can fail moves and destroys an error, and three strings each time were
  // a quarter of the code that parses.
  Error();
  Error(ErrorCode error_code, std::string&& text);
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();

  // "ST-015", or "SLM-MANIFEST-P0/NON_SHORTEST" where there is a cause.
  [[nodiscard]] std::string CodeText() const;
  // "error CODE at FILE:BYTE_OFFSET: message (FIELD)"; absent parts and a field that the message names: out.
  [[nodiscard]] std::string ToString() const;

  Error&& At(uint64_t offset) && SLM_OUTLIVED;
  Error&& In(std::string_view name) && SLM_OUTLIVED;
  Error&& Field(std::string_view name) && SLM_OUTLIVED;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

// return Fail(ErrorCode::kX, "message");   or   Fail(MakeError(...).At(offset).Field("f"))
[[nodiscard]] Error MakeError(ErrorCode code, std::string&& message);
[[nodiscard]] Error MakeError(ErrorCode code, const std::string& message);
[[nodiscard]] Error MakeError(ErrorCode code, const char* message);
// An error on its way out of a function: becomes a failed Result of any type, by one move and no temporary.
// It points at the error and lives in a return statement only. Moves by way of std::unexpected were a third
// of the code that parses.
class SLM_POINTS_AT PassOn {
 public:
  explicit PassOn(Error& error SLM_OUTLIVED) : error_(&error) {}
  template <typename T, typename E>
  operator std::expected<T, E>() const {  // NOLINT(google-explicit-constructor): what return needs
    return std::expected<T, E>(std::unexpect, std::move(*error_));
  }
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  operator std::unexpected<Error>() const { return std::unexpected<Error>(std::move(*error_)); }

 private:
  Error* error_;
};

[[nodiscard]] inline PassOn Fail(Error&& error SLM_OUTLIVED) {
  return PassOn(error);
}
[[nodiscard]] std::unexpected<Error> Fail(const Error& error);
[[nodiscard]] std::unexpected<Error> Fail(ErrorCode code, std::string&& message);
[[nodiscard]] std::unexpected<Error> Fail(ErrorCode code, const std::string& message);
[[nodiscard]] std::unexpected<Error> Fail(ErrorCode code, const char* message);

#define SLM_CONCAT_INNER(a, b) a##b
#define SLM_CONCAT(a, b) SLM_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (a Status or Result) failed.
#define SLM_TRY(expr) SLM_TRY_INNER(SLM_CONCAT(slm_status_, __LINE__), expr)
#define SLM_TRY_INNER(tmp, expr)                             \
  do {                                                       \
    auto tmp = (expr);                                       \
    if (!tmp.has_value()) return ::slm::PassOn(tmp.error()); \
  } while (false)

// Declares `decl` as the value of `expr`, or returns its error.
#define SLM_ASSIGN(decl, expr) SLM_ASSIGN_INNER(SLM_CONCAT(slm_result_, __LINE__), decl, expr)
#define SLM_ASSIGN_INNER(tmp, decl, expr)                  \
  auto tmp = (expr);                                       \
  if (!tmp.has_value()) return ::slm::PassOn(tmp.error()); \
  decl = *std::move(tmp)

}  // namespace slm

#endif  // SLM_BASE_ERROR_H_
