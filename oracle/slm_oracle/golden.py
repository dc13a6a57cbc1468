"""Writer and reader of the golden container (docs/spec/golden.md)."""

from __future__ import annotations

import hashlib
import os
import struct
from typing import Any

import numpy as np

from . import OracleError, cbor

SCHEMA = "tinyrustlm.golden.v1"
MAGIC = b"\x89SLMGLD\n"
HEADER = MAGIC + struct.pack("<II", 1, 0) + bytes(48)
FOOTER_BYTES = 64
ALIGNMENT = 64


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class Writer:
    """Collects arrays into a file beside `path` and renames it into place at the end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._partial = path + ".partial"
        self._file = open(self._partial, "wb")
        self._offset = 0
        self._blobs: list[dict[str, Any]] = []
        self._by_hash: dict[bytes, int] = {}
        self._put(HEADER)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)

    def _pad(self) -> None:
        self._put(bytes(-self._offset % ALIGNMENT))

    def blob(self, data: bytes) -> int:
        """Index of a blob with these bytes; equal contents are stored once."""
        if not data:
            raise OracleError("an empty blob")
        digest = sha256(data)
        if digest not in self._by_hash:
            self._pad()
            self._by_hash[digest] = len(self._blobs)
            self._blobs.append({"offset": self._offset, "size": len(data), "sha256": digest})
            self._put(data)
        return self._by_hash[digest]

    def finish(self, envelope: dict[str, Any]) -> None:
        envelope = dict(envelope, schema=SCHEMA, required=[], blobs=self._blobs)
        envelope["identities"] = dict(envelope["identities"], generator=sha256(cbor.encode(envelope["generator"])))
        encoded = cbor.encode(envelope)
        self._pad()
        start = self._offset
        self._put(encoded)
        self._pad()
        size = self._offset + FOOTER_BYTES
        self._put(struct.pack("<QQ32sQ8s", start, len(encoded), sha256(encoded), size, MAGIC[::-1]))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._partial, self._path)

    def abandon(self) -> None:
        self._file.close()
        if os.path.exists(self._partial):
            os.unlink(self._partial)


class File:
    """A container read back for `check`; every hash is verified, the schema is the C++ reader's business."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read()
        if len(data) < len(HEADER) + FOOTER_BYTES or data[:64] != HEADER or data[-8:] != MAGIC[::-1]:
            raise OracleError(f"{path}: not a golden container of version 1.0")
        start, length, digest, size, _ = struct.unpack("<QQ32sQ8s", data[-FOOTER_BYTES:])
        if size != len(data) or start + length > len(data) - FOOTER_BYTES:
            raise OracleError(f"{path}: the footer's sizes are not those of the file")
        encoded = data[start : start + length]
        if sha256(encoded) != digest:
            raise OracleError(f"{path}: the envelope's hash differs")
        self.path = path
        self.envelope: dict[str, Any] = cbor.decode(encoded)
        self._data = data
        if self.envelope["schema"] != SCHEMA or self.envelope["required"]:
            raise OracleError(f"{path}: another schema, or required features that are not known")
        for index, entry in enumerate(self.envelope["blobs"]):
            if sha256(self.blob(index)) != entry["sha256"]:
                raise OracleError(f"{path}: blob {index} has another hash")

    def blob(self, index: int) -> bytes:
        entry = self.envelope["blobs"][index]
        return self._data[entry["offset"] : entry["offset"] + entry["size"]]

    def array(self, observation: dict[str, Any]) -> np.ndarray:
        """The stored values; bf16 as float32, bits as bytes."""
        data = self.blob(observation["blob"])
        shape = observation["shape"]
        dtype = observation["dtype"]
        if dtype == "bits":
            return np.frombuffer(data, np.uint8).reshape(shape[0], -1)
        if dtype == "bf16":
            raw = np.frombuffer(data, "<u2").astype(np.uint32) << 16
            return raw.view(np.float32).reshape(shape)
        return np.frombuffer(data, {"f32": "<f4", "f64": "<f8", "u32": "<u4", "u8": "u1"}[dtype]).reshape(shape)
