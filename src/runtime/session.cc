#include "runtime/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "codec/sha256.h"
#include "numeric/float_formats.h"

namespace slm {
namespace {

constexpr uint64_t kMaxChunk = 64;                       // positions that run through the plan together
constexpr uint64_t kMaxScoreFloats = uint64_t{1} << 20;  // bound on the scores of one chunk

// Values in the packed causal rows of positions [first, first + n): position t has t + 1.
uint64_t PackedSize(uint64_t first, uint64_t n) {
  return n * first + n * (n + 1) / 2;
}

uint64_t Product(const std::vector<uint64_t>& shape) {
  uint64_t product = 1;
  for (const uint64_t size : shape) product *= size;
  return product;
}

ops::GateFunction GateOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return ops::GateFunction::kSilu;
    case Activation::kGeluErf:
      return ops::GateFunction::kGeluErf;
    case Activation::kGeluTanh:
      return ops::GateFunction::kGeluTanh;
    case Activation::kRelu:
      return ops::GateFunction::kRelu;
  }
  return ops::GateFunction::kSilu;
}

std::unique_ptr<float[]> AllocateFloats(uint64_t count) {
  if (count > SIZE_MAX / sizeof(float)) return nullptr;
  return std::unique_ptr<float[]>(new (std::nothrow) float[static_cast<size_t>(count)]);
}

}  // namespace

struct Session::Chunk {
  std::span<const uint32_t> ids;
  uint64_t first = 0;      // position of ids[0]
  uint64_t logit_row = 0;  // first row whose logits are wanted; ids.size(): none
  const TapSet* taps = nullptr;
  [[nodiscard]] uint64_t n() const { return ids.size(); }
};

bool TapSet::Wants(std::string_view name) const {
  return all || std::find(names.begin(), names.end(), name) != names.end();
}

Result<std::unique_ptr<Session>> Session::Create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options) {
  const Plan& plan = model->plan();
  const uint64_t max_positions = options.max_positions == 0 ? plan.max_positions : options.max_positions;
  if (max_positions > plan.max_positions) {
    return Fail(MakeError(ErrorCode::kCtxLength, std::to_string(max_positions) +
                                                     " positions asked for, the artifact allows " +
                                                     std::to_string(plan.max_positions))
                    .Field("max_positions"));
  }
  const ops::KernelTable* kernels = ops::KernelsFor(options.kernel);
  if (kernels == nullptr)
    return Fail(ErrorCode::kUnsupported, "this kernel needs AVX2, which the CPU or the build lacks");

  std::unique_ptr<Session> session(new Session());
  // Cannot overflow: each factor was bounded by BuildPlan except their product.
  std::optional<uint64_t> floats = CheckedMul(plan.n_layers * plan.n_kv_heads, plan.head_dim);
  if (floats) floats = CheckedMul(*floats, max_positions);
  if (floats) {
    session->keys_ = AllocateFloats(*floats);
    session->values_ = AllocateFloats(*floats);
  }
  if (session->keys_ == nullptr || session->values_ == nullptr) {
    return Fail(ErrorCode::kMemory,
                "no memory for a cache of " + std::to_string(max_positions) + " positions: " +
                    (floats ? std::to_string(*floats * 2 * sizeof(float)) : "2^64 or more") + " bytes");
  }
  session->model_ = std::move(model);
  session->kernels_ = kernels;
  session->max_positions_ = max_positions;
  return session;
}

