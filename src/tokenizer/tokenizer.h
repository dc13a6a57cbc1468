// Tokenizers as Hugging Face's tokenizer.json describes them, run as the pinned reference runs them:
// tokenizers 0.23.3 (docs/spec/tokenizer.md; standard, section 4).
//
// FromJson compiles the file into an immutable profile; a component or option that is not there yet
// is refused by name (TOK-UNSUPPORTED, TOK-UNKNOWN-TYPE), never guessed. A Tokenizer holds no state that a
// result depends on (words that came before are kept, to find them sooner): any number of threads may use
// one. No locale, no environment, no clock.
//
// Coordinates: byte offsets count bytes of the original input, scalar offsets its Unicode scalar
// values. Tokens that the post-processor or padding puts in have [0, 0).
#ifndef SLM_TOKENIZER_TOKENIZER_H_
#define SLM_TOKENIZER_TOKENIZER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::tokenizer {

inline constexpr std::string_view kReferenceVersion = "tokenizers 0.23.3";
inline constexpr uint32_t kMaxTokenId = (1u << 24) - 1;  // a larger id in a file is TOK-ID (TOK-05)

// What the reference takes with a warning or none, but a person would be misled by: an added token whose id
// disagrees with the vocabulary, or that stands twice; a merge that stands twice; gaps between ids.
inline constexpr std::array kContradictions = {ErrorCode::kTokAddedId, ErrorCode::kTokAddedDup,
                                               ErrorCode::kTokMergeDup, ErrorCode::kTokIdGap};

struct LoadOptions {
  bool lenient = false;  // do what the reference does with kContradictions; else they are refused
  std::vector<ErrorCode> accepted{};  // of kContradictions: what a person settled so for this file (ACQ-12)

  // Adds the contradiction of this name ("TOK-ADDED-ID"); any other name is none.
  void Accept(std::string_view name) {
    for (const ErrorCode code : kContradictions) {
      if (Info(code).name == name) accepted.push_back(code);
    }
  }

  [[nodiscard]] bool Takes(ErrorCode code) const {
    return lenient || std::find(accepted.begin(), accepted.end(), code) != accepted.end();
  }
};

struct EncodeOptions {
  bool add_special_tokens = true;
  bool special_tokens_as_text = false;  // special tokens are not looked for in the text (TPL-04)
  // No added token is looked for but those of white space alone: publishers flag few of their markers
  // special.
  bool markers_as_text = false;
  bool truncation = true;  // as the file declares
  bool padding = true;
  bool token_texts = false;  // fill Encoding::tokens
};

struct Encoding {
  std::vector<uint32_t> ids;
  std::vector<std::pair<uint64_t, uint64_t>> byte_offsets;
  std::vector<std::pair<uint64_t, uint64_t>> scalar_offsets;
  std::vector<bool> special_mask;    // true only for tokens that were put in, not for those found in the text
  std::vector<bool> attention_mask;  // false for padding
  std::vector<uint32_t> word_ids;    // index of the pre-token; UINT32_MAX for none
  std::vector<uint32_t> type_ids;
  std::vector<std::string> tokens;    // only with EncodeOptions::token_texts
  std::vector<Encoding> overflowing;  // what truncation cut off, in windows
};

// What each stage did, for people and for vectors (TOK-12).
struct Trace {
  struct Cut {            // an added token found in the text
    uint64_t begin, end;  // bytes of the input
    uint32_t id;
    std::string text;
    bool after_normalizer;
  };
  struct Segment {        // text between added tokens, after the normalizer
    uint64_t begin, end;  // bytes of the input
    std::string text;
    std::vector<std::pair<uint64_t, uint64_t>> origin;  // of each byte of text, in bytes of the input
  };
  struct PreToken {
    uint64_t begin, end;  // bytes of the input
    std::string text;
    bool is_added_token;
  };
  struct ModelPiece {
    uint32_t word;        // index into pre_tokens
    uint64_t begin, end;  // bytes of the pre-token's text
    uint32_t id;
    std::string text;
  };
  std::vector<Cut> cuts;
  std::vector<Segment> segments;
  std::vector<PreToken> pre_tokens;
  std::vector<ModelPiece> model_pieces;
};

