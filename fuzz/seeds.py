#!/usr/bin/env python3
"""Writes the seed inputs of every fuzz target from what the repository holds.

    seeds.py OUT [--artifact FILE.slm ...]

OUT/TARGET/NAME; the same files from the same repository. Standard library only.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "independent"))
sys.path.insert(0, str(ROOT / "tests" / "tokenizer"))

import gguf_files  # noqa: E402
import p0cbor  # noqa: E402
import slm_inspect  # noqa: E402


def safetensors(header: dict[str, object], n_data: int) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + struct.pack("<I", n_data)


def log_records(count: int) -> bytes:
    out, previous = b"", bytes(32)
    for seq in range(1, count + 1):
        payload = p0cbor.encode({"seq": seq, "kind": "demo", "nodes": [bytes([seq]) * 32] * (seq - 1)})
        size = struct.pack("<I", len(payload))
        crc = struct.pack("<I", slm_inspect.crc32c(size + previous + payload))
        record = size + crc + previous + payload
        previous = hashlib.sha256(record).digest()
        out += record
    return out


def page_hex(page: str, section: str) -> bytes:
    text = (ROOT / "docs" / "spec" / page).read_text(encoding="utf-8").split(section)[1]
    rows = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)$", text, re.MULTILINE)
    return b"".join(bytes.fromhex(row) for row in rows)


def manifests(artifacts: list[pathlib.Path]) -> dict[str, bytes]:
    example = page_hex("slm.md", "## Worked example")
    size = int.from_bytes(example[32:40], "little")
    out = {"page": example[192 : 192 + size], "page-header": example[:192]}
    for path in artifacts:
        with open(path, "rb") as file:
            head = file.read(192)
            out[path.stem] = file.read(int.from_bytes(head[32:40], "little"))
    return out


def gguf_vocabularies() -> dict[str, bytes]:
    """One small vocabulary of each kind."""
    key = "tokenizer.ggml."
    letters = [*"ab", "ab", "\u0120", "\u0120a", "<|end|>"]
    space = gguf_files.SPACE
    pieces = ["<unk>", "<s>", "</s>", space, "a", "b", space + "a", "ab", "<0x0A>"]
    types = [2, 3, 3, 1, 1, 1, 1, 4, 6]
    scores = [0.0, 0.0, 0.0, -1.0, -2.0, -2.5, -1.5, -3.0, 0.0]

    def of(kind: str, tokens: list[str], types: list[int], *more: bytes) -> bytes:
        return gguf_files.file_of([gguf_files.string(key + "model", kind), gguf_files.strings(key + "tokens", tokens),
                                   gguf_files.integers(key + "token_type", types), *more])

    def id_of(name: str, id: int) -> bytes:
        return gguf_files.number(f"{key}{name}_token_id", id)

    return {
        "gpt2": of("gpt2", letters, [1] * 5 + [3], gguf_files.string(key + "pre", "llama-bpe"), gguf_files.strings(key + "merges", ["a b", "\u0120 a"]),
                   id_of("bos", 5)),
        "llama": of("llama", pieces, types, gguf_files.reals(key + "scores", scores), gguf_files.flag(key + "add_eos_token", True)),
        "t5": of("t5", pieces, types, gguf_files.reals(key + "scores", scores), id_of("unknown", 0), id_of("eos", 2),
                 gguf_files.flag(key + "add_space_prefix", True), gguf_files.flag(key + "remove_extra_whitespaces", True)),
        "bert": of("bert", pieces, types, id_of("unknown", 0), id_of("bos", 1), id_of("seperator", 2)),
    }


def sentencepiece_model(kind: int) -> bytes:
    """A protocol buffer of some pieces: field 1 of each piece, trainer (2) and normalizer (3)."""
    def field(number: int, body: bytes) -> bytes:
        return bytes([number << 3 | 2, len(body)]) + body

    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("\u2581", -1.0, 1), ("a", -2.0, 1), ("b", -2.5, 1), ("\u2581a", -1.5, 1), ("ab", -3.0, 4), ("ba", -4.0, 5)]
    out = b"".join(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, type])) for text, score, type in pieces)
    return out + field(2, bytes([0x18, kind])) + field(3, bytes([0x18, 1, 0x20, 1, 0x28, 1]))


PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?<=a)b|\Ga|(a)\1", r"[[:alpha:]&&[^a-c]]{2,3}+|\h\x{41}\u0042", r"(?>a+)b|(?:a|b)*?$|^x", r"(a*)*b|\bfoo\b",
]


def template_ir(path: pathlib.Path) -> bytes | None:
    """The program of a .slm's chat template, as the converter of this tree wrote it."""
    with open(path, "rb") as file:
        head = file.read(192)
        manifest = p0cbor.decode(file.read(int.from_bytes(head[32:40], "little")))
        for blob in manifest["blobs"]:
            if blob["kind"] == "template-ir":
                file.seek(int.from_bytes(head[56:64], "little") + blob["offset"])
                return file.read(blob["size"])
    return None


