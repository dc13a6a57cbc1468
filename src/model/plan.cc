#include "model/plan.h"

#include <utility>

namespace slm {
namespace {

// The bounds of the configuration (docs/spec/family-llama.md): every product of two is far under 2^63.
constexpr uint64_t kMaxWidth = uint64_t{1} << 28;
constexpr uint64_t kMaxPositions = uint64_t{1} << 24;  // exact in float32
constexpr uint64_t kMaxLayers = 4096;

Status CheckSize(uint64_t value, uint64_t limit, std::string_view field) {
  if (value == 0 || value > limit) {
    return Fail(MakeError(ErrorCode::kCfgShape, std::string(field) + " must be 1 to " +
                                                    std::to_string(limit) + ", not " + std::to_string(value))
                    .Field(field));
  }
  return {};
}

Status CheckConfig(const EffectiveConfig& config) {
  if (config.family != "llama") {
    return Fail(MakeError(ErrorCode::kCfgArchitecture, "no plan for the family '" + config.family + "'")
                    .Field("family"));
  }
  SLM_TRY(CheckSize(config.vocab_size, kMaxWidth, "vocab_size"));
  SLM_TRY(CheckSize(config.hidden_size, kMaxWidth, "hidden_size"));
  SLM_TRY(CheckSize(config.intermediate_size, kMaxWidth, "intermediate_size"));
  SLM_TRY(CheckSize(config.n_layers, kMaxLayers, "n_layers"));
  SLM_TRY(CheckSize(config.n_heads, 1u << 16, "n_heads"));
  SLM_TRY(CheckSize(config.n_kv_heads, config.n_heads, "n_kv_heads"));
  SLM_TRY(CheckSize(config.head_dim, 1u << 16, "head_dim"));
  SLM_TRY(CheckSize(config.max_positions, kMaxPositions, "max_positions"));
  SLM_TRY(CheckSize(config.n_heads * config.head_dim, kMaxWidth, "n_heads"));
  if (config.padded_vocab_size != config.vocab_size) {
    return Fail(MakeError(ErrorCode::kCfgShape, "padded_vocab_size must equal vocab_size")
                    .Field("padded_vocab_size"));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    return Fail(
        MakeError(ErrorCode::kCfgShape, "n_heads must be a multiple of n_kv_heads").Field("n_kv_heads"));
  }
  const RopeConfig& rope = config.rope;
  if (rope.dim % 2 != 0 || rope.dim > config.head_dim || rope.inv_freq.size() != rope.dim / 2) {
    return Fail(MakeError(ErrorCode::kCfgRope, "rotary dimensions and frequencies do not fit the head")
                    .Field("rope.dim"));
  }
  return {};
}

class PlanBuilder {
 public:
  explicit PlanBuilder(const EffectiveConfig& config) : config_(config) {}

  Plan Build() {
    Describe();
    Step& frequencies = Append(Operator::kInverseFrequencies, "rope.inv_freq");
    frequencies.shape = {config_.rope.inv_freq.size()};
    Step& embedding = Append(Operator::kEmbedding, "embed");
    embedding.weight = "embed.weight";
    embedding.output = Slot::kResidual;
    embedding.shape = {config_.hidden_size};
    for (uint64_t layer = 0; layer < config_.n_layers; ++layer) {
      layer_ = static_cast<uint32_t>(layer);
      Attention();
      Mlp();
    }
    layer_.reset();
    Norm("final_norm", "final_norm.weight");
    Linear("logits", "head.weight", false, Slot::kNormed, config_.hidden_size, Slot::kLogits,
           {config_.vocab_size});
    return std::move(plan_);
  }

