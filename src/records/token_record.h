// Records of tokenize and detokenize (docs/spec/cli.md, "Batches"; TOK-02 to TOK-04). Plain functions, any
// thread.
#ifndef SLM_RECORDS_TOKEN_RECORD_H_
#define SLM_RECORDS_TOKEN_RECORD_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "records/record.h"
#include "tokenizer/tokenizer.h"

namespace slm::records {

// {"text"} or {"bytes", "api"}; "add_special_tokens", "special_tokens_as_text", "truncation", "padding".
// Errors: CASE-SCHEMA, SCHEMA-UNKNOWN-KEY, those of the tokenizer.
[[nodiscard]] Status TokenizeRecord(const tokenizer::Tokenizer& tokenizer, const json::Value& record,
                                    json::Writer& out);
// {"ids", "mode"}. Errors: CASE-SCHEMA, SCHEMA-UNKNOWN-KEY, TOK-UNKNOWN-ID.
[[nodiscard]] Status DetokenizeRecord(const tokenizer::Tokenizer& tokenizer, const json::Value& record,
                                      json::Writer& out);

// "ids" and "offsets" of the answer.
void WriteEncoding(const tokenizer::Encoding& encoding, json::Writer& out);
void WriteOffsets(std::string_view name, const std::vector<std::pair<uint64_t, uint64_t>>& offsets,
                  json::Writer& out);
// "bytes", and "text" where they are well-formed.
void WriteDecoded(const std::string& bytes, json::Writer& out);
// Error: CASE-SCHEMA with field "mode".
[[nodiscard]] Result<tokenizer::DecodeMode> ModeOf(std::string_view name);

}  // namespace slm::records

#endif  // SLM_RECORDS_TOKEN_RECORD_H_
