#include "chat/gguf_template.h"

#include <string_view>

#include "base/utf8.h"
#include "gguf/metadata.h"

namespace slm::chat {
namespace {

constexpr uint64_t kMaxTemplateBytes = 1u << 20;  // what conversion takes
constexpr uint64_t kMaxTokenBytes = 1u << 10;

struct TokenKey {
  std::string_view key;
  const char* name;
};
constexpr TokenKey kTokenKeys[] = {
    {"tokenizer.ggml.bos_token_id", "bos_token"},       {"tokenizer.ggml.eos_token_id", "eos_token"},
    {"tokenizer.ggml.unknown_token_id", "unk_token"},   {"tokenizer.ggml.padding_token_id", "pad_token"},
    {"tokenizer.ggml.seperator_token_id", "sep_token"}, {"tokenizer.ggml.cls_token_id", "cls_token"},
    {"tokenizer.ggml.mask_token_id", "mask_token"},
};

std::unexpected<Error> Bad(const char* what, uint64_t at) {
  return Fail(MakeError(ErrorCode::kTplInput, std::string("the GGUF metadata: ") + what).At(at));
}

Result<std::string> CheckedText(std::string_view text, uint64_t at, uint64_t most) {
  if (text.size() > most) return Bad("a text that is too long", at);
  if (const auto fault = FindUtf8Fault(text)) return Bad("a text that is no UTF-8", at + fault->byte_offset);
  return std::string(text);
}

// The text of a token of the vocabulary; none where the id is not in it.
Result<std::optional<std::string>> TokenOf(const gguf::Pair* tokens, uint64_t id) {
  std::optional<std::string> found;
  if (tokens == nullptr || id >= tokens->value.count) return found;
  uint64_t next = 0;
  SLM_TRY(gguf::ForEachText(tokens->value, [&](std::string_view text, uint64_t at) -> Status {
    if (next++ != id) return {};
    SLM_ASSIGN(found, CheckedText(text, at, kMaxTokenBytes));
    return {};
  }));
  return found;
}

}  // namespace

Result<GgufTemplate> ReadGgufTemplate(ByteSpan file) {
  SLM_ASSIGN(const gguf::Metadata metadata, gguf::Metadata::Read(file, ErrorCode::kTplInput));
  GgufTemplate out;
  if (const gguf::Pair* pair = metadata.Find("tokenizer.chat_template")) {
    if (pair->value.type != gguf::Type::kString)
      return Bad("a chat template that is no text", pair->byte_offset);
    SLM_ASSIGN(out.source,
               CheckedText(AsText(pair->value.bytes), pair->value.byte_offset, kMaxTemplateBytes));
  }
  const gguf::Pair* tokens = metadata.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->value.type != gguf::Type::kArray)
    return Bad("a vocabulary that is no array", tokens->byte_offset);
  for (const TokenKey& token : kTokenKeys) {
    const gguf::Pair* pair = metadata.Find(token.key);
    if (pair == nullptr) continue;
    if (pair->value.type != gguf::Type::kUint32)
      return Bad("the id of a token that is no u32", pair->byte_offset);
    if (tokens != nullptr && tokens->value.item != gguf::Type::kString)
      return Bad("a vocabulary that holds no texts", tokens->byte_offset);
    SLM_ASSIGN(const std::optional<std::string> text, TokenOf(tokens, *gguf::UintOf(pair->value)));
    if (text) out.special_tokens.emplace_back(token.name, *text);
  }
  return out;
}

}  // namespace slm::chat
