// The tokenizers of vectors/tokenizer on any bytes. The first byte chooses one and its options; what follows
// is the input, and, four bytes each, a list of ids. Offsets lie inside the input; ids name tokens; the byte
// API gives the bytes back; whole and streaming decoding agree, in pieces that end between characters.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

namespace {

using slm::fuzz::Require;
using slm::tokenizer::DecodeMode;
using slm::tokenizer::EncodeOptions;
using slm::tokenizer::Encoding;
using slm::tokenizer::Tokenizer;

const std::vector<std::shared_ptr<const Tokenizer>>& Tokenizers() {
  static const auto kAll = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(SLM_SOURCE_DIR "/vectors/tokenizer")) {
      if (entry.path().string().ends_with(".tokenizer.json")) names.push_back(entry.path());
    }
    std::sort(names.begin(), names.end());
    std::vector<std::shared_ptr<const Tokenizer>> all;
    for (const std::string& name : names) {
      std::ifstream in(name, std::ios::binary);
      auto loaded = Tokenizer::FromJson(std::string(std::istreambuf_iterator<char>(in), {}));
      Require(loaded.has_value(), "the vectors' tokenizers load");
      all.push_back(*loaded);
    }
    Require(all.size() >= 5, "the vectors' tokenizers are there");
    return all;
  }();
  return kAll;
}

void CheckEncoding(const Tokenizer& tokenizer, const Encoding& encoding, size_t n_bytes) {
  Require(
      encoding.byte_offsets.size() == encoding.ids.size() && encoding.word_ids.size() == encoding.ids.size(),
      "as many offsets as ids");
  for (const uint32_t id : encoding.ids) Require(tokenizer.IdToToken(id).has_value(), "ids name tokens");
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto& [begin, end] = encoding.byte_offsets[i];
    Require(begin <= end && end <= n_bytes, "byte offsets lie inside the input");
    Require(encoding.scalar_offsets[i].first <= begin && encoding.scalar_offsets[i].second <= end,
            "no more scalar values than bytes");
  }
}

// Whether a place lies inside of a character that is well-formed.
bool IsInside(const std::string& bytes, size_t at) {
  for (size_t begin = at > 3 ? at - 3 : 0; begin < at; ++begin) {
    const auto lead = static_cast<uint8_t>(bytes[begin]);
    const size_t n_bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (begin + n_bytes > at && begin + n_bytes <= bytes.size() &&
        !slm::FindUtf8Fault(std::string_view(bytes).substr(begin, n_bytes)))
      return true;
  }
  return false;
}

void CheckDecoding(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<uint32_t>& ids) {
  const auto raw = tokenizer->Decode(ids, DecodeMode::kRaw);
  slm::tokenizer::DecodeStream stream(tokenizer, /*skip_special=*/false);
  std::string streamed;
  std::vector<size_t> cuts;
  bool known = true;
  for (const uint32_t id : ids) {
    const auto piece = stream.Push(id);
    known = known && piece.has_value();
    if (!piece) break;
    streamed += *piece;
    cuts.push_back(streamed.size());
  }
  Require(raw.has_value() == known, "raw refuses what the stream refuses");
  if (!known) return;
  const auto rest = stream.Finish();
  Require(rest.has_value() && streamed + *rest == *raw, "the stream gives what Decode gives");
  for (const size_t cut : cuts) Require(!IsInside(*raw, cut), "a piece never ends inside a character");
  const auto visible = tokenizer->Decode(ids, DecodeMode::kVisible);
  Require(!visible || !slm::FindUtf8Fault(*visible), "visible text is well-formed");
  const auto shown = tokenizer->Decode(ids, DecodeMode::kDiagnostic);
  Require(shown.has_value() && !slm::FindUtf8Fault(*shown), "diagnostic text is well-formed");
}

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  if (size == 0) return 0;
  const auto& tokenizer = Tokenizers()[data[0] / 8 % Tokenizers().size()];
  EncodeOptions options;
  options.add_special_tokens = (data[0] & 1) != 0;
  options.special_tokens_as_text = (data[0] & 2) != 0;
  options.markers_as_text = (data[0] & 4) != 0;
  const std::string input(data + 1, data + size);
  const auto encoding = tokenizer->Encode(input, options);
  const auto fault = slm::FindUtf8Fault(input);
  if (fault) {
    Require(!encoding && encoding.error().code == slm::ErrorCode::kUtf8 &&
                encoding.error().byte_offset == fault->byte_offset,
            "ill-formed text is refused at its first bad byte");
  } else if (encoding) {
    CheckEncoding(*tokenizer, *encoding, input.size());
    CheckDecoding(tokenizer, encoding->ids);
  }
  const auto bytes = tokenizer->EncodeBytes(slm::AsBytes(input), options);
  Require(bytes.has_value() == tokenizer->can_encode_bytes() || (!fault && !encoding),
          "the byte API takes any bytes where it is there");
  if (bytes) {
    CheckEncoding(*tokenizer, *bytes, input.size());
    if (!fault && encoding)
      Require(bytes->ids == encoding->ids, "well-formed bytes give the ids of the text");
  }
  std::vector<uint32_t> ids;
  for (size_t at = 1; at + 4 <= size; at += 4) {
    const uint32_t number = data[at] | static_cast<uint32_t>(data[at + 1]) << 8;
    ids.push_back(number % (static_cast<uint32_t>(tokenizer->vocab_size()) + 3));
  }
  CheckDecoding(tokenizer, ids);
  return 0;
}
