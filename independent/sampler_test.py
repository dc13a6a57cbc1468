#!/usr/bin/env python3
"""SMP-01, SMP-02, SMP-03: the sampler of a build against independent/sampler.py, on random cases and on corners.

Usage: sampler_test.py SAMPLE_EVAL [--cases N] [--seed S]
Every step is compared whole: masks, counts after each filter, every probability's bits, draw, id.
"""
from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys

from sampler import Options, double_bits, float_bits, philox4x32_10, refusal, sample, to_float
from fractions import Fraction


def as_float(value: float) -> float:
    return to_float(Fraction(value))


class Case:
    def __init__(self, options: Options, logits: list[float], context: list[int], forbidden: list[int], n_steps: int):
        self.options, self.logits = options, logits
        self.context, self.forbidden, self.n_steps = context, forbidden, n_steps

    def text(self) -> str:
        o = self.options
        words = [f"{double_bits(v):016x}" for v in (o.temperature, o.top_p, o.min_p)]
        words += [f"{float_bits(o.penalty):08x}", str(o.top_k), str(o.window), str(o.min_new_tokens), f"{o.seed:x}",
                  str(o.stream), str(o.turn)]
        for ids in (o.bans, o.eos, self.forbidden, self.context):
            words += [str(len(ids)), *map(str, ids)]
        words += [str(self.n_steps), str(len(self.logits)), *(f"{float_bits(v):08x}" for v in self.logits)]
        return " ".join(words) + "\n"

    def expected(self) -> list[str]:
        bad = refusal(self.options, len(self.logits))
        if bad is not None:
            return [f"SMP-VALUE {bad}"] * self.n_steps
        lines, context, index = [], list(self.context), 0
        for _ in range(self.n_steps):
            line = sample(self.options, self.logits, context, self.forbidden, index)
            lines.append(line)
            if line[0].isdigit():
                context.append(int(line.split()[0]))
                index += 1
        return lines


def random_case(rng: random.Random) -> Case:
    vocabulary = rng.choice((1, 2, 3, 7, 40, 200, 500))
    spread = rng.choice((1e-3, 1.0, 10.0, 80.0, 3e38))
    logits = [as_float(rng.uniform(-spread, spread)) for _ in range(vocabulary)]
    if rng.random() < 0.4:  # ties, zeros of both signs
        values = [as_float(rng.uniform(-spread, spread)) for _ in range(3)] + [0.0, -0.0]
        logits = [rng.choice(values) for _ in range(vocabulary)]

    def ids(share: float) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(int(vocabulary * share * rng.random()))]

    options = Options(
        temperature=rng.choice((0.0, 0.1, 0.7, 1.0, 1.3, 2.0**-126, 1e300, rng.uniform(0.01, 3))),
        top_k=rng.choice((0, 0, 1, 2, 5, 40, 1000)),
        top_p=rng.choice((1.0, 1.0, 0.95, 0.5, 0.0, 1e-9, rng.random())),
        min_p=rng.choice((0.0, 0.0, 0.05, 1.0, 1e-300, rng.random())),
        penalty=as_float(rng.choice((1.0, 1.0, 1.1, 1.3, 0.5, 3e38, 1e-40, rng.uniform(0.5, 2)))),
        window=rng.choice((-1, 0, 1, 3, 64)), min_new_tokens=rng.choice((0, 0, 2)),
        seed=rng.choice((0, 1, 2**32, 2**64 - 1, rng.getrandbits(64))),
        stream=rng.choice((0, 1, 2**32 - 1)), turn=rng.choice((0, 1, 7, 2**32 - 1)),
        bans=ids(0.5), eos=ids(0.3))
    return Case(options, logits, ids(2.0), ids(0.3), rng.choice((1, 3, 5)))


def corners() -> list[Case]:
    plain = [0.5, -1.0, 2.0, 2.0]
    cases = [Case(Options(temperature=t), plain, [], [], 1) for t in (-1.0, -0.0, math.nan, math.inf, 2.0**-127, 5e-324)]
    cases += [Case(Options(top_p=p), plain, [], [], 1) for p in (-0.1, 1.1, math.nan)]
    cases += [Case(Options(min_p=p), plain, [], [], 1) for p in (-0.1, 1.1, math.nan)]
    cases += [Case(Options(penalty=p), plain, [], [], 1) for p in (0.0, -1.0, math.nan, math.inf)]
    cases += [Case(Options(bans=[4]), plain, [], [], 1), Case(Options(eos=[4]), plain, [], [], 1)]
    cases += [Case(Options(bans=[0, 1, 2, 3]), plain, [], [], 2), Case(Options(bans=[0, 1]), plain, [], [2, 3], 1)]
    cases += [Case(Options(eos=[0, 1, 2, 3], min_new_tokens=1), plain, [], [], 2)]
    cases += [Case(Options(temperature=t), [0.0, bad, 1.0], [], [], 1) for t in (0.0, 1.0)
              for bad in (math.nan, math.inf, -math.inf)]
    # A NaN under a ban is still no row to choose from.
    cases.append(Case(Options(bans=[1]), [0.0, math.nan, 1.0], [], [], 1))
    # One survivor still takes its draw; at temperature 0 none is taken.
    cases.append(Case(Options(temperature=1.0, top_k=1, seed=9), plain, [], [], 4))
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if philox4x32_10([0] * 4, [0] * 2) != [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]:
        print("the independent Philox is wrong")
        return 1
    rng = random.Random(args.seed)
    cases = corners() + [random_case(rng) for _ in range(args.cases)]
    text = f"{len(cases)}\n" + "".join(case.text() for case in cases)
    answers = subprocess.run([args.program], input=text, capture_output=True, text=True, check=True).stdout.split("\n")
    at = wrong = 0
    for number, case in enumerate(cases):
        expected = case.expected()
        got = answers[at:at + len(expected)]
        at += len(expected)
        for step, (one, other) in enumerate(zip(got, expected, strict=True)):
            if one.strip() != other.strip():
                wrong += 1
                if wrong <= 5:
                    print(f"case {number} step {step}: {case.options}\n  got  {one[:300]}\n  want {other[:300]}")
    print(f"{len(cases)} cases, {at} steps compared, {wrong} wrong")
    return 1 if wrong or at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
