#!/usr/bin/env python3
"""Builds the mutants: each is the program `slm` with one source file changed by one patch.

    tests/mutants/build.py --build-dir build/release [--out build/mutants] [NAME ...]

For every tests/mutants/NAME.patch the patched file is compiled with the very command that the build
directory uses for it, and the program is linked with that object in front, so that the archive's own object
of the file is never drawn in. The sources are not touched. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests" / "mutants"
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


class MutantError(Exception):
    pass


def parse_patch(text: str) -> tuple[str, list[tuple[int, list[str], list[str]]]]:
    """The file, and for each hunk its first line and the lines before and after."""
    path = ""
    hunks: list[tuple[int, list[str], list[str]]] = []
    for line in text.splitlines():
        match = _HUNK.match(line)
        if line.startswith("+++ b/"):
            if path:
                raise MutantError("a mutant patches one file")
            path = line[len("+++ b/"):]
        elif match:
            hunks.append((int(match.group(1)), [], []))
        elif hunks and line[:1] in (" ", "-", "+", ""):
            body = line[1:]
            if line[:1] != "+":
                hunks[-1][1].append(body)
            if line[:1] != "-":
                hunks[-1][2].append(body)
    if not path or not hunks:
        raise MutantError("no hunk")
    return path, hunks


def apply_hunks(source: str, hunks: list[tuple[int, list[str], list[str]]]) -> str:
    """Each hunk must stand exactly once, so that a patch that no longer fits is an error, not a no-op."""
    lines = source.split("\n")
    for _, before, after in hunks:
        places = [i for i in range(len(lines) - len(before) + 1) if lines[i:i + len(before)] == before]
        if len(places) != 1:
            raise MutantError(f"a hunk fits {len(places)} places; make the patch again")
        lines[places[0]:places[0] + len(before)] = after
    return "\n".join(lines)


def compile_command(build: Path, source: Path) -> tuple[list[str], Path]:
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if Path(entry["directory"], entry["file"]).resolve() == source.resolve():
            arguments = shlex.split(entry["command"]) if "command" in entry else list(entry["arguments"])
            return arguments, Path(entry["directory"])
    raise MutantError(f"{source} is not in compile_commands.json")


def link_command(build: Path, target: str) -> list[str]:
    lines = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    links = [line for line in lines if re.search(r" -o \S*\bslm( |$)", line)]
    if not links:
        raise MutantError("the build directory has no command that links slm")
    # Ninja's generator writes ": && LINK && :".
    part = next(piece for piece in links[-1].split("&&") if " -o " in piece)
    return shlex.split(part)


def build_mutant(name: str, build: Path, out: Path) -> None:
    text = (PATCHES / f"{name}.patch").read_text()
    path, hunks = parse_patch(text)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    patched = folder / Path(path).name
    content = apply_hunks((ROOT / path).read_text(), hunks)
    program = folder / "slm"
    if program.exists() and patched.exists() and patched.read_text() == content:
        base = build / "apps" / "slm" / "slm"
        if base.exists() and base.stat().st_mtime < program.stat().st_mtime:
            return
    patched.write_text(content)
    arguments, directory = compile_command(build, ROOT / path)
    compiled = folder / "mutant.o"
    step: list[str] = []
    skip = False
    for i, argument in enumerate(arguments):
        if skip:
            skip = False
            continue
        if argument in ("-MF", "-MT", "-MQ"):
            skip = True
        elif argument == "-MD":
            continue
        elif argument == "-o":
            step += ["-o", str(compiled)]
            skip = True
        elif i > 0 and Path(directory, argument).resolve() == (ROOT / path).resolve():
            step.append(str(patched))
        else:
            step.append(argument)
    # Quoted includes of the folder that the file was taken from.
    step += ["-iquote", str((ROOT / path).parent)]
    subprocess.run(step, check=True, cwd=directory)
    link = link_command(build, "slm")
    at = link.index("-o")
    link[at + 1] = str(program)
    link.insert(at, str(compiled))
    subprocess.run(link, check=True, cwd=build)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, required=True, help="a built tree that has slm")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("names", nargs="*", help="patches to build (default: all)")
    options = parser.parse_args()
    names = options.names or sorted(path.stem for path in PATCHES.glob("*.patch"))
    for name in names:
        try:
            build_mutant(name, options.build_dir.resolve(), options.out.resolve())
        except (MutantError, OSError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