Status Session::CheckCall(std::span<const uint32_t> ids, const TapSet* taps) const {
  const Plan& plan = model_->plan();
  if (ids.empty()) return Fail(ErrorCode::kRunEmpty, "give at least one token id");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= plan.vocab_size) {
      return Fail(MakeError(ErrorCode::kRunTokenRange, "token id " + std::to_string(ids[i]) +
                                                           " is not below " + std::to_string(plan.vocab_size))
                      .Field("ids[" + std::to_string(i) + "]"));
    }
  }
  if (ids.size() > max_positions_ - n_positions_) {
    return Fail(MakeError(ErrorCode::kCtxLength, std::to_string(n_positions_ + ids.size()) +
                                                     " positions, the limit is " +
                                                     std::to_string(max_positions_))
                    .Field("ids"));
  }
  if (taps != nullptr) {
    for (const std::string& name : taps->names) {
      if (plan.FindObservation(name) == nullptr) {
        return Fail(MakeError(ErrorCode::kRunTap, "the plan has no observation '" + name + "'").Field(name));
      }
    }
  }
  return {};
}

uint64_t Session::ChunkSize(uint64_t first_position, uint64_t n_left) const {
  uint64_t size = std::min(kMaxChunk, n_left);
  while (size > 1 && model_->plan().n_heads * PackedSize(first_position, size) > kMaxScoreFloats)
    size = size / 2;
  return size;
}

Status Session::Prefill(std::span<const uint32_t> ids, LogitRows rows, std::vector<float>* logits,
                        const TapSet* taps) {
  SLM_TRY(CheckCall(ids, taps));
  const uint64_t before = n_positions_;
  const bool all_rows = rows == LogitRows::kAll || (taps != nullptr && taps->Wants("logits"));
  if (logits != nullptr) logits->clear();
  PrepareRotary(before + ids.size());
  while (n_positions_ < before + ids.size()) {
    const uint64_t done = n_positions_ - before;
    Chunk chunk;
    chunk.first = n_positions_;
    chunk.ids = ids.subspan(done, ChunkSize(n_positions_, ids.size() - done));
    chunk.taps = taps;
    const bool is_last = done + chunk.n() == ids.size();
    chunk.logit_row = all_rows ? 0 : chunk.n() - (is_last && rows == LogitRows::kLast ? 1 : 0);
    if (Status status = RunChunk(chunk); !status) {
      n_positions_ = before;
      ids_.resize(before);
      return status;
    }
    n_positions_ += chunk.n();
    ids_.insert(ids_.end(), chunk.ids.begin(), chunk.ids.end());
    const std::vector<float>& computed = Buffer(Slot::kLogits);
    if (logits != nullptr && rows == LogitRows::kAll)
      logits->insert(logits->end(), computed.begin(), computed.end());
    if (logits != nullptr && rows == LogitRows::kLast && is_last) {
      logits->assign(computed.end() - static_cast<std::ptrdiff_t>(model_->plan().vocab_size), computed.end());
    }
  }
  return {};
}

Status Session::RunChunk(const Chunk& chunk) {
  const Plan& plan = model_->plan();
  for (size_t slot = 0; slot < kSlotCount; ++slot) {
    if (slot != static_cast<size_t>(Slot::kLogits)) buffers_[slot].resize(chunk.n() * plan.slot_width[slot]);
  }
  Buffer(Slot::kScores).resize(plan.n_heads * PackedSize(chunk.first, chunk.n()));
  Buffer(Slot::kLogits).resize((chunk.n() - chunk.logit_row) * plan.vocab_size);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    SLM_TRY(model_->CheckStep(i));
    SLM_TRY(RunStep(plan.steps[i], model_->bound_steps()[i], chunk));
  }
  return {};
}