 private:
  void Describe() {
    const uint64_t query = config_.n_heads * config_.head_dim;
    const uint64_t key = config_.n_kv_heads * config_.head_dim;
    const std::pair<Slot, uint64_t> widths[] = {{Slot::kResidual, config_.hidden_size},
                                                {Slot::kNormed, config_.hidden_size},
                                                {Slot::kQuery, query},
                                                {Slot::kKey, key},
                                                {Slot::kValue, key},
                                                {Slot::kAttended, query},
                                                {Slot::kProjected, config_.hidden_size},
                                                {Slot::kGate, config_.intermediate_size},
                                                {Slot::kUp, config_.intermediate_size},
                                                {Slot::kActivated, config_.intermediate_size},
                                                {Slot::kLogits, config_.vocab_size}};
    for (const auto& [slot, width] : widths) plan_.slot_width[static_cast<size_t>(slot)] = width;
    plan_.vocab_size = config_.vocab_size;
    plan_.n_layers = config_.n_layers;
    plan_.n_heads = config_.n_heads;
    plan_.n_kv_heads = config_.n_kv_heads;
    plan_.head_dim = config_.head_dim;
    plan_.attention_scale = config_.attention_scale_f32;
    plan_.norm_epsilon = config_.norm_eps_f32;
    plan_.activation = config_.activation;
    plan_.rope = config_.rope;
    plan_.max_positions = config_.max_positions;
  }

  // "layers.3." inside a layer, else nothing.
  [[nodiscard]] std::string Prefix() const { return layer_ ? "layers." + std::to_string(*layer_) + "." : ""; }

  Step& Append(Operator op, std::string_view observation) {
    Step& step = plan_.steps.emplace_back();
    step.op = op;
    step.layer = layer_;
    if (!observation.empty()) step.observation = Prefix() + std::string(observation);
    return step;
  }

  void Norm(std::string_view observation, std::string_view weight) {
    Step& step = Append(Operator::kRmsNorm, observation);
    step.weight = Prefix() + std::string(weight);
    step.inputs[0] = Slot::kResidual;
    step.output = Slot::kNormed;
    step.shape = {config_.hidden_size};
  }

  // The bias has the weight's name with another last part.
  void Linear(std::string_view observation, std::string_view weight, bool bias, Slot input, uint64_t n_inputs,
              Slot output, std::vector<uint64_t> shape) {
    Step& step = Append(Operator::kLinear, observation);
    step.weight = Prefix() + std::string(weight);
    if (bias) {
      step.bias = step.weight;
      step.bias.replace(step.bias.rfind("weight"), 6, "bias");
    }
    step.inputs[0] = input;
    step.output = output;
    step.shape = std::move(shape);
    step.n_inputs = n_inputs;
  }

  void Rotary(std::string_view observation, Slot slot, uint64_t n_heads) {
    Step& step = Append(Operator::kRotary, observation);
    step.inputs[0] = slot;
    step.output = slot;
    step.shape = {n_heads, config_.head_dim};
  }

  void Attention() {
    const uint64_t hidden = config_.hidden_size;
    const std::vector<uint64_t> query_shape = {config_.n_heads, config_.head_dim};
    const std::vector<uint64_t> key_shape = {config_.n_kv_heads, config_.head_dim};
    Norm("attn_norm", "attn_norm.weight");
    Linear("attn.q", "attn.q.weight", config_.q_bias, Slot::kNormed, hidden, Slot::kQuery, query_shape);
    Linear("attn.k", "attn.k.weight", config_.k_bias, Slot::kNormed, hidden, Slot::kKey, key_shape);
    Linear("attn.v", "attn.v.weight", config_.v_bias, Slot::kNormed, hidden, Slot::kValue, key_shape);
    Rotary("attn.q_rope", Slot::kQuery, config_.n_heads);
    Rotary("attn.k_rope", Slot::kKey, config_.n_kv_heads);
    Step& cache = Append(Operator::kAppendCache, "");
    cache.inputs[0] = Slot::kKey;
    cache.inputs[1] = Slot::kValue;
    cache.shape = key_shape;
    Step& scores = Append(Operator::kScores, "attn.scores");
    scores.inputs[0] = Slot::kQuery;
    scores.output = Slot::kScores;
    scores.shape = {config_.n_heads};
    Append(Operator::kMask, "attn.mask");
    Step& softmax = Append(Operator::kSoftmax, "attn.probs");
    softmax.inputs[0] = Slot::kScores;
    softmax.output = Slot::kScores;
    softmax.shape = {config_.n_heads};
    Step& sum = Append(Operator::kWeightedSum, "attn.av");
    sum.inputs[0] = Slot::kScores;
    sum.output = Slot::kAttended;
    sum.shape = query_shape;
    Linear("attn.out", "attn.o.weight", config_.o_bias, Slot::kAttended, config_.n_heads * config_.head_dim,
           Slot::kProjected, {hidden});
    Residual("attn_residual");
  }

