"""TPL-01: published templates render byte for byte as the reference, or are refused by name.

Runs `slm render --batch` over the reference renderings in shared/vectors/templates. A template
outside the subset must be refused at conversion with TPL-FORBIDDEN and its place; a value outside
it while rendering with UNSUPPORTED or TPL-FORBIDDEN. Any other difference fails.
"""
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

VECTORS = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "vectors" / "templates"
CLOCK = "2024-07-26T13:45:09"  # the reference's frozen clock
NAMED = {"TPL-FORBIDDEN", "UNSUPPORTED"}


def answers(slm: str, records: list[dict]) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("unused")
        template.flush()
        text = "".join(json.dumps(record) + "\n" for record in records)
        done = subprocess.run([slm, "render", template.name, "--batch"], input=text, capture_output=True,
                              text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def verdict(row: dict, answer: dict) -> str:
    error = answer.get("error")
    if error and error.get("stage") == "convert":
        known = error["code"] == "TPL-FORBIDDEN" and "line" in error["message"] and "byte_offset" in error
        return "refused" if known else "refused without a name"
    if error and error["code"] in NAMED:
        return "value refused"
    if "ok" in row:
        return "same text" if answer.get("text") == row["ok"] else "DIFFERENT"
    return "same error" if error else "RENDERED WHERE THE REFERENCE RAISES"


def main() -> int:
    if not VECTORS.exists():
        print("not-run: chat goldens: shared/vectors/templates is not beside this tree")
        return 0
    contexts = json.loads((VECTORS / "contexts.json").read_text())
    rows = [json.loads(line) for line in gzip.open(VECTORS / "goldens.jsonl.gz", "rt", encoding="utf-8")]
    sources = {f.stem: f.read_bytes().decode() for f in (VECTORS / "files").iterdir()}
    records = [{"id": i, "template": sources[row["t"][:16]], "context": contexts[row["c"]], "clock": CLOCK}
               for i, row in enumerate(rows)]
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for row, answer in zip(rows, answers(sys.argv[1], records), strict=True):
        kind = verdict(row, answer)
        counts[kind] += 1
        if kind not in ("same text", "same error", "refused", "value refused"):
            wrong.append((row, answer))
    print(dict(counts))
    for row, answer in wrong[:5]:
        print(row["t"][:16], row["c"], json.dumps(row.get("ok"))[:200], json.dumps(answer)[:200])
    return 1 if wrong or counts["same text"] < 5000 else 0


if __name__ == "__main__":
    sys.exit(main())
