// The sampler's exponential: float64 to float64, correctly rounded (nearest, ties to even), so
// that a probability is defined by mathematics and has the same bits on every machine.
//
// IEEE double +, -, *, and integers in a fixed order: no libm, no fused multiply-add. A first
// result with about 61 bits decides all but one input in a few hundred; a second with about 95
// bits nearly all that are left; 256-bit integers the rest (no double but 0 gives a tie:
// e^x is transcendental). Rounding test: A. Ziv, "Fast evaluation of elementary mathematical
// functions with correctly rounded last bit", ACM TOMS 17, 1991.
//
// NaN gives the quiet NaN 0x7ff8000000000000; results beyond the largest double give infinity,
// below half the smallest subnormal zero. Pure, safe on any thread, in the default rounding mode.
#ifndef SLM_NUMERIC_EXACT_EXP64_H_
#define SLM_NUMERIC_EXACT_EXP64_H_

namespace slm::numeric {

[[nodiscard]] double Exp64(double x);

// The last of the three ways alone, for tests. REQUIRES: x finite, -746 < x < 709.79, |x| > 2^-54.
[[nodiscard]] double Exp64ByIntegers(double x);

}  // namespace slm::numeric

#endif  // SLM_NUMERIC_EXACT_EXP64_H_
