"""Small sources with seeded weights, one for each variation of the family."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 41, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
    "attention_bias": False, "mlp_bias": False,
}

VARIATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "gelu": {"hidden_act": "gelu"},
    "gelu_tanh": {"hidden_act": "gelu_pytorch_tanh"},
    "relu": {"hidden_act": "relu"},
    "one_kv_head": {"num_key_value_heads": 1},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 3.7}},
    "old_spelling": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 2.5}},
    "llama3": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 32}, "head_dim": 16, "max_position_embeddings": 256},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
             "head_dim": 16},
    "yarn_all": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                                  "beta_fast": 24.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.9,
                                  "truncate": False}, "head_dim": 16},
    "new_spelling": {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
                     "head_dim": 16},
}


def write(directory: str, changes: dict[str, Any] | None = None, scale: float = 0.4, seed: int = 7) -> str:
    """A source directory without a tokenizer, its weights rounded to torch_dtype; returns its path."""
    os.makedirs(directory, exist_ok=True)
    config = {key: value for key, value in {**BASE, **(changes or {})}.items() if value is not None}
    random = np.random.default_rng(seed)
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, kv_heads, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    dtype = getattr(torch, config["torch_dtype"])
    tensors: dict[str, torch.Tensor] = {}

    def add(name: str, *shape: int) -> None:
        tensors[name] = torch.from_numpy((random.standard_normal(shape) * scale).astype(np.float32)).to(dtype)

    add("model.embed_tokens.weight", vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (("self_attn.q_proj", heads * size, hidden), ("self_attn.k_proj", kv_heads * size, hidden),
                                    ("self_attn.v_proj", kv_heads * size, hidden), ("self_attn.o_proj", hidden, heads * size),
                                    ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden),
                                    ("mlp.down_proj", hidden, inner)):
            add(f"{prefix}{name}.weight", rows, columns)
            if config["attention_bias" if "attn" in name else "mlp_bias"]:
                add(f"{prefix}{name}.bias", rows)
        add(prefix + "input_layernorm.weight", hidden)
        add(prefix + "post_attention_layernorm.weight", hidden)
    add("model.norm.weight", hidden)
    if not config["tie_word_embeddings"]:
        add("lm_head.weight", vocab, hidden)
    save_file(tensors, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return directory
