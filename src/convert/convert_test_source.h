// For the tests of src/convert: a TinySource as conversion sees it, from memory.
#ifndef SLM_CONVERT_CONVERT_TEST_SOURCE_H_
#define SLM_CONVERT_CONVERT_TEST_SOURCE_H_

#include <map>
#include <memory>
#include <string>

#include "codec/sha256.h"
#include "convert/convert.h"
#include "tests/support/tiny_source.h"

namespace slm::convert {

class TextSource : public ByteSource {
 public:
  explicit TextSource(const std::string& text) : text_(text) {}
  [[nodiscard]] ByteSpan bytes() const override { return AsBytes(text_); }

 private:
  const std::string& text_;
};

// `files` outlives the source.
inline Source SourceFromFiles(const std::map<std::string, std::string>& files) {
  Source source;
  source.name = "tiny";
  source.revision = "1";
  source.spdx = "MIT";
  for (const auto& [path, text] : files) source.files.push_back({path, text.size(), Sha256Of(AsBytes(text))});
  source.open = [&files](const SourceFile& file) -> Result<std::unique_ptr<ByteSource>> {
    return std::make_unique<TextSource>(files.at(file.path));
  };
  return source;
}

}  // namespace slm::convert

#endif  // SLM_CONVERT_CONVERT_TEST_SOURCE_H_
