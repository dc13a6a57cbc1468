"""A source directory as it lies: files with their hashes, JSON, and tensors read without any framework."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from typing import Any

import numpy as np

from . import OracleError, cbor

_DTYPES = {"F32": ("f32", "<f4"), "BF16": ("bf16", "<u2"), "F16": ("f16", "<f2")}
_MAX_HEADER = 100_000_000


def file_sha256(path: str) -> bytes:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()


class Source:
    def __init__(self, directory: str) -> None:
        if not os.path.isfile(os.path.join(directory, "config.json")):
            raise OracleError("the source has no config.json")
        self.directory = directory
        self.files = sorted(self._list(), key=lambda entry: entry["path"])
        self.config: dict[str, Any] = self.json("config.json") or {}
        self.generation_config: dict[str, Any] | None = self.json("generation_config.json")

    def _list(self) -> list[dict[str, Any]]:
        found = []
        for folder, folders, names in os.walk(self.directory):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith(".") or os.path.islink(path) and not os.path.exists(path):
                    continue
                relative = os.fsencode(os.path.relpath(path, self.directory))
                found.append({"path": relative, "size": os.path.getsize(path), "sha256": file_sha256(path)})
        return found

    def identity(self) -> bytes:
        return hashlib.sha256(cbor.encode(self.files)).digest()

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def read(self, name: str) -> bytes | None:
        if not os.path.isfile(self.path(name)):
            return None
        with open(self.path(name), "rb") as file:
            return file.read()

    def json(self, name: str) -> Any:
        data = self.read(name)
        return None if data is None else json.loads(data.decode("utf-8"))

    def weight_files(self) -> list[str]:
        index = self.json("model.safetensors.index.json")
        if index is not None:
            return sorted(set(index["weight_map"].values()))
        return ["model.safetensors"]

    def tensors(self) -> "dict[str, Tensor]":
        """Every tensor of the weight files, mapped, not copied."""
        result: dict[str, Tensor] = {}
        for name in self.weight_files():
            path = self.path(name)
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if length > min(_MAX_HEADER, os.path.getsize(path) - 8):
                    raise OracleError(f"{name}: header length beyond the file")
                header = json.loads(file.read(length).decode("utf-8"))
            data = np.memmap(path, np.uint8, "r")
            header.pop("__metadata__", None)
            for key, entry in header.items():
                if key in result:
                    raise OracleError(f"tensor {key} stands in two files")
                if entry["dtype"] not in _DTYPES:
                    raise OracleError(f"tensor {key} has dtype {entry['dtype']}")
                begin, end = entry["data_offsets"]
                result[key] = Tensor(key, entry["dtype"], entry["shape"], data[8 + length + begin : 8 + length + end])
        return result


class Tensor:
    """One stored tensor: little-endian, row-major."""

    def __init__(self, name: str, dtype: str, shape: list[int], raw: np.ndarray) -> None:
        self.name = name
        self.dtype, self._numpy = _DTYPES[dtype]
        self.shape = shape
        self.raw = raw
        if raw.size != int(np.prod(shape, dtype=np.int64)) * np.dtype(self._numpy).itemsize:
            raise OracleError(f"tensor {name}: shape and byte range disagree")

    def f64(self) -> np.ndarray:
        """The exact values in float64."""
        stored = self.raw.view(self._numpy).reshape(self.shape)
        if self.dtype == "bf16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float64)

    def sha256(self) -> bytes:
        return hashlib.sha256(self.raw).digest()
