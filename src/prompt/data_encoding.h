// From a rendered prompt to ids with content kept data (TPL-04).
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

// Errors: those of Tokenizer::Encode.
[[nodiscard]] Result<DataPrompt> EncodeAsData(const tokenizer::Tokenizer& tokenizer,
                                              const chat::Rendered& rendered);

}  // namespace slm::prompt

#endif  // SLM_PROMPT_DATA_ENCODING_H_
