"""GGUF files around vocabularies, packed by the format's specification, for tests.

Each holds a model of one layer and random-looking weights so small that llama.cpp loads it in no time: what counts is the
metadata. Vocabularies come from tokenizer.json files and SentencePiece models, laid out as the usual converter does.
"""
import json
import pathlib
import struct
from collections.abc import Iterable

U32, I32, F32, BOOL, STRING, ARRAY, U8 = 4, 5, 6, 7, 8, 9, 0
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\u2581"


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def string(key: str, value: str) -> bytes:
    return pair(key, STRING, text(value))


def number(key: str, value: int) -> bytes:
    return pair(key, U32, struct.pack("<I", value))


def real(key: str, value: float) -> bytes:
    return pair(key, F32, struct.pack("<f", value))


def flag(key: str, value: bool) -> bytes:
    return pair(key, BOOL, struct.pack("<B", value))


def strings(key: str, values: list[str]) -> bytes:
    return pair(key, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values)))


def reals(key: str, values: list[float]) -> bytes:
    return pair(key, ARRAY, struct.pack(f"<IQ{len(values)}f", F32, len(values), *values))


def integers(key: str, values: list[int]) -> bytes:
    return pair(key, ARRAY, struct.pack(f"<IQ{len(values)}i", I32, len(values), *values))


def octets(key: str, values: bytes) -> bytes:
    return pair(key, ARRAY, struct.pack("<IQ", U8, len(values)) + values)


def file_of(pairs: Iterable[bytes], tensors: list[tuple[str, list[int]]] = []) -> bytes:
    """`tensors`: names and dimensions (the innermost first), all float32."""
    pairs = list(pairs)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    offset, sizes = 0, []
    for name, shape in tensors:
        n_bytes = 4
        for n in shape:
            n_bytes *= n
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, offset)
        sizes.append(n_bytes)
        offset += -(-n_bytes // 32) * 32
    head += bytes(-len(head) % 32)
    return head + bytes(offset)


WIDTH = 8


def model(n_tokens: int, name: str = "test") -> tuple[list[bytes], list[tuple[str, list[int]]]]:
    pairs = [string("general.architecture", "llama"), string("general.name", name), number("llama.block_count", 1),
             number("llama.context_length", 64), number("llama.embedding_length", WIDTH), number("llama.feed_forward_length", WIDTH),
             number("llama.attention.head_count", 1), real("llama.attention.layer_norm_rms_epsilon", 1e-5),
             number("llama.vocab_size", n_tokens)]
    square, line = [WIDTH, WIDTH], [WIDTH]
    tensors = [("token_embd.weight", [WIDTH, n_tokens]), ("output_norm.weight", line)]
    for part, shape in (("attn_norm", line), ("attn_q", square), ("attn_k", square), ("attn_v", square), ("attn_output", square),
                        ("ffn_norm", line), ("ffn_gate", square), ("ffn_up", square), ("ffn_down", square)):
        tensors.append((f"blk.0.{part}.weight", shape))
    return pairs, tensors


def vocabulary(kind: str, tokens: list[str], types: list[int], *more: bytes, scores: list[float] | None = None,
               name: str = "test", weights: bool = True) -> bytes:
    """Without `weights` only the metadata: llama.cpp does not load it."""
    pairs, tensors = model(len(tokens), name)
    pairs += [string("tokenizer.ggml.model", kind), strings("tokenizer.ggml.tokens", tokens), integers("tokenizer.ggml.token_type", types)]
    if scores is not None:
        pairs.append(reals("tokenizer.ggml.scores", scores))
    return file_of([*pairs, *more], tensors if weights else [])


def tokens_of_json(file: dict) -> tuple[list[str], list[int]]:
    """Of a BPE or WordPiece file: texts by id, and what kind of token each is."""
    texts = {id: token for token, id in file["model"]["vocab"].items()}
    types = dict.fromkeys(texts, NORMAL)
    for token in file["added_tokens"]:
        texts[token["id"]] = token["content"]
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    n = max(texts) + 1
    return [texts.get(i, f"[PAD{i}]") for i in range(n)], [types.get(i, UNUSED) for i in range(n)]


def of_bpe_json(path: pathlib.Path, pre: str, *more: bytes, name: str = "test") -> bytes:
    file = json.loads(path.read_text(encoding="utf-8"))
    tokens, types = tokens_of_json(file)
    merges = [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]
    return vocabulary("gpt2", tokens, types, string("tokenizer.ggml.pre", pre), strings("tokenizer.ggml.merges", merges), *more, name=name)


def of_wordpiece_json(path: pathlib.Path, *more: bytes) -> bytes:
    tokens, types = tokens_of_json(json.loads(path.read_text(encoding="utf-8")))
    for i, token in enumerate(tokens):
        if types[i] == NORMAL:
            tokens[i] = token[2:] if token.startswith("##") else SPACE + token
    return vocabulary("bert", tokens, types, *more)


def of_sentencepiece(processor, kind: str, *more: bytes) -> bytes:
    n = processor.get_piece_size()
    types = []
    for i in range(n):
        if processor.is_unknown(i):
            types.append(UNKNOWN)
        elif processor.is_control(i):
            types.append(CONTROL)
        elif processor.is_unused(i):
            types.append(UNUSED)
        elif processor.is_byte(i):
            types.append(BYTE)
        else:
            types.append(NORMAL)
    return vocabulary(kind, [processor.id_to_piece(i) for i in range(n)], types, *more,
                      scores=[processor.get_score(i) for i in range(n)])
