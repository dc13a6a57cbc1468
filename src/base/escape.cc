#include "base/escape.h"

#include <algorithm>

#include "base/utf8.h"

namespace slm {

std::string EscapeLine(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  while (!line.empty()) {
    const size_t end = std::min(line.find('\\'), line.size());
    out += EscapeForDisplay(line.substr(0, end));
    if (end == line.size()) break;
    out += '\\';
    line.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace slm
