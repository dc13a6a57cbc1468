// The chat template in the metadata of a GGUF file (TPL-06; gguf/metadata.h). Only what a rendering needs is
// kept.
#ifndef SLM_CHAT_GGUF_TEMPLATE_H_
#define SLM_CHAT_GGUF_TEMPLATE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::chat {

struct GgufTemplate {
  std::optional<std::string> source;  // tokenizer.chat_template
  // bos_token, eos_token and their kin by the ids that the metadata names, where they are in the vocabulary.
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

// `file` begins with the file's first byte and holds all of its metadata; tensor data is not read. Linear in
// the metadata. Errors: TPL-INPUT with the byte offset (damaged, cut short, a key twice, a text that is no
// UTF-8), UNSUPPORTED (another version, or big-endian).
[[nodiscard]] Result<GgufTemplate> ReadGgufTemplate(ByteSpan file);

}  // namespace slm::chat

#endif  // SLM_CHAT_GGUF_TEMPLATE_H_
