// Puts a .slm file together from a manifest and a data region, every hash made right: what is wrong
// with the result is only what the test put in.
#ifndef SLM_TESTS_SUPPORT_SLM_FORGE_H_
#define SLM_TESTS_SUPPORT_SLM_FORGE_H_

#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/cbor.h"

namespace slm::test {

// Header, manifest, chunk table, data. `manifest` need not be well-formed.
[[nodiscard]] Bytes ForgeSlm(ByteSpan manifest, ByteSpan data);

// The header's checksum made right again.
void RepairCrc(Bytes* file);

// Parts of a well-formed file.
[[nodiscard]] cbor::Map ManifestOf(ByteSpan file);
[[nodiscard]] Bytes DataOf(ByteSpan file);

// Replaces the value at a path of keys and indices, e.g. {"tensors", "0", "shape"}. The new value may
// be anything; a null pointer removes the last key.
[[nodiscard]] cbor::Value Edited(const cbor::Value& root, const std::vector<std::string>& path,
                                 const cbor::Value* value);

}  // namespace slm::test

#endif  // SLM_TESTS_SUPPORT_SLM_FORGE_H_
