#!/usr/bin/env python3
"""Reads golden containers, verifies every hash and rule, and writes them again in memory (GLD-03).

Written from docs/spec/golden.md; standard library only; shares no code with the program.

    golden_read.py FILE...           one line a file, exit 1 if one is refused
    golden_read.py --json FILE       the envelope as JSON, byte strings as {"hex": ...}
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import p0cbor  # noqa: E402

MAGIC = bytes.fromhex("89534c4d474c440a")
UNIT = 64
ITEM_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "u32": 4, "u8": 1}
MODES = ("source", "reference", "truth", "mixed", "candidate")
ROLES = ("source", "config", "tokenizer", "template", "generator", "artifact", "runtime", "backend")
STOP_REASONS = ("eos", "stop_id", "stop_string", "length", "context")

# Kinds: a Python type, or a tuple (optional kinds end with "?").
ENVELOPE = {"schema": str, "required": list, "mode": str, "identities": dict, "generator": dict, "source_files": list,
            "effective_config": list, "tensors": list, "tokenizer": dict, "model_observations": list,
            "attachments": list, "blobs": list, "cases": list}
CASE = {"case_id": str, "case_class": str, "input": dict, "ids": bytes, "positions": dict, "mask": str,
        "max_new_tokens": int, "add_generation_prompt": bool, "rendered?": bytes, "ownership?": list, "tokenizations": list,
        "observations": list, "generation?": dict, "raw_output_commitment?": bytes}
OBSERVATION = {"blob": int, "columns?": dict, "dtype": str, "layer?": int, "layout": str, "name": str, "role": str,
               "rows?": dict, "shape": list, "tolerance?": str}
TOKENIZATION = {"add_special_tokens": bool, "byte_offsets": bytes, "ids": bytes, "of": str, "reference": str,
                "scalar_offsets": bytes, "decoded?": bytes}
GENERATION = {"gaps": bytes, "stop_reason": str, "text": bytes, "tokens": bytes}
INTERVAL = {"begin": int, "count": int}


class Refused(ValueError):
    """Code as in golden.md section 9, and what is wrong."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(f"{code}: {what}")
        self.code = code


def need(condition: bool, code: str, what: str) -> None:
    if not condition:
        raise Refused(code, what)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def closed(value: Any, schema: dict[str, type], where: str) -> None:
    """Exactly the keys of the schema, each of its kind (bool is no int)."""
    need(isinstance(value, dict), "GLD-SCHEMA", f"{where} is not a map")
    known = {key.rstrip("?"): kind for key, kind in schema.items()}
    for key, item in value.items():
        need(key in known, "GLD-SCHEMA", f"{where}.{key} is unknown")
        need(type(item) is known[key], "GLD-SCHEMA", f"{where}.{key} has the wrong kind")
        need(known[key] is not int or item >= 0, "GLD-SCHEMA", f"{where}.{key} is negative")
    for key in schema:
        need(key.endswith("?") or key in value, "GLD-SCHEMA", f"{where}.{key} is missing")


def increasing(keys: list[Any], where: str) -> None:
    need(all(a < b for a, b in zip(keys, keys[1:])), "GLD-SCHEMA", f"{where} is not in increasing order")


def distinct(keys: list[Any], where: str) -> None:
    need(len(set(keys)) == len(keys), "GLD-SCHEMA", f"{where}: a name stands twice")


def u32s(data: bytes) -> tuple[int, ...]:
    need(len(data) % 4 == 0, "GLD-SCHEMA", "not whole 32-bit integers")
    return struct.unpack(f"<{len(data) // 4}I", data)


