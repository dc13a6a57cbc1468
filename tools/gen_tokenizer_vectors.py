#!/usr/bin/env python3
"""Writes vectors/tokenizer/: small tokenizers and what the reference library makes of the corpus of TOK-13.

    python tools/gen_tokenizer_vectors.py [--out vectors/tokenizer] [--check]

Needs the package tokenizers 0.23.3. Every text here is synthetic and neutral. Each .jsonl file begins
with a line that names the reference's version and the tokenizer.json; each further line is one case:
text (or bytes, base64, for ill-formed input), options, ids, offsets (Unicode scalar values, flat list
begin, end, begin, end, ...), words (-1: none), special mask, and the decoded text of both modes. Large inputs are
given as a rule, and their ids as a count and a SHA-256 of little-endian 32-bit integers.

found/patterns.jsonl has what fuzzing found: each line its own tokenizer.json, which the reference refuses (`code` is the code
that docs/spec/tokenizer.md gives such a file), or a text with its ids and offsets. tests/tokenizer/fuzz_errors.py runs it.
"""
import argparse
import base64
import hashlib
import json
import pathlib
import random
import struct
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

REFERENCE = "0.23.3"
ROOT = pathlib.Path(__file__).resolve().parent.parent
WHITE_SPACE = [0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
               0x205F, 0x3000]


def training_text() -> list[str]:
    """Lines of a seeded toy grammar: the vocabulary must come from somewhere."""
    rng = random.Random(20261130)
    nouns = ["river", "stone", "garden", "number", "letter", "window", "yellow lamp", "small boat", "caf\u00e9", "na\u00efve robot"]
    verbs = ["sees", "counts", "carries", "opens", "follows", "writes down", "doesn't find", "isn't"]
    lines = []
    for _ in range(600):
        lines.append(f"The {rng.choice(nouns)} {rng.choice(verbs)} {rng.randrange(1000)} {rng.choice(nouns)}s, and  it's "
                     f"{rng.choice(['good', 'bad', 'fine'])}; x{rng.randrange(10)} = {rng.random():.3f}\n")
    return lines


def byte_level_digits() -> Tokenizer:
    """Digits apart, byte-level, special tokens, BOS by the post-processor."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=["<|bos|>", "<|end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training_text(), trainer)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.TemplateProcessing(single="<|bos|> $A", pair="<|bos|> $A <|bos|>:1 $B:1",
                                      special_tokens=[("<|bos|>", 0)])])
    return tokenizer


def byte_level_nfc() -> Tokenizer:
    """NFC, byte-level with a prefix space, added tokens with every flag, contiguous digits."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
    trainer = trainers.BpeTrainer(vocab_size=360, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training_text(), trainer)
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False), AddedToken("<mask>", lstrip=True, normalized=False),
                                  AddedToken("<sep>", rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("    ", normalized=True), AddedToken("  ", normalized=True),
                          AddedToken("stone", single_word=True, normalized=True),
                          AddedToken("\u00e9t\u00e9", normalized=True)])
    return tokenizer


