"""`error`: how far the framework's logits lie from the truth over a cases file."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import cases, golden
from .export import prompt_ids, ModelRun
from .source import Source
from .tokens import Tokens


def logit_error(directory: str, cases_file: str, mode: str, threads: int) -> dict[str, Any]:
    """Largest absolute error of the mode's logits against the truth, by case and over all."""
    with open(cases_file, "rb") as file:
        data = file.read()
    source = Source(directory)
    framework, truth = ModelRun(source, mode, threads), ModelRun(source, "truth", threads)
    tokens = Tokens(source)
    result = []
    for case in cases.parse(data):
        ids = prompt_ids(case, tokens, {})
        ours = framework.reference.logits(ids).double().numpy()
        exact = truth.truth.forward(ids, truth.truth.new_cache(), lambda *_: None)
        error = np.abs(ours - exact)
        position, token = np.unravel_index(int(error.argmax()), error.shape)
        result.append({"id": case.id, "n_ids": len(ids), "max_abs_error": float(error.max()), "position": int(position),
                       "token": int(token), "max_abs_logit": float(np.abs(exact).max()),
                       "argmax_equal": bool((ours.argmax(-1) == exact.argmax(-1)).all())})
        print(f"{case.id}: {len(ids)} ids, {error.max():.3g}", file=sys.stderr)
    return {"mode": mode, "cases_sha256": golden.sha256(data).hex(), "n_cases": len(result),
            "max_abs_error": max(entry["max_abs_error"] for entry in result), "cases": result}
