#include "compare/stages.h"

#include <array>

namespace slm::compare {
namespace {

struct LevelText {
  std::string_view name, title, claim;
};
constexpr std::array<LevelText, kLevelCount> kLevels = {{
    {"L0", "identity", "every byte that can change behaviour is bound into one graph"},
    {"L1", "tokenization", "ids, offsets and decoded bytes equal the reference"},
    {"L2", "template", "rendered prompt bytes and token ownership equal the reference"},
    {"L3", "mapping", "every source tensor is accounted for; values and configuration equal"},
    {"L4", "packing", "codes, scales and packed bytes equal the reference quantizer"},
    {"L5", "operator", "each operator is within its tolerance of the reference"},
    {"L6", "layer", "the residual stream after each layer is within its tolerance"},
    {"L7", "logits", "full logits within tolerance, stable top-k equal, margin rule"},
    {"L8", "sampling", "filters, PRNG states, draws and chosen ids equal"},
    {"L9", "generation", "token ids, raw bytes and stop reason equal where the margin allows"},
    {"L10", "conversation", "multi-turn reconstruction, cache identity, truncation"},
    {"L11", "distribution", "stochastic agreement under a registered plan"},
    {"L12", "sealed behaviour", "private cases, public commitments and verdicts"},
}};

struct LayerStage {
  std::string_view role;
  int64_t position;
  Level level;
};
// BIS-01 inside one layer: input norm, QKV, RoPE, scores and mask, softmax, attention product, output
// and residual, MLP stages, layer output.
constexpr std::array<LayerStage, 18> kLayerStages = {{
    {"attn_norm", 0, Level::kL5},
    {"attn.q", 1, Level::kL5},
    {"attn.k", 2, Level::kL5},
    {"attn.v", 3, Level::kL5},
    {"attn.q_rope", 4, Level::kL5},
    {"attn.k_rope", 5, Level::kL5},
    {"attn.scores", 6, Level::kL5},
    {"attn.mask", 7, Level::kL5},
    {"attn.probs", 8, Level::kL5},
    {"attn.av", 9, Level::kL5},
    {"attn.out", 10, Level::kL5},
    {"attn_residual", 11, Level::kL6},
    {"mlp_norm", 12, Level::kL5},
    {"mlp.gate", 13, Level::kL5},
    {"mlp.up", 14, Level::kL5},
    {"mlp.act", 15, Level::kL5},
    {"mlp.down", 16, Level::kL5},
    {"output", 17, Level::kL6},
}};

}  // namespace

std::string_view LevelName(Level level) {
  return kLevels[static_cast<size_t>(level)].name;
}
std::string_view LevelTitle(Level level) {
  return kLevels[static_cast<size_t>(level)].title;
}
std::string_view LevelClaim(Level level) {
  return kLevels[static_cast<size_t>(level)].claim;
}

std::optional<Stage> ParseStage(std::string_view name) {
  const auto outside = [](int64_t order, std::string_view role, Level level) {
    return Stage{.order = order, .layer = -1, .role = std::string(role), .level = level};
  };
  if (name == "rope.inv_freq") return outside(Stage::kMapping, name, Level::kL3);
  if (name == "embed") return outside(Stage::kEmbedding, name, Level::kL5);
  if (name == "final_norm") return outside(Stage::kFinalNorm, name, Level::kL5);
  if (name == "logits") return outside(Stage::kLogits, name, Level::kL7);
  if (name == "top_k.ids") return outside(Stage::kTopK, name, Level::kL7);
  if (name == "top_k.values") return outside(Stage::kTopK, name, Level::kL7);
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t layer = 0;
  size_t n_digits = 0;
  while (n_digits < name.size() && name[n_digits] >= '0' && name[n_digits] <= '9') {
    if (n_digits == 6) return std::nullopt;
    layer = layer * 10 + (name[n_digits] - '0');
    ++n_digits;
  }
  if (n_digits == 0 || (n_digits > 1 && name[0] == '0')) return std::nullopt;
  if (n_digits == name.size() || name[n_digits] != '.') return std::nullopt;
  name.remove_prefix(n_digits + 1);
  for (const LayerStage& stage : kLayerStages) {
    if (stage.role != name) continue;
    return Stage{.order = Stage::kFirstLayer + layer * Stage::kLayerStride + stage.position,
                 .layer = static_cast<int>(layer),
                 .role = std::string(stage.role),
                 .level = stage.level};
  }
  return std::nullopt;
}

const std::vector<std::string_view>& LayerRoles() {
  static const std::vector<std::string_view> roles = [] {
    std::vector<std::string_view> all;
    for (const LayerStage& stage : kLayerStages) all.push_back(stage.role);
    return all;
  }();
  return roles;
}

const std::vector<std::string_view>& NumericRoles() {
  static const std::vector<std::string_view> roles = [] {
    std::vector<std::string_view> out = {"rope.inv_freq", "embed"};
    for (const LayerStage& stage : kLayerStages) out.push_back(stage.role);
    out.push_back("final_norm");
    out.push_back("logits");
    return out;
  }();
  return roles;
}

}  // namespace slm::compare
