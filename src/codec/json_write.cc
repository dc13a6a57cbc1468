#include <cassert>
#include <cmath>

#include "base/utf8.h"
#include "codec/decimal.h"
#include "codec/json.h"

namespace slm::json {

void AppendQuoted(std::string* out, std::string_view text) {
  assert(!FindUtf8Fault(text));
  constexpr char kDigits[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\r':
        out->append("\\r");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (byte < 0x20 || byte == 0x7F) {
          out->append("\\u00");
          out->push_back(kDigits[byte >> 4]);
          out->push_back(kDigits[byte & 15]);
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

void Writer::NewLine() {
  if (!indent_) return;
  out_.push_back('\n');
  out_.append(2 * has_items_.size(), ' ');
}

void Writer::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_.push_back(',');
  has_items_.back() = true;
  NewLine();
}

Writer& Writer::BeginObject() {
  Separate();
  out_.push_back('{');
  has_items_.push_back(false);
  return *this;
}

Writer& Writer::EndObject() {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) NewLine();
  out_.push_back('}');
  return *this;
}

Writer& Writer::BeginArray() {
  Separate();
  out_.push_back('[');
  has_items_.push_back(false);
  return *this;
}

Writer& Writer::EndArray() {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) NewLine();
  out_.push_back(']');
  return *this;
}

Writer& Writer::Key(std::string_view key) {
  Separate();
  AppendQuoted(&out_, key);
  out_.append(indent_ ? ": " : ":");
  after_key_ = true;
  return *this;
}

Writer& Writer::String(std::string_view text) {
  Separate();
  AppendQuoted(&out_, text);
  return *this;
}

Writer& Writer::Uint(uint64_t value) {
  Separate();
  out_.append(std::to_string(value));
  return *this;
}

Writer& Writer::Uints(std::span<const uint32_t> values) {
  BeginArray();
  for (const uint32_t value : values) Uint(value);
  return EndArray();
}

Writer& Writer::Strings(std::span<const std::string> texts) {
  BeginArray();
  for (const std::string& text : texts) String(text);
  return EndArray();
}

Writer& Writer::Int(int64_t value) {
  Separate();
  out_.append(std::to_string(value));
  return *this;
}

Writer& Writer::Double(double value) {
  assert(std::isfinite(value));
  Separate();
  out_.append(ShortestText(value));
  return *this;
}

Writer& Writer::Bool(bool value) {
  return Raw(value ? "true" : "false");
}
Writer& Writer::Null() {
  return Raw("null");
}

Writer& Writer::Raw(std::string_view json) {
  Separate();
  out_.append(json);
  return *this;
}

}  // namespace slm::json
