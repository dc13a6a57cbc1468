"""BKD-03: a second build gives the bytes of the command and of the browser's modules, though everything that must not
matter differs: the folder and the length of its name, the user (where this one is root), home, language, time zone, umask, the sources'
times of change, the number of jobs. One more function gives other bytes."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["CMakeLists.txt", "CMakePresets.json", "bench", "cmake", "src", "apps", "profiles", "tools"]
PRESETS = {  # preset: its target, what it builds
    "release": ("slm", ["build/release/apps/slm/slm"]),
    "wasm": ("slm_module_info", [f"build/wasm/src/capi/{name}.wasm" for name in ("slm", "slm-text", "slm-evidence")]),
}
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

    def build(self, folder: pathlib.Path) -> dict[str, str]:
        for preset, (target, _) in PRESETS.items():
            for command in (["cmake", "--preset", preset],
                            ["cmake", "--build", f"build/{preset}", "--target", target, "-j", "3"]):
                done = subprocess.run(command, cwd=folder, env=self.environment, umask=0o027, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, check=False, **self.user)  # type: ignore[call-overload]
                if done.returncode != 0:
                    raise SystemExit(f"FAILED: {' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return hashes_of(folder)


def hashes_of(folder: pathlib.Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for _, names in PRESETS.values() for name in names}


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        builder = Builder(pathlib.Path(scratch))
        folder = pathlib.Path(scratch) / "another" / "much-longer-folder"
        copy_tree(folder)
        builder.own(folder)
        here, there = hashes_of(ROOT), builder.build(folder)
        with open(folder / "src" / "capi" / "capi.cc", "a", encoding="utf-8") as file:
            file.write('extern "C" { SLM_EXPORT(slm_one_more) int slm_one_more(void) { return 1; } }\n')
        changed = builder.build(folder)
    failed = 0
    for name in here:
        print(f"{name}\n  here  {here[name]}\n  there {there[name]}\n  with one more function {changed[name]}")
        if here[name] != there[name]:
            print(f"FAILED: the same tree gave two of {name}")
            failed = 1
        if changed[name] == here[name]:
            print(f"FAILED: another source tree gave the same {name}, so this test cannot see a difference")
            failed = 1
    print(f"figures: 2 builds, the second {'as another user' if builder.user else 'as the same user (not root)'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
