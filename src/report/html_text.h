// Text for HTML: everything that comes from a source or a model passes through here.
// Pure functions, any thread.
#ifndef SLM_REPORT_HTML_TEXT_H_
#define SLM_REPORT_HTML_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace slm::report {

// For element content and quoted attributes. Control and bidirectional characters, which could change how
// the rest of the page reads, and ill-formed bytes become visible escapes.
[[nodiscard]] std::string Escape(std::string_view text);

// Like Escape, but a line feed stays one, with a visible mark before it.
[[nodiscard]] std::string EscapeMultiline(std::string_view text);

// An id: shown short, whole on hover, focus and in what is copied.
[[nodiscard]] std::string IdSpan(std::string_view hex);

// The id of a node as a link to the node's entry in the page.
[[nodiscard]] std::string NodeLink(std::string_view hex);

// "1.4e-05", "0", "-3.25": three significant digits.
[[nodiscard]] std::string ShortNumber(double value);

// "538,090,408"
[[nodiscard]] std::string Grouped(uint64_t value);

}  // namespace slm::report

#endif  // SLM_REPORT_HTML_TEXT_H_
