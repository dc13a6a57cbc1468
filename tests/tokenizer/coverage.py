"""Counts what the fuzzers of this folder exercised: components, option values, general categories, error classes.

A count is the number of strings that were compared through it; for a general category, of code points in those
strings; for an error class, of bad files or bad inputs. `short` names what stays under a minimum, also where it
never came up: the names that must come up are listed here, not gathered from what did.
"""
import argparse
import collections
import functools
import json
import pathlib
import random
import sys
import unicodedata

KINDS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors", "decoder": "decoders"}
TYPES = {
    "normalizer": ["BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace", "Sequence",
                   "Strip", "StripAccents", "ByteLevel"],
    "pre_tokenizer": ["BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace", "Punctuation",
                      "Sequence", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"],
    "model": ["BPE", "Unigram", "WordLevel", "WordPiece"],
    "post_processor": ["BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"],
    "decoder": ["BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Sequence", "Strip", "WordPiece"],
}
BOTH = ["false", "true"]
BEHAVIORS = ["Contiguous", "Isolated", "MergedWithNext", "MergedWithPrevious", "Removed"]
SCHEMES = ["always", "first", "never"]
PATTERN = ["Regex", "String"]
TEXT = ["empty", "text"]
NUMBER = ["0", "above 0"]
MAYBE = ["empty", "null", "text"]
MODES = ["diagnostic", "raw", "visible"]
# Texts that are counted by name.
NAMED = {*BEHAVIORS, *SCHEMES, *MODES, "Left", "Right", "LongestFirst", "OnlyFirst", "BatchLongest"}
OPTIONS = {
    "normalizer.BertNormalizer": {"clean_text": BOTH, "handle_chinese_chars": BOTH, "lowercase": BOTH,
                                  "strip_accents": ["false", "null", "true"]},
    "normalizer.Prepend": {"prepend": TEXT}, "normalizer.Replace": {"content": TEXT, "pattern": PATTERN},
    "normalizer.Strip": {"strip_left": BOTH, "strip_right": BOTH},
    "pre_tokenizer.ByteLevel": {"add_prefix_space": BOTH, "trim_offsets": BOTH, "use_regex": BOTH},
    "pre_tokenizer.Digits": {"individual_digits": BOTH},
    "pre_tokenizer.Metaspace": {"prepend_scheme": SCHEMES, "split": BOTH}, "pre_tokenizer.Punctuation": {"behavior": BEHAVIORS},
    "pre_tokenizer.Split": {"behavior": BEHAVIORS, "invert": BOTH, "pattern": PATTERN},
    "model.BPE": {"byte_fallback": BOTH, "continuing_subword_prefix": MAYBE, "end_of_word_suffix": MAYBE, "fuse_unk": BOTH,
                  "ignore_merges": BOTH, "unk_token": ["null", "text"]},
    "model.Unigram": {"byte_fallback": BOTH, "unk_id": ["0", "null"]}, "model.WordPiece": {"continuing_subword_prefix": TEXT},
    "post_processor.ByteLevel": {"add_prefix_space": BOTH, "trim_offsets": BOTH, "use_regex": BOTH},
    "post_processor.RobertaProcessing": {"add_prefix_space": BOTH, "trim_offsets": BOTH},
    "decoder.ByteLevel": {"add_prefix_space": BOTH, "trim_offsets": BOTH, "use_regex": BOTH},
    "decoder.BPEDecoder": {"suffix": TEXT}, "decoder.CTC": {"cleanup": BOTH, "pad_token": TEXT, "word_delimiter_token": TEXT},
    "decoder.Metaspace": {"prepend_scheme": SCHEMES}, "decoder.Replace": {"content": TEXT, "pattern": PATTERN},
    "decoder.Strip": {"start": NUMBER, "stop": NUMBER}, "decoder.WordPiece": {"cleanup": BOTH, "prefix": TEXT},
    "truncation": {"direction": ["Left", "Right"], "max_length": NUMBER, "strategy": ["LongestFirst", "OnlyFirst"], "stride": NUMBER},
    "padding": {"direction": ["Left", "Right"], "pad_to_multiple_of": ["above 0", "null"], "strategy": ["BatchLongest", "Fixed"]},
    "added_tokens": {"lstrip": BOTH, "normalized": BOTH, "rstrip": BOTH, "single_word": BOTH, "special": BOTH},
    "request": {"add_special_tokens": BOTH, "special_tokens_as_text": BOTH, "truncation": BOTH, "padding": BOTH, "lenient": BOTH,
                "mode": MODES},
}
# Surrogates cannot stand in a text; the error classes have them.
CATEGORIES = ["Cc", "Cf", "Cn", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po",
              "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"]


def bucket(value: object) -> str:
    """The value of an option as it is counted: text by whether there is any, numbers by whether they are 0."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return "0" if value == 0 else "above 0"
    if isinstance(value, dict):
        return next(iter(value), "empty")
    assert isinstance(value, str)
    return value if value in NAMED else "text" if value else "empty"


@functools.cache
def by_category() -> dict[str, list[int]]:
    out: dict[str, list[int]] = {name: [] for name in CATEGORIES}
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        out[unicodedata.category(chr(code))].append(code)
    return out


def character(rng: random.Random) -> str:
    """One of a category; each category is as likely as any other."""
    return chr(rng.choice(by_category()[rng.choice(CATEGORIES)]))


class Coverage:
    def __init__(self) -> None:
        self.components: collections.Counter[str] = collections.Counter()
        self.flags: collections.Counter[str] = collections.Counter()
        self.categories: collections.Counter[str] = collections.Counter()
        self.errors: collections.Counter[str] = collections.Counter()

    def options(self, name: str, values: dict, strings: int) -> None:
        for option in OPTIONS.get(name, {}):
            if option in values:
                self.flags[f"{name}.{option}={bucket(values[option])}"] += strings

    def component(self, kind: str, value: dict | None, strings: int) -> None:
        if value is None or "type" not in value:
            return
        name = "BertNormalizer" if value["type"] == "Bert" else value["type"]
        self.components[f"{kind}.{name}"] += strings
        self.options(f"{kind}.{name}", value, strings)
        for part in value.get(KINDS.get(kind, ""), []):
            self.component(kind, part, strings)

    def file(self, data: dict, strings: int) -> None:
        """A tokenizer.json that so many strings went through."""
        for kind in TYPES:
            self.component(kind, data.get(kind), strings)
        for kind in ("truncation", "padding"):
            if data.get(kind) is not None:
                self.options(kind, data[kind], strings)
        for token in data.get("added_tokens") or []:
            self.options("added_tokens", token, strings)

    def text(self, text: str) -> None:
        self.categories.update(map(unicodedata.category, text))

    def error(self, name: str) -> None:
        self.errors[name] += 1

    def add_to(self, path: pathlib.Path) -> None:
        """Adds the counts to those in a file, which need not be there yet."""
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for name, counts in vars(self).items():
            for key, n in before.get(name, {}).items():
                counts[key] += n
        path.write_text(json.dumps({name: dict(counts) for name, counts in vars(self).items()}, indent=1) + "\n", encoding="utf-8")

    def short(self, minimum: int) -> list[str]:
        """What must come up and came up less than `minimum` times. The error classes declare themselves, with 0."""
        wanted = [(self.components, f"{kind}.{name}") for kind, names in TYPES.items() for name in names]
        wanted += [(self.flags, f"{name}.{option}={value}") for name, options in OPTIONS.items() for option, values in options.items()
                   for value in values]
        wanted += [(self.categories, name) for name in CATEGORIES]
        wanted += [(self.errors, name) for name in sorted(self.errors)]
        return [f"{name} {counts[name]}" for counts, name in wanted if counts[name] < minimum]

    def print(self) -> None:
        for name, counts in vars(self).items():
            print(f"  {name}: " + ", ".join(f"{key} {n}" for key, n in sorted(counts.items())))


def main() -> int:
    parser = argparse.ArgumentParser(description="Fails where a count of a file of counts is under a minimum.")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--minimum", type=int, default=1000)
    args = parser.parse_args()
    counts = Coverage()
    data = json.loads(args.file.read_text(encoding="utf-8"))
    for name, values in data.items():
        getattr(counts, name).update(values)
    counts.print()
    short = counts.short(args.minimum)
    if not counts.errors:
        short.append("no error class was run")
    for line in short:
        print(f"under {args.minimum}: {line}")
    kinds = ", ".join(f"{len(values)} {name}" for name, values in vars(counts).items())
    print(f"figures: exercised {kinds}; {len(short)} under {args.minimum}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
