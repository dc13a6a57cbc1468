"""The shipped model, run by `slm`, answers the held-out questions of its grammar.

    heldout_test.py [--slm PATH]

First the prompts themselves: they are what the seeded grammar gives, and none of them occurs in training.
Then it converts models/slm-demo, runs vectors/slm-demo/heldout.jsonl through `slm run --batch`, and lets the
grammar's checker judge: 45 of 50 must be right and end with the end-of-turn token. Then shows that the gate
bites: the same answers handed to the wrong questions are refused. Standard library only.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models" / "slm-demo"
HELDOUT = ROOT / "vectors" / "slm-demo" / "heldout.jsonl"
NEEDED = 45
TRAINING_DIALOGUES = 16000  # more than train.py draws


def load_grammar() -> types.ModuleType:
    path = ROOT / "tools" / "train_demo_model" / "grammar.py"
    spec = importlib.util.spec_from_file_location("grammar", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["grammar"] = module
    spec.loader.exec_module(module)
    return module


def prompts_complaint(grammar: types.ModuleType, prompts: list[dict]) -> str | None:
    """Why the committed prompts are not held out, or None."""
    drawn = grammar.heldout(1, len(prompts))
    if [prompt["messages"] for prompt in prompts] != [messages[:-1] for messages in drawn]:
        return "the committed prompts are not those of `grammar.py heldout`"
    excluded = {grammar.prompt_key(messages) for messages in drawn}
    for messages in itertools.islice(grammar.training(1, excluded), TRAINING_DIALOGUES):
        for end in range(1, len(messages) + 1):
            if grammar.prompt_key(messages[:end]) in excluded:
                return f"a held-out prompt is in training: {messages[:end]}"
    return None


def answers(slm: pathlib.Path, work: pathlib.Path, prompts: bytes) -> list[dict]:
    artifact = work / "model.slm"
    convert = [slm, "--store", work / "store", "convert", MODEL, "-o", artifact]
    subprocess.run([str(part) for part in convert], check=True, stdout=subprocess.DEVNULL)
    run = [str(slm), "--store", str(work / "store"), "run", str(artifact), "--batch"]
    output = subprocess.run(run, input=prompts, check=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in output.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT / "build" / "release" / "apps" / "slm" / "slm"
    parser.add_argument("--slm", type=pathlib.Path, default=default)
    args = parser.parse_args()
    grammar = load_grammar()
    prompts = grammar.read_lines(str(HELDOUT))
    complaint = prompts_complaint(grammar, prompts)
    if complaint:
        print(complaint)
        return 1
    if not args.slm.exists():
        print(f"{args.slm} is not built")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        records = answers(args.slm, pathlib.Path(folder), HELDOUT.read_bytes())
    if [record["id"] for record in records] != [prompt["id"] for prompt in prompts]:
        print("the answers are not those of the prompts, in order")
        return 1
    accepted, complaints = grammar.judge(prompts, records)
    print("\n".join([*complaints, f"{accepted} of {len(prompts)} accepted, {NEEDED} needed"]))

    texts = [record["text"] for record in records]
    shifted = [dict(record, text=text) for record, text in zip(records, texts[1:] + texts[:1])]
    by_mistake, _ = grammar.judge(prompts, shifted)
    print(f"{by_mistake} of {len(prompts)} accepted when each answer goes to the prompt before it")
    return 0 if accepted >= NEEDED and by_mistake < NEEDED // 3 else 1


if __name__ == "__main__":
    sys.exit(main())
