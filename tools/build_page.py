#!/usr/bin/env python3
"""Builds the page, static files in build/page: the app, the module, the shipped model and its evidence.

    build_page.py --slm PROGRAM [--jobs N]
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile

import build_web

ROOT = build_web.ROOT
PAGE = ROOT / "build" / "page"


def call(slm: str, store: str, *arguments: str) -> str:
    command = [slm, "--store", store, *arguments]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


def add_model(slm: str) -> None:
    """The shipped model, and the bundle of its promotion: what Verify compares with."""
    vectors = ROOT / "vectors" / "slm-demo"
    evidence = [argument for mode in ("reference", "source", "truth") for argument in ("--evidence", str(vectors / f"{mode}.golden"))]
    models = PAGE / "models"
    models.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        policy = str(ROOT / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json")
        said = call(slm, store, "promote", str(ROOT / "models" / "slm-demo"), "--cases", str(vectors / "cases.jsonl"), "--policy", policy,
                    *evidence, "--name", "slm-demo", "--revision", "1", "-o", f"{folder}/out")
        receipt = said.split()[1]
        shutil.copy(f"{folder}/out/model.slm", models / "slm-demo.slm")
        call(slm, store, "export", receipt, "--format", "bundle", "-o", str(models / "slm-demo.evidence"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True, help="the native command")
    parser.add_argument("--jobs", default=str(os.cpu_count() or 2))
    args = parser.parse_args()
    build_web.build_modules(args.jobs)
    build_web.install_packages()
    shutil.rmtree(PAGE, ignore_errors=True)
    modules = build_web.WEB / "node_modules"
    build_web.run("node", str(modules / "typescript" / "bin" / "tsc"), "-p", "app/tsconfig.json", cwd=build_web.WEB)
    build_web.run("node", str(modules / "vite" / "bin" / "vite.js"), "build", "--config", "app/vite.config.ts", "--logLevel", "warn",
                  cwd=build_web.WEB)
    for module in build_web.MODULES:
        shutil.copyfile(module, PAGE / module.name)
    add_model(str(pathlib.Path(args.slm).resolve()))


if __name__ == "__main__":
    main()
