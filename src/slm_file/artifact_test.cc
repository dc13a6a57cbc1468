// Reading a .slm file: every case J of the malformed-input catalogue that concerns manifest and data.
#include "slm_file/artifact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/sha256.h"
#include "slm_file/artifact_writer.h"
#include "slm_file/file_header.h"
#include "slm_file/mapped_file.h"
#include "tests/support/slm_forge.h"
#include "tests/support/tiny_source.h"

namespace slm {
namespace {

using cbor::Array;
using cbor::Map;
using cbor::Value;

Bytes Pattern(size_t n) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  return bytes;
}

Map SourceRow(uint64_t end) {
  return Map{{"file", 0},  {"name", "w"}, {"dtype", "F32"}, {"shape", Array{18, 3}},
             {"begin", 0}, {"end", end}};
}

Map Tensor(std::string_view name, Array shape, Array physical, std::string_view layout) {
  return Map{{"name", name},
             {"role", name},
             {"shape", std::move(shape)},
             {"layout", layout},
             {"dtype", "f32"},
             {"physical", std::move(physical)},
             {"source", Array{SourceRow(8)}},
             {"transforms", Array{Map{{"op", "identity"}}}}};
}

// A text blob, a rows16 matrix of 18 rows (two groups, 14 empty lanes), a vector, an alias.
class ArtifactTest : public ::testing::Test {
 protected:
  explicit ArtifactTest(size_t n_text = 300) {
    path_ = test::FreshDirectory("artifact") + "/a.slm";
    ArtifactSpec spec;
    text_ = Pattern(n_text);
    for (size_t i = 0; i < n_text; ++i) text_[i] ^= static_cast<uint8_t>(i / kSlmChunkSize);
    matrix_.resize(2 * 3 * 16 * 4);
    for (size_t k = 0; k < 3; ++k) {
      for (size_t lane = 0; lane < 32; ++lane) {
        if (lane < 18)
          matrix_[((lane / 16) * 48 + k * 16 + lane % 16) * 4 + 3] = static_cast<uint8_t>(lane + 1);
      }
    }
    vector_ = Pattern(20);
    const auto blob = [&](std::string kind, const Bytes& bytes) {
      spec.blobs.push_back(
          {std::move(kind), bytes.size(), [&bytes](const BlobSink& sink) { return sink(bytes); }});
    };
    blob("tokenizer-json", text_);
    blob("tensor", matrix_);
    blob("tensor", vector_);
    spec.manifest = MakeManifest;
    const auto written = WriteArtifact(path_, spec);
    EXPECT_TRUE(written.has_value()) << written.error().ToString();
    root_ = written->root;
    auto mapped = MappedFile::Open(path_);
    EXPECT_TRUE(mapped.has_value());
    file_.assign((*mapped)->bytes().begin(), (*mapped)->bytes().end());
    manifest_ = test::ManifestOf(file_);
    data_ = test::DataOf(file_);
  }

  static Map MakeManifest(std::span<const BlobEntry> blobs) {
    Array rows;
    for (const BlobEntry& entry : blobs) {
      rows.emplace_back(Map{
          {"kind", entry.kind}, {"offset", entry.offset}, {"size", entry.size}, {"sha256", entry.sha256}});
    }
    Map alias = Tensor("a", {18, 3}, {2, 3, 16}, "rows16");
    alias.Set("alias_of", 1);
    Map matrix = Tensor("m", {18, 3}, {2, 3, 16}, "rows16");
    matrix.Set("blob", 1);
    Map vector = Tensor("v", {5}, {5}, "row-major");
    vector.Set("blob", 2);
    vector.Set("layer", 0);
    const Hash256 hash{};
    return Map{{"schema", "slm.manifest.v1"},
               {"producer", Map{{"name", "test"}, {"version", "0"}}},
               {"required_features", Array{"rows16"}},
               {"source", Map{{"acquisition", hash},
                              {"name", Bytes{'n'}},
                              {"revision", Bytes{'r'}},
                              {"files", Array{Map{{"path", Bytes{'f'}}, {"size", 8}, {"sha256", hash}}}}}},
               {"license", Map{{"spdx", "MIT"}}},
               {"family_profile", Map{{"family", "llama"},
                                      {"version", 1},
                                      {"sha256", hash},
                                      {"pinned_source", "s"},
                                      {"reviewer", "r"}}},
               {"config", Map{{"x", 1}}},
               {"config_columns", Array{}},
               {"ignored_metadata", Array{}},
               {"sampling_declarations", Array{}},
               {"accepted_conflicts", Array{}},
               {"quant_profiles", Array{}},
               {"blobs", std::move(rows)},
               {"tensors", Array{std::move(alias), std::move(matrix), std::move(vector)}},
               {"omitted", Array{}}};
  }

