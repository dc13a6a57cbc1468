"""Deterministic CBOR as docs/spec/cbor.md defines it: reader with code and byte offset, and writer.

Standard library only. Values: int, bytes, str, list, dict (text keys), bool, None.
"""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 16
MAX_ITEMS = 1 << 20
MAX_STRING = 4 << 20
MAX_BYTES = 16 << 20
_KEY_CHARACTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_")


class CborError(ValueError):
    """A refused input: `code` as in the error table, `offset` of the offending item."""

    def __init__(self, code: str, offset: int) -> None:
        super().__init__(f"{code} at {offset}")
        self.code = code
        self.offset = offset


class _Reader:
    def __init__(self, data: bytes, max_items: int) -> None:
        self.data = data
        self.at = 0
        self.items_left = max_items

    def head(self) -> tuple[int, int, int]:
        """(major type, argument, offset of the item)."""
        start = self.at
        if start >= len(self.data):
            raise CborError("TRUNCATED", start)
        first = self.data[start]
        major, info = first >> 5, first & 0x1F
        self.at += 1
        if major == 7:
            self.simple(info, start)
            return major, info, start
        if major == 6:
            raise CborError("TAG_FORBIDDEN", start)
        if info < 24:
            return major, info, start
        if info == 31:
            raise CborError("INDEFINITE" if 2 <= major <= 5 else "RESERVED_AI", start)
        if info > 27:
            raise CborError("RESERVED_AI", start)
        width = 1 << (info - 24)
        if len(self.data) - self.at < width:
            raise CborError("TRUNCATED", start)
        argument = int.from_bytes(self.data[self.at : self.at + width], "big")
        self.at += width
        if argument < (24 if width == 1 else 1 << (4 * width)):
            raise CborError("NON_SHORTEST", start)
        return major, argument, start

    def simple(self, info: int, start: int) -> None:
        if info in (20, 21, 22):
            return
        if info in (25, 26, 27):
            raise CborError("FLOAT_FORBIDDEN", start)
        if info in (28, 29, 30):
            raise CborError("RESERVED_AI", start)
        if info == 31:
            raise CborError("INDEFINITE", start)
        raise CborError("SIMPLE_FORBIDDEN", start)

    def string(self, length: int, start: int) -> bytes:
        if length > len(self.data) - self.at:
            raise CborError("TRUNCATED", start)
        if length > MAX_STRING:
            raise CborError("LIMIT_SIZE", start)
        value = self.data[self.at : self.at + length]
        self.at += length
        return value

    def text(self, length: int, start: int) -> str:
        try:
            return self.string(length, start).decode("utf-8")
        except UnicodeDecodeError as error:
            raise CborError("BAD_UTF8", start) from error

    def value(self, depth: int) -> Any:
        if self.items_left == 0:
            raise CborError("LIMIT_ITEMS", self.at)
        self.items_left -= 1
        major, argument, start = self.head()
        if major == 0:
            return argument
        if major == 1:
            if argument > (1 << 63) - 1:
                raise CborError("INT_RANGE", start)
            return -1 - argument
        if major == 2:
            return self.string(argument, start)
        if major == 3:
            return self.text(argument, start)
        if major == 7:
            return {20: False, 21: True, 22: None}[argument]
        if depth == MAX_DEPTH:
            raise CborError("LIMIT_DEPTH", start)
        left = len(self.data) - self.at
        if argument * (1 if major == 4 else 2) > left:
            raise CborError("TRUNCATED", start)
        if major == 4:
            return [self.value(depth + 1) for _ in range(argument)]
        return self.map(argument, depth)

    def map(self, count: int, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        previous = b""
        for _ in range(count):
            if self.at < len(self.data) and self.data[self.at] >> 5 != 3:
                raise CborError("KEY_TYPE", self.at)
            _, argument, start = self.head()
            key = self.text(argument, start)
            if not 1 <= len(key) <= 64 or not _KEY_CHARACTERS.issuperset(key.encode("utf-8")):
                raise CborError("KEY_CHARSET", start)
            encoded = self.data[start : self.at]
            if encoded == previous:
                raise CborError("DUPLICATE_KEY", start)
            if encoded < previous:
                raise CborError("KEY_ORDER", start)
            previous = encoded
            members[key] = self.value(depth + 1)
        return members


def decode(data: bytes, max_bytes: int = MAX_BYTES, max_items: int = MAX_ITEMS) -> Any:
    """The one value that `data` encodes, or CborError."""
    if len(data) > max_bytes:
        raise CborError("LIMIT_SIZE", 0)
    reader = _Reader(data, max_items)
    value = reader.value(0)
    if reader.at != len(data):
        raise CborError("TRAILING_BYTES", reader.at)
    return value


def offset_of(data: bytes, path: str) -> int:
    """Byte offset of the item that a path such as tensors[3].layer names; where the path leaves the value, of
    the last item on it. `data` decodes."""
    at = 0

    def head(place: int) -> tuple[int, int, int]:
        info = data[place] & 31
        width = 0 if info < 24 else 1 << (info - 24)
        argument = int.from_bytes(data[place + 1 : place + 1 + width], "big") if width else info
        return data[place] >> 5, argument, place + 1 + width

    def skip(place: int) -> int:
        major, argument, place = head(place)
        if major in (2, 3):
            return place + argument
        for _ in range(argument * (major - 3) if major in (4, 5) else 0):
            place = skip(place)
        return place

    for name, index in re.findall(r"([a-z0-9_]+)(?![a-z0-9_]*\])|\[([0-9]+)\]", path):
        major, count, place = head(at)
        if major != (4 if index else 5):
            break
        if index:
            if int(index) >= count:
                break
            for _ in range(int(index)):
                place = skip(place)
            at = place
            continue
        for _ in range(count):
            _, length, begin = head(place)
            place = begin + length
            if data[begin:place] == name.encode():
                at = place
                break
            place = skip(place)
        else:
            break
    return at


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    width = next(width for width in (1, 2, 4, 8) if argument >> (8 * width) == 0)
    return bytes([major << 5 | {1: 24, 2: 25, 4: 26, 8: 27}[width]]) + argument.to_bytes(width, "big")


def encode(value: Any) -> bytes:
    """The only encoding of `value`."""
    if value is None or isinstance(value, bool):
        return b"\xf6" if value is None else (b"\xf5" if value else b"\xf4")
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        text = value.encode("utf-8")
        return _head(3, len(text)) + text
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        members = sorted((encode(key), encode(item)) for key, item in value.items())
        return _head(5, len(members)) + b"".join(key + item for key, item in members)
    raise TypeError(f"no form for {type(value).__name__}")
