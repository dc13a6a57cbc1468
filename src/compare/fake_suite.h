// For tests: golden containers made up in memory. A FakeSuite is edited, then built into bytes; the
// reference, source, truth and candidate of one suite agree until a test changes one of them.
#ifndef SLM_COMPARE_FAKE_SUITE_H_
#define SLM_COMPARE_FAKE_SUITE_H_

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "codec/cbor.h"
#include "codec/sha256.h"
#include "compare/stages.h"
#include "golden/golden.h"

namespace slm::compare {

struct FakeArray {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<double> values;  // written as the dtype says
  golden::DType dtype = golden::DType::kF32;
  golden::Layout layout = golden::Layout::kRowMajor;
  std::optional<golden::Interval> rows;
};

struct FakeCase {
  golden::Case meta;
  std::vector<FakeArray> arrays;

  FakeArray& Array(std::string_view name) {
    for (FakeArray& array : arrays) {
      if (array.name == name) return array;
    }
    std::fprintf(stderr, "no array %s\n", std::string(name).c_str());
    std::abort();
  }
};

struct FakeSuite {
  golden::Content content;  // without cases and observations
  std::vector<FakeArray> model_arrays;
  std::vector<FakeCase> cases;

  [[nodiscard]] Bytes Build() const;
  [[nodiscard]] std::shared_ptr<const golden::Golden> Open() const;
  FakeCase& Case(std::string_view id) {
    for (FakeCase& c : cases) {
      if (c.meta.case_id == id) return c;
    }
    std::abort();
  }
};

inline Bytes FakeBytes(const FakeArray& array) {
  Bytes out;
  if (array.dtype == golden::DType::kBits) {
    const uint64_t n_columns = array.shape[1];
    const uint64_t row_bytes = (n_columns + 7) / 8;
    out.assign(array.shape[0] * row_bytes, 0);
    for (uint64_t i = 0; i < array.values.size(); ++i) {
      if (array.values[i] == 0) continue;
      const uint64_t column = i % n_columns;
      uint8_t& byte = out[i / n_columns * row_bytes + column / 8];
      byte = static_cast<uint8_t>(byte | (1u << (column % 8)));
    }
    return out;
  }
  for (double value : array.values) {
    switch (array.dtype) {
      case golden::DType::kF64:
        AppendLe(&out, std::bit_cast<uint64_t>(value));
        break;
      case golden::DType::kU32:
        AppendLe(&out, static_cast<uint32_t>(value));
        break;
      default:
        AppendLe(&out, std::bit_cast<uint32_t>(static_cast<float>(value)));
        break;
    }
  }
  return out;
}

inline golden::Observation FakeObservation(golden::GoldenWriter* writer, const FakeArray& array) {
  golden::Observation observation;
  observation.name = array.name;
  observation.role = array.name;
  if (array.name.starts_with("layers.")) {
    const size_t dot = array.name.find('.', 7);
    observation.layer = static_cast<uint32_t>(std::stoul(array.name.substr(7, dot - 7)));
    observation.role = array.name.substr(dot + 1);
  }
  observation.shape = array.shape;
  observation.dtype = array.dtype;
  observation.layout = array.layout;
  observation.rows = array.rows;
  observation.blob = *writer->AddBlob(FakeBytes(array));
  return observation;
}

inline Bytes FakeSuite::Build() const {
  Bytes out;
  golden::GoldenWriter writer([&out](ByteSpan bytes) -> Status {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return {};
  });
  golden::Content full = content;
  for (const FakeArray& array : model_arrays)
    full.model_observations.push_back(FakeObservation(&writer, array));
  for (const FakeCase& fake : cases) {
    golden::Case finished = fake.meta;
    for (const FakeArray& array : fake.arrays)
      finished.observations.push_back(FakeObservation(&writer, array));
    if (finished.generation)
      finished.raw_output_commitment = golden::RawOutputCommitment(*finished.generation);
    full.cases.push_back(std::move(finished));
  }
  const Status status = writer.Finish(std::move(full));
  if (!status.has_value()) {
    std::fprintf(stderr, "fake suite: %s\n", status.error().ToString().c_str());
    std::abort();
  }
  return out;
}

inline std::shared_ptr<const golden::Golden> FakeSuite::Open() const {
  auto golden = golden::Golden::FromBytes(Build());
  if (!golden.has_value()) {
    std::fprintf(stderr, "fake suite: %s\n", golden.error().ToString().c_str());
    std::abort();
  }
  return *golden;
}

// Values that every mode shares, exact in float32.
inline std::vector<double> FakeValues(size_t n, int salt) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<double>((static_cast<int>(i) * 37 + salt * 11) % 101 - 50) / 16;
  return out;
}

