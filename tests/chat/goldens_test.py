"""TPL-01, TPL-02: published templates give the reference's bytes, or its class of error.

Runs `slm render --batch` over shared/vectors/templates: the reference renderings of 652 templates in 14 contexts, the
probes of one semantic each, and two third-party sets. Nothing of them is refused but what REFUSED names, with its reason.
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
# Probes of constructs that are refused at conversion (docs/spec/template-ir.md, Subset).
REFUSED = {
    "attr.dunder": "reflection",
    "err.include": "other templates",
    "err.extends": "other templates",
    "err.block": "template inheritance",
}
# Third-party expectation that is JSON where the reference prints Python's repr.
NOT_THE_REFERENCE = {"MadeAgents/Hammer2.1"}


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
    if "ok" in row:
        return "same text" if answer.get("text") == row["ok"] else "DIFFERENT"
    exception, _, message = row["err"].partition(": ")
    if error is None:
        return "RENDERED WHERE THE REFERENCE RAISES"
    if exception == "TemplateError":
        same = error["code"] == "TPL-RAISED" and error["message"].startswith(message[:20].split("\n")[0])
    elif exception == "TemplateSyntaxError":
        same = error["code"] == "TPL-SYNTAX" and error["stage"] == "convert" and "line" in error["message"]
    else:
        same = error["code"] == "TPL-RUNTIME" and error["message"].startswith(exception + ": ")
    return "same error" if same else "ANOTHER ERROR"


def check(name: str, rows: list[dict], replies: list[dict]) -> bool:
    counts: collections.Counter[str] = collections.Counter()
    good = True
    for row, answer in zip(rows, replies, strict=True):
        kind = verdict(row, answer)
        if row.get("name") in REFUSED:
            error = answer.get("error", {})
            named = error.get("code") == "TPL-FORBIDDEN" and "byte_offset" in error
            kind = "refused with its place" if named else "NOT REFUSED"
        counts[kind] += 1
        if kind.isupper():
            good = False
            print(name, row.get("name", row.get("t", "")[:16]), json.dumps(row.get("ok", row.get("err")))[:200],
                  json.dumps(answer)[:200])
    print(name, dict(counts))
    return good


def main() -> int:
    if not VECTORS.exists():
        print("not-run: chat goldens: shared/vectors/templates is not beside this tree")
        return 0
    slm = sys.argv[1]
    contexts = json.loads((VECTORS / "contexts.json").read_text())
    rows = [json.loads(line) for line in gzip.open(VECTORS / "goldens.jsonl.gz", "rt", encoding="utf-8")]
    sources = {f.stem: f.read_bytes().decode() for f in (VECTORS / "files").iterdir()}
    good = check("goldens", rows, answers(slm, [
        {"template": sources[row["t"][:16]], "context": contexts[row["c"]], "clock": CLOCK} for row in rows]))
    probes = json.loads((VECTORS / "probes.json").read_text())
    good &= check("probes", probes, answers(slm, [
        {"template": row["template"], "context": {"messages": [], **row["context"]}, "clock": CLOCK} for row in probes]))
    rows = [row for row in json.loads((VECTORS / "hfjs_e2e_53.json").read_text()) if row["name"] not in NOT_THE_REFERENCE]
    good &= check("hfjs", [{"name": row["name"], "ok": row["target"]} for row in rows], answers(slm, [
        {"template": row["chat_template"], "context": row["data"], "clock": "2025-07-10T00:00:00"} for row in rows]))
    records, rows = [], []
    for name, model in json.loads((VECTORS / "wangzhaode_394.json").read_text()).items():
        for case in model["cases"]:
            extra = {key: value for key, value in case.items() if key not in ("description", "expected")}
            records.append({"template": model["template"], "context": {**model["special_tokens"], **extra},
                            "clock": "2025-12-17T00:00:00"})
            rows.append({"name": f"{name} {case['description']}", "ok": case["expected"]})
    good &= check("wangzhaode", rows, answers(slm, records))
    # The files beside the 652 have no rendering here: they convert, or are refused with a place.
    with_rows = {row["t"][:16] for row in map(json.loads, gzip.open(VECTORS / "goldens.jsonl.gz", "rt", encoding="utf-8"))}
    rest = sorted(set(sources) - with_rows)
    refused = [answer["error"]["message"] for answer in answers(slm, [
        {"template": sources[name], "context": contexts["c01_user_gen"], "clock": CLOCK} for name in rest])
        if answer.get("error", {}).get("stage") == "convert"]
    print("other files", len(rest), "refused at conversion", refused)
    return 0 if good and not refused else 1


if __name__ == "__main__":
    sys.exit(main())
