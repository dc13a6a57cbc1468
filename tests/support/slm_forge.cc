#include "tests/support/slm_forge.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "codec/crc32c.h"
#include "codec/sha256.h"
#include "slm_file/file_header.h"

namespace slm::test {

Bytes ForgeSlm(ByteSpan manifest, ByteSpan data) {
  std::optional<FileHeader> header = PlaceRegions(manifest.size(), data.size());
  if (!header) std::abort();
  Bytes table;
  for (size_t at = 0; at < data.size(); at += kSlmChunkSize) {
    const Hash256 hash = Sha256Of(data.subspan(at, std::min<size_t>(kSlmChunkSize, data.size() - at)));
    table.insert(table.end(), hash.begin(), hash.end());
  }
  header->manifest_sha256 = Sha256Of(manifest);
  header->table_sha256 = Sha256Of(table);
  Bytes file(header->file_size);
  const auto bytes = EncodeHeader(*header);
  const auto at = [&](uint64_t offset) { return file.begin() + static_cast<ptrdiff_t>(offset); };
  std::copy(bytes.begin(), bytes.end(), at(0));
  std::copy(manifest.begin(), manifest.end(), at(kSlmHeaderSize));
  std::copy(table.begin(), table.end(), at(header->table_offset));
  std::copy(data.begin(), data.end(), at(header->data_offset));
  return file;
}

void RepairCrc(Bytes* file) {
  StoreLe<uint32_t>(&(*file)[184], Crc32c(ByteSpan(*file).first(184)));
}

cbor::Map ManifestOf(ByteSpan file) {
  const auto size = LoadLe<uint64_t>(&file[32]);
  const auto value = cbor::Decode(file.subspan(kSlmHeaderSize, size));
  if (!value) std::abort();
  return *value->AsMap();
}

Bytes DataOf(ByteSpan file) {
  const ByteSpan data = file.subspan(LoadLe<uint64_t>(&file[56]));
  return {data.begin(), data.end()};
}

cbor::Value Edited(const cbor::Value& root, const std::vector<std::string>& path, const cbor::Value* value) {
  if (path.empty()) return *value;
  const std::vector<std::string> rest(path.begin() + 1, path.end());
  if (const cbor::Array* array = root.AsArray()) {
    cbor::Array copy = *array;
    const auto index = static_cast<size_t>(std::atoi(path[0].c_str()));
    if (index == copy.size()) {
      copy.push_back(*value);
    } else {
      copy[index] = Edited(copy[index], rest, value);
    }
    return copy;
  }
  cbor::Map copy;
  for (const auto& [key, member] : *root.AsMap()) {
    if (key != path[0]) {
      copy.Set(key, member);
    } else if (!rest.empty() || value != nullptr) {
      copy.Set(key, Edited(member, rest, value));
    }
  }
  if (root.AsMap()->Find(path[0]) == nullptr) copy.Set(path[0], *value);
  return copy;
}

}  // namespace slm::test
