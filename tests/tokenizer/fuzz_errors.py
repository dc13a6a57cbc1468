#!/usr/bin/env python3
"""Gives `slm tokenize` and `slm detokenize` bad tokenizer files and bad input, class by class (TOK-02, TOK-05, TOK-07).

    fuzz_errors.py --slm PATH [--each 1000] [--seed 1] [--seconds S] [--coverage FILE]

Each class makes its cases from generated tokenizer files and knows the code that must come, without or with --lenient,
and whether the reference library refuses (or panics) too: `refuses`, or `takes` where the refusal is our choice
(docs/spec/tokenizer.md). vectors/tokenizer/found/patterns.jsonl comes first: what was found once. For ill-formed UTF-8 the place and the length of the bad part come from CPython's decoder, which
cuts as Unicode's table 3-8 does. Prints how often each class was run, and each surprise as one JSON line. Exit status
1 if there is any, 77 without the reference.
"""
import argparse
import base64
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import coverage
from fuzz_components import ALPHABET, Maker, attempt

import tokenizers

FOUND = pathlib.Path(__file__).resolve().parents[2] / "vectors" / "tokenizer" / "found" / "patterns.jsonl"
REFUSES, TAKES = "refuses", "takes"
LONE = re.compile(r"error ([A-Z0-9-]+)")


class FileClass:
    """Bad files of one kind. `make` changes the file it is given, or returns the text of another one."""

    def __init__(self, name: str, codes: str, reference: str, make: Callable[[dict, random.Random], object], model: str,
                 lenient: str, texts: list[str] | None):
        self.name, self.codes, self.reference, self.make, self.model = name, codes.split(), reference, make, model
        self.lenient = lenient  # the code with --lenient; empty: loads
        self.texts = texts  # the reference loads the file, and panics on these

    def __repr__(self) -> str:
        return self.name


CLASSES: list[FileClass] = []


def bad(name: str, codes: str, reference: str = REFUSES, model: str = "BPE", lenient: str = "same",
        texts: list[str] | None = None) -> Callable[[Callable], Callable]:
    def keep(make: Callable) -> Callable:
        CLASSES.append(FileClass(name, codes, reference, make, model, lenient, texts))
        return make
    return keep


def any_token(file: dict, r: random.Random) -> str:
    return r.choice(sorted(file["model"]["vocab"]))


def set_id(value: Callable[[dict, random.Random], object]) -> Callable:
    def make(file: dict, r: random.Random) -> None:
        file["model"]["vocab"][any_token(file, r)] = value(file, r)
    return make


for one, value, takes in [
        ("negative", lambda f, r: -r.randint(1, 1 << 40), REFUSES), ("a fraction", lambda f, r: r.randint(0, 99) + 0.5, REFUSES),
        ("above 32 bits", lambda f, r: r.randint(1 << 32, 1 << 63), REFUSES), ("text", lambda f, r: str(r.randint(0, 99)), REFUSES),
        ("null, a truth value or a list", lambda f, r: r.choice([None, True, False, [], [1], {}]), REFUSES),
        ("above 16777215", lambda f, r: r.randint(1 << 24, (1 << 32) - 1), TAKES)]:
    bad(f"id: {one}", "TOK-ID", takes)(set_id(value))


@bad("id: two texts on one", "TOK-ID-DUP", TAKES)
def _(file: dict, r: random.Random) -> None:
    a, b = r.sample(sorted(file["model"]["vocab"]), 2)
    file["model"]["vocab"][a] = file["model"]["vocab"][b]


@bad("id: a gap", "TOK-ID-GAP", TAKES, lenient="")
def _(file: dict, r: random.Random) -> None:
    file["model"]["vocab"]["a new one"] = len(file["model"]["vocab"]) + r.randint(1, 50)


def absent(file: dict, r: random.Random) -> str:
    return "".join(chr(r.randint(0x4E00, 0x9FFF)) for _ in range(4))


def insert_merge(file: dict, r: random.Random, merge: object) -> None:
    merges = file["model"]["merges"]
    merges.insert(r.randint(0, len(merges)), merge)


@bad("merge: a part that is no token", "TOK-MERGE")
def _(file: dict, r: random.Random) -> None:
    pair = [any_token(file, r), absent(file, r)]
    insert_merge(file, r, pair if r.random() < 0.5 else pair[::-1])


