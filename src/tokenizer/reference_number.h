// How the reference reads a number with a fraction or an exponent: its JSON parser takes the digits as one
// integer, rounds that to double and multiplies or divides by a power of ten, which rounds once more. The
// last bit of a score decides between paths that would else be equal (TOK-10), so the published scores are
// read as it reads them. Any thread.
//
// Source: serde_json 1 without its feature float_roundtrip, as tokenizers 0.23.3 is built.
#ifndef SLM_TOKENIZER_REFERENCE_NUMBER_H_
#define SLM_TOKENIZER_REFERENCE_NUMBER_H_

#include <optional>
#include <string_view>

namespace slm::tokenizer {

// The value of a JSON number; none where the reference refuses it as out of range. REQUIRES: `text` is a JSON
// number.
[[nodiscard]] std::optional<double> ReadAsReference(std::string_view text);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_REFERENCE_NUMBER_H_
