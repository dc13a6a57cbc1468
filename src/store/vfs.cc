#include "store/vfs.h"

#include <algorithm>

#include "codec/sha256.h"

namespace slm::store {

Status WriteAll(WriteFile& file, ByteSpan bytes) {
  while (!bytes.empty()) {
    SLM_ASSIGN(const size_t n_written, file.Write(bytes));
    bytes = bytes.subspan(n_written);
  }
  return {};
}

Result<Bytes> ReadWholeFile(Vfs& vfs, const std::string& path, uint64_t max_bytes) {
  SLM_ASSIGN(const auto file, vfs.OpenRead(path));
  if (file->size() > max_bytes) {
    return Fail(MakeError(ErrorCode::kLimit, "longer than " + std::to_string(max_bytes) + " bytes").In(path));
  }
  Bytes bytes(static_cast<size_t>(file->size()));
  SLM_ASSIGN(const size_t n_read, file->ReadAt(0, bytes));
  bytes.resize(n_read);
  return bytes;
}

Result<Hash256> HashFile(Vfs& vfs, const std::string& path) {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  SLM_ASSIGN(const auto file, vfs.OpenRead(path));
  Bytes buffer(static_cast<size_t>(std::min<uint64_t>(kBufferBytes, file->size() + 1)));
  Sha256 hash;
  uint64_t offset = 0;
  while (true) {
    SLM_ASSIGN(const size_t n_read, file->ReadAt(offset, buffer));
    hash.Update(ByteSpan(buffer).first(n_read));
    offset += n_read;
    if (n_read < buffer.size()) return hash.Finish();
  }
}

}  // namespace slm::store