Status Session::RunStep(const Step& step, const BoundStep& bound, const Chunk& chunk) {
  switch (step.op) {
    case Operator::kInverseFrequencies:
      if (chunk.first != 0) return {};
      return Report(step, chunk, 0, model_->plan().rope.inv_freq);
    case Operator::kEmbedding:
      RunEmbedding(step, bound, chunk);
      break;
    case Operator::kRmsNorm:
      SLM_TRY(RunNorm(step, bound, chunk));
      break;
    case Operator::kLinear: {
      const uint64_t first_row = step.output == Slot::kLogits ? chunk.logit_row : 0;
      RunLinear(step, bound, first_row, chunk.n() - first_row);
      return Report(step, chunk, first_row, Buffer(step.output));
    }
    case Operator::kRotary:
      RunRotary(step, chunk);
      break;
    case Operator::kAppendCache:
      RunAppend(step, chunk);
      return {};
    case Operator::kScores:
      RunScores(step, chunk);
      break;
    case Operator::kMask:
      ReportMask(step, chunk);
      return {};
    case Operator::kSoftmax:
      RunSoftmax(step, chunk);
      break;
    case Operator::kWeightedSum:
      RunWeightedSum(step, chunk);
      break;
    case Operator::kAdd:
      ops::Add(Buffer(step.inputs[0]), Buffer(step.inputs[1]), Buffer(step.output));
      break;
    case Operator::kGate:
      RunGate(step);
      break;
  }
  return Report(step, chunk, 0, Buffer(step.output));
}

void Session::RunEmbedding(const Step& step, const BoundStep& bound, const Chunk& chunk) {
  const uint64_t width = bound.matrix.n_cols;
  for (uint64_t t = 0; t < chunk.n(); ++t) {
    ops::CopyRow(bound.matrix, chunk.ids[t], std::span(Buffer(step.output)).subspan(t * width, width));
  }
}

Status Session::RunNorm(const Step& step, const BoundStep& bound, const Chunk& chunk) {
  const uint64_t width = bound.vector.size();
  const std::span<const float> in = Buffer(step.inputs[0]);
  const std::span<float> out = Buffer(step.output);
  for (uint64_t t = 0; t < chunk.n(); ++t) {
    const float mean = ops::RmsNorm(in.subspan(t * width, width), bound.vector, model_->plan().norm_epsilon,
                                    out.subspan(t * width, width));
    if (!numeric::IsFinite(mean)) {
      return Fail(MakeError(ErrorCode::kNonfinite, step.observation +
                                                       " has an infinite mean square at position " +
                                                       std::to_string(chunk.first + t))
                      .Field(step.observation));
    }
  }
  return {};
}

void Session::RunLinear(const Step& step, const BoundStep& bound, uint64_t first_row, uint64_t n_rows) {
  if (n_rows == 0) return;
  kernels_->linear({.weights = bound.matrix.data,
                    .type = bound.matrix.type,
                    .n_rows = static_cast<size_t>(bound.matrix.n_rows),
                    .n_k = static_cast<size_t>(bound.matrix.n_cols),
                    .bias = bound.bias.empty() ? nullptr : bound.bias.data(),
                    .x = Buffer(step.inputs[0]).data() + first_row * bound.matrix.n_cols,
                    .y = Buffer(step.output).data(),
                    .n_tokens = static_cast<size_t>(n_rows)});
}

void Session::RunRotary(const Step& step, const Chunk& chunk) {
  const uint64_t half = model_->plan().rope.inv_freq.size();
  const uint64_t n_heads = step.shape[0];
  const uint64_t head_dim = step.shape[1];
  const std::span<float> rows = Buffer(step.output);
  for (uint64_t t = 0; t < chunk.n(); ++t) {
    const std::span<const float> cosines = std::span(cosines_).subspan((chunk.first + t) * half, half);
    const std::span<const float> sines = std::span(sines_).subspan((chunk.first + t) * half, half);
    for (uint64_t h = 0; h < n_heads; ++h) {
      ops::Rotate(rows.subspan((t * n_heads + h) * head_dim, head_dim), cosines, sines);
    }
  }
}

uint64_t Session::CacheOffset(uint64_t layer, uint64_t kv_head, uint64_t position) const {
  const Plan& plan = model_->plan();
  return ((layer * plan.n_kv_heads + kv_head) * max_positions_ + position) * plan.head_dim;
}