inline Bytes FakeIds(const std::vector<uint32_t>& ids) {
  Bytes out;
  for (uint32_t id : ids) AppendLe(&out, id);
  return out;
}

inline cbor::Value FakeDouble(double value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}

inline golden::Case FakeCaseMeta(std::string id, golden::InputKind kind, const Bytes& input,
                                 std::vector<uint32_t> ids) {
  golden::Case meta;
  meta.case_id = std::move(id);
  meta.input_kind = kind;
  meta.input = input;
  meta.positions = {0, ids.size()};
  meta.max_new_tokens = 4;
  meta.ids = std::move(ids);
  golden::Generation generation;
  generation.tokens = {7, 8, 9, 2};
  generation.gaps = {1.5, 0.25, 1e-5, 3};
  generation.text = {'a', 'b', 'c'};
  generation.stop_reason = "eos";
  meta.generation = generation;
  return meta;
}

inline std::vector<FakeArray> FakeArrays(bool truth) {
  const golden::DType f = truth ? golden::DType::kF64 : golden::DType::kF32;
  std::vector<FakeArray> arrays;
  const auto add = [&arrays, f](std::string name, std::vector<uint64_t> shape, int salt,
                                golden::Layout layout = golden::Layout::kRowMajor) {
    size_t n = 1;
    for (uint64_t extent : shape) n *= extent;
    FakeArray array;
    array.name = std::move(name);
    array.shape = std::move(shape);
    array.values = FakeValues(n, salt);
    array.dtype = f;
    array.layout = layout;
    arrays.push_back(std::move(array));
  };
  add("embed", {3, 4}, 1);
  int salt = 2;
  for (const char* layer : {"layers.0.", "layers.1."}) {
    add(std::string(layer) + "attn_norm", {3, 4}, salt++);
    add(std::string(layer) + "attn.q_rope", {3, 2, 2}, salt++);
    add(std::string(layer) + "attn.scores", {2, 6}, salt++, golden::Layout::kPackedCausal);
    add(std::string(layer) + "mlp.act", {3, 6}, salt++);
    add(std::string(layer) + "output", {3, 4}, salt++);
  }
  for (const char* layer : {"layers.0.", "layers.1."}) {
    FakeArray mask;
    mask.name = std::string(layer) + "attn.mask";
    mask.shape = {3, 3};
    mask.values = {1, 0, 0, 1, 1, 0, 1, 1, 1};
    mask.dtype = golden::DType::kBits;
    mask.layout = golden::Layout::kPackedBits;
    arrays.push_back(mask);
  }
  add("final_norm", {3, 4}, salt++);
  // Logits are kept for the last two positions only.
  add("logits", {2, 10}, salt++);
  arrays.back().rows = golden::Interval{1, 2};
  // What is left of the operators (ORA-03).
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const std::string_view role : LayerRoles()) {
      const std::string name = std::string(layer) + std::string(role);
      const auto same = [&name](const FakeArray& array) { return array.name == name; };
      if (std::any_of(arrays.begin(), arrays.end(), same)) continue;
      if (role == "attn.probs") {
        add(name, {2, 6}, salt++, golden::Layout::kPackedCausal);
      } else {
        add(name, {3, 4}, salt++);
      }
    }
  }
  FakeArray ids;
  ids.name = "top_k.ids";
  ids.shape = {2, 4};
  ids.rows = golden::Interval{1, 2};
  ids.dtype = golden::DType::kU32;
  ids.values = {5, 3, 1, 9, 4, 2, 8, 0};
  arrays.push_back(ids);
  FakeArray values = ids;
  values.name = "top_k.values";
  values.dtype = f;
  // In row 0, ranks 1 and 2 are closer than 2e; in row 1 all gaps are wide.
  values.values = {4, 3, 3 - 1.0 / (1 << 20), 1, 4, 3, 2, 1};
  arrays.push_back(values);
  return arrays;
}

