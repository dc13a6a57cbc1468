"""Training the shipped model again, with the same seed on the same machine, gives the same files.

    retrain_test.py [--python PATH]

Trains once with the locked environment of the oracle. If the result is what is committed, that is the proof.
On another kind of CPU it may not be; then it trains a second time and compares the two, and the result still
has to answer the held-out prompts. Minutes; `./dev test --all` runs it.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "tools" / "train_demo_model"
COMMITTED = ROOT / "models" / "slm-demo"
HELDOUT = ROOT / "vectors" / "slm-demo" / "heldout.jsonl"


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def differing(left: dict[str, bytes], right: dict[str, bytes]) -> list[str]:
    return [name for name in sorted(left.keys() | right.keys()) if left.get(name) != right.get(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT / ".venv" / "oracle" / "bin" / "python"
    parser.add_argument("--python", type=pathlib.Path, default=default)
    args = parser.parse_args()
    if not args.python.exists():
        print("not-run: retrain: the oracle's environment is not installed")
        return 0

    def train(out: pathlib.Path) -> dict[str, bytes]:
        subprocess.run([str(args.python), str(TOOLS / "train.py"), str(out)], check=True)
        return contents(out)

    with tempfile.TemporaryDirectory() as folder:
        first_folder = pathlib.Path(folder) / "first"
        first = train(first_folder)
        from_committed = differing(first, contents(COMMITTED))
        if not from_committed:
            print("figures: the committed files, byte for byte")
            return 0
        print("differs from the committed files (another CPU may): " + ", ".join(from_committed))
        between = differing(first, train(pathlib.Path(folder) / "second"))
        if between:
            print("and two trainings here differ from each other: " + ", ".join(between))
            return 1
        print("figures: two trainings here agree byte for byte; not the committed files")
        judge = [str(args.python), str(TOOLS / "check_heldout.py"), str(first_folder), str(HELDOUT)]
        return subprocess.run(judge, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