  void Mlp() {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t inner = config_.intermediate_size;
    Norm("mlp_norm", "mlp_norm.weight");
    Linear("mlp.gate", "mlp.gate.weight", config_.gate_bias, Slot::kNormed, hidden, Slot::kGate, {inner});
    Linear("mlp.up", "mlp.up.weight", config_.up_bias, Slot::kNormed, hidden, Slot::kUp, {inner});
    Step& gate = Append(Operator::kGate, "mlp.act");
    gate.inputs[0] = Slot::kGate;
    gate.inputs[1] = Slot::kUp;
    gate.output = Slot::kActivated;
    gate.shape = {inner};
    Linear("mlp.down", "mlp.down.weight", config_.down_bias, Slot::kActivated, inner, Slot::kProjected,
           {hidden});
    Residual("output");
  }

  void Residual(std::string_view observation) {
    Step& step = Append(Operator::kAdd, observation);
    step.inputs[0] = Slot::kResidual;
    step.inputs[1] = Slot::kProjected;
    step.output = Slot::kResidual;
    step.shape = {config_.hidden_size};
  }

  const EffectiveConfig& config_;
  std::optional<uint32_t> layer_;
  Plan plan_;
};

}  // namespace

const Step* Plan::FindObservation(std::string_view name) const {
  for (const Step& step : steps) {
    if (!step.observation.empty() && step.observation == name) return &step;
  }
  return nullptr;
}

std::string_view OperatorName(Operator op) {
  switch (op) {
    case Operator::kInverseFrequencies:
      return "inverse-frequencies";
    case Operator::kEmbedding:
      return "embedding";
    case Operator::kRmsNorm:
      return "rms-norm";
    case Operator::kLinear:
      return "linear";
    case Operator::kRotary:
      return "rotary";
    case Operator::kAppendCache:
      return "append-cache";
    case Operator::kScores:
      return "scores";
    case Operator::kMask:
      return "mask";
    case Operator::kSoftmax:
      return "softmax";
    case Operator::kWeightedSum:
      return "weighted-sum";
    case Operator::kAdd:
      return "add";
    case Operator::kGate:
      return "gate";
  }
  return "unknown";
}

Result<Plan> BuildPlan(const EffectiveConfig& config) {
  SLM_TRY(CheckConfig(config));
  return PlanBuilder(config).Build();
}

std::vector<PlanTensor> PlanTensors(const Plan& plan) {
  std::vector<PlanTensor> tensors;
  for (const Step& step : plan.steps) {
    uint64_t rows = 1;
    for (const uint64_t size : step.shape) rows *= size;
    if (step.op == Operator::kEmbedding) {
      tensors.push_back({step.weight, {plan.vocab_size, rows}, Layout::kRows16});
    } else if (step.op == Operator::kRmsNorm) {
      tensors.push_back({step.weight, {rows}, Layout::kRowMajor});
    } else if (step.op == Operator::kLinear) {
      tensors.push_back({step.weight, {rows, step.n_inputs}, Layout::kRows16});
      if (!step.bias.empty()) tensors.push_back({step.bias, {rows}, Layout::kRowMajor});
    }
  }
  return tensors;
}

}  // namespace slm
