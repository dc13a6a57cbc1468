// Container to content: header, footer, envelope, blobs, padding (golden.md section 1).
#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "codec/sha256.h"
#include "golden/golden_internal.h"

namespace slm::golden {
namespace {

struct Footer {
  uint64_t envelope_offset = 0;
  uint64_t envelope_size = 0;
  Hash256 envelope_sha256{};
};

std::unexpected<Error> FailAt(ErrorCode code, std::string message, uint64_t byte_offset) {
  return Fail(MakeError(code, std::move(message)).At(byte_offset));
}

// The first byte of [begin, end) must be zero, and so on: GLD-PAD at the first that is not.
Status CheckZero(ByteSpan bytes, uint64_t begin, uint64_t end) {
  const ByteSpan part = bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const auto bad = std::find_if(part.begin(), part.end(), [](uint8_t byte) { return byte != 0; });
  if (bad == part.end()) return {};
  return FailAt(ErrorCode::kGldPad, "padding that is not zero",
                begin + static_cast<uint64_t>(bad - part.begin()));
}

Status CheckHeader(ByteSpan bytes) {
  const uint64_t n_bytes = bytes.size();
  if (n_bytes > kMaxFileBytes) return Fail(ErrorCode::kGldShape, "the file is larger than 2^40 bytes");
  if (bytes.size() < kHeaderBytes + kFooterBytes ||
      !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return FailAt(ErrorCode::kGldMagic, "this is no golden container", 0);
  }
  if (LoadLe<uint32_t>(bytes.data() + 8) != kMajor || LoadLe<uint32_t>(bytes.data() + 12) != kMinor) {
    return FailAt(ErrorCode::kGldVersion, "only version 1.0 is read", 8);
  }
  return CheckZero(bytes, 16, kHeaderBytes);
}

Result<Footer> ReadFooter(ByteSpan bytes) {
  const uint64_t at = bytes.size() - kFooterBytes;
  const uint8_t* footer = bytes.data() + at;
  if (!std::equal(kMagic.rbegin(), kMagic.rend(), footer + 56)) {
    return FailAt(ErrorCode::kGldMagic,
                  "the file does not end as a golden container does; it is cut or continued", at + 56);
  }
  if (LoadLe<uint64_t>(footer + 48) != bytes.size()) {
    return FailAt(ErrorCode::kGldPad, "the file is longer or shorter than its footer says", at + 48);
  }
  Footer result;
  result.envelope_offset = LoadLe<uint64_t>(footer);
  result.envelope_size = LoadLe<uint64_t>(footer + 8);
  std::copy_n(footer + 16, 32, result.envelope_sha256.begin());
  const auto end = CheckedAdd(result.envelope_offset, result.envelope_size);
  const auto padded = end ? CheckedAlignUp(*end, kAlignment) : std::nullopt;
  if (!padded || *padded != at || result.envelope_offset < kHeaderBytes ||
      result.envelope_offset % kAlignment != 0) {
    return FailAt(ErrorCode::kGldEnvelope, "the envelope's range does not fit the file", at);
  }
  if (result.envelope_size > kMaxEnvelopeBytes) {
    return FailAt(ErrorCode::kGldEnvelope, "the envelope is larger than 64 MiB", at + 8);
  }
  return result;
}

Result<cbor::Value> ReadEnvelope(ByteSpan bytes, const Footer& footer) {
  const ByteSpan encoded =
      bytes.subspan(static_cast<size_t>(footer.envelope_offset), static_cast<size_t>(footer.envelope_size));
  if (Sha256Of(encoded) != footer.envelope_sha256) {
    return FailAt(ErrorCode::kGldEnvelope, "the envelope's hash differs", footer.envelope_offset);
  }
  const cbor::Limits limits{.max_bytes = kMaxEnvelopeBytes, .max_items = kMaxEnvelopeItems};
  auto value = cbor::Decode(encoded, limits);
  if (!value) {
    Error error = std::move(value).error();
    error.cause = error.code;
    error.code = ErrorCode::kGldEnvelope;
    error.byte_offset = footer.envelope_offset + error.byte_offset.value_or(0);
    return Fail(std::move(error));
  }
  if (value->AsMap() == nullptr) return SchemaError("the envelope is not a map", "");
  return value;
}

// Blobs lie one after another, and nothing lies between them and the envelope.
Status CheckBlobTable(ByteSpan bytes, const std::vector<Blob>& blobs, uint64_t envelope_offset) {
  if (blobs.size() > kMaxBlobs) return Fail(ErrorCode::kGldShape, "too many blobs");
  uint64_t next = kHeaderBytes;
  for (size_t i = 0; i < blobs.size(); ++i) {
    const std::string field = "blobs." + std::to_string(i);
    const Blob& blob = blobs[i];
    if (blob.offset != next || blob.size == 0 || blob.size > envelope_offset - next) {
      return Fail(MakeError(ErrorCode::kGldBlob, "the blob is empty or out of place").At(next).Field(field));
    }
    const uint64_t end = blob.offset + blob.size;
    next = *CheckedAlignUp(end, kAlignment);  // at most envelope_offset, which is aligned
    SLM_TRY(CheckZero(bytes, end, next));
  }
  if (next == envelope_offset) return {};
  return FailAt(ErrorCode::kGldBlob, "bytes between the last blob and the envelope", next);
}

Status CheckBlobHashes(ByteSpan bytes, const std::vector<Blob>& blobs) {
  for (size_t i = 0; i < blobs.size(); ++i) {
    const ByteSpan part =
        bytes.subspan(static_cast<size_t>(blobs[i].offset), static_cast<size_t>(blobs[i].size));
    if (Sha256Of(part) != blobs[i].sha256) {
      return Fail(MakeError(ErrorCode::kGldBlob, "the blob's hash differs")
                      .At(blobs[i].offset)
                      .Field("blobs." + std::to_string(i)));
    }
  }
  return {};
}

// Bits after the last column of a row are zero.
Status CheckSpareBits(const Golden& golden, const Observation& observation) {
  if (observation.layout != Layout::kPackedBits || observation.shape[1] % 8 == 0) return {};
  const size_t row_bytes = static_cast<size_t>((observation.shape[1] + 7) / 8);
  const ByteSpan bytes = golden.BlobBytes(observation.blob);
  for (size_t last = row_bytes - 1; last < bytes.size(); last += row_bytes) {
    if (bytes[last] >> (observation.shape[1] % 8) != 0) {
      return Fail(MakeError(ErrorCode::kGldPad, "a spare bit is not zero")
                      .At(golden.blobs()[static_cast<size_t>(observation.blob)].offset + last)
                      .Field(observation.name));
    }
  }
  return {};
}

}  // namespace

class Parser {
 public:
  static Result<std::shared_ptr<const Golden>> Run(Bytes owned, ByteSpan borrowed) {
    std::shared_ptr<Golden> golden(new Golden());
    golden->owned_ = std::move(owned);
    golden->bytes_ = golden->owned_.empty() ? borrowed : ByteSpan(golden->owned_);
    const ByteSpan bytes = golden->bytes_;
    SLM_TRY(CheckHeader(bytes));
    SLM_ASSIGN(const Footer footer, ReadFooter(bytes));
    SLM_TRY(CheckZero(bytes, footer.envelope_offset + footer.envelope_size, bytes.size() - kFooterBytes));
    SLM_ASSIGN(const cbor::Value value, ReadEnvelope(bytes, footer));
    SLM_ASSIGN(Envelope envelope, ParseEnvelope(*value.AsMap()));
    SLM_TRY(CheckBlobTable(bytes, envelope.blobs, footer.envelope_offset));
    SLM_TRY(CheckBlobHashes(bytes, envelope.blobs));
    SLM_TRY(CheckContent(envelope.content, envelope.blobs));
    golden->content_ = std::move(envelope.content);
    golden->blobs_ = std::move(envelope.blobs);
    golden->envelope_sha256_ = footer.envelope_sha256;
    for (const Case& one : golden->content_.cases) {
      for (const Observation& observation : one.observations) SLM_TRY(CheckSpareBits(*golden, observation));
    }
    for (const Observation& observation : golden->content_.model_observations) {
      SLM_TRY(CheckSpareBits(*golden, observation));
    }
    return golden;
  }
};

Result<std::shared_ptr<const Golden>> Golden::FromBytes(Bytes bytes) {
  return Parser::Run(std::move(bytes), {});
}

Result<std::shared_ptr<const Golden>> Golden::Open(ByteSpan bytes) {
  return Parser::Run({}, bytes);
}

}  // namespace slm::golden
