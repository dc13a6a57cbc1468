#!/usr/bin/env python3
"""Runs the pre-tokenizer Split over published patterns and compares with what the reference gave (TOK-07).

    split_regex_oracle.py --slm PATH --data DIR

DIR holds split_regex_patterns.json and split_regex_oracle.json.gz. Each pattern becomes a tokenizer.json
whose model makes one token of each piece, so that the offsets are the pieces. Exit status 1 on any
difference, 77 if the data is not there.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile


def tokenizer_file(pattern: str, behavior: str, invert: bool) -> dict:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert},
            "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}


def pieces(slm: str, path: pathlib.Path, texts: list[str]) -> list[list[str]]:
    records = "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts))
    done = subprocess.run([slm, "tokenize", str(path), "--batch"], input=records, capture_output=True, text=True,
                          encoding="utf-8", check=False)
    out = []
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        data = text.encode()
        out.append([data[b:e].decode() for b, e in json.loads(line)["offsets"]["byte"]])
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if not (args.data / "split_regex_patterns.json").exists():
        print("not-run: split_regex_oracle: the patterns are not here")
        return 77
    patterns = json.loads((args.data / "split_regex_patterns.json").read_text(encoding="utf-8"))
    with gzip.open(args.data / "split_regex_oracle.json.gz") as stream:
        wanted = json.load(stream)["tokens"]
    n_cases = n_wrong = 0
    defaults = patterns["defaults"]
    by_id = {entry["id"]: entry["pattern"] for entry in patterns["patterns"]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        for entry in [*patterns["patterns"], *patterns["additionalCases"]]:
            entry = {**defaults, "pattern": by_id.get(entry.get("patternId", "")), **entry}
            path.write_text(json.dumps(tokenizer_file(entry["pattern"], entry["behavior"], entry["invert"])),
                            encoding="utf-8")
            try:
                got = pieces(args.slm, path, entry["inputs"])
            except (ValueError, KeyError) as error:
                got = [[repr(error)]] * len(entry["inputs"])
            for text, mine, reference in zip(entry["inputs"], got, wanted[entry.get("name") or entry["id"]], strict=True):
                n_cases += 1
                if mine != reference:
                    n_wrong += 1
                    print(json.dumps({"pattern": entry["pattern"], "text": text, "got": mine, "want": reference}))
    print(f"split regex oracle: {n_cases} cases, {n_wrong} wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
