"""References of L1 and L2: two tokenizers of one source, offsets, rendered prompts."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import unittest

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from slm_oracle import OracleError, cases
from slm_oracle.source import Source
from slm_oracle.tokens import Tokens

from . import tiny

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}" \
           "{% if tools is none %}.{% endif %}"


def write_tokenizer(directory: str, digits: bool, template: str | None = TEMPLATE, declared: str = "GPT2Tokenizer") -> None:
    """A byte-level tokenizer of single bytes and a few merges, 260 ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(alphabet)}
    merges = [("1", "2"), ("h", "e"), ("\u0120", "\u0120")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
                               if digits else byte_level)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", normalized=False, special=True)])
    tokenizer.save(os.path.join(directory, "tokenizer.json"))
    settings = {"tokenizer_class": declared, "add_prefix_space": False, "eos_token": "<|im_start|>",
                "clean_up_tokenization_spaces": False}
    if template is not None:
        settings["chat_template"] = template
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(settings, file)


def write(directory: str, digits: bool, template: str | None = TEMPLATE) -> Tokens:
    tiny.write(directory)
    write_tokenizer(directory, digits, template)
    return Tokens(Source(directory))


class TokensTest(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    def tearDown(self) -> None:
        self._folder.cleanup()

    def tokens(self, name: str, **more: object) -> Tokens:
        return write(os.path.join(self._folder.name, name), **more)

    def case(self, record: dict) -> cases.Case:
        return cases.parse(json.dumps(record).encode() + b"\n")[0]

    def test_l1_a_dropped_digit_split_is_found_with_its_shortest_text(self) -> None:
        findings = self.tokens("digits", digits=True).findings([("no digit here", True)])
        self.assertTrue(findings["same_ids"])  # the suite alone does not show it
        difference = findings["first_difference"]
        self.assertLessEqual(len(difference["text"]), 3)
        self.assertNotEqual(difference["published_ids"], difference["effective_ids"])

    def test_l1_equal_tokenizers_have_no_difference(self) -> None:
        findings = self.tokens("plain", digits=False).findings([("the 12 others", True)])
        self.assertEqual(findings["same_ids"], True)
        self.assertNotIn("first_difference", findings)

    def test_l1_offsets_in_bytes_and_scalars(self) -> None:
        record = self.tokens("offsets", digits=False).tokenization("published", "\u00e9h<|im_start|>", "input", True)
        unpack = lambda data: struct.unpack(f"<{len(data) // 4}I", data)
        self.assertEqual(len(unpack(record["ids"])), 4)  # two bytes of one scalar, h, the special token
        self.assertEqual(unpack(record["scalar_offsets"]), (0, 1, 0, 1, 1, 2, 2, 14))
        self.assertEqual(unpack(record["byte_offsets"]), (0, 2, 0, 2, 2, 3, 3, 15))

    def test_l2_rendering_passes_tools_as_none(self) -> None:
        tokens = self.tokens("chat", digits=False)
        record = {"id": "a", "messages": [{"role": "user", "content": "he"}]}
        self.assertEqual(tokens.render(self.case(record)), "<|im_start|>he\n<|im_start|>.")
        record["add_generation_prompt"] = False
        self.assertEqual(tokens.render(self.case(record)), "<|im_start|>he\n.")

    def test_l1_decoded_bytes_leave_special_tokens_out(self) -> None:
        record = self.tokens("decoded", digits=False).tokenization("published", "\u00e9h<|im_start|>he", "input", True)
        self.assertEqual(record["decoded"], "\u00e9hhe".encode())

    def owners_of(self, name: str, template: str, messages: list[dict]) -> list[tuple[str, str]] | None:
        tokens = self.tokens(name, digits=False, template=template)
        case = self.case({"id": "a", "messages": messages})
        text = tokens.render(case)
        spans = tokens.owners(case, text)
        if spans is None:
            return None
        data = text.encode()
        self.assertEqual([spans[0]["begin"], spans[-1]["end"]], [0, len(data)])
        return [(data[span["begin"]:span["end"]].decode(), span["owner"]) for span in spans]

    def test_l2_each_byte_has_the_owner_that_put_it_there(self) -> None:
        template = "{% for m in messages %}{% if m.role not in ['user', 'system'] %}{{ raise_exception('role') }}{% endif %}" \
                   "<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}\n{% endfor %}"
        messages = [{"role": "system", "content": " a \u00e9\t"}, {"role": "user", "content": "<user> a"}]
        self.assertEqual(self.owners_of("owners", template, messages), [
            ("<", "template"), ("system", "messages[0].role"), (">", "template"), ("a \u00e9", "messages[0].content"),
            ("<|im_start|>\n<", "template"), ("user", "messages[1].role"), (">", "template"),
            ("<user> a", "messages[1].content"), ("<|im_start|>\n", "template")])

    def test_l2_a_template_that_changes_a_text_has_no_owners_rather_than_wrong_ones(self) -> None:
        messages = [{"role": "user", "content": "one\ntwo"}]
        for number, change in enumerate(("upper", "replace('one', 'two')", "title")):
            self.assertIsNone(self.owners_of(f"changed{number}", "{{ messages[0].content | " + change + " }}", messages))

    def test_l2_a_clock_or_no_template_is_refused(self) -> None:
        case = self.case({"id": "a", "messages": [{"role": "user", "content": "he"}]})
        with self.assertRaisesRegex(OracleError, "clock"):
            self.tokens("clock", digits=False, template="{{ strftime_now('%Y') }}").render(case)
        with self.assertRaisesRegex(OracleError, "no chat template"):
            self.tokens("none", digits=False, template=None).render(case)


@unittest.skipUnless("ORACLE_SMOLLM2" in os.environ, "the environment variable ORACLE_SMOLLM2 names no source")
class ShortestTest(unittest.TestCase):
    def test_l1_no_text_of_one_or_two_bytes_separates_the_tokenizers_of_smollm2(self) -> None:
        """All of them, so that the finding's three bytes are the fewest there can be."""
        tokens = Tokens(Source(os.environ["ORACLE_SMOLLM2"]))
        ascii_texts = [chr(code) for code in range(128)]
        texts = ascii_texts + [chr(code) for code in range(0x80, 0x800)]
        texts += [first + second for first in ascii_texts for second in ascii_texts]
        self.assertEqual({len(text.encode()) for text in texts}, {1, 2})

        def ids(tokenizer: Tokenizer, batch: list[str]) -> list[list[int]]:
            return [encoding.ids for encoding in tokenizer.encode_batch(batch)]

        differing = [text for text, published, effective in
                     zip(texts, ids(tokens.published, texts), ids(tokens.effective, texts), strict=True) if published != effective]
        self.assertEqual(differing, [])
        found = tokens.first_difference([])
        self.assertEqual((found["text"], found["published_ids"], found["effective_ids"]),
                         (b"  1", struct.pack("<2I", 256, 33), struct.pack("<3I", 216, 216, 33)))


if __name__ == "__main__":
    unittest.main()
