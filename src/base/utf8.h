// UTF-8 as Unicode 16 chapter 3.9 (table 3-7) and RFC 3629 define it.
#ifndef SLM_BASE_UTF8_H_
#define SLM_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slm {

// Where text stops being well-formed (TOK-02).
struct Utf8Fault {
  size_t byte_offset;  // length of the longest well-formed prefix
  size_t length;       // bytes in the maximal ill-formed subpart, 1 to 3
};

// Nothing if `text` is well-formed. U+0000 is ordinary text.
[[nodiscard]] std::optional<Utf8Fault> FindUtf8Fault(std::string_view text);

// Decodes the scalar value that starts at `*position` and moves past it.
// REQUIRES: well-formed text, *position < text.size().
[[nodiscard]] char32_t DecodeUtf8(std::string_view text, size_t* position);

// REQUIRES: a scalar value (not a surrogate, at most U+10FFFF).
void AppendUtf8(std::string* out, char32_t scalar);

// Number of scalar values. REQUIRES: well-formed text.
[[nodiscard]] size_t CountScalars(std::string_view text);

// How many bytes at the end of `text` begin a sequence that further bytes could complete
// (0 to 3). Used to hold back an incomplete character while streaming.
[[nodiscard]] size_t IncompleteUtf8Suffix(std::string_view text);

// For display only: control, bidi and ill-formed bytes as \xNN or \u{...} (ID-04).
[[nodiscard]] std::string EscapeForDisplay(std::string_view bytes);

}  // namespace slm

#endif  // SLM_BASE_UTF8_H_
