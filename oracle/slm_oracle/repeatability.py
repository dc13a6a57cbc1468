"""How far the oracle repeats itself: again, with more threads, under instruction-set caps of its libraries, and from one
processor to another."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from . import OracleError, cases, cbor, golden, receipt
from .golden import File
from .source import Source

# (name, variables, threads, CPU flag needed). The first is the base that the others are compared with.
_FRAMEWORK = (
    ("base", {}, 1, ""),
    ("again", {}, 1, ""),
    ("threads-2", {}, 2, ""),
    ("aten-default", {"ATEN_CPU_CAPABILITY": "default"}, 1, ""),
    ("aten-avx2", {"ATEN_CPU_CAPABILITY": "avx2"}, 1, "avx2"),
    ("aten-avx512", {"ATEN_CPU_CAPABILITY": "avx512"}, 1, "avx512f"),
    ("onednn-sse41", {"ONEDNN_MAX_CPU_ISA": "SSE41"}, 1, ""),
    ("onednn-avx2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, 1, "avx2"),
    ("mkl-sse42", {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}, 1, ""),
    ("mkl-avx2", {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, 1, "avx2"),
    ("mkl-compatible", {"MKL_CBWR": "COMPATIBLE"}, 1, ""),
)
_TRUTH = (
    ("base", {}, 1, ""),
    ("again", {}, 1, ""),
    ("threads-2", {}, 2, ""),
    ("openblas-nehalem", {"OPENBLAS_CORETYPE": "Nehalem"}, 1, ""),
    ("openblas-haswell", {"OPENBLAS_CORETYPE": "Haswell"}, 1, "avx2"),
    ("openblas-skylakex", {"OPENBLAS_CORETYPE": "SkylakeX"}, 1, "avx512f"),
)


def run_export(source: str, cases_file: str, mode: str, out: str, arguments: list[str], variables: dict[str, str]) -> None:
    """One export in a process of its own, with exactly these numeric variables."""
    environment = {key: value for key, value in os.environ.items() if key not in receipt.VARIABLES}
    environment.update(variables)
    environment["PYTHONPATH"] = os.path.dirname(receipt.HERE)
    command = [sys.executable, "-m", "slm_oracle", "export", "--source", source, "--cases", cases_file,
               "--mode", mode, "--out", out, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OracleError(f"export failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")


def run_again(recorded: File, source: str, cases_file: str, out: str, more: list[str]) -> None:
    """The export that wrote `recorded`, here: its mode, options and numeric variables."""
    generator = recorded.envelope["generator"]
    options = [part for key, value in sorted(generator["options"].items())
               for part in (f"--{key.replace('_', '-')}", str(value))]
    variables = {name.upper(): value for name, value in generator["environment"]["variables"].items()}
    run_export(source, cases_file, recorded.envelope["mode"], out, [*options, *more], variables)


def relative_difference(left: np.ndarray, right: np.ndarray) -> float:
    """Largest absolute difference over the largest magnitude of the two arrays."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    scale = max(float(np.abs(left).max()), float(np.abs(right).max()))
    difference = float(np.abs(left - right).max())
    return 0.0 if difference == 0 else difference / scale


def differences(base: File, other: File) -> dict[str, float]:
    """By role of observation, the largest relative difference over cases and layers."""
    result: dict[str, float] = {}
    for left_case, right_case in zip(base.envelope["cases"], other.envelope["cases"], strict=True):
        for left, right in zip(left_case["observations"], right_case["observations"], strict=True):
            if left["dtype"] in ("f32", "f64", "bf16"):
                value = relative_difference(base.array(left), other.array(right))
                role = left["role"].replace(".", "_")
                result[role] = max(result.get(role, 0.0), value)
    return result


def _observed_hash(file: File) -> bytes:
    """Over all observed arrays: equal hashes mean equal bits."""
    return hashlib.sha256(b"".join(
        file.envelope["blobs"][observation["blob"]]["sha256"]
        for case in file.envelope["cases"] for observation in case["observations"])).digest()


def _first_cases(cases_file: str, limit: int, out: str) -> None:
    with open(cases_file, "rb") as file:
        lines = file.read().splitlines(keepends=True)[:limit]
    data = b"".join(lines)
    cases.parse(data)
    with open(out, "wb") as file:
        file.write(data)


