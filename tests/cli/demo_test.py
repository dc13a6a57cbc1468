"""`./dev demo` as a newcomer runs it: what it must show, and in which time.

    demo_test.py

Runs the command of this tree, then reads what it printed: a receipt that verifies, a report about that receipt,
every seeded defect of tests/mutants/expected.json caught and every no-op passed. A demo that left a step out, or
showed fewer mutants, fails here though it ends with 0. The time is a figure and a warning, not a verdict: it
depends on what else the machine does.
"""
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "build" / "demo" / "report.html"
N_DEFECTS, N_NOOPS = 11, 3
PROMISED_S = 60


def faults(shown: str, report: str, expected: list[dict]) -> list[str]:
    """What the output lacks; `shown` is all of it, `report` the page."""
    found: list[str] = []
    steps = re.split(r"^== \d\. ", shown, flags=re.MULTILINE)[1:]
    if [step.split(":")[0] for step in steps] != ["Promote", "Verify", "Report", "The gates bite"]:
        return [f"the steps are {[step.split(':')[0] for step in steps]}"]
    promoted, verified, _, mutated = steps
    receipt = re.search(r"^  receipt ([0-9a-f]{64})\b", promoted, re.MULTILINE)
    if receipt is None:
        return ["promote names no receipt"]
    if not re.search(rf"^  receipt {receipt[1]}\b", verified, re.MULTILINE):
        found.append("verify is not about the receipt that promote wrote")
    result = re.search(r"^  result: (\d+) claims hold, (\d+) fail, (\d+) unstable, ", verified, re.MULTILINE)
    if result is None or int(result[1]) == 0 or result[2] != "0" or result[3] != "0":
        found.append(f"verify ends with {result[0].strip() if result else 'no result'}")
    if not re.search(r"^ +rerun observe +holds ", verified, re.MULTILINE):
        found.append("verify did not run the artifact again")
    if receipt[1] not in report:
        found.append("the report is not about the receipt")
    caught = re.findall(r"^ +(\S+) +caught by \S", mutated, re.MULTILINE)
    passed = re.findall(r"^ +(\S+) +no-op, passes ", mutated, re.MULTILINE)
    if caught != [one["name"] for one in expected if not one["kind"].startswith("noop")] or len(caught) != N_DEFECTS:
        found.append(f"caught: {caught}")
    if passed != [one["name"] for one in expected if one["kind"].startswith("noop")] or len(passed) != N_NOOPS:
        found.append(f"no-ops that pass: {passed}")
    if "WRONG" in mutated:
        found.append("a mutant is not caught where it must be")
    return found


def main() -> int:
    started = time.monotonic()
    REPORT.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, str(ROOT / "dev"), "demo", "--no-install"], cwd=ROOT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    if done.returncode != 0 or not REPORT.exists():
        print(f"FAILED: exit {done.returncode}, report {'written' if REPORT.exists() else 'absent'}")
        return 1
    expected = json.loads((ROOT / "tests" / "mutants" / "expected.json").read_text(encoding="utf-8"))["mutants"]
    found = faults(done.stdout, REPORT.read_text(encoding="utf-8"), expected)
    for fault in found:
        print(f"FAILED: {fault}")
    seconds = re.search(r"^Done in (\d+) s\b", done.stdout, re.MULTILINE)
    if seconds is None:
        print("FAILED: the demo does not say how long it took")
        return 1
    if found:
        return 1
    slow = f"; WARNING: more than the {PROMISED_S} s that it may take" if int(seconds[1]) > PROMISED_S else ""
    print(f"figures: {seconds[1]} s from promote to the last mutant, {time.monotonic() - started:.0f} s with builds, "
          f"{N_DEFECTS} defects caught, {N_NOOPS} no-ops pass{slow}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