  // Refusal of these bytes; success is a test failure.
  static Error Refusal(Bytes file, Verify verify = Verify::kAllChunks) {
    const auto opened = Artifact::FromBytes(std::move(file), verify);
    EXPECT_FALSE(opened.has_value());
    return opened ? Error{} : opened.error();
  }
  // Refusal after replacing one value of the manifest, every hash made right.
  Error Edit(const std::vector<std::string>& path, const Value& value) {
    return Refusal(test::ForgeSlm(cbor::Encode(test::Edited(Value(manifest_), path, &value)), data_));
  }
  Error Remove(const std::vector<std::string>& path) {
    return Refusal(test::ForgeSlm(cbor::Encode(test::Edited(Value(manifest_), path, nullptr)), data_));
  }

  std::string path_;
  Bytes text_, matrix_, vector_, file_, data_;
  Map manifest_;
  Hash256 root_{};
};

// What reads texts alone is given no tensor.
TEST_F(ArtifactTest, TheTextsAloneAreReadAsInTheWholeFile) {
  const auto whole = *Artifact::FromBytes(file_, Verify::kAllChunks);
  const uint64_t end = EndOfTexts(*whole);
  EXPECT_EQ(end, whole->data_offset() + 300);
  const auto prefix = [&](uint64_t size) {
    return Bytes(file_.begin(), file_.begin() + static_cast<ptrdiff_t>(size));
  };
  const auto texts = Artifact::FromTexts(prefix(end));
  ASSERT_TRUE(texts.has_value()) << texts.error().ToString();
  EXPECT_EQ((*texts)->root(), root_);
  EXPECT_EQ((*texts)->manifest(), whole->manifest());
  const auto blob = (*texts)->Blob("tokenizer-json");
  ASSERT_TRUE(blob.has_value());
  EXPECT_TRUE(std::equal(blob->begin(), blob->end(), text_.begin(), text_.end()));
  EXPECT_EQ(EndOfTexts(**texts), end);
  EXPECT_TRUE(Artifact::FromTexts(file_).has_value());
  // Cut off anywhere.
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, uint64_t{191}, uint64_t{192},
                              whole->data_offset() - 1, whole->data_offset(), end - 1}) {
    const auto cut = Artifact::FromTexts(prefix(size));
    ASSERT_FALSE(cut.has_value()) << size;
    if (size >= 192) EXPECT_EQ(cut.error().code, ErrorCode::kSlmSize) << size;
  }
  // Each byte that is used counts.
  Bytes bad = prefix(end);
  bad[end - 1] ^= 1;
  EXPECT_EQ((*Artifact::FromTexts(bad))->Blob("tokenizer-json").error().code, ErrorCode::kSlmBlobHash);
  bad = prefix(end);
  bad[200] ^= 1;
  EXPECT_EQ(Artifact::FromTexts(bad).error().code, ErrorCode::kSlmManifest);
}

TEST_F(ArtifactTest, ReadsWhatWasWritten) {
  const auto artifact = Artifact::OpenFile(path_, Verify::kAllChunks);
  ASSERT_TRUE(artifact.has_value()) << artifact.error().ToString();
  EXPECT_EQ((*artifact)->root(), root_);
  // The worked example of docs/spec/slm.md, which independent/slm_inspect_test.py builds from that page.
  EXPECT_EQ(ToHex(root_), "e1b84360c529af286cc58dfc781ae02ecc20cef16a0a452bc160b5cbea037686");
  EXPECT_EQ(test::ForgeSlm(cbor::Encode(manifest_), data_), file_);
  const TensorEntry* matrix = (*artifact)->Find("m");
  ASSERT_NE(matrix, nullptr);
  const ByteSpan bytes = (*artifact)->TensorBytes(*matrix);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), matrix_);
  EXPECT_EQ(matrix->physical, (std::vector<uint64_t>{2, 3, 16}));
  EXPECT_EQ((*artifact)->Find("a")->offset, matrix->offset);
  EXPECT_EQ((*artifact)->Find("a")->alias_of, 1u);
  EXPECT_EQ((*artifact)->Find("b"), nullptr);
  EXPECT_EQ(AsText(*(*artifact)->Blob("tokenizer-json")), AsText(text_));
  EXPECT_EQ((*artifact)->Blob("template-ir").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Artifact::OpenFile(path_ + ".not", Verify::kAllChunks).error().code, ErrorCode::kNotFound);
}

