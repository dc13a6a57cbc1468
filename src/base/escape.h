// Text for a terminal: what a line of output may not hold, made visible. Pure function.
#ifndef SLM_BASE_ESCAPE_H_
#define SLM_BASE_ESCAPE_H_

#include <string>
#include <string_view>

namespace slm {

// As EscapeForDisplay, but a backslash stays one: for a line that names from outside are part of, some of
// them in display form already. The result holds no line break and nothing that a terminal obeys.
[[nodiscard]] std::string EscapeLine(std::string_view line);

}  // namespace slm

#endif  // SLM_BASE_ESCAPE_H_
