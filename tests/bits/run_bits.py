#!/usr/bin/env python3
"""Builds slm_bits with 2 compilers x 3 optimization levels x 2 instruction sets and requires one
hash from all, for each model. Then a build that lets the compiler contract products into fused
multiply-adds must give another hash, else this test could not fail (OPS-05).

Usage: run_bits.py --source SRC --work DIR --cxx g++ --cxx clang++-22 --lib A.a ... MODEL ...
       [--prompts N] [--ids N] [--o0-ids N] [--two] [--jobs N] [--code]
MODEL: a .slm file or random:SEED. --two: only g++ -O2 and clang++ -O3 with the wider instruction set,
for models that take long. --ids: of the longest prompt. --o0-ids: fewer for the builds without optimization,
whose hashes are held against those that the first optimized build gives for as many. --code: compiles for x86-64-v4
as well, even where that cannot run, and requires that no fused multiply-add is in the code.
"""
from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Build:
    compiler: str
    flags: tuple[str, ...]

    @property
    def label(self) -> str:
        return " ".join((self.compiler, *self.flags))

    @property
    def file(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.label)


def wide_isa() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    needed = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
    if all(flag in text for flag in needed):
        return "-march=x86-64-v4"
    return "-march=x86-64-v3"


def compile_one(build: Build, options: argparse.Namespace) -> Path:
    out = Path(options.work) / build.file
    command = [build.compiler, "-std=c++23", "-fno-exceptions", "-fno-rtti", *build.flags,
               f"-I{options.source}/src", f"{options.source}/tests/bits/slm_bits.cc",
               *options.lib, *options.lib, "-lcrypto", "-o", str(out)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{build.label}: does not build\n{result.stderr[-3000:]}")
    return out


def ids_of(build: Build, options: argparse.Namespace) -> int:
    return options.o0_ids if "-O0" in build.flags else options.ids


def reference_of(builds: list[Build]) -> Build:
    return next(build for build in builds if "-O0" not in build.flags)


def hashes(build: Build, lengths: set[int], options: argparse.Namespace) -> dict[tuple[str, int], str]:
    """By model and ids of the longest prompt."""
    program = compile_one(build, options)
    out = {}
    for model in options.model:
        for n_ids in sorted(lengths):
            result = subprocess.run([str(program), model, str(options.prompts), str(n_ids)], capture_output=True, text=True)
            if result.returncode != 0:
                raise RuntimeError(f"{build.label}: {model}: exit {result.returncode}\n{result.stderr[-1000:]}")
            out[model, n_ids] = result.stdout.strip()
    return out


def plan(options: argparse.Namespace) -> tuple[list[Build], Build]:
    isa = wide_isa()
    exact = ("-ffp-contract=off",)
    if options.two:
        builds = [Build(options.cxx[0], ("-O2", *exact)),
                  Build(options.cxx[-1], ("-O3", isa, *exact))]
    else:
        builds = [Build(cxx, (level, *march, *exact)) for cxx in options.cxx
                  for level in ("-O0", "-O2", "-O3") for march in ((), (isa,))]
    return builds, Build(options.cxx[-1], ("-O2", "-march=x86-64-v3", "-ffp-contract=fast"))


def executed(builds: list[Build], options: argparse.Namespace) -> str:
    """How many builds ran with which instruction set: a level of x86-64 that this CPU lacks is in none."""
    sets = [next((flag.removeprefix("-march=") for flag in build.flags if flag.startswith("-march=")), "x86-64")
            for build in builds]
    text = ", ".join(f"{sets.count(name)} for {name}" for name in sorted(set(sets)))
    v4 = "" if "x86-64-v4" in sets else "; x86-64-v4 NOT executed (no AVX-512 here)" + (
        ", its code was looked at" if options.code else "")
    short = "" if options.o0_ids == options.ids else f", of 8 to {options.o0_ids} at -O0"
    return (f"{len(builds)} builds ran ({text}) on {len(options.model)} model(s), {options.prompts} prompts of 8 to "
            f"{options.ids} ids{short}{v4}")


FUSED = re.compile(r"\sv?fn?m(?:add|sub|addsub|subadd)\d*[sp][sd]\b")


def fused(build: Build, options: argparse.Namespace) -> list[str]:
    """Fused multiply-adds in the code of this build, which need not run here."""
    out = Path(options.work) / f"{build.file}.o"
    command = [build.compiler, "-std=c++23", "-fno-exceptions", "-fno-rtti", *build.flags, f"-I{options.source}/src",
               "-c", f"{options.source}/tests/bits/slm_bits.cc", "-o", str(out)]
    subprocess.run(command, check=True)
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(out)], capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if FUSED.search(line)]


def check_code(options: argparse.Namespace) -> int:
    """-march=x86-64-v4 by disassembly, for machines that cannot run it: a compiler that contracted nothing for v4
    has written no fused multiply-add. The same with contraction must hold some, else nothing was looked for."""
    failures = 0
    for compiler in options.cxx:
        found = fused(Build(compiler, ("-O3", "-march=x86-64-v4", "-ffp-contract=off")), options)
        failures += bool(found)
        print(f"{compiler} -O3 -march=x86-64-v4: {len(found)} fused multiply-adds in the code"
              + (f", first {found[0].strip()}" if found else ""))
    found = fused(Build(options.cxx[-1], ("-O3", "-march=x86-64-v4", "-ffp-contract=fast")), options)
    failures += not found
    print(f"{options.cxx[-1]} -O3 -march=x86-64-v4 -ffp-contract=fast: {len(found)} fused multiply-adds, as it must"
          if found else "no fused multiply-add where contraction is allowed: this check could not fail")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--cxx", action="append", required=True)
    parser.add_argument("--lib", action="append", default=[])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--ids", type=int, default=200)
    parser.add_argument("--o0-ids", type=int, help="for builds with -O0 (default: as --ids)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--code", action="store_true", help="also look at the code of -march=x86-64-v4")
    parser.add_argument("model", nargs="+")
    options = parser.parse_args()
    options.o0_ids = options.o0_ids or options.ids
    for compiler in options.cxx:
        if shutil.which(compiler) is None:
            print(f"{compiler} is not installed; ./dev test installs it")
            return 1
    Path(options.work).mkdir(parents=True, exist_ok=True)
    builds, contracted = plan(options)
    reference = reference_of(builds)

    def run_one(build: Build) -> dict[tuple[str, int], str]:
        every = {ids_of(each, options) for each in builds} if build == reference else {ids_of(build, options)}
        return hashes(build, every, options)

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(run_one, [*builds, contracted]))
    except RuntimeError as error:
        print(error)
        return 1
    failures = check_code(options) if options.code else 0
    for model in options.model:
        wanted = results[builds.index(reference)]
        for build, result in zip(builds, results):
            key = (model, ids_of(build, options))
            same = result[key] == wanted[key]
            failures += not same
            verdict = "same" if same else "DIFFERS"
            print(f"{result[key][:16]} {verdict}  {model}  {build.label}  {options.prompts} prompts of 8 to {key[1]} ids")
        key = (model, ids_of(contracted, options))
        contracted_hash = results[-1][key]
        failures += contracted_hash == wanted[key]
        verdict = "SAME, but must differ" if contracted_hash == wanted[key] else "differs, as it must"
        print(f"{contracted_hash[:16]} {verdict}  {model}  {contracted.label}  {options.prompts} prompts of 8 to {key[1]} ids")
    outcome = "one hash for each model" if failures == 0 else f"{failures} failures"
    print(f"{len(builds)} builds, {len(options.model)} models: {outcome}")
    print(f"figures: {executed(builds, options)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
