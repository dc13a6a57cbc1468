"""The rules of family llama for a .slm file, from docs/spec/family-llama.md and docs/spec/slm.md alone.

Holds what an artifact says of itself against itself: configuration, tensors, ledger. Standard library only.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

Bad = Callable[[str, str, str], NoReturn]  # code, field of the manifest, what

FIXED = {"schema": "slm.effective-config.v1", "architecture": "LlamaForCausalLM", "family": "llama",
         "norm_type": "rmsnorm", "norm_place": "pre", "norm_gain": "weight", "rope_pairing": "half",
         "rope_permutation": "none", "attention_mask": "causal", "attention_pattern": "full", "sliding_window": "none",
         "attention_softcap": "none", "logit_scale": "none", "logit_softcap": "none", "embedding_scale": "none",
         "cache_type": "full", "cache_eviction": "none", "position_policy": "from-zero", "inference_dtype": "f32",
         "numeric_profile": "exact-v1", "unk_token": "none", "tensor_parallel": 1, "head_bias": False}
SIZES = ("vocab_size", "padded_vocab_size", "hidden_size", "intermediate_size", "n_layers", "n_heads", "n_kv_heads",
         "head_dim", "trained_context", "max_positions")
FLAGS = ("tie_word_embeddings", "q_bias", "k_bias", "v_bias", "o_bias", "gate_bias", "up_bias", "down_bias")
FORMS = {"silu": "x*sigmoid(x)", "gelu": "0.5*x*(1+erf(x/sqrt(2)))",
         "gelu_pytorch_tanh": "0.5*x*(1+tanh(sqrt(2/pi)*(x+0.044715*x^3)))", "relu": "max(x,0)"}
ROPE = {"default": (), "linear": ("factor",), "dynamic": ("factor",),
        "yarn": ("factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "truncate"),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")}
ROPE_F64 = ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
SOURCE_DTYPE = {"f32": "F32", "bf16": "BF16", "f16": "F16"}
WIDTH = {"f32": 4, "bf16": 2, "f16": 2}
PROFILE_VERSION = 1


def f32(value: float) -> float:
    """Rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def power(base: float, exponent: float) -> float:
    """base ** exponent in float32, correctly rounded."""
    with decimal.localcontext() as context:
        context.prec = 60
        exact = Fraction(decimal.Decimal(base) ** decimal.Decimal(exponent))
    near = struct.unpack("<I", struct.pack("<f", float(exact)))[0]
    around = [struct.unpack("<f", struct.pack("<I", near + step))[0] for step in (-1, 0, 1)]
    return min(around, key=lambda candidate: abs(Fraction(candidate) - exact))


def logarithm(value: float) -> float:
    with decimal.localcontext() as context:
        context.prec = 60
        return float(decimal.Decimal(value).ln())