def collect(artifacts: list[pathlib.Path]) -> dict[str, dict[str, bytes]]:
    demo = ROOT / "models" / "slm-demo"
    vectors = ROOT / "vectors"
    config = (demo / "config.json").read_bytes()
    template = (demo / "chat_template.jinja").read_bytes()
    tokenizers = {file.name: file.read_bytes() for file in sorted((vectors / "tokenizer").glob("*.tokenizer.json"))}
    scaled = json.loads(config)
    scaled["rope_scaling"] = {"rope_type": "yarn", "factor": 2.0, "beta_fast": 8, "truncate": False, "mscale": 0.5}
    llama3 = json.loads(config)
    llama3["rope_scaling"] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 64}
    probes = [json.loads(line) for line in (vectors / "chat" / "probes.jsonl").read_text().splitlines()]
    sources = {f"probe-{i:03}": probe["template"].encode() for i, probe in enumerate(probes) if "template" in probe}
    # Behind FF: places in the program's bytes, and what is flipped there.
    changed = {f"changed-{name}": source + b"\xff" + bytes([0, (90 + 7 * i) % 256, 1 << i % 8, 1, 3 * i % 256, 2])
               for i, (name, source) in enumerate(sources.items())}
    irs = {f"ir-{path.stem}": ir for path in artifacts if (ir := template_ir(path)) is not None}
    header = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
              "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]}}
    node = b"tinyrustlm-conformance-node-v1" + b"decision" + p0cbor.encode({"schema": "x", "edges": []})
    return {
        "json": {"config": config, "escapes": rb'{"a":["\u00e9\ud83d\ude00\n",-0.0,1e300,12345678901234567890,null]}'},
        "cbor": manifests([]) | {"small": p0cbor.encode({"a": [1, -2, b"x", "y", True, None], "b": {"c": 1 << 40}})},
        "safetensors": {"two": safetensors(header, 22), "none": safetensors({}, 0)},
        "slm": manifests(artifacts),
        "config": {"demo": config, "yarn": json.dumps(scaled).encode(), "llama3": json.dumps(llama3).encode()},
        "golden": {"small": (ROOT / "src" / "golden" / "testdata" / "small.golden").read_bytes()},
        "tokenizer": {name: data + b"\xff" + "Hello <s> 1234, \u00fc\U0001f600\n".encode() for name, data in tokenizers.items()},
        "vocabulary": {name: data + b"\xff" * 8 + b"a  ab</s>b\n" for name, data in
                       {**gguf_vocabularies(), "unigram": sentencepiece_model(1), "bpe": sentencepiece_model(2)}.items()},
        "regex": {f"{i}": pattern.encode() + b"\xff" + b"It's 1234 foo  bar\r\n\n aab abab" for i, pattern in enumerate(PATTERNS)},
        "encode": {f"{i}": bytes([8 * i + i % 8]) + "Hello <s>  1234, \u00fc\U0001f600\n".encode() + bytes([0xC3, i]) for i in range(5)},
        "template": {"demo": template} | sources | changed | irs,
        "store": {"log": log_records(3), "torn": log_records(2)[:-5], "node": node},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--artifact", type=pathlib.Path, action="append", default=[])
    options = parser.parse_args()
    for target, seeds in collect(options.artifact).items():
        folder = options.out / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (folder / name).write_bytes(data)
        print(f"{target}: {len(seeds)} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
