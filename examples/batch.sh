#!/bin/sh
# The held-out questions of the demo model through `slm run --batch`, judged by the grammar's checker.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/dev" slm --store "$work/store" convert "$root/models/slm-demo" -o "$work/model.slm"
"$root/dev" slm run "$work/model.slm" --batch <"$root/vectors/slm-demo/heldout.jsonl" >"$work/answers.jsonl"
head -n 3 "$work/answers.jsonl"
python3 "$root/tools/train_demo_model/grammar.py" judge "$root/vectors/slm-demo/heldout.jsonl" "$work/answers.jsonl"