enum class DecodeMode : uint8_t {
  kRaw,         // bytes, nothing skipped, replaced or cleaned up; an unknown id is refused
  kVisible,     // the reference's decode(skip_special_tokens=True), its U+FFFD included
  kDiagnostic,  // raw, with everything that does not print escaped
};

class Tokenizer {
 public:
  // Error codes: JSON-*, TOK-*; each with byte offset and JSON path.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> FromJson(std::string json_text,
                                                                         const LoadOptions& options = {});
  // A SentencePiece .model with SentencePiece's own meaning: special tokens are not looked for in the
  // text and none are put in. Error codes: TOK-*, with byte offset.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> FromSentencePiece(ByteSpan file);
  // The vocabulary in the metadata of a GGUF file, with llama.cpp's meaning; profile_json() names under
  // `losses` what such a file cannot say. Where it carries a whole tokenizer.json, that is taken. `file`
  // holds all of the metadata. Error codes: TOK-*, with byte offset and key.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> FromGguf(ByteSpan file,
                                                                         const LoadOptions& options = {});
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Text API (TOK-02). UTF8 with the first ill-formed byte; LIMIT; TOK-NO-UNK; TOK-SCHEMA where a
  // declared truncation cannot be done. `trace` may be null.
  [[nodiscard]] Result<Encoding> Encode(std::string_view utf8, const EncodeOptions& options = {},
                                        Trace* trace = nullptr) const;
  // The ids that Encode gives, and the byte offsets if wanted, without the rest: the fast way for long
  // texts. Appends to both.
  [[nodiscard]] Status EncodeIds(std::string_view utf8, const EncodeOptions& options,
                                 std::vector<uint32_t>* ids,
                                 std::vector<std::pair<uint64_t, uint64_t>>* byte_offsets = nullptr) const;
  // Two sequences, put together by the post-processor. Offsets of each are its own.
  [[nodiscard]] Result<Encoding> EncodePair(std::string_view first, std::string_view second,
                                            const EncodeOptions& options = {}) const;
  // Byte API (TOK-03): any bytes. TOK-BYTE-API unless can_encode_bytes().
  [[nodiscard]] Result<Encoding> EncodeBytes(ByteSpan bytes, const EncodeOptions& options = {}) const;
  [[nodiscard]] bool can_encode_bytes() const;

  // Bytes for kRaw; text for the others. TOK-UNKNOWN-ID (kRaw).
  [[nodiscard]] Result<std::string> Decode(const std::vector<uint32_t>& ids, DecodeMode mode) const;

  // Whether the file is of a form that has a way of its own from text to ids (fast_path.h). The results
  // are the same; a call with a trace never takes it.
  [[nodiscard]] bool has_fast_path() const;

  // One past the highest id.
  [[nodiscard]] size_t vocab_size() const;
  [[nodiscard]] std::optional<uint32_t> TokenToId(std::string_view token) const;
  // TOK-UNKNOWN-ID.
  [[nodiscard]] Result<std::string> IdToToken(uint32_t id) const;
  // Ids that the post-processor puts before and after a single text.
  [[nodiscard]] std::vector<uint32_t> prefix_ids() const;
  [[nodiscard]] std::vector<uint32_t> suffix_ids() const;
  // Texts of the added tokens, in the order of the file.
  [[nodiscard]] std::vector<std::string> added_token_texts() const;
  // Pairs of tokens that the model joins.
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> AdjacentParts() const;
  // The compiled profile (TOK-07) as JSON: components with every option, Unicode versions, policies.
  [[nodiscard]] const std::string& profile_json() const;

 private:
  friend class DecodeStream;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Bytes as tokens come: never a broken character, and no whole one held back that the decoder does
// not still need. All pieces together are what Decode gives: kRaw, or with `skip_special` kVisible
// without its U+FFFD. Belongs to one thread.
class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  ~DecodeStream();
  // The bytes that this token settles, perhaps none. TOK-UNKNOWN-ID.
  [[nodiscard]] Result<std::string> Push(uint32_t id);
  // What is left; it may end in the middle of a character. Call once, last.
  [[nodiscard]] Result<std::string> Finish();

 private:
  struct State;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<State> state_;
};

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_TOKENIZER_H_
