"""Runs the held-out prompts through Transformers, greedily, and lets the grammar's checker judge.

    python check_heldout.py MODEL_DIR HELDOUT.jsonl [--need 45]

Exit 0 when at least `--need` answers are accepted. Every refused answer is printed beside the right one.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import grammar


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("--need", type=int, default=45)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    records = [json.loads(line) for line in args.heldout.read_text(encoding="utf-8").splitlines()]
    accepted = 0
    for record in records:
        text = tokenizer.apply_chat_template(record["messages"], tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=record["max_new_tokens"])[0]
        answer = tokenizer.decode(ids[inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        if grammar.accepts(record["messages"], answer):
            accepted += 1
        else:
            print(f"{record['id']}: {answer!r}, right is {grammar.expected_answer(record['messages'])!r}")
    print(f"{accepted} of {len(records)} accepted, {args.need} needed")
    return 0 if accepted >= args.need else 1


if __name__ == "__main__":
    sys.exit(main())
