// Places in the text of a safetensors header that may be broken JSON: where its object ends, and
// whose entry a fault stands in. Used for error reports only; pure functions, linear time.
#ifndef SLM_SAFETENSORS_HEADER_SCAN_H_
#define SLM_SAFETENSORS_HEADER_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slm::safetensors {

// One past the bracket that closes the first one; text.size() if nothing closes it.
// REQUIRES: text begins with {.
[[nodiscard]] size_t RootObjectEnd(std::string_view text);

// Key of the root object's member that holds `offset` (the key itself included), unescaped where
// it is a valid string, escaped for display otherwise; empty if there is none.
[[nodiscard]] std::string TopLevelKeyAt(std::string_view text, uint64_t offset);

// If `offset` lies in a number such as 01 inside a list that is the value of "shape": where that
// number begins. JSON forbids it by grammar, but the fault is one of the shape (ST-011).
[[nodiscard]] std::optional<uint64_t> LeadingZeroDimension(std::string_view text, uint64_t offset);

}  // namespace slm::safetensors

#endif  // SLM_SAFETENSORS_HEADER_SCAN_H_
