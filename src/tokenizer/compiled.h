// The compiled form of a tokenizer.json and the loader that makes it. Internal to the module.
#ifndef SLM_TOKENIZER_COMPILED_H_
#define SLM_TOKENIZER_COMPILED_H_

#include <memory>
#include <optional>
#include <string>

#include "codec/json.h"
#include "tokenizer/added_vocabulary.h"
#include "tokenizer/decoder.h"
#include "tokenizer/encoding.h"
#include "tokenizer/fast_path.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {

// Bounds of a tokenizer file (TOK-05).
inline constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxTokenBytes = uint64_t{64} << 10;
inline constexpr uint64_t kMaxTokens = uint64_t{1} << 22;
inline constexpr uint64_t kMaxMerges = uint64_t{1} << 23;
inline constexpr uint64_t kMaxPadding = uint64_t{1} << 24;

struct Compiled {
  std::unique_ptr<Normalizer> normalizer;       // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: none
  std::unique_ptr<Model> model;
  std::unique_ptr<PostProcessor> post_processor;  // null: none
  std::unique_ptr<Decoder> decoder;               // null: tokens joined with spaces
  AddedVocabulary added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  bool is_byte_level = false;         // a ByteLevel component maps the bytes
  std::optional<FastForm> fast_form;  // none: only the general path
  std::string profile_json;
};

// Whether every byte has a token (TOK-03): a byte-level vocabulary with the whole alphabet, or byte fallback
// with all of <0x00> to <0xFF>.
[[nodiscard]] bool CanEncodeBytes(const Compiled& compiled);

// Each component by itself; `profile` receives its description as one JSON value.
// `is_byte_level` is set where a component maps the bytes.
[[nodiscard]] Result<std::unique_ptr<Normalizer>> LoadNormalizer(json::Value value, json::Writer* profile,
                                                                 bool* is_byte_level);
[[nodiscard]] Result<std::unique_ptr<PreTokenizer>> LoadPreTokenizer(json::Value value, json::Writer* profile,
                                                                     bool* is_byte_level);
[[nodiscard]] Result<std::unique_ptr<Model>> LoadModel(json::Value value, json::Writer* profile,
                                                       const LoadOptions& options);
[[nodiscard]] Result<std::unique_ptr<PostProcessor>> LoadPostProcessor(json::Value value,
                                                                       json::Writer* profile);
[[nodiscard]] Result<std::unique_ptr<Decoder>> LoadDecoder(json::Value value, json::Writer* profile);

[[nodiscard]] Result<Compiled> Compile(std::string json_text, const LoadOptions& options);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_COMPILED_H_
