// A vocabulary in a GGUF file or in a SentencePiece model, told by its first bytes, and a text, parted by
// eight bytes FF: what is accepted encodes the text twice the same, decodes what it encoded, and a refusal
// points into the file.
#include <string>

#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

SLM_FUZZ_TARGET(data, size) {
  using slm::fuzz::Require;
  using slm::tokenizer::Tokenizer;
  const std::string whole(data, data + size);
  const std::string parting(8, '\xff');
  const size_t at = whole.find(parting);
  const std::string file = whole.substr(0, at);
  const std::string text = at == std::string::npos ? "a b" : whole.substr(at + parting.size());
  const auto tokenizer = file.starts_with("GGUF") ? Tokenizer::FromGguf(slm::AsBytes(file))
                                                  : Tokenizer::FromSentencePiece(slm::AsBytes(file));
  if (!tokenizer) {
    slm::fuzz::RequireOffset(tokenizer.error(), file.size());
    return 0;
  }
  const auto encoding = (*tokenizer)->Encode(text);
  const auto again = (*tokenizer)->Encode(text);
  Require(encoding.has_value() == again.has_value(), "the same verdict twice");
  if (!encoding) return 0;
  Require(encoding->ids == again->ids, "the same ids twice");
  for (size_t i = 0; i < encoding->ids.size(); ++i) {
    Require((*tokenizer)->IdToToken(encoding->ids[i]).has_value(), "ids name tokens");
    Require(encoding->byte_offsets[i].second <= text.size(), "byte offsets lie inside the input");
  }
  for (const auto mode : {slm::tokenizer::DecodeMode::kRaw, slm::tokenizer::DecodeMode::kVisible,
                          slm::tokenizer::DecodeMode::kDiagnostic}) {
    Require((*tokenizer)->Decode(encoding->ids, mode).has_value(), "known ids decode");
  }
  return 0;
}
