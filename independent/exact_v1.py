"""Layers of profile exact-v1, written from docs/spec/exact-v1.md alone.

float32 arithmetic is done in Python floats (binary64) and rounded to binary32 after every
operation: for +, -, *, / and square root of binary32 numbers that gives the correctly rounded
result, since 53 >= 2 * 24 + 2. Standard library only.
"""
from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

from exact_functions import bits_to_float, evaluate, float_to_bits

BLOCK = 32
_F32 = struct.Struct("<f")


def f32(value: float) -> float:
    """The nearest binary32 number; infinite where it is too large."""
    try:
        return _F32.unpack(_F32.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def function(name: str, x: float) -> float:
    return bits_to_float(evaluate(name, float_to_bits(x)))


def dot2(a: list[float], b: list[float]) -> float:
    total = 0.0
    for begin in range(0, len(a), BLOCK):
        s = 0.0
        for x, y in zip(a[begin:begin + BLOCK], b[begin:begin + BLOCK]):
            s = f32(s + f32(x * y))
        total = f32(total + s)
    return total


def rms_norm(x: list[float], weight: list[float], epsilon: float) -> list[float]:
    mean = f32(dot2(x, x) / float(len(x)))
    inverse = f32(1.0 / function("sqrt", f32(mean + epsilon)))
    return [f32(w * f32(value * inverse)) for w, value in zip(weight, x)]


def linear(matrix: list[list[float]], x: list[float], bias: list[float] | None) -> list[float]:
    y = [dot2(row, x) for row in matrix]
    return y if bias is None else [f32(value + b) for value, b in zip(y, bias)]


def rotary(head: list[float], t: int, inv_freq: list[float], factor: float) -> list[float]:
    half = len(inv_freq)
    out = list(head)
    for i in range(half):
        angle = f32(float(t) * inv_freq[i])
        c = f32(function("cos", angle) * factor)
        s = f32(function("sin", angle) * factor)
        out[i] = f32(f32(head[i] * c) - f32(head[i + half] * s))
        out[i + half] = f32(f32(head[i + half] * c) + f32(head[i] * s))
    return out


def softmax(scores: list[float]) -> list[float]:
    largest = max(scores)
    exponentials = [function("exp", f32(score - largest)) for score in scores]
    total = 0.0
    for value in exponentials:
        total = f32(total + value)
    return [f32(value / total) for value in exponentials]


def weighted_sum(probs: list[float], values: list[list[float]]) -> list[float]:
    out = []
    for d in range(len(values[0])):
        s = 0.0
        for p, value in zip(probs, values):
            s = f32(s + f32(p * value[d]))
        out.append(s)
    return out


def activate(name: str, x: float) -> float:
    if name == "relu":
        return x if x > 0.0 else 0.0
    return function(name, x)


@dataclass
class Config:
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    epsilon: float
    scale: float
    factor: float
    activation: str  # silu, gelu_erf, gelu_tanh, relu
    inv_freq: list[float]


@dataclass
class Runner:
    """Runs positions one after another and keeps every observation, in order of position."""

    config: Config
    tensors: dict[str, list[list[float]]]  # matrices by rows; vectors as one row
    observations: dict[str, list[list[float]]] = field(default_factory=dict)
    keys: dict[tuple[int, int], list[list[float]]] = field(default_factory=dict)
    values: dict[tuple[int, int], list[list[float]]] = field(default_factory=dict)

    def note(self, name: str, row: list[float]) -> list[float]:
        self.observations.setdefault(name, []).append(row)
        return row

    def vector(self, name: str) -> list[float]:
        return self.tensors[name][0]

    def linear(self, name: str, x: list[float]) -> list[float]:
        bias = self.tensors.get(name + ".bias")
        return linear(self.tensors[name + ".weight"], x, bias[0] if bias else None)

    def heads(self, row: list[float]) -> list[list[float]]:
        size = self.config.head_dim
        return [row[i:i + size] for i in range(0, len(row), size)]

    def attention(self, layer: int, t: int, x: list[float]) -> list[float]:
        config, prefix = self.config, f"layers.{layer}.attn"
        q = self.note(f"{prefix}.q", self.linear(f"{prefix}.q", x))
        k = self.note(f"{prefix}.k", self.linear(f"{prefix}.k", x))
        v = self.note(f"{prefix}.v", self.linear(f"{prefix}.v", x))
        queries = [rotary(head, t, config.inv_freq, config.factor) for head in self.heads(q)]
        keys = [rotary(head, t, config.inv_freq, config.factor) for head in self.heads(k)]
        self.note(f"{prefix}.q_rope", sum(queries, []))
        self.note(f"{prefix}.k_rope", sum(keys, []))
        for h in range(config.n_kv_heads):
            self.keys.setdefault((layer, h), []).append(keys[h])
            self.values.setdefault((layer, h), []).append(self.heads(v)[h])
        all_scores, all_probs, attended = [], [], []
        for h in range(config.n_heads):
            kv = (layer, h // (config.n_heads // config.n_kv_heads))
            scores = [f32(dot2(queries[h], key) * config.scale) for key in self.keys[kv]]
            probs = softmax(scores)
            all_scores += scores
            all_probs += probs
            attended += weighted_sum(probs, self.values[kv])
        self.note(f"{prefix}.scores", all_scores)
        self.note(f"{prefix}.probs", all_probs)
        self.note(f"{prefix}.av", attended)
        return self.note(f"{prefix}.out", self.linear(f"{prefix}.o", attended))

    def layer(self, layer: int, t: int, residual: list[float]) -> list[float]:
        config, prefix = self.config, f"layers.{layer}"
        weight = self.vector(f"{prefix}.attn_norm.weight")
        x = self.note(f"{prefix}.attn_norm", rms_norm(residual, weight, config.epsilon))
        out = self.attention(layer, t, x)
        residual = self.note(f"{prefix}.attn_residual", [f32(a + b) for a, b in zip(residual, out)])
        weight = self.vector(f"{prefix}.mlp_norm.weight")
        x = self.note(f"{prefix}.mlp_norm", rms_norm(residual, weight, config.epsilon))
        gate = self.note(f"{prefix}.mlp.gate", self.linear(f"{prefix}.mlp.gate", x))
        up = self.note(f"{prefix}.mlp.up", self.linear(f"{prefix}.mlp.up", x))
        act = [f32(activate(config.activation, g) * u) for g, u in zip(gate, up)]
        self.note(f"{prefix}.mlp.act", act)
        down = self.note(f"{prefix}.mlp.down", self.linear(f"{prefix}.mlp.down", act))
        return self.note(f"{prefix}.output", [f32(a + b) for a, b in zip(residual, down)])

    def run(self, ids: list[int]) -> None:
        for t, token in enumerate(ids):
            residual = self.note("embed", list(self.tensors["embed.weight"][token]))
            for layer in range(self.config.n_layers):
                residual = self.layer(layer, t, residual)
            weight = self.vector("final_norm.weight")
            x = self.note("final_norm", rms_norm(residual, weight, self.config.epsilon))
            self.note("logits", linear(self.tensors["head.weight"], x, None))

    def cache_hash(self, n_positions: int) -> str:
        config = self.config
        digest = hashlib.sha256(b"slm-kv-cache-v1\n")
        digest.update(struct.pack("<4Q", config.n_layers, config.n_kv_heads, n_positions, config.head_dim))
        for cache in (self.keys, self.values):
            for layer in range(config.n_layers):
                for h in range(config.n_kv_heads):
                    for row in cache[(layer, h)]:
                        digest.update(struct.pack(f"<{len(row)}f", *row))
        return digest.hexdigest()
