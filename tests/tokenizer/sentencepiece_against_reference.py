#!/usr/bin/env python3
"""Runs `slm tokenize` and `slm detokenize` on SentencePiece models against the library itself (TOK-01, TOK-10, TOK-11).

    sentencepiece_against_reference.py --slm PATH [--strings N] [--seed S] MODEL.model [MODEL.model ...]

Beside the models that are named, small ones are trained here, with user-defined and control symbols, byte fallback, and each
setting of the normalizer's flags, BPE and unigram. Compared for every string: ids, and the text of the ids; and the text of
ids drawn at random, byte pieces, control and unknown ones included (mode visible); the raw bytes of the ids of a
text without control pieces must be that text wherever the library's is. Exit status 1 on a difference, 77 without the
package sentencepiece.
"""
import argparse
import base64
import collections
import io
import json
import pathlib
import random
import sys
import tempfile

from gguf_against_reference import Slm, text_of

try:
    import sentencepiece
except ImportError:
    print("not-run: sentencepiece_against_reference: the Python package sentencepiece is not installed")
    sys.exit(77)


def trained(kind: str, **options: object) -> bytes:
    r = random.Random(1)
    words = ["the", "cat", "sat", "on", "a", "mat", "caf\u00e9", "na\u00efve", "12", "345", "\u65e5\u672c", "\u8a9e", "foo.bar", "x=1", "Hello", "World", "ing", "tion"]
    lines = [" ".join(r.choice(words) + r.choice(["", "s", "ed", "!"]) for _ in range(r.randrange(3, 12))) for _ in range(400)]
    out = io.BytesIO()
    settings = {"vocab_size": 400 if options.get("byte_fallback") else 120, "hard_vocab_limit": False, "character_coverage": 0.98, "minloglevel": 2,
                "user_defined_symbols": ["<sep>", "ab", "\u2581\u2581", "!!", "\u00e9e"], "control_symbols": ["<ctl>", "[X]"], **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, model_type=kind, **settings)
    return out.getvalue()


def made(folder: pathlib.Path) -> list[pathlib.Path]:
    files = []
    for kind in ("bpe", "unigram"):
        for number, options in enumerate((
                {}, {"byte_fallback": True}, {"add_dummy_prefix": False}, {"remove_extra_whitespaces": False},
                {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "byte_fallback": True},
                {"normalization_rule_name": "identity"}, {"normalization_rule_name": "nfkc_cf"}, {"unk_surface": "<?>"},
                {"split_by_whitespace": False})):
            file = folder / f"{kind}-{number}.model"
            file.write_bytes(trained(kind, **options))
            files.append(file)
    return files


def check(path: pathlib.Path, args: argparse.Namespace) -> tuple[collections.Counter, int]:
    reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
    n = reference.get_piece_size()
    r = random.Random(f"{args.seed} {path.name}")
    pieces = [reference.id_to_piece(i).replace("\u2581", " ") for i in range(n)]
    special = [i for i in range(n) if reference.is_byte(i) or reference.is_control(i) or reference.is_unknown(i)]
    encode, decode = Slm(args.slm, "tokenize", path), Slm(args.slm, "detokenize", path)
    counts: collections.Counter = collections.Counter()
    n_wrong = 0

    def wrong(**what: object) -> None:
        nonlocal n_wrong
        n_wrong += 1
        if n_wrong <= 5:
            print(json.dumps({"file": path.name, **what}), flush=True)

    def check_text(ids: list[int], what: str) -> str | None:
        expected = reference.decode(ids)
        found = decode.ask([{"id": 0, "ids": ids, "mode": "visible"}])[0]
        counts[what] += 1
        if found.get("text") != expected:
            wrong(ids=ids, pieces=[reference.id_to_piece(i) for i in ids], expected=expected, found=found)
            return None
        return expected

    for _ in range(args.strings):
        text = text_of(r, pieces)
        expected = reference.encode(text)
        found = encode.ask([{"id": 0, "text": text}])[0]
        counts["texts"] += 1
        if found.get("ids") != expected:
            wrong(text=text, expected=expected, found=found.get("ids", found.get("error")))
            continue
        shown = check_text(expected, "ids of texts")
        if shown is not None and not any(reference.is_unknown(i) for i in expected):
            raw = base64.b64decode(decode.ask([{"id": 0, "ids": expected, "mode": "raw"}])[0]["bytes"])
            counts["raw"] += 1
            if raw != shown.encode():
                wrong(ids=expected, expected_raw=shown, found_raw=repr(raw))
        ids = [r.choice(special) if r.random() < 0.4 else r.randrange(n) for _ in range(r.randrange(1, 8))]
        check_text(ids, "random ids")
    encode.close()
    decode.close()
    return counts, n_wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--strings", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("model", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    counts: collections.Counter = collections.Counter()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        files = [*args.model, *made(pathlib.Path(folder))]
        for path in files:
            one, wrong = check(path, args)
            print(f"{path.name}: {dict(one)}, {wrong} differ", flush=True)
            counts += one
            n_wrong += wrong
    print(f"figures: {len(files)} SentencePiece models against sentencepiece {sentencepiece.__version__}: {dict(counts)}, {n_wrong} differ")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
