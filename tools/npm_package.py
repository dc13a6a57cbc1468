"""Packages of npm that a lock file names, for tests: hashes checked, no script of theirs run."""
import pathlib
import shutil
import subprocess


def install(package: pathlib.Path, folder: pathlib.Path) -> None:
    """The packages of package/package-lock.json into folder/node_modules. Raises FileNotFoundError where npm is absent,
    CalledProcessError where it cannot reach its registry."""
    for file in ("package.json", "package-lock.json"):
        shutil.copyfile(package / file, folder / file)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, stdin=subprocess.DEVNULL, check=True)
