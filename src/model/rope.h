// Rotary parameters: inverse frequencies and the factor of cosine and sine, as the pinned source
// computes them (transformers 5.24.0, modeling_rope_utils.py and models/llama/modeling_llama.py).
//
// The source computes in float32 through the C library and vector code, whose powers differ by one
// unit in the last place between machines. Here the power is correctly rounded and every other
// operation is the source's IEEE operation in the source's order, so the bits are defined.
#ifndef SLM_MODEL_ROPE_H_
#define SLM_MODEL_ROPE_H_

#include "base/error.h"
#include "model/effective_config.h"

namespace slm {

// Fills attention_factor, attention_factor_f32 and inv_freq from the other fields.
// `given_attention_factor`: the source's attention_factor parameter (yarn), if it is given.
// Error CFG-ROPE where the parameters give a division by zero or a value that is not finite and
// positive.
[[nodiscard]] Status ComputeRope(RopeConfig* rope, uint64_t max_position_embeddings,
                                 std::optional<double> given_attention_factor);

// float32(base) ** float32(exponent), correctly rounded. REQUIRES: base >= 1, 0 <= exponent < 1.
[[nodiscard]] float RopePower(float base, float exponent);

// head_dim ** -0.5 as float64, correctly rounded. REQUIRES: 1 <= head_dim <= 2^26.
[[nodiscard]] double AttentionScale(uint64_t head_dim);

}  // namespace slm

#endif  // SLM_MODEL_ROPE_H_