// A suite with a text, a messages and a token-id case.
inline FakeSuite MakeFakeSuite(golden::Mode mode) {
  FakeSuite suite;
  golden::Content& content = suite.content;
  content.mode = mode;
  content.generator.Set("name", std::string(golden::ModeName(mode)));
  if (mode == golden::Mode::kCandidate) {
    content.generator.Set("backend", "native-scalar");
    content.generator.Set("profile", "exact-v1");
  }
  golden::SourceFile file;
  const std::string path = "config.json";
  file.path = Bytes(path.begin(), path.end());
  file.size = 2;
  file.sha256 = Sha256Of(AsBytes("{}"));
  cbor::Map encoded;
  encoded.Set("path", file.path);
  encoded.Set("sha256", file.sha256);
  encoded.Set("size", file.size);
  content.identities.emplace("source", Sha256Of(cbor::Encode(cbor::Array{encoded})));
  content.identities.emplace("tokenizer", Sha256Of(AsBytes("tokenizer")));
  if (mode != golden::Mode::kCandidate) content.source_files.push_back(file);
  golden::ConfigField layers;
  layers.name = "n_layers";
  layers.value = 2;
  layers.origin = "config.json";
  golden::ConfigField epsilon = layers;
  epsilon.name = "rms_norm_eps";
  epsilon.value = FakeDouble(1e-5);
  content.effective_config = {layers, epsilon};
  cbor::Array fields;
  for (const golden::ConfigField& field : content.effective_config) {
    fields.emplace_back(cbor::Array{field.name, field.value});
  }
  content.identities.emplace("config", Sha256Of(cbor::Encode(fields)));
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    golden::TensorHash tensor;
    tensor.name = name;
    tensor.dtype = "f32";
    tensor.shape = {10, 4};
    tensor.sha256 = Sha256Of(AsBytes(name));
    content.tensors.push_back(tensor);
  }
  const bool truth = mode == golden::Mode::kTruth;
  FakeArray frequencies;
  frequencies.name = "rope.inv_freq";
  frequencies.shape = {2};
  frequencies.values = {1, 0.0078125};
  suite.model_arrays.push_back(frequencies);

  const std::string text = "h i";
  golden::Tokenization tokenization;
  tokenization.reference = "published";
  tokenization.of = "input";
  tokenization.ids = {3, 4, 5};
  tokenization.byte_offsets = {{0, 1}, {1, 2}, {2, 3}};
  tokenization.scalar_offsets = tokenization.byte_offsets;
  tokenization.decoded = Bytes(text.begin(), text.end());
  FakeCase text_case;
  text_case.meta = FakeCaseMeta("text", golden::InputKind::kUtf8, Bytes(text.begin(), text.end()), {3, 4, 5});
  text_case.meta.tokenizations = {tokenization};
  text_case.arrays = FakeArrays(truth);
  suite.cases.push_back(text_case);

  const std::string messages = R"([{"role":"user","content":"i"}])";
  FakeCase chat = text_case;
  chat.meta.case_id = "chat";
  chat.meta.input_kind = golden::InputKind::kMessages;
  chat.meta.input = Bytes(messages.begin(), messages.end());
  const std::string rendered = "u:i";
  chat.meta.rendered = Bytes(rendered.begin(), rendered.end());
  chat.meta.ownership = {{0, 2, "template"}, {2, 3, "messages[0].content"}};
  chat.meta.add_generation_prompt = true;
  chat.meta.tokenizations[0].of = "rendered";
  suite.cases.push_back(chat);

  FakeCase ids = text_case;
  ids.meta.case_id = "ids";
  ids.meta.input_kind = golden::InputKind::kTokenIds;
  ids.meta.input = FakeIds({3, 4, 5});
  ids.meta.tokenizations.clear();
  suite.cases.push_back(ids);
  return suite;
}

// A policy with one small limit for every bounded role: atol 1e-4, margin e 1e-4.
inline std::string FakePolicyJson(std::string_view margin_e = "1e-4") {
  std::string rules;
  for (std::string_view role : NumericRoles()) {
    if (!rules.empty()) rules += ",";
    rules += "{\"role\":\"" + std::string(role) + "\",";
    if (role == "embed" || role == "attn.mask") {
      rules += "\"kind\":\"exact\"}";
    } else if (role == "rope.inv_freq") {
      rules += "\"kind\":\"ulp\",\"max_ulp\":1}";
    } else {
      rules +=
          "\"kind\":\"bounded\",\"atol\":1e-4,\"rtol\":0,\"relative_floor\":1e-3,"
          "\"atol_basis\":{\"permitted\":1e-4,\"oracle_variation\":0,\"observed\":0,\"factor\":0},"
          "\"rtol_basis\":{\"permitted\":0,\"oracle_variation\":0,\"observed\":0,\"factor\":0}}";
    }
  }
  return "{\"schema\":\"slm.tolerance-policy.v1\",\"name\":\"fake\",\"version\":1,\"profile\":\"exact-v1\","
         "\"applies_to\":{\"sources\":\"any\",\"backends\":[\"native-scalar\"]},\"factor_reason\":\"test\","
         "\"margin_e\":" +
         std::string(margin_e) +
         ",\"margin_e_basis\":{\"permitted\":1e-3,\"oracle_variation\":0,"
         "\"observed\":0,\"factor\":0},\"unstable_cap_ppm\":10000,\"rules\":[" +
         rules + "]}";
}

}  // namespace slm::compare

#endif  // SLM_COMPARE_FAKE_SUITE_H_