TEST_F(ArtifactTest, J06ManifestHash) {
  Bytes file = file_;
  file[300] ^= 1;
  EXPECT_EQ(Refusal(file).code, ErrorCode::kSlmManifest);
  EXPECT_EQ(Refusal(file).byte_offset, 192u);
}

TEST_F(ArtifactTest, J07ManifestNotDeterministic) {
  Bytes manifest = cbor::Encode(manifest_);
  manifest.insert(manifest.begin() + 1, uint8_t{0});  // the head of the first key becomes an integer key
  const Error error = Refusal(test::ForgeSlm(manifest, data_));
  EXPECT_EQ(error.CodeText(), "SLM-MANIFEST-P0/KEY_TYPE");
  EXPECT_EQ(error.byte_offset, 193u);
  Bytes longer = cbor::Encode(manifest_);
  longer.push_back(0xf6);
  EXPECT_EQ(Refusal(test::ForgeSlm(longer, data_)).CodeText(), "SLM-MANIFEST-P0/TRAILING_BYTES");
}

TEST_F(ArtifactTest, J08TableHash) {
  Bytes file = file_;
  const auto table = LoadLe<uint64_t>(&file[40]);
  file[table] ^= 1;
  EXPECT_EQ(Refusal(file).code, ErrorCode::kSlmTable);
  EXPECT_EQ(Refusal(file).byte_offset, table);
}

TEST_F(ArtifactTest, J09Chunk) {
  Bytes file = file_;
  const auto data = LoadLe<uint64_t>(&file[56]);
  file[data + 10] ^= 1;
  const Error error = Refusal(file);
  EXPECT_EQ(error.code, ErrorCode::kSlmChunk);
  EXPECT_EQ(error.field, "chunk 0");
  EXPECT_EQ(error.byte_offset, data);
  // A file that was only mapped is caught when the bytes are first used.
  const auto mapped = Artifact::FromBytes(file, Verify::kHeaderOnly);
  ASSERT_TRUE(mapped.has_value());
  const Status used = (*mapped)->VerifyTensor(*(*mapped)->Find("m"));
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, ErrorCode::kSlmChunk);
  EXPECT_EQ(used.error().field, "m");
  EXPECT_EQ(used.error().byte_offset, data);
  EXPECT_EQ((*mapped)->Blob("tokenizer-json").error().code, ErrorCode::kSlmBlobHash);
  const auto good = Artifact::FromBytes(file_, Verify::kHeaderOnly);
  EXPECT_TRUE((*good)->VerifyTensor(*(*good)->Find("m")).has_value());
}

// Three chunks of text, no two alike.
class LargeArtifactTest : public ArtifactTest {
 protected:
  LargeArtifactTest() : ArtifactTest(3 * kSlmChunkSize) {}
};

// J10: every chunk is whole, but two stand in each other's place.
TEST_F(LargeArtifactTest, J10ChunksSwapped) {
  const auto data = static_cast<ptrdiff_t>(LoadLe<uint64_t>(&file_[56]));
  const auto chunk = static_cast<ptrdiff_t>(kSlmChunkSize);
  ASSERT_TRUE(Artifact::FromBytes(file_, Verify::kAllChunks).has_value());
  Bytes file = file_;
  std::swap_ranges(file.begin() + data + chunk, file.begin() + data + 2 * chunk,
                   file.begin() + data + 2 * chunk);
  const Error error = Refusal(file);
  EXPECT_EQ(error.code, ErrorCode::kSlmChunk);
  EXPECT_EQ(error.field, "chunk 1");
  EXPECT_EQ(error.byte_offset, static_cast<uint64_t>(data + chunk));
}

