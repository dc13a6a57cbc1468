"""References of L1 and L2: the published tokenizer as its library runs it, the one that AutoTokenizer builds,
and the rendered chat prompts."""

from __future__ import annotations

import itertools
import struct
from typing import Any, Iterator

from tokenizers import Tokenizer
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import _compile_jinja_template

from . import OracleError
from .cases import Case
from .owners import ownership
from .source import Source

# Texts that tell tokenizers apart, shortest first: every printable ASCII character and some of each kind of
# Unicode text alone, then pairs and triples over smaller alphabets.
_SINGLES = [chr(c) for c in range(32, 127)] + list("\t\n\r\x00\x0b\x0c\x85\xa0\xad\u00c5\u00df\u0130\u0301\u0663\u0905\u0e01\u200b\u200d"
                                                   "\u2028\u3000\u4e2d\uac00\uff21\ufb01\ufeff\U0001f600\U000e0001")
_PAIRS = list(" aZ\u00e91'\n\t.,_-!\u4e2d\U0001f389") + ["\u00a0", "\u0301", "\u200b"]
_TRIPLES = list(" aZ1'\n.\u00e9")


def _probes() -> Iterator[str]:
    yield from _SINGLES
    for size, alphabet in ((2, _PAIRS), (3, _TRIPLES)):
        for letters in itertools.product(alphabet, repeat=size):
            yield "".join(letters)


def _u32(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def _byte_offsets(text: str, scalar: list[tuple[int, int]]) -> list[int]:
    at = [0]
    for letter in text:
        at.append(at[-1] + len(letter.encode("utf-8")))
    return [at[edge] for pair in scalar for edge in pair]


class Tokens:
    def __init__(self, source: Source) -> None:
        self.has_tokenizer = source.read("tokenizer.json") is not None
        if not self.has_tokenizer:
            return
        self.published = Tokenizer.from_file(source.path("tokenizer.json"))
        # A case is fed whole, as Transformers feeds it, whatever lengths the file declares.
        self.published.no_truncation()
        self.published.no_padding()
        self.auto = AutoTokenizer.from_pretrained(source.directory, local_files_only=True, trust_remote_code=False)
        self.effective: Tokenizer = self.auto.backend_tokenizer
        self.effective_json: bytes = self.effective.to_str(pretty=False).encode("utf-8")
        self.effective.no_truncation()
        self.effective.no_padding()
        template = self.auto.chat_template
        if template is not None and not isinstance(template, str):
            raise OracleError("several chat templates, and the publisher chose none")
        self.template: str | None = template

    def render(self, case: Case) -> str:
        if self.template is None:
            raise OracleError(f"case {case.id}: the source has no chat template")
        if "strftime_now" in self.template:
            raise OracleError("the chat template reads the clock; the oracle has none")
        return self.auto.apply_chat_template(
            case.messages, tools=None, documents=None, add_generation_prompt=case.add_generation_prompt, tokenize=False)

    def owners(self, case: Case, rendered: str) -> list[dict[str, Any]] | None:
        """Who put each byte of `rendered` there; none where the template does not let it be shown."""
        # The public call copies texts into plain strings, which would lose the stand-ins: the same compiled template.
        compiled = _compile_jinja_template(self.template)

        def render(messages: list[Any]) -> str:
            return compiled.render(messages=messages, tools=None, documents=None,
                                   add_generation_prompt=case.add_generation_prompt, **self.auto.special_tokens_map)

        if render(case.messages) != rendered:
            return None
        return ownership(render, case.messages, rendered)

    def tokenization(self, reference: str, text: str, of: str, special: bool) -> dict[str, Any]:
        if reference == "published":
            encoding = self.published.encode(text, add_special_tokens=special)
            ids, offsets, tokenizer = encoding.ids, encoding.offsets, self.published
        else:
            encoding = self.auto(text, add_special_tokens=special, return_offsets_mapping=True)
            ids, offsets, tokenizer = encoding["input_ids"], encoding["offset_mapping"], self.effective
        flat = [edge for pair in offsets for edge in pair]
        return {"reference": reference, "of": of, "add_special_tokens": special, "ids": _u32(ids),
                "scalar_offsets": _u32(flat), "byte_offsets": _u32(_byte_offsets(text, offsets)),
                "decoded": tokenizer.decode(ids, skip_special_tokens=True).encode("utf-8")}

    def decode(self, ids: list[int]) -> bytes:
        return self.published.decode(ids, skip_special_tokens=True).encode("utf-8")

    def first_difference(self, texts: list[tuple[str, bool]]) -> dict[str, Any] | None:
        """The shortest of the probes and of the suite's texts on which the two tokenizers differ."""
        added = [token.content for _, token in sorted(self.published.get_added_tokens_decoder().items())]
        candidates = [(text, True) for text in itertools.chain(_probes(), added, (f"a {text} b" for text in added))]
        for text, special in sorted(candidates + texts, key=lambda item: len(item[0])):
            published = self.published.encode(text, add_special_tokens=special).ids
            effective = self.effective.encode(text, add_special_tokens=special).ids
            if published != effective:
                return {"text": text.encode("utf-8"), "add_special_tokens": special,
                        "published_ids": _u32(published), "effective_ids": _u32(effective)}
        return None

    def findings(self, texts: list[tuple[str, bool]]) -> dict[str, Any]:
        suite = all(self.published.encode(text, add_special_tokens=special).ids
                    == self.effective.encode(text, add_special_tokens=special).ids for text, special in texts)
        result: dict[str, Any] = {"effective_class": type(self.auto).__name__, "same_ids": suite}
        difference = self.first_difference(texts)
        if difference is not None:
            result["first_difference"] = difference
        return result
