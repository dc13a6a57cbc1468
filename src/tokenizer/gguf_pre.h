// What `tokenizer.ggml.pre` of a GGUF file stands for: a name for patterns that the file does not hold.
// Constant, any thread. Source: llama.cpp (src/llama-vocab.cpp), whose patterns are those of the published
// tokenizer.json files with the changes that its own regular expressions ask for: contractions in ASCII only,
// look-ahead for letter case.
#ifndef SLM_TOKENIZER_GGUF_PRE_H_
#define SLM_TOKENIZER_GGUF_PRE_H_

#include <span>
#include <string_view>

#include "base/error.h"

namespace slm::tokenizer {

struct GgufPre {
  std::span<const char* const> names;
  // One after another; each cuts what those before left into its matches and what lies between.
  std::span<const char* const> patterns;
  bool ignore_merges = false;  // a word that is a token is that token
  bool add_bos = false;        // where the file does not say
  bool clean_spaces = true;    // detokenizing takes spaces before ?!., and some contractions away
  bool adds_sep = false;
};

// `name` is empty where the file has none: the reference then takes "default", with a warning.
// TOK-UNSUPPORTED for a name that the reference knows and that is not run here, TOK-UNKNOWN-TYPE for any
// other.
[[nodiscard]] Result<const GgufPre*> FindGgufPre(std::string_view name);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_GGUF_PRE_H_
