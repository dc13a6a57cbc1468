#include "base/error.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace slm {
namespace {

// A module for browsers shows the error's own message and leaves the table's texts out.
#ifdef __wasm__
#define SLM_MEANING(text) \
  {                       \
  }
#else
#define SLM_MEANING(text) text
#endif

constexpr ErrorInfo kTable[] = {
#define SLM_ERROR(symbol, code, number, area, meaning) \
  {ErrorCode::symbol, code, number, ErrorArea::area, SLM_MEANING(meaning)},
#include "base/errors.def"
#undef SLM_ERROR
};

constexpr bool IsStrictlyIncreasing() {
  for (size_t i = 1; i < std::size(kTable); ++i) {
    if (kTable[i - 1].number >= kTable[i].number) return false;
  }
  return true;
}
static_assert(IsStrictlyIncreasing(), "errors.def must stand in order of number, each number once");

}  // namespace

const ErrorInfo& Info(ErrorCode code) {
  const auto number = static_cast<uint16_t>(code);
  const auto* row =
      std::lower_bound(std::begin(kTable), std::end(kTable), number,
                       [](const ErrorInfo& info, uint16_t wanted) { return info.number < wanted; });
  if (row != std::end(kTable) && row->number == number) return *row;
  return kTable[1];  // a value outside the enumeration is a fault of the program: INTERNAL
}

const ErrorInfo* ErrorTable(size_t* count) {
  *count = std::size(kTable);
  return kTable;
}

Error::Error() = default;
Error::Error(ErrorCode error_code, std::string&& text) : code(error_code), message(std::move(text)) {}
Error::Error(const Error& other) = default;
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) = default;
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

Error&& Error::At(uint64_t offset) && {
  byte_offset = offset;
  return std::move(*this);
}

Error&& Error::In(std::string_view name) && {
  if (file.empty()) file = name;
  return std::move(*this);
}

Error&& Error::Field(std::string_view name) && {
  field = name;
  return std::move(*this);
}

Error MakeError(ErrorCode code, std::string&& message) {
  return {code, std::move(message)};
}

Error MakeError(ErrorCode code, const std::string& message) {
  return {code, std::string(message)};
}

Error MakeError(ErrorCode code, const char* message) {
  return {code, std::string(message)};
}

std::unexpected<Error> Fail(const Error& error) {
  return std::unexpected<Error>(error);
}

std::unexpected<Error> Fail(ErrorCode code, std::string&& message) {
  return std::unexpected<Error>(std::in_place, code, std::move(message));
}

std::unexpected<Error> Fail(ErrorCode code, const std::string& message) {
  return std::unexpected<Error>(std::in_place, code, std::string(message));
}

std::unexpected<Error> Fail(ErrorCode code, const char* message) {
  return std::unexpected<Error>(std::in_place, code, std::string(message));
}

std::string Error::CodeText() const {
  std::string text(Info(code).name);
  if (cause) text.append("/").append(Info(*cause).name);
  return text;
}

std::string Error::ToString() const {
  std::string text = "error " + CodeText();
  if (!file.empty() || byte_offset) {
    text += " at ";
    text += file;
    if (byte_offset) {
      text += file.empty() ? "byte " : ":";
      text += std::to_string(*byte_offset);
    }
  }
  text += ": ";
  text += message;
  if (!field.empty() && message.find(field) == std::string::npos) text += " (" + field + ")";
  return text;
}

}  // namespace slm
