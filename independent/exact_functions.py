"""The elementary functions of exact-v1, from their mathematical definition alone.

Written from docs/spec/exact-v1.md. Real numbers are integers scaled by 2^P with P = 900, so
every result has hundreds of correct bits before it is rounded once to float32 (nearest, ties
to even). Standard library only; slow on purpose.
"""
from __future__ import annotations

import struct
from functools import lru_cache

P = 900
ONE = 1 << P
QUIET_NAN = 0x7FC00000
INFINITY = 0x7F800000


def _atan_inverse(n: int, bits: int) -> int:
    power = (1 << bits) // n
    total, k = 0, 0
    while power:
        total += power // (2 * k + 1) if k % 2 == 0 else -(power // (2 * k + 1))
        power //= n * n
        k += 1
    return total


def _ln2(bits: int) -> int:
    """ln 2 = 2 artanh(1/3)."""
    power = (1 << bits) // 3
    total, k = 0, 0
    while power:
        total += power // (2 * k + 1)
        power //= 9
        k += 1
    return 2 * total


PI = (4 * (4 * _atan_inverse(5, P + 64) - _atan_inverse(239, P + 64))) >> 64
WIDE = P + 200  # angles up to 2^128 leave P good bits
PI_WIDE = (4 * (4 * _atan_inverse(5, WIDE + 64) - _atan_inverse(239, WIDE + 64))) >> 64
LN2 = _ln2(P + 64) >> 64


def isqrt(n: int) -> int:
    import math

    return math.isqrt(n)


