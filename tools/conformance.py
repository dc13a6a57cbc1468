#!/usr/bin/env python3
"""Writes docs/conformance.md: for each requirement, where it is implemented and which test shows it.

    tools/conformance.py           writes the page
    tools/conformance.py --check   fails when the page is not what the tree gives

The page is found, not kept by hand: it lists the sources that cite a requirement's number in a comment, and
the tests that do, in a comment or in a name (`Tok09` stands for TOK-09). A number that nothing cites is not
claimed. A range (`ACQ-01 to ACQ-14`) names a section of the standard and credits nothing. Numbers cited in the tree that docs/requirements.tsv lacks are an error.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
FOLDERS = ["src", "apps", "oracle", "independent", "tests", "tools", "web/src", "web/app", "web/test"]
SUFFIXES = {".cc", ".h", ".def", ".py", ".ts"}
PREFIXES = "LVL ID ACQ TOK TPL CFG MAP ORA OPS QNT TOL SMP GLD BKD BIS RUN STA INV TOOL".split()
CITED = re.compile(r"(?<![A-Za-z0-9-])(" + "|".join(PREFIXES) + r")-(\d\d)(?![0-9A-Za-z-])")
RANGE = re.compile(r"(?<![A-Za-z0-9-])(" + "|".join(PREFIXES) + r")-(\d\d) to \1-(\d\d)(?!\d)")
TEST_NAME = re.compile(r"TEST(?:_F|_P)?\((\w+),\s*(\w+)\)|def (test_\w+)")
IN_NAME = re.compile("(?i)(?<![a-z])(" + "|".join(PREFIXES) + r")[_ ]?(\d\d)(?!\d)")
HEAD = """# Conformance

Made by `tools/conformance.py` from the requirement numbers that sources and tests cite. The wording is
short; the standard has the full text. A citation says where to look, not that all of a requirement is met: what a
test shows stands in the test. "Not yet" means that nothing in this version cites the requirement, or no test does; with
it stands the subject of the work that is to show it, where that is planned.

| requirement | in short | implemented in | shown by |
|---|---|---|---|
"""

# Subjects of later work, for what nothing shows yet: by number, else by prefix.
LATER = {
    "ACQ-01": "hub and stores", "ACQ-09": "hub and stores", "ACQ-11": "evidence", "ACQ-13": "hub and stores",
    "TOK-08": "tokenizers", "TOK-14": "tokenizers", "TOK-06": "tokenizers", "TPL-06": "chat templates",
    "OPS-04": "browser", "QNT": "quantized formats and speed", "GLD-04": "evidence", "BKD": "browser and WebGPU",
    "BIS-03": "evidence", "RUN": "conversations", "STA": "evidence", "INV": "evidence", "TOOL": "evidence",
}


def is_test(path: pathlib.Path) -> bool:
    return path.parts[0] == "tests" or path.parts[:2] == ("web", "test") or "tests" in path.parts[:-1] or path.stem.endswith("_test")


def numbers(text: str, test: bool) -> set[str]:
    found = {f"{prefix}-{digits}" for prefix, digits in CITED.findall(RANGE.sub("", text))}
    if test:
        for suite, name, function in TEST_NAME.findall(text):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", f"{suite} {name} {function}").replace("_", " ")
            found |= {f"{prefix.upper()}-{digits}" for prefix, digits in IN_NAME.findall(words)}
    return found


def survey(root: pathlib.Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Requirement to files: sources, tests."""
    sources: dict[str, list[str]] = {}
    tests: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
            if file.suffix not in SUFFIXES or hidden or path == pathlib.Path("tools/conformance.py"):
                continue
            into = tests if is_test(path) else sources
            for number in numbers(file.read_text(encoding="utf-8"), is_test(path)):
                into.setdefault(number, []).append(str(path))
    return sources, tests


def cell(paths: list[str], otherwise: str, most: int = 4) -> str:
    if not paths:
        return otherwise
    shown = ", ".join(f"`{path}`" for path in paths[:most])
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"


def page(root: pathlib.Path) -> str:
    rows = [
        line.split("\t") for line in (root / "docs/requirements.tsv").read_text(encoding="utf-8").splitlines()
    ]
    sources, tests = survey(root)
    unknown = (set(sources) | set(tests)) - {number for number, _ in rows}
    if unknown:
        places = {number: (sources.get(number, []) + tests.get(number, []))[0] for number in sorted(unknown)}
        raise SystemExit(f"cited, but not in docs/requirements.tsv: {places}")
    lines = []
    for number, wording in rows:
        claimed = number in sources or number in tests
        subject = LATER.get(number, LATER.get(number.partition("-")[0]))
        not_yet = f"not yet ({subject})" if subject else "not yet"
        where = cell(sources.get(number, []), "-" if claimed else "not yet")
        shown = cell(tests.get(number, []), not_yet)
        lines.append(f"| {number} | {wording} | {where} | {shown} |\n")
    return HEAD + "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = page(ROOT)
    if args.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print("docs/conformance.md is out of date: run tools/conformance.py")
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
