#include "safetensors/header_scan.h"

#include "codec/json.h"

namespace slm::safetensors {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// One past the closing quote of the string that opens at `begin`; text.size() if it never closes.
size_t StringEnd(std::string_view text, size_t begin) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

std::string Unescaped(std::string_view quoted) {
  auto document = json::Parse(std::string(quoted));
  if (document && document->root().is_string()) return std::string(document->root().string());
  return std::string(quoted);
}

size_t SkipBlanksBack(std::string_view text, size_t end) {
  while (end > 0 && kBlanks.find(text[end - 1]) != std::string_view::npos) --end;
  return end;
}

}  // namespace

size_t RootObjectEnd(std::string_view text) {
  uint64_t depth = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = StringEnd(text, i);
      continue;
    }
    ++i;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i;
  }
  return text.size();
}

std::string TopLevelKeyAt(std::string_view text, uint64_t offset) {
  uint64_t depth = 0;
  bool expect_key = false;
  std::string_view key;
  for (size_t i = 0; i < text.size() && i <= offset;) {
    const char c = text[i];
    if (c == '"') {
      const size_t end = StringEnd(text, i);
      if (depth == 1 && expect_key) {
        key = text.substr(i, end - i);
        expect_key = false;
      }
      i = end;
      continue;
    }
    ++i;
    if (c == '{' || c == '[') expect_key = ++depth == 1;
    if ((c == '}' || c == ']') && depth > 0) --depth;
    if (c == ',' && depth == 1) {
      expect_key = true;
      if (i <= offset) key = {};
    }
  }
  return key.empty() ? std::string() : Unescaped(key);
}

std::optional<uint64_t> LeadingZeroDimension(std::string_view text, uint64_t offset) {
  const auto in_number = [&](size_t i) { return (text[i] >= '0' && text[i] <= '9') || text[i] == '-'; };
  if (offset >= text.size()) return std::nullopt;
  size_t begin = static_cast<size_t>(offset);
  while (begin > 0 && in_number(begin - 1)) --begin;
  size_t end = begin;
  while (end < text.size() && in_number(end)) ++end;
  const std::string_view number = text.substr(begin, end - begin);
  const size_t digits = number.starts_with('-') ? 1 : 0;
  if (number.size() < digits + 2 || number[digits] != '0') return std::nullopt;
  // Back over the earlier dimensions to the list's bracket, then to its key.
  size_t at = begin;
  while (at > 0 &&
         (in_number(at - 1) || text[at - 1] == ',' || kBlanks.find(text[at - 1]) != std::string_view::npos)) {
    --at;
  }
  if (at == 0 || text[at - 1] != '[') return std::nullopt;
  at = SkipBlanksBack(text, at - 1);
  if (at == 0 || text[at - 1] != ':') return std::nullopt;
  at = SkipBlanksBack(text, at - 1);
  if (!text.substr(0, at).ends_with("\"shape\"")) return std::nullopt;
  return begin;
}

}  // namespace slm::safetensors
