#!/usr/bin/env python3
"""SMP-02: the sampler's exponential of a build against correctly rounded ones (Python's decimal).

Usage: exp64_test.py MATH_EVAL
Each input goes through the function and, where it is defined, through its last resort in integers alone.
"""
from __future__ import annotations

import math
import random
import struct
import subprocess
import sys

from sampler import double_bits, exp64

# Where the answer changes kind: 1, the neighbours of 1, subnormal results, zero, infinity.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0**-52, 2.0**-53, -(2.0**-53), 2.0**-54, -(2.0**-54), 1.5 * 2.0**-53,
           -1.5 * 2.0**-54, -3 * 2.0**-54, 5e-324, -5e-324, -708.3964185322641, -708.3964185322642, -709.0, -744.4400719213812,
           -744.4400719213813, -745.1332191019411, -745.1332191019412, -746.0, -1e308, 709.782712893384, 709.7827128933841,
           1e308, math.inf, -math.inf)


def expected(x: float) -> float:
    return math.inf if x > 709.783 else exp64(x)


def main(argv: list[str]) -> int:
    rng = random.Random("exp64")
    inputs = list(SPECIAL)
    for spread in (1e-18, 1e-15, 1e-10, 1e-5, 0.01, 1.0, 10.0, 100.0, 745.0):
        inputs += [rng.uniform(-spread, spread) for _ in range(400)]
    inputs += [rng.uniform(-746, -707) for _ in range(1200)]  # subnormal results
    inputs += [k * math.log(2) / 32 for k in range(-1000, 1000, 3)]  # where the reduction leaves nearly nothing
    inputs += [x for x in (struct.unpack("<d", rng.randbytes(8))[0] for _ in range(500)) if x == x]
    questions = [("exp64", x) for x in inputs]
    questions += [("exp64_by_integers", x) for x in inputs if 2.0**-54 < abs(x) and -746 < x < 709.78]
    text = "".join(f"{name} {double_bits(x):016x}\n" for name, x in questions)
    answers = subprocess.run([argv[1]], input=text, capture_output=True, text=True, check=True).stdout.split()
    wrong = 0
    for (name, x), answer in zip(questions, answers, strict=True):
        want = f"{double_bits(expected(x)):016x}"
        if answer != want:
            wrong += 1
            print(f"{name}({x!r}): got {answer}, want {want}")
    if double_bits(exp64(1.0)) != 0x4005BF0A8B145769:
        print("the reference itself is wrong: e")
        return 1
    print(f"{len(questions)} results compared, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
