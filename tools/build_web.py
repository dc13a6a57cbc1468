#!/usr/bin/env python3
"""Builds the modules and the TypeScript package: build/wasm/src/capi/*.wasm, web/dist, and web/build for the tests.

    build_web.py [--tests] [--jobs N]
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
BUILD = ROOT / "build" / "wasm"
MODULES = [BUILD / "src" / "capi" / name for name in ("slm.wasm", "slm-text.wasm", "slm-evidence.wasm")]


def run(*command: str, cwd: pathlib.Path = ROOT) -> None:
    subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, check=True)


def build_modules(jobs: str) -> None:
    if not (BUILD / "build.ninja").exists():
        run("cmake", "--preset", "wasm")
    run("cmake", "--build", str(BUILD), "-j", jobs, "--target", "slm_module_info")


def install_packages() -> None:
    """What the lock file names, hashes checked, no scripts of packages run; nothing where it is there already."""
    lock = (WEB / "package-lock.json").read_bytes()
    stamp = WEB / "node_modules" / "installed.lock"
    if stamp.exists() and stamp.read_bytes() == lock:
        return
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=WEB)
    stamp.write_bytes(lock)


def compile_to(project: str, out: pathlib.Path, module_folder: pathlib.Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    run("node", str(WEB / "node_modules" / "typescript" / "bin" / "tsc"), "-p", project, cwd=WEB)
    for module in MODULES:
        shutil.copyfile(module, module_folder / module.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="the tests too")
    parser.add_argument("--jobs", default=str(os.cpu_count() or 2))
    args = parser.parse_args()
    build_modules(args.jobs)
    install_packages()
    compile_to("tsconfig.json", WEB / "dist", WEB / "dist")
    if args.tests:
        compile_to("tsconfig.test.json", WEB / "build", WEB / "build" / "src")
    return 0


if __name__ == "__main__":
    sys.exit(main())
