#!/usr/bin/env python3
"""`slm tokenize DIR --compare` says where the vocabularies of one directory part (TOK-13), unaided.

    directory_test.py --slm PATH --models DIR [--strings N]

DIR holds published tokenizer.json and SentencePiece files. Each text that the command names must be one on which the two
libraries differ, with the ids that it names: Hugging Face's `tokenizers` for tokenizer.json, `sentencepiece` for .model. It
must find what is known of such pairs: XLNet's sums in double or float on repeated letters, and the character map that one looks
up by grapheme cluster and the other by the longest entry. Exit status 1 on a fault, 77 without the two libraries.
"""
import argparse
import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import gguf_files as packed
from gguf_against_reference import charsmap_of

try:
    import sentencepiece
    import tokenizers
except ImportError:
    print("not-run: directory_test: the Python packages tokenizers and sentencepiece are not installed")
    sys.exit(77)


def compare(slm: str, folder: pathlib.Path, strings: int) -> tuple[int, dict]:
    done = subprocess.run([slm, "--json", "tokenize", str(folder), "--compare", "--strings", str(strings)], capture_output=True,
                          text=True, encoding="utf-8", check=False)
    return done.returncode, json.loads(done.stdout.split("\n")[0])


def of_sentencepiece(model: bytes) -> str:
    """A tokenizer.json of the same pieces, with nothing but the character map before them."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [[processor.id_to_piece(i), processor.get_score(i)] for i in range(processor.get_piece_size())]
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap_of(model)).decode()}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer,
                       "pre_tokenizer": metaspace, "post_processor": None, "decoder": metaspace,
                       "model": {"type": "Unigram", "unk_id": processor.unk_id(), "vocab": pieces, "byte_fallback": False}})


def check_pair(folder: pathlib.Path, pair: dict) -> list[dict]:
    """Every difference that is named holds in the libraries."""
    file = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    found = [one for one in pair["differences"] if one["kind"] in ("text before the model", "model")]
    for one in found:
        text = one["text"]
        assert file.encode(text, add_special_tokens=False).ids == one["first"], one
        assert processor.encode(text) == one["second"], one
        assert one["first"] != one["second"], one
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slm", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--strings", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def fill(sub: str, json_text: str, model: pathlib.Path) -> pathlib.Path:
            (folder / sub).mkdir()
            (folder / sub / "tokenizer.json").write_text(json_text, encoding="utf-8")
            shutil.copyfile(model, folder / sub / "spiece.model")
            return folder / sub

        xlnet = fill("xlnet", (args.models / "xlnet_base_cased.tokenizer.json").read_text(encoding="utf-8"), args.models / "xlnet_base_cased.model")
        status, report = compare(args.slm, xlnet, args.strings)
        assert status == 3 and not report["equal"] and len(report["pairs"]) == 1, report
        found = check_pair(xlnet, report["pairs"][0])
        sums = [one["text"] for one in found if one["kind"] == "model" and len(set(one["text"])) == 1 and one["text"].isalpha()]
        assert sums, found
        print(f"XLNet: {min(sums, key=len)!r} tells sums in double from sums in float; {len(found)} differences, all as in the libraries")

        t5 = args.models / "nai-t5.model"
        mapped = fill("mapped", of_sentencepiece(t5.read_bytes()), t5)
        status, report = compare(args.slm, mapped, args.strings)
        found = check_pair(mapped, report["pairs"][0])
        marks = [one["text"] for one in found if one["kind"] == "text before the model"
                 and any(unicodedata.category(c).startswith("M") for c in one["text"])]
        assert status == 3 and marks, found
        print(f"Precompiled: {min(marks, key=len)!r} tells the shortest entry for a cluster from the longest; {len(found)} differences")
        searched = report["pairs"][0]["searched"]
        assert searched["generated"] == args.strings, searched
        assert searched["tokens"] > 3 * 32_000 and searched["merges"] > 32_000 and searched["corpus"] > 100, searched

        # The same pieces in all three forms: the GGUF file knows no character map's clusters either.
        llama = folder / "llama"
        llama.mkdir()
        shutil.copyfile(args.models / "llama2.model", llama / "tokenizer.model")
        processor = sentencepiece.SentencePieceProcessor(model_file=str(llama / "tokenizer.model"))
        for file in ("a.gguf", "b.gguf"):
            (llama / file).write_bytes(packed.of_sentencepiece(processor, "llama"))
        status, report = compare(args.slm, llama, 2000)
        same = [pair["equal"] for pair in report["pairs"]]
        names = [(pathlib.Path(pair["first_file"]).name, pathlib.Path(pair["second_file"]).name) for pair in report["pairs"]]
        assert status == 3 and names == [("a.gguf", "b.gguf"), ("a.gguf", "tokenizer.model"), ("b.gguf", "tokenizer.model")], report
        assert same == [True, False, False], report
        kinds = {one["kind"] for one in report["pairs"][1]["differences"]}
        assert {"tokens put in", "special tokens in the text"} <= kinds, kinds
        (llama / "tokenizer.model").unlink()
        status, report = compare(args.slm, llama, 2000)
        assert status == 0 and report["equal"], report
        (llama / "b.gguf").unlink()
        done = subprocess.run([args.slm, "--json", "tokenize", str(llama), "--compare"], capture_output=True, text=True, check=False)
        assert done.returncode == 3 and json.loads(done.stdout)["error"]["code"] == "NOT-FOUND", done
    print(f"figures: XLNet parts at {min(sums, key=len)!r}, the character map at {ascii(min(marks, key=len))}, {args.strings} strings each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
