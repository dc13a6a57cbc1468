// Chat template: a compiled template loads from its own serialization, and renders the same from both. The
// input is also read as IR: what loads serializes to the same bytes. What stands behind the first byte FF,
// which no source holds, changes bytes of the IR, so that programs run that no converter writes.
#include <algorithm>

#include "chat/template.h"
#include "codec/json.h"
#include "fuzz/fuzz.h"

namespace {

const slm::json::Document& Context() {
  static const slm::json::Document document = *slm::json::Parse(
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"a{{ b }}"},)"
      R"({"role":"assistant","content":""}],"add_generation_prompt":true})");
  return document;
}

std::string Render(const slm::chat::Template& compiled) {
  const auto rendered = compiled.Render(
      Context().root(), {.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, .clock = ""});
  if (!rendered) return "refused: " + rendered.error().ToString();
  size_t end = 0;
  for (const auto& span : rendered->Spans()) {
    slm::fuzz::Require(span.begin == end && span.end >= span.begin, "spans cover the text in order");
    end = span.end;
  }
  slm::fuzz::Require(end == rendered->text.size(), "spans cover the text");
  return rendered->text;
}

void RunIr(slm::ByteSpan ir) {
  const auto loaded = slm::chat::Template::Load(ir);
  if (!loaded) return;
  const slm::Bytes again = loaded->Serialize();
  slm::fuzz::Require(std::equal(again.begin(), again.end(), ir.begin(), ir.end()), "IR round trip");
  Render(*loaded);
}

// Three bytes a change: where, of 65,536 places, and what is flipped there.
void RunChangedIr(slm::Bytes ir, slm::ByteSpan changes) {
  for (size_t i = 0; i + 3 <= changes.size(); i += 3) {
    const size_t at = (size_t{changes[i]} << 8 | changes[i + 1]) % ir.size();
    ir[at] = static_cast<uint8_t>(ir[at] ^ changes[i + 2]);
  }
  RunIr(ir);
}

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  RunIr(slm::ByteSpan(data, size));
  const auto n_source = static_cast<size_t>(std::find(data, data + size, 0xff) - data);
  const auto compiled = slm::chat::Template::Compile(slm::AsText(slm::ByteSpan(data, n_source)));
  if (!compiled) {
    slm::fuzz::RequireOffset(compiled.error(), n_source);
    return 0;
  }
  if (n_source < size)
    RunChangedIr(compiled->Serialize(), slm::ByteSpan(data + n_source + 1, size - n_source - 1));
  const auto loaded = slm::chat::Template::Load(compiled->Serialize());
  slm::fuzz::Require(loaded.has_value(), "what is serialized loads");
  slm::fuzz::Require(Render(*loaded) == Render(*compiled), "the IR renders as the template");
  return 0;
}
