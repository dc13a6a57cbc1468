#!/usr/bin/env python3
"""The figures of the chain: accuracy against the truth, speed, memory, acquisition and conversion.

Run by `./dev bench [accuracy|decode|load|convert]...` with the interpreter of the oracle's locked
environment. Ratios stand beside what they are measured against, in one interleaved run.
"""
import base64
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLM = ROOT / "build" / "release" / "apps" / "slm" / "slm"
SMOLLM2 = ROOT / "build" / "models" / "smollm2-135m-instruct"
STORIES = ROOT.parent / "shared" / "models" / "stories260k" / "hf"
MODELS = {"slm-demo": ROOT / "models" / "slm-demo", "stories260k": STORIES, "smollm2": SMOLLM2}
UNSTABLE_CAP = 0.01

sys.path.insert(0, str(ROOT / "oracle"))


def artifact(name: str, scratch: pathlib.Path) -> pathlib.Path:
    out = scratch / f"{name}.slm"
    if not out.exists():
        command = [SLM, "--store", scratch / f"{name}.store", "convert", MODELS[name], "-o", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def candidate_logits(slm_file: pathlib.Path, prompts: list[list[int]]) -> Iterator[np.ndarray]:
    """Logits [positions, vocabulary] of each prompt, by the native scalar runtime."""
    for ids in prompts:
        record = json.dumps({"id": 0, "ids": ids, "max_new_tokens": 0, "logits": "all"}) + "\n"
        done = subprocess.run([SLM, "run", slm_file, "--batch"], input=record, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise SystemExit(f"the candidate refused a prompt: {answer['error']}")
        values = np.frombuffer(base64.b64decode(answer["logits"]["f32"]), dtype="<f4")
        yield values.reshape(answer["logits"]["shape"])


def accuracy(scratch: pathlib.Path) -> bool:
    """Largest logit error against the truth over the 20 prompts of each model, and every greedy choice."""
    from slm_oracle import cases, measure  # pylint: disable=import-outside-toplevel
    from slm_oracle.export import ModelRun, prompt_ids
    from slm_oracle.source import Source
    from slm_oracle.tokens import Tokens

    del measure
    holds = True
    print("\nlogits: largest absolute error against the truth (float64), whole set of prompts")
    print(f"{'model':14} {'prompts':>7} {'positions':>9} {'slm':>9} {'reference':>9} {'ratio':>6} {'same argmax':>12} {'unstable':>8}")
    for name, directory in MODELS.items():
        data = (ROOT / "vectors" / name / ("bench.jsonl" if name != "slm-demo" else "cases.jsonl")).read_bytes()
        source = Source(str(directory))
        reference, truth, tokens = ModelRun(source, "reference", 1), ModelRun(source, "truth", 1), Tokens(source)
        prompts = [prompt_ids(case, tokens, {}) for case in cases.parse(data)]
        worst_ours = worst_reference = 0.0
        positions = same = unstable = 0
        margins = []
        for ids, ours in zip(prompts, candidate_logits(artifact(name, scratch), prompts), strict=True):
            theirs = reference.reference.logits(ids).double().numpy()
            exact = truth.truth.forward(ids, truth.truth.new_cache(), lambda *_: None)
            worst_ours = max(worst_ours, float(np.abs(ours - exact).max()))
            worst_reference = max(worst_reference, float(np.abs(theirs - exact).max()))
            positions += len(ids)
            equal = ours.argmax(-1) == theirs.argmax(-1)
            same += int(equal.sum())
            for row in np.flatnonzero(~equal):
                best = np.sort(theirs[row])[-2:]
                margins.append(float(best[1] - best[0]))
        bound = 2 * (worst_ours + worst_reference)
        unstable = sum(margin <= bound for margin in margins)
        for margin in margins:
            print(f"  {name}: a greedy choice differs, margin {margin:.3g}, bound {bound:.3g}")
        ok = worst_ours <= worst_reference and unstable == len(margins) and unstable <= UNSTABLE_CAP * positions
        holds = holds and ok
        print(f"{name:14} {len(prompts):7} {positions:9} {worst_ours:9.2e} {worst_reference:9.2e} "
              f"{worst_ours / worst_reference:6.2f} {same:6}/{positions:<5} {unstable:8}{'' if ok else '  <- does not hold'}")
    return holds


def timed_run(slm_file: pathlib.Path, new_tokens: int, kernel: str) -> tuple[float, int]:
    """Seconds of the whole process, and its peak resident size in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen([SLM, "run", slm_file, "The log of the day:", "--kernel", kernel, "--ignore-eos",
                                "--max-new-tokens", str(new_tokens)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"slm run ended with {status}")
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def decode(scratch: pathlib.Path) -> bool:
    """Tokens a second of the scalar runtime: the slope between a short and a long generation."""
    slm_file = artifact("smollm2", scratch)
    rates, peaks = [], []
    for _ in range(5):
        short, _ = timed_run(slm_file, 4, "scalar")
        long, peak = timed_run(slm_file, 36, "scalar")
        rates.append(32 / (long - short))
        peaks.append(peak)
    size = slm_file.stat().st_size
    kv = 30 * 2 * 3 * 64 * 4 * 64  # layers, K and V, heads, head size, bytes, positions reached (at most)
    ratio = (statistics.median(peaks) - kv) / size
    print(f"\nSmolLM2-135M f32, native scalar, one core: {statistics.median(rates):.1f} tokens/s "
          f"(five runs: {min(rates):.1f} to {max(rates):.1f}; to reach: 8)")
    print(f"peak memory {statistics.median(peaks) / 2**20:.0f} MiB = {ratio:.2f} times the artifact plus KV (to reach: under 1.2)")
    return statistics.median(rates) >= 8 and ratio < 1.2


def load(scratch: pathlib.Path) -> bool:
    """A process that maps the artifact and makes one token, less the token's own time."""
    slm_file = artifact("smollm2", scratch)
    first, second = [], []
    for _ in range(7):
        first.append(timed_run(slm_file, 1, "scalar")[0])
        second.append(timed_run(slm_file, 2, "scalar")[0])
    one = statistics.median(first)
    token = statistics.median(b - a for a, b in zip(first, second))
    report = subprocess.run([SLM, "--json", "run", slm_file, "x", "--max-new-tokens", "0"], capture_output=True, text=True,
                            check=False)
    print(f"\nSmolLM2-135M f32: process with one new token {one * 1000:.0f} ms; a further token {token * 1000:.0f} ms")
    started = time.perf_counter()
    subprocess.run([SLM, "inspect", slm_file, "--json"], stdout=subprocess.DEVNULL, check=True)
    print(f"inspect (header, manifest, tables; every chunk hashed): {(time.perf_counter() - started) * 1000:.0f} ms")
    del report
    return True


def sync_copy(source: pathlib.Path, target: pathlib.Path) -> float:
    started = time.perf_counter()
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    target.unlink()
    return seconds


def convert(scratch: pathlib.Path) -> bool:
    """Acquire plus convert against writing the same bytes twice with cp and sync, interleaved."""
    weights = SMOLLM2 / "model.safetensors"
    ratios = []
    for round_ in range(3):
        copies = sync_copy(weights, scratch / "copy-1") + sync_copy(weights, scratch / "copy-2")
        store, out = scratch / f"convert-{round_}.store", scratch / f"convert-{round_}.slm"
        started = time.perf_counter()
        subprocess.run([SLM, "--store", store, "convert", SMOLLM2, "-o", out], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        shutil.rmtree(store)
        out.unlink()
        ratios.append(seconds / copies)
        print(f"  acquire and convert {seconds:.2f} s, two copies {copies:.2f} s, ratio {seconds / copies:.2f}")
    middle = statistics.median(ratios)
    print(f"SmolLM2 (538 MB f32): {middle:.2f} times two copies ({min(ratios):.2f} to {max(ratios):.2f}; to reach: at most 2)")
    return middle <= 2


def main() -> int:
    known = {"accuracy": accuracy, "decode": decode, "load": load, "convert": convert}
    chosen = sys.argv[1:] or list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]}; there are: {' '.join(known)}", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        results = {name: known[name](pathlib.Path(scratch)) for name in chosen}
    for name, ok in results.items():
        print(f"{'holds' if ok else 'DOES NOT HOLD':14} {name}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
