// Elementary functions of profile exact-v1: float32 to float32, correctly rounded (nearest,
// ties to even) as mathematical functions of one real number (docs/spec/exact-v1.md).
//
// So each result is defined by mathematics, not by this code, and is the same on every
// machine. The computation uses IEEE double +, -, *, / in a fixed order and integers only: no
// libm, no fused multiply-add, no wider type. A double result with a bound on its error is
// rounded if the bound allows only one answer; otherwise the same formula runs in pairs of
// doubles (about 100 bits). tools/check_math.cc checks all 2^32 inputs of each function.
//
// NaN gives the quiet NaN 0x7fc00000. Infinities give the limit; Sin and Cos have none there
// and give that NaN. A result that rounds to zero keeps the sign of the exact value; an exact
// zero keeps the sign of the argument for the odd functions and for Silu, GeluErf, GeluTanh.
// Pure functions, safe on any thread, in the default rounding mode.
//
// Reduction of large angles: M. Payne, R. Hanek, "Radian reduction for trigonometric
// functions", 1983. Pairs of doubles: T. Dekker, 1971. Rounding test: A. Ziv, 1991.
#ifndef SLM_NUMERIC_EXACT_MATH_H_
#define SLM_NUMERIC_EXACT_MATH_H_

namespace slm::numeric {

[[nodiscard]] float Exp(float x);
[[nodiscard]] float Tanh(float x);
[[nodiscard]] float Erf(float x);
[[nodiscard]] float Sin(float x);
[[nodiscard]] float Cos(float x);
[[nodiscard]] float Sigmoid(float x);   // 1 / (1 + e^-x)
[[nodiscard]] float Silu(float x);      // x / (1 + e^-x)
[[nodiscard]] float GeluErf(float x);   // x * (1 + erf(x / sqrt 2)) / 2
[[nodiscard]] float GeluTanh(float x);  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
// Square root by integers; NaN below zero, -0 for -0.
[[nodiscard]] float Sqrt(float x);

}  // namespace slm::numeric

#endif  // SLM_NUMERIC_EXACT_MATH_H_
