"""The generator receipt (ORA-01): everything that could change what an oracle file holds. No clock, no paths."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from typing import Any

from . import EXPORTER_VERSION, OracleError, cbor

HERE = os.path.dirname(os.path.abspath(__file__))
LOCK = os.path.join(os.path.dirname(HERE), "requirements.lock")
# Set before the numeric libraries are loaded; recorded when set.
VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
             "MKL_DEBUG_CPU_TYPE", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE",
             "NPY_DISABLE_CPU_FEATURES", "CUBLAS_WORKSPACE_CONFIG", "TORCH_DISABLE_ADDR2LINE")
LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "jinja2", "mpmath")


def exporter_identity() -> bytes:
    """SHA-256 of CBOR [[name, sha256], ...] over the exporter's sources in order of name."""
    entries = []
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".py"):
            with open(os.path.join(HERE, name), "rb") as file:
                entries.append([name, hashlib.sha256(file.read()).digest()])
    return hashlib.sha256(cbor.encode(entries)).digest()


def lock_identity() -> tuple[bytes, dict[str, str]]:
    """Hash of the lock file, and the installed versions, which must be the locked ones."""
    with open(LOCK, "rb") as file:
        data = file.read()
    locked = dict(re.findall(r"^([a-z0-9_.-]+)==([^ \\\n]+)", data.decode("ascii"), re.MULTILINE))
    versions = {}
    for name in LIBRARIES:
        installed = importlib.metadata.version(name)
        if locked.get(name) != installed:
            raise OracleError(f"{name} {installed} is installed, the lock file says {locked.get(name)}")
        versions[name] = installed
    return hashlib.sha256(data).digest(), versions


def cpu() -> dict[str, Any]:
    fields: dict[str, str] = {}
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                fields.setdefault(key.strip(), value.strip())
    flags = sorted(fields.get("flags", "").split())
    return {"machine": platform.machine(), "vendor": fields.get("vendor_id", ""), "model_name": fields.get("model name", ""),
            "family": fields.get("cpu family", ""), "model": fields.get("model", ""), "stepping": fields.get("stepping", ""),
            "flags_sha256": hashlib.sha256(" ".join(flags).encode("ascii")).digest(),
            "isa": [flag for flag in flags if flag.startswith(("avx", "fma", "sse4", "amx", "f16c"))]}


def environment() -> dict[str, Any]:
    lock, versions = lock_identity()
    return {"python": platform.python_version(), "lock_sha256": lock, "versions": versions, "cpu": cpu(),
            "variables": {name.lower(): os.environ[name] for name in VARIABLES if name in os.environ}}


def framework(threads: int, dtype: str) -> dict[str, Any]:
    """Settings read back from the framework after they were made."""
    import torch

    return {
        "device": "cpu", "dtype": dtype, "threads": threads, "threads_used": torch.get_num_threads(),
        "attention": "eager", "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32, "tf32_cudnn": torch.backends.cudnn.allow_tf32,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(), "mkldnn": torch.backends.mkldnn.is_available(),
        "build_sha256": hashlib.sha256(torch.__config__.show().encode("utf-8")).digest(),
    }


def same_machine(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether two receipts promise the same bits: processor, libraries, caps, threads."""
    def part(receipt: dict[str, Any]) -> Any:
        return receipt["environment"], receipt.get("framework")
    return part(left) == part(right)


def generator(mode: str, options: dict[str, Any], cases_sha256: bytes, source_id: bytes) -> dict[str, Any]:
    return {"kind": "oracle", "exporter_version": EXPORTER_VERSION, "exporter_sha256": exporter_identity(),
            "mode": mode, "options": options, "cases_sha256": cases_sha256, "source_sha256": source_id,
            "environment": environment()}
