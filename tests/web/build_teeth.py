#!/usr/bin/env python3
"""Builds modules whose arithmetic is not the reference's, to show that the bit comparison finds them (OPS-05).

    build_teeth.py BUILD_DIR OUT_DIR

Each is the module with one change in src/ops/kernels.cc: sums in another order; products that are not rounded before
they are added, which is what contraction does; subnormal numbers taken for zero (OPS-04). WebAssembly has no scalar
instruction for the second and no mode for the third, so that a compiler's switch changes nothing there: they are
written out.
"""
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "ops" / "kernels.cc"
CHANGES = {
    "scores-order": ("for (size_t i = d; i < end; ++i) {\n      const float operand = args.query[i];",
                     "for (size_t i = end; i-- > d;) {\n      const float operand = args.query[i];"),
    "linear-contracted": ("const float product = W::Widen(column[r]) * operand;\n        sums[t][r] = sums[t][r] + product;",
                          "sums[t][r] = __builtin_fmaf(W::Widen(column[r]), operand, sums[t][r]);"),
    "linear-flushed": ("const float product = W::Widen(column[r]) * operand;",
                       "const float product = W::Widen(column[r]) * (__builtin_fabsf(operand) < 0x1p-126f ? 0.0f : operand);"),
}


def main() -> int:
    build, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    source = KERNELS.read_text(encoding="utf-8")
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    compile_command = shlex.split(next(c["command"] for c in commands if pathlib.Path(c["file"]).resolve() == KERNELS))
    link = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "slm_module_wasm"], check=True, capture_output=True,
                          text=True).stdout.splitlines()[-1]
    for name, (before, after) in CHANGES.items():
        if source.count(before) != 1:
            raise SystemExit(f"{name}: the text to change stands {source.count(before)} times in {KERNELS}")
        changed, compiled, module = out / f"{name}.cc", out / f"{name}.o", out / f"{name}.wasm"
        changed.write_text(source.replace(before, after), encoding="utf-8")
        words = [str(changed) if pathlib.Path(build, word).resolve() == KERNELS else word for word in compile_command]
        words[words.index("-o") + 1] = str(compiled)
        subprocess.run(words, cwd=build, check=True)
        # An object that stands before the archives is taken instead of their member.
        relink = link.replace("-o src/capi/slm.wasm", f"-o {shlex.quote(str(module))} {shlex.quote(str(compiled))}")
        if relink == link:
            raise SystemExit("the link command has no -o src/capi/slm.wasm")
        subprocess.run(relink, cwd=build, shell=True, check=True)
        print(f"figures: {module.name} {module.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
