"""Kills acquire, convert, `run --record` and promote at many moments (ACQ-10).

    kill_test.py --slm SLM --source DIR --cases FILE --policy FILE --evidence FILE... [--kills N] [--seed N]

Each command runs undisturbed, twice; then N times more, in stores of their own, each killed with SIGKILL at
its own moment of that run time. After each kill `fsck` must call the store clean, and a rerun in the same
store must end with the id of the undisturbed run, with a store that is still clean, with nothing in staging
that `fsck --repair` cannot remove, and with nothing but the artifact where the artifact is written.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

SIGHTINGS = 20  # between the making of the file and its rename there are an fsync and a hash of the file

REPAIRED_RUNS = 4


class Store:
    def __init__(self, slm: str, folder: pathlib.Path):
        self.slm, self.folder = slm, folder

    def command(self, *arguments: str) -> list[str]:
        return [self.slm, "--store", str(self.folder), "--json", *arguments]

    def call(self, *arguments: str) -> dict:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"FAILED: exit {done.returncode}: {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def must_be_clean(self, when: str, *options: str) -> None:
        if not self.folder.exists():
            return  # killed before the first directory
        done = subprocess.run(self.command("fsck", *options), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"FAILED: {when}: fsck exits {done.returncode}: {done.stdout}{done.stderr}")


def kill_after(command: list[str], seconds: float) -> bool:
    """True if the process was still there to be killed."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    alive = process.poll() is None
    if alive:
        process.send_signal(signal.SIGKILL)
    process.wait()
    return alive


def kill_on_sight(command: list[str], folder: pathlib.Path, mark: str) -> bool:
    """Kills as soon as a file whose name holds `mark` is in `folder`; true if it was there when the process died."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(mark in name for name in os.listdir(folder)):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    return any(mark in name for name in os.listdir(folder))


def kill_while_writing(command: list[str], call: Callable[[], dict], out: pathlib.Path) -> None:
    """`out` is written under another name first. A writer killed there leaves that file; the next removes it."""
    for _ in range(SIGHTINGS):
        if kill_on_sight(command, out.parent, ".partial-"):
            break
    else:
        raise SystemExit(f"FAILED: in {SIGHTINGS} runs no kill met a partial file")
    call()
    if [*out.parent.iterdir()] != [out]:
        raise SystemExit(f"FAILED: killed while writing: the rerun leaves {sorted(p.name for p in out.parent.iterdir())}")
    print(f"{out.name}: killed while its partial file was there, and the rerun removes that")


def moments(rng: random.Random, kills: int, duration: float) -> list[float]:
    """One in each of `kills` equal parts of the run time: spread, and not on a grid."""
    return [(i + rng.random()) * duration / kills for i in range(kills)]


def attack(name: str, arguments: list[str], key: str, args: argparse.Namespace, scratch: pathlib.Path,
           rng: random.Random, made: pathlib.Path | None = None, out: pathlib.Path | None = None) -> None:
    """`made`: a store whose copies the runs start from; without one they start from nothing. `out`: the file
    that the command writes, alone in its folder."""
    def fresh(folder: pathlib.Path) -> Store:
        if made is not None:
            shutil.copytree(made, folder)
        return Store(args.slm, folder)

    durations = []
    for i in range(2):  # the faster of two: the first one also warms the caches
        whole = fresh(scratch / f"{name}.whole{i}")
        started = time.monotonic()
        expected = whole.call(*arguments)[key]
        durations.append(time.monotonic() - started)
        whole.must_be_clean(f"{name}, undisturbed")
        shutil.rmtree(whole.folder)
    duration = min(durations)
    n_killed = 0
    for i, moment in enumerate(moments(rng, args.kills, duration)):
        store = fresh(scratch / f"{name}.{i}")
        when = f"{name}, killed after {moment * 1000:.1f} ms"
        n_killed += kill_after(store.command(*arguments), moment)
        store.must_be_clean(when)
        got = store.call(*arguments)[key]
        if got != expected:
            raise SystemExit(f"FAILED: {when}: the rerun gives {got}, an undisturbed run {expected}")
        store.must_be_clean(f"{when}, after the rerun", "--repair")
        left = sorted(p.name for p in (store.folder / "staging").iterdir())
        if left:
            raise SystemExit(f"FAILED: {when}: repair leaves {left} in staging")
        shutil.rmtree(store.folder)
        if out is not None and [*out.parent.iterdir()] != [out]:
            raise SystemExit(f"FAILED: {when}: the rerun leaves {sorted(p.name for p in out.parent.iterdir())}")
    if 2 * n_killed < args.kills:
        raise SystemExit(f"FAILED: {name}: only {n_killed} of {args.kills} runs were there to be killed")
    print(f"figures: {name}: {n_killed} of {args.kills} killed within {duration * 1000:.0f} ms, every store clean, "
          f"every rerun gives {expected[:16]}")


def repair_beside(arguments: list[str], key: str, args: argparse.Namespace, scratch: pathlib.Path) -> None:
    """`fsck --repair` again and again beside the command: it takes nothing away that the command needs."""
    n_repairs = 0
    receipts = set()
    for i in range(REPAIRED_RUNS):
        store = Store(args.slm, scratch / f"repaired.{i}")
        out = scratch / "answer.json"  # a pipe would fill while nobody reads it
        with out.open("w", encoding="utf-8") as sink:
            process = subprocess.Popen(store.command(*arguments), stdin=subprocess.DEVNULL, stdout=sink)
        while process.poll() is None:
            if (store.folder / "version").exists():
                store.must_be_clean("repair beside promote", "--quick", "--repair")
                n_repairs += 1
        answer = json.loads(out.read_text(encoding="utf-8"))
        if process.returncode != 0:
            raise SystemExit(f"FAILED: fsck --repair beside promote: exit {process.returncode}: {answer}")
        receipts.add(answer[key])
        store.must_be_clean("repair beside promote")
        shutil.rmtree(store.folder)
    if len(receipts) != 1 or n_repairs < REPAIRED_RUNS:
        raise SystemExit(f"FAILED: {n_repairs} repairs beside promote, receipts {sorted(receipts)}")
    print(f"promote: {n_repairs} repairs beside {REPAIRED_RUNS} runs, each gives the same receipt")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--evidence", action="append", required=True)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=20261130)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="slm-kill-") as folder:
        scratch = pathlib.Path(folder)
        artifact = scratch / "out" / "model.slm"
        artifact.parent.mkdir()
        attack("acquire", ["acquire", args.source, "--name", "n", "--revision", "r"], "acquisition", args, scratch, rng)
        attack("convert", ["convert", args.source, "-o", str(artifact)], "node", args, scratch, rng, out=artifact)
        again = Store(args.slm, scratch / "again")
        convert = ["convert", args.source, "-o", str(artifact)]
        kill_while_writing(again.command(*convert), lambda: again.call(*convert), artifact)
        made = scratch / "made"
        Store(args.slm, made).call("convert", args.source, "-o", str(artifact))
        attack("run", ["run", str(artifact), "Hello", "--record", "--max-new-tokens", "32"], "run", args, scratch, rng, made)
        evidence = [part for path in args.evidence for part in ("--evidence", path)]
        promote = ["promote", args.source, "--cases", args.cases, *evidence, "--policy", args.policy]
        attack("promote", promote, "receipt", args, scratch, rng)
        repair_beside(promote, "receipt", args, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