void Session::RunAppend(const Step& step, const Chunk& chunk) {
  const uint64_t n_heads = step.shape[0];
  const uint64_t head_dim = step.shape[1];
  for (uint64_t t = 0; t < chunk.n(); ++t) {
    for (uint64_t h = 0; h < n_heads; ++h) {
      const uint64_t from = (t * n_heads + h) * head_dim;
      const uint64_t to = CacheOffset(*step.layer, h, chunk.first + t);
      std::copy_n(Buffer(step.inputs[0]).data() + from, head_dim, keys_.get() + to);
      std::copy_n(Buffer(step.inputs[1]).data() + from, head_dim, values_.get() + to);
    }
  }
}

void Session::RunScores(const Step& step, const Chunk& chunk) {
  const Plan& plan = model_->plan();
  const uint64_t per_kv_head = plan.n_heads / plan.n_kv_heads;
  const float* query = Buffer(step.inputs[0]).data();
  float* scores = Buffer(step.output).data();
  for (uint64_t h = 0; h < plan.n_heads; ++h) {
    const float* keys = keys_.get() + CacheOffset(*step.layer, h / per_kv_head, 0);
    for (uint64_t t = 0; t < chunk.n(); ++t) {
      const auto eligible = static_cast<size_t>(chunk.first + t + 1);
      kernels_->scores({.query = query + (t * plan.n_heads + h) * plan.head_dim,
                        .keys = keys,
                        .n_positions = eligible,
                        .head_dim = static_cast<size_t>(plan.head_dim),
                        .scale = plan.attention_scale,
                        .scores = scores});
      scores += eligible;
    }
  }
}

void Session::RunSoftmax(const Step& step, const Chunk& chunk) {
  std::span<float> rest = Buffer(step.output);
  for (uint64_t h = 0; h < model_->plan().n_heads; ++h) {
    for (uint64_t t = 0; t < chunk.n(); ++t) {
      const std::span<float> row = rest.first(chunk.first + t + 1);
      ops::Softmax(row, row);
      rest = rest.subspan(row.size());
    }
  }
}

void Session::RunWeightedSum(const Step& step, const Chunk& chunk) {
  const Plan& plan = model_->plan();
  const uint64_t per_kv_head = plan.n_heads / plan.n_kv_heads;
  const float* probs = Buffer(step.inputs[0]).data();
  float* out = Buffer(step.output).data();
  for (uint64_t h = 0; h < plan.n_heads; ++h) {
    const float* values = values_.get() + CacheOffset(*step.layer, h / per_kv_head, 0);
    for (uint64_t t = 0; t < chunk.n(); ++t) {
      const auto eligible = static_cast<size_t>(chunk.first + t + 1);
      kernels_->weighted_sum({.probs = probs,
                              .values = values,
                              .n_positions = eligible,
                              .head_dim = static_cast<size_t>(plan.head_dim),
                              .out = out + (t * plan.n_heads + h) * plan.head_dim});
      probs += eligible;
    }
  }
}

void Session::RunGate(const Step& step) {
  ops::Gate(GateOf(model_->plan().activation), Buffer(step.inputs[0]), Buffer(step.inputs[1]),
            Buffer(step.output));
}

namespace {

// "position 5, index [3, 17]" of a value in a chunk's output.
std::string Place(const Step& step, uint64_t first_position, uint64_t n, size_t flat) {
  if (step.op == Operator::kScores || step.op == Operator::kSoftmax) {
    const uint64_t per_head = PackedSize(first_position, n);
    const uint64_t head = flat / per_head;
    uint64_t column = flat % per_head;
    uint64_t position = first_position;
    while (column > position) column -= ++position;
    return "position " + std::to_string(position) + ", index [" + std::to_string(head) + ", " +
           std::to_string(column) + "]";
  }
  const uint64_t width = Product(step.shape);
  uint64_t rest = flat % width;
  std::string index;
  for (size_t axis = step.shape.size(); axis-- > 0;) {
    index = std::to_string(rest % step.shape[axis]) + (index.empty() ? "" : ", ") + index;
    rest /= step.shape[axis];
  }
  return "position " + std::to_string(first_position + flat / width) + ", index [" + index + "]";
}

}  // namespace

