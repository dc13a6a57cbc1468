// Chat template: a compiled template loads from its own serialization, and renders the same from both. The
// input is also read as IR: what loads serializes to the same bytes.
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

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  const slm::ByteSpan bytes(data, size);
  if (const auto loaded = slm::chat::Template::Load(bytes)) {
    const slm::Bytes again = loaded->Serialize();
    slm::fuzz::Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "IR round trip");
    Render(*loaded);
  }
  const auto compiled = slm::chat::Template::Compile(slm::AsText(bytes));
  if (!compiled) {
    slm::fuzz::RequireOffset(compiled.error(), size);
    return 0;
  }
  const auto loaded = slm::chat::Template::Load(compiled->Serialize());
  slm::fuzz::Require(loaded.has_value(), "what is serialized loads");
  slm::fuzz::Require(Render(*loaded) == Render(*compiled), "the IR renders as the template");
  return 0;
}
