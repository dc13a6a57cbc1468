"""Deterministic CBOR as docs/spec/cbor.md narrows it: no floats, no tags, short text keys in order."""

from __future__ import annotations

import re
from typing import Any

from . import OracleError

_KEY = re.compile(rb"[a-z0-9_]{1,64}\Z")
_MAX_DEPTH = 16


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    for info, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << 8 * width:
            return bytes([major << 5 | info]) + argument.to_bytes(width, "big")
    raise OracleError(f"CBOR argument {argument} does not fit 64 bits")


def encode(value: Any) -> bytes:
    """The only encoding of value: int, bytes, str, bool, None, list or tuple, dict with text keys."""
    out = bytearray()
    _write(value, out, 0)
    return bytes(out)


def _write(value: Any, out: bytearray, depth: int) -> None:
    if value is False or value is True or value is None:
        out.append({False: 0xF4, True: 0xF5, None: 0xF6}[value])
    elif isinstance(value, int):
        if value >= 0:
            out += _head(0, value)
        elif value >= -(1 << 63):
            out += _head(1, -1 - value)
        else:
            raise OracleError("CBOR integer below -2^63")
    elif isinstance(value, bytes):
        out += _head(2, len(value)) + value
    elif isinstance(value, str):
        data = value.encode("utf-8")
        out += _head(3, len(data)) + data
    elif isinstance(value, (list, tuple, dict)):
        if depth == _MAX_DEPTH:
            raise OracleError("CBOR nested too deep")
        if isinstance(value, dict):
            members = sorted((_key(key), item) for key, item in value.items())
            out += _head(5, len(members))
            for key, item in members:
                out += key
                _write(item, out, depth + 1)
        else:
            out += _head(4, len(value))
            for item in value:
                _write(item, out, depth + 1)
    else:
        raise OracleError(f"no CBOR form for {type(value).__name__}")


def _key(key: Any) -> bytes:
    data = key.encode("ascii") if isinstance(key, str) else b""
    if not _KEY.match(data):
        raise OracleError(f"not a CBOR key of the profile: {key!r}")
    return _head(3, len(data)) + data


def decode(data: bytes) -> Any:
    """Inverse of encode. Strict: what encode would not write is refused."""
    value, end = _read(data, 0, 0)
    if end != len(data):
        raise OracleError(f"CBOR: bytes after the item at {end}")
    if encode(value) != data:
        raise OracleError("CBOR: not the deterministic encoding")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if at >= len(data):
        raise OracleError(f"CBOR ends inside an item at {at}")
    if depth > _MAX_DEPTH:
        raise OracleError(f"CBOR nested too deep at {at}")
    major, info = data[at] >> 5, data[at] & 31
    start, at = at, at + 1
    if major == 7:
        if info in (20, 21, 22):
            return {20: False, 21: True, 22: None}[info], at
        raise OracleError(f"CBOR: simple value or float at {start}")
    argument = info
    if info in (24, 25, 26, 27):
        width = 1 << info - 24
        if at + width > len(data):
            raise OracleError(f"CBOR ends inside an item at {start}")
        argument = int.from_bytes(data[at : at + width], "big")
        at += width
    elif info > 27:
        raise OracleError(f"CBOR: reserved or indefinite length at {start}")
    if major == 0:
        return argument, at
    if major == 1:
        return -1 - argument, at
    if major == 6:
        raise OracleError(f"CBOR: tag at {start}")
    if argument > len(data) - at:
        raise OracleError(f"CBOR ends inside an item at {start}")
    if major in (2, 3):
        chunk = data[at : at + argument]
        return (chunk if major == 2 else chunk.decode("utf-8")), at + argument
    if major == 4:
        items = []
        for _ in range(argument):
            item, at = _read(data, at, depth + 1)
            items.append(item)
        return items, at
    members: dict[str, Any] = {}
    for _ in range(argument):
        key, at = _read(data, at, depth + 1)
        if not isinstance(key, str) or key in members:
            raise OracleError(f"CBOR: bad or repeated key near {at}")
        members[key], at = _read(data, at, depth + 1)
    return members, at
