// A small container that tests write, damage and read; the oracle's own test writes the same one
// (oracle/tests/test_golden.py), and both must give the bytes of testdata/small.golden.
#ifndef SLM_GOLDEN_GOLDEN_TEST_UTIL_H_
#define SLM_GOLDEN_GOLDEN_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "codec/sha256.h"
#include "golden/golden.h"
#include "golden/golden_internal.h"

namespace slm::golden {

inline Hash256 HashOf(std::string_view text) {
  return Sha256Of(AsBytes(text));
}

// Content and blobs of the example, added to `writer`.
inline Content MakeSmallContent(GoldenWriter* writer) {
  Content content;
  content.mode = Mode::kReference;
  content.generator = cbor::Map{{"kind", "oracle"}, {"note", "synthetic"}};
  content.source_files = {{.path = Bytes{'a'}, .size = 1, .sha256 = HashOf("x")}};
  content.identities["source"] = Sha256Of(cbor::Encode(EncodeSourceFiles(content)));
  content.effective_config = {
      {.name = "hidden_size", .value = 2, .origin = "config.json", .file = "", .line = 0},
      {.name = "norm_eps",
       .value = Bytes{0xf1, 0x68, 0xe3, 0x88, 0xb5, 0xf8, 0xe4, 0x3e},
       .origin = "default",
       .file = "transformers/models/llama/configuration_llama.py",
       .line = 73}};
  content.identities["config"] = Sha256Of(cbor::Encode(EncodeConfigValues(content)));
  content.tensors = {{.name = "w", .dtype = "f32", .shape = {1, 2}, .sha256 = HashOf("w")}};
  content.tokenizer = cbor::Map{{"same_ids", true}};
  const auto frequencies = writer->AddF32(std::vector<float>{1.0f, 0.5f});
  content.model_observations = {{.name = "rope.inv_freq",
                                 .role = "rope.inv_freq",
                                 .layer = {},
                                 .shape = {2},
                                 .blob = frequencies.value(),
                                 .rows = {},
                                 .columns = {},
                                 .tolerance = ""}};
  const auto text = writer->AddBlob(AsBytes("{}"));
  content.attachments = {
      {.name = "effective-tokenizer.json", .media_type = "application/json", .blob = text.value()}};

  Case first;
  first.case_id = "first";
  first.input = Bytes{'h', 0xc3, 0xa9};  // "he" with an acute accent: 3 bytes, 2 scalars
  first.ids = {5, 6, 7};
  first.positions = {0, 3};
  first.max_new_tokens = 2;
  first.tokenizations = {{.reference = "published",
                          .of = "input",
                          .add_special_tokens = true,
                          .ids = {5, 6, 7},
                          .byte_offsets = {{0, 0}, {0, 1}, {1, 3}},
                          .scalar_offsets = {{0, 0}, {0, 1}, {1, 2}},
                          .decoded = Bytes{'h', 0xc3, 0xa9}}};
  const float nan_with_payload = std::bit_cast<float>(0x7fc01234u);
  const auto rows = writer->AddF32(std::vector<float>{1, -0.0f, nan_with_payload, 4});
  const auto scores = writer->AddF32(std::vector<float>{1, 2, 3, 4, 5});
  const auto mask = writer->AddBlob(Bytes{0x03, 0x07});
  const auto top = writer->AddU32(std::vector<uint32_t>{1, 0});
  first.observations = {{.name = "layers.0.output",
                         .role = "output",
                         .layer = 0,
                         .shape = {2, 2},
                         .blob = rows.value(),
                         .rows = Interval{1, 2},
                         .columns = {},
                         .tolerance = "residual"},
                        {.name = "layers.0.attn.scores",
                         .role = "attn.scores",
                         .layer = 0,
                         .shape = {1, 5},
                         .layout = Layout::kPackedCausal,
                         .blob = scores.value(),
                         .rows = Interval{1, 2},
                         .columns = {},
                         .tolerance = ""},
                        {.name = "layers.0.attn.mask",
                         .role = "attn.mask",
                         .layer = 0,
                         .shape = {2, 3},
                         .dtype = DType::kBits,
                         .layout = Layout::kPackedBits,
                         .blob = mask.value(),
                         .rows = Interval{1, 2},
                         .columns = {},
                         .tolerance = ""},
                        {.name = "logits",
                         .role = "logits",
                         .layer = {},
                         .shape = {2, 2},
                         .blob = rows.value(),
                         .rows = Interval{1, 2},
                         .columns = Interval{0, 2},
                         .full_columns = 9,
                         .tolerance = ""},
                        {.name = "top_k.ids",
                         .role = "top_k.ids",
                         .layer = {},
                         .shape = {2, 1},
                         .dtype = DType::kU32,
                         .blob = top.value(),
                         .rows = Interval{1, 2},
                         .columns = {},
                         .tolerance = ""}};
  first.generation =
      Generation{.tokens = {8, 2}, .gaps = {0.25, 1.5}, .text = Bytes{'!'}, .stop_reason = "eos"};
  first.raw_output_commitment = RawOutputCommitment(*first.generation);

  Case second;
  second.case_id = "second";
  second.case_class = CaseClass::kPrivateBehaviorCommitment;
  second.input_kind = InputKind::kMessages;
  second.input_commitment = HashOf("secret");
  second.raw_output_commitment = HashOf("output");
  second.add_generation_prompt = true;
  content.cases = {std::move(first), std::move(second)};
  return content;
}

inline Bytes WriteSmall(const std::function<void(Content*)>& change = {}) {
  Bytes file;
  GoldenWriter writer([&file](ByteSpan bytes) -> Status {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  });
  Content content = MakeSmallContent(&writer);
  if (change) change(&content);
  const Status status = writer.Finish(std::move(content));
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
  EXPECT_EQ(writer.bytes_written(), file.size());
  return file;
}

inline Bytes ReadFileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace slm::golden

#endif  // SLM_GOLDEN_GOLDEN_TEST_UTIL_H_
