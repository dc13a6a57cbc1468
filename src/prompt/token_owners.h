// Who emits BOS and EOS in one prompt, and what does not (TPL-05). One function answers for every place that
// shows it: `slm render --explain`, `slm run`, `slm chat`, the run node, the page of a receipt.
#ifndef SLM_PROMPT_TOKEN_OWNERS_H_
#define SLM_PROMPT_TOKEN_OWNERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/template.h"
#include "codec/cbor.h"
#include "codec/json.h"
#include "tokenizer/tokenizer.h"

namespace slm::prompt {

// ("bos_token", "<s>"), ... as tokenizer_config.json names them.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// A prompt before it became ids.
struct PromptText {
  std::string_view text;
  // Of a rendered prompt: who wrote which bytes, in order, covering the text. Empty: all of it is the
  // input's.
  std::vector<chat::Span> spans;
  // Whether the tokenizer's post-processor put its own tokens around it. Never around a rendered prompt: the
  // template wrote the tokens there.
  bool tokenizer_adds = false;
};

// Of one special token.
struct TokenOwner {
  std::string token;           // empty: the model declares none, and its tokenizer adds none
  uint64_t n_by_template = 0;  // times that the template wrote it
  uint64_t n_by_content =
      0;  // times that it stands in the input's own text, where the tokenizer takes it for the token
  uint64_t n_by_tokenizer = 0;  // times that the post-processor put it around this prompt
  bool first = false;           // the template's stands at the very beginning (BOS), or at the very end (EOS)
  bool content_first = false;   // the same of the input's own text
  bool tokenizer_would_add = false;  // around a plain text
  std::string emitted_by = "none";   // "template", "tokenizer", "content", or "none"
  // The post-processor would have added it and was told not to.
  [[nodiscard]] bool suppressed() const { return tokenizer_would_add && n_by_tokenizer == 0; }
  // It would stand twice had the post-processor not been told so.
  [[nodiscard]] bool would_double() const { return first && tokenizer_would_add; }
  // Template and tokenizer, or the input's own text and the tokenizer, put it at the same place.
  [[nodiscard]] bool doubled() const { return (first || content_first) && n_by_tokenizer > 0; }
  // A plain text gets one; this prompt has none.
  [[nodiscard]] bool is_lost() const { return emitted_by == "none" && tokenizer_would_add; }
};

struct TokenOwners {
  TokenOwner bos, eos;
  // All that the post-processor puts around a plain text, and whether it did here.
  std::vector<std::string> prefix, suffix;
  bool tokenizer_adds = false;
};

// Owners of a template's own bytes: the template, and the special tokens that a context gave in place of the
// model's.
[[nodiscard]] bool IsTemplateOwner(std::string_view owner);

[[nodiscard]] TokenOwners OwnersOf(const tokenizer::Tokenizer& tokenizer, const SpecialTokens& special_tokens,
                                   const PromptText& prompt);

// An object; a map of the run node; one line for each of the two tokens, for a person.
void WriteTokenOwners(const TokenOwners& owners, json::Writer& out);
[[nodiscard]] cbor::Map TokenOwnersCbor(const TokenOwners& owners);
[[nodiscard]] std::string TokenOwnersText(const TokenOwners& owners);
// "the template; the tokenizer's own is suppressed". No name, no token.
[[nodiscard]] std::string EmitterText(const TokenOwner& owner);

}  // namespace slm::prompt

#endif  // SLM_PROMPT_TOKEN_OWNERS_H_