class Family:
    """Checks one manifest. `bad` raises."""

    def __init__(self, manifest: dict[str, Any], bad: Bad) -> None:
        self.manifest = manifest
        self.bad = bad
        self.map = manifest["config"]
        self.known: set[str] = set()

    def take(self, key: str, kind: type) -> Any:
        self.known.add(key)
        value = self.map.get(key)
        if type(value) is not kind or (kind is int and value < 0):
            self.bad("SLM-SCHEMA", f"config.{key}", "absent or of the wrong kind")
        return value

    def real(self, key: str, width: int = 8) -> float:
        raw = self.take(key, bytes)
        value = struct.unpack("<d" if width == 8 else "<f", raw)[0] if len(raw) == width else math.nan
        if not math.isfinite(value):
            self.bad("SLM-SCHEMA", f"config.{key}", "not a finite number")
        return value

    def value(self, key: str, holds: bool) -> None:
        if not holds:
            self.bad("SLM-SCHEMA", f"config.{key}", "a value outside its range")

    def check(self) -> None:
        self.read()
        self.check_derived()
        self.check_profile()
        self.check_tensors()

    def read(self) -> None:
        for key, wanted in FIXED.items():
            self.value(key, self.take(key, type(wanted)) == wanted)
        self.c = {key: self.take(key, int) for key in SIZES} | {key: self.take(key, bool) for key in FLAGS}
        c = self.c
        activation = self.take("activation", str)
        self.value("activation", activation in FORMS)
        self.value("activation_form", self.take("activation_form", str) == FORMS[activation])
        eps, eps_f32 = self.real("norm_eps"), self.real("norm_eps_f32", 4)
        self.read_rope()
        scale, scale_f32 = self.real("attention_scale"), self.real("attention_scale_f32", 4)
        self.scale = scale
        self.value("source_dtype", self.take("source_dtype", str) in WIDTH)
        for key in ("bos_token_id", "pad_token_id"):
            if key in self.map:
                self.value(key, self.take(key, int) < c["vocab_size"])
        eos = self.take("eos_token_ids", list)
        self.value("eos_token_ids", all(type(i) is int and 0 <= i < c["vocab_size"] for i in eos)
                   and all(a < b for a, b in zip(eos, eos[1:])))
        for key in self.map:
            self.value(key, key in self.known)
        for key in SIZES:
            self.value(key, 1 <= c[key] <= 1 << 28)
        self.value("n_layers", c["n_layers"] <= 4096 and c["n_heads"] <= 65536 and c["head_dim"] <= 65536)
        self.value("max_positions", c["max_positions"] <= 1 << 24)
        self.value("padded_vocab_size", c["padded_vocab_size"] == c["vocab_size"])
        self.value("n_kv_heads", c["n_kv_heads"] <= c["n_heads"] and c["n_heads"] % c["n_kv_heads"] == 0)
        self.value("rope_dim", self.dim == c["head_dim"] and self.dim % 2 == 0)
        self.value("norm_eps_f32", f32(eps) == eps_f32 and eps_f32 > 0)
        self.value("attention_scale_f32", f32(scale) == scale_f32 and scale > 0)

    def read_rope(self) -> None:
        self.type = self.take("rope_type", str)
        self.value("rope_type", self.type in ROPE)
        self.theta = self.real("rope_theta")
        self.dim = self.take("rope_dim", int)
        self.p: dict[str, Any] = {}
        for name in ROPE_F64:
            if f"rope_{name}" in self.map:
                self.p[name] = self.real(f"rope_{name}")
        for name, kind in (("original_max_position_embeddings", int), ("truncate", bool)):
            if f"rope_{name}" in self.map:
                self.p[name] = self.take(f"rope_{name}", kind)
        self.attention_factor = self.real("rope_attention_factor")
        self.value("rope_attention_factor_f32",
                   f32(self.attention_factor) == self.real("rope_attention_factor_f32", 4))
        raw = self.take("rope_inv_freq", bytes)
        self.value("rope_inv_freq", len(raw) == self.dim // 2 * 4)
        self.frequencies = struct.unpack(f"<{len(raw) // 4}f", raw)
        self.value("rope_inv_freq", all(math.isfinite(f) and f > 0 for f in self.frequencies))
        optional = ("mscale", "mscale_all_dim") if self.type == "yarn" else ()
        for name in (*ROPE_F64, "original_max_position_embeddings", "truncate"):
            if name not in optional:
                self.value(f"rope_{name}", (name in self.p) == (name in ROPE[self.type]))

    def check_derived(self) -> None:
        with decimal.localcontext() as context:
            context.prec = 60
            scale = float(1 / decimal.Decimal(self.c["head_dim"]).sqrt())
        if self.scale != scale:
            self.bad("CFG-SHAPE", "config.attention_scale", "is not head_dim ** -0.5")
        if self.c["trained_context"] != self.p.get("original_max_position_embeddings", self.c["max_positions"]):
            self.bad("CFG-ROPE", "config.trained_context", "does not follow")
        if not 1 <= self.theta <= 1e30:
            self.bad("CFG-ROPE", "config.rope_theta", "must be 1 to 1e30")
        if self.type == "yarn" and not f32(self.attention_factor) > 0:
            self.bad("CFG-ROPE", "config.rope_attention_factor", "must be positive")
        expected = self.expected_frequencies()
        if self.type != "yarn" and self.attention_factor != 1.0:
            self.bad("CFG-ROPE", "config.rope_attention_factor", "this rope type has 1.0")
        if list(self.frequencies) != expected:
            self.bad("CFG-ROPE", "config.rope_inv_freq", "not those that the rotary parameters give")

    def expected_frequencies(self) -> list[float]:
        p, d, theta = self.p, self.dim, f32(self.theta)
        if self.type == "dynamic":
            n = float(self.c["max_positions"])
            if d <= 2:
                self.bad("CFG-ROPE", "config.rope_type", "dynamic needs head_dim above 2")
            ratio = p["factor"] * n / n - (p["factor"] - 1)
            if not ratio > 0:
                self.bad("CFG-ROPE", "config.rope_factor", "not positive")
            with decimal.localcontext() as context:
                context.prec = 60
                grown = float(decimal.Decimal(ratio) ** decimal.Decimal(d / (d - 2)))
            theta = f32(self.theta * grown if ratio != 1 else self.theta)
        powers = [power(theta, f32(i / d)) if i and theta != 1 else 1.0 for i in range(0, d, 2)]
        plain = [f32(1 / p_) for p_ in powers]
        if self.type == "linear":
            return [f32(f / f32(p["factor"])) for f in plain]
        if self.type == "llama3":
            return [self.llama3(f) for f in plain]
        if self.type == "yarn":
            return self.yarn(powers)
        return plain

    def llama3(self, f: float) -> float:
        p = self.p
        low, high, n = p["low_freq_factor"], p["high_freq_factor"], float(p["original_max_position_embeddings"])
        if not 0 < low < high:
            self.bad("CFG-ROPE", "config.rope_high_freq_factor", "0 < low < high")
        w, factor = f32(f32(1 / f) * f32(2 * math.pi)), f32(p["factor"])
        if w > f32(n / low):
            return f32(f / factor)
        if w < f32(n / high):
            return f
        s = f32(f32(f32(f32(1 / w) * f32(n)) - f32(low)) / f32(high - low))
        return f32(f32(f32(f32(1 - s) * f) / factor) + f32(s * f))

    def yarn(self, powers: list[float]) -> list[float]:
        p, d = self.p, float(self.dim)
        if self.theta == 1:
            self.bad("CFG-ROPE", "config.rope_theta", "yarn divides by its logarithm")
        n = float(p["original_max_position_embeddings"])
        low, high = ((d * logarithm(n / (r * 2 * math.pi))) / (2 * logarithm(self.theta))
                     for r in (p["beta_fast"], p["beta_slow"]))
        if p["truncate"]:
            low, high = float(math.floor(low)), float(math.ceil(high))
        low, high = max(low, 0.0), min(high, d - 1)
        if low == high:
            high += 0.001
        out = []
        for i, value in enumerate(powers):
            ramp = min(max(f32(f32(i - f32(low)) / f32(high - low)), 0.0), 1.0)
            keep = f32(1 - ramp)
            inner = f32(f32(1 / f32(f32(p["factor"]) * value)) * f32(1 - keep))
            out.append(f32(inner + f32(f32(1 / value) * keep)))
        return out

    def check_profile(self) -> None:
        profile = self.manifest["family_profile"]
        if profile["family"] != "llama":
            self.bad("CFG-ARCHITECTURE", "family_profile.family", "another family")
        if not 1 <= profile["version"] <= PROFILE_VERSION:
            self.bad("SLM-VERSION", "family_profile.version", "an unknown version")

    def tensors(self) -> dict[str, tuple[str, int | None, list[int], str]]:
        """name: role, layer, shape, name in the source."""
        c = self.c
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        q, kv = c["n_heads"] * c["head_dim"], c["n_kv_heads"] * c["head_dim"]
        out: dict[str, tuple[str, int | None, list[int], str]] = {
            "embed.weight": ("embed.weight", None, [c["vocab_size"], hidden], "model.embed_tokens.weight"),
            "final_norm.weight": ("final_norm.weight", None, [hidden], "model.norm.weight"),
            "head.weight": ("head.weight", None, [c["vocab_size"], hidden], "lm_head.weight")}
        linear = (("attn.q", "self_attn.q_proj", q, hidden, "q_bias"), ("attn.k", "self_attn.k_proj", kv, hidden, "k_bias"),
                  ("attn.v", "self_attn.v_proj", kv, hidden, "v_bias"), ("attn.o", "self_attn.o_proj", hidden, q, "o_bias"),
                  ("mlp.gate", "mlp.gate_proj", inner, hidden, "gate_bias"), ("mlp.up", "mlp.up_proj", inner, hidden, "up_bias"),
                  ("mlp.down", "mlp.down_proj", hidden, inner, "down_bias"))
        for layer in range(c["n_layers"]):
            def add(role: str, source: str, shape: list[int], layer: int = layer) -> None:
                out[f"layers.{layer}.{role}"] = (role, layer, shape, f"model.layers.{layer}.{source}")
            add("attn_norm.weight", "input_layernorm.weight", [hidden])
            add("mlp_norm.weight", "post_attention_layernorm.weight", [hidden])
            for role, source, rows, cols, bias in linear:
                add(f"{role}.weight", f"{source}.weight", [rows, cols])
                if c[bias]:
                    add(f"{role}.bias", f"{source}.bias", [rows])
        return out

    def check_tensors(self) -> None:
        wanted = self.tensors()
        tied = self.c["tie_word_embeddings"]
        rows = self.manifest["tensors"]
        for i, row in enumerate(rows):
            where = f"tensors[{i}]"
            if row["name"] not in wanted:
                if row.get("layer", 0) >= self.c["n_layers"]:
                    self.bad("MAP-LAYER", f"{where}.layer", "a layer past the last")
                self.bad("MAP-UNCONSUMED", f"{where}.name", "no tensor of this configuration")
            role, layer, shape, source = wanted.pop(row["name"])
            if row["role"] != role:
                self.bad("SLM-SCHEMA", f"{where}.role", f"its role is {role}")
            if row.get("layer") != layer:
                self.bad("SLM-SCHEMA", f"{where}.layer", "is not the layer of its name")
            if row["layout"] != ("rows16" if len(shape) == 2 else "row-major"):
                self.bad("SLM-LAYOUT", f"{where}.layout", "another layout")
            if row["shape"] != shape:
                by_vocabulary = role in ("embed.weight", "head.weight") and len(row["shape"]) == 2 and row["shape"][1] == shape[1]
                self.bad("CFG-VOCAB-SHAPE" if by_vocabulary else "MAP-SHAPE", f"{where}.shape", "another shape")
            is_alias = tied and role == "head.weight"
            if ("alias_of" in row) != is_alias:
                self.bad("CFG-TIED", f"{where}.{'blob' if is_alias else 'alias_of'}", "tied flag and tensor disagree")
            if is_alias and rows[row["alias_of"]]["name"] != "embed.weight":
                self.bad("CFG-TIED", f"{where}.alias_of", "must stand for embed.weight")
            self.check_lineage(row, where, shape, source, is_alias)
        if wanted:
            self.bad("MAP-MISSING", "tensors", f"{sorted(wanted)[0]} is absent")

    def check_lineage(self, row: dict[str, Any], where: str, shape: list[int], source: str, is_alias: bool) -> None:
        names = [source]
        if is_alias:
            names = ["model.embed_tokens.weight", source][: len(row["source"])]
        size = WIDTH[row["dtype"]] * math.prod(shape)
        for i, part in enumerate(row["source"]):
            if (i >= len(names) or part["name"] != names[i] or part["shape"] != shape
                    or part["dtype"] != SOURCE_DTYPE[row["dtype"]] or part["end"] - part["begin"] != size):
                self.bad("SLM-LINEAGE", f"{where}.source[{i}]", "does not give the tensor")
        expected: list[dict[str, Any]] = []
        if is_alias:
            expected = [{"op": "drop-equal", "of": source}] if len(names) == 2 else []
            expected.append({"op": "alias", "of": "embed.weight"})
        elif len(shape) == 2:
            expected = [{"op": "row-interleave-16", "rows": shape[0], "cols": shape[1],
                         "padded_rows": -(-shape[0] // 16) * 16, "fill": "zero"}]
        else:
            expected = [{"op": "identity"}]
        if [{k: v for k, v in step.items() if k != "proof"} for step in row["transforms"]] != expected:
            self.bad("SLM-LINEAGE", f"{where}.transforms", "not those that make this tensor")
