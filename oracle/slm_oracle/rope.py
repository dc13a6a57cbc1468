"""Inverse rotary frequencies as the artifact holds them: float32 steps in the order of the pinned source,
with each power correctly rounded (docs/spec/family-llama.md). Shares no code with the framework."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np

from . import OracleError

F = np.float32


def power_f32(base: np.float32, exponent: np.float32) -> np.float32:
    """base ** exponent, rounded once to float32 (ties to even)."""
    with mpmath.workprec(240):
        value = mpmath.power(mpmath.mpf(float(base)), mpmath.mpf(float(exponent)))
    with mpmath.workprec(24):
        return F(float(+value))


def _powers(theta: float, dim: int) -> np.ndarray:
    exponents = np.arange(0, dim, 2, dtype=np.float32) / F(dim)
    return np.array([power_f32(F(theta), exponent) for exponent in exponents], np.float32)


def inverse_frequencies(rope: dict[str, Any], dim: int, max_positions: int) -> tuple[np.ndarray, float]:
    """(frequencies in float32, factor of cosine and sine in float64) for standardized rope parameters."""
    kind = rope["rope_type"]
    theta = float(rope["rope_theta"])
    if kind == "dynamic":  # admitted up to max_position_embeddings, where this factor is 1 but for its rounding
        factor = rope["factor"]
        theta *= ((factor * max_positions / max_positions) - (factor - 1)) ** (dim / (dim - 2))
    powers = _powers(theta, dim)
    default = F(1) / powers
    if kind in ("default", "dynamic"):
        return default, 1.0
    if kind == "linear":
        return default / F(rope["factor"]), 1.0
    if kind == "llama3":
        return _llama3(default, rope), 1.0
    if kind == "yarn":
        return _yarn(powers, rope, dim, max_positions)
    raise OracleError(f"rope type {kind} is not known")


def _llama3(default: np.ndarray, rope: dict[str, Any]) -> np.ndarray:
    factor, low, high = F(rope["factor"]), float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    old = rope["original_max_position_embeddings"]
    # A number divided by a tensor is the tensor's reciprocal times the number, there as here.
    wavelen = (F(1) / default) * F(2 * math.pi)
    scaled = np.where(wavelen > F(old / low), default / factor, default)
    smooth = ((F(1) / wavelen) * F(old) - F(low)) / F(high - low)
    smoothed = (F(1) - smooth) * scaled / factor + smooth * scaled
    medium = ~(wavelen < F(old / high)) & ~(wavelen > F(old / low))
    return np.where(medium, smoothed, scaled)


def _yarn(powers: np.ndarray, rope: dict[str, Any], dim: int, max_positions: int) -> tuple[np.ndarray, float]:
    theta, original = float(rope["rope_theta"]), rope["original_max_position_embeddings"]
    factor = rope.get("factor")
    if factor is None:
        factor = max_positions / original
    mscale, mscale_all = rope.get("mscale"), rope.get("mscale_all_dim")

    def magnitude(scale: float, multiplier: float = 1) -> float:
        return 1.0 if scale <= 1 else 0.1 * multiplier * math.log(scale) + 1.0

    attention_factor = rope.get("attention_factor")
    if attention_factor is None:
        if mscale and mscale_all:
            attention_factor = magnitude(factor, mscale) / magnitude(factor, mscale_all)
        else:
            attention_factor = magnitude(factor)

    def correction(rotations: float) -> float:
        return (dim * math.log(original / (rotations * 2 * math.pi))) / (2 * math.log(theta))

    low, high = correction(rope.get("beta_fast") or 32), correction(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - F(low)) / F(high - low), F(0), F(1))
    keep = F(1) - ramp
    frequencies = (F(1) / (F(factor) * powers)) * (F(1) - keep) + (F(1) / powers) * keep
    return frequencies, float(attention_factor)
