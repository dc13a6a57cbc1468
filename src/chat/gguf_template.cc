#include "chat/gguf_template.h"

#include <array>
#include <string_view>

#include "base/utf8.h"

namespace slm::chat {
namespace {

constexpr uint64_t kMaxPairs = 1u << 16;
constexpr uint64_t kMaxKeyBytes = (1u << 16) - 1;
constexpr uint64_t kMaxTemplateBytes = 1u << 20;  // what conversion takes
constexpr uint64_t kMaxTokenBytes = 1u << 10;
constexpr uint32_t kMaxArrays = 4;  // inside each other
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
constexpr uint32_t kUint32 = 4;
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";

// Bytes of a value of fixed size; 0: of none.
uint64_t SizeOf(uint32_t type) {
  constexpr std::array<uint8_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

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

class Reader {
 public:
  explicit Reader(ByteSpan file) : file_(file) {}

  Result<GgufTemplate> Run() {
    if (file_.size() < 4 || AsText(file_.first(4)) != "GGUF") return Bad("no GGUF file", 0);
    at_ = 4;
    SLM_ASSIGN(const uint64_t version, Number(4));
    if (version != 2 && version != 3) {
      return Fail(
          MakeError(
              ErrorCode::kUnsupported,
              "a GGUF file of another version or byte order; give the source directory or a .jinja file")
              .At(4));
    }
    SLM_TRY(Number(8));
    SLM_ASSIGN(const uint64_t n_pairs, Number(8));
    if (n_pairs > kMaxPairs) return Bad("more than 65,536 pairs of metadata", 16);
    for (uint64_t i = 0; i < n_pairs; ++i) SLM_TRY(Pair());
    for (const auto& [name, id] : ids_) {
      SLM_ASSIGN(const std::optional<std::string> token, Token(id));
      if (token) out_.special_tokens.emplace_back(name, *token);
    }
    return std::move(out_);
  }

 private:
  static std::unexpected<Error> Bad(const char* what, uint64_t at) {
    return Fail(MakeError(ErrorCode::kTplInput, std::string("the GGUF metadata: ") + what).At(at));
  }
  [[nodiscard]] uint64_t left() const { return file_.size() - at_; }

  Result<uint64_t> Number(uint64_t n_bytes) {
    if (left() < n_bytes) return Bad("it ends inside a number", at_);
    uint64_t number = 0;
    for (uint64_t i = 0; i < n_bytes; ++i) number |= uint64_t{file_[at_ + i]} << (8 * i);
    at_ += n_bytes;
    return number;
  }
  Result<std::string_view> Text() {
    const uint64_t begin = at_;
    SLM_ASSIGN(const uint64_t size, Number(8));
    if (size > left()) return Bad("a text that reaches beyond the file", begin);
    const std::string_view text = AsText(file_.subspan(at_, size));
    at_ += size;
    return text;
  }
  Result<std::string> CheckedText(uint64_t most) {
    const uint64_t begin = at_;
    SLM_ASSIGN(const std::string_view text, Text());
    if (text.size() > most) return Bad("a text that is too long", begin);
    if (const auto fault = FindUtf8Fault(text))
      return Bad("a text that is no UTF-8", begin + 8 + fault->byte_offset);
    return std::string(text);
  }

  Status Pair() {
    const uint64_t begin = at_;
    SLM_ASSIGN(const std::string_view key, Text());
    if (key.size() > kMaxKeyBytes) return Bad("a key that is too long", begin);
    SLM_ASSIGN(const uint64_t type, Number(4));
    if (key == kTemplateKey) {
      if (out_.source) return Bad("a key that stands twice", begin);
      if (type != kString) return Bad("a chat template that is no text", begin);
      SLM_ASSIGN(out_.source, CheckedText(kMaxTemplateBytes));
      return {};
    }
    if (key == kTokensKey) {
      if (tokens_at_ != 0) return Bad("a key that stands twice", begin);
      if (type != kArray) return Bad("a vocabulary that is no array", begin);
      tokens_at_ = at_;
    }
    for (const TokenKey& token : kTokenKeys) {
      if (key != token.key) continue;
      for (const auto& [name, id] : ids_) {
        if (name == token.name) return Bad("a key that stands twice", begin);
      }
      if (type != kUint32) return Bad("the id of a token that is no u32", begin);
      SLM_ASSIGN(const uint64_t id, Number(4));
      ids_.emplace_back(token.name, id);
      return {};
    }
    return Skip(static_cast<uint32_t>(type), 0);
  }

  Status Skip(uint32_t type, uint32_t n_outer) {
    const uint64_t begin = at_;
    if (type == kString) {
      SLM_TRY(Text());
      return {};
    }
    if (type != kArray) {
      const uint64_t size = SizeOf(type);
      if (size == 0) return Bad("a value of an unknown type", begin);
      if (left() < size) return Bad("it ends inside a value", begin);
      at_ += size;
      return {};
    }
    if (n_outer == kMaxArrays) return Bad("arrays nested too deep", begin);
    SLM_ASSIGN(const uint64_t item, Number(4));
    SLM_ASSIGN(const uint64_t n, Number(8));
    if (const uint64_t size = SizeOf(static_cast<uint32_t>(item)); size != 0) {
      if (n > left() / size) return Bad("an array that reaches beyond the file", begin);
      at_ += n * size;
      return {};
    }
    // Each item takes at least the 8 bytes of its length.
    if (n > left() / 8) return Bad("an array that reaches beyond the file", begin);
    for (uint64_t i = 0; i < n; ++i) SLM_TRY(Skip(static_cast<uint32_t>(item), n_outer + 1));
    return {};
  }

  // The text of a token of the vocabulary; none where the id is not in it.
  Result<std::optional<std::string>> Token(uint64_t id) {
    if (tokens_at_ == 0) return std::optional<std::string>();
    at_ = tokens_at_;
    SLM_ASSIGN(const uint64_t type, Number(4));
    if (type != kString) return Bad("a vocabulary that holds no texts", tokens_at_);
    SLM_ASSIGN(const uint64_t n, Number(8));
    if (id >= n) return std::optional<std::string>();
    for (uint64_t i = 0; i < id; ++i) SLM_TRY(Text());
    SLM_ASSIGN(std::string token, CheckedText(kMaxTokenBytes));
    return std::optional<std::string>(std::move(token));
  }

  ByteSpan file_;
  uint64_t at_ = 0;
  uint64_t tokens_at_ = 0;
  std::vector<std::pair<std::string, uint64_t>> ids_;
  GgufTemplate out_;
};

}  // namespace

Result<GgufTemplate> ReadGgufTemplate(ByteSpan file) {
  return Reader(file).Run();
}

}  // namespace slm::chat
