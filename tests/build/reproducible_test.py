"""BKD-03: a second build gives the bytes of build/release/apps/slm/slm, though everything that must not matter differs:
the folder and the length of its name, the user (where this one is root), home, language, time zone, umask, the sources'
times of change, the number of jobs. One more comment line in a source gives other bytes."""
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
OTHER_UID = 65534  # nobody
A_TIME = 981173106  # in 2001


def copy_tree(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)


class Builder:
    """Builds in a folder as another user with another environment."""

    def __init__(self, scratch: pathlib.Path):
        self.home = scratch / "home"
        self.home.mkdir()
        self.user: dict[str, int | list[int]] = {}
        if os.geteuid() == 0:
            self.user = {"user": OTHER_UID, "group": OTHER_UID, "extra_groups": []}
            os.chown(self.home, OTHER_UID, OTHER_UID)
            scratch.chmod(0o755)  # a temporary folder is its maker's only
        # Nothing is inherited but the way to the compilers. No compiler cache: two real builds are compared.
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": "another", "LOGNAME": "another",
                            "LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati", "CCACHE_DISABLE": "1"}

    def own(self, folder: pathlib.Path) -> None:
        """Gives the tree to the other user, with times of change of another year."""
        for path in [folder.parent, folder, *folder.rglob("*")]:
            os.utime(path, (A_TIME, A_TIME))
            if self.user:
                os.chown(path, OTHER_UID, OTHER_UID)

    def build(self, folder: pathlib.Path) -> str:
        for command in (["cmake", "--preset", "release"],
                        ["cmake", "--build", "build/release", "--target", "slm", "-j", "3"]):
            done = subprocess.run(command, cwd=folder, env=self.environment, umask=0o027, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False, **self.user)  # type: ignore[call-overload]
            if done.returncode != 0:
                raise SystemExit(f"FAILED: {' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return sha256_of(folder / BUILT)


def sha256_of(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        builder = Builder(pathlib.Path(scratch))
        folder = pathlib.Path(scratch) / "another" / "much-longer-folder"
        copy_tree(folder)
        builder.own(folder)
        here, there = sha256_of(ROOT / BUILT), builder.build(folder)
        with open(folder / "src" / "base" / "bytes.cc", "a", encoding="utf-8") as file:
            file.write("// one more line\n")
        changed = builder.build(folder)
    print(f"here   {here}\nthere  {there}\nwith one more comment line {changed}")
    if here != there:
        print("FAILED: the same tree gave two executables")
        return 1
    if changed == here:
        print("FAILED: another source tree gave the same executable, so this test cannot see a difference")
        return 1
    print(f"figures: 2 builds, the second {'as another user' if builder.user else 'as the same user (not root)'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
