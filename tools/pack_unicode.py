#!/usr/bin/env python3
"""Packs the Unicode tables of one generated source file, for the module that browsers load.

    pack_unicode.py module src/unicode/NAME.cc OUT.cc      the same file, each table packed and unpacked at start
    pack_unicode.py check OUT.cc src/unicode/NAME.cc ...   a program that compares both forms of every table

A packed table: one byte, the stride s, then for each value its difference from the value s places before (0 for the
first ones), zigzag, as LEB128; after a difference of 0 stands the number of further zeros. Tables in bytes and words
hold mostly runs and rising numbers, so this takes a fifth of the room, and a compressor still finds the rest.
"""
import pathlib
import re
import sys

TABLE = re.compile(r"^const (uint8_t|uint16_t|uint64_t|int32_t|char32_t) (k\w+)\[(\d+)\] = \{\n(.*?)\n\};\n", re.MULTILINE | re.DOTALL)
STRIDES = (1, 2, 4)


def leb128(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_with(values: list[int], stride: int) -> bytes:
    deltas = [value - (values[i - stride] if i >= stride else 0) for i, value in enumerate(values)]
    out = bytearray([stride])
    i = 0
    while i < len(deltas):
        out += leb128(deltas[i] * 2 if deltas[i] >= 0 else -deltas[i] * 2 - 1)
        i += 1
        if deltas[i - 1] == 0:
            begin = i
            while i < len(deltas) and deltas[i] == 0:
                i += 1
            out += leb128(i - begin)
    return bytes(out)


def pack(values: list[int]) -> bytes:
    return min((pack_with(values, stride) for stride in STRIDES), key=len)


def byte_array(name: str, data: bytes) -> str:
    lines = [", ".join(str(byte) for byte in data[i:i + 24]) for i in range(0, len(data), 24)]
    return f"const uint8_t {name}[{len(data)}] = {{\n" + ",\n".join(lines) + "\n};\n"


def values_of(body: str, n_values: int, name: str) -> list[int]:
    values = [int(word, 0) for word in body.replace(",", " ").split()]
    if len(values) != n_values:
        raise SystemExit(f"{name} has {len(values)} values, not {n_values}")
    return values


def module_source(text: str) -> str:
    names: list[tuple[str, str]] = []

    def packed(match: re.Match[str]) -> str:
        ctype, name, n_values, body = match.groups()
        names.append((name, n_values))
        data = pack(values_of(body, int(n_values), name))
        return (f"{ctype} {name}[{n_values}];\nnamespace {{\n{byte_array(name + 'Packed', data)}"
                f"const bool {name}Ready = (internal_unpack::Unpack({name}Packed, {name}, {n_values}), true);\n}}  // namespace\n")

    out = TABLE.sub(packed, text)
    if not names:
        raise SystemExit("no table found")
    for name, _ in names:
        out = re.sub(rf"^extern const (\w+ {name}\[)", r"extern \1", out, flags=re.MULTILINE)
    return out.replace("#include <cstddef>\n", '#include <cstddef>\n\n#include "unicode/unpack.h"\n', 1) if "#include <cstddef>\n" in out \
        else re.sub(r'(#include "unicode/\w+\.h"\n)', r'\1#include "unicode/unpack.h"\n', out, count=1)


def check_source(paths: list[pathlib.Path]) -> str:
    parts = ["#include <cstdio>\n#include <cstring>\n#include <vector>\n\n#include \"unicode/unpack.h\"\n\nnamespace slm::unicode {\n"]
    calls = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found = re.search(r"internal_\w+_v\d+_0", text)
        if found is None:
            raise SystemExit(f"{path} names no namespace")
        space = found[0]
        for ctype, name, n_values, body in TABLE.findall(text):
            parts.append(f"namespace {space} {{\nextern const {ctype} {name}[];\n"
                         f"static {byte_array(name + 'Packed', pack(values_of(body, int(n_values), name)))}}}\n")
            calls.append(f"  n_wrong += Differs({space}::{name}Packed, {space}::{name}, {n_values}, \"{name}\");\n")
    parts.append("""template <typename T>
int Differs(const uint8_t* packed, const T* table, size_t n_values, const char* name) {
  std::vector<T> unpacked(n_values);
  internal_unpack::Unpack(packed, unpacked.data(), n_values);
  if (std::memcmp(unpacked.data(), table, n_values * sizeof(T)) == 0) return 0;
  std::printf("%s differs\\n", name);
  return 1;
}
}  // namespace slm::unicode

int main() {
  using namespace slm::unicode;
  int n_wrong = 0;
""")
    return "".join([*parts, *calls, f'  std::printf("figures: {len(calls)} tables\\n");\n  return n_wrong;\n}}\n'])


def main() -> int:
    if len(sys.argv) == 4 and sys.argv[1] == "module":
        source = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
        pathlib.Path(sys.argv[3]).write_text(module_source(source), encoding="utf-8")
        return 0
    if len(sys.argv) > 3 and sys.argv[1] == "check":
        pathlib.Path(sys.argv[2]).write_text(check_source([pathlib.Path(name) for name in sys.argv[3:]]), encoding="utf-8")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
