#!/usr/bin/env python3
"""Runs `slm tokenize` and `slm detokenize` on vocabularies in GGUF files against llama.cpp (TOK-01, TOK-11).

    gguf_against_reference.py --slm PATH --models DIR --library DIR [--strings N] [--sweep EVERY] [--seed S] [--keep DIR] [GGUF ...]

DIR of --models holds the published tokenizer.json and SentencePiece files from which GGUF files of each kind are packed
(gguf_files.py); further GGUF files may be named. The library is that of tools/fetch_llama_cpp.py. Compared for every string:
the ids with and without the tokens that the file asks for, and with special tokens as text; the bytes of ids drawn at random
(mode raw), and what llama.cpp makes of the ids of a text where it removes special tokens (mode visible). Every EVERY-th code
point is swept in four places besides. What differs is printed as one JSON line each. Exit status 1 if anything does, 77
without the Python package sentencepiece.
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
import tempfile

import gguf_files as packed

import llama_vocabulary

try:
    import sentencepiece
except ImportError:
    print("not-run: gguf_against_reference: the Python package sentencepiece is not installed")
    sys.exit(77)

KEY = "tokenizer.ggml."
PRES = ("default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "starcoder", "falcon", "deepseek-coder", "deepseek-v3", "bloom", "viking",
        "tekken", "gpt-4o", "chameleon", "bailingmoe", "seed-coder")
SPACES = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
# Assigned in Unicode 16.0, whose tables are those here; llama.cpp's are of 15.1. All others are the same in both.
NEWER = [(0x897, 0x897), (0x1B4E, 0x1B4F), (0x1B7F, 0x1B7F), (0x1C89, 0x1C8A), (0x2427, 0x2429), (0x31E4, 0x31E5), (0xA7CB, 0xA7CD),
         (0xA7DA, 0xA7DC), (0x105C0, 0x105FF), (0x10D40, 0x10D8F), (0x10EC2, 0x10EC4), (0x10EFC, 0x10EFC), (0x11380, 0x113FF),
         (0x116D0, 0x116E3), (0x11BC0, 0x11BFF), (0x11F5A, 0x11F5A), (0x13460, 0x143FF), (0x16100, 0x1613F), (0x16D40, 0x16D7F),
         (0x1CC00, 0x1CEBF), (0x1E5D0, 0x1E5FF), (0x1F8B2, 0x1F8C1), (0x1FA89, 0x1FA8F), (0x1FABE, 0x1FAE9), (0x1FBCB, 0x1FBEF)]
WORDS = ["don't", "we're", "I'LL", "'S", "it's", "hello", "World", "http://a.example/b?c=d#e", '{"k": [1, 2.5e-3]}', "**bold** `code`",
         "for (int i = 0; i < n; ++i) {\n\t}", "\u00dcn\u00efc\u00f6d\u00e9", "e\u0301\u0323", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab",
         "\u0938\u094d\u0925", "\u0e44\u0e17\u0e22", "\u65e5\u672c\u8a9e", "\u0627\u0644\u0639\u0631", "\U0001f468\u200d\U0001f469", "\ufb01\u2126\u212b",
         "\u2581", "\u2581a", "<0x41>", "1234567", "3.14", "CamelCase", "IMGIMGABZ", "<sentinel:12>", "a , b ! c 's d ' e", "<unk>", "</s>"]


class Slm:
    def __init__(self, slm: str, command: str, path: pathlib.Path):
        self.process = subprocess.Popen([slm, command, str(path), "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, records: list[dict]) -> list[dict]:
        out = []
        for record in records:
            self.process.stdin.write(json.dumps(record).encode() + b"\n")
            self.process.stdin.flush()
            out.append(json.loads(self.process.stdout.readline()))
        return out

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait() == 0


def text_of(r: random.Random, pieces: list[str]) -> str:
    def part() -> str:
        kind = r.randrange(9)
        if kind == 0:
            return "".join(chr(r.randrange(0x20, 0x7F)) for _ in range(r.randrange(1, 8)))
        if kind == 1:
            return "".join(chr(r.choice(SPACES + [0x20] * 20)) for _ in range(r.randrange(1, 5)))
        if kind == 2:
            return r.choice(WORDS)
        if kind == 3:
            return r.choice(pieces)
        if kind == 4:
            piece = r.choice(pieces)
            return piece[:r.randrange(len(piece) + 1)]
        if kind == 5:
            return chr(r.choice([r.randrange(0x80, 0x600), r.randrange(0x900, 0xE00), r.randrange(0x1100, 0x1200), r.randrange(0x2000, 0x2C00),
                                 r.randrange(0x3000, 0xD800), r.randrange(0xF900, 0x10000), r.randrange(0x1F300, 0x1F700)]))
        if kind == 6:
            return "".join(r.choice("0123456789") for _ in range(r.randrange(1, 9)))
        if kind == 7:
            return r.choice("abc \n") * r.randrange(1, 20)
        return r.choice(["\r\n", "\t", "\n\n", ".", ",", "?", "!", "'", "\"", "-", "_", "/", "\u00b2", "\u00bd", "\u2019", "\ufe0f", "\u200b"])
    return "".join(part() for _ in range(r.randrange(1, 9))).replace("\0", "")


def check(name: str, path: pathlib.Path, library: llama_vocabulary.Library, args: argparse.Namespace) -> tuple[collections.Counter, int]:
    reference = llama_vocabulary.Vocabulary(library, path)
    r = random.Random(f"{args.seed} {name}")
    pieces = [text for text in (reference.text([i], False, True).decode("utf-8", "ignore") for i in range(reference.n)) if text]
    # Raw cleans nothing up, the reference always does where the vocabulary asks for it.
    profile = json.loads(subprocess.run([args.slm, "--json", "tokenize", str(path), "", "--explain"], capture_output=True, check=True).stdout)["profile"]
    cleans = profile["clean_up_tokenization_spaces"]
    encode, decode = Slm(args.slm, "tokenize", path), Slm(args.slm, "detokenize", path)
    counts: collections.Counter = collections.Counter()
    n_wrong = 0

    def wrong(**what: object) -> None:
        nonlocal n_wrong
        n_wrong += 1
        if n_wrong <= args.show:
            print(json.dumps({"file": name, **what}, ensure_ascii=True), flush=True)

    def compare(text: str) -> None:
        special, parse = r.random() < 0.5, r.random() < 0.7
        expected = reference.ids(text, special, parse)
        found = encode.ask([{"id": 0, "text": text, "add_special_tokens": special, "special_tokens_as_text": not parse}])[0]
        counts["ids"] += 1
        if found.get("ids") != expected:
            wrong(text=text, add_special_tokens=special, special_tokens_as_text=not parse, expected=expected,
                  found=found.get("ids", found.get("error")))
            return
        if args.sweeping:
            return
        shown = decode.ask([{"id": 0, "ids": expected, "mode": "visible"}])[0].get("text")
        counts["visible"] += 1
        expected_text = reference.text(expected, True, False).decode("utf-8", "replace")
        if shown != expected_text:
            wrong(ids=expected, found_visible=shown, expected=expected_text)

    args.sweeping = False
    for _ in range(args.strings):
        compare(text_of(r, pieces))
        some = [r.randrange(reference.n) for _ in range(r.randrange(1, 5))]
        raw, shown = decode.ask([{"id": 0, "ids": some, "mode": mode} for mode in ("raw", "visible")])
        counts["random ids"] += 1
        expected = reference.text(some, False, True)
        if not cleans and base64.b64decode(raw["bytes"]) != expected:
            wrong(ids=some, expected=base64.b64encode(expected).decode(), found_raw=raw)
        expected_text = reference.text(some, True, False).decode("utf-8", "replace")
        if shown.get("text") != expected_text:
            wrong(ids=some, expected=expected_text, found_visible=shown)
    args.sweeping = True
    if args.sweep:
        for c in range(1, 0x110000, args.sweep):
            if 0xD800 <= c < 0xE000 or any(low <= c <= high for low, high in NEWER):
                continue
            for text in (chr(c), f"a{chr(c)}b", f" {chr(c)}1", f"{chr(c)}{chr(c)} a"):
                counts["swept"] += 1
                compare(text)
    encode.close()
    decode.close()
    reference.close()
    return counts, n_wrong


def charsmap_of(model: bytes) -> bytes:
    """precompiled_charsmap: field 2 of the message in field 3."""
    def fields(message: bytes):
        at = 0

        def varint() -> int:
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(message):
            key = varint()
            size = varint() if key & 7 in (0, 2) else 8 if key & 7 == 1 else 4
            body = b""
            if key & 7:
                body, at = message[at:at + size], at + size
            yield key >> 3, body
    return b"".join(body for number, spec in fields(model) if number == 3 for inner, body in fields(spec) if inner == 2)


def files(models: pathlib.Path, out: pathlib.Path) -> dict[str, pathlib.Path]:
    made: dict[str, bytes] = {}
    gpt2 = models / "gpt2.tokenizer.json"
    ends = [packed.number(KEY + "bos_token_id", 50256), packed.number(KEY + "eos_token_id", 50256)]
    for pre in PRES:
        made[f"gpt2-{pre}"] = packed.of_bpe_json(gpt2, pre, *ends)
    made["gpt2-flags"] = packed.of_bpe_json(gpt2, "gpt-2", *ends, packed.flag(KEY + "add_bos_token", True), packed.flag(KEY + "add_eos_token", True))
    made["neox"] = packed.of_bpe_json(models / "gpt_neox.tokenizer.json", "olmo", packed.number(KEY + "bos_token_id", 0))
    made["bert"] = packed.of_wordpiece_json(models / "bert_base_cased.tokenizer.json")
    made["bert-cased"] = packed.of_wordpiece_json(models / "bert_base_cased.tokenizer.json", packed.flag(KEY + "normalizer.lowercase", False))
    made["gte-accents"] = packed.of_wordpiece_json(models / "gte.tokenizer.json", packed.flag(KEY + "normalizer.strip_accents", False))
    for name in ("llama2", "mistral01"):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(models / f"{name}.model"))
        made[name] = packed.of_sentencepiece(processor, "llama")
        made[f"{name}-bare"] = packed.of_sentencepiece(processor, "llama", packed.flag(KEY + "add_space_prefix", False),
                                                       packed.flag(KEY + "add_bos_token", False), packed.flag(KEY + "add_eos_token", True))
    for name in ("nai-t5", "xlnet_base_cased"):
        model = (models / f"{name}.model").read_bytes()
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        more = [packed.number(KEY + "unknown_token_id", processor.unk_id()), packed.number(KEY + "eos_token_id", max(processor.eos_id(), 1)),
                packed.octets(KEY + "precompiled_charsmap", charsmap_of(model))]
        for prefix in (True, False):
            for extra in (True, False):
                made[f"{name}-{prefix:d}{extra:d}"] = packed.of_sentencepiece(
                    processor, "t5", *more, packed.flag(KEY + "add_space_prefix", prefix), packed.flag(KEY + "remove_extra_whitespaces", extra))
    # Tokens of the user that begin like each other and end like each other's beginning.
    tokens = ["ab", "abc", "cd", "cde", "bcdef", "<x>", "<x><y>", "<y>", *"abcdefx<>y\u0120"]
    types = [4, 4, 3, 4, 3, 3, 4, 3] + [1] * 11
    made["overlaps"] = packed.vocabulary("gpt2", tokens, types, packed.string(KEY + "pre", "gpt-2"), packed.strings(KEY + "merges", []),
                                         packed.number(KEY + "bos_token_id", 0), packed.number(KEY + "eos_token_id", 0))
    made["phi3"] = packed.vocabulary("gpt2", ["<|user|>", "<|end|>", "<s>", "</s>", "<unk>", "<|endoftext|>", *"ab\u0120\u010a"], [3, 4, 3, 3, 2, 3] + [1] * 4,
                                     packed.string(KEY + "pre", "gpt-2"), packed.strings(KEY + "merges", []),
                                     packed.number(KEY + "bos_token_id", 2), packed.number(KEY + "eos_token_id", 3), name="Phi-3 mini")
    for name, file in made.items():
        (out / f"{name}.gguf").write_bytes(file)
    return {name: out / f"{name}.gguf" for name in made}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--strings", type=int, default=200)
    parser.add_argument("--sweep", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("gguf", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    library = llama_vocabulary.Library(args.library)
    counts: collections.Counter = collections.Counter()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        out = args.keep or pathlib.Path(folder)
        every = {**files(args.models, out), **{path.name: path for path in args.gguf}}
        for name, path in every.items():
            if not re.search(args.only, name):
                continue
            one, wrong = check(name, path, library, args)
            print(f"{name}: {dict(one)}, {wrong} differ", flush=True)
            counts += one
            n_wrong += wrong
    print(f"figures: {len(every)} GGUF vocabularies against llama.cpp: {dict(counts)}, {n_wrong} differ")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
