// The tensors of a source, from one safetensors file or from shards. Internal to src/convert.
#ifndef SLM_CONVERT_WEIGHTS_H_
#define SLM_CONVERT_WEIGHTS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/side_thread.h"
#include "convert/convert.h"

namespace slm::convert {

// The files of the source, mapped and hashed. One thread calls it.
class SourceTree {
 public:
  explicit SourceTree(const Source& source);
  [[nodiscard]] bool Has(std::string_view path) const { return Index(path).has_value(); }
  // Index into files(), sorted by path.
  [[nodiscard]] std::optional<size_t> Index(std::string_view path) const;
  [[nodiscard]] const std::vector<SourceFile>& files() const { return files_; }
  // Maps and hashes the file on the first call. Errors: ACQ-MISSING, FSCK-HASH, those of the source.
  [[nodiscard]] Result<ByteSpan> Read(std::string_view path);
  // Maps the file, and leaves its hash to FinishChecks: nothing made of these bytes may be published before
  // that has agreed. Errors: those of Read, FSCK-HASH for the size alone.
  [[nodiscard]] Result<ByteSpan> Map(std::string_view path);
  // Begins to hash the mapped files on a thread of its own.
  [[nodiscard]] Status StartChecks();
  // Every file that was mapped has its hash. Error: FSCK-HASH, of the first in the order of mapping.
  [[nodiscard]] Status FinishChecks();

 private:
  [[nodiscard]] Result<size_t> Open(std::string_view path);
  [[nodiscard]] Status CheckHash(size_t index) const;

  const Source& source_;
  std::vector<SourceFile> files_;
  std::vector<std::unique_ptr<ByteSource>> open_;
  std::vector<bool> is_checked_;   // hashed, by Read
  std::vector<size_t> unchecked_;  // mapped, and left to the checks
  SideThread checker_;             // the last member, so that it ends before what it uses
};

struct SourceTensor {
  size_t file = 0;  // index into SourceTree::files()
  std::string name;
  std::string dtype;  // as in the file: "F32"
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // in the file
  uint64_t end = 0;
  ByteSpan bytes;
};

struct Weights {
  std::map<std::string, SourceTensor, std::less<>> tensors;
  std::optional<DType> first_dtype;  // of the first floating tensor, in order of file and position
};

[[nodiscard]] std::optional<DType> DTypeOfSafetensors(std::string_view dtype);

// `chosen`: paths that a person chose, or none. Errors: ACQ-MISSING, IX-*, ST-*, JSON codes.
[[nodiscard]] Result<Weights> LoadWeights(SourceTree* tree, const std::vector<std::string>& chosen);

}  // namespace slm::convert

#endif  // SLM_CONVERT_WEIGHTS_H_
