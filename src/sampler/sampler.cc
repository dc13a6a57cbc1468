#include "sampler/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "numeric/exact_exp64.h"
#include "numeric/float_formats.h"

namespace slm {
namespace {

constexpr uint8_t kBanned = 1;     // for good
constexpr uint8_t kForbidden = 2;  // at this step
constexpr uint8_t kMasked = kBanned | kForbidden;
constexpr uint8_t kSeen = 4;  // in the window of the repetition penalty

constexpr double kLeastTemperature = 0x1p-126;  // no float32 divided by it overflows a double

// Grows as the logit falls; the same for both zeros.
uint32_t DescendingOrder(float logit) {
  uint32_t bits = numeric::BitsOf(logit);
  if (bits == 0x80000000u) bits = 0;
  return (bits & 0x80000000u) != 0 ? bits : ~bits & 0x7fffffffu;
}

uint64_t KeyOf(float logit, uint32_t id) {
  return (uint64_t{DescendingOrder(logit)} << 32) | id;
}

constexpr size_t kBlock = 64;

// Whether all of a row is finite; without an early end, so that the compiler can use vectors.
bool AllFinite(std::span<const float> row) {
  uint32_t bad = 0;
  for (const float logit : row)
    bad |= static_cast<uint32_t>((numeric::BitsOf(logit) & 0x7f800000u) == 0x7f800000u);
  return bad == 0;
}

// Whether one of kBlock tokens is flagged or beats `worst`.
bool IsWorthALook(const float* logits, const uint8_t* flags, float worst) {
  uint32_t better = 0;
  for (size_t i = 0; i < kBlock; ++i) better |= static_cast<uint32_t>(logits[i] > worst);
  uint8_t flagged = 0;
  for (size_t i = 0; i < kBlock; ++i) flagged = static_cast<uint8_t>(flagged | flags[i]);
  return better != 0 || flagged != 0;
}

Error BadValue(std::string_view option, std::string message) {
  return MakeError(ErrorCode::kSampleValue, std::move(message)).Field(option);
}

bool IsFraction(double value) {
  return value >= 0.0 && value <= 1.0;  // false for a NaN
}

Status CheckIds(std::span<const uint32_t> ids, uint64_t vocab_size, std::string_view option) {
  for (const uint32_t id : ids) {
    if (id >= vocab_size)
      return Fail(BadValue(option, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                       std::to_string(vocab_size)));
  }
  return {};
}

Status Check(const SamplingOptions& options, uint64_t vocab_size) {
  const double temperature = options.temperature;
  if (!std::isfinite(temperature) || (temperature != 0.0 && temperature < kLeastTemperature))
    return Fail(BadValue("temperature", "the temperature is 0 (greedy) or a finite number above it"));
  if (!IsFraction(options.top_p)) return Fail(BadValue("top_p", "top_p lies between 0 and 1"));
  if (!IsFraction(options.min_p)) return Fail(BadValue("min_p", "min_p lies between 0 and 1"));
  if (!std::isfinite(options.repetition_penalty) || options.repetition_penalty <= 0.0f)
    return Fail(BadValue("repetition_penalty",
                         "the repetition penalty is a finite float32 above 0; 1 switches it off"));
  return CheckIds(options.bans, vocab_size, "bans");
}

}  // namespace

Sampler::Sampler(SamplingOptions options, uint64_t vocab_size)
    : options_(std::move(options)), vocab_size_(vocab_size), flags_(vocab_size, 0) {}

Result<Sampler> Sampler::Create(SamplingOptions options, uint64_t vocab_size,
                                std::span<const uint32_t> eos_ids) {
  SLM_TRY(Check(options, vocab_size));
  SLM_TRY(CheckIds(eos_ids, vocab_size, "eos_token_id"));
  Sampler sampler(std::move(options), vocab_size);
  sampler.eos_ids_.assign(eos_ids.begin(), eos_ids.end());
  sampler.Mark(sampler.options_.bans, kBanned);
  return sampler;
}

void Sampler::Mark(std::span<const uint32_t> ids, uint8_t flag) {
  for (const uint32_t id : ids) {
    if ((flag & kMasked) != 0 && (flags_[id] & kMasked) == 0) ++n_masked_;
    flags_[id] = static_cast<uint8_t>(flags_[id] | flag);
  }
}

void Sampler::Unmark(std::span<const uint32_t> ids, uint8_t flag) {
  for (const uint32_t id : ids) {
    const uint8_t before = flags_[id];
    flags_[id] = static_cast<uint8_t>(before & ~flag);
    if ((before & kMasked) != 0 && (flags_[id] & kMasked) == 0) --n_masked_;
  }
}

std::span<const uint32_t> Sampler::Window(std::span<const uint32_t> context) const {
  if (options_.repetition_penalty == 1.0f) return {};
  const uint64_t window = options_.repetition_window.value_or(context.size());
  return window >= context.size() ? context : context.last(window);
}

Result<uint32_t> Sampler::Next(std::span<const float> logits, std::span<const uint32_t> context,
                               std::span<const uint32_t> forbidden, SampleTrace* trace) {
  if (logits.size() != vocab_size_)
    return Fail(ErrorCode::kInternal, "a row of " + std::to_string(logits.size()) +
                                          " logits for a vocabulary of " + std::to_string(vocab_size_));
  if (!AllFinite(logits)) {
    size_t id = 0;
    while (numeric::IsFinite(logits[id])) ++id;
    return Fail(
        MakeError(ErrorCode::kNonfinite, "the logit of token " + std::to_string(id) +
                                             " is not a finite number; nothing is chosen from such a row")
            .Field("logits[" + std::to_string(id) + "]"));
  }
  SLM_TRY(CheckIds(forbidden, vocab_size_, "forbidden"));
  const std::span<const uint32_t> seen = Window(context);
  SLM_TRY(CheckIds(seen, vocab_size_, "context"));
  const std::span<const uint32_t> too_early = token_index_ < options_.min_new_tokens
                                                  ? std::span<const uint32_t>(eos_ids_)
                                                  : std::span<const uint32_t>();
  SampleTrace unused;
  SampleTrace& record = trace != nullptr ? *trace : unused;
  record = SampleTrace{.token_index = token_index_};

  Mark(forbidden, kForbidden);
  Mark(too_early, kForbidden);
  Mark(seen, kSeen);
  record.n_masked = n_masked_;
  Result<uint32_t> id = Choose(logits, trace != nullptr, &record);
  Unmark(seen, kSeen);
  Unmark(too_early, kForbidden);
  Unmark(forbidden, kForbidden);
  if (id) {
    record.id = *id;
    ++token_index_;
  }
  return id;
}

// The sign rule of the reference (Transformers' RepetitionPenaltyLogitsProcessor): a logit below
// zero is multiplied, another one divided, in float32.
Result<float> Sampler::Penalized(float logit, uint32_t id) const {
  const float penalty = options_.repetition_penalty;
  const float changed = logit < 0.0f ? logit * penalty : logit / penalty;
  if (!numeric::IsFinite(changed))
    return Fail(MakeError(ErrorCode::kNonfinite, "the repetition penalty makes the logit of token " +
                                                     std::to_string(id) + " infinite")
                    .Field("repetition_penalty"));
  return changed;
}

Result<uint32_t> Sampler::Choose(std::span<const float> logits, bool keep_survivors, SampleTrace* record) {
  if (n_masked_ == vocab_size_)
    return Fail(ErrorCode::kSampleMasked,
                "bans, constraint and minimum length leave no token to choose from");
  const bool greedy = options_.temperature == 0.0;
  const uint64_t n_left = vocab_size_ - n_masked_;
  const uint64_t n_kept = greedy                ? 1
                          : options_.top_k == 0 ? n_left
                                                : std::min<uint64_t>(options_.top_k, n_left);
  if (n_kept == n_left && n_kept > 1) {
    SLM_TRY(RankAll(logits, record));
  } else {
    SLM_TRY(RankBest(logits, n_kept, record));
  }
  if (greedy) return static_cast<uint32_t>(ranked_.front().key);
  record->n_after_top_k = ranked_.size();
  return Draw(keep_survivors, record);
}

// The `n_kept` best tokens in order. Ids rise, so among equal logits the first one seen stays.
Status Sampler::RankBest(std::span<const float> logits, uint64_t n_kept, SampleTrace* record) {
  const auto worse = [](const Ranked& a, const Ranked& b) {
    return a.key < b.key;
  };  // the worst on top of the heap
  ranked_.clear();
  for (uint32_t id = 0; id < vocab_size_; ++id) {
    if (id % kBlock == 0 && vocab_size_ - id >= kBlock && ranked_.size() == n_kept &&
        !IsWorthALook(&logits[id], &flags_[id], ranked_.front().logit)) {
      id += kBlock - 1;
      continue;
    }
    const uint8_t flags = flags_[id];
    float logit = logits[id];
    if (flags != 0) {
      if ((flags & kMasked) != 0) continue;
      SLM_ASSIGN(logit, Penalized(logit, id));
      ++record->n_penalized;
    }
    if (ranked_.size() == n_kept) {
      if (logit <= ranked_.front().logit) continue;
      std::pop_heap(ranked_.begin(), ranked_.end(), worse);
      ranked_.pop_back();
    }
    ranked_.push_back({KeyOf(logit, id), logit});
    std::push_heap(ranked_.begin(), ranked_.end(), worse);
  }
  std::sort_heap(ranked_.begin(), ranked_.end(), worse);
  return {};
}

Status Sampler::RankAll(std::span<const float> logits, SampleTrace* record) {
  ranked_.clear();
  for (uint32_t id = 0; id < vocab_size_; ++id) {
    const uint8_t flags = flags_[id];
    float logit = logits[id];
    if (flags != 0) {
      if ((flags & kMasked) != 0) continue;
      SLM_ASSIGN(logit, Penalized(logit, id));
      ++record->n_penalized;
    }
    ranked_.push_back({KeyOf(logit, id), logit});
  }
  SortByLogit();
  return {};
}

// By the upper half of the key, eleven bits at a time; a stable sort, and the ids rise already.
void Sampler::SortByLogit() {
  constexpr uint32_t kBits = 11;
  constexpr size_t kBuckets = size_t{1} << kBits;
  swap_.resize(ranked_.size());
  for (const uint32_t shift : {32u, 43u, 54u}) {
    std::array<size_t, kBuckets> starts{};
    for (const Ranked& token : ranked_) ++starts[(token.key >> shift) & (kBuckets - 1)];
    size_t next = 0;
    for (size_t& start : starts) next += std::exchange(start, next);
    for (const Ranked& token : ranked_) swap_[starts[(token.key >> shift) & (kBuckets - 1)]++] = token;
    std::swap(ranked_, swap_);
  }
}

uint32_t Sampler::Draw(bool keep_survivors, SampleTrace* record) {
  const double highest = static_cast<double>(ranked_.front().logit) / options_.temperature;
  weights_.clear();
  double sum = 0.0;
  for (const Ranked& token : ranked_) {
    weights_.push_back(numeric::Exp64(static_cast<double>(token.logit) / options_.temperature - highest));
    sum += weights_.back();
  }
  for (double& weight : weights_) weight /= sum;

  size_t n_kept = weights_.size();
  if (options_.top_p < 1.0) {
    double cumulative = 0.0;
    for (n_kept = 0; n_kept < weights_.size();) {
      cumulative += weights_[n_kept++];
      if (cumulative >= options_.top_p) break;
    }
  }
  record->n_after_top_p = n_kept;
  const double least = options_.min_p * weights_.front();
  while (weights_[n_kept - 1] < least) --n_kept;
  record->n_after_min_p = n_kept;

  double mass = 0.0;
  for (size_t i = 0; i < n_kept; ++i) mass += weights_[i];
  record->drawn = true;
  record->mass = mass;
  record->counter = {0, static_cast<uint32_t>(token_index_), options_.turn, options_.stream};
  record->key = {static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)};
  record->draw = numeric::Philox4x32(record->counter, record->key)[0];
  record->uniform = static_cast<double>(record->draw) * 0x1p-32;
  record->interval = n_kept - 1;
  double cumulative = 0.0;
  for (size_t i = 0; i < n_kept; ++i) {
    cumulative += weights_[i] / mass;
    if (cumulative > record->uniform) {
      record->interval = i;
      break;
    }
  }
  if (keep_survivors) {
    for (size_t i = 0; i < n_kept; ++i)
      record->survivors.push_back({static_cast<uint32_t>(ranked_[i].key), ranked_[i].logit, weights_[i]});
  }
  return static_cast<uint32_t>(ranked_[record->interval].key);
}

}  // namespace slm