SQRT_2PI = isqrt(2 * PI * ONE)
SQRT_PI = isqrt(PI * ONE)
SQRT_2_OVER_PI = isqrt((2 * ONE * ONE // PI) * ONE)


def unpack(bits: int) -> tuple[int, int, int]:
    """(sign, significand, exponent): the finite number sign * significand * 2^exponent."""
    sign = -1 if bits >> 31 else 1
    field, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if field == 0:
        return sign, fraction, -149
    return sign, fraction | 0x800000, field - 150


def to_fixed(bits: int, scale: int = P) -> int:
    sign, significand, exponent = unpack(bits)
    shift = exponent + scale
    return sign * (significand << shift if shift >= 0 else significand >> -shift)


def round_ratio(numerator: int, scale: int, negative_zero: bool = False) -> int:
    """Bits of the float32 nearest to numerator / 2^scale, ties to even."""
    sign = 0x80000000 if numerator < 0 or (numerator == 0 and negative_zero) else 0
    magnitude = abs(numerator)
    if magnitude == 0:
        return sign
    exponent = max(magnitude.bit_length() - scale - 24, -149)  # of the last place
    shift = exponent + scale
    if shift <= 0:
        kept = magnitude << -shift
    else:
        kept, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        if rest > half or (rest == half and kept & 1):
            kept += 1
    if kept == 1 << 24:
        kept, exponent = 1 << 23, exponent + 1
    if kept < 1 << 23:
        return sign | kept
    if exponent + 150 >= 255:
        return sign | INFINITY
    return sign | ((exponent + 150) << 23) | (kept - (1 << 23))


def exp_fixed(x: int) -> int:
    """e^x for -700 < x < 700, all scaled by 2^P."""
    k, r = divmod(x, LN2)
    term, total, n = ONE, 0, 0
    while term:
        total += term
        n += 1
        term = term * r // (n << P)
    return total << k if k >= 0 else total >> -k


def sin_cos_fixed(bits: int) -> tuple[int, int]:
    x = to_fixed(bits, WIDE)
    quadrant, r = divmod(x, PI_WIDE // 2)
    r >>= WIDE - P
    results = []
    for first in (0, 1):  # cosine, sine
        term, total, n = (r if first else ONE), 0, first
        while term:
            total += term
            term = -(((term * r) >> P) * r >> P) // ((n + 1) * (n + 2))
            n += 2
            if term == -1:
                break
        results.append(total)
    cosine, sine = results
    for _ in range(quadrant % 4):
        sine, cosine = cosine, -sine
    return sine, cosine


def _odd_series(x: int, doubled: bool) -> int:
    """sum of (2^n if doubled) x^(2n+1) / (2n+1)!!."""
    square = (x * x) >> P
    term, total, n = x, 0, 0
    while term:
        total += term
        n += 1
        term = ((term * square) >> P) * (2 if doubled else 1) // (2 * n + 1)
    return total


def erf_fixed(x: int) -> int:
    gauss = exp_fixed(-((x * x) >> P))
    return 2 * gauss * _odd_series(x, True) // SQRT_PI


def normal_cdf_fixed(x: int) -> int:
    """Phi(x) for |x| < 16: 1/2 + phi(x) * sum x^(2n+1) / (2n+1)!!; the sum is odd in x."""
    density = exp_fixed(-((x * x) >> (P + 1))) * ONE // SQRT_2PI
    series = _odd_series(abs(x), False)
    half = (density * series) >> P
    return ONE // 2 + (half if x > 0 else -half)


def sigmoid_fixed(x: int) -> int:
    return ONE * ONE // (ONE + exp_fixed(-x))


@lru_cache(maxsize=None)
def evaluate(name: str, bits: int) -> int:
    """Bits of the correctly rounded result. NaN and infinities as the page says."""
    if bits & 0x7FFFFFFF > INFINITY:
        return QUIET_NAN
    negative = bits >> 31 == 1
    odd = name in ("tanh", "erf", "sin", "silu", "gelu_erf", "gelu_tanh", "sqrt")
    if bits & 0x7FFFFFFF == 0 and odd:
        return bits
    if bits & 0x7FFFFFFF == INFINITY:
        if name in ("sin", "cos") or (name == "sqrt" and negative):
            return QUIET_NAN
        limits = {"exp": (0, INFINITY), "sigmoid": (0, 0x3F800000), "tanh": (0xBF800000, 0x3F800000),
                  "erf": (0xBF800000, 0x3F800000)}
        low, high = limits.get(name, (0x80000000, INFINITY))
        return low if negative else high
    if name in ("sin", "cos"):
        sine, cosine = sin_cos_fixed(bits)
        return round_ratio(sine if name == "sin" else cosine, P)
    if name == "sqrt":
        if negative:
            return QUIET_NAN
        _, significand, exponent = unpack(bits)
        shift = 600 + (exponent & 1)
        root = isqrt(significand << shift)
        sticky = 1 if root * root != significand << shift else 0
        return round_ratio((root << 1) | sticky, -(exponent - shift) // 2 + 1)
    magnitude = to_fixed(bits & 0x7FFFFFFF)
    # Far out the answer does not change any more: results below 2^-150 or beyond 2^128, or a
    # difference from the asymptote of less than 2^-100 relative.
    if magnitude > 120 * ONE:
        far = {"exp": (0, INFINITY), "sigmoid": (0, 0x3F800000), "tanh": (0xBF800000, 0x3F800000),
               "erf": (0xBF800000, 0x3F800000)}
        low, high = far.get(name, (0x80000000, bits))
        return low if negative else high
    x = -magnitude if negative else magnitude
    if name == "exp":
        return round_ratio(exp_fixed(x), P)
    if name == "sigmoid":
        return round_ratio(sigmoid_fixed(x), P)
    if name == "silu":
        return round_ratio(x * sigmoid_fixed(x), 2 * P, negative)
    if name == "tanh":
        grown = exp_fixed(2 * x)
        return round_ratio((grown - ONE) * ONE // (grown + ONE), P)
    if name == "erf":
        if magnitude > 16 * ONE:
            return 0xBF800000 if negative else 0x3F800000
        value = erf_fixed(magnitude)
        return round_ratio(-value if negative else value, P)
    if name == "gelu_erf":
        if magnitude > 16 * ONE:
            return 0x80000000 if negative else bits
        return round_ratio(x * normal_cdf_fixed(x), 2 * P, negative)
    if name == "gelu_tanh":
        if magnitude > 16 * ONE:
            return 0x80000000 if negative else bits
        cube = (((x * x) >> P) * x) >> P
        inner = x + cube * 44715 // 1000000
        gate = (2 * SQRT_2_OVER_PI * inner) >> P
        return round_ratio(x * sigmoid_fixed(gate), 2 * P, negative)
    raise ValueError(name)


def float_to_bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def bits_to_float(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]
