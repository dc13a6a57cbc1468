#!/usr/bin/env python3
"""`slm tokenize --compare` finds what tells a published tokenizer.json from what AutoTokenizer builds of its directory (TOK-13).

    compare_test.py --slm PATH --source DIR

DIR is the source of SmolLM2, whose two tokenizers differ where two spaces stand before a digit. The text that the
command names must be such a text, the reference library must give the two lists of ids that it names, and no
shorter text over a small alphabet may tell them apart. A tokenizer beside itself must show no difference. Exit status 1 on
any fault, 77 without Transformers.
"""
import argparse
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
except ImportError:
    print("not-run: compare_test: Transformers is not installed")
    sys.exit(77)


ALPHABET = " 0aZ.'\n\u00e9"


def compare(slm: str, a: pathlib.Path, b: pathlib.Path) -> tuple[int, dict]:
    done = subprocess.run([slm, "--json", "tokenize", str(a), "--compare", str(b)], capture_output=True, text=True, encoding="utf-8", check=False)
    print(done.stdout + done.stderr, end="")
    return done.returncode, json.loads(done.stdout.split("\n")[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    args = parser.parse_args()
    auto = AutoTokenizer.from_pretrained(args.source, local_files_only=True, trust_remote_code=False).backend_tokenizer
    published = Tokenizer.from_file(str(args.source / "tokenizer.json"))

    def ids(text: str) -> tuple[list[int], list[int]]:
        return tuple(t.encode(text, add_special_tokens=False).ids for t in (published, auto))  # type: ignore[return-value]

    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder) / "tokenizer.json"
        built.write_text(auto.to_str(), encoding="utf-8")
        status, found = compare(args.slm, args.source, built)
        text = found["text"]
        assert (status, found["equal"]) == (3, False), found
        assert re.fullmatch("  [0-9]", text), text
        first, second = ids(text)
        assert first != second and (found["first"], found["second"]) == (first, second), (found, first, second)
        n_shorter = 0
        for size in range(len(text)):
            for letters in itertools.product(ALPHABET, repeat=size):
                first, second = ids("".join(letters))
                assert first == second, letters
                n_shorter += 1
        status, found = compare(args.slm, built, args.source)
        assert status == 3 and found["text"] == text, found
        for one in (args.source, built):
            status, found = compare(args.slm, one, one)
            assert (status, found["equal"]) == (0, True) and found["tried"] > 100_000, found
    print(f"figures: {text!r} tells the published tokenizer from AutoTokenizer's, none of {n_shorter} shorter texts does")
    return 0


if __name__ == "__main__":
    sys.exit(main())
