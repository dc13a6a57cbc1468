// One batch record in, one answer line out (docs/spec/cli.md, "Batches"). The command line's --batch and
// the C ABI answer through this code, so that a browser gives the bytes that a terminal gives. No input or
// output. Plain functions, any thread.
#ifndef SLM_RECORDS_RECORD_H_
#define SLM_RECORDS_RECORD_H_

#include <cstdint>
#include <expected>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "codec/json.h"

namespace slm::records {

inline constexpr uint64_t kMaxLineBytes = uint64_t{256} << 20;

// Where an error in a template stands, beside what an Error says; parts that are absent are empty or 0.
struct ErrorPlace {
  std::string_view stage;         // "convert", "render"; a literal
  uint64_t line = 0, column = 0;  // from 1; the column counts scalars
};

// What refused a record.
struct Fault {
  Error error;
  ErrorPlace place;
  // An Error without a place is a fault too, so that SLM_TRY works.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Fault(Error of, ErrorPlace at = {}) : error(std::move(of)), place(at) {}
};
using RecordStatus = std::expected<void, Fault>;

// Writes the members of the answer (without id) into the open object.
using Handler = std::function<RecordStatus(const json::Value& record, json::Writer& out)>;

// The member "error" of an error document, into the open object.
void WriteError(const Error& error, json::Writer& out, const ErrorPlace& place = {});
// {"error":{...}} as cli.md defines it.
[[nodiscard]] std::string ErrorJson(const Error& error, const ErrorPlace& place = {});

// A record has these members only. Error: SCHEMA-UNKNOWN-KEY with the key.
[[nodiscard]] Status OnlyMembers(const json::Value& record, std::initializer_list<std::string_view> known);

struct AnsweredLine {
  std::string text;               // one JSON object, without line feed
  std::optional<ErrorCode> code;  // of the refusal, where the object has the member "error"
};
// Parses one line and answers it. `id` is echoed as it came, null where there is none. `too_long`: the line
// was longer than kMaxLineBytes and was not kept.
[[nodiscard]] AnsweredLine AnswerLine(std::string line, bool too_long, const Handler& handle);

}  // namespace slm::records

#endif  // SLM_RECORDS_RECORD_H_
