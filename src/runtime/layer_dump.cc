// Writes small models with all observations of a run as JSON, for independent/exact_v1_test.py
// (OPS-07: a layer's bits from the written profile alone).
// Usage: slm_layer_dump OUT.json
#include <cstdio>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "codec/json.h"
#include "runtime/recorder.h"
#include "runtime/session.h"
#include "runtime/test_model.h"

namespace {

using namespace slm;

std::string FloatsHex(std::span<const float> values) {
  Bytes bytes;
  for (const float value : values) AppendLe(&bytes, numeric::BitsOf(value));
  return ToHex(bytes);
}

void WriteTensors(const testing_model::Weights& weights, json::Writer* out) {
  out->Key("tensors").BeginObject();
  for (const auto& [name, tensor] : weights.tensors) {
    const uint64_t n_rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
    const uint64_t n_cols = tensor.shape.back();
    std::vector<float> logical(n_rows * n_cols);
    const ops::WeightType type =
        tensor.dtype == DType::kBf16 ? ops::WeightType::kBf16 : ops::WeightType::kF32;
    const ops::MatrixView view{tensor.bytes.data(), type, tensor.layout == Layout::kRows16, n_rows, n_cols};
    for (uint64_t r = 0; r < n_rows; ++r)
      ops::CopyRow(view, r, std::span(logical).subspan(r * n_cols, n_cols));
    out->Key(name).BeginObject().Key("shape").BeginArray();
    for (const uint64_t size : tensor.shape) out->Uint(size);
    out->EndArray().Key("hex").String(FloatsHex(logical)).EndObject();
  }
  out->EndObject();
}

bool WriteModel(const EffectiveConfig& config, DType dtype, std::string_view activation, json::Writer* out) {
  const testing_model::Weights weights = testing_model::Random(config, 77, dtype);
  const auto model = testing_model::Bind(weights);
  if (!model) return false;
  const auto session = Session::Create(*model, {});
  if (!session) return false;
  const std::vector<uint32_t> ids = {5, 0, 52, 5, 17, 33, 8};
  ObservationRecorder recorder;
  const TapSet taps{.all = true, .names = {}, .tap = recorder.MakeTap()};
  if (!(*session)->Prefill(ids, LogitRows::kAll, nullptr, &taps)) return false;

  out->BeginObject().Key("config").BeginObject();
  out->Key("n_layers").Uint(config.n_layers).Key("n_heads").Uint(config.n_heads);
  out->Key("n_kv_heads").Uint(config.n_kv_heads).Key("head_dim").Uint(config.head_dim);
  out->Key("epsilon").String(FloatsHex(std::span(&config.norm_eps_f32, 1)));
  out->Key("scale").String(FloatsHex(std::span(&config.attention_scale_f32, 1)));
  out->Key("factor").String(FloatsHex(std::span(&config.rope.attention_factor_f32, 1)));
  out->Key("activation")
      .String(activation)
      .Key("inv_freq")
      .String(FloatsHex(config.rope.inv_freq))
      .EndObject();
  out->Key("ids").BeginArray();
  for (const uint32_t id : ids) out->Uint(id);
  out->EndArray();
  WriteTensors(weights, out);
  out->Key("observations").BeginObject();
  for (const RecordedArray& array : recorder.Take()) {
    if (array.name != "rope.inv_freq" && array.mask_bits.empty())
      out->Key(array.name).String(FloatsHex(array.values));
  }
  out->EndObject().Key("kv_hash").String(ToHex((*session)->KvHash())).EndObject();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  json::Writer out;
  out.BeginObject().Key("models").BeginArray();
  EffectiveConfig config = testing_model::Config();
  config.n_layers = 1;
  bool ok = WriteModel(config, DType::kF32, "silu", &out);
  // Biases everywhere, a partial rotation with a factor, 16-bit weights, the other activations.
  config.q_bias = config.k_bias = config.v_bias = config.o_bias = true;
  config.gate_bias = config.up_bias = config.down_bias = true;
  config.n_layers = 2;
  config.rope.dim = 8;
  config.rope.inv_freq.pop_back();
  config.rope.attention_factor_f32 = 1.1386294f;
  config.activation = Activation::kGeluTanh;
  ok = ok && WriteModel(config, DType::kBf16, "gelu_tanh", &out);
  config.n_layers = 1;
  config.activation = Activation::kGeluErf;
  ok = ok && WriteModel(config, DType::kF32, "gelu_erf", &out);
  config.activation = Activation::kRelu;
  ok = ok && WriteModel(config, DType::kF32, "relu", &out);
  out.EndArray().EndObject();
  std::FILE* file = ok ? std::fopen(argv[1], "wb") : nullptr;
  if (file == nullptr) return 1;
  const bool written = std::fwrite(out.text().data(), 1, out.text().size(), file) == out.text().size();
  return std::fclose(file) == 0 && written ? 0 : 1;
}
