// Writing a .slm file: chunks, determinism, nothing left behind after an error (ID-05, ACQ-10).
#include "slm_file/artifact_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "codec/sha256.h"
#include "slm_file/file_header.h"
#include "slm_file/mapped_file.h"
#include "tests/support/tiny_source.h"

namespace slm {
namespace {

ArtifactSpec Spec(const Bytes& bytes, size_t piece) {
  ArtifactSpec spec;
  spec.blobs.push_back({"tensor", bytes.size(), [&bytes, piece](const BlobSink& sink) -> Status {
                          for (size_t at = 0; at < bytes.size(); at += piece) {
                            SLM_TRY(sink(ByteSpan(bytes).subspan(at, std::min(piece, bytes.size() - at))));
                          }
                          return {};
                        }});
  spec.manifest = [](std::span<const BlobEntry> blobs) {
    return cbor::Map{{"hash", blobs[0].sha256}, {"offset", blobs[0].offset}};
  };
  return spec;
}

TEST(ArtifactWriter, ChunksAndHashesWhateverThePieces) {
  const std::string directory = test::FreshDirectory("writer");
  Bytes bytes(10 * kSlmChunkSize + 12345);  // more than the writer's buffers hold
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((i * 2654435761u) >> 24);
  const auto first = WriteArtifact(directory + "/1.slm", Spec(bytes, 1000));
  const auto second = WriteArtifact(directory + "/2.slm", Spec(bytes, bytes.size()));
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(first->root, second->root);
  EXPECT_EQ(first->file_sha256, second->file_sha256);
  const auto mapped = MappedFile::Open(directory + "/1.slm");
  ASSERT_TRUE(mapped.has_value());
  const ByteSpan file = (*mapped)->bytes();
  EXPECT_EQ(Sha256Of(file), first->file_sha256);
  const auto header = DecodeHeader(file, file.size());
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->table_size, 11u * 32);
  for (size_t chunk = 0; chunk < 11; ++chunk) {
    const ByteSpan data = ByteSpan(bytes).subspan(chunk * kSlmChunkSize);
    const Hash256 hash = Sha256Of(data.first(std::min<size_t>(data.size(), kSlmChunkSize)));
    EXPECT_TRUE(std::equal(hash.begin(), hash.end(), &file[header->table_offset + 32 * chunk]));
  }
  EXPECT_EQ(first->blobs[0].sha256, Sha256Of(bytes));
  EXPECT_EQ(ArtifactRoot(file), first->root);
}

TEST(ArtifactWriter, ErrorsLeaveNothing) {
  const std::string directory = test::FreshDirectory("writer-error");
  const Bytes bytes(100);
  ArtifactSpec spec = Spec(bytes, 10);
  spec.blobs[0].write = [](const BlobSink&) -> Status { return Fail(ErrorCode::kNonfinite, "as asked"); };
  EXPECT_EQ(WriteArtifact(directory + "/a.slm", spec).error().code, ErrorCode::kNonfinite);
  spec = Spec(bytes, 10);
  spec.blobs[0].size = 99;
  EXPECT_EQ(WriteArtifact(directory + "/a.slm", spec).error().code, ErrorCode::kInternal);
  spec.blobs[0].size = 101;
  EXPECT_EQ(WriteArtifact(directory + "/a.slm", spec).error().code, ErrorCode::kInternal);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  EXPECT_EQ(WriteArtifact(directory + "/none/a.slm", Spec(bytes, 10)).error().code, ErrorCode::kIo);
}

TEST(ArtifactWriter, TheLastCheckKeepsTheFileFromAppearing) {
  const std::string directory = test::FreshDirectory("writer-check");
  const Bytes bytes(100);
  ArtifactSpec spec = Spec(bytes, 10);
  bool was_there = true;
  spec.before_publish = [&]() -> Status {
    was_there = std::filesystem::exists(directory + "/a.slm");
    return Fail(ErrorCode::kFsckHash, "as asked");
  };
  EXPECT_EQ(WriteArtifact(directory + "/a.slm", spec).error().code, ErrorCode::kFsckHash);
  EXPECT_FALSE(was_there);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

// The thread that writes meets the limit long before the blobs end; its error is the one that comes out.
TEST(ArtifactWriter, ErrorsOfTheWritingThreadComeOut) {
  const std::string directory = test::FreshDirectory("writer-limit");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{3 << 20, 3 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const Bytes bytes(40 * kSlmChunkSize);
    const auto written = WriteArtifact(directory + "/a.slm", Spec(bytes, 100000));
    const bool holds = !written.has_value() && written.error().code == ErrorCode::kIo &&
                       written.error().file == directory + "/a.slm";
    _exit(holds ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace slm
