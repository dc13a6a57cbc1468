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
        "template": {"demo": template} | sources,
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
