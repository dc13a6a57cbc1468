// Deterministic CBOR: an accepted input is the only encoding of its value, and every path leads into it.
#include <algorithm>
#include <string>

#include "codec/cbor.h"
#include "fuzz/fuzz.h"

namespace {

void CheckPaths(slm::ByteSpan bytes, const slm::cbor::Value& value, const std::string& path) {
  const uint64_t at = slm::cbor::OffsetOf(bytes, path);
  const slm::Bytes own = slm::cbor::Encode(value);
  slm::fuzz::Require(at + own.size() <= bytes.size() &&
                         std::equal(own.begin(), own.end(), bytes.begin() + static_cast<ptrdiff_t>(at)),
                     "OffsetOf points at the item");
  if (path.size() > 40) return;
  if (const auto* map = value.AsMap()) {
    for (const auto& [key, member] : *map) CheckPaths(bytes, member, path.empty() ? key : path + "." + key);
  } else if (const auto* array = value.AsArray()) {
    for (size_t i = 0; i < array->size() && i < 4; ++i)
      CheckPaths(bytes, (*array)[i], path + "[" + std::to_string(i) + "]");
  }
}

}  // namespace

SLM_FUZZ_TARGET(data, size) {
  const slm::ByteSpan bytes(data, size);
  const auto value = slm::cbor::Decode(bytes);
  if (!value) {
    slm::fuzz::RequireOffset(value.error(), size);
    return 0;
  }
  const slm::Bytes again = slm::cbor::Encode(*value);
  slm::fuzz::Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "CBOR round trip");
  CheckPaths(bytes, *value, "");
  return 0;
}
