// A file mapped read-only. Native only: the WebAssembly build leaves this file out and hands bytes
// to Artifact::FromBytes.
//
// The mapping lives as long as the object; spans of it may be read from any thread. Whoever changes
// the file meanwhile changes what is read: callers hash what they use.
#ifndef SLM_SLM_FILE_MAPPED_FILE_H_
#define SLM_SLM_FILE_MAPPED_FILE_H_

#include <memory>
#include <string>

#include "base/error.h"
#include "slm_file/artifact.h"

namespace slm {

class MappedFile : public ByteSource {
 public:
  // Errors: NOT-FOUND, UNSUPPORTED (a directory, a special file), IO (an unreadable file).
  [[nodiscard]] static Result<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] ByteSpan bytes() const override { return bytes_; }
  // Says that the bytes will be read once from begin to end.
  void AdviseSequential() const;

 private:
  explicit MappedFile(ByteSpan bytes) : bytes_(bytes) {}
  ByteSpan bytes_;
};

}  // namespace slm

#endif  // SLM_SLM_FILE_MAPPED_FILE_H_
