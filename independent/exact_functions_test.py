#!/usr/bin/env python3
"""Compares the elementary functions of a build with exact integer arithmetic.

Usage: exact_functions_test.py MATH_EVAL MATH_JSON
MATH_EVAL reads "FUNCTION HEXBITS" lines and prints result bits. MATH_JSON holds, for each
function, the inputs whose results lie nearest to a rounding boundary (over all 2^32).
"""
from __future__ import annotations

import json
import random
import subprocess
import sys

from exact_functions import evaluate, float_to_bits

FUNCTIONS = ("exp", "tanh", "erf", "sin", "cos", "sigmoid", "silu", "gelu_erf", "gelu_tanh", "sqrt")
SPECIAL = (0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000007, 0x80000005, 0x007FFFFF, 0x00800000,
           0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7F800001,
           0x42B17217, 0x42B17218, 0xC2CFF1B4, 0xC2CFF1B5, 0x3F490FDB, 0x3F490FDA, 0x39800000, 0xB3800000,
           0x34000000, 0x33800000)


def inputs(function: str, hardest: list[str]) -> list[int]:
    rng = random.Random(f"exact-v1 {function}")
    chosen = list(SPECIAL) + [int(text, 16) for text in hardest]
    chosen += [rng.getrandbits(32) for _ in range(600)]  # every magnitude
    for spread in (0.01, 1.0, 8.0, 110.0):  # where models live, and the tails
        chosen += [float_to_bits(rng.uniform(-spread, spread)) for _ in range(300)]
    return chosen


def main(argv: list[str]) -> int:
    program, record = argv[1], argv[2]
    with open(record, encoding="ascii") as file:
        hardest = {entry["function"]: entry["hardest"] for entry in json.load(file)["functions"]}
    questions = [(name, bits) for name in FUNCTIONS for bits in inputs(name, hardest.get(name, []))]
    text = "".join(f"{name} {bits:08x}\n" for name, bits in questions)
    run = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    answers = run.stdout.split()
    if len(answers) != len(questions):
        print(f"{len(questions)} questions, {len(answers)} answers")
        return 1
    wrong = 0
    for (name, bits), answer in zip(questions, answers):
        want = evaluate(name, bits)
        if int(answer, 16) != want:
            wrong += 1
            print(f"{name}({bits:08x}): got {answer}, want {want:08x}")
    # The comparison can fail: the neighbour of a right answer is wrong.
    if evaluate("exp", 0x3F800000) != 0x402DF854 or evaluate("exp", 0x3F800000) == 0x402DF855:
        print("the reference itself is wrong: e")
        return 1
    print(f"{len(questions)} results compared, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
