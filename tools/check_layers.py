#!/usr/bin/env python3
"""Fails when a module of src/ includes another of its own or a higher rank.

The rank table is the one in docs/architecture.md: rows `| rank | module, module | ... |`. Only tests may
reach sideways or up. File names are unique in the tree.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9_]+)/', re.MULTILINE)


def ranks(table: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for rank, modules in re.findall(r"^\|\s*(\d+)\s*\|([^|]*)\|", table, re.MULTILINE):
        for module in re.findall(r"`([a-z0-9_]+)`", modules):
            found[module] = int(rank)
    return found


def faults(root: pathlib.Path) -> list[str]:
    rank = ranks((root / "docs/architecture.md").read_text())
    result = []
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in (".h", ".cc", ".def"):
            continue
        module = file.relative_to(root / "src").parts[0]
        if module not in rank:
            result.append(f"{file.relative_to(root)}: module {module} has no rank in docs/architecture.md")
            continue
        for other in INCLUDE.findall(file.read_text()):
            if other == module or other == "tests":
                continue
            if other not in rank:
                result.append(f"{file.relative_to(root)}: includes unknown module {other}")
            elif rank[other] >= rank[module] and not file.name.endswith("_test.cc"):
                result.append(f"{file.relative_to(root)}: {module} (rank {rank[module]}) includes {other} "
                              f"(rank {rank[other]})")
    names: dict[str, pathlib.Path] = {}
    for file in sorted((root / "src").rglob("*")):
        if file.suffix in (".h", ".cc"):
            if file.name in names:
                result.append(f"{file.relative_to(root)}: same file name as {names[file.name]}")
            names[file.name] = file.relative_to(root)
    return result


def main() -> int:
    found = faults(ROOT)
    for fault in found:
        print(fault)
    print(f"layers: {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
