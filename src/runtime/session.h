// One sequence under profile exact-v1: its key/value cache, and the execution of the plan.
//
// Positions are appended by Prefill in chunks of any size; logits, cache and observations have
// the same bits however the sequence was cut (docs/spec/exact-v1.md). A nonfinite value stops
// the run with the observation's name and the first index (OPS-03). A session is used by one
// thread at a time; sessions share the Model.
#ifndef SLM_RUNTIME_SESSION_H_
#define SLM_RUNTIME_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/plan.h"
#include "ops/ops.h"
#include "runtime/bound_model.h"

namespace slm {

using ops::Kernel;

// Part of an observation: the positions of one chunk. ObservationRecorder joins the parts.
struct Observation {
  std::string_view name;        // "layers.3.attn.q_rope"
  int layer = -1;               // 3; -1 outside the layers
  uint64_t first_position = 0;  // of this part
  uint64_t n_positions = 0;     // in this part; 0 for rope.inv_freq
  std::vector<uint64_t> shape;  // of one position, e.g. {n_heads, head_dim}
  // [n_positions][shape...]; scores and probabilities: [n_heads][packed rows], where the row of
  // position t holds t + 1 values (OPS-06). Valid only during the call.
  std::span<const float> values = {};
  // Of the mask: [n_positions][first_position + n_positions], 1 where the column is eligible.
  std::span<const uint8_t> mask = {};
};
using Tap = std::function<void(const Observation&)>;

// Which observations to report. Names that the plan does not have are refused (RUN-TAP).
struct TapSet {
  bool all = false;
  std::vector<std::string> names = {};
  Tap tap = {};
  [[nodiscard]] bool Wants(std::string_view name) const;
};

// Rows of logits that Prefill returns.
enum class LogitRows : uint8_t { kNone, kLast, kAll };

struct SessionOptions {
  uint64_t max_positions = 0;  // 0: as many as the artifact allows
  Kernel kernel = Kernel::kScalar;
};

class Session {
 public:
  // Errors: CTX-LENGTH (more positions than the artifact allows), UNSUPPORTED (no such kernel on
  // this CPU), MEMORY.
  [[nodiscard]] static Result<std::unique_ptr<Session>> Create(std::shared_ptr<const Model> model,
                                                               const SessionOptions& options);

  // Appends `ids` at the next positions. `logits` receives the rows asked for, [rows][vocab], and
  // may be null when there are none. Errors: RUN-EMPTY, RUN-TOKEN, CTX-LENGTH, RUN-TAP before
  // anything runs; NONFINITE while running. After an error the session is as it was before.
  [[nodiscard]] Status Prefill(std::span<const uint32_t> ids, LogitRows rows, std::vector<float>* logits,
                               const TapSet* taps);

  [[nodiscard]] uint64_t n_positions() const { return n_positions_; }
  [[nodiscard]] uint64_t max_positions() const { return max_positions_; }
  [[nodiscard]] std::span<const uint32_t> ids() const { return ids_; }
  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] std::string_view kernel_name() const { return kernels_->name; }

  // Forgets the positions from `n_positions` on. Error: CTX-LENGTH if there are fewer.
  [[nodiscard]] Status Truncate(uint64_t n_positions);

  // SHA-256 of the cache's valid interval: domain line, dimensions, keys and values in order
  // (RUN-04; docs/spec/exact-v1.md, "Cache").
  [[nodiscard]] Hash256 KvHash() const;

 private:
  struct Chunk;
  Session() = default;
  [[nodiscard]] Status CheckCall(std::span<const uint32_t> ids, const TapSet* taps) const;
  [[nodiscard]] Status RunChunk(const Chunk& chunk);
  [[nodiscard]] Status RunStep(const Step& step, const BoundStep& bound, const Chunk& chunk);
  void RunEmbedding(const Step& step, const BoundStep& bound, const Chunk& chunk);
  [[nodiscard]] Status RunNorm(const Step& step, const BoundStep& bound, const Chunk& chunk);
  void RunLinear(const Step& step, const BoundStep& bound, uint64_t first_row, uint64_t n_rows);
  void RunRotary(const Step& step, const Chunk& chunk);
  void RunAppend(const Step& step, const Chunk& chunk);
  void RunScores(const Step& step, const Chunk& chunk);
  void RunSoftmax(const Step& step, const Chunk& chunk);
  void RunWeightedSum(const Step& step, const Chunk& chunk);
  void RunGate(const Step& step);
  [[nodiscard]] Status Report(const Step& step, const Chunk& chunk, uint64_t first_row,
                              std::span<const float> values);
  void ReportMask(const Step& step, const Chunk& chunk);
  void PrepareRotary(uint64_t n_positions);
  [[nodiscard]] uint64_t ChunkSize(uint64_t first_position, uint64_t n_left) const;
  [[nodiscard]] std::vector<float>& Buffer(Slot slot) { return buffers_[static_cast<size_t>(slot)]; }
  [[nodiscard]] uint64_t CacheOffset(uint64_t layer, uint64_t kv_head, uint64_t position) const;

  std::shared_ptr<const Model> model_;
  const ops::KernelTable* kernels_ = nullptr;
  uint64_t max_positions_ = 0;
  uint64_t n_positions_ = 0;
  std::vector<uint32_t> ids_;
  // [layer][kv_head][position][head_dim]; memory is touched only as positions come.
  std::unique_ptr<float[]> keys_;
  std::unique_ptr<float[]> values_;
  std::vector<float> cosines_;  // [position][rope.dim / 2]
  std::vector<float> sines_;
  std::vector<float> buffers_[kSlotCount];
};

}  // namespace slm

#endif  // SLM_RUNTIME_SESSION_H_
