#!/usr/bin/env python3
"""Writes build_info.cc: what BKD-03 binds of a build.

The file is rewritten only when its contents change, so that an unchanged tree links once.
The source tree's hash covers the path and the bytes of every file that the build reads.
"""
import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess

PARTS = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps"]


def sha256_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def source_tree_sha256(root: pathlib.Path) -> str:
    files: list[pathlib.Path] = []
    for part in PARTS:
        path = root / part
        files += [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.relative_to(root).as_posix().encode()):
        name = file.relative_to(root).as_posix().encode()
        digest.update(len(name).to_bytes(8, "little") + name + bytes.fromhex(sha256_of(file)))
    return digest.hexdigest()


def program(name: str) -> pathlib.Path:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"build_info: no program {name}")
    return pathlib.Path(found)


def linker_of(compiler: pathlib.Path, link_flags: str) -> pathlib.Path:
    chosen = re.search(r"-fuse-ld=(\S+)", link_flags)
    return program("ld." + chosen[1] if chosen else "ld")


def first_line(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", required=True)
    parser.add_argument("--link-flags", required=True)
    args = parser.parse_args()

    compiler = program(args.compiler)
    linker = linker_of(compiler, args.link_flags)
    flags = " ".join((args.flags + " " + args.link_flags).split())
    values = {
        "version": args.version,
        "compiler": first_line([str(compiler), "--version"]),
        "compiler_sha256": sha256_of(compiler),
        "linker": first_line([str(linker), "--version"]),  # by its own name: lld is one program with several
        "linker_sha256": sha256_of(linker),
        "flags": flags,
        "source_tree_sha256": source_tree_sha256(args.root),
    }
    rows = "\n".join(f"    .{name} = {quoted(text)}," for name, text in values.items())
    text = f"""// Written by tools/build_info.py.
#include "apps/slm/build_info.h"

namespace slm::app {{
namespace {{
constexpr BuildInfo kBuildInfo = {{
{rows}
}};
}}  // namespace

const BuildInfo& GetBuildInfo() {{ return kBuildInfo; }}

}}  // namespace slm::app
"""
    if not args.out.exists() or args.out.read_text() != text:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
