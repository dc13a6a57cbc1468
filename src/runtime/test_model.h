// For tests: small models with random weights, in memory, in the artifact's layouts.
#ifndef SLM_RUNTIME_TEST_MODEL_H_
#define SLM_RUNTIME_TEST_MODEL_H_

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "numeric/float_formats.h"
#include "runtime/bound_model.h"

namespace slm::testing_model {

struct Tensor {
  std::vector<uint64_t> shape;
  Layout layout = Layout::kRowMajor;
  DType dtype = DType::kF32;
  std::vector<uint8_t> bytes;
};

struct Weights {
  EffectiveConfig config;
  std::map<std::string, Tensor, std::less<>> tensors;
};

inline EffectiveConfig Config() {
  EffectiveConfig config;
  config.family = "llama";
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = config.padded_vocab_size = 53;  // not a multiple of 16
  config.hidden_size = 40;
  config.intermediate_size = 72;
  config.n_layers = 3;
  config.n_heads = 6;
  config.n_kv_heads = 2;
  config.head_dim = 10;  // head_dim * n_heads is not the hidden size
  config.max_positions = 96;
  config.norm_eps = 1e-5;
  config.norm_eps_f32 = 1e-5f;
  config.attention_scale_f32 = 0.31622776f;
  config.rope.dim = 10;
  config.rope.inv_freq = {1.0f, 0.15848932f, 0.025118865f, 0.0039810716f, 0.00063095737f};  // 10000^(-i/5)
  config.eos_token_ids = {7, 11};
  return config;
}

inline size_t StoredIndex(const Tensor& tensor, uint64_t row, uint64_t col) {
  const uint64_t cols = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  if (tensor.layout == Layout::kRowMajor) return row * cols + col;
  return (row / 16) * 16 * cols + col * 16 + row % 16;
}

inline void Put(Tensor* tensor, size_t index, float value) {
  if (tensor->dtype == DType::kF32) {
    std::memcpy(tensor->bytes.data() + 4 * index, &value, 4);
  } else {
    const uint16_t bits =
        tensor->dtype == DType::kBf16 ? numeric::F32ToBf16(value) : numeric::F32ToF16(value);
    std::memcpy(tensor->bytes.data() + 2 * index, &bits, 2);
  }
}

// Values depend on the seed only, not on dtype or padding. With a 16-bit dtype the values are
// rounded to it; `round_to` rounds them also where they are stored as f32.
inline Weights Random(const EffectiveConfig& config, uint32_t seed, DType dtype = DType::kF32,
                      float padding = 0.0f, DType round_to = DType::kF32) {
  Weights out{config, {}};
  std::mt19937 rng(seed);
  const auto plan = BuildPlan(config);
  for (const PlanTensor& need : PlanTensors(*plan)) {
    Tensor& tensor = out.tensors[need.name];
    tensor = {need.shape, need.layout, dtype, {}};
    const uint64_t rows = need.shape[0];
    const uint64_t cols = need.shape.size() == 2 ? need.shape[1] : 1;
    const uint64_t physical = need.layout == Layout::kRows16 ? (rows + 15) / 16 * 16 * cols : rows * cols;
    tensor.bytes.resize(physical * (dtype == DType::kF32 ? 4 : 2));
    for (size_t i = 0; i < physical; ++i) Put(&tensor, i, padding);
    const bool is_norm = need.shape.size() == 1 && need.name.ends_with("norm.weight");
    float spread = 0x1p-22f;  // a power of two: every product is exact under any compiler flags
    while (spread * spread * static_cast<float>(is_norm ? 64 : cols) > 0x1p-42f) spread = spread * 0.5f;
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t c = 0; c < cols; ++c) {
        // Irwin-Hall of 4: nearly normal, and the same on every standard library.
        int32_t sum = -(1 << 23);
        for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>(rng() >> 10);
        float value = (is_norm ? 1.0f : 0.0f) + static_cast<float>(sum) * spread;
        if (round_to == DType::kBf16) value = numeric::Bf16ToF32(numeric::F32ToBf16(value));
        if (round_to == DType::kF16) value = numeric::F16ToF32(numeric::F32ToF16(value));
        Put(&tensor, StoredIndex(tensor, r, c), value);
      }
    }
  }
  return out;
}

inline TensorLookup Lookup(const Weights& weights) {
  return [&weights](std::string_view name) -> std::optional<TensorView> {
    const auto it = weights.tensors.find(name);
    if (it == weights.tensors.end()) return std::nullopt;
    return TensorView{it->second.bytes, it->second.dtype, it->second.shape, it->second.layout};
  };
}

// The model shares ownership of the weights.
inline Result<std::shared_ptr<const Model>> Bind(Weights weights) {
  auto shared = std::make_shared<const Weights>(std::move(weights));
  return Model::Create(shared->config, Lookup(*shared), shared);
}

}  // namespace slm::testing_model

#endif  // SLM_RUNTIME_TEST_MODEL_H_