@bad("merge: a result that is no token", "TOK-MERGE")
def _(file: dict, r: random.Random) -> None:
    new = absent(file, r)
    file["model"]["vocab"][new] = len(file["model"]["vocab"])
    insert_merge(file, r, [new, any_token(file, r)])


@bad("merge: twice", "TOK-MERGE-DUP", TAKES, lenient="")
def _(file: dict, r: random.Random) -> None:
    pair = ["\u4e00", "\u4e01"]
    for text in [*pair, "".join(pair)]:
        file["model"]["vocab"].setdefault(text, len(file["model"]["vocab"]))
    insert_merge(file, r, pair)
    insert_merge(file, r, pair)


@bad("merge: not two parts", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    token = any_token(file, r)
    insert_merge(file, r, r.choice([[], [token], [token] * 3, [token, 1], [None, token], 7, None, {}, {"a": "b"}]))


@bad("merge: text without one space", "TOK-SCHEMA TOK-MERGE")
def _(file: dict, r: random.Random) -> None:
    file["model"]["merges"] = [r.choice(["ab", "a b c", "a  b", " ", "", "a b "])]


@bad("model: dropout", "TOK-DROPOUT", TAKES)
def _(file: dict, r: random.Random) -> None:
    file["model"]["dropout"] = r.choice([0.1, 0.5, 1.0, r.random() + 1e-9])


@bad("model: a member is absent", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    del file["model"][r.choice(["vocab", "merges"])]


@bad("model: WordPiece without a member", "TOK-SCHEMA", model="WordPiece")
def _(file: dict, r: random.Random) -> None:
    del file["model"][r.choice(["vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"])]


@bad("model: unknown type", "TOK-UNKNOWN-TYPE TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    file["model"]["type"] = r.choice(["bpe", "Bigram", "", "Unigram ", "WORDPIECE", "\u0412PE"])


@bad("model: unknown option", "TOK-UNKNOWN-TYPE", TAKES)
def _(file: dict, r: random.Random) -> None:
    file["model"][r.choice(["magic", "Dropout", "fuseunk", "vocab_size", "nfc"])] = r.choice([1, None, True, "a", []])


@bad("model: an option of the wrong type", "TOK-SCHEMA TOK-ID")
def _(file: dict, r: random.Random) -> None:
    key = r.choice(["unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                    "merges"])
    file["model"][key] = r.choice([1, 0.5, [1], {"a": {}}] if key in ("vocab", "merges") else [1, 0.5, [], {}])


@bad("score: not a number", "TOK-SCORE TOK-SCHEMA", model="Unigram")
def _(file: dict, r: random.Random) -> None:
    r.choice(file["model"]["vocab"])[1] = r.choice(["NaN", "-1", None, True, [], {}])


@bad("score: beyond a double", "TOK-SCORE", model="Unigram")
def _(file: dict, r: random.Random) -> str:
    r.choice(file["model"]["vocab"])[1] = -123456.5
    return json.dumps(file).replace("-123456.5", r.choice(["1e999", "-1e999", f"-{r.randint(1, 9)}e{r.randint(309, 9999)}"]))


@bad("score: NaN or Infinity as JSON has none", "JSON-SYNTAX", model="Unigram")
def _(file: dict, r: random.Random) -> str:
    r.choice(file["model"]["vocab"])[1] = r.choice([float("nan"), float("inf"), -float("inf")])
    return json.dumps(file)


@bad("unigram: unk_id outside", "TOK-ID", model="Unigram")
def _(file: dict, r: random.Random) -> None:
    file["model"]["unk_id"] = len(file["model"]["vocab"]) + r.randint(0, 1000)


@bad("unigram: a piece twice", "TOK-ID-DUP", TAKES, model="Unigram")
def _(file: dict, r: random.Random) -> None:
    file["model"]["vocab"].append([r.choice(file["model"]["vocab"])[0], -1.0])


@bad("unigram: an entry of the wrong form", "TOK-SCHEMA", model="Unigram")
def _(file: dict, r: random.Random) -> None:
    vocab = file["model"]["vocab"]
    vocab.insert(r.randint(0, len(vocab)), r.choice([[], ["x"], ["x", -1, 1], [1, -1], "x", None, {"x": -1}]))


CHARSMAP = base64.b64encode(bytes.fromhex("10000000") + bytes(16) + b"x\0").decode()


@bad("charsmap: not base64", "TOK-CHARSMAP")
def _(file: dict, r: random.Random) -> None:
    text = list(CHARSMAP)
    text.insert(r.randint(0, len(text)), r.choice("!.-_ \n\u00e9"))
    file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "".join(text)}


@bad("charsmap: shorter than its trie", "TOK-CHARSMAP", "any")
def _(file: dict, r: random.Random) -> None:
    size = r.randint(5, 1 << 30) * 4
    file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap":
                          base64.b64encode(size.to_bytes(4, "little") + bytes(r.randint(0, 16))).decode()}


@bad("charsmap: leads outside its trie", "TOK-CHARSMAP", "any")
def _(file: dict, r: random.Random) -> None:
    unit = r.randint(1 << 20, (1 << 21) - 1) << 10
    file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap":
                          base64.b64encode((4).to_bytes(4, "little") + unit.to_bytes(4, "little") + b"x\0").decode()}


def split(pattern: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


BROKEN = ["(", ")", "[", "[]", "*", "+", "?", "\\", "(?<", "(?<n", "(?<1a>b)", "{2}", "[b-a]", "(?", "(?P", "\\p{Foo}", "\\p{", "\\k<x>", "(?<=a+)*",
          "[[:foo:]]", "(?q:a)", "\\x{110000}", "\\x{", "{3,1}{", "a**{1000000}", "[a", "(?(", "\\g<x>", "(?~", "^*", "\\b+", "(?=a)*"]


@bad("regex: does not compile", "TOK-REGEX")
def _(file: dict, r: random.Random) -> None:
    maker = Maker(r.randrange(1 << 30), None)
    while True:
        pattern = maker.regex()
        at = r.randint(0, len(pattern))
        pattern = pattern[:at] + r.choice(BROKEN) + pattern[at:]
        if attempt(lambda: tokenizers.Regex(pattern))[0] is None:
            break
    if r.random() < 0.5:
        file["pre_tokenizer"] = split(pattern)
    else:
        file["normalizer"] = {"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}


@bad("regex: outside the subset", "TOK-REGEX", TAKES)
def _(file: dict, r: random.Random) -> None:
    part = r.choice(["(?<=(?>a))", "(?<!(?>ab|c))", "(a+)\\1", "\\K", "\\X", "\\y", "\\Y", "(?~ab)", "(?<n>a)\\g<n>", "\\p{InBasicLatin}"])
    file["pre_tokenizer"] = split(r.choice(["", "a|", "b ", "(?:c)?"]) + part)


@bad("regex: groups nested too deep", "TOK-REGEX", TAKES)
def _(file: dict, r: random.Random) -> None:
    depth = r.randint(70, 200)
    file["pre_tokenizer"] = split("(?:" * depth + "a" + "b)" * depth)


def with_post(post: dict) -> Callable[[dict, random.Random], None]:
    def make(file: dict, r: random.Random) -> None:
        file["post_processor"] = json.loads(json.dumps(post).replace("NAME", r.choice(["[X]", "", "<s>", "x", "\u00e9"])))
    return make


bad("template: names a token that it does not define", "TPL-TOKEN", TAKES, texts=["a"])(with_post(
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "NAME", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [], "special_tokens": {}}))


@bad("template: an id that no token has", "TOK-ID", TAKES)
def _(file: dict, r: random.Random) -> None:
    file["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [],
                              "special_tokens": {"x": {"id": "x", "ids": [1000 + r.randint(0, 1 << 20)], "tokens": ["x"]}}}


@bad("template: a piece of the wrong form", "TOK-SCHEMA TOK-UNKNOWN-TYPE")
def _(file: dict, r: random.Random) -> None:
    piece = r.choice([{}, {"Sequence": {"id": "C", "type_id": 0}}, {"Sequence": {"id": "A"}}, {"Token": {"id": "A", "type_id": 0}}, "$A:-1", 7,
                      {"SpecialToken": {"type_id": 0}}, {"Sequence": {"id": "A", "type_id": -1}}])
    file["post_processor"] = {"type": "TemplateProcessing", "single": [piece], "pair": [], "special_tokens": {}}


@bad("truncation: stride not below the length", "TOK-SCHEMA", TAKES, texts=["a b c d e f g h i j k l m n o p q r s t u v w x y z"])
def _(file: dict, r: random.Random) -> None:
    length = r.randint(1, 9)
    plain(file)
    file["truncation"] = {"direction": r.choice(["Left", "Right"]), "max_length": length, "strategy": "LongestFirst",
                          "stride": length + r.randint(0, 9)}


@bad("truncation: no room for what is added", "TOK-SCHEMA", TAKES)
def _(file: dict, r: random.Random) -> None:
    plain(file)
    token = any_token(file, r)
    file["post_processor"] = {"type": "BertProcessing", "sep": [token, 0], "cls": [token, 0]}
    file["truncation"] = {"direction": r.choice(["Left", "Right"]), "max_length": 1, "strategy": "LongestFirst", "stride": 0}


@bad("truncation or padding: the wrong form", "TOK-SCHEMA TOK-UNKNOWN-TYPE TOK-ID")
def _(file: dict, r: random.Random) -> None:
    if r.random() < 0.5:
        form = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
        form[r.choice(["max_length", "strategy", "stride"])] = r.choice([-1, "x", None, [], 1.5])
        file["truncation"] = form
    else:
        form = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
        form[r.choice(["strategy", "direction", "pad_id", "pad_token"])] = r.choice([-1, None, [], 1.5])
        file["padding"] = form


@bad("padding: beyond the limit", "TOK-LIMIT", TAKES)
def _(file: dict, r: random.Random) -> None:
    file["padding"] = {"strategy": {"Fixed": r.randint((1 << 24) + 1, 1 << 40)}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                       "pad_type_id": 0, "pad_token": "a"}


def added(content: str, number: object = 0, **more: object) -> dict:
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **more}


@bad("added token: an id that disagrees", "TOK-ADDED-ID", TAKES, lenient="")
def _(file: dict, r: random.Random) -> None:
    file["added_tokens"] = [added(absent(file, r), len(file["model"]["vocab"]) + r.choice([-1, 1, 5, 1000]))]


@bad("added token: one text twice", "TOK-ADDED-DUP", TAKES, lenient="")
def _(file: dict, r: random.Random) -> None:
    text = absent(file, r)
    number = len(file["model"]["vocab"])
    file["added_tokens"] = [added(text, number), added(text, number, lstrip=r.random() < 0.5)]


@bad("added token: two with one normalized form", "TOK-ADDED-DUP", TAKES, lenient="TOK-ADDED-DUP")
def _(file: dict, r: random.Random) -> None:
    letter = chr(r.randint(0x41, 0x5A))
    number = len(file["model"]["vocab"])
    file["normalizer"] = {"type": "Lowercase"}
    file["added_tokens"] = [added(f"\u4e00{text}\u4e00", number + i, normalized=True) for i, text in enumerate([letter, letter.lower()])]


@bad("added token: a member is absent or wrong", "TOK-SCHEMA TOK-ID")
def _(file: dict, r: random.Random) -> None:
    token = added(absent(file, r), len(file["model"]["vocab"]))
    key = r.choice(sorted(token))
    if r.random() < 0.5:
        del token[key]
    else:
        token[key] = r.choice([None, [], {}, -1, 0.5])
    file["added_tokens"] = [token]


@bad("component: unknown type", "TOK-UNKNOWN-TYPE")
def _(file: dict, r: random.Random) -> None:
    kind = r.choice(["normalizer", "pre_tokenizer", "decoder", "post_processor"])
    part = {"type": r.choice(["Bogus", "nfc", "NFZ", "bytelevel", "Bytelevel", "", "BPE", "Delimiter", "TemplateProcessin"])}
    outer = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders", "post_processor": "processors"}[kind]
    file[kind] = part if r.random() < 0.5 else {"type": "Sequence", outer: [part]}


NEEDED = [("normalizer", {"type": "Strip", "strip_left": True, "strip_right": True}), ("normalizer", {"type": "Prepend", "prepend": "a"}),
          ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}),
          ("normalizer", {"type": "Sequence", "normalizers": []}), ("pre_tokenizer", {"type": "CharDelimiterSplit", "delimiter": "a"}),
          ("pre_tokenizer", {"type": "Digits", "individual_digits": True}), ("pre_tokenizer", {"type": "Sequence", "pretokenizers": []}),
          ("pre_tokenizer", split("a")), ("decoder", {"type": "Strip", "content": "a", "start": 1, "stop": 0}),
          ("decoder", {"type": "BPEDecoder", "suffix": "a"}), ("decoder", {"type": "WordPiece", "prefix": "#", "cleanup": True}),
          ("decoder", {"type": "Sequence", "decoders": []}),
          ("decoder", {"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": True}),
          ("post_processor", {"type": "BertProcessing", "sep": ["a", 0], "cls": ["a", 0]}),
          ("post_processor", {"type": "Sequence", "processors": []})]


