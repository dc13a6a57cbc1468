"""A source whose every next token is known by construction, in the layout of a Hugging Face repository.

Embeddings are unit vectors, attention and MLP add nothing (their output matrices are zero), and row j of
the output matrix is the unit vector of the token that j follows. So greedy decoding walks NEXT, whatever
the program under test does: the expectations of the tests are written down here, not computed by it.
"""
import json
import pathlib
import struct


def byte_symbols() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte (Radford et al., encoder.py, bytes_to_unicode)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


BYTES = [ord("a"), 0xC3, 0xA9, ord("b"), 0xE2, 0x82, 0xAC, ord("c")]  # ids 0 to 7
EOS = 8
SIZE = 16  # vocabulary and hidden width; ids 9 to 15 stand for other bytes
IDS = {byte: i for i, byte in enumerate(BYTES)}
# a é b € EOS; c follows itself; the rest lead to c.
NEXT = {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: EOS, 7: 7, **{i: 7 for i in range(8, SIZE)}}
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def config(**changes: object) -> dict[str, object]:
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": SIZE, "hidden_size": SIZE,
            "intermediate_size": SIZE, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
            "head_dim": SIZE, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 32,
            "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": EOS, "torch_dtype": "float32",
            "rope_theta": 10000.0} | changes


def tokenizer() -> dict[str, object]:
    symbols = byte_symbols()
    others = [b for b in range(ord("d"), ord("z")) if b not in BYTES][:SIZE - 9]
    vocab = {symbols[b]: i for i, b in enumerate(BYTES)} | {symbols[b]: 9 + i for i, b in enumerate(others)}
    vocab["<end>"] = EOS
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": EOS, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}],
            "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": False, "vocab": vocab, "merges": []}}


def tensors() -> dict[str, tuple[list[int], list[float]]]:
    identity = [float(i == j) for i in range(SIZE) for j in range(SIZE)]
    zeros = [0.0] * (SIZE * SIZE)
    head = [float(NEXT[j] == i) for i in range(SIZE) for j in range(SIZE)]
    square, layer = [SIZE, SIZE], "model.layers.0."
    out: dict[str, tuple[list[int], list[float]]] = {"model.embed_tokens.weight": (square, identity),
                                                     "lm_head.weight": (square, head)}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj", "mlp.down_proj"):
        out[f"{layer}{name}.weight"] = (square, zeros)
    for name in (f"{layer}input_layernorm", f"{layer}post_attention_layernorm", "model.norm"):
        out[f"{name}.weight"] = ([SIZE], [1.0] * SIZE)
    return out


def write(folder: pathlib.Path, template: str | None = TEMPLATE, **changes: object) -> pathlib.Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(**changes)))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A chain of tokens\n")
    header: dict[str, object] = {}
    data = b""
    for name, (shape, values) in tensors().items():
        bytes_ = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder
