#!/usr/bin/env python3
"""Writes a tolerance policy from measured comparisons (docs/spec/tolerance.md, section 3).

    slm --json compare reference.golden candidate.golden --policy ANY.json > measured.json
    profiles/tolerance/calibrate.py --name exact-v1-f32 --version 1 --note "..." --evidence reference.golden ... \
        [--any-source] measured.json ... > policy.json

For each role the observed error is the largest absolute error over all arrays of all files, rounded up to two
digits; the limit is that times the factor. rtol is one rounding of float32 for each of 16 operations, 2^-20, the
same for all roles. The oracle's variation is the repeatability that the evidence records, relative to the largest
magnitude of the role, in absolute terms; the policy is for the sources of the evidence. A role that no file observed is an error: a limit without evidence is none. Standard library
only.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import struct
import sys
from decimal import ROUND_CEILING, Decimal
from typing import Any

EXACT = ("embed", "attn.mask")
ROLES = ("rope.inv_freq", "embed", "attn_norm", "attn.q", "attn.k", "attn.v", "attn.q_rope", "attn.k_rope",
         "attn.scores", "attn.mask", "attn.probs", "attn.av", "attn.out", "attn_residual", "mlp_norm", "mlp.gate",
         "mlp.up", "mlp.act", "mlp.down", "output", "final_norm", "logits")
RTOL = Decimal("9.5e-7")
# Backends of the exact profile with the bits of native-scalar; tests compare them (web/test).
SAME_BITS = ["native-scalar", "wasm-scalar@chromium", "wasm-scalar@firefox", "wasm-scalar@node", "wasm-scalar@webkitgtk"]
FACTOR_REASON = ("assumption: the suite meets a small part of the sums that other prompts of these lengths meet, and the "
                 "largest of many rounding errors grows slowly with their number; 4 leaves room for it and stays a quarter "
                 "of the ceiling on factors")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "independent"))
import golden_read  # noqa: E402


def rounded_up(value: float) -> Decimal:
    number = Decimal(repr(value))
    if number == 0:
        return Decimal(0)
    step = Decimal(1).scaleb(number.adjusted() - 1)
    return (number / step).to_integral_value(ROUND_CEILING) * step


def role_of(name: str) -> str:
    return name.split(".", 2)[2] if name.startswith("layers.") else name


def observed_errors(documents: list[Any]) -> dict[str, float]:
    errors: dict[str, float] = {}
    for document in documents:
        for array in document["arrays"]:
            if array.get("code"):
                raise SystemExit(f"{array['case']} {array['name']}: {array['code']}; nothing can be calibrated on it")
            role = role_of(array["name"])
            errors[role] = max(errors.get(role, 0.0), array["max_abs"])
    return errors


def oracle_variation(paths: list[str]) -> tuple[dict[str, float], list[str]]:
    """By role, the recorded repeatability times the largest magnitude; and the identities of the sources."""
    variation: dict[str, float] = {}
    sources = []
    for path in paths:
        container = golden_read.Container(pathlib.Path(path).read_bytes())
        sources.append(container.envelope["identities"]["source"].hex())
        relative = {role.replace("_", "."): struct.unpack("<d", packed)[0] for role, packed in
                    container.envelope["generator"]["repeatability"]["max_relative"].items()}
        for case in container.envelope["cases"]:
            for item in case["observations"]:
                if item["dtype"] != "f32":
                    continue
                blob = container.envelope["blobs"][item["blob"]]
                data = container.data[blob["offset"] : blob["offset"] + blob["size"]]
                largest = max(map(abs, struct.unpack(f"<{len(data) // 4}f", data)))
                measured = relative.get(item["role"].replace("_", "."), 0.0)
                variation[item["role"]] = max(variation.get(item["role"], 0.0), measured * largest)
    return variation, sources


def text(number: Decimal) -> str:
    return f"{float(number):g}"


def limit(observed: Decimal, factor: int) -> str:
    """The product, never above what the reader computes from the two numbers in float64."""
    bound = float(observed) * factor
    short = text(observed * factor)
    return short if float(short) <= bound else repr(bound)


def basis(observed: Decimal, factor: int, permitted: Decimal = Decimal(0), variation: Decimal = Decimal(0)) -> str:
    return (f'{{"permitted": {text(permitted)}, "oracle_variation": {text(variation)}, "observed": {text(observed)}, '
            f'"factor": {factor}}}')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--note", required=True)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--evidence", action="append", required=True, help="reference.golden of each suite")
    parser.add_argument("--any-source", action="store_true", help="a general policy: for sources without one of their own")
    parser.add_argument("--backend", action="append", help="backend that it is for (native-scalar and those with its bits)")
    parser.add_argument("measured", nargs="+")
    options = parser.parse_args()
    documents = []
    for path in options.measured:
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    errors = observed_errors(documents)
    variation, sources = oracle_variation(options.evidence)
    rules = []
    for role in ROLES:
        if role in EXACT:
            rules.append(f'{{"role": "{role}", "kind": "exact"}}')
            continue
        if role == "rope.inv_freq":
            rules.append(f'{{"role": "{role}", "kind": "ulp", "max_ulp": 1}}')
            continue
        if role not in errors:
            raise SystemExit(f"no array of role {role} was measured")
        observed = rounded_up(errors[role])
        rules.append(f'{{"role": "{role}", "kind": "bounded", "atol": {limit(observed, options.factor)}, '
                     f'"rtol": {text(RTOL)}, "relative_floor": 0.001,\n'
                     f'     "atol_basis": {basis(observed, options.factor, variation=rounded_up(variation[role]))},\n'
                     f'     "rtol_basis": {basis(Decimal(0), 0, RTOL)}}}')
    margin = rounded_up(errors["logits"])
    print('{\n  "schema": "slm.tolerance-policy.v1",')
    print(f'  "name": {json.dumps(options.name)},\n  "version": {options.version},\n  "profile": "exact-v1",')
    scope = {"sources": "any" if options.any_source else sources, "backends": options.backend or SAME_BITS}
    print(f'  "applies_to": {json.dumps(scope)},')
    print(f'  "note": {json.dumps(options.note)},\n  "factor_reason": {json.dumps(FACTOR_REASON)},')
    print(f'  "margin_e": {limit(margin, options.factor)},')
    print(f'  "margin_e_basis": {basis(margin, options.factor, variation=rounded_up(variation["logits"]))},')
    print('  "unstable_cap_ppm": 10000,\n  "rules": [')
    print("    " + ",\n    ".join(rules))
    print("  ]\n}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