@bad("component: an option is absent", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    kind, part = r.choice(NEEDED)
    part = dict(part)
    del part[r.choice([key for key in part if key != "type"])]
    file[kind] = part


@bad("component: an option of the wrong type", "TOK-SCHEMA TOK-UNKNOWN-TYPE TOK-ID")
def _(file: dict, r: random.Random) -> None:
    kind, part = r.choice(NEEDED)
    part = dict(part)
    part[r.choice([key for key in part if key != "type"])] = r.choice([-1, 1.5, None])
    file[kind] = part


@bad("component: unknown option", "TOK-UNKNOWN-TYPE", TAKES)
def _(file: dict, r: random.Random) -> None:
    kind, part = r.choice([*NEEDED, ("normalizer", {"type": "NFC"}), ("decoder", {"type": "Fuse"}), ("pre_tokenizer", {"type": "Whitespace"})])
    file[kind] = {**part, r.choice(["magic", "Type", "prefix_", "use_regexp"]): r.choice([1, None, "a", []])}


@bad("component: unknown value of an option", "TOK-UNKNOWN-TYPE")
def _(file: dict, r: random.Random) -> None:
    value = r.choice(["removed", "", "isolated", "Always", "Never ", "merged_with_next", "MergedWith"])
    file["pre_tokenizer"] = r.choice([{"type": "Punctuation", "behavior": value}, {**split("a"), "behavior": value},
                                      {"type": "Metaspace", "replacement": "_", "prepend_scheme": value, "split": True}])


@bad("component: not one character", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    text = r.choice(["", "ab", "\u2581\u2581", "e\u0301"])
    file["pre_tokenizer"] = r.choice([{"type": "CharDelimiterSplit", "delimiter": text},
                                      {"type": "Metaspace", "replacement": text, "prepend_scheme": "always", "split": True}])


@bad("component: options that contradict", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    file["pre_tokenizer"] = {"type": "Metaspace", "replacement": "_", "prepend_scheme": r.choice(["always", "first"]),
                             "add_prefix_space": False, "split": r.random() < 0.5}


@bad("file: unknown member", "TOK-UNKNOWN-TYPE")
def _(file: dict, r: random.Random) -> None:
    file[r.choice(["magic", "Model", "normalizers", "vocab"])] = r.choice([1, "a", {}, []])


@bad("file: version", "TOK-SCHEMA")
def _(file: dict, r: random.Random) -> None:
    file["version"] = r.choice(["2.0", "1", "", "1.0.0", 1, 1.0, None])


@bad("file: not an object", "TOK-SCHEMA JSON-SYNTAX")
def _(file: dict, r: random.Random) -> str:
    return r.choice(["", " ", "[]", "1", "null", '"x"', "true", "[" + json.dumps(file) + "]"])


@bad("file: cut short", "JSON-SYNTAX JSON-UTF8 JSON-SURROGATE")
def _(file: dict, r: random.Random) -> bytes:
    data = json.dumps(file, ensure_ascii=r.random() < 0.5).encode()
    return data[: r.randint(1, len(data) - 1)]


@bad("file: JSON with additions", "JSON-SYNTAX")
def _(file: dict, r: random.Random) -> str:
    text = json.dumps(file)
    return r.choice([text + "x", text + text, "\ufeff" + text, text[:-1] + ",}", "/* x */" + text, text.replace('"version"', "'version'", 1),
                     text.replace("null", "None", 1), text.replace(": 0,", ": 00,", 1), text.replace(": 0,", ": +0,", 1)])


@bad("file: ill-formed UTF-8", "JSON-UTF8")
def _(file: dict, r: random.Random) -> bytes:
    data = json.dumps(file, ensure_ascii=False).replace('"<unk>"', '"<QQQ>"').encode()
    return data.replace(b"QQQ", r.choice(list(KINDS.values()))(r) + b"x")


@bad("file: half of a surrogate pair", "JSON-SURROGATE")
def _(file: dict, r: random.Random) -> str:
    half = f"\\u{r.randint(0xD800, 0xDFFF):04x}"
    return json.dumps(file).replace("<unk>", half)


@bad("limit: a token", "TOK-LIMIT", TAKES)
def _(file: dict, r: random.Random) -> None:
    file["model"]["vocab"]["x" * (65537 + r.randint(0, 1000))] = len(file["model"]["vocab"])


def pick(*ranges: tuple[int, int]) -> Callable[[random.Random], bytes]:
    return lambda r: bytes(r.randint(low, high) for low, high in ranges)


# Each is ill-formed whatever follows but the bytes that would complete it (Unicode table 3-7).
TAIL = (0x80, 0xBF)
KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "continuation alone": pick(TAIL), "C0, C1": pick((0xC0, 0xC1), TAIL), "E0 and 80 to 9F": pick((0xE0, 0xE0), (0x80, 0x9F), TAIL),
    "surrogate": pick((0xED, 0xED), (0xA0, 0xBF), TAIL), "F0 and 80 to 8F": pick((0xF0, 0xF0), (0x80, 0x8F), TAIL, TAIL),
    "above U+10FFFF": pick((0xF4, 0xF4), (0x90, 0xBF), TAIL, TAIL), "F5 to FF": pick((0xF5, 0xFF)),
    "1 of 2": pick((0xC2, 0xDF)), "1 of 3": pick((0xE1, 0xEC)), "2 of 3": pick((0xE1, 0xEC), TAIL),
    "2 of 3, E0": pick((0xE0, 0xE0), (0xA0, 0xBF)), "2 of 3, ED": pick((0xED, 0xED), (0x80, 0x9F)),
    "1 of 4": pick((0xF1, 0xF3)), "2 of 4": pick((0xF1, 0xF3), TAIL), "3 of 4": pick((0xF1, 0xF3), TAIL, TAIL),
    "3 of 4, F0": pick((0xF0, 0xF0), (0x90, 0xBF), TAIL), "3 of 4, F4": pick((0xF4, 0xF4), (0x80, 0x8F), TAIL),
}
NEXT = {"at the end": lambda r: b"", "before ASCII": lambda r: bytes([r.randint(0, 0x7F)]),
        "before a character": lambda r: r.choice(["\u00e9", "\u65e5", "\U0001f600"]).encode(), "before another": pick((0xC0, 0xFF))}


def plain(file: dict) -> None:
    file.update(normalizer=None, pre_tokenizer={"type": "WhitespaceSplit"}, post_processor=None, truncation=None, padding=None)


def base(r: random.Random, model: str) -> dict:
    """A file that loads: what the classes change is all that is wrong."""
    file = Maker(r.randrange(1 << 40), None, old_forms=False).file(model)
    for kind in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
        if '"Regex"' in json.dumps(file[kind]):
            file[kind] = None
    file.update(added_tokens=[], truncation=None, padding=None)
    if model != "Unigram":
        file["model"]["unk_token"] = "<unk>"
    if model == "BPE":
        file["model"].update(continuing_subword_prefix=None, merges=[])
        for _ in range(r.randint(1, 5)):
            left, right = r.sample(sorted(file["model"]["vocab"]), 2)
            file["model"]["vocab"].setdefault(left + right, len(file["model"]["vocab"]))
            if [left, right] not in file["model"]["merges"]:
                file["model"]["merges"].append([left, right])
    return file


class Run:
    def __init__(self, args: argparse.Namespace, folder: pathlib.Path):
        self.args, self.path = args, folder / "tokenizer.json"
        self.counts = coverage.Coverage()
        self.n_surprises = 0
        self.n_cases = 0

    def surprise(self, name: str, **what: object) -> None:
        self.n_surprises += 1
        if self.n_surprises <= self.args.show:
            print(json.dumps({"class": name, **what}), flush=True)

    def slm(self, command: str, lines: str, *flags: str) -> tuple[list[dict], str]:
        done = subprocess.run([self.args.slm, command, str(self.path), "--batch", *flags], input=lines, capture_output=True, text=True,
                              encoding="utf-8", check=False, timeout=120)
        if done.returncode < 0:
            raise SystemExit(f"slm {command} was ended by signal {-done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def file(self, kind: FileClass, r: random.Random) -> None:
        file = base(r, kind.model)
        made = kind.make(file, r)
        data = made if isinstance(made, bytes) else (made if isinstance(made, str) else json.dumps(file)).encode("utf-8", "surrogatepass")
        self.path.write_bytes(data)
        self.counts.error(kind.name)
        self.n_cases += 1
        shown = {"file": json.loads(data)} if made is None and kind.name[:5] != "limit" else {"data": repr(data[:300])}
        if kind.name.startswith("limit") or len(data) > 20000:
            shown = {"bytes": len(data)}
        _, message = self.slm("tokenize", '{"id":1,"text":"a"}\n')
        code = LONE.match(message)
        if code is None or code[1] not in kind.codes:
            self.surprise(kind.name, got=message.strip()[:300] or "loads", want=kind.codes, **shown)
            return
        if kind.lenient != "same":
            _, message = self.slm("tokenize", '{"id":1,"text":"a"}\n', "--lenient")
            code = LONE.match(message)
            if (code[1] if code else "") != kind.lenient:
                self.surprise(kind.name, lenient=message.strip()[:300] or "loads", want=kind.lenient or "loads", **shown)
        loaded, why = attempt(lambda: tokenizers.Tokenizer.from_buffer(data))
        if kind.reference in (REFUSES, TAKES) and (loaded is None) != (kind.reference == REFUSES):
            self.surprise(kind.name, reference=why or "takes", want=kind.reference, got=message.strip()[:200], **shown)
        for text in kind.texts or []:
            if loaded is not None and attempt(lambda: loaded.encode(text))[0] is not None:
                self.surprise(kind.name, reference=f"encodes {text!r}", want="refuses", **shown)

    def found(self, case: dict) -> None:
        """A line of vectors/tokenizer/found/patterns.jsonl."""
        self.path.write_text(json.dumps(case["tokenizer"]), encoding="utf-8")
        self.n_cases += 1
        record = {"id": 0, "text": case.get("text", "a"), "add_special_tokens": case.get("add_special_tokens", True)}
        answers, message = self.slm("tokenize", json.dumps(record) + "\n")
        code = LONE.match(message)
        if "code" in case:
            right = code is not None and code[1] == case["code"]
        else:
            got = answers[0] if answers else {}
            right = got.get("ids") == case["ids"] and sum(got["offsets"]["scalar"], []) == case["offsets"]
        if not right:
            self.surprise(f"found: {case['name']}", got=answers or message.strip(), want=case.get("code") or [case["ids"], case["offsets"]])

    def ill_formed(self, name: str, after: str, each: int, r: random.Random) -> None:
        """The text API on raw bytes, beside CPython's decoder."""
        inputs = []
        for _ in range(each):
            before = "".join(r.choice(ALPHABET) for _ in range(r.randint(0, 6))).encode()
            data = before + KINDS[name](r) + NEXT[after](r) + (b"" if after == "at the end" else b"tail")
            try:
                data.decode()
            except UnicodeDecodeError as error:
                inputs.append((data, error.start, error.end - error.start))
        # A lead byte that follows may be completed by "tail" never, and what is before is well-formed: all of them must fail.
        assert len(inputs) == each, (name, after)
        lines = "".join(json.dumps({"id": i, "bytes": base64.b64encode(data).decode()}) + "\n" for i, (data, _, _) in enumerate(inputs))
        answers, message = self.slm("tokenize", lines)
        if len(answers) != each:
            self.surprise(f"UTF-8: {name}", got=message)
        for (data, start, length), got in zip(inputs, answers):
            self.counts.error(f"UTF-8: {name}")
            self.counts.error(f"UTF-8 {after}")
            self.n_cases += 1
            fault = got.get("error", {})
            found = re.search(r": (\d+) bad byte", fault.get("message", ""))
            if (fault.get("code"), fault.get("byte_offset"), found and int(found[1])) != ("UTF8", start, length):
                self.surprise(f"UTF-8: {name}", bytes=data.hex(), got=got, want=[start, length])

    def inputs(self, name: str, code: str, file: dict, command: str, records: list[dict], refusal: Callable | None) -> None:
        """Bad input to a good file; `refusal` runs the reference on a record and is to fail."""
        self.path.write_text(json.dumps(file), encoding="utf-8")
        answers, message = self.slm(command, "".join(json.dumps(record) + "\n" for record in records))
        if len(answers) != len(records):
            self.surprise(name, got=message, want=code, file=file)
        reference = tokenizers.Tokenizer.from_str(json.dumps(file))
        for record, got in zip(records, answers):
            self.counts.error(name)
            self.n_cases += 1
            if got.get("error", {}).get("code") != code:
                self.surprise(name, record=record, got=got, want=code, file=file)
            elif refusal is not None and attempt(lambda: refusal(reference, record))[0] is not None:
                self.surprise(name, record=record, reference="takes it", got=got, file=file)


def encode(reference: "tokenizers.Tokenizer", record: dict) -> object:
    return reference.encode(record["text"])


def decode(reference: "tokenizers.Tokenizer", record: dict) -> object:
    return reference.decode(record["ids"], skip_special_tokens=record["mode"] == "visible")


def unknown_texts(r: random.Random, n: int) -> list[dict]:
    return [{"id": i, "text": "".join(r.choice("\u4e00\u4e8c ab") for _ in range(r.randint(0, 4))) + "\u9fff"} for i in range(n)]


def small(model: dict) -> dict:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model}


VOCAB = {"a": 0, "b": 1, "##aa": 2}
NO_UNKNOWN = {
    "BPE": {"type": "BPE", "dropout": None, "unk_token": "?", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "vocab": VOCAB, "merges": []},
    "Unigram": {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0], ["b", -2.0]], "byte_fallback": False},
    "WordLevel": {"type": "WordLevel", "vocab": VOCAB, "unk_token": "?"},
    "WordPiece": {"type": "WordPiece", "vocab": VOCAB, "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
}


def bad_inputs(run: Run, each: int, r: random.Random) -> None:
    per_kind = -(-each // len(NEXT))
    for name in KINDS:
        for after in NEXT:
            run.path.write_text(json.dumps(small({**NO_UNKNOWN["BPE"], "unk_token": None})), encoding="utf-8")
            run.ill_formed(name, after, per_kind, r)
    for name, model in NO_UNKNOWN.items():
        run.inputs(f"text: no unknown token, {name}", "TOK-NO-UNK", small(model), "tokenize", unknown_texts(r, each), encode)
    good = small({**NO_UNKNOWN["BPE"], "unk_token": None})
    numbers = [r.randint(3, (1 << 32) - 1) for _ in range(each)]
    run.inputs("ids: one that no token has", "TOK-UNKNOWN-ID", good, "detokenize",
               [{"id": i, "ids": [0] * r.randint(0, 3) + [n], "mode": "raw"} for i, n in enumerate(numbers)], None)
    wrong = [-1, 1.5, 1 << 32, "1", None, True, [], {}]
    run.inputs("ids: not an id", "CASE-SCHEMA", good, "detokenize",
               [{"id": i, "ids": [0] * r.randint(0, 3) + [r.choice(wrong)], "mode": "raw"} for i in range(each)], None)
    strip = {**good, "decoder": {"type": "Strip", "content": "a", "start": 0, "stop": 2}}
    run.inputs("ids: Strip on a token that is too short", "TOK-SCHEMA", strip, "detokenize",
               [{"id": i, "ids": [2] * r.randint(0, 3) + [0], "mode": r.choice(["visible", "raw"])} for i in range(each)], decode)
    run.inputs("bytes: no byte API", "TOK-BYTE-API", good, "tokenize",
               [{"id": i, "bytes": base64.b64encode(r.randbytes(r.randint(0, 9))).decode(), "api": "bytes"} for i in range(each)], None)
    shapes = [{"text": r.choice([None, 1, [], True])} for _ in range(each)]
    run.inputs("record: text of the wrong type", "CASE-SCHEMA", good, "tokenize", [{"id": i, **s} for i, s in enumerate(shapes)], None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--each", type=int, default=20, help="cases of each class")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="classes whose name begins so")
    parser.add_argument("--coverage", type=pathlib.Path, help="add what was exercised to this file")
    parser.add_argument("--show", type=int, default=20)
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(args, pathlib.Path(folder))
        for line in FOUND.read_text(encoding="ascii").splitlines()[1:]:
            run.found(json.loads(line))
        for kind in CLASSES:
            if args.only and not kind.name.startswith(args.only):
                continue
            r = random.Random(f"{args.seed} {kind.name}")
            for _ in range(args.each):
                run.file(kind, r)
        if not args.only:
            bad_inputs(run, args.each, random.Random(args.seed))
    run.counts.print()
    if args.coverage:
        run.counts.add_to(args.coverage)
    print(f"took {time.monotonic() - started:.0f} s")
    print(f"figures: {len(run.counts.errors)} classes of bad files and input, {run.n_cases} cases, {run.n_surprises} surprises")
    return 1 if run.n_surprises else 0


if __name__ == "__main__":
    sys.exit(main())
