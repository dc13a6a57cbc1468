#!/usr/bin/env python3
"""Writes vectors/gguf/vocabularies.jsonl: small GGUF vocabularies of each kind and what llama.cpp makes of texts and ids with them.

    gen_gguf_vectors.py [--library build/llama-cpp]

One line for each vocabulary: the file, the reference's version, texts with their ids (with and without the tokens around them, and
with special tokens as text), and ids with the bytes that they stand for and the text without special tokens. The library is
that of tools/fetch_llama_cpp.py.
"""
import argparse
import base64
import functools
import json
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tokenizer"))

import gguf_files as packed  # noqa: E402
import llama_vocabulary  # noqa: E402

KEY = "tokenizer.ggml."
ALPHABET = [chr(b) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b else None for b in range(256)]
for number, byte in enumerate(b for b in range(256) if ALPHABET[b] is None):
    ALPHABET[byte] = chr(0x100 + number)
TEXTS = ["", "a", " a", "a b", "  ab  ba ", "aab\n\nb", "a<|end|>b <|user|> \t a", "<|user|>\n a<|end|>", "abcde", "bcdef<x><y><y>", "don't I'LL 's", "123 1234567", "a\u2003b\u00a0 c",
         "\u00e9e\u0301 \u65e5\u672c \ud55c", "CamelCASE x=~y", "a , b ! c 's ' d", "\u2581a \u2581", "</s>a<s>", "<0x41>", "\u2126\ufb01", "!!  !! ab", "\u00e8<", "=g ~wDL", " \u2003<unk>a"]


def vocabularies(weights: bool) -> dict[str, bytes]:
    made = {}
    vocabulary = functools.partial(packed.vocabulary, weights=weights)
    merges = ["a b", "\u0120 a", "\u0120 \u0120", "ab c", "b c", "1 2", "12 3"]
    tokens = [*ALPHABET, *(m.replace(" ", "") for m in merges), "\u0120abc", "<|end|>", "<|user|>", "<s>", "</s>"]
    types = [1] * (len(tokens) - 5) + [1, 1, 3, 3, 3]
    ids = [packed.number(KEY + "bos_token_id", len(tokens) - 2), packed.number(KEY + "eos_token_id", len(tokens) - 1)]
    for pre in ("default", "gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "deepseek-v3", "bloom", "tekken", "gpt-4o", "falcon"):
        made[f"gpt2/{pre}"] = vocabulary("gpt2", tokens, types, packed.string(KEY + "pre", pre), packed.strings(KEY + "merges", merges), *ids)
    made["gpt2/phi3"] = vocabulary("gpt2", [*tokens, "<unk>", "<|endoftext|>"], [*types, 2, 3], packed.string(KEY + "pre", "gpt-2"),
                                          packed.strings(KEY + "merges", merges), *ids, packed.flag(KEY + "add_bos_token", True),
                                          packed.flag(KEY + "add_eos_token", True), name="Phi-3 tiny")
    overlaps = ["ab", "abc", "cd", "cde", "bcdef", "<x>", "<x><y>", "<y>", *"abcdefx<>y\u0120"]
    made["gpt2/overlaps"] = vocabulary("gpt2", overlaps, [4, 4, 3, 4, 3, 3, 4, 3] + [1] * 11, packed.string(KEY + "pre", "gpt-2"),
                                              packed.strings(KEY + "merges", []), packed.number(KEY + "bos_token_id", 0), packed.number(KEY + "eos_token_id", 0))
    space = packed.SPACE
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), space, "a", "b", "c", space + "a", "ab", "ba", space + space, "abc", "e", "!!", "<|end|>", "unused"]
    piece_types = [2, 3, 3] + [6] * 256 + [1] * 10 + [4, 3, 5]
    scores = [0.0] * 259 + [-1.0, -2.0, -2.5, -3.0, -1.5, -3.0, -3.0, -2.25, -4.0, -5.0, 0.0, 0.0, -6.0]
    made["llama"] = vocabulary("llama", pieces, piece_types, scores=scores)
    made["llama/bare"] = vocabulary("llama", pieces, piece_types, packed.flag(KEY + "add_space_prefix", False), packed.flag(KEY + "add_bos_token", False),
                                           packed.flag(KEY + "add_eos_token", True), scores=scores)
    for prefix in (True, False):
        for extra in (True, False):
            made[f"t5/{prefix:d}{extra:d}"] = vocabulary("t5", pieces, piece_types, packed.number(KEY + "unknown_token_id", 0), packed.number(KEY + "eos_token_id", 2),
                                                                packed.flag(KEY + "add_space_prefix", prefix), packed.flag(KEY + "remove_extra_whitespaces", extra),
                                                                scores=scores)
    words = ["[UNK]", "[CLS]", "[SEP]", space + "a", "b", space + "b", "ab", space + "don", space + "'", space + "t", space + "e", "e", space + "!", space + ",", space + "c", "amel", space + "case",
             space + "x", space + "=", space + "~", space + "y", space + "1", "23", space + "\u65e5", space + "\u1112", "<|end|>"]
    word_types = [2, 3, 3] + [1] * 22 + [3]
    word_ids = [packed.number(KEY + f"{name}_token_id", id) for id, name in enumerate(("unknown", "bos", "seperator"))]
    made["bert"] = vocabulary("bert", words, word_types, *word_ids)
    made["bert/cased"] = vocabulary("bert", words, word_types, *word_ids, packed.flag(KEY + "normalizer.lowercase", False))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build" / "llama-cpp")
    args = parser.parse_args()
    release = json.loads((args.library / "_nlcBuildMetadata.json").read_text())["buildOptions"]["llamaCpp"]["release"]
    library = llama_vocabulary.Library(args.library)
    file = args.library / "vector.gguf"
    lines = []
    bare = vocabularies(weights=False)
    for name, data in vocabularies(weights=True).items():
        file.write_bytes(data)
        vocabulary = llama_vocabulary.Vocabulary(library, file)
        texts = [{"text": text, "add_special_tokens": special, "special_tokens_as_text": not parse, "ids": vocabulary.ids(text, special, parse)}
                 for text in TEXTS for special, parse in ((True, True), (False, True), (False, False))]
        r = random.Random(name)
        ids = [r.choices(range(vocabulary.n), k=r.randrange(1, 7)) for _ in range(24)] + [one["ids"] for one in texts[::7] if one["ids"]]
        decoded = [{"ids": one, "raw": base64.b64encode(vocabulary.text(one, False, True)).decode(),
                    "visible": vocabulary.text(one, True, False).decode("utf-8", "replace")} for one in ids]
        vocabulary.close()
        lines.append(json.dumps({"name": name, "reference": f"llama.cpp {release}", "gguf": base64.b64encode(bare[name]).decode(), "texts": texts, "decoded": decoded}))
    file.unlink()
    (ROOT / "vectors" / "gguf" / "vocabularies.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
