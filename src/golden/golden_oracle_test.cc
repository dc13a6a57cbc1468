// Files that the oracle's Python writer made (GLD-03).
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "golden/golden_test_util.h"

namespace slm::golden {
namespace {

TEST(GoldenOracle, Gld03BothWritersGiveTheSameBytes) {
  const Bytes python = ReadFileBytes(std::string(SLM_SOURCE_DIR) + "/src/golden/testdata/small.golden");
  ASSERT_FALSE(python.empty());
  EXPECT_EQ(WriteSmall(), python);
}

// Every committed container is read, and written again from its parts with the same bytes.
TEST(GoldenOracle, Gld03CommittedVectorsAreReadAndWrittenAgain) {
  size_t n_files = 0;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(SLM_SOURCE_DIR) + "/vectors", ignored)) {
    if (entry.path().extension() != ".golden") continue;
    SCOPED_TRACE(entry.path().string());
    const Bytes file = ReadFileBytes(entry.path().string());
    const auto golden = Golden::Open(file);
    ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
    Bytes again;
    GoldenWriter writer([&again](ByteSpan bytes) -> Status {
      again.insert(again.end(), bytes.begin(), bytes.end());
      return {};
    });
    for (size_t i = 0; i < (*golden)->blobs().size(); ++i) {
      ASSERT_EQ(writer.AddBlob((*golden)->BlobBytes(i)).value(), i);
    }
    ASSERT_TRUE(writer.Finish((*golden)->content()).has_value());
    EXPECT_EQ(again, file);
    ++n_files;
  }
  if (n_files == 0) {
    std::puts("not-run: golden-vectors: no *.golden under vectors/");
    GTEST_SKIP() << "no committed vectors";
  }
}

}  // namespace
}  // namespace slm::golden
