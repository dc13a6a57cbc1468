// Rejections of MAP-04, each by code and tensor.
#include "convert/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "convert/convert_test_source.h"
#include "numeric/float_formats.h"

namespace slm::convert {
namespace {

// Converts the source; returns the refusal. Nothing may be written.
Error Refusal(const test::TinySource& tiny) {
  const auto files = tiny.Files();
  const Source source = SourceFromFiles(files);
  const std::string directory = test::FreshDirectory("ledger");
  const auto result = Convert(source, {}, directory + "/a.slm");
  EXPECT_FALSE(result.has_value());
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  return result ? Error{} : result.error();
}

constexpr const char* kQ = "model.layers.1.self_attn.q_proj.weight";

TEST(Ledger, Map04Missing) {
  test::TinySource tiny;
  tiny.Remove(kQ);
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapMissing);
  EXPECT_EQ(Refusal(tiny).field, kQ);
  EXPECT_EQ(Refusal(tiny).file, "model.safetensors");
}

TEST(Ledger, Map04Unconsumed) {
  test::TinySource tiny;
  tiny.Add("model.layers.0.self_attn.q_norm.weight", "F32", {1}, Bytes(4));
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapUnconsumed);
  EXPECT_EQ(Refusal(tiny).field, "model.layers.0.self_attn.q_norm.weight");
  test::TinySource biased;  // a bias that config.json denies
  biased.Add("model.layers.0.self_attn.q_proj.bias", "F32", {32}, Bytes(128));
  EXPECT_EQ(Refusal(biased).code, ErrorCode::kMapUnconsumed);
}

TEST(Ledger, Map04LayerPastTheLast) {
  test::TinySource tiny;
  tiny.Add("model.layers.2.input_layernorm.weight", "F32", {24}, Bytes(96));
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapLayer);
  for (const char* layer : {"4294967296", "18446744073709551616", "99999999999999999999"}) {
    test::TinySource far;
    far.Add(std::string("model.layers.") + layer + ".input_layernorm.weight", "F32", {24}, Bytes(96));
    EXPECT_EQ(Refusal(far).code, ErrorCode::kMapLayer) << layer;
  }
}

TEST(Ledger, Map04Transposed) {
  test::TinySource tiny;
  tiny.Tensor(kQ).shape = {24, 32};
  const Error error = Refusal(tiny);
  EXPECT_EQ(error.code, ErrorCode::kMapShape);
  EXPECT_NE(error.message.find("transposed"), std::string::npos);
}

TEST(Ledger, Map04ShapeFromElementCount) {
  test::TinySource tiny;
  tiny.Tensor(kQ).shape = {768};
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapShape);
}

TEST(Ledger, G04Vocabulary) {
  test::TinySource tiny;
  tiny.config["vocab_size"] = "271";
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kCfgVocabShape);
  EXPECT_EQ(Refusal(tiny).field, "model.embed_tokens.weight");
}

TEST(Ledger, IntegerWeights) {
  test::TinySource tiny;
  test::TinyTensor& q = tiny.Tensor(kQ);
  q.dtype = "I8";
  q.bytes.resize(q.bytes.size() / 4);
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapDtype);
}

TEST(Ledger, DuplicateRole) {
  test::TinySource tiny;
  tiny.Add("embed_tokens.weight", "F32", {272, 24}, tiny.Tensor("model.embed_tokens.weight").bytes);
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kMapDuplicate);
}

TEST(Ledger, TiedOutput) {
  test::TinySource tiny;
  Bytes copy = tiny.Tensor("model.embed_tokens.weight").bytes;
  copy[4 * 7] ^= 1;
  tiny.Add("lm_head.weight", "F32", {272, 24}, copy);
  const Error error = Refusal(tiny);
  EXPECT_EQ(error.code, ErrorCode::kMapTiedDiffer);
  EXPECT_NE(error.message.find("element 7"), std::string::npos);
  test::TinySource untied(test::TinyOptions{.tied = false});
  untied.Remove("lm_head.weight");
  EXPECT_EQ(Refusal(untied).code, ErrorCode::kCfgTied);
  EXPECT_EQ(Refusal(untied).file, "config.json");
}

TEST(Ledger, B32NonfiniteWeight) {
  test::TinySource tiny;
  StoreLe<uint32_t>(&tiny.Tensor(kQ).bytes[4 * 100], 0x7fc00000u);
  const Error error = Refusal(tiny);
  EXPECT_EQ(error.code, ErrorCode::kNonfinite);
  EXPECT_EQ(error.field, kQ);
  EXPECT_EQ(error.file, "model.safetensors");
  const std::string file = tiny.Files().at("model.safetensors");
  ASSERT_TRUE(error.byte_offset.has_value());
  EXPECT_EQ(LoadLe<uint32_t>(AsBytes(file).data() + *error.byte_offset), 0x7fc00000u);
}

TEST(Ledger, RotaryBuffersOfOldCheckpoints) {
  // 1e4 ** -(i/8) for dimension 8: 1, 0.1, 0.01, 0.001 in float32.
  Bytes good;
  for (const float value : {1.0f, 0.1f, 0.01f, 0.001f}) AppendLe(&good, numeric::BitsOf(value));
  test::TinySource tiny;
  tiny.Add("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {4}, good);
  const auto files = tiny.Files();
  const auto result = Convert(SourceFromFiles(files), {}, test::FreshDirectory("rotary") + "/a.slm");
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  EXPECT_EQ(result->n_omitted, 1u);
  Bytes bad = good;
  StoreLe<uint32_t>(&bad[4], numeric::BitsOf(0.11f));
  tiny.Tensor("model.layers.0.self_attn.rotary_emb.inv_freq").bytes = bad;
  EXPECT_EQ(Refusal(tiny).code, ErrorCode::kCfgRope);
}

}  // namespace
}  // namespace slm::convert
