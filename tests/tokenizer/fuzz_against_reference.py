#!/usr/bin/env python3
"""Runs `slm tokenize` and `slm detokenize` against the reference library on generated strings.

    fuzz_against_reference.py --slm PATH --strings 200000 --seed 1 MODEL [MODEL ...]
    fuzz_against_reference.py --slm PATH --strings 300 --seconds 3600 --seed 1 MODEL [MODEL ...]

MODEL is a tokenizer.json. Compared for every string: ids, scalar offsets, byte offsets (from the
reference's scalar offsets), the decoded text of mode visible, and of mode raw where it is well-formed; raw is
decoded as a stream here and as a whole by the reference, and diagnostic must unescape to the bytes of raw.
Half of the strings go without added special tokens, some with special tokens as text; a fifth of what is decoded
are ids drawn at random. What ids decode to is compared with what the reference decodes, not with the text (TOK-11,
TOK-14). With --seconds each file gets its part of the time, and --strings at least. Prints how
often each kind of input was generated, and each difference as one JSON line. Exit status 1 if there is any, 77 if
the reference is not importable.
"""
import argparse
import base64
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

import coverage

try:
    import tokenizers
except ImportError:
    print("not-run: fuzz_against_reference: the Python package tokenizers is not installed")
    sys.exit(77)

WHITE_SPACE = [0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
               0x205F, 0x3000]
INVISIBLE = [0, 1, 0x7F, 0x80, 0xAD, 0x34F, 0x61C, 0x180E, 0x200B, 0x200C, 0x200D, 0x200E, 0x2060, 0xFEFF, 0xFFFD,
             0xFFFE, 0xFFFF, 0xE000, 0x10FFFD, 0x10FFFF, 0xFDD0, 0xFE0F, 0x1F3FB]
NUMBERS = [ord(c) for c in "0123456789"] + [0xB2, 0xBD, 0x2167, 0x663, 0x96A, 0xFF15, 0x1D7D9, 0x10A40, 0x11DE0, 0x2460]
WORDS = ["don't", "we're", "I'll", "'S", "it's", "'tis", "hello", "World", "http://a.example/b?c=d#e", "x@y.example",
         '{"k": [1, 2.5e-3]}', "**bold** `code`", "for (int i = 0; i < n; ++i) {\n\t}", "\u00dcn\u00efc\u00f6d\u00e9",
         "e\u0301\u0323", "\u1112\u1161\u11ab", "\ud55c\uad6d\uc5b4", "\u0938\u094d\u0925", "\u0e44\u0e17\u0e22", "\u65e5\u672c\u8a9e",
         "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\ufb01\u2126\u212b"]
RANGES = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x700), (0x900, 0xE00), (0x1100, 0x1200),
          (0x1E00, 0x2000), (0x2000, 0x2C00), (0x3040, 0x3100), (0x4E00, 0x5200), (0xAC00, 0xAE00), (0xF900, 0xFB00),
          (0xFE00, 0x10000), (0x10000, 0x10400), (0x1F300, 0x1F700), (0x20000, 0x20100), (0x80, 0xD800), (0xE000, 0x110000)]


