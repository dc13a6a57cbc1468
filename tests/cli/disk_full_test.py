"""A full disk under acquire, convert, `run --record` and promote (ACQ-10).

    disk_full_test.py --slm SLM --source DIR --cases FILE --policy FILE --evidence FILE...

Each command runs undisturbed; then again and again, in stores of their own, on a disk that takes only a part of what it
writes (disk_full.c, since a small file system of its own cannot be mounted everywhere). Each of those runs must end with
exit status 4, DISK-FULL and a path below the folders it writes to; `fsck` must call the store clean; the rerun, with room,
must end with the id of the undisturbed run, and nothing but the artifact stands where the artifact is written. Standard
library only.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PLENTY = 1 << 40
PARTS = 12  # of what a command writes: the disk is full after each twelfth but the last
HERE = pathlib.Path(__file__).resolve().parent


class Fault(Exception):
    pass


class Disk:
    def __init__(self, slm: str, scratch: pathlib.Path):
        self.slm, self.scratch = slm, scratch
        self.shim = scratch / "disk_full.so"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(HERE / "disk_full.c"), "-o",
                        str(self.shim), "-ldl"], check=True)

    def call(self, store: pathlib.Path, arguments: list[str], room: int | None) -> tuple[int, dict, str]:
        """`room` in bytes; None: no bound."""
        environment = dict(os.environ)
        if room is not None:
            environment |= {"LD_PRELOAD": str(self.shim), "SLM_DISK_BYTES": str(room)}
        done = subprocess.run([self.slm, "--store", str(store), "--json", *arguments], env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
        return done.returncode, json.loads(done.stdout), done.stderr

    def need(self, store: pathlib.Path, arguments: list[str]) -> int:
        """Bytes that the command writes to files."""
        left = self.scratch / "left"
        os.environ["SLM_DISK_LEFT"] = str(left)
        self.call(store, arguments, PLENTY)
        del os.environ["SLM_DISK_LEFT"]
        return PLENTY - int(left.read_text(encoding="utf-8"))


def attack(name: str, disk: Disk, arguments: list[str], key: str, made: pathlib.Path | None = None,
           out: pathlib.Path | None = None) -> None:
    def fresh(label: str) -> pathlib.Path:
        store = disk.scratch / f"{name}.{label}"
        if made is not None:
            shutil.copytree(made, store)
        return store

    code, answer, _ = disk.call(fresh("whole"), arguments, None)
    if code != 0:
        raise Fault(f"{name}, undisturbed: exit {code}: {answer}")
    expected = answer[key]
    need = disk.need(fresh("counted"), arguments)
    for room in sorted({0, 1, need - 1, *(need * i // PARTS for i in range(1, PARTS))}):
        when = f"{name}, room for {room} of {need} bytes"
        store = fresh(str(room))
        code, answer, text = disk.call(store, arguments, room)
        error = answer.get("error", {})
        if code != 4 or error.get("code") != "DISK-FULL":
            raise Fault(f"{when}: exit {code}: {answer}")
        if not error.get("file", "").startswith(str(disk.scratch)) or error["file"] not in text:
            raise Fault(f"{when}: the error does not say where: {answer}, {text}")
        if store.exists() and room > 64:  # below, not even the version file is there
            code, answer, _ = disk.call(store, ["fsck"], None)
            if code != 0:
                raise Fault(f"{when}: fsck exits {code}: {answer}")
        code, answer, _ = disk.call(store, arguments, None)
        if code != 0 or answer[key] != expected:
            raise Fault(f"{when}: the rerun exits {code} with {answer}, an undisturbed run gives {expected}")
        code, answer, _ = disk.call(store, ["fsck", "--repair"], None)
        left = sorted(p.name for p in (store / "staging").iterdir())
        if code != 0 or left:
            raise Fault(f"{when}: after the rerun, fsck exits {code} with {answer}; staging holds {left}")
        if out is not None and [*out.parent.iterdir()] != [out]:
            raise Fault(f"{when}: {sorted(p.name for p in out.parent.iterdir())} stand beside the artifact")
        shutil.rmtree(store)
    print(f"{name}: full at {PARTS + 2} moments of {need} bytes: DISK-FULL with its path, clean, and the rerun gives "
          f"{expected[:16]}")


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--slm", "--source", "--cases", "--policy"):
        parser.add_argument(option, required=True)
    parser.add_argument("--evidence", action="append", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slm-full-") as folder:
        disk = Disk(args.slm, pathlib.Path(folder))
        artifact = disk.scratch / "out" / "model.slm"
        artifact.parent.mkdir()
        evidence = [part for path in args.evidence for part in ("--evidence", path)]
        try:
            attack("acquire", disk, ["acquire", args.source, "--name", "n", "--revision", "r"], "acquisition")
            attack("convert", disk, ["convert", args.source, "-o", str(artifact)], "node", out=artifact)
            made = disk.scratch / "made"
            disk.call(made, ["convert", args.source, "-o", str(artifact)], None)
            attack("run", disk, ["run", str(artifact), "Hello", "--record", "--max-new-tokens", "4"], "run", made)
            attack("promote", disk, ["promote", args.source, "--cases", args.cases, *evidence, "--policy", args.policy],
                   "receipt")
        except Fault as fault:
            print(f"FAILED: {fault}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
