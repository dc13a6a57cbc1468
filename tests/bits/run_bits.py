#!/usr/bin/env python3
"""Builds slm_bits with 2 compilers x 3 optimization levels x 2 instruction sets and requires one
hash from all, for each model. Then a build that lets the compiler contract products into fused
multiply-adds must give another hash, else this test could not fail (OPS-05).

Usage: run_bits.py --source SRC --work DIR --cxx g++ --cxx clang++-22 --lib A.a ... MODEL ...
       [--prompts N] [--two] [--jobs N] [--code]
MODEL: a .slm file or random:SEED. --two: only g++ -O2 and clang++ -O3 with the wider
instruction set, for models that take long. --code: compiles for x86-64-v4 as well, even where that
cannot run, and requires that no fused multiply-add is in the code.
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
    print("note: this CPU has no AVX-512; -march=x86-64-v3 stands in for x86-64-v4")
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


def hashes(build: Build, options: argparse.Namespace) -> dict[str, str]:
    program = compile_one(build, options)
    out = {}
    for model in options.model:
        command = [str(program), model, str(options.prompts)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"{build.label}: {model}: exit {result.returncode}\n{result.stderr[-1000:]}")
        out[model] = result.stdout.strip()
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
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--code", action="store_true", help="also look at the code of -march=x86-64-v4")
    parser.add_argument("model", nargs="+")
    options = parser.parse_args()
    for compiler in options.cxx:
        if shutil.which(compiler) is None:
            print(f"{compiler} is not installed; ./dev test installs it")
            return 1
    Path(options.work).mkdir(parents=True, exist_ok=True)
    builds, contracted = plan(options)
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda build: hashes(build, options), [*builds, contracted]))
    except RuntimeError as error:
        print(error)
        return 1
    failures = check_code(options) if options.code else 0
    for model in options.model:
        wanted = results[0][model]
        for build, result in zip(builds, results):
            same = result[model] == wanted
            failures += not same
            verdict = "same" if same else "DIFFERS"
            print(f"{result[model][:16]} {verdict}  {model}  {build.label}")
        fused = results[-1][model]
        failures += fused == wanted
        verdict = "SAME, but must differ" if fused == wanted else "differs, as it must"
        print(f"{fused[:16]} {verdict}  {model}  {contracted.label}")
    outcome = "one hash for each model" if failures == 0 else f"{failures} failures"
    print(f"{len(builds)} builds, {len(options.model)} models, {options.prompts} prompts each: {outcome}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
