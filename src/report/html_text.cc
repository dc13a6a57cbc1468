#include "report/html_text.h"

#include <array>
#include <charconv>

#include "base/utf8.h"

namespace slm::report {

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : EscapeForDisplay(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
        break;
    }
  }
  return out;
}

std::string EscapeMultiline(std::string_view text) {
  std::string out;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find('\n', begin);
    out += Escape(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return out;
    out += "<span class=\"nl\" aria-hidden=\"true\">&#8629;</span>\n";
    begin = end + 1;
  }
}

std::string IdSpan(std::string_view hex) {
  if (hex.empty()) return "<span class=\"muted\">&ndash;</span>";
  const std::string safe = Escape(hex);
  return "<code class=\"id\" tabindex=\"0\" title=\"" + safe + "\">" + safe + "</code>";
}

std::string NodeLink(std::string_view hex) {
  const std::string safe = Escape(hex);
  return "<a class=\"id\" href=\"#n-" + safe + "\" title=\"" + safe + "\">" + safe + "</a>";
}

std::string ShortNumber(double value) {
  if (value == 0) return "0";
  std::array<char, 64> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3);
  return {buffer.data(), result.ptr};
}

std::string Grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace slm::report