TEST_F(ArtifactTest, J11Padding) {
  Bytes file = file_;
  const uint64_t behind_table = LoadLe<uint64_t>(&file[40]) + LoadLe<uint64_t>(&file[48]);
  file[behind_table + 5] = 1;
  EXPECT_EQ(Refusal(file).code, ErrorCode::kSlmPad);
  EXPECT_EQ(Refusal(file).byte_offset, behind_table + 5);
  Bytes data = data_;
  data[301] = 1;  // between the text of 300 bytes and the matrix at 512
  const Error error = Refusal(test::ForgeSlm(cbor::Encode(manifest_), data));
  EXPECT_EQ(error.code, ErrorCode::kSlmPad);
  EXPECT_EQ(error.byte_offset, LoadLe<uint64_t>(&file_[56]) + 301);
}

TEST_F(ArtifactTest, FillOfTheLastGroup) {
  // Lane 5 of the second group holds no row (18 rows): a value there is refused, with a right hash, too.
  Bytes data = data_;
  const size_t at = 512 + (48 + 0 * 16 + 5) * 4;
  data[at] = 0x7f;
  const Hash256 hash = Sha256Of(ByteSpan(data).subspan(512, matrix_.size()));
  const Value value(hash);
  const Value edited = test::Edited(Value(manifest_), {"blobs", "1", "sha256"}, &value);
  const Error error = Refusal(test::ForgeSlm(cbor::Encode(edited), data));
  EXPECT_EQ(error.code, ErrorCode::kSlmPad);
  EXPECT_EQ(error.field, "m");
  EXPECT_EQ(error.byte_offset, LoadLe<uint64_t>(&file_[56]) + at);
}

TEST_F(ArtifactTest, BlobHash) {
  const Error error = Edit({"blobs", "2", "sha256"}, Hash256{});
  EXPECT_EQ(error.code, ErrorCode::kSlmBlobHash);
  EXPECT_EQ(error.field, "v");
}

