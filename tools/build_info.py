#!/usr/bin/env python3
"""Writes build_info.cc: what BKD-03 binds of a build.

The file is rewritten only when its contents change, so that an unchanged tree links once.
The source tree's hash covers the path and the bytes of every file that the build reads. The flags
are those of the compile commands that CMake wrote, not a list kept beside them.
"""
import argparse
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess

PARTS = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps", "profiles", "tools/build_info.py"]


def sha256_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class HashCache:
    """SHA-256 of large files that do not change between two builds, by path, size and time."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.known: dict[str, list] = json.loads(path.read_text()) if path.exists() else {}

    def sha256_of(self, path: pathlib.Path) -> str:
        facts = path.stat()
        key = [facts.st_size, facts.st_mtime_ns]
        entry = self.known.get(str(path))
        if entry is None or entry[:2] != key:
            entry = [*key, sha256_of(path)]
            self.known[str(path)] = entry
            self.path.write_text(json.dumps(self.known))
        return entry[2]


def parts_of(executable: pathlib.Path) -> list[pathlib.Path]:
    """The files that a compiler or linker is made of: clang's driver and ld.lld are thin, the code is in
    LLVM's shared libraries; g++ runs cc1plus and as."""
    parts = [executable.resolve()]
    listed = subprocess.run(["ldd", str(executable)], capture_output=True, text=True, check=True).stdout
    parts += [pathlib.Path(path).resolve() for path in re.findall(r"lib(?:clang-cpp|LLVM|bfd)\S* => (\S+)", listed)]
    if "g++" in executable.resolve().name:
        for name in ("cc1plus", "as"):
            found = subprocess.run([str(executable), f"-print-prog-name={name}"], capture_output=True, text=True, check=True)
            parts.append(program(found.stdout.strip()).resolve())
    return parts


def program_sha256(cache: HashCache, executable: pathlib.Path) -> str:
    """Over the hashes of its parts, in order."""
    return hashlib.sha256(b"".join(bytes.fromhex(cache.sha256_of(part)) for part in parts_of(executable))).hexdigest()


def compile_flags(root: pathlib.Path, build: pathlib.Path) -> list[str]:
    """One line for each set of flags, with the sources that it compiles where it is not the commonest."""
    sets: dict[str, list[str]] = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(command["command"])
        output = words[words.index("-o") + 1]
        if not output.startswith(("src/", "apps/slm/")) or "_test.dir/" in output:
            continue
        start = next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang|gcc)[-.\d]*$", word)) + 1
        words = words[start:words.index("-o")]
        flags = " ".join(words).replace(str(build), "build").replace(str(root), ".")
        source = command["file"].replace(str(build), "build").replace(str(root), ".").removeprefix("./")
        sets.setdefault(flags, []).append(source)
    ranked = sorted(sets.items(), key=lambda item: (-len(item[1]), item[0]))
    return [ranked[0][0], *(f"{flags} ({' '.join(sorted(files))})" for flags, files in ranked[1:])]


def source_tree_sha256(root: pathlib.Path) -> str:
    files: list[pathlib.Path] = []
    for part in PARTS:
        path = root / part
        files += [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
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
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the folder of compile_commands.json")
    parser.add_argument("--link-flags", required=True)
    parser.add_argument("--module", type=pathlib.Path, help="write JSON about this WebAssembly module instead")
    parser.add_argument("--text-module", type=pathlib.Path, help="and about the one that makes ids of texts for it")
    args = parser.parse_args()

    compiler = program(args.compiler)
    linker = program("wasm-ld-22") if args.module is not None else linker_of(compiler, args.link_flags)
    cache = HashCache(args.out.with_suffix(".hashes"))
    flags = "; ".join([*compile_flags(args.root, args.build), "link: " + " ".join(args.link_flags.split())])
    values = {
        "version": args.version,
        "compiler": first_line([str(compiler), "--version"]),
        "compiler_sha256": program_sha256(cache, compiler),
        "linker": first_line([str(linker), "--version"]),  # by its own name: lld is one program with several
        "linker_sha256": program_sha256(cache, linker),
        "flags": flags,
        "source_tree_sha256": source_tree_sha256(args.root),
    }
    if args.module is not None:
        modules = {"executable_sha256": sha256_of(args.module), "text_module_sha256": sha256_of(args.text_module)}
        args.out.write_text(json.dumps({**modules, **values}, indent=1) + "\n")
        return
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
