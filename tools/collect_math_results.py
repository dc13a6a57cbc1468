#!/usr/bin/env python3
"""Joins the JSON lines that tools/check_math.cc prints (with -hard 100) into
docs/spec/exact-v1-math.json. Usage: collect_math_results.py LINES... > docs/spec/exact-v1-math.json

A function that stands in several inputs keeps its last line. A function with a mismatch is refused.
"""
from __future__ import annotations

import json
import sys

ORDER = ("exp", "sigmoid", "silu", "sin", "cos", "tanh", "erf", "gelu_erf", "gelu_tanh", "sqrt")
MAX_HARDEST = 100


def render(entry: dict) -> str:
    hardest = [f'"{bits}"' for bits in entry["hardest"][:MAX_HARDEST]]
    rows = ",\n      ".join(", ".join(hardest[i:i + 8]) for i in range(0, len(hardest), 8))
    fields = [f'"{key}": {json.dumps(value)}' for key, value in entry.items() if key != "hardest"]
    return "    {" + ",\n     ".join([*fields, f'"hardest": [\n      {rows}]']) + "}"


def main(argv: list[str]) -> int:
    entries = {}
    for path in argv[1:]:
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.strip():
                    entry = json.loads(line)
                    entries[entry["function"]] = entry
    for entry in entries.values():
        if entry["mismatches"] != 0 or entry["inputs"] != 2**32:
            print(f"{entry['function']}: not all of 2^32 inputs agree", file=sys.stderr)
            return 1
    body = ",\n".join(render(entries[name]) for name in ORDER if name in entries)
    print('{"schema": "slm-exact-math.v1",\n "functions": [\n' + body + "\n ]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
