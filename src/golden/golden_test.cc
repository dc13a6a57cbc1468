// Reading back what was written (GLD-01, GLD-02).
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <bit>

#include "golden/golden_test_util.h"

namespace slm::golden {
namespace {

TEST(GoldenRoundTrip, Gld01EveryFieldComesBack) {
  Bytes blob_sink;
  GoldenWriter writer([&](ByteSpan bytes) -> Status {
    blob_sink.insert(blob_sink.end(), bytes.begin(), bytes.end());
    return {};
  });
  const Content expected = MakeSmallContent(&writer);
  const auto golden = Golden::FromBytes(WriteSmall());
  ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
  const Content& content = (*golden)->content();
  EXPECT_EQ((*golden)->mode(), Mode::kReference);
  EXPECT_EQ(content.cases, expected.cases);
  EXPECT_EQ(content.source_files, expected.source_files);
  EXPECT_EQ(content.effective_config, expected.effective_config);
  EXPECT_EQ(content.tensors, expected.tensors);
  EXPECT_EQ(content.tokenizer, expected.tokenizer);
  EXPECT_EQ(content.generator, expected.generator);
  EXPECT_EQ(content.model_observations, expected.model_observations);
  EXPECT_EQ(content.attachments, expected.attachments);
  EXPECT_EQ(content.identities.at("generator"), Sha256Of(cbor::Encode(expected.generator)));
  ASSERT_NE(content.FindCase("second"), nullptr);
  EXPECT_EQ(content.FindCase("third"), nullptr);
  EXPECT_EQ(*content.FindConfig("hidden_size")->value.AsUint(), 2u);
  EXPECT_EQ(AsText((*golden)->BlobBytes((*golden)->FindAttachment("effective-tokenizer.json")->blob)), "{}");
}

TEST(GoldenRoundTrip, Gld03SerializingAgainGivesTheSameBytes) {
  const Bytes file = WriteSmall();
  EXPECT_EQ(WriteSmall(), file);
  const auto golden = Golden::FromBytes(file);
  ASSERT_TRUE(golden.has_value());
  Bytes again;
  GoldenWriter writer([&again](ByteSpan bytes) -> Status {
    again.insert(again.end(), bytes.begin(), bytes.end());
    return {};
  });
  for (size_t i = 0; i < (*golden)->blobs().size(); ++i)
    EXPECT_EQ(writer.AddBlob((*golden)->BlobBytes(i)).value(), i);
  ASSERT_TRUE(writer.Finish((*golden)->content()).has_value());
  EXPECT_EQ(again, file);
}

TEST(GoldenRoundTrip, Gld02NanBitsAndNegativeZeroAreKept) {
  const Bytes file = WriteSmall();
  const auto golden = Golden::FromBytes(file);
  ASSERT_TRUE(golden.has_value());
  const F32Values rows(**golden, *(*golden)->cases()[0].Find("layers.0.output"));
  ASSERT_EQ(rows.values().size(), 4u);
  EXPECT_EQ(std::bit_cast<uint32_t>(rows.values()[1]), 0x80000000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(rows.values()[2]), 0x7fc01234u);
}

TEST(GoldenRoundTrip, EqualBlobsAreStoredOnce) {
  const auto golden = Golden::FromBytes(WriteSmall());
  ASSERT_TRUE(golden.has_value());
  EXPECT_EQ((*golden)->blobs().size(), 6u);
  EXPECT_EQ((*golden)->cases()[0].Find("logits")->blob, (*golden)->cases()[0].Find("layers.0.output")->blob);
}

TEST(GoldenValues, AlignedBytesAreReadInPlaceAndOthersAreCopied) {
  const Bytes file = WriteSmall();
  alignas(64) static std::array<uint8_t, 1 << 14> storage;
  ASSERT_LT(file.size() + 1, storage.size());
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    std::copy(file.begin(), file.end(), storage.begin() + static_cast<ptrdiff_t>(shift));
    const auto golden = Golden::Open(ByteSpan(storage.data() + shift, file.size()));
    ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
    const F32Values scores(**golden, *(*golden)->cases()[0].Find("layers.0.attn.scores"));
    EXPECT_EQ(scores.is_view(), shift == 0);
    EXPECT_EQ(std::vector<float>(scores.values().begin(), scores.values().end()),
              (std::vector<float>{1, 2, 3, 4, 5}));
  }
}

TEST(GoldenValues, WiderAndNarrowerTypesReadExactly) {
  Bytes file;
  GoldenWriter writer([&file](ByteSpan bytes) -> Status {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  });
  Content content;
  content.generator = cbor::Map{{"kind", "candidate"}};
  Bytes doubles;
  for (const double value : {0.1, -2.5}) AppendLe(&doubles, std::bit_cast<uint64_t>(value));
  const uint64_t wide = writer.AddBlob(doubles).value();
  const uint64_t narrow = writer.AddBlob(Bytes{0x80, 0x3f, 0x49, 0xc0}).value();
  const auto make = [](std::string name, DType dtype, uint64_t blob) {
    return Observation{.name = name,
                       .role = name,
                       .layer = {},
                       .shape = {2},
                       .dtype = dtype,
                       .blob = blob,
                       .rows = {},
                       .columns = {},
                       .tolerance = ""};
  };
  content.model_observations = {make("narrow", DType::kBf16, narrow), make("wide", DType::kF64, wide)};
  ASSERT_TRUE(writer.Finish(std::move(content)).has_value());
  const auto golden = Golden::FromBytes(file);
  ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
  const F64Values wide_values(**golden, *(*golden)->FindModelObservation("wide"));
  EXPECT_EQ(wide_values.values()[0], 0.1);
  const F32Values narrow_values(**golden, *(*golden)->FindModelObservation("narrow"));
  EXPECT_EQ(narrow_values.values()[0], 1.0f);
  EXPECT_EQ(narrow_values.values()[1], -3.140625f);
  const F64Values narrow_as_double(**golden, *(*golden)->FindModelObservation("narrow"));
  EXPECT_EQ(narrow_as_double.values()[1], -3.140625);
}

TEST(GoldenWriterTest, RefusesWhatTheReaderWouldRefuse) {
  Bytes file;
  const auto sink = [&file](ByteSpan bytes) -> Status {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  };
  GoldenWriter writer(sink);
  Content content = MakeSmallContent(&writer);
  content.cases[0].observations[0].shape = {3, 2};
  const Status status = writer.Finish(content);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kGldShape);
  EXPECT_EQ(status.error().field, "layers.0.output");
  EXPECT_FALSE(writer.AddBlob(Bytes{1}).has_value());
}

TEST(GoldenWriterTest, AFailingSinkStopsTheWriter) {
  GoldenWriter writer([](ByteSpan) -> Status { return Fail(ErrorCode::kDiskFull, "full"); });
  const auto blob = writer.AddF32(std::vector<float>{1});
  ASSERT_FALSE(blob.has_value());
  EXPECT_EQ(blob.error().code, ErrorCode::kDiskFull);
}

}  // namespace
}  // namespace slm::golden
