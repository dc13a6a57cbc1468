#!/usr/bin/env python3
"""Runs generated tokenizer.json files on generated strings against the reference library (TOK-01).

    fuzz_components.py --slm PATH [--files 200] [--strings 60] [--seed 1] [--seconds S] [--only KIND]

Every file is put together at random from all components with all options, the old forms without `type` among
them. Compared: whether the file loads, ids, scalar offsets, and the decoded text of the modes visible and raw (a
stream here, the whole list in the reference); diagnostic must unescape to raw. Where the reference refuses or
panics, a refusal is expected. Half of the files are made to name the ids that the reference gives; those must
load without --lenient. Prints how often each component, option value and general category was run, and each
difference as one JSON line with its tokenizer.json. Exit status 1 if there is any, 77 without the reference.
"""
import argparse
import base64
import contextlib
import itertools
import json
import os
import pathlib
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import coverage
from fuzz_against_reference import unescaped

try:
    import tokenizers
except ImportError:
    print("not-run: fuzz_components: the Python package tokenizers is not installed")
    sys.exit(77)

ALPHABET = (list("aabbccddeeABCDEİſß") + list("  \t\n\r_-.,!?'’\"$+<=>^`|~#&*()[]{}") + list("0123456789") +
            list("²½Ⅻ٣०５") + list("\u00e9\u0301\u0323\u030a\u0344\u212b\ufb01\u1e9b\u01c5\u03a3\u03c2") +
            list("\u4e2d\u65e5\u304b\u3099\u30ab\u30fc\uff76\uff9e\uac00\u1100\u1161\u11a8\U0002b825\U00020000") +
            list("\u0e44\u0e17\u0915\u094d\u0937\u0627\u05d0\u0378\u0897\u1c89\U00010d4a\U00011de0\U0001f468\u200d\U0001f1e9") +
            list("\0\x01\x0b\x7f\x85\x8f\xa0\xad\u1680\u2002\u200b\u200e\u2028\u2029\u2581\u3000\ufeff\ufffd\ue000\uffff\u0120\u010a"))
NORMALIZERS = ["BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace", "Strip", "StripAccents",
               "Lowercase", "ByteLevel", "Sequence"]
PRE_TOKENIZERS = ["BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace", "Punctuation",
                  "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit", "Sequence"]
MODELS = ["BPE", "Unigram", "WordPiece", "WordLevel"]
POST_PROCESSORS = ["BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing", "Sequence"]
DECODERS = ["ByteLevel", "ByteFallback", "Fuse", "Strip", "Replace", "Metaspace", "BPEDecoder", "WordPiece", "CTC", "Sequence"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
ATOMS = ["a", "b", "c", " ", "\\n", ".", "\\p{L}", "\\p{N}", "\\p{Lu}", "\\p{Ll}", "\\P{L}", "\\p{^M}", "\\w", "\\W", "\\d", "\\D", "\\s", "\\S",
         "\\h", "\\H", "[a-c]", "[^a-c]", "[^\\s\\p{L}\\p{N}]", "[\\w'-]", "[[:punct:]]", "[[:^alpha:]x]", "[a-z&&[^b]]", "\\R", "[^\\W_]", "ß",
         "\\p{Han}", "\\p{M}", "[\\r\\n]", "é", "\\u00e9", "\\x{2581}", "'", "(?:ab|a)", "(a|b)", "(?i:s|ß|ss)", "(?i:[a-e])", "(?>a|ab)",
         "[\\p{L}\\p{M}]", "(?:)", "\\N", "\\O", "\\p{Word}", "[[:word:]]", "\\p{Punct}", "\\p{Alpha}", "\\p{Cn}",
         "(?i:\\p{Lu})", "(?i:\\P{Ll})", "(?i:[\\p{Lu}])", "(?i:[^\\p{Ll}\\s])", "(?<n>a|b)", "(?:^a|b)", "(?:\\b|c)"]
TESTS = ["^", "$", "\\A", "\\z", "\\Z", "\\b", "\\B", "\\G", "(?=a)", "(?!\\S)", "(?=\\p{L}|$)", "(?<=a)", "(?<!\\s)", "(?<=ab|c)", "(?<=\\p{L}+)",
         "(?!a*b)", "(?<!^)"]
QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "+?", "??", "{1,3}?", "*+", "++", "?+", "{2}+", "{3,1}", "{2}?"]


