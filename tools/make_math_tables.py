#!/usr/bin/env python3
"""Writes src/numeric/math_tables.inc: the constants of the correctly rounded functions.

Every entry is a pair of doubles whose unevaluated sum is the real number to about 2^-106
relative. Standard library only (decimal with 120 digits); the output is deterministic.
Usage: make_math_tables.py > src/numeric/math_tables.inc
"""
from decimal import Decimal, getcontext
from fractions import Fraction
import math

getcontext().prec = 120


def atan_inverse(n: int) -> Decimal:
    """arctan(1/n) by its series."""
    x = Decimal(1) / n
    square = x * x
    total, power, k = Decimal(0), x, 0
    while abs(power) > Decimal(10) ** -(getcontext().prec - 2):
        total += (power if k % 2 == 0 else -power) / (2 * k + 1)
        power *= square
        k += 1
    return total


PI = 4 * (4 * atan_inverse(5) - atan_inverse(239))
LN2 = Decimal(2).ln()


def erf(x: Decimal) -> Decimal:
    """erf by the series with positive terms only: 2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1)/(2n+1)!!."""
    term, total, n = x, Decimal(0), 0
    while term > Decimal(10) ** -(getcontext().prec - 2):
        total += term
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
    return 2 / PI.sqrt() * (-x * x).exp() * total


def mills(t: Decimal) -> Decimal:
    """(1 - Phi(t)) / phi(t): by the series of Phi with more digits than the cancellation eats."""
    term, total, n = t, Decimal(0), 0
    while n == 0 or term > Decimal(10) ** -(getcontext().prec - 2):
        total += term
        n += 1
        term = term * t * t / (2 * n + 1)
    # 1 - Phi = 1/2 - phi * total
    density = (-t * t / 2).exp() / (2 * PI).sqrt()
    return (Decimal(1) / 2 - density * total) / density


def pair(value: Decimal) -> str:
    exact = Fraction(value)
    hi = float(exact)
    lo = float(exact - Fraction(hi))
    return "{%s, %s}" % (hi.hex(), lo.hex())


def emit(name: str, values: list[Decimal]) -> None:
    print(f"constexpr Pair {name}[{len(values)}] = {{")
    for value in values:
        print(f"    {pair(value)},")
    print("};")


def main() -> None:
    print("// Written by tools/make_math_tables.py; do not edit.")
    step = LN2 / 32
    # k * kStep1 is exact for |k| < 2^14: 38 significant bits.
    scale = 2 ** (38 - math.frexp(float(step))[1])
    step1 = Fraction(math.floor(Fraction(step) * scale), scale)
    print(f"constexpr double kStepsPerUnit = {float(Fraction(1 / step)).hex()};  // 32 / ln 2")
    print(f"constexpr double kStep1 = {float(step1).hex()};  // ln 2 / 32 = kStep1 + kStep2")
    print(f"constexpr Pair kStep2 = {pair(step - Decimal(step1.numerator) / Decimal(step1.denominator))};")
    print(f"constexpr Pair kHalfPi = {pair(PI / 2)};")
    print(f"constexpr Pair kInvSqrt2Pi = {pair(1 / (2 * PI).sqrt())};")
    gate = 2 * (2 / PI).sqrt()
    print(f"constexpr Pair kGate1 = {pair(gate)};  // 2 sqrt(2 / pi)")
    print(f"constexpr Pair kGate3 = {pair(gate * Decimal(44715) / Decimal(1000000))};  // 0.044715 * kGate1")
    emit("kExpTable", [(step * j).exp() for j in range(32)])  # 2^(j/32)
    emit("kInvFactorial", [Decimal(1) / math.factorial(n) for n in range(30)])
    emit("kErfTable", [erf(Decimal(i) / 16) for i in range(65)])  # erf(i/16)
    emit("kErfSlope", [2 / PI.sqrt() * (-(Decimal(i) / 16) ** 2).exp() for i in range(65)])  # its derivative
    getcontext().prec = 220  # mills cancels up to 50 digits
    globals()["PI"] = 4 * (4 * atan_inverse(5) - atan_inverse(239))
    emit("kMillsTable", [mills(Decimal(i) / 8) for i in range(117)])  # (1 - Phi(i/8)) / phi(i/8)
    bits = math.floor(Fraction(2 / PI) * 2**352)
    words = [(bits >> (352 - 32 * (i + 1))) & 0xFFFFFFFF for i in range(11)]
    ln2 = math.floor(Fraction(LN2) * 2**256)  # LN2 stands above: 120 digits are 398 bits
    print("// Bits of ln 2 below the point, least significant word first.")
    print("constexpr uint32_t kLn2[8] = {")
    texts = [f"{(ln2 >> (32 * i)) & 0xFFFFFFFF:#010x}" for i in range(8)]
    print("    " + ", ".join(texts[:4]) + ",\n    " + ", ".join(texts[4:]) + "};")
    print("// Bits of 2/pi, most significant first, after one word of zeros.")
    print("constexpr uint32_t kTwoOverPi[12] = {")
    texts = ["0x00000000"] + [f"{word:#010x}" for word in words]
    print("    " + ", ".join(texts[:6]) + ",\n    " + ", ".join(texts[6:]) + "};")


if __name__ == "__main__":
    main()
