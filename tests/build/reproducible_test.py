"""BKD-03: building twice, in two folders, with another -j and another user's umask, gives the same bytes."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps", "profiles", "tools"]


def build(folder: pathlib.Path, jobs: str, umask: int) -> str:
    os.umask(umask)
    folder.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    return make(folder, jobs)


def make(folder: pathlib.Path, jobs: str) -> str:
    # Without the compiler cache: two real builds are compared, not one build with itself.
    quiet = {"check": True, "capture_output": True, "cwd": folder, "env": dict(os.environ, CCACHE_DISABLE="1")}
    subprocess.run(["cmake", "--preset", "release"], **quiet)
    subprocess.run(["cmake", "--build", "build/release", "--target", "slm", "-j", jobs], **quiet)
    return hashlib.sha256((folder / "build/release/apps/slm/slm").read_bytes()).hexdigest()


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        base = pathlib.Path(scratch)
        first = build(base / "a", "2", 0o022)
        second = build(base / "another" / "much-longer-folder", "3", 0o077)
        with open(base / "a" / "src" / "base" / "bytes.cc", "a", encoding="utf-8") as file:
            file.write("// one more line\n")
        other = make(base / "a", "2")
    print(f"first  {first}\nsecond {second}\nwith one more comment line {other}")
    if first != second:
        print("FAILED: the same tree gave two executables")
        return 1
    if first == other:
        print("FAILED: another source tree gave the same executable, so this test cannot see a difference")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
