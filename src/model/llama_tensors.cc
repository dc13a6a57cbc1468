#include <charconv>
#include <string>
#include <utility>

#include "model/llama.h"

namespace slm {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";

class SpecList {
 public:
  void Matrix(std::string source, std::string role, std::optional<uint32_t> layer, uint64_t rows,
              uint64_t cols) {
    Add(std::move(source), std::move(role), layer, {rows, cols}, Layout::kRows16);
  }
  void Vector(std::string source, std::string role, std::optional<uint32_t> layer, uint64_t size) {
    Add(std::move(source), std::move(role), layer, {size}, Layout::kRowMajor);
  }
  // Weight and, where there is one, bias of a linear map.
  void Linear(const std::string& source, const std::string& role, std::optional<uint32_t> layer,
              uint64_t rows, uint64_t cols, bool bias) {
    Matrix(source + ".weight", role + ".weight", layer, rows, cols);
    if (bias) Vector(source + ".bias", role + ".bias", layer, rows);
  }
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  void Add(std::string source, std::string role, std::optional<uint32_t> layer, std::vector<uint64_t> shape,
           Layout layout) {
    std::string name = layer ? "layers." + std::to_string(*layer) + "." + role : role;
    specs_.push_back(
        {std::move(source), std::move(name), std::move(role), layer, std::move(shape), layout, std::nullopt});
  }
  std::vector<TensorSpec> specs_;
};

}  // namespace

std::vector<TensorSpec> LlamaTensors(const EffectiveConfig& config) {
  const uint64_t hidden = config.hidden_size;
  const uint64_t q_rows = config.n_heads * config.head_dim;
  const uint64_t kv_rows = config.n_kv_heads * config.head_dim;
  SpecList list;
  list.Matrix("model.embed_tokens.weight", "embed.weight", std::nullopt, config.vocab_size, hidden);
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    const std::string source = std::string(kLayerPrefix) + std::to_string(layer) + ".";
    list.Vector(source + "input_layernorm.weight", "attn_norm.weight", layer, hidden);
    list.Linear(source + "self_attn.q_proj", "attn.q", layer, q_rows, hidden, config.q_bias);
    list.Linear(source + "self_attn.k_proj", "attn.k", layer, kv_rows, hidden, config.k_bias);
    list.Linear(source + "self_attn.v_proj", "attn.v", layer, kv_rows, hidden, config.v_bias);
    list.Linear(source + "self_attn.o_proj", "attn.o", layer, hidden, q_rows, config.o_bias);
    list.Vector(source + "post_attention_layernorm.weight", "mlp_norm.weight", layer, hidden);
    list.Linear(source + "mlp.gate_proj", "mlp.gate", layer, config.intermediate_size, hidden,
                config.gate_bias);
    list.Linear(source + "mlp.up_proj", "mlp.up", layer, config.intermediate_size, hidden, config.up_bias);
    list.Linear(source + "mlp.down_proj", "mlp.down", layer, hidden, config.intermediate_size,
                config.down_bias);
  }
  list.Vector("model.norm.weight", "final_norm.weight", std::nullopt, hidden);
  list.Matrix("lm_head.weight", "head.weight", std::nullopt, config.vocab_size, hidden);
  std::vector<TensorSpec> specs = list.Take();
  if (config.tie_word_embeddings) specs.back().alias_of = 0;
  return specs;
}

std::optional<uint64_t> LlamaLayerOf(std::string_view source_name) {
  if (!source_name.starts_with(kLayerPrefix)) return std::nullopt;
  const std::string_view rest = source_name.substr(kLayerPrefix.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  uint64_t layer = 0;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + dot, layer);
  if (end != rest.data() + dot || (dot > 1 && rest[0] == '0')) return std::nullopt;
  return status == std::errc() ? layer : UINT64_MAX;
}

bool IsLlamaRotaryBuffer(std::string_view source_name) {
  if (source_name == "model.rotary_emb.inv_freq") return true;
  return LlamaLayerOf(source_name) && source_name.ends_with(".self_attn.rotary_emb.inv_freq");
}

}  // namespace slm
