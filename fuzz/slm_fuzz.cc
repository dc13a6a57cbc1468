// The .slm file. Input: a manifest; header, chunk table and a data region of zeros are made to fit, every
// hash right, so that the fuzzer reaches the rules. An accepted file prints the same twice, and its
// configuration re-encodes to its own bytes.
#include "fuzz/fuzz.h"
#include "model/artifact_check.h"
#include "slm_file/file_header.h"
#include "slm_file/inspection.h"
#include "tests/support/slm_forge.h"

namespace {

// Size of a data region that the manifest's last blob would end.
uint64_t DataSize(slm::ByteSpan manifest) {
  constexpr uint64_t kMax = 1u << 20;
  const auto value = slm::cbor::Decode(manifest);
  const slm::cbor::Value* blobs = value && value->AsMap() ? value->AsMap()->Find("blobs") : nullptr;
  if (blobs == nullptr || blobs->AsArray() == nullptr || blobs->AsArray()->empty()) return 1;
  const slm::cbor::Map* last = blobs->AsArray()->back().AsMap();
  if (last == nullptr) return 1;
  uint64_t end = 0;
  for (const char* key : {"offset", "size"}) {
    const slm::cbor::Value* number = last->Find(key);
    if (number != nullptr && number->AsUint() != nullptr && *number->AsUint() < kMax)
      end += *number->AsUint();
  }
  return end == 0 ? 1 : end;
}

void CheckHeader(const uint8_t* data, size_t size) {
  if (size < slm::kSlmHeaderSize) return;
  slm::Bytes bytes(data, data + slm::kSlmHeaderSize);
  slm::test::RepairCrc(&bytes);
  const auto header = slm::DecodeHeader(bytes, slm::LoadLe<uint64_t>(&bytes[16]));
  if (!header) return;
  const auto again = slm::EncodeHeader(*header);
  slm::fuzz::Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "header round trip");
}

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  CheckHeader(data, size);
  if (size == 0 || size > (1u << 20)) return 0;
  const slm::ByteSpan manifest(data, size);
  const slm::Bytes file = slm::test::ForgeSlm(manifest, slm::Bytes(DataSize(manifest)));
  const auto artifact = slm::Artifact::FromBytes(file, slm::Verify::kHeaderOnly);
  if (!artifact) {
    slm::fuzz::RequireOffset(artifact.error(), file.size());
    return 0;
  }
  slm::fuzz::Require(slm::InspectionJson(**artifact) == slm::InspectionJson(**artifact),
                     "the same text twice");
  for (const slm::TensorEntry& entry : (*artifact)->tensors()) {
    slm::fuzz::Require((*artifact)->TensorBytes(entry).size() == entry.size, "a tensor lies inside the file");
    slm::fuzz::Require((*artifact)->VerifyTensor(entry).has_value(), "the chunks of a forged file are right");
  }
  const auto config = slm::CheckModelArtifact(**artifact);
  if (!config) {
    slm::fuzz::RequireOffset(config.error(), file.size());
    return 0;
  }
  slm::fuzz::Require(slm::ConfigToCbor(*config) == (*artifact)->config(), "configuration round trip");
  return 0;
}