class Container:
    """A verified file. Construction raises Refused."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._frame()
        closed(self.envelope, ENVELOPE, "envelope")
        self._head()
        self._blobs()
        self._identities()
        self._lists()
        self.used = [False] * len(self.blobs)
        for item in self.envelope["attachments"]:
            closed(item, {"blob": int, "media_type": str, "name": str}, "attachment")
            self._use(item["blob"], item["name"])
        distinct([item["name"] for item in self.envelope["attachments"]], "attachments")
        for item in self.envelope["model_observations"]:
            self._observation(item, None)
        distinct([item["name"] for item in self.envelope["model_observations"]], "model_observations")
        for case in self.envelope["cases"]:
            self._case(case)
        distinct([case["case_id"] for case in self.envelope["cases"]], "cases")
        need(all(self.used), "GLD-BLOB", "a blob that nothing names")

    def _zero(self, begin: int, end: int) -> None:
        need(not any(self.data[begin:end]), "GLD-PAD", f"bytes {begin} to {end} are not all zero")

    def _frame(self) -> None:
        data = self.data
        need(len(data) >= 2 * UNIT and data[:8] == MAGIC, "GLD-MAGIC", "no golden container")
        need(struct.unpack("<II", data[8:16]) == (1, 0), "GLD-VERSION", "not version 1.0")
        self._zero(16, UNIT)
        foot = len(data) - UNIT
        need(data[foot + 56 :] == MAGIC[::-1], "GLD-MAGIC", "the end is missing")
        start, size, digest, total = struct.unpack("<QQ32sQ", data[foot : foot + 56])
        need(total == len(data), "GLD-PAD", "another size than the footer says")
        fits = UNIT <= start and start % UNIT == 0 and start + size <= foot < start + size + UNIT
        need(fits and size <= 64 << 20, "GLD-ENVELOPE", "the envelope's range does not fit")
        self._zero(start + size, foot)
        encoded = data[start : start + size]
        need(sha256(encoded) == digest, "GLD-ENVELOPE", "the envelope's hash differs")
        try:
            self.envelope: dict[str, Any] = p0cbor.decode(encoded, 64 << 20, 1 << 22)
        except p0cbor.CborError as error:
            raise Refused("GLD-ENVELOPE", str(error)) from error
        self.envelope_offset = start

    def _head(self) -> None:
        need(self.envelope["schema"] == "tinyrustlm.golden.v1", "GLD-VERSION", "another schema")
        need(self.envelope["required"] == [], "GLD-VERSION", "features that this reader does not know")
        need(self.envelope["mode"] in MODES, "GLD-SCHEMA", "unknown mode")

    def _blobs(self) -> None:
        self.blobs: list[dict[str, Any]] = self.envelope["blobs"]
        at = UNIT
        for blob in self.blobs:
            closed(blob, {"offset": int, "sha256": bytes, "size": int}, "blob")
            end = at + blob["size"]
            need(blob["offset"] == at and blob["size"] > 0 and end <= self.envelope_offset, "GLD-BLOB", "a blob out of place")
            need(sha256(self.data[at:end]) == blob["sha256"], "GLD-BLOB", f"the blob at {at} has another hash")
            at = -(-end // UNIT) * UNIT
            self._zero(end, at)
        need(at == self.envelope_offset, "GLD-BLOB", "bytes between blobs and envelope")
        need(len({blob["sha256"] for blob in self.blobs}) == len(self.blobs), "GLD-BLOB", "a blob twice")

    def _identities(self) -> None:
        envelope, found = self.envelope, self.envelope["identities"]
        for role, digest in found.items():
            need(role in ROLES and isinstance(digest, bytes) and len(digest) == 32, "GLD-SCHEMA", f"identity {role}")
        expected = {"generator": envelope["generator"]}
        if envelope["source_files"]:
            expected["source"] = envelope["source_files"]
        if envelope["effective_config"]:
            expected["config"] = [[field.get("name"), field.get("value")] for field in envelope["effective_config"]]
        for role, value in expected.items():
            need(found.get(role) == sha256(p0cbor.encode(value)), "GLD-SCHEMA", f"identity {role} is not the hash of its object")

    def _lists(self) -> None:
        envelope = self.envelope
        for item in envelope["source_files"]:
            closed(item, {"path": bytes, "sha256": bytes, "size": int}, "source file")
        increasing([item["path"] for item in envelope["source_files"]], "source_files")
        for item in envelope["effective_config"]:
            need("value" in item and item["value"] is not None, "GLD-SCHEMA", "a field without a value")
            closed({key: part for key, part in item.items() if key != "value"},
                   {"name": str, "origin": str, "file?": str, "line?": int}, "field")
            pinned = item["origin"] in ("default", "derived")
            need(pinned or item["origin"] in ("config.json", "generation_config.json"), "GLD-SCHEMA", "unknown origin")
            need(pinned == bool(item.get("file")) == bool(item.get("line")), "GLD-SCHEMA", f"origin of {item['name']}")
        increasing([item["name"] for item in envelope["effective_config"]], "effective_config")
        for item in envelope["tensors"]:
            closed(item, {"dtype": str, "name": str, "sha256": bytes, "shape": list}, "tensor")
        increasing([item["name"] for item in envelope["tensors"]], "tensors")

    def _use(self, index: int, name: str) -> dict[str, Any]:
        need(index < len(self.blobs), "GLD-BLOB", f"{name}: no such blob")
        self.used[index] = True
        return self.blobs[index]

    def _observation(self, item: dict[str, Any], positions: int | None) -> None:
        closed(item, OBSERVATION, "observation")
        name, shape, layout, dtype = item["name"], item["shape"], item["layout"], item["dtype"]
        stem = f"layers.{item['layer']}." if "layer" in item else ""
        need(bool(item["role"]) and name == stem + item["role"], "GLD-SCHEMA", f"{name}: name, layer and role")
        need(layout in ("row_major", "packed_causal", "packed_bits"), "GLD-SCHEMA", f"{name}: layout")
        need(dtype == "bits" or dtype in ITEM_BYTES, "GLD-SCHEMA", f"{name}: dtype")
        need(1 <= len(shape) <= 4 and all(type(d) is int and 1 <= d <= 1 << 31 for d in shape), "GLD-SHAPE", name)
        need((dtype == "bits") == (layout == "packed_bits"), "GLD-SHAPE", f"{name}: bits and packing")
        need(layout == "row_major" or len(shape) == 2, "GLD-SHAPE", f"{name}: axes of a packed layout")
        blob = self._use(item["blob"], name)
        size = shape[0] * -(-shape[1] // 8) if dtype == "bits" else math.prod(shape) * ITEM_BYTES[dtype]
        need(size == blob["size"], "GLD-SHAPE", f"{name}: shape and blob")
        begin, count = self._rows(item, positions)
        if layout == "packed_causal":
            need(positions is not None and shape[1] == sum(t + 1 for t in range(begin, begin + count)), "GLD-SHAPE", name)
        else:
            need(positions is None or shape[0] == count, "GLD-SHAPE", f"{name}: first axis")
        if "columns" in item:
            part = item["columns"]
            closed(part, {**INTERVAL, "of": int}, name)
            need(layout == "row_major" and len(shape) >= 2 and shape[-1] == part["count"] < part["of"] <= 1 << 31
                 and part["begin"] + part["count"] <= part["of"], "GLD-SHAPE", f"{name}: columns")
        if dtype == "bits" and shape[1] % 8:
            stride = -(-shape[1] // 8)
            last = self.data[blob["offset"] + stride - 1 : blob["offset"] + size : stride]
            need(all(byte >> shape[1] % 8 == 0 for byte in last), "GLD-PAD", f"{name}: spare bits")

    @staticmethod
    def _rows(item: dict[str, Any], positions: int | None) -> tuple[int, int]:
        if "rows" not in item:
            return 0, positions or 0
        closed(item["rows"], INTERVAL, item["name"])
        begin, count = item["rows"]["begin"], item["rows"]["count"]
        need(positions is not None and 1 <= count < positions and begin + count <= positions, "GLD-SHAPE",
             f"{item['name']}: rows")
        return begin, count

    def _case(self, case: dict[str, Any]) -> None:
        closed(case, CASE, "case")
        name = case["case_id"]
        need(1 <= len(name.encode("utf-8")) <= 128, "GLD-SCHEMA", "case_id")
        closed(case["input"], {"kind": str, "data?": bytes, "commitment?": bytes}, f"{name}.input")
        closed(case["positions"], INTERVAL, f"{name}.positions")
        kind = case["input"]["kind"]
        need(kind in ("utf8", "bytes", "token_ids", "messages"), "GLD-SCHEMA", f"{name}: kind")
        need(case["mask"] == "causal", "GLD-SCHEMA", f"{name}: mask")
        need(max(case["positions"].values()) <= 1 << 20, "GLD-SHAPE", f"{name}: positions")
        need(kind == "messages" or not case["add_generation_prompt"], "GLD-SCHEMA", f"{name}: add_generation_prompt")
        if case["case_class"] == "private_behavior_commitment":
            shown = case["ids"] or case["tokenizations"] or case["observations"] or "rendered" in case or "ownership" in case or "generation" in case
            sealed = not shown and "data" not in case["input"] and len(case["input"].get("commitment", b"")) == 32
            need(sealed and case["positions"]["count"] == 0, "GLD-SCHEMA", f"{name}: a private case shows content")
            return
        need(case["case_class"] == "public_mechanical", "GLD-SCHEMA", f"{name}: case_class")
        self._public(case, name, kind)

    def _public(self, case: dict[str, Any], name: str, kind: str) -> None:
        need("data" in case["input"] and "commitment" not in case["input"], "GLD-SCHEMA", f"{name}: input")
        ids = u32s(case["ids"])
        need(bool(ids) and case["positions"]["count"] == len(ids), "GLD-SCHEMA", f"{name}: positions")
        data = case["input"]["data"]
        need(kind != "token_ids" or data == case["ids"], "GLD-SCHEMA", f"{name}: input and ids")
        try:
            texts = {"input": data.decode("utf-8") if kind != "token_ids" and kind != "bytes" else None,
                     "rendered": case["rendered"].decode("utf-8") if "rendered" in case else None}
        except UnicodeDecodeError as error:
            raise Refused("GLD-SCHEMA", f"{name}: not UTF-8") from error
        for item in case["tokenizations"]:
            closed(item, TOKENIZATION, name)
            text = texts.get(item["of"])
            need(item["reference"] in ("published", "effective") and text is not None, "GLD-SCHEMA", f"{name}: tokenization")
            for key, end in (("byte_offsets", len(text.encode("utf-8"))), ("scalar_offsets", len(text))):
                edges = u32s(item[key])
                pairs = list(zip(edges[::2], edges[1::2]))
                need(len(edges) == 2 * len(u32s(item["ids"])) and all(a <= b <= end for a, b in pairs), "GLD-SCHEMA",
                     f"{name}: {key}")
        if "ownership" in case:
            at, previous = 0, ""
            for item in case["ownership"]:
                closed(item, {"begin": int, "end": int, "owner": str}, f"{name}.ownership")
                need(item["begin"] == at < item["end"] and item["owner"] not in ("", previous), "GLD-SCHEMA", f"{name}.ownership")
                at, previous = item["end"], item["owner"]
            need("rendered" in case and at == len(case["rendered"]), "GLD-SCHEMA", f"{name}.ownership")
        need(("generation" in case) == ("raw_output_commitment" in case), "GLD-SCHEMA", f"{name}: commitment")
        if "generation" in case:
            self._generation(case, name)
        distinct([item["name"] for item in case["observations"]], name)
        for item in case["observations"]:
            self._observation(item, len(ids))

    @staticmethod
    def _generation(case: dict[str, Any], name: str) -> None:
        item = case["generation"]
        closed(item, GENERATION, name)
        tokens = u32s(item["tokens"])
        need(len(item["gaps"]) == 8 * len(tokens) and len(tokens) <= case["max_new_tokens"], "GLD-SCHEMA", f"{name}: gaps")
        need(item["stop_reason"] in STOP_REASONS, "GLD-SCHEMA", f"{name}: stop_reason")
        raw = {key: item[key] for key in ("stop_reason", "text", "tokens")}
        need(sha256(p0cbor.encode(raw)) == case["raw_output_commitment"], "GLD-SCHEMA", f"{name}: commitment")

    def serialize(self) -> bytes:
        """The file again, from envelope and blobs alone."""
        out = bytearray(MAGIC + struct.pack("<II", 1, 0) + bytes(48))
        for blob in self.blobs:
            out += self.data[blob["offset"] : blob["offset"] + blob["size"]]
            out += bytes(-len(out) % UNIT)
        start, encoded = len(out), p0cbor.encode(self.envelope)
        out += encoded
        out += bytes(-len(out) % UNIT)
        out += struct.pack("<QQ32sQ", start, len(encoded), sha256(encoded), len(out) + UNIT) + MAGIC[::-1]
        return bytes(out)


def readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {key: readable(item) for key, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list) else value


def main(arguments: list[str]) -> int:
    as_json = arguments[:1] == ["--json"]
    files = arguments[1:] if as_json else arguments
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for path in files:
        try:
            with open(path, "rb") as file:
                container = Container(file.read())
            need(container.serialize() == container.data, "GLD-ENVELOPE", "writing it again gives other bytes")
        except Refused as error:
            print(f"refused {path}: {error}")
            failed = 1
            continue
        if as_json:
            print(json.dumps(readable(container.envelope), indent=1, ensure_ascii=False))
        else:
            cases = container.envelope["cases"]
            count = sum(len(case["observations"]) for case in cases)
            print(f"ok {path}: {container.envelope['mode']}, {len(cases)} cases, {count} observations, "
                  f"{len(container.blobs)} blobs, sha256 {sha256(container.data).hex()}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
