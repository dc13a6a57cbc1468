"""Turns the stages that a tap sees into observation records of the container (golden.md section 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .golden import Writer

_PACKED = ("attn.scores", "attn.probs")
_NUMPY = {"f32": "<f4", "f64": "<f8", "bf16": "<u2", "u32": "<u4"}


def stored(values: Any) -> tuple[np.ndarray, str]:
    """(array as it is stored, dtype name) of a numpy array or a tensor of the framework."""
    if not isinstance(values, np.ndarray):
        from .reference import numpy_of

        values = numpy_of(values)
    name = {"float32": "f32", "float64": "f64", "uint16": "bf16", "uint32": "u32", "bool": "bits"}[values.dtype.name]
    return values, name


def public_layers(n_layers: int) -> list[int]:
    """The first, a middle and the last layer (ORA-03)."""
    return sorted({0, n_layers // 2, n_layers - 1})


def top_k(values: np.ndarray, k: int) -> np.ndarray:
    """Ids of the k largest of each row: by value descending, then id ascending."""
    return np.argsort(-values, axis=-1, kind="stable")[:, :k].astype(np.uint32)


class Collector:
    """A tap that stores what is selected. Keeps the last `rows` positions (0: all) and the chosen layers."""

    def __init__(self, writer: Writer, count: int, rows: int, layers: list[int]) -> None:
        self._writer = writer
        self._count = count
        self._begin = max(0, count - rows) if rows else 0
        self._layers = layers
        self.observations: list[dict[str, Any]] = []

    def wants(self, layer: int | None) -> bool:
        return bool(self._layers) if layer is None else layer in self._layers

    def __call__(self, role: str, layer: int | None, values: Any) -> None:
        if self.wants(layer):
            self.store(role, layer, *stored(values))

    def store(self, role: str, layer: int | None, array: np.ndarray, dtype: str, columns: dict[str, int] | None = None) -> None:
        begin, count = self._begin, self._count
        record: dict[str, Any] = {"name": role if layer is None else f"layers.{layer}.{role}", "role": role,
                                  "dtype": dtype, "layout": "row_major"}
        if layer is not None:
            record["layer"] = layer
        if role in _PACKED:
            kept = [array[:, t, : t + 1] for t in range(begin, count)]
            array = np.concatenate(kept, axis=1)
            record["layout"] = "packed_causal"
        else:
            array = array[begin:]
        if columns is not None:
            array = array[:, columns["begin"] : columns["begin"] + columns["count"]]
            record["columns"] = columns
        if begin:
            record["rows"] = {"begin": begin, "count": count - begin}
        record["shape"] = list(array.shape)
        if dtype == "bits":
            record["layout"] = "packed_bits"
            data = np.packbits(array, axis=1, bitorder="little").tobytes()
        else:
            data = np.ascontiguousarray(array, _NUMPY[dtype]).tobytes()
        record["blob"] = self._writer.blob(data)
        self.observations.append(record)

    def logits(self, values: Any, k: int, columns: int) -> None:
        """Logits (all columns, or the first `columns`) and the top k of each kept row."""
        array, dtype = stored(values)
        vocab = array.shape[1]
        part = {"begin": 0, "count": columns, "of": vocab} if columns and columns < vocab else None
        self.store("logits", None, array, dtype, part)
        exact = array if dtype != "bf16" else (array.astype(np.uint32) << 16).view(np.float32)
        # Rows before the kept ones are cut by store(); order them only where they are needed.
        ids = np.zeros((array.shape[0], min(k, vocab)), np.uint32)
        ids[self._begin :] = top_k(exact[self._begin :], min(k, vocab))
        self.store("top_k.ids", None, ids, "u32")
        self.store("top_k.values", None, np.take_along_axis(array, ids.astype(np.int64), axis=1), dtype)
