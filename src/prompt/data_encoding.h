// From a rendered prompt to ids with content kept data (TPL-04), and who emits BOS and EOS (TPL-05).
//
// The reference encodes the whole text: a marker inside a message is then a marker. Here each part is encoded
// by itself, parts of the template as they are, parts of the context without their markers: no text of a
// message can become a marker, and the ids of the template's parts do not depend on what stands beside them.
// The price is that a token never reaches across a seam; where that gives other ids than the reference, it is
// counted.
#ifndef SLM_PROMPT_DATA_ENCODING_H_
#define SLM_PROMPT_DATA_ENCODING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/template.h"
#include "tokenizer/tokenizer.h"

namespace slm::prompt {

// A span of the rendered text and its ids [first, first + count).
struct Part {
  uint64_t begin = 0;  // bytes of the text
  uint64_t end = 0;
  std::string owner;
  bool is_template = false;
  uint64_t first = 0;
  uint64_t count = 0;
};

struct DataPrompt {
  std::vector<uint32_t> ids;
  std::vector<Part> parts;              // in order, covering the text
  std::vector<uint32_t> reference_ids;  // of the whole text, as the reference encodes it
  // Bytes of the text where two parts meet and the reference's ids around differ from those here, the added
  // tokens in content aside.
  std::vector<uint64_t> changed_seams;
  uint64_t n_markers_in_content = 0;  // that the reference takes for markers
};

// Owners of a template's own bytes: the template, and the special tokens that a context gave in place of the
// model's.
[[nodiscard]] bool IsTemplateOwner(const std::string& owner);

// Errors: those of Tokenizer::Encode.
[[nodiscard]] Result<DataPrompt> EncodeAsData(const tokenizer::Tokenizer& tokenizer,
                                              const chat::Rendered& rendered);

// Of one special token: what the template wrote and what the tokenizer would add to a plain text. A rendered
// prompt is encoded without the tokenizer's additions, so nothing stands twice.
struct TokenOwner {
  std::string token;           // empty: the model declares none
  uint64_t n_by_template = 0;  // times that the template wrote it
  bool first = false;          // the text begins with it (BOS), or ends with it (EOS)
  bool tokenizer_would_add = false;
  std::string emitted_by = "none";  // "template" or "none"
  [[nodiscard]] bool would_double() const { return first && tokenizer_would_add; }
  [[nodiscard]] bool is_lost() const { return n_by_template == 0 && tokenizer_would_add; }
};
struct TokenOwners {
  TokenOwner bos, eos;
};
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] TokenOwners OwnersOf(const tokenizer::Tokenizer& tokenizer, const chat::Rendered& rendered,
                                   const SpecialTokens& special_tokens);

}  // namespace slm::prompt

#endif  // SLM_PROMPT_DATA_ENCODING_H_
