// Stages of the chain in the order of BIS-01, and which level of LVL-01 each belongs to.
//
// An observation's name ("layers.3.attn.q_rope", docs/spec/golden.md) is parsed into its layer and
// its role ("attn.q_rope"); the order of two stages decides which difference is named first.
// Plain data, usable from any thread.
#ifndef SLM_COMPARE_STAGES_H_
#define SLM_COMPARE_STAGES_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slm::compare {

// L0 to L12 of the standard's section 1.
enum class Level : uint8_t { kL0, kL1, kL2, kL3, kL4, kL5, kL6, kL7, kL8, kL9, kL10, kL11, kL12 };
inline constexpr int kLevelCount = 13;
[[nodiscard]] std::string_view LevelName(Level level);   // "L7"
[[nodiscard]] std::string_view LevelTitle(Level level);  // "logits"
[[nodiscard]] std::string_view LevelClaim(Level level);  // the claim in one sentence

// Where in the chain something stands. Smaller comes first.
struct Stage {
  // Positions outside the layers; layer stages lie between kEmbedding and kFinalNorm.
  static constexpr int64_t kIdentity = 0;
  static constexpr int64_t kRendered = 1;
  static constexpr int64_t kIds = 2;
  static constexpr int64_t kMapping = 3;
  static constexpr int64_t kEmbedding = 4;
  static constexpr int64_t kFirstLayer = 100;
  static constexpr int64_t kLayerStride = 100;
  static constexpr int64_t kFinalNorm = int64_t{1} << 40;
  static constexpr int64_t kLogits = kFinalNorm + 1;
  static constexpr int64_t kTopK = kFinalNorm + 2;
  static constexpr int64_t kToken = kFinalNorm + 3;
  static constexpr int64_t kDecode = kFinalNorm + 4;
  static constexpr int64_t kStop = kFinalNorm + 5;

  int64_t order = 0;
  int layer = -1;  // -1 outside the layers
  std::string role;
  Level level = Level::kL5;

  friend bool operator<(const Stage& a, const Stage& b) { return a.order < b.order; }
};

// Nothing if the name is not one of docs/spec/golden.md.
[[nodiscard]] std::optional<Stage> ParseStage(std::string_view observation_name);

// Every role inside a layer, in the order of the chain (ORA-03).
[[nodiscard]] const std::vector<std::string_view>& LayerRoles();

// Every role that has a numeric rule in a tolerance policy, in the order of the chain.
[[nodiscard]] const std::vector<std::string_view>& NumericRoles();

}  // namespace slm::compare

#endif  // SLM_COMPARE_STAGES_H_
