"""CFG-02, TOK-07: the profile's list of keys of tokenizer_config.json, against the pinned source.

Every key that its tokenizer classes read is on the list; a key that the list calls without effect has none on ids,
text or chat template; a listed class is one that it builds from tokenizer.json.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import re
import shutil
import tempfile
import unittest
from typing import Any

import transformers
from transformers import AutoTokenizer
from transformers.models.auto.tokenization_auto import tokenizer_class_from_name
from transformers.models.gpt2.tokenization_gpt2 import GPT2Tokenizer
from transformers.models.llama.tokenization_llama import LlamaTokenizer
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "slm-demo"
KEYS = json.loads((ROOT / "profiles" / "acquire" / "hf-directory-v2.json").read_text(encoding="utf-8"))["keys"]
ROWS = {row["key"]: row for row in KEYS["files"]["tokenizer_config.json"]}
TEXTS = ("<|im_start|>hello  world , it 's 12 34", "A cat . Is 0 ?")
ODD: tuple[Any, ...] = (True, False, "x", 7, ["a"], {"a": 1}, None)


def is_listed(key: str) -> bool:
    return key in ROWS or any(row.startswith("*") and key.endswith(row[1:]) for row in ROWS)


def class_built(name: str) -> Any:
    """The class that AutoTokenizer of the pinned source takes for a name, as its last branch does."""
    name = name.removesuffix("Fast")
    found = tokenizer_class_from_name(name) or tokenizer_class_from_name(name + "Fast")
    return TokenizersBackend if found is not None and found.__name__ == "PythonBackend" else found


def names_in_source() -> set[str]:
    """Names of tokenizer classes, and their aliases, in the modules of the pinned source."""
    folder = pathlib.Path(transformers.__file__).parent
    names = {"PreTrainedTokenizer", "PreTrainedTokenizerFast", "PythonBackend", "TokenizersBackend"}
    for file in [*folder.glob("models/*/tokenization_*.py"), *folder.glob("tokenization_*.py")]:
        text = file.read_text(encoding="utf-8")
        names |= set(re.findall(r"^class (\w*Tokenizer\w*)\b", text, re.M))
        names |= set(re.findall(r"^(\w*Tokenizer\w*) = \w+", text, re.M))
        for listed in re.findall(r"__all__ = \[(.*?)\]", text, re.S):
            names |= set(re.findall(r'"(\w*Tokeniz\w*)"', listed))
    auto = inspect.getsource(transformers.models.auto.tokenization_auto)
    names |= set(re.findall(r'"(\w+Tokenizer)"', auto))
    return names | {name + "Fast" for name in names if name.endswith("Tokenizer")}


class TokenizerKeys(unittest.TestCase):
    def test_version(self) -> None:
        self.assertEqual(KEYS["pinned_source"], f"transformers {transformers.__version__}")

    def test_every_key_that_is_read_is_listed(self) -> None:
        read: set[str] = set()
        for function in (PreTrainedTokenizerBase.__init__, TokenizersBackend.__init__,
                         PreTrainedTokenizerBase._from_pretrained, PreTrainedTokenizerBase.from_pretrained,
                         AutoTokenizer.from_pretrained.__func__):
            text = inspect.getsource(function)
            if function in (PreTrainedTokenizerBase.__init__, TokenizersBackend.__init__):
                read |= set(re.findall(r'kwargs\.(?:pop|get)\("(\w+)"', text))
            read |= set(re.findall(r'(?:init_kwargs|tokenizer_config)(?:\.pop\(|\.get\(|\[)"(\w+)"', text))
            read |= set(re.findall(r'"(\w+)" in (?:init_kwargs|tokenizer_config)\b', text))
        for a_class in (LlamaTokenizer, GPT2Tokenizer, Qwen2Tokenizer):
            read |= set(inspect.signature(a_class.__init__).parameters) - {"self", "kwargs"}
        read |= set(inspect.signature(TokenizersBackend.convert_to_native_format).parameters) - {"kwargs"}
        self.assertGreater(len(read), 40)
        self.assertEqual({key for key in read if not is_listed(key)}, set())

    def test_classes(self) -> None:
        wanted = {None}
        for name in names_in_source():
            built = class_built(name)
            if built is not None and issubclass(built, TokenizersBackend):
                wanted.add(name)
        self.assertEqual(set(ROWS["tokenizer_class"]["values"]), wanted)

    def test_keys_without_effect_have_none(self) -> None:
        settings = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for name in ("config.json", "tokenizer.json", "chat_template.jinja"):
                shutil.copy(MODEL / name, folder / name)
            plain = self.behaviour(folder, settings)
            tried = 0
            for key, row in ROWS.items():
                if row["class"] == "consumed" or key == "tokenizer_class":
                    continue
                for value in row.get("values", ODD):
                    with self.subTest(key=key, value=value):
                        try:
                            got = self.behaviour(folder, {**settings, key: value})
                        except Exception:  # pylint: disable=broad-except
                            # A value that the list allows by name must load; of the odd ones some cannot.
                            if "values" in row:
                                raise
                            continue
                        self.assertEqual(got, plain)
                        tried += 1
            self.assertGreater(tried, 300)
            # The comparison can fail: this key is refused because it changes ids.
            self.assertNotEqual(self.behaviour(folder, {**settings, "split_special_tokens": True}), plain)

    @staticmethod
    def behaviour(folder: pathlib.Path, settings: dict[str, Any]) -> str:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        ids = [tokenizer(text)["input_ids"] for text in TEXTS]
        decoded = [tokenizer.decode(row) for row in ids]
        messages = [{"role": "user", "content": "<|im_end|> hi"}]
        chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return json.dumps([tokenizer.backend_tokenizer.to_str(), ids, decoded, chat])


if __name__ == "__main__":
    unittest.main()
