"""BKD-03: a second build, in another folder with a longer name, with another -j and another umask, gives the
bytes of build/release/apps/slm/slm; one more comment line in a source gives other bytes."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["CMakeLists.txt", "CMakePresets.json", "bench", "cmake", "src", "apps", "profiles", "tools"]
BUILT = pathlib.Path("build/release/apps/slm/slm")


def copy_tree(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)


def build(folder: pathlib.Path) -> str:
    # Without the compiler cache: two real builds are compared, not one build with itself.
    quiet = {"check": True, "capture_output": True, "cwd": folder, "env": dict(os.environ, CCACHE_DISABLE="1")}
    subprocess.run(["cmake", "--preset", "release"], **quiet)
    subprocess.run(["cmake", "--build", "build/release", "--target", "slm", "-j", "3"], **quiet)
    return sha256_of(folder / BUILT)


def sha256_of(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "another" / "much-longer-folder"
        copy_tree(folder)
        here, there = sha256_of(ROOT / BUILT), build(folder)
        with open(folder / "src" / "base" / "bytes.cc", "a", encoding="utf-8") as file:
            file.write("// one more line\n")
        changed = build(folder)
    print(f"here   {here}\nthere  {there}\nwith one more comment line {changed}")
    if here != there:
        print("FAILED: the same tree gave two executables")
        return 1
    if changed == here:
        print("FAILED: another source tree gave the same executable, so this test cannot see a difference")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