Status Session::Report(const Step& step, const Chunk& chunk, uint64_t first_row,
                       std::span<const float> values) {
  if (const std::optional<size_t> at = ops::FirstNonfinite(values)) {
    const bool is_nan = values[*at] != values[*at];
    return Fail(
        MakeError(ErrorCode::kNonfinite, step.observation + " is " + (is_nan ? "NaN" : "infinite") + " at " +
                                             Place(step, chunk.first + first_row, chunk.n() - first_row, *at))
            .Field(step.observation));
  }
  if (chunk.taps == nullptr || values.empty() || !chunk.taps->Wants(step.observation)) return {};
  const bool of_positions = step.op != Operator::kInverseFrequencies;
  chunk.taps->tap({.name = step.observation,
                   .layer = step.layer ? static_cast<int>(*step.layer) : -1,
                   .first_position = chunk.first + first_row,
                   .n_positions = of_positions ? chunk.n() - first_row : 0,
                   .shape = step.shape,
                   .values = values,
                   .mask = {}});
  return {};
}

void Session::ReportMask(const Step& step, const Chunk& chunk) {
  if (chunk.taps == nullptr || !chunk.taps->Wants(step.observation)) return;
  const uint64_t columns = chunk.first + chunk.n();
  std::vector<uint8_t> mask(chunk.n() * columns, 0);
  for (uint64_t t = 0; t < chunk.n(); ++t) {
    // The interval that the score and sum steps of this position really run over.
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(t * columns), chunk.first + t + 1, uint8_t{1});
  }
  chunk.taps->tap({.name = step.observation,
                   .layer = static_cast<int>(*step.layer),
                   .first_position = chunk.first,
                   .n_positions = chunk.n(),
                   .shape = {},
                   .values = {},
                   .mask = mask});
}

void Session::PrepareRotary(uint64_t n_positions) {
  const RopeConfig& rope = model_->plan().rope;
  const uint64_t half = rope.inv_freq.size();
  if (half == 0) return;
  const uint64_t ready = cosines_.size() / half;
  if (ready >= n_positions) return;
  cosines_.resize(n_positions * half);
  sines_.resize(n_positions * half);
  for (uint64_t position = ready; position < n_positions; ++position) {
    ops::RotaryTable(position, rope.inv_freq, rope.attention_factor_f32,
                     std::span(cosines_).subspan(position * half, half),
                     std::span(sines_).subspan(position * half, half));
  }
}

Status Session::Truncate(uint64_t n_positions) {
  if (n_positions > n_positions_) {
    return Fail(MakeError(ErrorCode::kCtxLength, "cannot keep " + std::to_string(n_positions) + " of " +
                                                     std::to_string(n_positions_) + " positions")
                    .Field("n_positions"));
  }
  n_positions_ = n_positions;
  ids_.resize(n_positions);
  return {};
}

Hash256 Session::KvHash() const {
  const Plan& plan = model_->plan();
  Sha256 hash;
  Bytes bytes;
  for (const char c : std::string_view("slm-kv-cache-v1\n")) bytes.push_back(static_cast<uint8_t>(c));
  for (const uint64_t size : {plan.n_layers, plan.n_kv_heads, n_positions_, plan.head_dim})
    AppendLe(&bytes, size);
  hash.Update(bytes);
  for (const float* cache : {keys_.get(), values_.get()}) {
    for (uint64_t layer = 0; layer < plan.n_layers; ++layer) {
      for (uint64_t head = 0; head < plan.n_kv_heads; ++head) {
        const float* row = cache + CacheOffset(layer, head, 0);
        bytes.clear();
        for (uint64_t i = 0; i < n_positions_ * plan.head_dim; ++i) {
          AppendLe(&bytes, __builtin_bit_cast(uint32_t, row[i]));
        }
        hash.Update(bytes);
      }
    }
  }
  return hash.Finish();
}

}  // namespace slm
