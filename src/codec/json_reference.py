"""Reads texts with Python's json module and prints what it made of each, one line a text.

Input file: for each text a little-endian uint32 length and the bytes. Used by
json_differential_test.cc, which must print the same lines.
"""

import json
import struct
import sys


class Refused(Exception):
    pass


def number(text: str) -> tuple[str, str]:
    value = float(text)
    bits = "overflow" if value in (float("inf"), float("-inf")) else struct.pack(">d", value).hex()
    return ("number", f"{text}:{bits}")


def members(pairs: list[tuple[str, object]]) -> tuple[str, list[tuple[str, object]]]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise Refused("duplicate key")
    return ("object", pairs)


def refuse_constant(name: str) -> None:
    raise Refused(name)


def spell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "s" + value.encode("utf-8").hex()  # refuses lone surrogates
    if isinstance(value, list):
        return "[" + ",".join(spell(item) for item in value) + "]"
    kind, content = value
    if kind == "number":
        return "n" + content
    return "{" + ",".join(spell(key) + "=" + spell(item) for key, item in content) + "}"


def read(raw: bytes) -> str:
    try:
        tree = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=members,
            parse_int=number,
            parse_float=number,
            parse_constant=refuse_constant,
        )
        return spell(tree)
    except (Refused, ValueError):
        return "refused"


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        print(read(data[at + 4 : at + 4 + size]))
        at += 4 + size


if __name__ == "__main__":
    main()