TEST_F(ArtifactTest, J14BlobMisaligned) {
  EXPECT_EQ(Edit({"blobs", "1", "offset"}, 513).code, ErrorCode::kSlmAlign);
}
TEST_F(ArtifactTest, J13BlobRange) {
  EXPECT_EQ(Edit({"blobs", "2", "size"}, UINT64_MAX).code, ErrorCode::kSlmRange);
  EXPECT_EQ(Edit({"blobs", "2", "size"}, 21).code, ErrorCode::kSlmRange);
}
TEST_F(ArtifactTest, J15TensorSize) {
  EXPECT_EQ(Edit({"tensors", "2", "shape"}, Array{6}).code, ErrorCode::kSlmTensorSize);
  EXPECT_EQ(Edit({"tensors", "2", "dtype"}, "bf16").code, ErrorCode::kSlmTensorSize);
  EXPECT_EQ(Edit({"tensors", "1", "physical"}, Array{3, 3, 16}).code, ErrorCode::kSlmTensorSize);
  EXPECT_EQ(Edit({"tensors", "2", "shape"}, Array{0}).code, ErrorCode::kSlmTensorSize);
  EXPECT_EQ(Edit({"tensors", "2", "shape"}, Array{uint64_t{1} << 60, 16}).code, ErrorCode::kSlmTensorSize);
}
TEST_F(ArtifactTest, J16Orphan) {
  EXPECT_EQ(Edit({"blobs", "0", "kind"}, "notes").code, ErrorCode::kSlmBlobOrphan);
  const Value value(
      Array{test::Edited(*manifest_.Find("tensors"), {"0", "alias_of"}, nullptr).AsArray()->at(1)});
  const Error error =
      Refusal(test::ForgeSlm(cbor::Encode(test::Edited(Value(manifest_), {"tensors"}, &value)), data_));
  EXPECT_EQ(error.code, ErrorCode::kSlmBlobOrphan);
  EXPECT_EQ(error.field, "blobs[2]");
}
TEST_F(ArtifactTest, J17Overlap) {
  EXPECT_EQ(Edit({"blobs", "1", "offset"}, 256).code, ErrorCode::kSlmBlobOverlap);
  EXPECT_EQ(Edit({"tensors", "2", "blob"}, 1).code, ErrorCode::kSlmTensorSize);
}
TEST_F(ArtifactTest, J18Alias) {
  EXPECT_EQ(Edit({"tensors", "0", "alias_of"}, 0).code, ErrorCode::kSlmAlias);
  EXPECT_EQ(Edit({"tensors", "0", "alias_of"}, 9).code, ErrorCode::kSlmAlias);
  EXPECT_EQ(Edit({"tensors", "0", "alias_of"}, 2).code, ErrorCode::kSlmAlias);  // another shape
}
TEST_F(ArtifactTest, J19Lineage) {
  EXPECT_EQ(Edit({"tensors", "1", "source"}, Array{}).code, ErrorCode::kSlmLineage);
  EXPECT_EQ(Edit({"tensors", "1", "transforms"}, Array{}).code, ErrorCode::kSlmLineage);
  EXPECT_EQ(Edit({"tensors", "1", "transforms", "0", "op"}, "transpose").code, ErrorCode::kSlmLineage);
  EXPECT_EQ(Edit({"tensors", "1", "source", "0", "file"}, 1).code, ErrorCode::kSlmRange);
  EXPECT_EQ(Edit({"tensors", "1", "source", "0", "end"}, 9).code, ErrorCode::kSlmRange);
}
TEST_F(ArtifactTest, J20Duplicate) {
  const Error error = Edit({"tensors", "2", "name"}, "m");
  EXPECT_EQ(error.code, ErrorCode::kSlmDup);
  EXPECT_EQ(error.field, "tensors[2]");
}
TEST_F(ArtifactTest, J24Extensions) {
  const Value critical(Map{{"y", Map{{"critical", true}, {"data", Bytes{}}}}});
  EXPECT_EQ(Edit({"ext"}, critical).code, ErrorCode::kSlmExt);
  const Value harmless(Map{{"y", Map{{"critical", false}, {"data", Bytes{1}}}}});
  const Value edited = test::Edited(Value(manifest_), {"ext"}, &harmless);
  EXPECT_TRUE(
      Artifact::FromBytes(test::ForgeSlm(cbor::Encode(edited), data_), Verify::kAllChunks).has_value());
}
TEST_F(ArtifactTest, FeaturesAndSchema) {
  EXPECT_EQ(Edit({"required_features"}, Array{"rows16", "q4"}).code, ErrorCode::kSlmFeature);
  EXPECT_EQ(Edit({"quant_profiles"}, Array{Map{}}).code, ErrorCode::kSlmFeature);
  EXPECT_EQ(Edit({"tensors", "1", "dtype"}, "q4").code, ErrorCode::kSlmFeature);
  EXPECT_EQ(Edit({"schema"}, "slm.manifest.v2").code, ErrorCode::kSlmSchema);
  EXPECT_EQ(Edit({"required_features"}, Array{}).field, "tensors[0].layout");  // used, and not named
  EXPECT_EQ(Edit({"required_features"}, Array{"rows16", "rows16"}).field, "required_features[1]");
  EXPECT_EQ(Edit({"surprise"}, 1).CodeText(), "SLM-SCHEMA/SCHEMA-UNKNOWN-KEY");
  // The offset is that of the item in the file: "f32" of tensors[2] in the page's own bytes.
  EXPECT_EQ(Edit({"tensors", "2", "dtype"}, "f99").byte_offset, 0x03b1u);
  EXPECT_EQ(Edit({"tensors", "1", "surprise"}, 1).field, "tensors[1].surprise");
  EXPECT_EQ(Edit({"license"}, Value()).CodeText(), "SLM-SCHEMA/SCHEMA-NULL");
  EXPECT_EQ(Remove({"license"}).CodeText(), "SLM-SCHEMA/SCHEMA-MISSING");
  EXPECT_EQ(Edit({"license", "spdx"}, 1).CodeText(), "SLM-SCHEMA/SCHEMA-TYPE");
}

TEST_F(ArtifactTest, NoFlippedBitPasses) {
  // Every 97th bit of the file in front of the data, and every byte of the data.
  const auto data = LoadLe<uint64_t>(&file_[56]);
  for (size_t bit = 0; bit < 8 * file_.size(); bit += bit < 8 * data ? 97 : 8) {
    Bytes file = file_;
    file[bit / 8] = static_cast<uint8_t>(file[bit / 8] ^ (1u << (bit % 8)));
    EXPECT_FALSE(Artifact::FromBytes(std::move(file), Verify::kAllChunks).has_value()) << "bit " << bit;
  }
}

}  // namespace
}  // namespace slm
