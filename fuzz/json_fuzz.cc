// JSON: whatever is accepted re-encodes to a text that parses to the same values.
#include <optional>
#include <string>

#include "codec/json.h"
#include "fuzz/fuzz.h"

namespace {

using slm::fuzz::Require;
using slm::json::Value;

void Write(const Value& value, slm::json::Writer* out) {
  if (value.is_object()) {
    out->BeginObject();
    for (const Value member : value.children()) {
      out->Key(member.key());
      Write(member, out);
    }
    out->EndObject();
  } else if (value.is_array()) {
    out->BeginArray();
    for (const Value item : value.children()) Write(item, out);
    out->EndArray();
  } else if (value.is_string()) {
    out->String(value.string());
  } else if (value.is_bool()) {
    out->Bool(value.boolean());
  } else if (const auto number = value.is_number() ? value.AsUint() : std::nullopt) {
    out->Uint(*number);
  } else if (const auto real = value.is_number() ? value.AsDouble() : std::nullopt) {
    out->Double(*real);
  } else {
    out->Null();
  }
}

std::string Rewritten(const slm::json::Document& document) {
  slm::json::Writer out;
  Write(document.root(), &out);
  return out.Take();
}

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto document = slm::json::Parse(text);
  if (!document) {
    slm::fuzz::RequireOffset(document.error(), size);
    return 0;
  }
  const std::string once = Rewritten(*document);
  const auto again = slm::json::Parse(once);
  Require(again.has_value(), "what the writer writes parses");
  Require(Rewritten(*again) == once, "JSON round trip");
  return 0;
}
