#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/pair_power.h"

namespace slm {
namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;

bool PositiveFinite(double value) {
  return value > 0 && value <= 1.7976931348623157e308;
}

Error RopeError(std::string_view field, std::string message) {
  return MakeError(ErrorCode::kCfgRope, std::move(message)).Field(field);
}

float F32(double value) {
  return static_cast<float>(value);
}
double ToDouble(numeric::Pair pair) {
  return pair.hi + pair.lo;
}

// Correctly rounded double logarithm, in place of math.log.
double Log(double x) {
  return ToDouble(PairLog(x));
}

// base ** (arange(0, dim, 2) / dim), float32.
std::vector<float> Powers(float base, uint64_t dim) {
  std::vector<float> powers;
  powers.reserve(dim / 2);
  for (uint64_t i = 0; i < dim; i += 2) {
    powers.push_back(RopePower(base, static_cast<float>(i) / static_cast<float>(dim)));
  }
  return powers;
}

std::vector<float> Reciprocals(std::vector<float> values) {
  for (float& value : values) value = 1.0f / value;
  return values;
}

// modeling_rope_utils.py:341, at the length where the source initializes (max_position_embeddings).
Result<double> DynamicBase(const RopeConfig& rope, uint64_t max_position_embeddings) {
  if (rope.dim <= 2) {
    return Fail(RopeError("rope_type", "dynamic scaling divides by head_dim - 2: head_dim must be above 2"));
  }
  const double length = static_cast<double>(max_position_embeddings);
  const double ratio = *rope.factor * length / length - (*rope.factor - 1);
  if (ratio == 1.0) return rope.theta;
  if (!PositiveFinite(ratio)) return Fail(RopeError("rope_factor", "dynamic scaling is not finite"));
  const double exponent = static_cast<double>(rope.dim) / static_cast<double>(rope.dim - 2);
  return rope.theta * ToDouble(PairPow(ratio, exponent));
}

// modeling_rope_utils.py:430.
double Mscale(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * Log(scale) + 1.0;
}

double YarnAttentionFactor(const RopeConfig& rope) {
  const double mscale = rope.mscale.value_or(0);
  const double mscale_all_dim = rope.mscale_all_dim.value_or(0);
  if (mscale != 0 && mscale_all_dim != 0)
    return Mscale(*rope.factor, mscale) / Mscale(*rope.factor, mscale_all_dim);
  return Mscale(*rope.factor, 1);
}

// modeling_rope_utils.py:448.
double CorrectionDim(double rotations, double dim, double base, double length) {
  return (dim * Log(length / (rotations * 2 * kPi))) / (2 * Log(base));
}

// modeling_rope_utils.py:471-483.
Result<std::vector<float>> YarnFrequencies(const RopeConfig& rope) {
  if (rope.theta == 1.0) return Fail(RopeError("rope_theta", "yarn divides by log(rope_theta), which is 0"));
  const double dim = static_cast<double>(rope.dim);
  const double length = static_cast<double>(*rope.original_max_position_embeddings);
  double low = CorrectionDim(*rope.beta_fast, dim, rope.theta, length);
  double high = CorrectionDim(*rope.beta_slow, dim, rope.theta, length);
  if (*rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  const float low_f32 = F32(low);
  const float range = F32(high - low);
  const float factor = F32(*rope.factor);
  std::vector<float> frequencies = Powers(F32(rope.theta), rope.dim);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float extrapolation = 1.0f / frequencies[i];
    const float interpolation = 1.0f / (factor * frequencies[i]);
    const float ramp = std::clamp((static_cast<float>(i) - low_f32) / range, 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float interpolated = interpolation * (1.0f - keep);
    const float extrapolated = extrapolation * keep;
    frequencies[i] = interpolated + extrapolated;
  }
  return frequencies;
}

// modeling_rope_utils.py:643-661. A scalar divided by a tensor is the tensor's reciprocal times the
// scalar there: two roundings.
Result<std::vector<float>> Llama3Frequencies(const RopeConfig& rope) {
  if (!(*rope.low_freq_factor > 0) || !(*rope.high_freq_factor > *rope.low_freq_factor)) {
    return Fail(RopeError(
        "rope_high_freq_factor",
        "llama3 needs 0 < low_freq_factor < high_freq_factor: the source divides by their difference"));
  }
  const double length = static_cast<double>(*rope.original_max_position_embeddings);
  const float low_wavelength = F32(length / *rope.low_freq_factor);
  const float high_wavelength = F32(length / *rope.high_freq_factor);
  const float factor = F32(*rope.factor);
  const float low = F32(*rope.low_freq_factor);
  const float range = F32(*rope.high_freq_factor - *rope.low_freq_factor);
  std::vector<float> frequencies = Reciprocals(Powers(F32(rope.theta), rope.dim));
  for (float& frequency : frequencies) {
    const float wavelength = (1.0f / frequency) * F32(2 * kPi);
    const float scaled = wavelength > low_wavelength ? frequency / factor : frequency;
    const bool medium = !(wavelength < high_wavelength) && !(wavelength > low_wavelength);
    if (!medium) {
      frequency = scaled;
      continue;
    }
    const float smooth = ((1.0f / wavelength) * F32(length) - low) / range;
    const float slow = ((1.0f - smooth) * scaled) / factor;
    const float fast = smooth * scaled;
    frequency = slow + fast;
  }
  return frequencies;
}

Result<std::vector<float>> Frequencies(const RopeConfig& rope, uint64_t max_position_embeddings) {
  switch (rope.type) {
    case RopeType::kDefault:
      return Reciprocals(Powers(F32(rope.theta), rope.dim));
    case RopeType::kLinear: {
      std::vector<float> frequencies = Reciprocals(Powers(F32(rope.theta), rope.dim));
      for (float& frequency : frequencies) frequency /= F32(*rope.factor);
      return frequencies;
    }
    case RopeType::kDynamic: {
      SLM_ASSIGN(const double base, DynamicBase(rope, max_position_embeddings));
      return Reciprocals(Powers(F32(base), rope.dim));
    }
    case RopeType::kYarn:
      return YarnFrequencies(rope);
    case RopeType::kLlama3:
      return Llama3Frequencies(rope);
  }
  return Fail(ErrorCode::kInternal, "unknown rope type");
}

}  // namespace

float RopePower(float base, float exponent) {
  if (exponent == 0.0f || base == 1.0f) return 1.0f;
  return F32(numeric::RoundToOdd(PairPow(static_cast<double>(base), static_cast<double>(exponent))));
}

double AttentionScale(uint64_t head_dim) {
  // sqrt of IEEE 754 is correctly rounded; one Newton step gives its error, so the quotient has
  // about 100 bits before the one rounding.
  const double n = static_cast<double>(head_dim);
  const double root = std::sqrt(n);
  const numeric::Pair rest = numeric::Pair(n) - numeric::TwoProduct(root, root);
  const numeric::Pair exact_root = numeric::TwoSum(root, rest.hi / (2 * root));
  return ToDouble(numeric::Pair(1.0) / exact_root);
}

Status ComputeRope(RopeConfig* rope, uint64_t max_position_embeddings,
                   std::optional<double> given_attention_factor) {
  if (!PositiveFinite(rope->theta) || rope->theta < 1 || rope->theta > 1e30) {
    return Fail(RopeError("rope_theta", "rope_theta must be between 1 and 1e30"));
  }
  rope->attention_factor = 1.0;
  if (rope->type == RopeType::kYarn) {
    rope->attention_factor = given_attention_factor ? *given_attention_factor : YarnAttentionFactor(*rope);
  }
  rope->attention_factor_f32 = F32(rope->attention_factor);
  if (!PositiveFinite(static_cast<double>(rope->attention_factor_f32))) {
    return Fail(RopeError("rope_attention_factor", "the attention factor is not finite and positive"));
  }
  SLM_ASSIGN(rope->inv_freq, Frequencies(*rope, max_position_embeddings));
  for (size_t i = 0; i < rope->inv_freq.size(); ++i) {
    if (!PositiveFinite(static_cast<double>(rope->inv_freq[i])) || std::isinf(rope->inv_freq[i])) {
      return Fail(RopeError("rope_inv_freq",
                            "inverse frequency " + std::to_string(i) + " is not finite and positive"));
    }
  }
  return {};
}

}  // namespace slm
