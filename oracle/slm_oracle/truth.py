"""The float64 forward pass: every product, norm, softmax and reduction in float64 (ORA-02, mode truth).

Written from the equations of the family, not from the framework's code, and reading the weight files itself.
The rotary angle is the float32 product of position and inverse frequency, then float64 cosine and sine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from . import OracleError
from .rope import inverse_frequencies
from .source import Source

Tap = Callable[[str, "int | None", np.ndarray], None]

# What the pinned source supplies for absent keys; export compares the result with the model that it built.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}


@dataclass
class Parameters:
    """What the equations need, read from config.json alone."""

    vocab_size: int
    hidden_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    activation: str
    norm_eps: float
    max_positions: int
    tied: bool
    rope: dict[str, Any]

    @staticmethod
    def of(config: dict[str, Any]) -> "Parameters":
        if config.get("architectures") != ["LlamaForCausalLM"]:
            raise OracleError(f"architecture {config.get('architectures')} has no truth forward")
        value = {**_DEFAULTS, **config}
        heads = value["num_attention_heads"]
        rope = dict(value.get("rope_scaling") or value.get("rope_parameters") or {})
        rope.setdefault("rope_theta", value.get("rope_theta", 10000.0))
        rope.setdefault("rope_type", rope.get("type", "default"))
        if rope["rope_type"] in ("llama3", "yarn"):
            original = value.get("original_max_position_embeddings")
            if original is not None:
                rope["original_max_position_embeddings"] = original
            rope.setdefault("original_max_position_embeddings", value["max_position_embeddings"])
        return Parameters(
            vocab_size=value["vocab_size"], hidden_size=value["hidden_size"], n_layers=value["num_hidden_layers"],
            n_heads=heads, n_kv_heads=value["num_key_value_heads"] or heads,
            head_dim=value["head_dim"] or value["hidden_size"] // heads, activation=value["hidden_act"],
            norm_eps=float(value["rms_norm_eps"]), max_positions=value["max_position_embeddings"],
            tied=value["tie_word_embeddings"], rope=rope)


_erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    # exp of a large positive number overflows to infinity, and x / infinity is the right zero.
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0.0),
}


class Truth:
    def __init__(self, source: Source) -> None:
        self.parameters = p = Parameters.of(source.config)
        self._tensors = source.tensors()
        self._cache: dict[str, np.ndarray] = {}
        self.activation = ACTIVATIONS[p.activation]
        self.inv_freq, self.attention_factor = inverse_frequencies(p.rope, p.head_dim, p.max_positions)
        self.scale = p.head_dim**-0.5

    def _weight(self, name: str, required: bool = True) -> np.ndarray | None:
        if name not in self._cache:
            if name not in self._tensors:
                if required:
                    raise OracleError(f"no tensor {name}")
                return None
            self._cache[name] = self._tensors[name].f64()
        return self._cache[name]

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        y = x @ self._weight(name + ".weight").T
        bias = self._weight(name + ".bias", required=False)
        return y if bias is None else y + bias

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        square = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(square + self.parameters.norm_eps) * self._weight(name + ".weight")

    def _rotate(self, x: np.ndarray, begin: int) -> np.ndarray:
        """x: [T, heads, head_dim]; dimension i turns with i + head_dim / 2."""
        positions = np.arange(begin, begin + x.shape[0], dtype=np.float32)
        angle = (positions[:, None] * self.inv_freq[None, :]).astype(np.float64)
        cos = (np.cos(angle) * self.attention_factor)[:, None, :]
        sin = (np.sin(angle) * self.attention_factor)[:, None, :]
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def _attention(self, layer: int, x: np.ndarray, cache: list, tap: Tap) -> np.ndarray:
        p, prefix = self.parameters, f"model.layers.{layer}.self_attn."
        count = x.shape[0]
        q = self._linear(prefix + "q_proj", x).reshape(count, p.n_heads, p.head_dim)
        k = self._linear(prefix + "k_proj", x).reshape(count, p.n_kv_heads, p.head_dim)
        v = self._linear(prefix + "v_proj", x).reshape(count, p.n_kv_heads, p.head_dim)
        for role, value in (("attn.q", q), ("attn.k", k), ("attn.v", v)):
            tap(role, layer, value)
        keys, values = cache[layer]
        begin = keys.shape[0]
        q, k = self._rotate(q, begin), self._rotate(k, begin)
        tap("attn.q_rope", layer, q)
        tap("attn.k_rope", layer, k)
        keys, values = np.concatenate([keys, k]), np.concatenate([values, v])
        cache[layer] = (keys, values)
        visible = np.arange(keys.shape[0])[None, :] <= np.arange(begin, begin + count)[:, None]
        tap("attn.mask", layer, visible)
        group = p.n_heads // p.n_kv_heads
        shared = np.repeat(np.arange(p.n_kv_heads), group)
        scores = np.einsum("thd,shd->hts", q, keys[:, shared], optimize=True) * self.scale
        tap("attn.scores", layer, scores)
        masked = np.where(visible[None], scores, -np.inf)
        weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
        probs = weights / weights.sum(axis=-1, keepdims=True)
        tap("attn.probs", layer, probs)
        av = np.einsum("hts,shd->thd", probs, values[:, shared], optimize=True)
        tap("attn.av", layer, av)
        out = self._linear(prefix + "o_proj", av.reshape(count, -1))
        tap("attn.out", layer, out)
        return out

    def _mlp(self, layer: int, x: np.ndarray, tap: Tap) -> np.ndarray:
        prefix = f"model.layers.{layer}.mlp."
        gate, up = self._linear(prefix + "gate_proj", x), self._linear(prefix + "up_proj", x)
        with np.errstate(over="ignore"):
            act = self.activation(gate) * up
        down = self._linear(prefix + "down_proj", act)
        for role, value in (("mlp.gate", gate), ("mlp.up", up), ("mlp.act", act), ("mlp.down", down)):
            tap(role, layer, value)
        return down

    def new_cache(self) -> list:
        p = self.parameters
        empty = np.zeros((0, p.n_kv_heads, p.head_dim))
        return [(empty, empty) for _ in range(p.n_layers)]

    def forward(self, ids: list[int], cache: list, tap: Tap, last_only: bool = False) -> np.ndarray:
        """Logits [T, vocab] (or of the last position alone); appends to cache; tap sees every stage."""
        p = self.parameters
        x = self._weight("model.embed_tokens.weight")[np.asarray(ids)]
        tap("embed", None, x)
        for layer in range(p.n_layers):
            prefix = f"model.layers.{layer}."
            normed = self._norm(prefix + "input_layernorm", x)
            tap("attn_norm", layer, normed)
            x = x + self._attention(layer, normed, cache, tap)
            tap("attn_residual", layer, x)
            normed = self._norm(prefix + "post_attention_layernorm", x)
            tap("mlp_norm", layer, normed)
            x = x + self._mlp(layer, normed, tap)
            tap("output", layer, x)
        x = self._norm("model.norm", x)
        tap("final_norm", None, x)
        head = "model.embed_tokens" if p.tied else "lm_head"
        logits = self._linear(head, x[-1:] if last_only else x)
        if not np.all(np.isfinite(logits)):
            raise OracleError("the truth forward gave a logit that is not finite")
        return logits
