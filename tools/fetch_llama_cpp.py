#!/usr/bin/env python3
"""Fetches llama.cpp as a library, for tests that hold GGUF vocabularies against it: build/llama-cpp/libllama.so and its kin.

    fetch_llama_cpp.py [--out DIR]

The package is that of tests/tokenizer/llama_cpp/package-lock.json, installed by npm with its hash checked and no script of
its run. Nothing is done where the library of this lock is there already. Exit status 77 if npm is absent or cannot reach its
registry, or the package is not for this machine.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import npm_package

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tests" / "tokenizer" / "llama_cpp"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "llama-cpp")
    args = parser.parse_args()
    lock = (PACKAGE / "package-lock.json").read_bytes()
    stamp = args.out / "fetched.lock"
    if stamp.exists() and stamp.read_bytes() == lock:
        return 0
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent) as name:
        folder = pathlib.Path(name)
        try:
            npm_package.install(PACKAGE, folder)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            print(f"fetch_llama_cpp: {error}")
            return 77
        shutil.rmtree(args.out, ignore_errors=True)
        shutil.move(folder / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64", args.out)
    stamp.write_bytes(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
