#!/usr/bin/env python3
"""Runs the fuzz targets: first every input of fuzz/regressions, then each target for some seconds.

    run.py --build build/fuzz --work DIR [--seconds N] [--seed S] [--artifact FILE.slm ...] [TARGET ...]

One job, a fixed seed, seeds from seeds.py. What is found grows DIR/corpus/TARGET, which a longer run goes on
from. Exit status 1 with the input's file where an invariant broke or a sanitizer spoke.
"""
from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = ("json", "cbor", "safetensors", "slm", "config", "golden", "tokenizer", "vocabulary", "regex", "encode", "template",
           "store")
MAX_LENGTH = {"slm": 262144, "tokenizer": 131072, "regex": 1024, "encode": 4096, "golden": 65536}


def call(command: list[str], log: pathlib.Path) -> tuple[int, str]:
    with open(log, "wb") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    return status, log.read_text(errors="replace")


def fuzz(target: str, options: argparse.Namespace) -> bool:
    program = str(options.build / "fuzz" / f"slm_fuzz_{target}")
    corpus, found = options.work / "corpus" / target, options.work / "found" / target
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    common = ["-rss_limit_mb=2048", "-timeout=10", f"-artifact_prefix={found}/"]
    old = sorted(str(file) for file in (HERE / "regressions" / target).glob("*"))
    if old:
        status, text = call([program, *common, *old], options.work / f"{target}.replay.log")
        if status != 0:
            print(f"FAILED {target}: an old input fails again\n{text[-3000:]}")
            return False
    seeds = options.work / "seeds" / target
    status, text = call([program, *common, f"-max_total_time={options.seconds}", f"-seed={options.seed}", "-jobs=0",
                         f"-max_len={MAX_LENGTH.get(target, 16384)}", "-print_final_stats=1", str(corpus), str(seeds)],
                        options.work / f"{target}.log")
    runs = re.search(r"number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+)", text)
    print(f"{'passed' if status == 0 else 'FAILED'} {target}: {len(old)} old inputs, "
          f"{runs.group(1) if runs else '?'} runs, {covered[-1] if covered else '?'} edges", flush=True)
    if status != 0:
        print(text[-3000:])
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--artifact", action="append", default=[])
    parser.add_argument("target", nargs="*", default=TARGETS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    artifacts = [part for path in options.artifact for part in ("--artifact", path)]
    subprocess.run([sys.executable, str(HERE / "seeds.py"), str(options.work / "seeds"), *artifacts], check=True)
    return 0 if all([fuzz(target, options) for target in options.target]) else 1


if __name__ == "__main__":
    sys.exit(main())
