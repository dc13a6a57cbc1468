#!/usr/bin/env python3
"""TPL-01: the published files without recorded renderings give the answers of the pinned oracle, in every context.

    .venv/oracle/bin/python tests/chat/other_files_test.py BUILD/apps/slm/slm

The reference is Transformers' own environment over Jinja2 3.1.6, run here; same text, or the same class of error.
"""
import collections
import gzip
import json
import pathlib
import sys
import warnings

from goldens_test import VECTORS, answers, verdict
from transformers.utils import chat_template_utils

warnings.simplefilter("ignore")
CLOCK = "2024-07-26T13:45:09"


def freeze_clock() -> None:
    import datetime

    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(CLOCK)

    chat_template_utils.datetime = Frozen


def reference(source: str, context: dict) -> dict:
    try:
        return {"ok": chat_template_utils._compile_jinja_template(source).render(**{"tools": None, "documents": None, **context})}
    except Exception as error:  # the class is the expected value
        return {"err": f"{type(error).__name__}: {error}"}


def main() -> int:
    if not VECTORS.exists():
        print("not-run: shared/vectors/templates is not beside this tree")
        return 0
    freeze_clock()
    contexts = json.loads((VECTORS / "contexts.json").read_text())
    with gzip.open(VECTORS / "goldens.jsonl.gz", "rt") as lines:
        known = {json.loads(line)["t"][:16] for line in lines}
    files = [file for file in sorted((VECTORS / "files").glob("*.jinja")) if file.stem[:16] not in known]
    sources = [file.read_bytes().decode() for file in files]
    cases = [(source, context) for source in sources for context in contexts.values()]
    replies = answers(sys.argv[1], [{"template": source, "context": context, "clock": CLOCK} for source, context in cases])
    counts: collections.Counter[str] = collections.Counter()
    for (source, context), reply in zip(cases, replies, strict=True):
        expected = reference(source, context)
        kind = verdict(expected, reply)
        counts[kind] += 1
        if not kind.startswith("same"):
            print(kind, files[sources.index(source)].name, json.dumps(expected)[:200], json.dumps(reply)[:200])
    print(f"figures: {len(files)} other files in {len(contexts)} contexts: {dict(counts)}")
    return 0 if set(counts) <= {"same text", "same error"} and counts["same text"] and len(files) == 70 else 1


if __name__ == "__main__":
    sys.exit(main())
