#!/usr/bin/env python3
"""Reads a .slm file by docs/spec/slm.md alone: checks every rule, prints what it holds.

    slm_inspect.py FILE                        the JSON document of `slm inspect --json`
    slm_inspect.py FILE --rebuild SOURCE_DIR   rebuilds every tensor from the source's files by the
                                               ledger's transforms alone and compares bytes
    slm_inspect.py --check FILE...             one line each: FILE: ok, or FILE: error CODE at OFFSET

Standard library only. Exit status 0, or 3 with `error CODE at OFFSET: ...` for a refused file.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import mmap
import pathlib
import sys
from typing import Any, NoReturn

import p0cbor
import slm_family

HEADER = 192
CHUNK = 1 << 20
MAGIC = bytes.fromhex("93534c4d0d0a1a0a")
END_MAGIC = bytes.fromhex("1a534c4d")
KINDS = {"tokenizer-json", "tokenizer-config", "special-tokens-map", "config-json", "generation-config",
         "template-source", "template-ir", "license", "model-card"}
ELEMENT = {"f32": 4, "bf16": 2, "f16": 2}
SOURCE_DTYPE = {"f32": "F32", "bf16": "BF16", "f16": "F16"}


class Refused(Exception):
    """A file that breaks a rule of the specification."""

    def __init__(self, code: str, offset: int, what: str) -> None:
        super().__init__(f"error {code} at {offset}: {what}")
        self.code = code
        self.offset = offset


def refuse(code: str, offset: int, what: str) -> NoReturn:
    raise Refused(code, offset, what)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def check_zero(data: Any, begin: int, end: int, what: str) -> None:
    piece = bytes(data[begin:end])
    if piece.count(0) != len(piece):
        first = next(i for i, byte in enumerate(piece) if byte)
        refuse("SLM-PAD", begin + first, what)


def read_header(data: Any) -> dict[str, Any]:
    """The header's fields; refuses every deviation in the order of the specification."""
    size = len(data)
    if bytes(data[:8]) != MAGIC:
        refuse("SLM-MAGIC", 0, "magic")
    if size < HEADER:
        refuse("SLM-SIZE", size, "shorter than its header")
    raw = bytes(data[:HEADER])

    def number(at: int, width: int) -> int:
        return int.from_bytes(raw[at : at + width], "little")

    if number(8, 2) != 1:
        refuse("SLM-VERSION", 8, "major version")
    if number(12, 4) != HEADER:
        refuse("SLM-LAYOUT", 12, "header_size")
    if number(16, 8) != size:
        refuse("SLM-SIZE", 16, "file_size")
    check_reserved = [i for i in range(144, 184) if raw[i]]
    if check_reserved:
        refuse("SLM-RESERVED", check_reserved[0], "reserved byte")
    if number(76, 4) != 0:
        refuse("SLM-FLAG", 76, "required flag")
    if number(72, 2) != 20:
        refuse("SLM-LAYOUT", 72, "chunk_log2")
    if number(74, 2) != 8:
        refuse("SLM-LAYOUT", 74, "tensor_align_log2")
    for at, multiple in ((24, 1), (40, 64), (56, 65536)):
        if number(at, 8) + number(at + 8, 8) > size:
            refuse("SLM-RANGE", at, "region beyond the file")
        if number(at, 8) % multiple:
            refuse("SLM-ALIGN", at, "region misaligned")
    manifest_size, data_size = number(32, 8), number(64, 8)
    if not 1 <= manifest_size <= 16 << 20 or not 1 <= data_size <= 1 << 52:
        refuse("SLM-LAYOUT", 32, "size of manifest or data region")
    table_size = 32 * -(-data_size // CHUNK)
    if number(48, 8) != table_size:
        refuse("SLM-TABLE", 48, "size of the chunk table")
    table_offset = round_up(HEADER + manifest_size, 64)
    data_offset = round_up(table_offset + table_size, 65536)
    if number(24, 8) != HEADER:
        refuse("SLM-LAYOUT", 24, "manifest_offset")
    if number(40, 8) != table_offset:
        refuse("SLM-LAYOUT", 40, "chunk_table_offset")
    if number(56, 8) != data_offset or data_offset + data_size != size:
        refuse("SLM-LAYOUT", 56, "data_offset")
    if number(184, 4) != crc32c(raw[:184]):
        refuse("SLM-CRC", 184, "checksum")
    if raw[188:] != END_MAGIC:
        refuse("SLM-MAGIC", 188, "end magic")
    return {"major": 1, "minor": number(10, 2), "file_size": size, "manifest_offset": HEADER,
            "manifest_size": manifest_size, "chunk_table_offset": table_offset, "chunk_table_size": table_size,
            "data_offset": data_offset, "data_size": data_size, "manifest_sha256": raw[80:112].hex(),
            "chunk_table_sha256": raw[112:144].hex()}


class Schema:
    """Checks a decoded manifest against the tables of the specification."""

    def __init__(self, manifest: Any, header: dict[str, Any], raw: bytes) -> None:
        self.manifest = manifest
        self.header = header
        self.raw = raw

    def bad(self, code: str, where: str, what: str = "") -> NoReturn:
        """Refuses with the place of the item that `where` names."""
        refuse(code, HEADER + p0cbor.offset_of(self.raw, where), f"{where} {what}".rstrip())

    def fields(self, value: Any, where: str, kinds: dict[str, type], optional: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.bad("SLM-SCHEMA", where, "must be a map")
        prefix = f"{where}." if where else ""
        for key, kind in kinds.items():
            if key not in value:
                if key in optional:
                    continue
                self.bad("SLM-SCHEMA", f"{prefix}{key}", "absent")
            if type(value[key]) is not kind or (kind is int and value[key] < 0):
                self.bad("SLM-SCHEMA", f"{prefix}{key}", "of the wrong kind")
        for key in value:
            if key not in kinds:
                self.bad("SLM-SCHEMA", f"{prefix}{key}", "unknown")
        return value

    def hash(self, value: bytes, where: str) -> None:
        if len(value) != 32:
            self.bad("SLM-SCHEMA", where)

    def uints(self, values: list[Any], where: str) -> list[int]:
        if any(type(value) is not int or value < 0 for value in values):
            self.bad("SLM-SCHEMA", where)
        return values

    def check(self) -> None:
        top = self.fields(self.manifest, "", {
            "schema": str, "producer": dict, "required_features": list, "ext": dict, "source": dict,
            "license": dict, "family_profile": dict, "config": dict, "config_columns": list,
            "ignored_metadata": list, "sampling_declarations": list, "accepted_conflicts": list,
            "quant_profiles": list, "blobs": list, "tensors": list, "omitted": list}, ("ext",))
        if top["schema"] != "slm.manifest.v1":
            self.bad("SLM-SCHEMA", "schema")
        for i, feature in enumerate(top["required_features"]):
            if not isinstance(feature, str):
                self.bad("SLM-SCHEMA", f"required_features[{i}]")
            if feature != "rows16":
                self.bad("SLM-FEATURE", f"required_features[{i}]", feature)
        for name, body in top.get("ext", {}).items():
            if self.fields(body, f"ext.{name}", {"critical": bool, "data": bytes})["critical"]:
                self.bad("SLM-EXT", f"ext.{name}", "critical")
        self.fields(top["producer"], "producer", {"name": str, "version": str})
        self.check_source(top["source"])
        self.fields(top["license"], "license", {"spdx": str})
        profile = self.fields(top["family_profile"], "family_profile", {
            "family": str, "version": int, "sha256": bytes, "pinned_source": str, "reviewer": str})
        self.hash(profile["sha256"], "family_profile.sha256")
        if not top["config"]:
            self.bad("SLM-SCHEMA", "config")
        for name, keys in (("config_columns", ("choice", "field", "pinned", "publisher", "undefined")),
                           ("ignored_metadata", ("file", "key", "reason", "value")),
                           ("sampling_declarations", ("key", "value")),
                           ("accepted_conflicts", ("code", "field", "first", "second"))):
            for i, row in enumerate(top[name]):
                self.fields(row, f"{name}[{i}]", {key: str for key in keys})
        if top["quant_profiles"]:
            self.bad("SLM-FEATURE", "quant_profiles")
        self.check_blobs(top["blobs"])
        self.check_tensors(top["tensors"])
        for i, row in enumerate(top["omitted"]):
            self.check_source_tensor(row, f"omitted[{i}]", {"reason": str})
        self.check_references(top["tensors"])
        self.check_feature_use(top["required_features"], top["tensors"])

    def check_feature_use(self, features: list[str], tensors: list[dict[str, Any]]) -> None:
        users = [i for i, tensor in enumerate(tensors) if tensor["layout"] == "rows16"]
        if users and not features:
            self.bad("SLM-FEATURE", f"tensors[{users[0]}].layout", "required_features does not name rows16")
        if len(features) > (1 if users else 0):
            self.bad("SLM-FEATURE", f"required_features[{len(features) - 1}]", "twice, or not used")

    def check_source(self, source: dict[str, Any]) -> None:
        self.fields(source, "source", {"acquisition": bytes, "name": bytes, "revision": bytes, "files": list})
        self.hash(source["acquisition"], "source.acquisition")
        previous = b""
        for i, row in enumerate(source["files"]):
            where = f"source.files[{i}]"
            self.fields(row, where, {"path": bytes, "size": int, "sha256": bytes})
            self.hash(row["sha256"], f"{where}.sha256")
            if row["path"] <= previous:
                self.bad("SLM-SCHEMA", where)
            previous = row["path"]

    def check_blobs(self, blobs: list[Any]) -> None:
        end, seen, in_tensors = 0, set(), False
        for i, blob in enumerate(blobs):
            where = f"blobs[{i}]"
            self.fields(blob, where, {"kind": str, "offset": int, "size": int, "sha256": bytes})
            self.hash(blob["sha256"], f"{where}.sha256")
            if blob["offset"] + blob["size"] > self.header["data_size"]:
                self.bad("SLM-RANGE", where)
            if blob["offset"] % 256:
                self.bad("SLM-ALIGN", where)
            if blob["offset"] < end:
                self.bad("SLM-BLOB-OVERLAP", where)
            if blob["offset"] != round_up(end, 256):
                self.bad("SLM-LAYOUT", where)
            if blob["kind"] == "tensor":
                in_tensors = True
            else:
                if blob["kind"] not in KINDS:
                    self.bad("SLM-BLOB-ORPHAN", where)
                if in_tensors:
                    self.bad("SLM-LAYOUT", where)
                if blob["kind"] in seen:
                    self.bad("SLM-SCHEMA", where)
                seen.add(blob["kind"])
            end = blob["offset"] + blob["size"]
        if end != self.header["data_size"]:
            self.bad("SLM-LAYOUT", "blobs")

    def check_tensors(self, tensors: list[Any]) -> None:
        if not tensors:
            self.bad("SLM-SCHEMA", "tensors")
        names: list[bytes] = []
        used: set[int] = set()
        for i, tensor in enumerate(tensors):
            self.check_tensor(tensor, f"tensors[{i}]", used)
            name = tensor["name"].encode()
            if name in names:
                self.bad("SLM-DUP", f"tensors[{i}]")
            if names and name < names[-1]:
                self.bad("SLM-SCHEMA", f"tensors[{i}]")
            names.append(name)
        self.used = used

    def check_tensor(self, tensor: Any, where: str, used: set[int]) -> None:
        self.fields(tensor, where, {
            "name": str, "role": str, "layer": int, "dtype": str, "layout": str, "shape": list, "physical": list,
            "blob": int, "alias_of": int, "source": list, "transforms": list}, ("layer", "blob", "alias_of"))
        if not 1 <= len(tensor["name"].encode()) <= 512:
            self.bad("SLM-SCHEMA", where, "name")
        if tensor.get("layer", 0) > 65535:
            self.bad("SLM-SCHEMA", f"{where}.layer")
        if tensor["dtype"] not in ELEMENT:
            self.bad("SLM-FEATURE", f"{where}.dtype")
        if tensor["layout"] not in ("row-major", "rows16"):
            self.bad("SLM-FEATURE", f"{where}.layout")
        shape = self.uints(tensor["shape"], f"{where}.shape")
        physical = self.uints(tensor["physical"], f"{where}.physical")
        elements = 1
        for size in shape:
            elements *= size
        if tensor["layout"] == "rows16":
            expected = [-(-shape[0] // 16), shape[1], 16] if len(shape) == 2 else None
        else:
            expected = shape
        if 0 in shape or elements > 1 << 56 or physical != expected:
            self.bad("SLM-TENSOR-SIZE", f"{where}.physical")
        if ("blob" in tensor) == ("alias_of" in tensor):
            self.bad("SLM-SCHEMA", where)
        if "blob" in tensor:
            blobs = self.manifest["blobs"]
            if tensor["blob"] >= len(blobs) or blobs[tensor["blob"]]["kind"] != "tensor":
                self.bad("SLM-RANGE", f"{where}.blob")
            stored = ELEMENT[tensor["dtype"]]
            for size in physical:
                stored *= size
            if stored != blobs[tensor["blob"]]["size"]:
                self.bad("SLM-TENSOR-SIZE", where)
            if tensor["blob"] in used:
                self.bad("SLM-BLOB-OVERLAP", f"{where}.blob")
            used.add(tensor["blob"])
        for key in ("source", "transforms"):
            if not tensor[key]:
                self.bad("SLM-LINEAGE", f"{where}.{key}")
        for j, row in enumerate(tensor["source"]):
            self.check_source_tensor(row, f"{where}.source[{j}]", {})
        for j, row in enumerate(tensor["transforms"]):
            self.check_transform(row, f"{where}.transforms[{j}]")

    def check_source_tensor(self, row: Any, where: str, more: dict[str, type]) -> None:
        self.fields(row, where, {"file": int, "name": str, "dtype": str, "shape": list, "begin": int, "end": int, **more})
        self.uints(row["shape"], f"{where}.shape")
        files = self.manifest["source"]["files"]
        if row["file"] >= len(files) or not row["begin"] <= row["end"] <= files[row["file"]]["size"]:
            self.bad("SLM-RANGE", where)

    def check_transform(self, row: Any, where: str) -> None:
        kinds = {"identity": {}, "alias": {"of": str}, "drop-equal": {"of": str},
                 "row-interleave-16": {"rows": int, "cols": int, "padded_rows": int, "fill": str, "proof": str}}
        op = row.get("op") if isinstance(row, dict) else None
        if not isinstance(op, str):
            self.bad("SLM-SCHEMA", f"{where}.op")
        if op not in kinds:
            self.bad("SLM-LINEAGE", where)
        self.fields(row, where, {"op": str, **kinds[op]})

    def check_references(self, tensors: list[dict[str, Any]]) -> None:
        for i, tensor in enumerate(tensors):
            if "alias_of" not in tensor:
                continue
            if tensor["alias_of"] >= len(tensors) or "alias_of" in tensors[tensor["alias_of"]]:
                self.bad("SLM-ALIAS", f"tensors[{i}].alias_of")
            target = tensors[tensor["alias_of"]]
            if any(target[key] != tensor[key] for key in ("shape", "layout", "dtype")):
                self.bad("SLM-ALIAS", f"tensors[{i}].alias_of")
        for i, blob in enumerate(self.manifest["blobs"]):
            if blob["kind"] == "tensor" and i not in self.used:
                self.bad("SLM-BLOB-ORPHAN", f"blobs[{i}]")


def check_data(data: Any, header: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Chunks, zeros between blobs, blobs, and the zero fill of rows16."""
    view = memoryview(data)
    begin = header["data_offset"]
    for chunk in range(header["chunk_table_size"] // 32):
        at = begin + chunk * CHUNK
        row = header["chunk_table_offset"] + 32 * chunk
        expected = bytes(view[row : row + 32])
        if hashlib.sha256(view[at : min(at + CHUNK, len(view))]).digest() != expected:
            refuse("SLM-CHUNK", at, f"chunk {chunk}")
    end = begin
    for i, blob in enumerate(manifest["blobs"]):
        check_zero(view, end, begin + blob["offset"], "between blobs")
        end = begin + blob["offset"] + blob["size"]
        if hashlib.sha256(view[begin + blob["offset"] : end]).digest() != blob["sha256"]:
            refuse("SLM-BLOB-HASH", begin + blob["offset"], f"blobs[{i}]")
    for tensor in manifest["tensors"]:
        if tensor["layout"] != "rows16" or tensor["shape"][0] % 16 == 0 or "blob" not in tensor:
            continue
        element, (rows, cols) = ELEMENT[tensor["dtype"]], tensor["shape"]
        group = begin + manifest["blobs"][tensor["blob"]]["offset"] + rows // 16 * 16 * cols * element
        for k in range(cols):
            lane = group + k * 16 * element
            check_zero(view, lane + rows % 16 * element, lane + 16 * element, tensor["name"])


def quoted(text: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c) for c in text) + '"'


def to_json(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return '{"hex":"' + value.hex() + '"}'
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(quoted(key) + ":" + to_json(member) for key, member in value.items()) + "}"
    return "null" if value is None else str(value)


class SlmFile:
    """A checked file. Raises Refused."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.header = read_header(data)
        header = self.header
        raw = bytes(data[HEADER : HEADER + header["manifest_size"]])
        table_end = header["chunk_table_offset"] + header["chunk_table_size"]
        if hashlib.sha256(raw).hexdigest() != header["manifest_sha256"]:
            refuse("SLM-MANIFEST", HEADER, "manifest hash")
        self.table = bytes(data[header["chunk_table_offset"] : table_end])
        if hashlib.sha256(self.table).hexdigest() != header["chunk_table_sha256"]:
            refuse("SLM-TABLE", header["chunk_table_offset"], "chunk table hash")
        check_zero(data, HEADER + header["manifest_size"], header["chunk_table_offset"], "behind the manifest")
        check_zero(data, table_end, header["data_offset"], "behind the chunk table")
        try:
            self.manifest = p0cbor.decode(raw)
        except p0cbor.CborError as error:
            refuse(f"SLM-MANIFEST-P0/{error.code}", HEADER + error.offset, "manifest")
        self.schema = Schema(self.manifest, header, raw)
        self.schema.check()
        check_data(data, header, self.manifest)

    def check_family(self) -> None:
        """Configuration, tensors and ledger against each other."""
        slm_family.Family(self.manifest, self.schema.bad).check()

    def json(self) -> str:
        root = hashlib.sha256(b"slm-artifact-v1\n" + bytes(self.data[:HEADER])).hexdigest()
        chunks = [self.table[at : at + 32].hex() for at in range(0, len(self.table), 32)]
        return to_json({"root": root, "header": self.header, "chunks": chunks, "manifest": self.manifest})


def interleaved(source: memoryview, rows: int, cols: int, dtype: str) -> bytes:
    """Layout rows16, written from the formula of the specification."""
    code = "I" if ELEMENT[dtype] == 4 else "H"
    values = array.array(code, bytes(source))
    out = array.array(code, bytes(ELEMENT[dtype] * (-(-rows // 16)) * 16 * cols))
    for row in range(rows):
        base = row // 16 * 16 * cols + row % 16
        out[base : base + 16 * (cols - 1) + 1 : 16] = values[row * cols : (row + 1) * cols]
    return out.tobytes()


def rebuild(slm: SlmFile, directory: pathlib.Path) -> int:
    """Rebuilds every tensor; returns how many. Exits the process by Refused on a difference."""
    manifest, base = slm.manifest, slm.header["data_offset"]
    view = memoryview(slm.data)
    files: list[memoryview] = []
    for row in manifest["source"]["files"]:
        path = directory / row["path"].decode()
        with open(path, "rb") as handle:
            content = memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)) if row["size"] else memoryview(b"")
        if len(content) != row["size"] or hashlib.sha256(content).digest() != row["sha256"]:
            refuse("FSCK-HASH", 0, f"{path} is not the source file of the ledger")
        files.append(content)
    for tensor in manifest["tensors"]:
        sources = [files[row["file"]][row["begin"] : row["end"]] for row in tensor["source"]]
        for row in tensor["source"]:
            if row["dtype"] != SOURCE_DTYPE[tensor["dtype"]] or row["shape"] != tensor["shape"]:
                refuse("SLM-LINEAGE", HEADER, f"{tensor['name']}: source of another dtype or shape")
        stored = tensor if "blob" in tensor else manifest["tensors"][tensor["alias_of"]]
        blob = manifest["blobs"][stored["blob"]]
        content = view[base + blob["offset"] : base + blob["offset"] + blob["size"]]
        result: bytes | memoryview = sources[0]
        for step in tensor["transforms"]:
            if step["op"] == "row-interleave-16":
                if [step["rows"], step["cols"]] != tensor["shape"]:
                    refuse("SLM-LINEAGE", HEADER, f"{tensor['name']}: arguments of row-interleave-16")
                result = interleaved(sources[0], step["rows"], step["cols"], tensor["dtype"])
            elif step["op"] == "drop-equal" and sources[1] != sources[0]:
                refuse("SLM-LINEAGE", HEADER, f"{tensor['name']}: the dropped copy differs")
            elif step["op"] == "alias":
                if step["of"] != stored["name"] or stored["source"][0] != tensor["source"][0]:
                    refuse("SLM-LINEAGE", HEADER, f"{tensor['name']}: alias of another tensor")
                result = content
        if result != content:
            refuse("SLM-LINEAGE", base + blob["offset"], f"{tensor['name']}: rebuilt bytes differ")
    return len(manifest["tensors"])


def open_file(path: pathlib.Path) -> SlmFile:
    with open(path, "rb") as handle:
        data: Any = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
    slm = SlmFile(data)
    slm.check_family()
    return slm


def check(paths: list[pathlib.Path]) -> int:
    """One line for each file; 3 if any is refused."""
    status = 0
    for path in paths:
        try:
            open_file(path)
            print(f"{path}: ok")
        except Refused as error:
            print(f"{path}: {error}")
            status = 3
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description="Independent reader of .slm files")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--rebuild", type=pathlib.Path, metavar="SOURCE_DIR")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        return check(args.files)
    if len(args.files) != 1:
        parser.error("one file, or --check")
    try:
        slm = open_file(args.files[0])
        if args.rebuild is not None:
            print(f"{rebuild(slm, args.rebuild)} tensors rebuilt from the source, all equal")
        else:
            sys.stdout.buffer.write(slm.json().encode() + b"\n")
    except Refused as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
