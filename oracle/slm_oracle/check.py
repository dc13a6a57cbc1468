"""`check`: regenerate a golden file and compare. Bit for bit where processor and libraries are the same; elsewhere
truth within 1e-12 and float32 within the recorded repeatability, both relative to the largest magnitude of the array."""

from __future__ import annotations

import os
import struct
import tempfile
from typing import Any

import numpy as np

from . import OracleError, golden, receipt
from .repeatability import relative_difference, run_again, save
from .source import Source

TRUTH_LIMIT = 1e-12
# One rounding that falls the other way, relative to the largest value; a small measurement may have met none.
UNIT = {"f32": 2.0**-23, "bf16": 2.0**-8}


class Difference(Exception):
    """The first place that differs, and how."""


def _require(name: str, recorded: Any, now: Any) -> None:
    if recorded != now:
        def show(value: Any) -> str:
            return value.hex()[:16] if isinstance(value, bytes) else repr(value)[:200]
        raise Difference(f"{name}: recorded {show(recorded)}, now {show(now)}")


def _inputs(recorded: dict[str, Any], source: Source, cases_file: str) -> None:
    """Everything that the receipt binds and that lies here."""
    files = {entry["path"]: entry for entry in source.files}
    for entry in recorded["source_files"]:
        now = files.pop(entry["path"], None)
        name = f"source file {os.fsdecode(entry['path'])}"
        if now is None:
            raise Difference(f"{name} is missing")
        _require(f"{name} sha256", entry["sha256"], now["sha256"])
    if files:
        raise Difference(f"source file {os.fsdecode(min(files))} is new")
    generator = recorded["generator"]
    with open(cases_file, "rb") as file:
        _require("cases file sha256", generator["cases_sha256"], golden.sha256(file.read()))
    _require("exporter sha256", generator["exporter_sha256"], receipt.exporter_identity())
    _require("lock file sha256", generator["environment"]["lock_sha256"], receipt.lock_identity()[0])


class _Limits:
    """Allowed relative difference by role; nothing where bits must be equal."""

    def __init__(self, envelope: dict[str, Any], exact: bool) -> None:
        self._truth = envelope["mode"] == "truth"
        self._exact = exact
        measured = envelope["generator"].get("repeatability")
        self._measured = measured["max_relative"] if measured else {}

    def of(self, role: str, dtype: str) -> float:
        if self._exact:
            return 0.0
        if self._truth:
            return TRUTH_LIMIT
        role = "logits" if role == "top_k.values" else role
        packed = self._measured.get(role.replace(".", "_"))
        if packed is None or role == "embed":  # not measured; or a copy of weights, which no machine changes
            return 0.0
        return max(struct.unpack("<d", packed)[0], UNIT[dtype])


def _array(name: str, recorded: np.ndarray, now: np.ndarray, limit: float) -> None:
    if not np.all(np.isfinite(now)):
        raise Difference(f"{name}: a value that is not finite at {np.argwhere(~np.isfinite(now))[0].tolist()}")
    if limit == 0.0:
        bits = np.dtype(f"u{recorded.dtype.itemsize}")
        wrong = np.argwhere(np.ascontiguousarray(recorded).view(bits) != np.ascontiguousarray(now).view(bits))
        if len(wrong):
            at = tuple(wrong[0])
            raise Difference(f"{name}{list(map(int, at))}: recorded {recorded[at]!r}, now {now[at]!r}")
        return
    if relative_difference(recorded, now) > limit:
        error = np.abs(recorded.astype(np.float64) - now.astype(np.float64))
        at = np.unravel_index(int(error.argmax()), error.shape)
        raise Difference(f"{name}{list(map(int, at))}: recorded {recorded[at]!r}, now {now[at]!r}, over {limit:.3g} relative")


def _ids(name: str, recorded: np.ndarray, now: np.ndarray, values: np.ndarray, limit: float) -> None:
    """Ids of the top k may change places only where their values are as near as the limit."""
    reach = 2 * limit * float(np.abs(values).max())
    for row, column in np.argwhere(recorded != now):
        near = [abs(float(values[row, column]) - float(values[row, other]))
                for other in (column - 1, column + 1) if 0 <= other < values.shape[1]]
        if limit == 0.0 or (column + 1 < values.shape[1] and min(near) > reach):
            raise Difference(f"{name}[{row}, {column}]: recorded {recorded[row, column]}, now {now[row, column]}")


def _generation(name: str, recorded: dict[str, Any] | None, now: dict[str, Any] | None, logit_bound: float) -> None:
    if recorded is None or now is None:
        _require(name, recorded, now)
        return
    left, right = (np.frombuffer(part["tokens"], "<u4") for part in (recorded, now))
    gaps = np.frombuffer(recorded["gaps"], "<f8")
    gaps_now = np.frombuffer(now["gaps"], "<f8")
    for step in range(min(len(left), len(right))):
        if left[step] != right[step]:
            if gaps[step] > 2 * logit_bound:
                raise Difference(f"{name}.tokens[{step}]: recorded {left[step]}, now {right[step]}, gap {gaps[step]:.3g}")
            return  # within the margin rule: what follows another token is not comparable
        if abs(gaps[step] - gaps_now[step]) > 2 * logit_bound:
            raise Difference(f"{name}.gaps[{step}]: recorded {gaps[step]!r}, now {gaps_now[step]!r}")
    for key in ("stop_reason", "text", "tokens"):
        _require(f"{name}.{key}", recorded[key], now[key])