class Generator:
    def __init__(self, tokenizer: "tokenizers.Tokenizer", model: dict, seed: int):
        self.random = random.Random(seed)
        self.vocab = [t for t in tokenizer.get_vocab(with_added_tokens=True)]
        self.vocab.sort()
        self.added = [t["content"] for t in model.get("added_tokens") or []]
        self.merges = [m.split(" ") if isinstance(m, str) else m for m in model["model"].get("merges") or []]
        self.counts: collections.Counter[str] = collections.Counter()
        self.decoder = tokenizer.decoder

    def token_text(self, token: str) -> str:
        """A token as text that could give it, through the decoder where there is one."""
        if self.random.random() < 0.3 or self.decoder is None:
            return token
        return self.decoder.decode([token])

    def part(self) -> str:
        r = self.random
        kind = r.choice(["ascii", "space", "spaces", "range", "number", "digits", "word", "token", "merge", "added",
                         "partial added", "invisible", "repeat", "any", "case", "meta", "category"])
        self.counts[kind] += 1
        if kind == "ascii":
            return "".join(chr(r.randrange(0x20, 0x7F)) for _ in range(r.randrange(1, 8)))
        if kind == "space":
            return chr(r.choice(WHITE_SPACE))
        if kind == "spaces":
            return "".join(chr(r.choice(WHITE_SPACE + [0x20] * 20)) for _ in range(r.randrange(1, 6)))
        if kind == "range":
            low, high = r.choice(RANGES)
            return "".join(chr(r.randrange(low, high)) for _ in range(r.randrange(1, 5)) if True)
        if kind == "number":
            return chr(r.choice(NUMBERS))
        if kind == "digits":
            return "".join(chr(r.choice(NUMBERS[:10])) for _ in range(r.randrange(1, 6)))
        if kind == "word":
            return r.choice(WORDS)
        if kind == "token":
            return self.token_text(r.choice(self.vocab))
        if kind == "merge" and self.merges:
            return "".join(self.token_text(p) for p in r.choice(self.merges))
        if kind == "added" and self.added:
            return r.choice(self.added)
        if kind == "partial added" and self.added:
            text = r.choice(self.added)
            return text[r.randrange(len(text)) :][: r.randrange(1, 12)]
        if kind == "invisible":
            return chr(r.choice(INVISIBLE))
        if kind == "repeat":
            return r.choice(["a", " ", "\n", "\u2581", "0", "'", "-", "\u0301", "\u3042", "_"]) * r.randrange(1, 70)
        if kind == "case":
            return r.choice(["\u0130", "\u0131", "\u00df", "\u03a3\u03c2", "\u01c5", "\u1e9e", "\ufb00", "\u212a"])
        if kind == "category":
            return coverage.character(r)
        if kind == "meta":
            return r.choice(["\u2581", "\u0120", "\u010a", "<0x41>", "<0xC3>", "<unk>", "</s>", "<s>", "</w>", "\u2581\u2581"])
        return chr(r.randrange(0x110000))

    def text(self) -> str:
        while True:
            text = "".join(self.part() for _ in range(self.random.choice([1, 1, 2, 3, 4, 6, 10])))
            if not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
                return text


