// tokenizer.json and a text, parted by a byte FF (which stands in neither): an accepted tokenizer encodes the
// same text to the same ids twice, all below its vocabulary size, and its stream gives what Decode gives.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

SLM_FUZZ_TARGET(data, size) {
  const uint8_t* parting = std::find(data, data + size, uint8_t{0xff});
  const std::string file(data, parting);
  const std::string text(parting == data + size ? parting : parting + 1, data + size);
  const auto tokenizer = slm::tokenizer::Tokenizer::FromJson(file);
  if (!tokenizer) {
    slm::fuzz::RequireOffset(tokenizer.error(), file.size());
    return 0;
  }
  const auto encoding = (*tokenizer)->Encode(text);
  const auto again = (*tokenizer)->Encode(text);
  slm::fuzz::Require(encoding.has_value() == again.has_value(), "the same verdict twice");
  if (!encoding) {
    slm::fuzz::RequireOffset(encoding.error(), text.size());
    return 0;
  }
  slm::fuzz::Require(encoding->ids == again->ids, "the same ids twice");
  for (const uint32_t id : encoding->ids) {
    slm::fuzz::Require(id < (*tokenizer)->vocab_size(), "ids are below the vocabulary size");
  }
  const auto raw = (*tokenizer)->Decode(encoding->ids, slm::tokenizer::DecodeMode::kRaw);
  slm::tokenizer::DecodeStream stream(*tokenizer, /*skip_special=*/false);
  std::string streamed;
  for (const uint32_t id : encoding->ids) {
    const auto piece = stream.Push(id);
    slm::fuzz::Require(piece.has_value(), "a known id streams");
    streamed += *piece;
  }
  const auto rest = stream.Finish();
  slm::fuzz::Require(raw.has_value() && rest.has_value(), "known ids decode");
  slm::fuzz::Require(streamed + *rest == *raw, "the stream gives what Decode gives");
  return 0;
}