def byte_fallback(metaspace: bool) -> Tokenizer:
    """The form of Llama-2's files: a normalizer, or Metaspace that prepends to the first piece only."""
    source = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    source.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=460, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *bytes_])
    source.train_from_iterator(training_text(), trainer)
    data = json.loads(source.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    if metaspace:
        data["normalizer"] = None
        data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    data["post_processor"] = json.loads(processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1", special_tokens=[("<s>", 1), ("</s>", 2)]).__getstate__())
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(data))


def metaspace_split() -> Tokenizer:
    """Metaspace that splits, unknown characters, truncation and padding in the file."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=160, show_progress=False, special_tokens=["<unk>", "<pad>", "</s>"])
    tokenizer.train_from_iterator(training_text(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 2)])
    tokenizer.enable_truncation(24, stride=2)
    tokenizer.enable_padding(length=8, pad_id=1, pad_token="<pad>", direction="left")
    return tokenizer


def corpus(special: list[str]) -> list[str]:
    texts = ["", "a", "Hello, world!", "It's I'd we'll you're they've I'm don't 'tis 'S", "https://a.example/b?c=d#e",
             "name@host.example", '{"key": [1, 2.50, null]}', "# Title\n\n- **bold** `code`", "for (;;) {\n\tx += y[i];\n}",
             "1234567890 3.14159 1,000 0x1F", "!?.,;:()[]{}<>/\\|@#$%^&*-_=+~`\"'", "<0x41><0xC3><0xA9> <unk>",
             "\r", "\n", "\r\n", "a\r\nb", "\r\n\r\n ", " \n \n", "  a  ", "   ", "Hello  12 world", "  1", "a  12"]
    for space in WHITE_SPACE:
        c = chr(space)
        texts += [c, c + c, f"a{c}b", f"{c} 1"]
    texts += ["\u00e9", "e\u0301", "\u1e69 s\u0323\u0307 s\u0307\u0323", "a\u0300\u0301\u0302\u0303", "\u0301a", "\ufb01\u2460\u212b\u2126\uff21",
              "I\u0130\u0131i\u00df\u1e9e\u03a3\u03c3\u03c2\u01c5", "\ud55c\uad6d \u1112\u1161\u11ab", "\u65e5\u672c\u8a9e \u4e2d\u6587", "\u30a2\uff71\uff76\uff9e\u304b\u3099",
              "\u0e44\u0e17\u0e22", "\u0915\u094d\u0937", "\u0627\u0644\u0633 \u200f\u05e9\u05dc\u05d5\u05dd\u200e \u202b\u0627\u202c",
              "\U0001f600\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd\u2764\ufe0f", "a\u200bb\u200cc\u2060d\ufeffe",
              "\0", "a\0b", "\x01\x1f\x7f\x80\x9f", "\ufdd0\ufffe\uffff\U0001fffe\U0010ffff", "\ue000\U000f0000\U0010fffd",
              "\u0663\u096a\uff15\U0001d7d9\u00b2\u00bd\u2167 123456789012345", "\u2581\u2581a \u2581b\u0120c\u010ad", "\ufffd\ufffd",
              "\U00010d4a\U00011de0\u1c89", "\u00e9" * 20 + "x", "e\u0301" * 10, "a" * 60, " " * 40, "-" * 50]
    for s in special:
        texts += [s, s + s, f"a{s}b", f" {s} ", f"{s}  1", s[: len(s) // 2], f"  {s}\n{s}", f"\u00e9{s}\u65e5"]
    return texts


ILL_FORMED = [b"\x80", b"ab\xc0\xaf", b"\xc1\xbf", b"\xe0\x80\xaf", b"a\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\xaf",
              b"x\xf4\x90\x80\x80", b"\xf5", b"\xff", b"\xc3", b"a\xe2\x82", b"\xf0\x9f\x98", b"\xe2\x28\xa1", b"ok\xf0\x9f\x98A",
              "\u00e9\u65e5\U0001f600".encode() + b"\xbf", b"\xe2\x82\xe2\x82\xac"]


class SplitMix64:
    def __init__(self, seed: int):
        self.state = seed

    def next(self) -> int:
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)


def random_text(seed: int, n_bytes: int) -> str:
    """Scalars from the whole range until `n_bytes` are reached; surrogates are left out."""
    source, out, size = SplitMix64(seed), [], 0
    while size < n_bytes:
        code = source.next() % 0x110000
        if 0xD800 <= code <= 0xDFFF:
            continue
        out.append(chr(code))
        size += len(out[-1].encode())
    return "".join(out)


def ids_hash(ids: list[int]) -> str:
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def case(tokenizer: Tokenizer, text: str, add: bool, as_text: bool) -> dict:
    tokenizer.encode_special_tokens = as_text
    encoding = tokenizer.encode(text, add_special_tokens=add)
    tokenizer.encode_special_tokens = False
    out = {"text": text, "add_special_tokens": add, "special_tokens_as_text": as_text, "ids": encoding.ids,
           "offsets": [x for pair in encoding.offsets for x in pair],
           "words": [-1 if w is None else w for w in encoding.word_ids], "special": encoding.special_tokens_mask,
           "visible": tokenizer.decode(encoding.ids, skip_special_tokens=True),
           "raw": tokenizer.decode(encoding.ids, skip_special_tokens=False)}
    return out


def cases(tokenizer: Tokenizer) -> list[dict]:
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values()][:8]
    out = []
    for i, text in enumerate(corpus(special)):
        out.append(case(tokenizer, text, i % 2 == 0, False))
        if any(s in text for s in special):
            out.append(case(tokenizer, text, False, True))
    for data in ILL_FORMED:
        try:
            data.decode("utf-8")
            raise AssertionError(data)
        except UnicodeDecodeError as error:
            out.append({"bytes": base64.b64encode(data).decode(), "error": "UTF8", "byte_offset": error.start})
    for rule in [{"repeat": "a", "n": 1 << 20}, {"repeat": " ", "n": 1 << 20}, {"repeat": "\u0301", "n": 1 << 18},
                 {"repeat": "ab ", "n": 1 << 17}, {"random": 7, "n": 1 << 20}]:
        text = rule["repeat"] * rule["n"] if "repeat" in rule else random_text(rule["random"], rule["n"])
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        out.append({"large": rule, "n_ids": len(ids), "ids_sha256": ids_hash(ids)})
    return out


def found_files() -> list[tuple[str, dict, str]]:
    """What tells more than one implementation apart: a name, the tokenizer.json, and a text or the code of the refusal."""
    pieces = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    empty = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
             "post_processor": None, "decoder": None, "model": pieces}

    def split(pattern: str) -> dict:
        return {**empty, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}}

    out = []
    # Oniguruma repeats no anchor, nor a group that does not capture and has an anchor for one of its alternatives.
    out += [(p, split(p), "TOK-REGEX") for p in ["(?:^)*", "(?:a|\\b)+", "(?:(?=a)|b){2}", "((?:$)?)", "(?:(?:(?<=a))|b)*?", "a|(?:(?:\\G)){,2}"]]
    out += [(p, split(p), "ab\na b") for p in ["(?:^$)*", "(?:^a)*", "(^)*", "(?i:^)*", "(?>\\b)+", "(?:a|^$)*", "(?:(^)|b)*", "(?:(?i)\\b|a)*"]]
    # A group's name begins with a letter, a digit beyond ASCII, or an underscore; what follows is free.
    out += [(p, split(p), "TOK-REGEX") for p in ["(?<1a>b)", "(?<-a>b)", "(?< a>b)", "(?<0>b)", "(?<.>b)"]]
    out += [(p, split(p), "ab\na b") for p in ["(?<a-b>b)", "(?<a b>b)", "(?<\u00e9>b)", "(?<\u0661>b)", "(?<\u00b2>b)", "(?'n'b)"]]
    # Without regard to case a property outside of brackets stays what it is; inside of them it takes the other cases.
    out += [(p, split(p), "aB\u00b5 \u0399\u0301\u01c4\u01c5") for p in [
        "(?i:\\p{Lu})", "(?i:\\p{Ll}+)", "(?i:\\p{Lt})", "(?i:\\P{Lu})", "(?i:\\p{^Ll})", "(?i:\\p{Upper})", "(?i:\\p{Greek})", "(?i:\\p{M})",
        "(?i)\\p{Lu}b", "(?i:[\\p{Lu}])", "(?i:[\\p{Ll}x]+)", "(?i:[^\\p{Lt}])", "(?i:[[:upper:]])", "(?i:\\W)", "(?i:[\\W])"]]
    # A comment stands in nobody's way.
    out += [(p, split(p), "aab\na b") for p in ["a(?#c)*", "a(?#c)+?b", "b|a(?#c)(?#d){2}"]]
    # A character map needs its type.
    charsmap = base64.b64encode(bytes.fromhex("10000000") + bytes(16) + b"x\0").decode()
    out += [("untyped charsmap", {**empty, "normalizer": {"precompiled_charsmap": charsmap}}, "TOK-SCHEMA"),
            ("untyped charsmap in a sequence", {**empty, "normalizer": {"type": "Sequence", "normalizers": [
                {"precompiled_charsmap": charsmap}]}}, "TOK-SCHEMA")]
    return out


def found_case(name: str, data: dict, last: str) -> dict:
    try:
        tokenizer = Tokenizer.from_str(json.dumps(data))
    except Exception as error:  # pylint: disable=broad-exception-caught  # the binding raises no narrower class
        if not last.startswith("TOK-"):
            raise AssertionError(name) from error
        return {"name": name, "tokenizer": data, "code": last, "message": str(error)}
    assert not last.startswith("TOK-"), name
    return {"name": name, "tokenizer": data, **case(tokenizer, last, True, False)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "vectors" / "tokenizer")
    parser.add_argument("--check", action="store_true", help="compare the .jsonl files, write nothing")
    parser.add_argument("--retrain", action="store_true", help="make the small tokenizers again")
    args = parser.parse_args()
    if tokenizers.__version__ != REFERENCE:
        raise SystemExit(f"tokenizers {tokenizers.__version__}, not {REFERENCE}")
    makers = {"byte_level_digits": byte_level_digits, "byte_level_nfc": byte_level_nfc,
              "byte_fallback_normalizer": lambda: byte_fallback(False), "byte_fallback_metaspace": lambda: byte_fallback(True),
              "metaspace_split": metaspace_split}
    if args.retrain:
        args.out.mkdir(parents=True, exist_ok=True)
        for name, make in makers.items():
            data = json.loads(make().to_str())
            (args.out / f"{name}.tokenizer.json").write_text(
                json.dumps(data, separators=(",", ":"), ensure_ascii=True) + "\n", encoding="ascii")
    sources = {name: args.out / f"{name}.tokenizer.json" for name in makers}
    sources["slm_demo"] = ROOT / "models" / "slm-demo" / "tokenizer.json"
    tables = {"found/patterns": [{"reference": f"tokenizers {REFERENCE}", "offsets": "unicode scalar values"},
                        *({"id": i, **found_case(*each)} for i, each in enumerate(found_files()))]}
    for name, source in sources.items():
        if not source.exists():
            print(f"{source} is not there; {name} left out")
            continue
        tokenizer = Tokenizer.from_file(str(source))
        header = {"reference": f"tokenizers {REFERENCE}", "tokenizer": str(source.resolve().relative_to(ROOT)),
                  "tokenizer_sha256": hashlib.sha256(source.read_bytes()).hexdigest(), "offsets": "unicode scalar values"}
        tables[name] = [header, *({"id": i, **c} for i, c in enumerate(cases(tokenizer)))]
    differ = False
    for name, lines in tables.items():
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=True) + "\n" for line in lines)
        path = args.out / f"{name}.jsonl"
        if args.check:
            if not path.exists() or path.read_text(encoding="ascii") != text:
                print(f"{path} differs from what the reference gives")
                differ = True
        else:
            path.write_text(text, encoding="ascii")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
