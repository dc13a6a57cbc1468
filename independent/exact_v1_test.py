#!/usr/bin/env python3
"""Runs exact_v1.py on a model that the C++ runtime wrote out, and compares every bit (OPS-07).

Usage: exact_v1_test.py DUMP.json
DUMP.json: {"config", "ids", "tensors": {name: {"shape", "hex"}} with logical rows,
"observations": {name: hex}, "kv_hash"}; numbers are little-endian f32 in hexadecimal.
"""
from __future__ import annotations

import json
import struct
import sys

from exact_v1 import Config, Runner, dot2


def floats(text: str) -> list[float]:
    data = bytes.fromhex(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def rows(tensor: dict) -> list[list[float]]:
    values = floats(tensor["hex"])
    width = tensor["shape"][-1]
    return [values[i:i + width] for i in range(0, len(values), width)]


def by_head(observed: list[list[float]], n_heads: int) -> list[float]:
    """Packed rows of scores: the runtime puts heads first, positions second."""
    out = []
    for h in range(n_heads):
        for t, row in enumerate(observed):
            out += row[h * (t + 1):(h + 1) * (t + 1)]
    return out


def check_page_examples() -> bool:
    """The worked examples of the page."""
    example = dot2([1.0] * 33, [2.0**24] * 32 + [1.0])
    return struct.pack("<f", example).hex() == "0000004e"


def compare(dump: dict) -> int:
    raw = dump["config"]
    config = Config(raw["n_layers"], raw["n_heads"], raw["n_kv_heads"], raw["head_dim"],
                    floats(raw["epsilon"])[0], floats(raw["scale"])[0], floats(raw["factor"])[0],
                    raw["activation"], floats(raw["inv_freq"]))
    runner = Runner(config, {name: rows(tensor) for name, tensor in dump["tensors"].items()})
    runner.run(dump["ids"])
    differing = 0
    n_values = 0
    if set(dump["observations"]) != set(runner.observations):
        print("observation names differ:", sorted(set(dump["observations"]) ^ set(runner.observations)))
        differing += 1
    for name, text in dump["observations"].items():
        mine = runner.observations.get(name, [])
        packed = name.endswith((".scores", ".probs"))
        values = by_head(mine, config.n_heads) if packed else sum(mine, [])
        n_values += len(values)
        if struct.pack(f"<{len(values)}f", *values) != bytes.fromhex(text):
            differing += 1
            print(f"{name}: bits differ")
    if runner.cache_hash(len(dump["ids"])) != dump["kv_hash"]:
        differing += 1
        print("the cache's identity differs")
    n_arrays = len(dump["observations"])
    print(f"{raw['activation']}: {n_arrays} observations, {n_values} values, {differing} differ")
    return differing


def main(argv: list[str]) -> int:
    with open(argv[1], encoding="ascii") as file:
        dumps = json.load(file)["models"]
    if not dumps or not check_page_examples():
        print("no model in the dump, or a worked example of the page fails")
        return 1
    wrong = sum(compare(dump) for dump in dumps)
    # The comparison can fail: one flipped bit of one weight, its sign, must show.
    broken = dumps[0]
    tensor = broken["tensors"]["layers.0.mlp.up.weight"]
    digit = int(tensor["hex"][6], 16) ^ 8
    tensor["hex"] = tensor["hex"][:6] + f"{digit:x}" + tensor["hex"][7:]
    if compare(broken) == 0:
        print("a flipped weight bit went unseen")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