# What loads with --lenient only.
LENIENT = ("TOK-ID-GAP", "TOK-MERGE-DUP", "TOK-ADDED-ID", "TOK-ADDED-DUP")


class Maker:
    def __init__(self, seed: int, charsmap: str | None, old_forms: bool = True):
        self.r = random.Random(seed)
        self.old_forms = old_forms
        self.charsmap = charsmap

    def some(self, low: int, high: int) -> str:
        return "".join(self.r.choice(ALPHABET) for _ in range(self.r.randint(low, high)))

    def flag(self) -> bool:
        return self.r.random() < 0.5

    def regex(self, depth: int = 0) -> str:
        def sequence() -> str:
            out = ""
            for _ in range(self.r.randint(1, 3)):
                if self.r.random() < 0.15:
                    out += self.r.choice(TESTS)
                elif depth < 2 and self.r.random() < 0.2:
                    out += self.r.choice(["(?:%s)", "(%s)", "(?>%s)", "(?i:%s)", "(?=%s)", "(?!%s)"]) % self.regex(depth + 1)
                    if not out.endswith(")") or "(?=" in out or "(?!" in out:
                        continue
                    out += self.r.choice(QUANTIFIERS)
                else:
                    out += self.r.choice(ATOMS) + self.r.choice(QUANTIFIERS)
            return out
        return "|".join(sequence() for _ in range(self.r.choice([1, 1, 1, 2, 3])))

    def pattern(self) -> dict:
        if self.r.random() < 0.3:
            return {"String": self.r.choice(["", " ", "a", "ab", "\u2581", ".", "$", self.some(1, 2)])}
        return {"Regex": self.regex()}

    def normalizer(self, kind: str, depth: int = 0) -> dict:
        out: dict = {"type": kind}
        if kind == "BertNormalizer":
            out |= {"clean_text": self.flag(), "handle_chinese_chars": self.flag(), "strip_accents": self.r.choice([None, True, False]),
                    "lowercase": self.flag()}
            if self.flag():
                out["type"] = "Bert"
        elif kind == "Prepend":
            out["prepend"] = self.r.choice(["\u2581", "", self.some(1, 3)])
        elif kind == "Replace":
            out |= {"pattern": self.pattern(), "content": self.r.choice(["", " ", "\u2581", self.some(0, 3)])}
        elif kind == "Strip":
            out |= {"strip_left": self.flag(), "strip_right": self.flag()}
        elif kind == "Precompiled":
            if self.charsmap is None:
                return {"type": "NFKC"}
            out["precompiled_charsmap"] = self.charsmap
        elif kind == "Sequence":
            names = NORMALIZERS[:-1] if depth else NORMALIZERS
            out["normalizers"] = [self.normalizer(self.r.choice(names), depth + 1) for _ in range(self.r.randint(0, 4))]
        return out

    def pre_tokenizer(self, kind: str, depth: int = 0) -> dict:
        out: dict = {"type": kind}
        if kind == "ByteLevel":
            out |= {"add_prefix_space": self.flag(), "trim_offsets": self.flag(), "use_regex": self.flag()}
        elif kind == "CharDelimiterSplit":
            out["delimiter"] = self.r.choice(ALPHABET)
        elif kind == "Digits":
            out["individual_digits"] = self.flag()
        elif kind == "FixedLength":
            out["length"] = self.r.randint(1, 4)
        elif kind == "Metaspace":
            out |= {"replacement": self.r.choice(["\u2581", "_", "a"]), "prepend_scheme": self.r.choice(["always", "never", "first"]),
                    "split": self.flag()}
            if self.old_forms and self.r.random() < 0.1:
                del out["prepend_scheme"]
                out |= {"add_prefix_space": self.flag(), "str_rep": out["replacement"]}
        elif kind == "Punctuation":
            out["behavior"] = self.r.choice(BEHAVIORS)
        elif kind == "Split":
            out |= {"pattern": self.pattern(), "behavior": self.r.choice(BEHAVIORS), "invert": self.flag()}
        elif kind == "Sequence":
            names = PRE_TOKENIZERS[:-1] if depth else PRE_TOKENIZERS
            out["pretokenizers"] = [self.pre_tokenizer(self.r.choice(names), depth + 1) for _ in range(self.r.randint(0, 3))]
        return out

    def model(self, kind: str) -> dict:
        r = self.r
        texts = sorted(set(r.sample(sorted(set(ALPHABET)), r.randint(5, len(set(ALPHABET))))))
        texts += sorted({self.some(2, 4) for _ in range(r.randint(0, 20))} - set(texts))
        if r.random() < 0.4:
            texts += [f"<0x{b:02X}>" for b in (range(256) if self.flag() else r.sample(range(256), 60))]
        if r.random() < 0.4:
            texts += [c for c in (chr(n) for n in range(0xA1, 0x144)) if c not in texts]
        texts = ["<unk>"] + [t for t in texts if t != "<unk>"]
        if kind == "Unigram":
            vocab = [[t, r.choice([0.0, -1.0, -2.0, -2.5, -r.random() * 10])] for t in texts]
            return {"type": kind, "unk_id": r.choice([0, 0, 0, None]), "vocab": vocab, "byte_fallback": self.flag()}
        if kind == "WordLevel":
            return {"type": kind, "vocab": {t: i for i, t in enumerate(texts)}, "unk_token": r.choice(["<unk>", "<unk>", "?"])}
        if kind == "WordPiece":
            prefix = r.choice(["##", "", "_"])
            texts += [x for x in dict.fromkeys(prefix + t for t in texts) if x not in set(texts)]
            return {"type": kind, "vocab": {t: i for i, t in enumerate(texts)}, "unk_token": r.choice(["<unk>", "<unk>", "?"]),
                    "continuing_subword_prefix": prefix, "max_input_chars_per_word": r.choice([100, 100, 3])}
        prefix = r.choice([None, None, "", "##"])
        suffix = r.choice([None, None, "", "</w>"])
        vocab = {t: i for i, t in enumerate(texts)}
        for t in texts[: len(texts) // 2]:
            for extra in ([prefix + t] if prefix else []) + ([t + suffix] if suffix else []) + (
                    [prefix + t + suffix] if prefix and suffix else []):
                vocab.setdefault(extra, len(vocab))
        merges: list[list[str]] = []
        for _ in range(r.randint(0, 40)):
            left, right = r.choice(list(vocab)), r.choice(list(vocab))
            if prefix and not right.startswith(prefix):
                continue
            joined = left + right[len(prefix or ""):]
            if len(joined) > 8:
                continue
            vocab.setdefault(joined, len(vocab))
            if [left, right] not in merges:
                merges.append([left, right])
        if r.random() < 0.3 and not any(" " in t for pair in merges for t in pair):
            merges = [" ".join(pair) for pair in merges]  # type: ignore[misc]
        return {"type": kind, "dropout": None, "unk_token": r.choice([None, "<unk>", "<unk>", "?"]), "continuing_subword_prefix": prefix,
                "end_of_word_suffix": suffix, "fuse_unk": self.flag(), "byte_fallback": self.flag(), "ignore_merges": self.flag(),
                "vocab": vocab, "merges": merges}

    def post_processor(self, kind: str, vocab: list[str], depth: int = 0) -> dict:
        r = self.r
        out: dict = {"type": kind}
        token = lambda: r.randrange(len(vocab))  # noqa: E731
        if kind in ("BertProcessing", "RobertaProcessing"):
            a, b = token(), token()
            out |= {"sep": [vocab[a], a], "cls": [vocab[b], b]}
            if kind == "RobertaProcessing":
                out |= {"trim_offsets": self.flag(), "add_prefix_space": self.flag()}
        elif kind == "ByteLevel":
            out |= {"add_prefix_space": self.flag(), "trim_offsets": self.flag(), "use_regex": self.flag()}
        elif kind == "TemplateProcessing":
            specials = {}
            for name in ["x", "y"]:
                ids = [token() for _ in range(r.randint(1, 2))]
                specials[name] = {"id": name, "ids": ids, "tokens": [vocab[i] for i in ids]}
            piece = lambda seq: r.choice([{"Sequence": {"id": seq, "type_id": r.randrange(3)}},  # noqa: E731
                                          {"SpecialToken": {"id": r.choice(["x", "y"]), "type_id": r.randrange(3)}}])
            out |= {"single": [piece("A") for _ in range(r.randint(1, 3))], "pair": [piece(r.choice("AB")) for _ in range(r.randint(1, 4))],
                    "special_tokens": specials}
        else:
            names = POST_PROCESSORS[:-1]
            out["processors"] = [self.post_processor(r.choice(names), vocab, 1) for _ in range(r.randint(0, 2))]
        return out

    def decoder(self, kind: str, depth: int = 0) -> dict:
        r = self.r
        out: dict = {"type": kind}
        if kind == "ByteLevel":
            out |= {"add_prefix_space": self.flag(), "trim_offsets": self.flag(), "use_regex": self.flag()}
        elif kind == "Strip":
            out |= {"content": r.choice(["a", " ", "\u2581"]), "start": r.randrange(3), "stop": r.randrange(2)}
        elif kind == "Replace":
            out |= {"pattern": self.pattern(), "content": self.some(0, 2)}
        elif kind == "Metaspace":
            out |= {"replacement": r.choice(["\u2581", "a"]), "prepend_scheme": r.choice(["always", "never", "first"]), "split": True}
        elif kind == "BPEDecoder":
            out["suffix"] = r.choice(["</w>", "", "a"])
        elif kind == "WordPiece":
            out |= {"prefix": r.choice(["##", "", "a"]), "cleanup": self.flag()}
        elif kind == "CTC":
            out |= {"pad_token": r.choice(["a", "", "<unk>"]), "word_delimiter_token": r.choice(["b", "|", ""]), "cleanup": self.flag()}
        elif kind == "Sequence":
            names = DECODERS[:-1] if depth else DECODERS
            out["decoders"] = [self.decoder(r.choice(names), depth + 1) for _ in range(r.randint(0, 3))]
        return out

    def file(self, only: str | None) -> dict:
        r = self.r
        pick = lambda names: only if only in names else r.choice(names)  # noqa: E731
        wanted = lambda names, p: (only in names) or r.random() < p  # noqa: E731
        model = self.model(pick(MODELS))
        vocab = [t for t, _ in model["vocab"]] if model["type"] == "Unigram" else list(model["vocab"])
        out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
               "post_processor": None, "decoder": None, "model": model}
        if wanted(NORMALIZERS, 0.5):
            out["normalizer"] = self.normalizer(pick(NORMALIZERS))
        if wanted(PRE_TOKENIZERS, 0.6):
            out["pre_tokenizer"] = self.pre_tokenizer(pick(PRE_TOKENIZERS))
        if wanted(POST_PROCESSORS, 0.4):
            out["post_processor"] = self.post_processor(pick(POST_PROCESSORS), vocab)
        if wanted(DECODERS, 0.6):
            out["decoder"] = self.decoder(pick(DECODERS))
        for kind in ("normalizer", "post_processor", "decoder", "model"):
            part = out[kind]
            if self.old_forms and part is not None and len(part) > 1 and r.random() < 0.05:
                del part["type"]
        if r.random() < 0.25:
            out["truncation"] = {"direction": r.choice(["Left", "Right"]), "max_length": r.randint(0, 9),
                                 "strategy": r.choice(["LongestFirst", "OnlyFirst"]), "stride": r.randint(0, 2)}
        if r.random() < 0.15:
            out["padding"] = {"strategy": r.choice(["BatchLongest", {"Fixed": r.randint(0, 12)}]), "direction": r.choice(["Left", "Right"]),
                              "pad_to_multiple_of": r.choice([None, 4]), "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
        if r.random() < 0.5:
            used = set()
            for _ in range(r.randint(1, 4)):
                content = r.choice([self.some(1, 3), "<s>", "<mask>", "ab", "  ", r.choice(vocab)])
                if content in used:
                    continue
                used.add(content)
                known = vocab.index(content) if content in vocab else None
                out["added_tokens"].append({"id": 0 if known is None else known, "content": content, "single_word": r.random() < 0.3,
                                            "lstrip": r.random() < 0.3, "rstrip": r.random() < 0.3, "normalized": self.flag(),
                                            "special": self.flag()})
        return out

    def text(self, file: dict) -> str:
        r = self.r
        out = ""
        for _ in range(r.choice([0, 1, 1, 2, 3, 5])):
            kind = r.random()
            if r.random() < 0.15:
                out += coverage.character(r)
            elif kind < 0.6:
                out += self.some(1, 6)
            elif kind < 0.7:
                out += "".join(r.choice(string.ascii_letters + "   '.,") for _ in range(r.randint(1, 10)))
            elif kind < 0.8 and file["added_tokens"]:
                out += r.choice(file["added_tokens"])["content"]
            elif kind < 0.9:
                out += r.choice(ALPHABET) * r.randint(1, 60)
            else:
                out += chr(r.choice([r.randrange(0xD800), r.randrange(0xE000, 0x110000)]))
        return out


def ask(slm: str, command: str, path: pathlib.Path, records: list[dict], lenient: bool = True) -> tuple[list[dict], str]:
    text = "".join(json.dumps(record) + "\n" for record in records)
    done = subprocess.run([slm, command, str(path), "--batch", *(["--lenient"] if lenient else [])], input=text, capture_output=True,
                          text=True, encoding="utf-8", check=False, timeout=120)
    return [json.loads(line) for line in done.stdout.split("\n") if line], done.stderr


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The reference prints its panics."""
    devnull, stderr = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    os.dup2(devnull, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(devnull)
        os.close(stderr)


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call of the reference gives, or nothing and why."""
    with quiet():
        try:
            return call(), ""
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - panics are no Exception
            return None, str(error)


class Variants:
    """The reference with the file's truncation and padding, or without one of them or both."""

    def __init__(self, file: dict, whole: "tokenizers.Tokenizer"):
        self.file = file
        self.known = {(True, True): whole}

    def encode(self, text: str, add: bool, plain: bool, truncation: bool, padding: bool) -> Any:
        key = (truncation or self.file["truncation"] is None, padding or self.file["padding"] is None)
        if key not in self.known:
            less = dict(self.file, **({} if key[0] else {"truncation": None}), **({} if key[1] else {"padding": None}))
            self.known[key] = tokenizers.Tokenizer.from_str(json.dumps(less))
        reference = self.known[key]
        reference.encode_special_tokens = plain
        return reference.encode(text, add_special_tokens=add)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--files", type=int, default=200, help="0: as many as --seconds allows")
    parser.add_argument("--strings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long (0: never)")
    parser.add_argument("--only", help="a component that every file has")
    parser.add_argument("--charsmap", type=pathlib.Path, help="a tokenizer.json with a Precompiled normalizer")
    parser.add_argument("--coverage", type=pathlib.Path, help="add what was exercised to this file")
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    charsmap = None
    if args.charsmap and args.charsmap.exists():
        data = json.loads(args.charsmap.read_text(encoding="utf-8"))
        charsmap = next(n["precompiled_charsmap"] for n in data["normalizer"]["normalizers"] if n["type"] == "Precompiled")
    counts = coverage.Coverage()
    n_different = n_files = n_strings = n_refused = n_outside = n_strict = 0
    deadline = time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        for number in range(args.files) if args.files else itertools.count():
            if args.seconds and time.monotonic() > deadline:
                break
            maker = Maker(args.seed * 1000003 + number, charsmap)
            file = maker.file(args.only)
            path.write_text(json.dumps(file), encoding="utf-8")
            n_files += 1

            def report(**what: object) -> None:
                nonlocal n_different
                n_different += 1
                if n_different <= args.show:
                    shown = dict(file, model=dict(file["model"], vocab="..."), number=number)
                    if charsmap:
                        shown = json.loads(json.dumps(shown).replace(charsmap, "..."))
                    print(json.dumps({**what, "file": shown}), flush=True)

            reference, reason = attempt(lambda: tokenizers.Tokenizer.from_file(str(path)))
            if reference is not None and maker.flag():
                for token in file["added_tokens"]:
                    token["id"] = reference.token_to_id(token["content"])
                path.write_text(json.dumps(file), encoding="utf-8")
                agrees = True
            else:
                agrees = False
            lenient = maker.flag()
            flags = [{"add_special_tokens": maker.flag(), "special_tokens_as_text": maker.r.random() < 0.2,
                      "truncation": maker.r.random() < 0.8, "padding": maker.r.random() < 0.8} for _ in range(args.strings)]
            texts = [maker.text(file) for _ in flags]
            records = [{"id": i, "text": t, **f} for i, (t, f) in enumerate(zip(texts, flags))]
            answers, message = ask(args.slm, "tokenize", path, records, lenient)
            if not lenient and not answers and any(f"error {code} " in message for code in LENIENT):
                n_strict += 1
                if agrees and "TOK-ADDED-DUP" not in message:
                    report(only_refused_here=message.strip())
                    continue
                lenient = True
                answers, message = ask(args.slm, "tokenize", path, records)
            if reference is None:
                n_refused += 1
                if answers:
                    report(refused_by_reference=reason)
                continue
            if not answers:
                # What is refused by choice (docs/spec/tokenizer.md): patterns outside the subset, added
                # tokens whose normalized forms clash or vanish, truncation without room.
                if any(code in message for code in ("TOK-REGEX", "TOK-ADDED-DUP", "normalizer leaves nothing", "truncation", "stride")):
                    n_outside += 1
                else:
                    report(only_refused_here=message.strip())
                continue
            counts.file(file, len(texts))
            rows = []
            variants = Variants(file, reference)
            for text, flag, got in zip(texts, flags, answers, strict=True):
                n_strings += 1
                counts.text(text)
                counts.options("request", {**flag, "lenient": lenient}, 1)
                want, reason = attempt(lambda: variants.encode(text, *flag.values()))
                if want is None:
                    # With truncation tokenizing stops early here, as in tokenizers 0.23.2: 0.23.3 goes on
                    # and may meet what it refuses.
                    # A pattern that the reference's engine gives up on after so many steps takes linear time here.
                    gave_up = "retry-limit-in-match" in str(reason)
                    if "ids" in got and not gave_up and (file["truncation"] is None or not flag["truncation"]):
                        report(text=text, flags=flag, got=got, refused_by_reference=reason)
                elif got.get("ids") != want.ids or got["offsets"]["scalar"] != [list(o) for o in want.offsets]:
                    report(text=text, flags=flag, got=got, want={"ids": want.ids, "offsets": want.offsets, "tokens": want.tokens})
                else:
                    rows.append(want.ids)
            reference.encode_special_tokens = False
            n_ids = reference.get_vocab_size()
            rows = [row if maker.r.random() < 0.7 else [maker.r.randrange(n_ids) for _ in range(6)] for row in rows[:30]]
            modes = ("visible", "raw", "diagnostic")
            for mode in modes:
                counts.options("request", {"mode": mode}, len(rows))
            answers, message = ask(args.slm, "detokenize", path, [{"id": i, "ids": row, "mode": mode}
                                                                  for i, row in enumerate(rows) for mode in modes], lenient)
            for row, visible, raw, diagnostic in zip(rows, answers[::3], answers[1::3], answers[2::3], strict=True):
                text, reason = attempt(lambda: reference.decode(row, skip_special_tokens=True))
                if visible.get("text") != text:
                    shown = visible.get("text", base64.b64decode(visible.get("bytes", "")).decode("utf-8", "replace"))
                    report(ids=row, got=shown, answer=visible, want=text)
                text, reason = attempt(lambda: reference.decode(row, skip_special_tokens=False))
                if "error" in raw or text is None:
                    if "error" not in raw or text is not None:
                        report(ids=row, answer=raw, want=text, refused_by_reference=reason)
                elif "text" in raw and raw["text"] != text:
                    report(ids=row, answer=raw, want=text)
                elif unescaped(diagnostic["text"]) != base64.b64decode(raw["bytes"]):
                    report(ids=row, answer=diagnostic, want=raw)
    print(f"components: {n_files} files, {n_strings} strings, {n_refused} files refused by both, {n_outside} refused by choice, "
          f"{n_strict} with --lenient only, {n_different} differences (seed {args.seed}, reference tokenizers {tokenizers.__version__})")
    counts.print()
    if args.coverage:
        counts.add_to(args.coverage)
    print(f"figures: {n_files} generated files, {n_strings} strings, {n_different} differences")
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
