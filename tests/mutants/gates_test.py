"""`slm mutate` on the shipped model: the defects that are promised, one more, and three no-ops, each caught where it must be.

    gates_test.py --slm PATH

The names stand here too, so that a mutant that is dropped from expected.json is missed. The verdicts of the JSON are held
against expected.json again, by other code than the program's own comparison.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFECTS = {"rope-pairing", "weight-row", "epsilon", "bos-doubled", "wrong-eos", "gqa-head", "flipped-byte", "stale-kv",
           "nan-lane", "position", "position-prompt"}
NOOPS = {"noop-artifact", "noop-observations", "noop-build"}


def faults(answer: dict, expected: dict[str, dict]) -> list[str]:
    names = [one["name"] for one in answer["mutants"]]
    if set(names) != DEFECTS | NOOPS or len(names) != len(set(names)):
        return [f"the mutants are {names}"]
    found = []
    for one in answer["mutants"]:
        name, wanted, levels = one["name"], expected[one["name"]], one["levels"]
        verdicts = [(level, "fail") for level in wanted["must_fail"]] + [(level, "pass") for level in wanted["must_pass"]]
        verdicts += [(level, "not-claimed") for level in wanted.get("must_not_claim", [])]
        found += [f"{name}: {level} is {levels.get(level)}, not {verdict}" for level, verdict in verdicts
                  if levels.get(level) != verdict]
        if (name in NOOPS) != one["noop"] or (name in NOOPS) != (one["caught"] == ""):
            found.append(f"{name}: caught by '{one['caught']}', called {'a no-op' if one['noop'] else 'a defect'}")
        if wanted["first"] not in one["first"] or (wanted["first"] == "") != (one["first"] == ""):
            found.append(f"{name}: the first difference is '{one['first']}', not at '{wanted['first']}'")
        if not one["as_expected"] or one["wrong"]:
            found.append(f"{name}: the program says {one['wrong']}")
    if not answer["as_expected"]:
        found.append("the program does not call the whole as expected")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slm", required=True)
    args = parser.parse_args()
    vectors = ROOT / "vectors" / "slm-demo"
    evidence = [part for mode in ("reference", "source", "truth") for part in ("--evidence", str(vectors / f"{mode}.golden"))]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([args.slm, "--store", f"{folder}/store", "--json", "mutate", str(ROOT / "models" / "slm-demo"),
                               "--cases", str(vectors / "cases.jsonl"), *evidence, "--policy",
                               str(ROOT / "profiles" / "tolerance" / "slm-demo.exact-v1-f32.json"), "--seed", "7"],
                              capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    if done.returncode != 0:
        print(f"FAILED: exit {done.returncode}")
        return 1
    listed = json.loads((ROOT / "tests" / "mutants" / "expected.json").read_text(encoding="utf-8"))["mutants"]
    found = faults(json.loads(done.stdout), {one["name"]: one for one in listed})
    for fault in found:
        print(f"FAILED: {fault}")
    if found:
        return 1
    print(f"figures: {len(DEFECTS)} defects caught where they must be, {len(NOOPS)} no-ops pass every level")
    return 0


if __name__ == "__main__":
    sys.exit(main())
