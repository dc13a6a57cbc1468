// The escapes with which Python writes characters: \xhh, \uhhhh, \Uhhhhhhhh.
#ifndef SLM_CHAT_PYTHON_ESCAPE_H_
#define SLM_CHAT_PYTHON_ESCAPE_H_

#include <string>

namespace slm::chat {

// The shortest of the three forms that holds `c`.
[[nodiscard]] inline std::string PythonEscape(char32_t c) {
  const unsigned n_digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string out = c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
  for (unsigned i = n_digits; i-- > 0;) out.push_back("0123456789abcdef"[(c >> (4 * i)) & 15]);
  return out;
}

}  // namespace slm::chat

#endif  // SLM_CHAT_PYTHON_ESCAPE_H_
