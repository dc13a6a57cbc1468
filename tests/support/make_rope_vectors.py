#!/usr/bin/env python3
"""Writes vectors/rope/inverse_frequencies.json from the pinned source.

Each case holds members of config.json, and what transformers 5.24.0 builds from them: inverse
frequencies (float32, hex of the little-endian bytes), attention scaling (float64). For type
`default` it also holds the correctly rounded values, from mpmath. Needs torch, transformers and
mpmath.

    make_rope_vectors.py              writes vectors/rope/inverse_frequencies.json
    make_rope_vectors.py --check      makes them again and compares, writes nothing; exit 1 if one differs

The source's powers differ by one unit in the last place between processors. So --check lets a frequency differ by one
unit, and by what one unit of the power makes of it in the middle band of llama3 (docs/decisions/0007-llama3-band.md);
configurations, attention scaling and exact values must be equal.
"""
import json
import pathlib
import struct
import sys
from typing import Any

import mpmath
import numpy as np
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

mpmath.mp.prec = 200
FILE = pathlib.Path(__file__).resolve().parents[2] / "vectors" / "rope" / "inverse_frequencies.json"


def round_float32(exact: mpmath.mpf) -> np.float32:
    guess = np.float32(float(exact))
    near = [np.nextafter(guess, np.float32(0)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(near, key=lambda value: abs(mpmath.mpf(float(value)) - exact))


def exact_frequencies(theta: float, dim: int) -> bytes:
    out = b""
    for i in range(0, dim, 2):
        exponent = np.float32(i) / np.float32(dim)
        power = round_float32(mpmath.mpf(float(np.float32(theta))) ** mpmath.mpf(float(exponent)))
        out += (np.float32(1) / power).tobytes()
    return out


def cases() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for theta in (1e4, 1e5, 5e5, 1e6, 12345.678):
        for dim in (8, 16, 24, 64, 80, 96, 128, 256):
            rows.append({"head_dim": dim, "rope_theta": theta})
    for factor in (1.0, 2.0, 4, 3.7, 8.0):
        rows.append({"head_dim": 64, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": factor}})
    for factor in (2.0, 1.1, 4):
        rows.append({"head_dim": 96, "max_position_embeddings": 1027,
                     "rope_scaling": {"rope_type": "dynamic", "factor": factor}})
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}
    for change in ({}, {"factor": 32.0}, {"factor": 3}, {"high_freq_factor": 5.5}, {"low_freq_factor": 0.7},
                   {"original_max_position_embeddings": 2048}):
        for dim, theta in ((64, 5e5), (128, 5e5), (48, 1e4)):
            rows.append({"head_dim": dim, "max_position_embeddings": 131072, "rope_theta": theta,
                         "rope_scaling": {**llama3, **change}})
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    for change in ({}, {"factor": 16}, {"factor": None}, {"factor": 1.0}, {"attention_factor": 1.25},
                   {"attention_factor": None}, {"beta_fast": 16}, {"beta_slow": 2.5}, {"beta_fast": 0},
                   {"beta_slow": None}, {"mscale": 0.707}, {"mscale": 0.707, "mscale_all_dim": 1.3},
                   {"mscale": 1.0, "mscale_all_dim": 0}, {"truncate": False}, {"truncate": True},
                   {"truncate": None}, {"original_max_position_embeddings": 2048, "factor": 8.5}):
        for dim, theta in ((64, 1e4), (128, 1e6)):
            rows.append({"head_dim": dim, "max_position_embeddings": 16384, "rope_theta": theta,
                         "rope_scaling": {**yarn, **change}})
    rows.append({"head_dim": 64, "max_position_embeddings": 4096,
                 "rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 7e4}})
    rows.append({"head_dim": 64, "max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
                 "rope_parameters": {"rope_type": "llama3", "factor": 2.0, "rope_theta": 7e4,
                                     "low_freq_factor": 1, "high_freq_factor": 4}})
    return rows


def rows() -> list[dict[str, Any]]:
    out = []
    for members in cases():
        config = LlamaConfig(hidden_size=64, num_attention_heads=1, **json.loads(json.dumps(members)))
        rotary = LlamaRotaryEmbedding(config)
        row = {"config": members, "inv_freq": rotary.inv_freq.numpy().astype("<f4").tobytes().hex(),
               "attention_scaling": struct.pack("<d", float(rotary.attention_scaling)).hex()}
        if "rope_scaling" not in members and "rope_parameters" not in members:
            row["exact"] = exact_frequencies(members["rope_theta"], members["head_dim"]).hex()
        out.append(row)
    return out


def units_apart(left: str, right: str) -> int:
    values = [np.frombuffer(bytes.fromhex(text), "<i4").astype(np.int64) for text in (left, right)]
    return int(np.abs(values[0] - values[1]).max())


def check(now: list[dict[str, Any]]) -> int:
    recorded = json.loads(FILE.read_text())["cases"]
    differing = 0 if len(recorded) == len(now) else 1
    for old, new in zip(recorded, now):
        rope = old["config"].get("rope_scaling") or old["config"].get("rope_parameters") or {}
        allowed = 2 if rope.get("rope_type") == "llama3" else 1
        frequencies = [row.pop("inv_freq") for row in (old, new)]
        if old != new or len(frequencies[0]) != len(frequencies[1]) or units_apart(*frequencies) > allowed:
            differing += 1
            print(f"differs: {old['config']}")
    print(f"{len(now)} configurations, {differing} differ")
    return 1 if differing else 0


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        return check(rows())
    text = '{"schema": "slm.rope-vectors.v1", "source": "transformers 5.24.0, torch 2.11.0, CPU", "cases": [\n'
    FILE.write_text(text + ",\n".join(json.dumps(row) for row in rows()) + "\n]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