def _case(recorded: golden.File, now: golden.File, left: dict[str, Any], right: dict[str, Any], limits: _Limits) -> None:
    case_id = left["case_id"]
    for key in sorted((left.keys() | right.keys()) - {"observations", "generation", "raw_output_commitment"}):
        _require(f"case {case_id}.{key}", left.get(key), right.get(key))
    names = [[observation["name"] for observation in case["observations"]] for case in (left, right)]
    _require(f"case {case_id}: names of observations", *names)
    arrays: dict[str, np.ndarray] = {}
    logit_bound = 0.0
    for old, new in zip(left["observations"], right["observations"], strict=True):
        name = f"case {case_id}.{old['name']}"
        for key in sorted((old.keys() | new.keys()) - {"blob"}):
            _require(f"{name}.{key}", old.get(key), new.get(key))
        arrays[old["role"]] = values = recorded.array(old)
        if old["role"] == "top_k.ids":
            pending = (name, values, now.array(new))
        elif old["dtype"] in ("bits", "u8", "u32"):
            _array(name, values, now.array(new), 0.0)
        else:
            _array(name, values, now.array(new), limits.of(old["role"], old["dtype"]))
        if old["role"] == "top_k.values":
            limit = limits.of("logits", old["dtype"])
            logit_bound = limit * float(np.abs(values).max())
            _ids(*pending, values, limit)
    _generation(f"case {case_id}.generation", left.get("generation"), right.get("generation"), logit_bound)
    if left.get("generation") is None:
        _require(f"case {case_id}.raw_output_commitment", left.get("raw_output_commitment"), right.get("raw_output_commitment"))


def _config(recorded: list[dict[str, Any]], now: list[dict[str, Any]], exact: bool) -> None:
    _require("names of effective_config", [field["name"] for field in recorded], [field["name"] for field in now])
    for old, new in zip(recorded, now, strict=True):
        if old["name"] == "rope_inv_freq" and not exact:
            left, right = (np.frombuffer(field["value"], "<i4") for field in (old, new))
            if len(left) == len(right) and int(np.abs(left - right).max()) <= 1:  # one unit in the last place
                old = dict(old, value=new["value"])
        _require(f"effective_config.{old['name']}", old, new)


def compare(recorded: golden.File, now: golden.File, exact: bool) -> None:
    """Raises Difference at the first place, in the order of the chain."""
    left, right = recorded.envelope, now.envelope
    limits = _Limits(left, exact)
    for key in ("mode", "source_files"):
        _require(key, left[key], right[key])
    for role in ("source", "tokenizer", "template"):
        _require(f"identities.{role}", left["identities"].get(role), right["identities"].get(role))
    _config(left["effective_config"], right["effective_config"], exact)
    for old, new in zip(left["tensors"], right["tensors"]):
        _require(f"tensor {old['name']}", old, new)
    _require("number of tensors", len(left["tensors"]), len(right["tensors"]))
    _require("tokenizer", left["tokenizer"], right["tokenizer"])
    for old, new in zip(left["attachments"], right["attachments"], strict=True):
        _require(f"attachment {old['name']}", recorded.blob(old["blob"]), now.blob(new["blob"]))
    for old, new in zip(left["model_observations"], right["model_observations"], strict=True):
        if left["mode"] == "truth" or exact:
            _require(old["name"], recorded.blob(old["blob"]), now.blob(new["blob"]))
    _require("number of cases", len(left["cases"]), len(right["cases"]))
    for old, new in zip(left["cases"], right["cases"], strict=True):
        _case(recorded, now, old, new, limits)


def check(path: str, source_directory: str, cases_file: str) -> dict[str, Any]:
    """{verdict, criterion, detail} of one file."""
    recorded = golden.File(path)
    generator = recorded.envelope["generator"]
    criterion = "inputs"
    try:
        _inputs(recorded.envelope, Source(source_directory), cases_file)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "again.golden")
            more = []
            if "repeatability" in generator:
                measured = os.path.join(folder, "repeatability.json")
                save(generator["repeatability"], measured)
                more = ["--repeatability", measured]
            run_again(recorded, source_directory, cases_file, out, more)
            now = golden.File(out)
            exact = receipt.same_machine(generator, now.envelope["generator"])
            criterion = "bit-equal" if exact else ("within 1e-12" if generator["mode"] == "truth" else
                                                   "within the recorded repeatability")
            compare(recorded, now, exact)
            if exact:
                with open(path, "rb") as left, open(out, "rb") as right:
                    _require("bytes of the file", golden.sha256(left.read()), golden.sha256(right.read()))
    except Difference as difference:
        return {"verdict": "fail", "criterion": criterion, "detail": str(difference)}
    except OracleError as error:
        return {"verdict": "fail", "criterion": criterion, "detail": str(error)}
    return {"verdict": "pass", "criterion": criterion, "detail": f"{len(recorded.envelope['cases'])} cases"}
