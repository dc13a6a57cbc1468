#!/usr/bin/env python3
"""Runs every code point through every normalizer and pre-tokenizer against the reference library (TOK-06, TOK-07).

    sweep.py --slm PATH [--every N] [--charsmap FILE]

Each component stands alone in a tokenizer.json, in the forms that its options give it. Behind a normalizer the model
spells bytes, so that the ids are the normalized text; behind a pre-tokenizer it makes one token of each piece, so that
the offsets are the pieces (and spells bytes where the pre-tokenizer rewrites). A file that has neither leaves each
code point as it is. Every code point but the surrogates
stands once between two letters and, but for the patterns of Split, once between two spaces. With --every N: those below U+0700 and each Nth of the
others. Prints the count of each component and the code points that differ. Exit status 1 if any does, 77 without the
reference.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import tokenizers
except ImportError:
    print("not-run: sweep: the Python package tokenizers is not installed")
    sys.exit(77)

CHUNK = 512
BYTES = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
         "fuse_unk": False, "byte_fallback": True, "vocab": {f"<0x{b:02X}>": b for b in range(256)}, "merges": []}
PIECES = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}


def bert(**on: bool) -> dict:
    return {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False, **on}


def split(pattern: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Nmt"}, {"type": "StripAccents"}, {"type": "Lowercase"},
    {"type": "ByteLevel"}, {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"Regex": "\\w"}, "content": "_"}, bert(clean_text=True), bert(handle_chinese_chars=True),
    bert(strip_accents=True), bert(lowercase=True), {**bert(clean_text=True, handle_chinese_chars=True, lowercase=True), "strip_accents": None},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "NFC"}]},
]
REWRITING = [
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
]
PRE_TOKENIZERS = [
    *REWRITING, {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "Digits", "individual_digits": True},
    {"type": "Digits", "individual_digits": False}, {"type": "FixedLength", "length": 2}, {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "UnicodeScripts"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "MergedWithNext"}]},
    *map(split, ["\\p{L}+|\\p{N}|[^\\s\\p{L}\\p{N}]+", "\\p{Lu}", "\\p{Ll}", "\\p{Lt}", "\\p{Lm}", "\\p{Lo}", "\\p{M}", "\\p{Nd}", "\\p{P}",
                 "\\p{S}", "\\p{C}", "\\p{Z}", "\\w", "[\\w]", "\\d", "\\s", "\\h", "[[:punct:]]", "[[:alpha:]]", "[[:print:]]", "[[:graph:]]",
                 "[[:cntrl:]]", "\\p{Han}", "\\p{Hiragana}|\\p{Katakana}|\\p{Hangul}|\\p{Latin}|\\p{Cyrillic}|\\p{Arabic}",
                 "(?i:[a-z\u00e0-\u00fe])", "(?i:ss|st|ff|k|\u03c3|\u0436|\u10d0|\u13a0)", "\\b", "\\R", ".",
                 "(?i:\\p{Lu})", "(?i:\\p{Ll})", "(?i:\\p{Lt})", "(?i:[\\p{Lu}])", "(?i:[\\p{Lt}])"]),
]


def file(normalizer: dict | None, pre_tokenizer: dict | None, model: dict) -> dict:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer or None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None, "model": model}


compact = json.JSONEncoder(separators=(",", ":")).encode


def run(slm: str, path: pathlib.Path, reference: "tokenizers.Tokenizer", texts: list[str]) -> list[bool]:
    """Whether both give the same ids and offsets, for each text."""
    process = subprocess.Popen([slm, "tokenize", str(path), "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               encoding="utf-8")
    out, _ = process.communicate("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
    same = []
    for text, line in zip(texts, out.splitlines(), strict=True):
        want = reference.encode(text)
        ids, offsets = compact(want.ids), compact(want.offsets)
        if f'"ids":{ids},' in line and f'"scalar":{offsets}}}' in line:  # far quicker than to read the line
            same.append(True)
            continue
        got = json.loads(line)
        same.append(got.get("ids") == want.ids and got["offsets"]["scalar"] == [list(pair) for pair in want.offsets])
    return same


def sweep(args: argparse.Namespace, path: pathlib.Path, data: dict, codes: list[int]) -> list[str]:
    path.write_text(json.dumps(data), encoding="utf-8")
    reference = tokenizers.Tokenizer.from_file(str(path))
    wrong = []
    if data["normalizer"] is None and data["model"] is BYTES and data["pre_tokenizer"] is None:
        text = "".join(map(chr, codes[:5000]))
        assert reference.encode(text).ids == list(text.encode())
    pattern = data["pre_tokenizer"] is not None and data["pre_tokenizer"]["type"] == "Split"
    for between in ("a",) if pattern else ("a", " "):
        chunks = [codes[i : i + CHUNK] for i in range(0, len(codes), CHUNK)]
        texts = [between + "".join(chr(code) + between for code in chunk) for chunk in chunks]
        for chunk, same in zip(chunks, run(args.slm, path, reference, texts)):
            if same:
                continue
            alone = [between + chr(code) + between for code in chunk]
            single = [code for code, one in zip(chunk, run(args.slm, path, reference, alone)) if not one]
            wrong += [f"U+{code:04X} between {between!r}" for code in single] or [f"among U+{chunk[0]:04X} and the next, between {between!r}"]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--charsmap", type=pathlib.Path, help="a tokenizer.json with a Precompiled normalizer")
    args = parser.parse_args()
    codes = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF and (code < 0x700 or code % args.every == 0)]
    normalizers = list(NORMALIZERS)
    if args.charsmap and args.charsmap.exists():
        data = json.loads(args.charsmap.read_text(encoding="utf-8"))
        normalizers.append(next(n for n in data["normalizer"]["normalizers"] if n["type"] == "Precompiled"))
    else:
        print("not-run: sweep of Precompiled: no character map is here")
    forms = [(n, file(n, None, BYTES)) for n in [{}, *normalizers]] + [(p, file(None, p, PIECES)) for p in PRE_TOKENIZERS]
    forms += [(p, file(None, p, BYTES)) for p in REWRITING]
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for component, data in forms:
            wrong = sweep(args, pathlib.Path(folder) / "tokenizer.json", data, codes)
            n_wrong += len(wrong)
            name = json.dumps({k: v for k, v in component.items() if k != "precompiled_charsmap"})
            print(f"{name}: {len(wrong)} differ {' '.join(wrong[:20])}".rstrip(), flush=True)
    print(f"figures: {len(codes)} code points through {len(forms)} normalizers and pre-tokenizers, {n_wrong} differences")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