class Batch:
    """One `slm ... --batch` process; answers come in the order of the records."""

    def __init__(self, slm: str, command: str, model: pathlib.Path, flags: list[str]):
        self.process = subprocess.Popen([slm, command, str(model), "--batch", *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, records: list[dict]) -> list[dict]:
        assert self.process.stdin and self.process.stdout
        stdin = self.process.stdin

        def feed() -> None:
            for record in records:
                stdin.write(json.dumps(record) + "\n")
            stdin.flush()

        feeder = threading.Thread(target=feed)
        feeder.start()
        answers = [json.loads(self.process.stdout.readline()) for _ in records]
        feeder.join()
        return answers

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("the batch ended with an error")


def byte_offsets(text: str, scalar: list[list[int]]) -> list[list[int]]:
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    return [[starts[min(b, len(text))], starts[min(e, len(text))]] for b, e in scalar]


def unescaped(text: str) -> bytes:
    """The bytes of which `text` is the diagnostic form."""
    out, position = b"", 0
    for found in re.finditer(r"\\(?:(\\)|x([0-9A-F]{2})|u\{([0-9A-F]+)\})", text):
        out += text[position : found.start()].encode()
        out += b"\\" if found[1] else bytes([int(found[2], 16)]) if found[2] else chr(int(found[3], 16)).encode()
        position = found.end()
    return out + text[position:].encode()


def fuzz_model(args: argparse.Namespace, path: pathlib.Path, counts: coverage.Coverage, seconds: float) -> tuple[int, int]:
    started = time.monotonic()
    reference = tokenizers.Tokenizer.from_file(str(path))
    data = json.loads(path.read_text(encoding="utf-8"))
    generator = Generator(reference, data, args.seed)
    flags = ["--lenient"] if args.lenient else []
    encode = Batch(args.slm, "tokenize", path, flags)
    decode = Batch(args.slm, "detokenize", path, flags)
    n_differences = n_tokens = n_decoded = 0
    done = 0
    while done < args.strings or time.monotonic() - started < seconds:
        texts = [generator.text() for _ in range(min(2000, args.strings - done) if done < args.strings else 1000)]
        special = [generator.random.random() < 0.5 for _ in texts]
        as_text = [generator.random.random() < 0.1 for _ in texts]
        answers = encode.ask([{"id": i, "text": t, "add_special_tokens": s, "special_tokens_as_text": a}
                              for i, (t, s, a) in enumerate(zip(texts, special, as_text))])
        wanted = []
        for text, add, plain in zip(texts, special, as_text):
            reference.encode_special_tokens = plain
            wanted.append(reference.encode(text, add_special_tokens=add))
        reference.encode_special_tokens = False
        noise = generator.random
        ids = [e.ids if noise.random() < 0.8 else [noise.randrange(reference.get_vocab_size()) for _ in range(6)]
               for e in wanted]
        visible = decode.ask([{"id": i, "ids": e, "mode": "visible"} for i, e in enumerate(ids)])
        raw = decode.ask([{"id": i, "ids": e, "mode": "raw"} for i, e in enumerate(ids)])
        diagnostic = decode.ask([{"id": i, "ids": e, "mode": "diagnostic"} for i, e in enumerate(ids)])
        for text, add, plain in zip(texts, special, as_text):
            counts.text(text)
            counts.options("request", {"add_special_tokens": add, "special_tokens_as_text": plain, "lenient": args.lenient}, 1)
        for mode in ("visible", "raw", "diagnostic"):
            counts.options("request", {"mode": mode}, len(texts))
        for text, got, want, row, seen, bare, shown in zip(texts, answers, wanted, ids, visible, raw, diagnostic):
            scalar = [list(o) for o in want.offsets]
            n_tokens += len(want.ids)
            expected = {"ids": want.ids, "offsets": {"byte": byte_offsets(text, scalar), "scalar": scalar}}
            difference = None
            if {k: got.get(k) for k in expected} != expected:
                difference = {"text": text, "got": got, "want": expected}
            elif seen.get("text") != reference.decode(row, skip_special_tokens=True):
                difference = {"ids": row, "got": seen, "want": reference.decode(row, skip_special_tokens=True)}
            elif unknown := [i for i in row if reference.id_to_token(i) is None]:  # the library passes over them
                if (bare.get("error") or {}).get("code") != "TOK-UNKNOWN-ID":
                    difference = {"ids": row, "got": bare, "want": "TOK-UNKNOWN-ID"}
                elif any(f"\\x1A{i}\\x1A" not in shown.get("text", "") for i in unknown):
                    difference = {"ids": row, "got": shown, "want": "the ids that no token has"}
            elif "text" in bare:
                n_decoded += 1
                if bare["text"] != reference.decode(row, skip_special_tokens=False):
                    difference = {"ids": row, "got": bare, "want": reference.decode(row, skip_special_tokens=False)}
            elif "bytes" not in bare or base64.b64decode(bare["bytes"]).decode("utf-8", "replace").count("\ufffd") == 0:
                difference = {"ids": row, "got": bare, "want": "bytes that are not UTF-8"}
            if difference is None and "bytes" in bare and unescaped(shown["text"]) != base64.b64decode(bare["bytes"]):
                difference = {"ids": row, "got": shown, "want": bare}
            if difference is not None:
                n_differences += 1
                if n_differences <= args.show:
                    print(json.dumps({"model": path.name, **difference}))
        done += len(texts)
    encode.close()
    decode.close()
    counts.file(data, done)
    kinds = ", ".join(f"{k} {n}" for k, n in sorted(generator.counts.items()))
    print(f"{path.name}: {done} strings, {n_tokens} tokens, {n_decoded} raw decodes compared as text, "
          f"{n_differences} differences (seed {args.seed}, reference tokenizers {tokenizers.__version__})")
    print(f"  generated: {kinds}", flush=True)
    return n_differences, done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--strings", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10, help="differences to print")
    parser.add_argument("--lenient", action="store_true")
    parser.add_argument("--seconds", type=float, default=0, help="for all files together, loading included")
    parser.add_argument("--coverage", type=pathlib.Path, help="add what was exercised to this file")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    counts = coverage.Coverage()
    started = time.monotonic()
    n_differences = n_strings = 0
    for i, path in enumerate(args.models):
        left = max(0.0, args.seconds - (time.monotonic() - started))
        different, done = fuzz_model(args, path, counts, left / (len(args.models) - i))
        n_differences += different
        n_strings += done
    counts.print()
    if args.coverage:
        counts.add_to(args.coverage)
    print(f"figures: {len(args.models)} published and made tokenizers, {n_strings} strings, {n_differences} differences")
    return 1 if n_differences else 0


if __name__ == "__main__":
    sys.exit(main())
