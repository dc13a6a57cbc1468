// Files that the oracle's Python writer made (GLD-03).
#include <gtest/gtest.h>

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
  EXPECT_GT(n_files, 0u);  // containers are committed: without one nothing was looked at
}

// Public vectors hold the mechanics and no more: four rows of an array, 1024 columns of a large vocabulary,
// and no blob that is a whole weight tensor.
TEST(GoldenOracle, CommittedVectorsHoldBoundedSlices_GLD_05) {
  size_t n_arrays = 0;
  for (const char* model : {"slm-demo", "stories260k", "smollm2"}) {
    for (const char* mode : {"reference", "source", "truth"}) {
      const std::string path = std::string(SLM_SOURCE_DIR) + "/vectors/" + model + "/" + mode + ".golden";
      SCOPED_TRACE(path);
      const Bytes file = ReadFileBytes(path);
      const auto golden = Golden::Open(file);
      ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
      for (const Case& one : (*golden)->cases()) {
        EXPECT_EQ(one.case_class, CaseClass::kPublicMechanical);
        for (const Observation& observation : one.observations) {
          const uint64_t n_rows = observation.rows ? observation.rows->count : one.positions.count;
          EXPECT_LE(n_rows, 4u) << one.case_id << " " << observation.name;
          if (observation.name == "logits") {
            EXPECT_LE(observation.shape.back(), 4096u) << one.case_id;
          }
          ++n_arrays;
        }
      }
      for (size_t i = 0; i < (*golden)->blobs().size(); ++i) {
        const Hash256 hash = Sha256Of((*golden)->BlobBytes(i));
        for (const TensorHash& tensor : (*golden)->content().tensors)
          EXPECT_NE(hash, tensor.sha256) << "a whole weight tensor: " << tensor.name;
      }
    }
  }
  EXPECT_GT(n_arrays, 100u);
}

}  // namespace
}  // namespace slm::golden