def _elsewhere(recorded: File, source: str, cases_file: str, folder: str) -> list[dict[str, Any]]:
    """What was measured on other processors: what `recorded` holds, and how far its processor's arrays are from ours."""
    measured = recorded.envelope["generator"]["repeatability"]
    others = [entry for entry in measured.get("elsewhere", []) if entry["cpu"] != receipt.cpu()]
    if measured["cpu"] == receipt.cpu():
        return others
    path = os.path.join(folder, "here.golden")
    run_again(recorded, source, cases_file, path, [])
    here = File(path)
    os.unlink(path)
    largest = _floats(measured["max_relative"])
    for role, value in differences(recorded, here).items():
        largest[role] = max(largest.get(role, 0.0), value)
    return [*others, {"cpu": measured["cpu"], "settings": measured["settings"], "n_cases": measured["n_cases"],
                      "max_relative": _packed(largest)}]


def _packed(largest: dict[str, float]) -> dict[str, bytes]:
    return {role: struct.pack("<d", value) for role, value in sorted(largest.items())}


def _floats(packed: dict[str, bytes]) -> dict[str, float]:
    return {role: struct.unpack("<d", value)[0] for role, value in packed.items()}


def _same_inputs(recorded: File, source: str, cases_file: str) -> bool:
    files = {entry["path"]: entry["sha256"] for entry in recorded.envelope["source_files"]}
    with open(cases_file, "rb") as file:
        suite = golden.sha256(file.read())
    return suite == recorded.envelope["generator"]["cases_sha256"] and files == {
        entry["path"]: entry["sha256"] for entry in Source(source).files}


def measure(source: str, cases_file: str, mode: str, out: str, limit: int, recorded: list[str]) -> None:
    """`recorded`: earlier evidence of the same source and cases; what it says of other processors is kept."""
    flags = receipt.cpu()["isa"]
    settings: list[dict[str, Any]] = []
    largest: dict[str, float] = {}
    tokens_equal = True
    with tempfile.TemporaryDirectory() as folder:
        suite = os.path.join(folder, "cases.jsonl")
        _first_cases(cases_file, limit, suite)
        base: File | None = None
        for name, variables, threads, needed in _TRUTH if mode == "truth" else _FRAMEWORK:
            if needed and needed not in flags:
                settings.append({"name": name, "supported": False})
                continue
            path = os.path.join(folder, f"{name}.golden")
            run_export(source, suite, mode, path, ["--bounded", "--taps", "all", "--threads", str(threads)], variables)
            file = File(path)
            os.unlink(path)
            base = base or file
            settings.append({"name": name, "supported": True, "observed_sha256": _observed_hash(file)})
            for role, value in differences(base, file).items():
                largest[role] = max(largest.get(role, 0.0), value)
            tokens_equal = tokens_equal and all(
                left.get("generation", {}).get("tokens") == right.get("generation", {}).get("tokens")
                for left, right in zip(base.envelope["cases"], file.envelope["cases"], strict=True))
        elsewhere: list[dict[str, Any]] = []
        for path in recorded:
            earlier = File(path)
            if not _same_inputs(earlier, source, cases_file):
                print(f"{path}: of another source or other cases; what it measured is left out", file=sys.stderr)
                continue
            for entry in _elsewhere(earlier, source, cases_file, folder):
                if entry not in elsewhere:
                    elsewhere.append(entry)
    for entry in elsewhere:
        for role, value in _floats(entry["max_relative"]).items():
            largest[role] = max(largest.get(role, 0.0), value)
    record = {"mode": mode, "cpu": receipt.cpu(), "settings": settings, "n_cases": limit, "tokens_equal": tokens_equal,
              "elsewhere": elsewhere, "max_relative": _packed(largest)}
    summary = {"mode": mode, "tokens_equal": tokens_equal, "max_relative": dict(sorted(largest.items())),
               "distinct_results": len({entry["observed_sha256"] for entry in settings if entry["supported"]}),
               "settings": [entry["name"] for entry in settings if entry["supported"]]}
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"summary": summary, "cbor": cbor.encode(record).hex()}, file, indent=1)
        file.write("\n")


def load(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        return cbor.decode(bytes.fromhex(json.load(file)["cbor"]))


def save(record: dict[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"cbor": cbor.encode(record).hex()}, file)
