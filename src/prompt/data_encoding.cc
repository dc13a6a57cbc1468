#include "prompt/data_encoding.h"

#include <algorithm>

#include "prompt/token_owners.h"

namespace slm::prompt {
namespace {

// The ids of [begin, end) in an encoding of the whole text; nothing where a token reaches across an end.
std::vector<uint32_t> IdsWithin(const tokenizer::Encoding& whole, uint64_t begin, uint64_t end, bool* clean) {
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < whole.ids.size(); ++i) {
    const auto [from, to] = whole.byte_offsets[i];
    if (to <= begin || from >= end) continue;
    if (from < begin || to > end) *clean = false;
    ids.push_back(whole.ids[i]);
  }
  return ids;
}

}  // namespace

Result<DataPrompt> EncodeAsData(const tokenizer::Tokenizer& tokenizer, const chat::Rendered& rendered) {
  DataPrompt prompt;
  const tokenizer::EncodeOptions plain{.add_special_tokens = false, .truncation = false, .padding = false};
  tokenizer::EncodeOptions as_data = plain;
  as_data.markers_as_text = true;
  SLM_ASSIGN(const tokenizer::Encoding whole, tokenizer.Encode(rendered.text, plain));
  prompt.reference_ids = whole.ids;
  for (const chat::Span& span : rendered.Spans()) {
    const bool is_template = IsTemplateOwner(span.owner);
    if (!prompt.parts.empty() && is_template && prompt.parts.back().is_template) {
      prompt.parts.back().end = span.end;
    } else {
      prompt.parts.push_back(
          {span.begin, span.end, is_template ? "template" : span.owner, is_template, 0, 0});
    }
  }
  std::vector<bool> same(prompt.parts.size());
  for (size_t i = 0; i < prompt.parts.size(); ++i) {
    Part& part = prompt.parts[i];
    const std::string_view text = std::string_view(rendered.text).substr(part.begin, part.end - part.begin);
    tokenizer::Trace as_text;
    SLM_ASSIGN(const tokenizer::Encoding encoding,
               part.is_template ? tokenizer.Encode(text, plain) : tokenizer.Encode(text, as_data, &as_text));
    part.first = prompt.ids.size();
    part.count = encoding.ids.size();
    prompt.ids.insert(prompt.ids.end(), encoding.ids.begin(), encoding.ids.end());
    std::vector<uint32_t> expected = encoding.ids;
    if (!part.is_template) {
      tokenizer::Trace as_markers;
      SLM_ASSIGN(const tokenizer::Encoding marked, tokenizer.Encode(text, plain, &as_markers));
      if (marked.ids != encoding.ids) {
        // What is a marker to the reference is no fault of a seam.
        expected = marked.ids;
        prompt.n_markers_in_content +=
            as_markers.cuts.size() - std::min(as_markers.cuts.size(), as_text.cuts.size());
      }
    }
    bool clean = true;
    same[i] = IdsWithin(whole, part.begin, part.end, &clean) == expected && clean;
  }
  for (size_t i = 1; i < prompt.parts.size(); ++i) {
    if (!same[i - 1] || !same[i]) prompt.changed_seams.push_back(prompt.parts[i].begin);
  }
  return prompt;
}

}  // namespace slm::prompt
