#include <bit>

#include "base/checked.h"
#include "codec/sha256.h"
#include "golden/golden_internal.h"

namespace slm::golden {

GoldenWriter::GoldenWriter(Sink sink) : sink_(std::move(sink)) {}

Status GoldenWriter::Write(ByteSpan bytes) {
  if (offset_ == 0) {
    Bytes header(kMagic.begin(), kMagic.end());
    AppendLe(&header, kMajor);
    AppendLe(&header, kMinor);
    header.resize(kHeaderBytes);
    SLM_TRY(sink_(header));
    offset_ = kHeaderBytes;
  }
  SLM_TRY(sink_(bytes));
  offset_ += bytes.size();
  return {};
}

Status GoldenWriter::Pad() {
  const Bytes zeros(static_cast<size_t>((kAlignment - offset_ % kAlignment) % kAlignment));
  return Write(zeros);
}

Result<uint64_t> GoldenWriter::AddBlob(ByteSpan bytes) {
  if (finished_ || bytes.empty()) return Fail(ErrorCode::kInternal, "an empty blob, or a blob after Finish");
  const Hash256 sha256 = Sha256Of(bytes);
  const auto [found, is_new] = by_hash_.try_emplace(sha256, blobs_.size());
  if (!is_new) return found->second;
  if (blobs_.size() == kMaxBlobs) return Fail(ErrorCode::kGldShape, "too many blobs");
  SLM_TRY(Pad());
  blobs_.push_back({.offset = offset_, .size = bytes.size(), .sha256 = sha256});
  SLM_TRY(Write(bytes));
  return found->second;
}

Result<uint64_t> GoldenWriter::AddF32(std::span<const float> values) {
  Bytes bytes;
  bytes.reserve(values.size() * 4);
  for (const float value : values) AppendLe(&bytes, std::bit_cast<uint32_t>(value));
  return AddBlob(bytes);
}

Result<uint64_t> GoldenWriter::AddU32(std::span<const uint32_t> values) {
  return AddBlob(PackU32(values));
}

Status GoldenWriter::Finish(Content content) {
  if (finished_) return Fail(ErrorCode::kInternal, "Finish was called before");
  finished_ = true;
  content.identities["generator"] = Sha256Of(cbor::Encode(content.generator));
  SLM_TRY(CheckContent(content, blobs_));
  const Bytes envelope = cbor::Encode(EncodeContent(content, blobs_));
  if (envelope.size() > kMaxEnvelopeBytes)
    return Fail(ErrorCode::kGldEnvelope, "the envelope is larger than 64 MiB");
  SLM_TRY(Pad());
  const uint64_t envelope_offset = offset_;
  SLM_TRY(Write(envelope));
  SLM_TRY(Pad());
  const Hash256 sha256 = Sha256Of(envelope);
  Bytes footer;
  AppendLe(&footer, envelope_offset);
  AppendLe(&footer, uint64_t{envelope.size()});
  footer.insert(footer.end(), sha256.begin(), sha256.end());
  AppendLe(&footer, offset_ + kFooterBytes);
  footer.insert(footer.end(), kMagic.rbegin(), kMagic.rend());
  return Write(footer);
}

}  // namespace slm::golden
