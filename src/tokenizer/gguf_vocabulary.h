// Vocabularies in GGUF files: the third personality beside tokenizer.json and SentencePiece models
// (docs/spec/tokenizer.md, section 12). What is not said there is llama.cpp's meaning of the keys
// `tokenizer.ggml.*`.
#ifndef SLM_TOKENIZER_GGUF_VOCABULARY_H_
#define SLM_TOKENIZER_GGUF_VOCABULARY_H_

#include "base/bytes.h"
#include "tokenizer/compiled.h"

namespace slm::tokenizer {

// The pipeline, with the losses against a tokenizer.json in its profile. `tokenizer.huggingface.json` is
// taken where it is there. Kinds: gpt2 (byte-level BPE), llama (BPE by score), t5 (unigram), bert
// (WordPiece). Errors with the byte offset and, as field, the key: TOK-SCHEMA, TOK-UNKNOWN-TYPE,
// TOK-UNSUPPORTED, TOK-LIMIT, TOK-ID, TOK-ID-DUP, TOK-MERGE, TOK-MERGE-DUP (unless lenient: the first
// counts), TOK-SCORE, TOK-CHARSMAP, UNSUPPORTED (another version of GGUF), and those of tokenizer.json.
[[nodiscard]] Result<Compiled> CompileGguf(ByteSpan file, const LoadOptions& options);

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_GGUF_VOCABULARY_H_
