#include "base/error.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace slm {
namespace {

constexpr ErrorInfo kTable[] = {
#define SLM_ERROR(symbol, code, number, area, meaning) \
  {ErrorCode::symbol, code, number, ErrorArea::area, meaning},
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
