#!/usr/bin/env python3
"""Writes vectors/chat/token_owners.jsonl: where BOS and EOS stand in prompts of published templates and tokenizers (TPL-05).

Run with the interpreter of the oracle's locked environment, beside shared/. Each row: a tokenizer and a template of shared/vectors (by
name), and what Transformers' apply_chat_template and its tokenizer give for one conversation: how often each token stands in the
prompt's ids, whether it stands at the edge, how many the tokenizer adds to plain text, and whether two would
stand side by side had the tokenizer been left to add its own. The first row names the versions. Only figures: no published text.
"""
import json
import pathlib
import sys

import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
VECTORS = ROOT.parent / "shared" / "vectors"
OUT = ROOT / "vectors" / "chat" / "token_owners.jsonl"
TALK = [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Good day"}]
# tokenizer, its BOS and EOS: llama2 and mistral01 put a BOS before plain text, bert both, xlnet one after it, gpt2 none.
TOKENIZERS = [("llama2", "<s>", "</s>"), ("mistral01", "<s>", "</s>"), ("bert_base_cased", "[CLS]", "[SEP]"), ("xlnet_base_cased", "<s>", "<sep>"),
              ("gpt2", "<|endoftext|>", "<|endoftext|>")]
N_EACH = 6  # templates of each combination: BOS there or not, at the edge or not, EOS likewise


def row_of(tokenizer, name: str, template: str, file: str) -> dict | None:
    try:
        text = tokenizer.apply_chat_template(TALK, chat_template=template, tokenize=False)
        ids = tokenizer.apply_chat_template(TALK, chat_template=template, tokenize=True, return_dict=False)
    except Exception:  # no prompt, no owner
        return None
    if not ids:
        return None
    row = {"tokenizer": name, "template": file}
    plain, added = (tokenizer("Hello there", add_special_tokens=flag)["input_ids"] for flag in (False, True))
    again = tokenizer(text, add_special_tokens=True)["input_ids"]
    for key, token, edge in (("bos", tokenizer.bos_token_id, 0), ("eos", tokenizer.eos_token_id, -1)):
        def pairs(of: list[int]) -> int:
            return sum(a == b == token for a, b in zip(of, of[1:]))
        row[key] = {"token": tokenizer.convert_ids_to_tokens(token), "in_prompt": ids.count(token), "at_edge": ids[edge] == token,
                    "added_to_text": added.count(token) - plain.count(token), "would_double": pairs(again) > pairs(ids)}
    return row


def main() -> None:
    files = sorted((VECTORS / "templates" / "files").glob("*.jinja"))
    rows: list[dict] = [{"reference": f"transformers {transformers.__version__}"}]
    for name, bos, eos in TOKENIZERS:
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(VECTORS / "tokenizers" / "models" / f"{name}.tokenizer.json"),
                                                         bos_token=bos, eos_token=eos)
        kept: dict[tuple, int] = {}
        for file in files:
            row = row_of(tokenizer, name, file.read_bytes().decode(), file.stem)
            if row is None:
                continue
            kind = tuple((row[key]["in_prompt"] > 0, row[key]["at_edge"]) for key in ("bos", "eos"))
            kept[kind] = kept.get(kind, 0) + 1
            if kept[kind] <= N_EACH:
                rows.append(row)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if "--check" in sys.argv:
        sys.exit(0 if OUT.read_text() == text else f"{OUT} is not what the reference gives")
    OUT.write_text(text)


if __name__ == "__main__":
    main()
