#!/usr/bin/env python3
"""Writes docs/spec/errors.md from src/base/errors.def; with --check only compares.

With --check the exit status is 1 where the page is not what the table gives, or a code is raised nowhere, or no test
names it.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/base/errors.def"
PAGE = ROOT / "docs/spec/errors.md"

ROW = re.compile(r'SLM_ERROR\((k\w+), "([A-Z0-9_-]+)", (\d+), (k\w+), "((?:[^"\\]|\\.)*)"\)')
SECTION = re.compile(r"// ([^:]+): (\d+)\.\.")
EXIT = {"kInput": 3, "kUsage": 2, "kClaim": 1, "kEnvironment": 4, "kInternal": 70}

HEAD = """# Error codes

Generated from `src/base/errors.def` by `tools/gen_errors.py`; do not edit.

A code is part of the contract: which code an input gets, and the byte offset or the field that stands with it,
is tested and stays as it is. Programs match on the code or on its number. Numbers are never used again; new codes
go at the end of their section. `OUTER/INNER` means that OUTER was found because of INNER, such as
`SLM-MANIFEST-P0/NON_SHORTEST`.

A refusal prints one line, `error CODE at FILE:BYTE_OFFSET: what, and what to do`, and with `--json`
`{"error":{"code","number","file","byte_offset","field","message"}}`. The last column is the exit status of the
command.
"""


def parse(text: str) -> list[tuple[str, list[tuple[str, int, str, int]]]]:
    """Sections with their rows (code, number, meaning, exit status)."""
    sections: list[tuple[str, list[tuple[str, int, str, int]]]] = []
    for line_number, line in enumerate(text.splitlines(), 1):
        section = SECTION.match(line)
        if section:
            sections.append((section.group(1), []))
        elif line.startswith("SLM_ERROR"):
            row = ROW.fullmatch(line)
            if row is None or not sections:
                raise SystemExit(f"{TABLE.name}:{line_number}: a row of another form")
            _, code, number, area, meaning = row.groups()
            sections[-1][1].append((code, int(number), meaning, EXIT[area]))
        elif line and not line.startswith("//"):
            raise SystemExit(f"{TABLE.name}:{line_number}: neither a row nor a comment")
    return sections


def page(text: str) -> str:
    out = [HEAD]
    for title, rows in parse(text):
        out.append(f"## {title}\n")
        out.append("| code | number | meaning | exit |")
        out.append("|---|---|---|---|")
        for code, number, meaning, status in rows:
            shown = meaning.replace("|", "\\|")
            out.append(f"| `{code}` | {number} | {shown} | {status} |")
        out.append("")
    return "\n".join(out)


def unused(text: str) -> list[str]:
    """Codes that nothing outside the tests raises or writes: a promise without a check behind it."""
    used: set[str] = set()
    for folder in ("src", "apps"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cc", ".h") and not file.name.endswith("_test.cc"):
                used.update(re.findall(r"\bk[A-Z]\w+|[A-Z][A-Z0-9_]*-[A-Z0-9-]+", file.read_text(encoding="utf-8")))
    rows = [match.groups() for match in map(ROW.fullmatch, text.splitlines()) if match]
    return [code for symbol, code, *_ in rows if symbol not in used and code not in used]


def is_test(file: pathlib.PurePath) -> bool:
    """Relative to the root: tests beside the code, suites of their own, and vectors that those read."""
    if file.parts[0] == "vectors":
        return file.suffix in (".json", ".jsonl")
    by_name = file.name.endswith(("_test.cc", "_test.py"))
    return file.suffix in (".cc", ".h", ".py") and (by_name or file.parts[0] == "tests" or file.parts[:2] == ("oracle", "tests"))


def untested(text: str) -> list[str]:
    """Codes that no test names: by the enumerator, or as a quoted text, whole or up to a colon.

    OUTER/INNER names both.
    """
    named: set[str] = set()
    for folder in ("src", "tests", "independent", "oracle/tests", "vectors"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and is_test(file.relative_to(ROOT)):
                content = file.read_text(encoding="utf-8")
                named.update(re.findall(r"\bErrorCode::(k\w+)", content))
                for quoted in re.findall(r"[\"']([A-Z][A-Z0-9_-]*(?:/[A-Z][A-Z0-9_-]*)?)(?:: |[\"'])", content):
                    named.update(quoted.split("/"))
    rows = [match.groups() for match in map(ROW.fullmatch, text.splitlines()) if match]
    return [code for symbol, code, *_ in rows if symbol not in named and code not in named]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    text = TABLE.read_text(encoding="utf-8")
    wanted = page(text)
    if arguments.check:
        for code in unused(text):
            print(f"{code}: nothing raises it", file=sys.stderr)
        for code in untested(text):
            print(f"{code}: no test names it", file=sys.stderr)
        if unused(text) or untested(text):
            return 1
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not what errors.def gives; run tools/gen_errors.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
