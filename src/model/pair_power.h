// Logarithm, exponential and power to about 95 bits, from IEEE additions and multiplications alone.
//
// Used at conversion where a logarithm or a power must be correctly rounded on every machine; the C
// library is not called on the model path. Pure functions.
#ifndef SLM_MODEL_PAIR_POWER_H_
#define SLM_MODEL_PAIR_POWER_H_

#include "numeric/double_pair.h"

namespace slm {

// Natural logarithm; relative error below 2^-95. REQUIRES: x positive, finite, normal.
[[nodiscard]] numeric::Pair PairLog(double x);
// Relative error below 2^-90. REQUIRES: |x| < 700.
[[nodiscard]] numeric::Pair PairExp(numeric::Pair x);
// base ** exponent. REQUIRES: base positive, finite, normal; |exponent * log(base)| < 700.
[[nodiscard]] numeric::Pair PairPow(double base, double exponent);

}  // namespace slm

#endif  // SLM_MODEL_PAIR_POWER_H_
